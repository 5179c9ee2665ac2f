"""Whose the scope of a path is, and what is none: through a whole gateway, and when its file is loaded."""

import json
from typing import Any

import pytest

from gateway.a2a.dialect import Dialect
from gateway.a2a.operation import Operation
from tests.config.reading import HASH, examined
from tests.support.gateway import JSON, Pairs, agent, bearer, keys, running
from tests.support.scoped import PROPOSED, SAYS_0_3, SAYS_1_0, V0_3, V1_0, ask, filled, modern, plays, said, scoped
from tests.support.scripted import ScriptedBackend
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

# ---- Whose it is -----------------------------------------------------------------------------------------------------


async def test_the_scope_picks_the_agent() -> None:
    async with scoped(V0_3) as (gateway, _):
        for scope in ("acme", "globex"):
            for target, headers in (
                (f"/{scope}/v1/tasks/t", ()),
                (f"/{scope}/tasks/t", ()),
                (f"/{scope}/v1/tasks/t", (SAYS_1_0,)),
            ):
                await gateway.get(target, headers)
        await gateway.until(lambda: len(gateway.lines) == 6)
        assert [(line["agent"], line["a2a_tenant"]) for line in gateway.lines] == [("one", "acme")] * 3 + [
            ("two", "globex")
        ] * 3


async def test_behind_the_path_of_an_agent_the_scope_comes_second() -> None:
    async with ScriptedBackend(agent(plays(V0_3))) as backend:
        at = f'{{ backend: {{ url: "{backend.url}", protocol: rest, a2a_version: "0.3" }} }}'
        text = f"agents:\n  crm: {{ by_tenant: {{ acme: {at}, globex: {at} }} }}\n  plain: {at}\n"
        async with running(text) as gateway:
            for target in ("/crm/acme/v1/tasks/t", "/crm/v1/tasks/t?tenant=globex", "/plain/v1/tasks/t"):
                assert (await gateway.get(target)).status == 200, target
            # An agent that knows no tenants has no scopes either.
            assert (await gateway.get("/plain/acme/v1/tasks/t")).status == 404
            await gateway.until(lambda: len(gateway.lines) == 4)
            assert [(line["agent"], line["backend"], line["a2a_tenant"]) for line in gateway.lines[:3]] == [
                ("crm", "crm/acme", "acme"),
                ("crm", "crm/globex", "globex"),
                ("plain", "plain", None),
            ]


async def test_a_scope_that_is_another_tenants_looks_like_one_that_nobody_has() -> None:
    tenants = "tenants: { acme: [one], globex: [two] }\ndefaults: { isolation: none }"
    async with scoped(V0_3, before=keys(acme="acme", globex="globex") + tenants) as (gateway, backend):
        for path in PROPOSED:
            for written, dialect, headers in ((path, V0_3, ()), (modern(path), V1_0, ()), (path, V1_0, (SAYS_1_0,))):
                foreign, missing = [
                    await ask(gateway, written, dialect, (*headers, bearer("acme")), scope=scope)
                    for scope in ("globex", "nobody")
                ]
                assert foreign.anonymous == missing.anonymous
                assert foreign.status == 404
        assert backend.requests == []


# ---- Refusals --------------------------------------------------------------------------------------------------------

NOTHING = [
    "/v1/message:send", "/v1/v1/message:send", "/v1/acme/message:send", "/acme/v1", "/acme/v1/", "/acme/v1/nothing",
    "/acme/v1/v1/message:send", "/acme/globex/v1/message:send", "/acme/v1/globex/message:send", "/acme/V1/message:send",
    "/acme/v1/tasks/t/pushNotificationConfigs/c/d", "/acme/v1/.well-known/agent-card.json", "/acme/card",
    "/acme/v2/message:send", "/tasks/v1/message:send", "/card/v1/message:send", "/extendedAgentCard/v1/message:send",
    "/skills/v1/message:send", "/-/v1/message:send", "/message:send/v1/message:send", "/nobody/v1/message:send",
]  # fmt: skip


@for_each("target", NOTHING)
async def test_any_other_path_is_nobodys(target: str) -> None:
    async with scoped(V0_3) as (gateway, backend):
        for headers in ((), (SAYS_0_3,), (SAYS_1_0,)):
            for method, body in (("POST", said(Operation.SEND_MESSAGE, V0_3)), ("GET", None)):
                answer = await gateway.ask(method, target, body, (*headers, *((JSON,) if body else ())))
                assert answer.status in (404, 405), (method, headers, answer.body)
        assert backend.requests == []


