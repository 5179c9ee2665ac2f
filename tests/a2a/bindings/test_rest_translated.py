"""HTTP+JSON calls as they are written: what came over JSON-RPC says the same, and what is written is read again."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.bindings import rest
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.params import split_query
from gateway.a2a.paths import PathCall, read_rest, rest_path, segments
from tests.table import for_each


def asked_for(operation: Operation, version: Version, params: dict[str, Any]) -> Call:
    """Return the call to an agent."""
    theirs = Dialect(Binding.REST, version)
    call = Call(operation, theirs, operation.value)
    return rest.make_call(call, operation, theirs, dict(params), tenant=None, id="1", context_id=None)


def received(sent: Call, version: Version = Version.V1_0) -> Call:
    """What a server reads of a call."""
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


def read(path: PathCall, body: object) -> Any:
    """The parameters of a call of 1.0."""
    return rest.read_params(rest.read_call(path, json.dumps(body).encode(), b"", Version.V1_0))


def test_the_path_names_the_task_whatever_the_body_calls_it() -> None:
    path = PathCall(Operation.CREATE_PUSH_CONFIG, task_id="t")
    params = read(path, {"task_id": "t", "tenant": "acme"})
    assert params == {"taskId": "t"}


@for_each("params", [{}, {"id": None}, {"id": 7}, {"id": ""}, {"id": msgspec.Raw(b"[]")}, {"id": "a/b"}])
def test_an_id_that_a_path_cannot_carry_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(BadParams, match="id"):
        asked_for(Operation.GET_TASK, Version.V1_0, params)


TEXTS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)
IDS = TEXTS.filter(lambda text: not re.search(r"[%/\\]|:(cancel|subscribe)$|^\.\.?$", text, re.IGNORECASE))
BODIES = st.dictionaries(
    st.sampled_from(["metadata", "x", "url"]), st.recursive(st.none() | TEXTS | st.integers(), st.lists)
)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
STATES = st.sampled_from(["TASK_STATE_WORKING", "TASK_STATE_CANCELED"])
LIST = st.fixed_dictionaries(
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
    st.tuples(st.just(Operation.LIST_TASKS), LIST),
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
def test_what_is_written_is_read_again(asked: tuple[Operation, dict[str, Any]]) -> None:
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
