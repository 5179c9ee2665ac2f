"""The HTTP paths of ScopedA2AService through a whole gateway: which generation they are in, and whose they are.

A path has three readings (protocol §3). `/{scope}/v1/…` is the proposal, which is 0.3 with the scope as its tenant;
`/{tenant}/…` is what 1.0 made of it; `/{tenant}/v1/…` from a client that says 1.0 is a draft in between, and is 1.0.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.a2a.dialect import Dialect, Version
from gateway.a2a.operation import Operation
from tests.a2a.dialects import call_of, comparable, events_of, hub_event, hub_params, hub_result, vector
from tests.config.reading import HASH, examined
from tests.support.gateway import JSON, Answer, Pairs, Running, agent, bearer, keys, running
from tests.support.scoped import (
    NAMES,
    PROPOSED,
    SAYS_0_3,
    SAYS_1_0,
    V0_3,
    V1_0,
    ask,
    filled,
    modern,
    operation_of,
    plays,
    request_of,
    said,
    scoped,
)
from tests.support.scripted import ScriptedBackend
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]


async def logged(gateway: Running) -> dict[str, Any]:
    line = await gateway.line()
    return {name: line[name] for name in ("agent", "binding", "a2a_version", "a2a_tenant", "operation", "outcome")}


def line_of(operation: Operation, version: Version) -> dict[str, Any]:
    return {
        "agent": "one",
        "binding": "rest",
        "a2a_version": version.value,
        "a2a_tenant": "acme",
        "operation": operation.value,
        "outcome": "ok",
    }


def check_answer(answer: Answer, operation: Operation, dialect: Dialect, *, relayed: bool) -> None:
    """It is the vector's, to the byte where it was relayed."""
    assert answer.status == 200, answer.body
    content = vector(operation.value)
    call = call_of(content["request"][NAMES[dialect]], dialect)
    if "events" in content:
        found = [block.removeprefix(b"data: ") for block in answer.body.split(b"\n\n")[:-1]]
        expected = events_of(content, NAMES[dialect])
        assert not relayed or found == expected
        assert [comparable(hub_event(call, event), loose=False) for event in found] == [
            comparable(hub_event(call, event), loose=False) for event in expected
        ]
        return
    if operation is Operation.DELETE_PUSH_CONFIG:
        assert answer.json == {}
        return
    expected_body = json.dumps(content["response"][NAMES[dialect]]["http"]["body"]).encode()
    if operation is Operation.GET_EXTENDED_CARD:
        # Cards are the gateway's own; what is on it below.
        assert answer.json["name"] == json.loads(expected_body)["name"]
        return
    # Where the tenant is put back, white space between members is not kept.
    assert not relayed or answer.json == json.loads(expected_body)
    assert comparable(hub_result(call, answer.body), loose=False) == comparable(
        hub_result(call, expected_body), loose=False
    )


def unscoped(path: str) -> tuple[str, str]:
    """Method and path behind the scope."""
    method, _, template = path.partition(" ")
    return method, filled(template).removeprefix("/acme")


# ---- The proposal: 0.3 -----------------------------------------------------------------------------------------------


def test_the_ten_are_ten_operations() -> None:
    found = {operation_of(path) for path in PROPOSED}
    assert len(found) == len(PROPOSED) == 10
    assert found == set(Operation) - {Operation.LIST_TASKS, Operation.GET_CARD}


@for_each("headers", [(), (SAYS_0_3,)])
@for_each("path", PROPOSED)
async def test_a_path_of_the_proposal_is_0_3_with_its_scope_as_the_tenant(path: str, headers: Pairs) -> None:
    async with scoped(V0_3) as (gateway, backend):
        answer = await ask(gateway, path, V0_3, headers)
        [request] = backend.requests
        assert (request.method.decode(), request.target.decode()) == unscoped(path)
        assert request.body == (said(operation_of(path), V0_3) or b"")
        assert request.header(b"a2a-version") == (b"0.3" if headers else None)
        check_answer(answer, operation_of(path), V0_3, relayed=True)
        assert await logged(gateway) == line_of(operation_of(path), Version.V0_3)