@for_each("path", PROPOSED)
async def test_another_method_is_told_which_there_are(path: str) -> None:
    async with scoped(V0_3) as (gateway, backend):
        method, _, template = path.partition(" ")
        for written in (template, modern(path).partition(" ")[2]):
            answer = await gateway.ask("PUT", filled(written), b"{}", (JSON,))
            assert answer.status == 405
            assert method in (answer.header("allow") or "").split(", ")
        assert backend.requests == []


DISAGREE = [
    ("POST", "/acme/v1/message:send", V0_3, {"tenant": "globex"}, ()),
    ("POST", "/acme/v1/message:send?tenant=globex", V0_3, {}, ()),
    ("POST", "/acme/message:send", V1_0, {"tenant": "globex"}, ()),
    ("POST", "/acme/v1/message:send", V1_0, {"tenant": "globex"}, (SAYS_1_0,)),
    ("GET", "/acme/v1/tasks/t?tenant=globex", V0_3, None, ()),
    ("GET", "/acme/tasks/t?tenant=globex", V1_0, None, ()),
    ("GET", "/acme/v1/tasks/t?tenant=globex", V1_0, None, (SAYS_1_0,)),
]


@for_each(("method", "target", "dialect", "more", "headers"), DISAGREE)
async def test_two_places_that_name_two_tenants_are_refused(
    method: str, target: str, dialect: Dialect, more: dict[str, Any] | None, headers: Pairs
) -> None:
    body = None
    if more is not None:
        body = json.dumps({**json.loads(said(Operation.SEND_MESSAGE, dialect) or b""), **more}).encode()
    for spoken in (V0_3, V1_0):
        async with scoped(spoken) as (gateway, backend):
            answer = await gateway.ask(method, target, body, (*headers, *((JSON,) if body else ())))
            assert answer.status in (400, 422), answer.body
            assert backend.requests == []


async def test_a_tenant_that_the_body_repeats_never_reaches_a_strict_agent_of_0_3() -> None:
    """One member that its protobuf does not have fails the call there (protocol trap 17)."""
    asked = json.loads(said(Operation.SEND_MESSAGE, V0_3) or b"")
    async with scoped(V0_3) as (gateway, backend):
        answer = await gateway.post("/acme/v1/message:send", json.dumps({"tenant": "acme", **asked}).encode())
        assert answer.status == 200
        [request] = backend.requests
        assert json.loads(request.body) == asked


RESERVED = ["v1", "tasks", "card", "extendedAgentCard", "message:send", "message:stream", ".well-known", "skills", "-"]


@for_each("name", RESERVED)
async def test_no_place_of_a_call_names_the_protocols_own_words_as_a_tenant(name: str) -> None:
    send = json.loads(said(Operation.SEND_MESSAGE, V1_0) or b"")
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {**send, "tenant": name}}
    async with scoped(V1_0) as (gateway, backend):
        assert (await gateway.post("/message:send", json.dumps({**send, "tenant": name}).encode())).status == 400
        assert (await gateway.get(f"/tasks/t?tenant={name}")).status == 400
        assert (await gateway.post("/", json.dumps(rpc).encode())).json["error"]["code"] == -32602
        assert backend.requests == []


def refused(text: str) -> list[str]:
    """Place and fact of every error."""
    return [f"{problem.place}:{problem.place.column} {problem.fact}" for problem in examined(text).errors]


@for_each("name", RESERVED)
def test_no_agent_and_no_tenant_has_such_a_name(name: str) -> None:
    text = f"""\
version: 1
auth:
  api_keys:
    bot: {{ sha256: {HASH}, tenant: "{name}" }}
tenants:
  "{name}": "*"
agents:
  "{name}": http://127.0.0.1:1
  crm:
    by_tenant: {{ "{name}": "http://127.0.0.1:2" }}
  help:
    match: {{ path: /help, tenant: "{name}" }}
    backend: http://127.0.0.1:3
"""
    fact = f"{name!r} is a path segment of the protocol and can be no name"
    found = refused(text)
    for place in ("4:", "6:3", "8:3", "10:", "12:"):
        assert any(one.startswith(f"gateway.yaml:{place}") and fact in one for one in found), (place, found)
