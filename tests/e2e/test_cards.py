"""Cards behind the gateway: where they are, what they say, and what they never say."""

import pytest
from a2a.client import AuthInterceptor, ClientConfig, CredentialService, create_client
from a2a.client.client import ClientCallContext
from a2a.types import GetTaskRequest, TaskState

from tests.e2e.sdk import BINDINGS, COMPLETED, open_http, saying, send
from tests.e2e.site import ACME_KEY, WAYS, Site, Way, token

pytestmark = pytest.mark.anyio

NAMES = ("/.well-known/agent-card.json", "/.well-known/agent.json")


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_card_leads_back_to_the_gateway_and_nowhere_else(site: Site, way: Way) -> None:
    async with open_http(way.headers) as http:
        answers = [await http.get(site.gateway.url + way.path + name) for name in NAMES]
    url = site.gateway.url + way.url
    # Before 1.0 a client cannot say the tenant, so its URL does.
    older = f"{url.rstrip('/')}/{way.tenant}" if way.tenant else url
    whole, old = (answer.json() for answer in answers)
    interfaces = [
        (each["protocolVersion"], each["protocolBinding"], each["url"], each.get("tenant", ""))
        for each in whole["supportedInterfaces"]
    ]
    assert interfaces == [
        *(("1.0", binding, url, way.tenant) for binding in BINDINGS),
        *(("0.3", binding, older, "") for binding in BINDINGS),
    ]
    for answer, card in zip(answers, (whole, old), strict=True):
        assert answer.status_code == 200
        assert card["name"] == way.agent
        assert (card["url"], card["preferredTransport"]) == (older, "JSONRPC")
        assert card["additionalInterfaces"] == [{"transport": "HTTP+JSON", "url": older}]
        assert ("supportedInterfaces" in card) is (card is whole)
        everything = answer.text + str(answer.headers)
        assert not any(port in everything for port in site.ports)
        assert "upstream.example" not in everything
        assert "house" not in everything.replace(way.path, "").replace(f'"{way.agent}"', "").replace("agent housed", "")


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(("scheme", "credential"), [("api_key", ACME_KEY), ("bearer", ACME_KEY), ("bearer", token())])
async def test_a_client_finds_on_the_card_how_to_show_its_credential(
    site: Site, binding: str, scheme: str, credential: str
) -> None:
    class Wallet(CredentialService):
        async def get_credentials(self, security_scheme_name: str, context: ClientCallContext | None) -> str | None:
            return credential if security_scheme_name == scheme else None

    async with open_http() as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=False)
        client = await create_client(site.gateway.url + "/echo", config, [AuthInterceptor(Wallet())])
        task = await send(client, saying("hello"))
        assert task.status.state == COMPLETED
        found = await client.get_task(GetTaskRequest(id=task.id))
        assert found.status.state == TaskState.TASK_STATE_COMPLETED
