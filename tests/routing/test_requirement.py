"""Requirements of an agent on its callers' tokens, over every binding, with every sort of caller."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.a2a.operation import Operation
from gateway.routing.route import Requirement
from gateway.tasks.store import Owner
from tests.identity.corpus.genuine import good, published
from tests.identity.front import Front, issuer, shown
from tests.identity.provider import KEYS, provider
from tests.support.certificates import Shown
from tests.support.certified import ACME, certifying
from tests.support.gateway import CALL, JSON, RESULT, agent, bearer, card_of, keys, running
from tests.support.grpc_gateway import GrpcClient, dialled, request
from tests.support.reloading import serving
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

CARD = "/.well-known/agent-card.json"
GET_CARD = b'{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard","params":{}}'
ENOUGH = {"scope": "openid agents.call", "realm_access": {"roles": ["clerk"]}, "tier": "gold"}
REQUIRE = "{ scope: agents.call, role: clerk, claim: { tier: gold } }"
MESSAGE = {"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
SAID = json.dumps({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}).encode()
LACKING = [
    {**ENOUGH, "scope": "openid"},
    {**ENOUGH, "realm_access": {"roles": ["user"]}},
    {**ENOUGH, "tier": "silver"},
    {},
]


@asynccontextmanager
async def site() -> AsyncIterator[tuple[Front, GrpcClient]]:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0", name="SECRET-CARD")
    async with provider() as served, ScriptedBackend(agent(answers(whole(RESULT)), card)) as backend:
        served.publish(*published())
        text = f"""\
gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0", listen_grpc: "127.0.0.1:0" }}
{keys(acme="acme")}
  issuers:
    corp: {issuer(served.url + KEYS)}
tenants: {{ acme: ["*"], globex: [open] }}
agents:
  strict: {{ backend: "{backend.url}", require: {REQUIRE} }}
  private: {{ backend: "{backend.url}", require: {REQUIRE}, visibility: private }}
  open: "{backend.url}"
tests:
  - {{ name: lacks, tenant: acme, request: /strict, expect: {{ reason: insufficient_scope }} }}
  - {{ name: has, tenant: acme, claim: {json.dumps(ENOUGH)}, request: /strict, expect: strict }}
  - {{ name: a key, key: acme, request: /strict, expect: {{ reason: insufficient_scope }} }}
