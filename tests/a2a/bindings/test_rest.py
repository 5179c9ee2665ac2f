"""HTTP+JSON calls: path, query and body together."""

import json
import re
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import fault as faults
from gateway.a2a.bindings import rest
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.params import split_query, with_tenant
from gateway.a2a.paths import PathCall, read_rest, rest_path, segments
from tests.a2a.sample import vector
from tests.table import for_each

SEND = PathCall(Operation.SEND_MESSAGE)


def read(path: PathCall, body: object = None, *, query: bytes = b"", version: Version = Version.V1_0) -> Call:
    return rest.read_call(path, b"" if body is None else json.dumps(body).encode(), query, version)


def test_the_task_of_a_push_configuration_is_that_of_the_path() -> None:
    path = PathCall(Operation.CREATE_PUSH_CONFIG, task_id="t")
    assert read(path, {"url": "https://x", "taskId": "t", "id": "c"}).task_id == "t"
    for other in ({"taskId": "u"}, {"task_id": "u"}):
        with pytest.raises(BadParams, match="taskId"):
            read(path, other)


CANCEL = PathCall(Operation.CANCEL_TASK, task_id="t")
CREATE = PathCall(Operation.CREATE_PUSH_CONFIG, task_id="t")
_NAME = "tasks/t/pushNotificationConfigs"


@for_each("version", [Version.V0_3, Version.V1_0])
@for_each(
    ("path", "body"),
    [
        *[(path, {name: "u"}) for path in (CANCEL, CREATE) for name in ("taskId", "task_id")],
        *[(path, {name: said}) for path in (CANCEL, CREATE) for name in ("name", "parent")
          for said in ("tasks/u", "t", "tasks/t2", "tasks/", "tasks/t/u", f"{_NAME}/x/y", f"{_NAME}2", f"{_NAME}x/y")],
        (CANCEL, {"id": "u"}),
        (CANCEL, {"id": 1}),
        (CANCEL, {"name": ["tasks/t"]}),
        (CREATE, {"id": "u", "pushNotificationConfig": {"url": "https://h"}}),
        (CREATE, {"parent": "tasks/t", "config": {"name": "tasks/u/pushNotificationConfigs/x"}}),
        (CREATE, {"config": {"taskId": "u"}}),
        (CREATE, {"config": {"pushNotificationConfig": {"task_id": "u"}}}),
        (CREATE, {"taskPushNotificationConfig": {"parent": "tasks/u"}}),
    ],
)  # fmt: skip
def test_a_body_that_names_another_task_than_the_path_is_refused(
    path: PathCall, body: object, version: Version
) -> None:
    """Servers of a2a-python 0.3 follow the `parent` of a body, others the path."""
    with pytest.raises(BadParams):
        read(path, body, version=version)


CREATE = PathCall(Operation.CREATE_PUSH_CONFIG, prefixed=True, task_id="t")


@for_each(("tenant", "scope"), [("acme", "globex"), (None, "globex")])
def test_the_scope_of_0_3_is_the_tenant_in_every_place(tenant: str | None, scope: str) -> None:
    path = PathCall(Operation.LIST_PUSH_CONFIGS, tenant, prefixed=True, task_id="t")
    with pytest.raises(BadParams, match="scope"):
        read(path, query=b"scope=" + scope.encode(), version=Version.V0_3)
    send = PathCall(Operation.SEND_MESSAGE, tenant, prefixed=True)
    with pytest.raises(BadParams, match="scope"):
        read(send, {"scope": scope, "message": {}}, version=Version.V0_3)
    assert read(send, {"scope": tenant or "", "message": {}}, version=Version.V0_3).tenant == tenant
    assert read(path, query=b"scope=" + (tenant or "").encode(), version=Version.V0_3).tenant == tenant
    # 1.0 has no such word, and agents have parameters of their own.
    assert read(path, query=b"scope=read", version=Version.V1_0).query == b"scope=read"


@for_each(
    "body",
    [
        {"message": None, "request": {"taskId": "other"}},
        {"message": {"taskId": "t"}, "request": {"taskId": "t"}},
        {"message": {"taskId": "t", "task_id": "u"}},
        {"message": []},
        {"message": {"taskId": 1}},
        {"configuration": 1},
        {"tenant": 1},
    ],
)
def test_messages_that_could_be_read_in_two_ways_are_refused(body: object) -> None:
    with pytest.raises(BadParams):
        read(SEND, body)


# ---- The tenant ------------------------------------------------------------------------------------------------------

