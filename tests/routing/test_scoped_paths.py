"""The HTTP paths of ScopedA2AService through a whole gateway: which generation they are in, and whose they are.

A path has three readings (protocol §3). `/{scope}/v1/…` is the proposal, which is 0.3 with the scope as its tenant;
`/{tenant}/…` is what 1.0 made of it; `/{tenant}/v1/…` from a client that says 1.0 is a draft in between, and is 1.0.
"""

import json
from typing import Any

import pytest

from gateway.a2a.dialect import Dialect, Version
from gateway.a2a.operation import Operation
from tests.a2a.dialects import call_of, comparable, events_of, hub_event, hub_params, hub_result, vector
from tests.support.gateway import Answer, Pairs, Running
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
    request_of,
    said,
    scoped,
)
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
async def test_it_reaches_an_agent_of_1_0_in_the_words_of_1_0(path: str) -> None:
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
        # Who relays keeps the client's; 1.0 has POST (protocol trap 1).
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


# ---- What 1.0 made of it ---------------------------------------------------------------------------------------------


@for_each("headers", [(), (SAYS_1_0,)])
@for_each("path", PROPOSED)
async def test_without_the_v1_it_is_1_0(path: str, headers: Pairs) -> None:
    async with scoped(V1_0) as (gateway, backend):
        answer = await ask(gateway, modern(path), V1_0, headers)
        [request] = backend.requests
        assert (request.method.decode(), request.target.decode()) == unscoped(modern(path))
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


# ---- The draft in between --------------------------------------------------------------------------------------------

INTERIM = [("", (SAYS_1_0,)), ("?A2A-Version=1.0", ())]


@for_each(("query", "headers"), INTERIM)
@for_each("path", PROPOSED)
async def test_with_the_v1_from_a_client_that_says_1_0_it_is_1_0_too(path: str, query: str, headers: Pairs) -> None:
    async with scoped(V1_0) as (gateway, backend):
        answer = await ask(gateway, path, V1_0, headers, query=query)
        [request] = backend.requests
        method, target = unscoped(modern(path))
        assert (request.method.decode(), request.target.decode()) == (method, target + query)
        assert json.loads(request.body or b"null") == json.loads(said(operation_of(path), V1_0) or b"null")
        check_answer(answer, operation_of(path), V1_0, relayed=True)
        assert await logged(gateway) == line_of(operation_of(path), Version.V1_0)


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
