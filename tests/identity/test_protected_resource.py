"""Clients learn where tokens come from: the challenge of a 401, protected resource metadata, and the served card."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # it ships no types

from gateway.a2a.operation import Operation
from tests.identity.corpus.genuine import published
from tests.identity.issuance import DISCOVERY
from tests.identity.provider import KEYS, Provider, provider
from tests.support.assembly import CARD
from tests.support.gateway import CALL, RESULT, Running, agent, running
from tests.support.grpc_agent import grpc_over
from tests.support.grpc_gateway import dialled
from tests.support.scripted import ScriptedBackend, answers, whole

pytestmark = pytest.mark.anyio
__all__ = ("grpc_over",)

WELL_KNOWN = "/.well-known/oauth-protected-resource"
FLOWS = {"authorization_endpoint": "https://idp.test/authorize", "token_endpoint": "https://idp.test/token"}


@dataclass(frozen=True, slots=True)
class Site:
    gateway: Running
    served: Provider

    @property
    def url(self) -> str:
        return self.gateway.gateway.public_url

    async def challenge(self, path: str) -> str:
        """The challenge of a 401 at a path."""
        answer = await self.gateway.post(path, CALL)
        assert answer.status == 401, answer
        return answer.header("www-authenticate") or ""

    async def metadata(self, path: str) -> dict[str, Any]:
        answer = await self.gateway.get(WELL_KNOWN + path)
        assert (answer.status, answer.header("content-type")) == (200, "application/json")
        assert answer.header("cache-control") == "public, max-age=60"
        found: dict[str, Any] = answer.json
        return found


@asynccontextmanager
async def site(settings: str = "", discovered: dict[str, object] | None = None) -> AsyncIterator[Site]:
    """An issuer that is found by discovery, a public agent that requires a scope, and a private one."""
    async with provider() as served, ScriptedBackend(agent(answers(whole(RESULT)), CARD)) as backend:
        served.publish(*published())
        document = {
            "issuer": served.url,
            "jwks_uri": served.url + KEYS,
            **(FLOWS if discovered is None else discovered),
        }
        served.documents[DISCOVERY] = json.dumps(document).encode()
        text = f"""\
gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0", listen_grpc: "127.0.0.1:0"{settings} }}
auth:
  issuers: {{ corp: {{ issuer: "{served.url}", audience: agents, tenant_claim: org }} }}
tenants: {{ acme: ["*"] }}
agents:
  open: {{ backend: "{backend.url}", require: {{ scope: [agents.call, agents.read] }}, expose: [jsonrpc, rest, grpc] }}
  hidden: {{ backend: "{backend.url}", visibility: private, require: {{ scope: secret.scope }} }}
  below: {{ backend: "{backend.url}", visibility: private, match: {{ path: /open/below }} }}