places = st.sampled_from([None, "", "acme", "globex"])


@given(path=st.sampled_from([None, "acme", "globex"]), inner=places, push=places, queried=places)
def test_all_places_of_the_tenant_agree_or_nothing_is_read(
    *, path: str | None, inner: str | None, push: str | None, queried: str | None
) -> None:
    body: dict[str, Any] = {"message": {}, "configuration": {"taskPushNotificationConfig": {"url": "u"}}}
    if inner is not None:
        body["tenant"] = inner
    if push is not None:
        body["configuration"]["taskPushNotificationConfig"]["tenant"] = push
    query = b"" if queried is None else f"x=1&tenant={queried}".encode()
    named = {place for place in (path, inner, push, queried) if place}
    try:
        call = read(PathCall(Operation.SEND_MESSAGE, path), body, query=query)
    except BadParams:
        assert len(named) > 1
        return
    assert {call.tenant} - {None} == named
    assert parse_qsl(call.query.decode()) == ([] if queried is None else [("x", "1")])
    assert call.tenant_written == ({inner, push} <= {None, call.tenant})
    for wanted in (None, "initech"):
        written = json.loads(with_tenant(call.params, call.body, wanted))
        assert written.get("tenant") == wanted
        nested = written["configuration"]["taskPushNotificationConfig"]
        assert nested.get("tenant") == (None if push is None else wanted)


# ---- Faults ----------------------------------------------------------------------------------------------------------

ERRORS = {error["reason"]: error for error in vector("errors")["a2a"]}


def test_an_error_of_0_3_has_every_member_that_clients_read() -> None:
    error = json.loads(rest.render(faults.TaskNotFound("Task not found"), version=Version.V0_3, details=[]))
    seen = ERRORS["TASK_NOT_FOUND"]["v0.3-rest"]
    assert seen["http"]["body"].items() <= error.items()
    for shape in seen["also_seen"][:2]:
        assert shape.items() <= error.items()
    assert error["error"] == {"code": 404, "status": "NOT_FOUND", "message": "Task not found", "details": []}


# ---- HTTP+JSON calls as they are written: what came over JSON-RPC says the same, and what is written is read----------


def asked_for(operation: Operation, version: Version, params: dict[str, Any]) -> Call:
    """Return the call to an agent."""
    theirs = Dialect(Binding.REST, version)
    call = Call(operation, theirs, operation.value)
    return rest.make_call(call, operation, theirs, dict(params), tenant=None, id="1", context_id=None)


def received(sent: Call, version: Version = Version.V1_0) -> Call:
    """Return the call that a server reads."""
    path = read_rest(sent.verb, segments(rest_path(sent.path, version).encode()), tenanted=False)
    assert path is not None
    assert path == sent.path
    return rest.read_call(path, sent.body, sent.query, version)


@for_each(
    ("operation", "params", "method", "path"),
    [
        (Operation.SEND_MESSAGE, {"message": {}}, "POST", "/v1/message:send"),
        (Operation.SEND_STREAMING_MESSAGE, {"message": {}}, "POST", "/v1/message:stream"),
        (Operation.GET_TASK, {"id": "t"}, "GET", "/v1/tasks/t"),
        (Operation.CANCEL_TASK, {"id": "t"}, "POST", "/v1/tasks/t:cancel"),
        (Operation.SUBSCRIBE_TO_TASK, {"id": "t"}, "GET", "/v1/tasks/t:subscribe"),
        (Operation.CREATE_PUSH_CONFIG, {"taskId": "t", "config": {}}, "POST", "/v1/tasks/t/pushNotificationConfigs"),
        (Operation.GET_PUSH_CONFIG, {"taskId": "t", "id": "c"}, "GET", "/v1/tasks/t/pushNotificationConfigs/c"),
        (Operation.LIST_PUSH_CONFIGS, {"taskId": "t"}, "GET", "/v1/tasks/t/pushNotificationConfigs"),
        (Operation.DELETE_PUSH_CONFIG, {"taskId": "t", "id": "c"}, "DELETE", "/v1/tasks/t/pushNotificationConfigs/c"),
        (Operation.GET_EXTENDED_CARD, {}, "GET", "/v1/card"),
    ],
)
def test_agents_of_0_3_are_asked_at_their_paths(
    operation: Operation, params: dict[str, Any], method: str, path: str
) -> None:
    sent = asked_for(operation, Version.V0_3, params)
    assert (sent.verb, rest_path(sent.path, Version.V0_3)) == (method, path)
    assert received(sent, Version.V0_3).operation is operation