@for_each("path", PROPOSED)
async def test_scoped_paths_of_0_3_reach_an_agent_of_1_0_translated(path: str) -> None:
    operation = operation_of(path)
    async with scoped(V1_0) as (gateway, backend):
        answer = await ask(gateway, path, V0_3)
        [request] = backend.requests
        wanted = request_of(operation, V1_0)
        assert (request.method.decode(), request.target.decode().partition("?")[0]) == (
            wanted["method"],
            wanted["path"].removeprefix("/acme"),
        )
        assert request.header(b"a2a-version") == b"1.0"
        if request.body and operation is not Operation.CANCEL_TASK:
            meant = call_of({"http": {**wanted, "body": json.loads(said(operation, V1_0) or b"{}")}}, V1_0)
            read = call_of({"http": {**wanted, "body": json.loads(request.body)}}, V1_0)
            assert comparable(hub_params(read), loose=False) == comparable(hub_params(meant), loose=False)
        check_answer(answer, operation, V0_3, relayed=False)
        assert await logged(gateway) == line_of(operation, Version.V0_3)


@for_each("path", PROPOSED)
async def test_an_agent_that_keeps_its_tenants_gets_the_path_of_the_proposal_itself(path: str) -> None:
    async with scoped(V0_3, ", upstream_tenant: keep") as (gateway, backend):
        await ask(gateway, path, V0_3)
        [request] = backend.requests
        assert f"{request.method.decode()} {request.target.decode()}" == filled(path)


@for_each("dialect", [V0_3, V1_0])
@for_each("method", ["GET", "POST"])
@for_each("written", [":subscribe", "/subscribe"])
async def test_a_subscription_has_either_method_and_either_spelling(
    dialect: Dialect, method: str, written: str
) -> None:
    """0.3's prose and proto differ on the method (protocol trap 1), and a2a-rs has a slash."""
    async with scoped(dialect) as (gateway, backend):
        answer = await gateway.ask(method, f"/acme/v1/tasks/task-7{written}", headers=(SAYS_0_3,))
        [request] = backend.requests
        below = "/v1" if dialect is V0_3 else ""
        assert request.target.decode() == f"{below}/tasks/task-7:subscribe"
        # A relayed request keeps the client's method; 1.0 has POST (protocol trap 1).
        assert request.method.decode() == (method if dialect is V0_3 else "POST")
        check_answer(answer, Operation.SUBSCRIBE_TO_TASK, V0_3, relayed=dialect is V0_3)


CONFIG = {
    "name": "tasks/task-7/pushNotificationConfigs/cfg-1",
    "pushNotificationConfig": {"id": "cfg-1", "url": "https://hooks.example.net/a2a"},
}
CREATIONS = [
    pytest.param(CONFIG, id="the configuration alone, as the proposal's body has it"),
    pytest.param({"parent": "tasks/task-7/pushNotificationConfigs", "config": CONFIG}, id="with the collection's name"),
    pytest.param({"parent": "tasks/task-7", "configId": "cfg-1", "config": CONFIG}, id="a2a-python"),
    pytest.param({"config": {"pushNotificationConfig": CONFIG["pushNotificationConfig"]}}, id="without any name"),
]


@for_each("body", CREATIONS)
async def test_a_configuration_may_be_created_in_each_way_there_is(body: dict[str, Any]) -> None:
    """The `parent` of the proposal's path swallows the name of the collection, as that of 0.3 does."""
    written = json.dumps(body).encode()
    for dialect in (V0_3, V1_0):
        async with scoped(dialect) as (gateway, backend):
            answer = await gateway.post("/acme/v1/tasks/task-7/pushNotificationConfigs", written)
            assert answer.status == 200, answer.body
            assert answer.json["name"] == CONFIG["name"]
            [request] = backend.requests
            below = "/v1" if dialect is V0_3 else ""
            assert request.target.decode() == f"{below}/tasks/task-7/pushNotificationConfigs"
            if dialect is V0_3:
                assert request.body == written
            else:
                flat = {"taskId": "task-7", "id": "cfg-1", "url": "https://hooks.example.net/a2a"}
                assert json.loads(request.body) == flat


@for_each("parent", ["tasks/other", "tasks/other/pushNotificationConfigs", "task-7"])
async def test_a_parent_that_is_not_the_paths_is_refused_on_its_way_to_another_generation(parent: str) -> None:
    async with scoped(V1_0) as (gateway, backend):
        body = json.dumps({"parent": parent, "config": CONFIG}).encode()
        answer = await gateway.post("/acme/v1/tasks/task-7/pushNotificationConfigs", body)
        assert answer.status in (400, 422)
        assert backend.requests == []