"""
        async with running(text) as gateway:
            await gateway.until(lambda: gateway.gateway.snapshot.key_sets["corp"].ready)
            yield Site(gateway, served)


async def test_a_challenge_leads_to_the_metadata_of_the_agent() -> None:
    async with site() as here:
        for path in ("/open", "/open/message:send", "/open/v1/message:send"):
            assert await here.challenge(path) == f'Bearer realm="a2a", resource_metadata="{here.url}{WELL_KNOWN}/open"'
        metadata = await here.metadata("/open")
        assert metadata == {
            "resource": f"{here.url}/open",
            "authorization_servers": [here.served.url],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["agents.call", "agents.read"],
        }
        assert (await here.gateway.post(WELL_KNOWN + "/open")).status == 405
        assert (await here.gateway.ask("HEAD", WELL_KNOWN + "/open")).status == 200
        # A bad credential keeps nobody from it.
        assert (await here.gateway.get(WELL_KNOWN + "/open", [(b"authorization", b"Bearer bad")])).status == 200


async def test_a_private_agent_is_told_from_none_by_nobody() -> None:
    async with site() as here:
        for hidden, missing in (
            ("/hidden", "/nobody"),
            ("/hidden/message:send", "/nobody/message:send"),
            ("/hidden/tasks/t", "/nobody/tasks/t"),
            ("/open/below", "/open/other"),
        ):
            there, nowhere = await here.gateway.get(WELL_KNOWN + hidden), await here.gateway.get(WELL_KNOWN + missing)
            names = hidden.split("/message")[0].split("/tasks")[0], missing.split("/message")[0].split("/tasks")[0]
            swapped = there.body.replace(names[0].encode(), names[1].encode())
            assert (there.status, swapped) == (nowhere.status, nowhere.body)
            assert b"secret.scope" not in there.body
            shown = (await here.challenge(hidden)).replace(*names)
            assert shown == await here.challenge(missing)
        assert (await here.metadata("/hidden"))["resource"] == f"{here.url}/hidden"
        assert (await here.metadata("/open/below"))["resource"] == f"{here.url}/open/below"


async def test_a_host_that_a_client_makes_up_is_nowhere_in_it() -> None:
    async with site() as here:
        client = await here.gateway.client()
        await client.send(b"GET %b/open HTTP/1.1\r\nHost: evil.test\r\n\r\n" % WELL_KNOWN.encode())
        assert b"evil" not in (await client.answer()).body
        long = "/" + "a" * 600
        assert (await here.challenge(long)).endswith(f'"{here.url}{WELL_KNOWN}"')
        assert (await here.metadata(long))["resource"] == here.url


async def test_behind_a_prefix_the_well_known_path_stands_in_front_of_it() -> None:
    async with site(", public_url: https://gw.test/base") as here:
        where = f"https://gw.test{WELL_KNOWN}/base/open"
        assert await here.challenge("/base/open") == f'Bearer realm="a2a", resource_metadata="{where}"'
        assert (await here.metadata("/base/open"))["resource"] == "https://gw.test/base/open"
        assert (await here.gateway.get(WELL_KNOWN + "/open")).status == 401


async def test_over_grpc_the_challenge_is_metadata(grpc_over: None) -> None:
    async with site() as here, dialled(here.gateway) as client:
        told = await client.ask(Operation.GET_TASK)
        assert told.code == "UNAUTHENTICATED"
        shown = told.trailers["www-authenticate"]
        assert shown == f'Bearer realm="a2a", resource_metadata="{here.url}{WELL_KNOWN}"'


async def test_a_gateway_without_issuers_has_no_resource_metadata() -> None:
    async with ScriptedBackend(agent(answers(whole(RESULT)), CARD)) as backend:
        text = f"auth: {{ api_keys: {{ bot: {{ sha256: {'a' * 64}, tenant: acme }} }} }}\ntenants: {{ acme: ['*'] }}\n"
        async with running(f"{text}agents: {{ open: '{backend.url}' }}") as gateway:
            answer = await gateway.post("/open")
            assert answer.header("www-authenticate") == 'Bearer realm="a2a"'
            assert (await gateway.get(WELL_KNOWN + "/open")).status == 401


# ---- The card --------------------------------------------------------------------------------------------------------

SCOPES = ["agents.call", "agents.read"]


async def card(here: Site, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    answer = await here.gateway.get("/open/.well-known/agent-card.json", headers)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


async def test_the_card_says_how_a_token_is_asked_for_in_the_words_of_both_generations() -> None:
    async with site() as here:
        both = await card(here)
        flows = {
            "authorizationCode": {
                "authorizationUrl": "https://idp.test/authorize",
                "tokenUrl": "https://idp.test/token",
                "scopes": dict.fromkeys(SCOPES, "required by this agent"),
            }
        }
        oauth2, oidc = both["securitySchemes"]["oauth2"], both["securitySchemes"]["oidc"]
        assert oauth2 == {"oauth2SecurityScheme": {"flows": flows}, "type": "oauth2", "flows": flows}
        address = {"openIdConnectUrl": here.served.url + DISCOVERY}
        assert oidc == {"openIdConnectSecurityScheme": address, "type": "openIdConnect", **address}
        assert both["security"] == [{"bearer": SCOPES}, {"oauth2": SCOPES}, {"oidc": SCOPES}]
        modern = await card(here, (b"a2a-version", b"1.0"))
        read = ParseDict(modern, AgentCard())
        code = read.security_schemes["oauth2"].oauth2_security_scheme.flows.authorization_code
        assert (code.token_url, sorted(code.scopes)) == ("https://idp.test/token", SCOPES)
        assert [list(each.schemes) for each in read.security_requirements] == [["bearer"], ["oauth2"], ["oidc"]]
        assert list(read.security_requirements[1].schemes["oauth2"].list) == SCOPES


@pytest.mark.parametrize(
    ("discovered", "names"),
    [
        ({"token_endpoint": "https://idp.test/token"}, {"bearer", "oauth2", "oidc"}),
        ({}, {"bearer", "oidc"}),
        ({"token_endpoint": "http://10.0.0.7/token"}, {"bearer", "oidc"}),
        ({"token_endpoint": "javascript:alert(1)", "authorization_endpoint": "x"}, {"bearer", "oidc"}),
        ({"token_endpoint": "https://u:p@idp.test/" + "a" * 3000}, {"bearer", "oidc"}),
    ],
)
async def test_only_addresses_that_clients_may_dial_are_on_the_card(
    discovered: dict[str, object], names: set[str]
) -> None:
    async with site(discovered=discovered) as here:
        schemes = (await card(here))["securitySchemes"]
        assert set(schemes) == names
        if "oauth2" in schemes:
            assert set(schemes["oauth2"]["flows"]) == {"clientCredentials"}
