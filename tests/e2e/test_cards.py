"""Cards behind the gateway, read by the official client: they tell how to show a credential."""

import pytest
from a2a.client import AuthInterceptor, ClientCallContext, ClientConfig, CredentialService, create_client
from a2a.types import GetTaskRequest

from tests.e2e.agents.grounds import Grounds
from tests.e2e.sdk import BINDINGS, COMPLETED, open_http, saying, send
from tests.e2e.site import token
from tests.identity.issuance import ISSUER, jwk, rsa_key
from tests.identity.provider import KEYS
from tests.support.gateway import keys, running, secret
from tests.table import for_each

pytestmark = pytest.mark.anyio


@for_each("binding", BINDINGS)
@for_each("scheme", ["api_key", "bearer"])
async def test_a_client_finds_on_the_card_how_to_show_its_credential(
    ground: Grounds, binding: str, scheme: str
) -> None:
    shown = secret("acme").decode() if scheme == "api_key" else token()

    class Wallet(CredentialService):
        async def get_credentials(self, security_scheme_name: str, context: ClientCallContext | None) -> str | None:
            return shown if security_scheme_name == scheme else None

    agent, issuer = ground.agent("echo"), ground.provider()
    issuer.publish(jwk(rsa_key()))
    text = f"""\
{keys(acme="acme")}
  issuers: {{ corp: {{ issuer: "{ISSUER}", audience: agents, jwks: "{issuer.url}{KEYS}", tenant_claim: org }} }}
tenants: {{ acme: [echo] }}
agents: {{ echo: {agent.url} }}
"""
    async with running(text) as gateway, open_http() as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=False)
        url = f"http://127.0.0.1:{gateway.port}/echo"
        client = await create_client(url, config, [AuthInterceptor(Wallet())])
        task = await send(client, saying("hello"))
        assert task.status.state == COMPLETED
        assert (await client.get_task(GetTaskRequest(id=task.id))).status.state == COMPLETED
