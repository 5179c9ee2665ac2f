"""Cards behind the gateway: where they are, what they say, and what they never say."""

import pytest
from a2a.client import AuthInterceptor, ClientConfig, CredentialService, create_client
from a2a.client.client import ClientCallContext
from a2a.types import GetTaskRequest, TaskState

from tests.e2e.sdk import BINDINGS, COMPLETED, open_http, saying, send
from tests.e2e.site import ACME_KEY, DESK_KEY, GLOBEX_KEY, WAYS, Site, Way, api_key, bearer, token
from tests.e2e.wire import without_request_id

pytestmark = pytest.mark.anyio

NAMES = ("/.well-known/agent-card.json", "/.well-known/agent.json")
PUBLIC = ("/echo", "/housed", "/a2a/billing", "/a2a/sales", "/crm", "/bare")


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_card_that_has_not_changed_is_not_sent_again(site: Site, way: Way, name: str) -> None:
    url = site.gateway.url + way.path + name
    async with open_http(way.headers) as http:
        first = await http.get(url)
        known = await http.get(url, headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
        head = await http.head(url)
        other = await http.get(url, headers={"If-None-Match": '"other"'})
    assert (known.status_code, known.content) == (304, b"")
    assert known.headers["etag"] == first.headers["etag"] == head.headers["etag"]
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(first.content))
    assert other.content == first.content
    for answer in (first, known, head):
        assert answer.headers["x-request-id"]
        # What it says depends on who asks, and a shared cache must know.
        assert {"Authorization", "X-API-Key"} <= {part.strip() for part in answer.headers["vary"].split(",")}
        assert "max-age" in answer.headers["cache-control"]


@pytest.mark.parametrize("path", PUBLIC)
async def test_a_stranger_reads_public_cards(site: Site, path: str) -> None:
    async with open_http() as http:
        answer = await http.get(site.gateway.url + path + NAMES[0])
    assert answer.status_code == 200
    assert set(answer.json()["securitySchemes"]) == {"bearer", "api_key"}
    assert answer.json()["securityRequirements"]
    assert not any(port in answer.text for port in site.ports)


async def test_a_stranger_sees_the_product_and_no_customer(site: Site) -> None:
    async with open_http() as http:
        answer = await http.get(site.gateway.url + "/crm" + NAMES[0])
        named = await http.get(site.gateway.url + "/crm/globex" + NAMES[0])
        invented = await http.get(site.gateway.url + "/crm/nobody" + NAMES[0])
    assert all("tenant" not in interface for interface in answer.json()["supportedInterfaces"])
    assert named.status_code == 401
    assert without_request_id(named) == without_request_id(invented)


async def test_a_card_picked_by_a_credential_is_there_for_that_credential_only(site: Site) -> None:
    url = site.gateway.url + "/desk" + NAMES[0]
    async with open_http() as http:
        seen = {
            name: await http.get(url, headers=headers)
            for name, headers in {
                "stranger": {},
                "key": api_key(DESK_KEY),
                "claim": bearer(token()),
                "no claim": bearer(token(agent=...)),
                "other": api_key(GLOBEX_KEY),
            }.items()
        }
    # Nobody is told which agents are there, but how to sign in.
    stranger = seen["stranger"].json()
    assert (stranger["name"], stranger["skills"]) == ("127.0.0.1", [])
    assert {each["url"] for each in stranger["supportedInterfaces"]} == {site.gateway.url + "/desk"}
    assert stranger["securitySchemes"].keys() == {"bearer", "api_key"}
    assert not any(name in seen["stranger"].text for name in ("alpha", "beta", "gamma"))
    assert seen["key"].json()["name"] == "alpha"
    assert seen["claim"].json()["name"] == "beta"
    assert seen["no claim"].status_code == 404
    assert seen["other"].status_code == 404


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
