"""Push configurations in calls and answers, in the hub's words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import push_config
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import BadParams, BadRequest
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.push_config import LONGEST_ID, LONGEST_TOKEN, PushConfig, restore_tenant
from tests.table import for_each

URL = "https://hooks.example.net/a2a"
WHOLE: Tree = {
    "id": "cfg-1",
    "taskId": "task-7",
    "url": URL,
    "token": "tok-123",
    "authentication": {"scheme": "Bearer", "credentials": "s3cret"},
}
READ = PushConfig(URL, "cfg-1", "task-7", "tok-123", "Bearer", "s3cret")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"url": ""},
        {"url": 1},
        {"url": URL, "token": ["x"]},
        {"url": URL, "id": "x" * (LONGEST_ID + 1)},
        {"url": URL, "token": "x" * (LONGEST_TOKEN + 1)},
        {"url": URL, "token": "x\r\nHost: elsewhere"},
        {"url": URL, "token": "x\0"},
        {"url": URL, "token": " x"},
        {"url": URL, "token": "schlüssel"},
        {"url": URL, "authentication": "Bearer"},
        {"url": URL, "authentication": {"scheme": "Bearer x"}},
        {"url": URL, "authentication": {"scheme": "Bearer\n"}},
        {"url": URL, "authentication": {"scheme": "Bearer", "credentials": "x\ny"}},
    ],
)
def test_values_that_no_header_can_hold_are_refused_without_being_repeated(wrong: Tree) -> None:
    with pytest.raises(BadParams) as refused:
        push_config.read(wrong)
    for value in ("elsewhere", "schlüssel", "x" * 20):
        assert value not in refused.value.message


def test_configurations_of_an_answer_are_found_and_replaced() -> None:
    one, other = dict(WHOLE), {"url": "x"}
    for operation in (Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG):
        result = dict(one)
        assert push_config.in_answer(operation, result) == [one]
        push_config.replace_in_answer(operation, result, [other])
        assert result == other
        push_config.replace_in_answer(operation, result, [])
        assert result == {}
        assert push_config.in_answer(operation, result) == []
    page: Tree = {"configs": [one, other], "nextPageToken": "n"}
    assert push_config.in_answer(Operation.LIST_PUSH_CONFIGS, page) == [one, other]
    push_config.replace_in_answer(Operation.LIST_PUSH_CONFIGS, page, [other])
    assert page == {"configs": [other], "nextPageToken": "n"}
    assert push_config.in_answer(Operation.LIST_PUSH_CONFIGS, {"configs": None}) == []
    assert push_config.in_answer(Operation.DELETE_PUSH_CONFIG, {"url": "x"}) == []
    assert push_config.in_answer(Operation.GET_TASK, {"url": "x"}) == []


def test_printed_configurations_show_no_secret_and_no_url() -> None:
    assert repr(READ) == "PushConfig(id='cfg-1', task_id='task-7')"


# ---- What an agent echoes of the tenant ------------------------------------------------------------------------------

BINDINGS = (Binding.JSONRPC, Binding.REST)


def restored(tree: object, binding: Binding, tenant: str | None) -> object:
    return json.loads(restore_tenant(json.dumps(tree).encode(), binding, tenant))


@for_each(
    "body",
    [
        b"{}", b'{"configs":{"tenant":1}}', b'{"result":null}', b'{"result":[]}', b'{"result":"tenant"}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"x"}}', b'{"result":[null, 1,"tenant"]}',
        b'{"result":{"configs":null}}', b'{ "result": {"configs":[ ] } }', b'{"id":1, "result": {"id": "c"}}',
    ],
)  # fmt: skip
@for_each("binding", BINDINGS)
def test_an_answer_of_another_shape_is_given_back_as_it_came(body: bytes, binding: Binding) -> None:
    assert restore_tenant(body, binding, "acme") == body


@for_each(
    "result",
    [b'{"tenant":"a","tenant":"b"}', b'{"tenant":"a","Tenant":"b"}', b'[{"tenant":"a","\\u0074enant":"b"}]',
     b'{"configs":[{"tenant":"a","tenant":"b"}]}', b"[" * 300 + b"]" * 300],
)  # fmt: skip
def test_an_answer_that_could_be_read_in_two_ways_is_refused(result: bytes) -> None:
    with pytest.raises(BadRequest):
        restore_tenant(b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}", Binding.JSONRPC, "acme")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "tenant", "configs", "result"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["a", "tenant", "configs", "result"]), json_values), st.sampled_from(BINDINGS))
def test_nothing_but_tenants_changes(tree: object, binding: Binding) -> None:
    kept = tree
    if binding is Binding.JSONRPC and isinstance(tree, dict) and "result" in tree:
        # Unknown members of the envelope may hold anything, and are removed.
        kept = {"result": tree["result"]}
    assert _without(restored(tree, binding, "acme")) == _without(kept)


def _without(tree: object) -> object:
    if isinstance(tree, dict):
        return {name: _without(value) for name, value in tree.items() if name != "tenant"}
    return [_without(value) for value in tree] if isinstance(tree, list) else tree