def test_the_bodies_of_0_3_have_no_member_that_its_protobuf_lacks() -> None:
    cancel = asked_for(Operation.CANCEL_TASK, Version.V0_3, {"id": "t", "metadata": {}})
    assert cancel.body == b""
    create = asked_for(Operation.CREATE_PUSH_CONFIG, Version.V0_3, {"taskId": "t", "config": {"name": "n"}})
    assert create.body == b'{"config":{"name":"n"}}'


def parameters_of(path: PathCall, body: object) -> Any:
    """The parameters of a call of 1.0."""
    return rest.read_params(rest.read_call(path, json.dumps(body).encode(), b"", Version.V1_0))


def test_the_path_names_the_task_instead_of_the_body() -> None:
    path = PathCall(Operation.CREATE_PUSH_CONFIG, task_id="t")
    params = parameters_of(path, {"task_id": "t", "tenant": "acme"})
    assert params == {"taskId": "t"}


@for_each(
    "value",
    [
        None, 7, msgspec.Raw(b"[]"), "a/b", "a%2Fb", "100%", "a\\b", ".", "..", "", " a", "a ", "a\nb", "a\0", "\u2028",
        "x:cancel", "x:Subscribe", "i" * 513, "\ud800",
    ],
)  # fmt: skip
def test_an_id_that_a_path_cannot_carry_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(BadParams, match=r"^id ") as caught:
        asked_for(Operation.CANCEL_TASK, Version.V1_0, {"id": value})
    assert caught.value.field == "id"
    with pytest.raises(BadParams, match="id"):
        asked_for(Operation.CANCEL_TASK, Version.V1_0, {})


TEXTS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)
IDS = TEXTS.filter(lambda text: not re.search(r"[%/\\]|:(cancel|subscribe)$|^\.\.?$", text, re.IGNORECASE))
BODIES = st.dictionaries(
    st.sampled_from(["metadata", "x", "url"]), st.recursive(st.none() | TEXTS | st.integers(), st.lists)
)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
STATES = st.sampled_from(["TASK_STATE_WORKING", "TASK_STATE_CANCELED"])
LIST_PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "contextId": IDS,
        "status": STATES,
        "pageSize": NUMBERS,
        "pageToken": TEXTS,
        "historyLength": NUMBERS,
        "statusTimestampAfter": TEXTS,
        "includeArtifacts": st.booleans(),
    },
)
ASKED = st.one_of(
    st.tuples(st.just(Operation.SEND_MESSAGE), BODIES),
    st.tuples(st.just(Operation.GET_TASK), st.fixed_dictionaries({"id": IDS}, optional={"historyLength": NUMBERS})),
    st.tuples(st.just(Operation.LIST_TASKS), LIST_PARAMS),
    st.tuples(st.just(Operation.CANCEL_TASK), st.builds(lambda body, task: {**body, "id": task}, BODIES, IDS)),
    st.tuples(st.just(Operation.SUBSCRIBE_TO_TASK), st.fixed_dictionaries({"id": IDS})),
    st.tuples(
        st.just(Operation.CREATE_PUSH_CONFIG), st.builds(lambda body, task: {**body, "taskId": task}, BODIES, IDS)
    ),
    st.tuples(st.just(Operation.DELETE_PUSH_CONFIG), st.fixed_dictionaries({"taskId": IDS, "id": IDS})),
    st.tuples(
        st.just(Operation.LIST_PUSH_CONFIGS),
        st.fixed_dictionaries({"taskId": IDS}, optional={"pageSize": NUMBERS, "pageToken": TEXTS}),
    ),
)


@given(ASKED)
def test_written_params_are_read_again(asked: tuple[Operation, dict[str, Any]]) -> None:
    operation, params = asked
    assert rest.read_params(received(asked_for(operation, Version.V1_0, params))) == params


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["id", "taskId", "task_id", "historyLength", "pageSize", "status", "contextId", "includeArtifacts"]
)


@given(st.sampled_from(CALLABLE), st.sampled_from(Version), st.dictionaries(NAMES | st.text(), ANYTHING, max_size=5))
def test_any_parameters_are_written_as_a_call_that_can_be_read_or_refused(
    operation: Operation, version: Version, params: dict[str, Any]
) -> None:
    try:
        sent = asked_for(operation, version, params)
    except BadParams:
        return
    assert read_rest(sent.verb, segments(rest_path(sent.path, version).encode()), tenanted=False) == sent.path
    assert split_query(sent.query) == (None, sent.query)