@for_each("target", ["/acme/v1/card", "/acme/extendedAgentCard"])
async def test_a_card_tells_the_address_with_the_scope(target: str) -> None:
    for dialect in (V0_3, V1_0):
        async with scoped(dialect) as (gateway, _):
            card = (await gateway.get(target)).json
            base = gateway.gateway.public_url.rstrip("/")
            if target.endswith("/card"):
                assert {card["url"], *(each["url"] for each in card["additionalInterfaces"])} == {f"{base}/acme"}
            else:
                urls = {(each["url"], each.get("tenant")) for each in card["supportedInterfaces"]}
                assert urls == {(f"{base}/", "acme"), (base, "acme"), (f"{base}/acme", None)}


# ---- What 1.0 made of it, and the draft in between -------------------------------------------------------------------

OF_1_0 = [
    # Without the `v1`, and with it where the client says 1.0.
    (modern, "", ()),
    (modern, "", (SAYS_1_0,)),
    (str, "", (SAYS_1_0,)),
    (str, "?A2A-Version=1.0", ()),
]


@for_each(("form", "query", "headers"), OF_1_0)
@for_each("path", PROPOSED)
async def test_without_the_v1_or_from_a_client_that_says_1_0_it_is_1_0(
    path: str, form: Callable[[str], str], query: str, headers: Pairs
) -> None:
    async with scoped(V1_0) as (gateway, backend):
        answer = await ask(gateway, form(path), V1_0, headers, query=query)
        [request] = backend.requests
        method, target = unscoped(modern(path))
        assert (request.method.decode(), request.target.decode()) == (method, target + query)
        assert json.loads(request.body or b"null") == json.loads(said(operation_of(path), V1_0) or b"null")
        check_answer(answer, operation_of(path), V1_0, relayed=True)
        assert await logged(gateway) == line_of(operation_of(path), Version.V1_0)


async def test_a_client_that_says_0_3_is_believed_without_the_v1() -> None:
    async with scoped(V0_3) as (gateway, backend):
        for path in PROPOSED:
            answer = await ask(gateway, modern(path), V0_3, (SAYS_0_3,))
            assert answer.status == 200
        targets = [f"{request.method.decode()} {request.target.decode()}" for request in backend.requests]
        assert targets == [" ".join(unscoped(path)) for path in PROPOSED]


@for_each("path", PROPOSED)
async def test_the_draft_reaches_an_agent_of_0_3_in_the_words_of_0_3(path: str) -> None:
    operation = operation_of(path)
    async with scoped(V0_3) as (gateway, backend):
        answer = await ask(gateway, path, V1_0, (SAYS_1_0,))
        [request] = backend.requests
        # Its own client would ask so; only what the prose and the proto differ on is the proto's (protocol trap 1).
        assert (request.method.decode(), request.target.decode().partition("?")[0]) == unscoped(path)
        assert request.header(b"a2a-version") == b"0.3"
        check_answer(answer, operation, V1_0, relayed=False)
        assert await logged(gateway) == line_of(operation, Version.V1_0)


@for_each("path", PROPOSED)
async def test_an_agent_of_1_0_that_keeps_its_tenants_gets_the_path_of_1_0(path: str) -> None:
    async with scoped(V1_0, ", upstream_tenant: keep") as (gateway, backend):
        for written in (path, modern(path)):
            await ask(gateway, written, V1_0, (SAYS_1_0,))
        targets = [f"{request.method.decode()} {request.target.decode()}" for request in backend.requests]
        assert targets == [filled(modern(path))] * 2


async def test_a_list_of_tasks_is_there_in_each_reading() -> None:
    """The proposal has none; 0.3 over HTTP+JSON does, in prose."""
    async with scoped(V1_0) as (gateway, backend):
        for target, headers in (("/acme/v1/tasks", ()), ("/acme/tasks", ()), ("/acme/v1/tasks", (SAYS_1_0,))):
            assert (await gateway.get(target, headers)).status == 200
        assert [request.target.decode() for request in backend.requests] == ["/tasks"] * 3


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
async def test_any_other_path_has_no_agent(target: str) -> None:
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