"""
        async with running(text) as gateway, dialled(gateway) as client:
            front = Front(gateway, backend, served)
            await gateway.until(lambda: front.ready)
            yield front, client


def token_with(claims: object) -> tuple[bytes, bytes]:
    assert isinstance(claims, dict)
    return shown(good(time.time(), **claims))


async def test_a_caller_with_all_of_it_is_served_over_every_binding() -> None:
    async with site() as (front, client):
        header = token_with(ENOUGH)
        assert (await front.gateway.post("/strict", CALL, [header])).json["result"]
        await front.gateway.ask("POST", "/strict/message:send", SAID, [JSON, header])
        said = request(Operation.SEND_MESSAGE, tenant="strict", message=MESSAGE)
        await client.ask(Operation.SEND_MESSAGE, said, ("authorization", header[1].decode()))
        # The agent's answer is not of 1.0, which shows that it was asked.
        assert len(front.backend.requests) == 3


@for_each("claims", LACKING)
async def test_a_caller_that_lacks_something_is_refused_over_every_binding(claims: dict[str, object]) -> None:
    async with site() as (front, client):
        header = token_with(claims)
        rpc = await front.gateway.post("/strict", CALL, [header])
        assert (rpc.status, rpc.json["error"]["code"], rpc.json["id"]) == (403, -31403, 1)
        assert rpc.json["error"]["data"][0]["reason"] == "INSUFFICIENT_SCOPE"
        rest = await front.gateway.ask("POST", "/strict/message:send", SAID, [JSON, header])
        assert (rest.status, rest.json["error"]["details"][0]["reason"]) == (403, "INSUFFICIENT_SCOPE")
        for answer in (rpc, rest):
            assert answer.header("www-authenticate") == 'Bearer error="insufficient_scope", scope="agents.call"'
        said = request(Operation.SEND_MESSAGE, tenant="strict", message=MESSAGE)
        told = await client.ask(Operation.SEND_MESSAGE, said, ("authorization", header[1].decode()))
        assert (told.code, told.reasons) == ("PERMISSION_DENIED", ["INSUFFICIENT_SCOPE"])
        assert front.backend.requests == []
        await front.gateway.until(lambda: len(front.gateway.lines) == 3)
        assert {(line["reason"], line["outcome"]) for line in front.gateway.lines} == {("insufficient_scope", "denied")}
        assert (await front.gateway.post("/open", CALL, [header])).status == 200


async def test_a_key_has_no_scopes() -> None:
    async with site() as (front, client):
        assert (await front.gateway.post("/strict", CALL, [bearer("acme")])).status == 403
        said = request(Operation.SEND_MESSAGE, tenant="strict", message=MESSAGE)
        told = await client.ask(Operation.SEND_MESSAGE, said, ("authorization", bearer("acme")[1].decode()))
        assert (told.code, told.reasons) == ("PERMISSION_DENIED", ["INSUFFICIENT_SCOPE"])
        assert front.backend.requests == []


async def test_requirements_are_hidden_from_callers_without_access() -> None:
    async with site() as (front, _):
        stranger = await front.gateway.post("/strict", CALL)
        metadata = f"{front.gateway.gateway.public_url}/.well-known/oauth-protected-resource/strict"
        shown = f'Bearer realm="a2a", resource_metadata="{metadata}"'
        assert (stranger.status, stranger.header("www-authenticate")) == (401, shown)
        for claims in ({"org": "globex"}, {"org": "globex", **ENOUGH}):
            hidden = await front.gateway.post("/strict", CALL, [token_with(claims)])
            missing = await front.gateway.post("/nothing", CALL, [token_with(claims)])
            assert hidden.anonymous == missing.anonymous
            assert hidden.status == 404


async def test_cards_keep_to_it_as_far_as_they_are_not_public() -> None:
    async with site() as (front, _):
        few, enough = token_with({}), token_with(ENOUGH)
        assert (await front.gateway.get("/strict" + CARD)).status == 200
        assert (await front.gateway.get("/strict" + CARD, [few])).status == 200
        private = await front.gateway.get("/private" + CARD, [few])
        assert (private.status, b"SECRET-CARD" in private.body) == (403, False)
        assert (await front.gateway.get("/private" + CARD, [bearer("acme")])).status == 403
        assert (await front.gateway.get("/private" + CARD, [enough])).status == 200
        assert (await front.gateway.get("/private" + CARD)).status == 401
        for header in (few, bearer("acme")):
            assert (await front.gateway.post("/strict", GET_CARD, [header])).status == 403
            assert (await front.gateway.get("/strict/extendedAgentCard", [header])).status == 403
        assert front.backend.requests == []


async def test_operators_see_the_lacking_claims() -> None:
    async with site() as (front, _):

        async def route(**question: object) -> dict[str, object]:
            body = json.dumps({"path": "/strict", **question}).encode()
            answer = await front.gateway.ask("POST", "/-/route", body, [JSON], admin=True)
            found: dict[str, object] = answer.json
            return found

        lacking = await route(**{"as": "acme", "claim": {"scp": "agents.call"}})
        assert (lacking["agent"], lacking["reason"]) == (None, "insufficient_scope")
        assert "lacks the role 'clerk', the claim tier=gold" in json.dumps(lacking["candidates"])
        assert (await route(key="acme"))["reason"] == "insufficient_scope"
        assert (await route(**{"as": "acme", "claim": ENOUGH}))["agent"] == "strict"
        assert (await route(**{"as": "globex", "claim": ENOUGH}))["reason"] == "tenant_denied"
        over_grpc = {"path": "/lf.a2a.v1.A2AService/SendMessage", "tenant": "strict", "as": "acme"}
        assert (await route(**over_grpc))["reason"] == "insufficient_scope"


async def test_the_log_names_lacking_claims_and_the_client_gets_the_scopes_alone() -> None:
    async with site() as (front, _):
        answer = await front.gateway.post("/strict", CALL, [token_with({})])
        assert "agents.call" in answer.json["error"]["message"]
        assert b"clerk" not in answer.body
        assert b"gold" not in answer.body
        line = await front.gateway.line()
        assert line["detail"] == "lacks the scope 'agents.call', the role 'clerk', the claim tier=gold"


@pytest.mark.parametrize(
    ("require", "status"),
    [("{ scope: agents.call }", 403), ("{ role: clerk }", 403), ("{ claim: { client: mesh } }", 200)],
)
async def test_a_certificate_has_only_its_own_claims(tmp_path: Path, require: str, status: int) -> None:
    async with certifying(tmp_path, agents=f"    require: {require}\n") as (site, _, _):
        mine: Shown = site.authority.issue(ACME)
        assert (await site.post(mine)).status == status


async def test_notifications_go_on_where_no_copy_of_the_token_is_kept() -> None:
    async with site() as (front, _):
        snapshot = front.gateway.gateway.snapshot
        assert snapshot.table.agents["strict"].requirement == Requirement(
            ("agents.call",), ("clerk",), (("tier", "gold"),)
        )
        assert snapshot.entitles(Owner("acme", "corp/ada"), "strict", 0.0)
        assert not snapshot.entitles(Owner("acme", "/acme"), "strict", 0.0)
        assert not snapshot.entitles(Owner("globex", "corp/ada"), "strict", 0.0)


async def test_a_requirement_that_comes_later_holds_from_the_next_call_on(tmp_path: Path) -> None:
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        before = f'{keys(acme="acme")}tenants: {{ acme: [crm] }}\nagents: {{ crm: {{ backend: "{backend.url}" }} }}\n'
        async with serving(tmp_path, before) as here:
            client = await here.running.client()
            for status, rewritten in ((200, before.replace('" } }', '", require: { scope: a } } }')), (403, "")):
                await client.ask("POST", "/crm", CALL, [JSON, bearer("acme")])
                assert (await client.answer()).status == status
                if rewritten:
                    await here.rewrite(rewritten)
