"""Another id stands in place of one, in what is relayed and in what is translated, and nothing else changes."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.ids import referenced_ids, with_context, with_task, without
from gateway.a2a.operation import Operation
from gateway.a2a.params import NO_PARAMS
from gateway.a2a.paths import PathCall
from gateway.a2a.translation import Translation
from tests.a2a.bindings.grpc_sample import made
from tests.a2a.dialects import DIALECTS, Case, asked, call_of, hub_params, pairs, vector
from tests.a2a.sample import CONTEXT
from tests.a2a.test_referenced_ids import SAID, VECTORS, over_grpc, over_http, rpc
from tests.table import for_each

MARK = "gw-0123abcd-"
OTHER = MARK + CONTEXT
NAMING = [(file, name) for file, name in VECTORS if file == "ListTasks" or file.startswith("Send")]


def renamed(tree: Any, old: str, new: str) -> Any:
    return json.loads(json.dumps(tree).replace(json.dumps(old), json.dumps(new)))


# ---- Contexts --------------------------------------------------------------------------------------------------------


@for_each(("file", "name"), NAMING)
def test_another_context_is_relayed_and_translated_in_every_dialect(file: str, name: str) -> None:
    call = call_of(vector(file)["request"][name], DIALECTS[name])
    changed = with_context(call, OTHER)
    assert changed.context_id == referenced_ids(changed).context == OTHER
    assert referenced_ids(changed).tasks == referenced_ids(call).tasks
    # The hub, and the agent of the same dialect.
    assert hub_params(changed) == renamed(hub_params(call), CONTEXT, OTHER)
    assert asked(changed).context_id == referenced_ids(asked(changed)).context == OTHER
    # Back again it is what it was, but that gRPC orders its fields.
    back = with_context(changed, CONTEXT)
    assert hub_params(back) == hub_params(call)
    if call.dialect.binding is not Binding.GRPC and call.body:
        assert json.loads(back.body) == json.loads(call.body)


@for_each("pair", pairs())
def test_another_context_is_put_into_what_the_gateway_has_written(pair: list[Case]) -> None:
    for case in pair:
        _has_another_context(case)


def _has_another_context(case: Case) -> None:
    client = call_of(vector(case.file)["request"][case.ours], DIALECTS[case.ours])
    call = Translation(client, DIALECTS[case.theirs], new_id="new", message_id="m").call
    context = referenced_ids(call).context
    changed = with_context(call, OTHER)
    if context is None:
        assert changed is call
        return
    assert referenced_ids(changed).context == changed.context_id == OTHER, case
    assert referenced_ids(with_context(changed, context)) == referenced_ids(call), case
    if call.dialect.binding is Binding.JSONRPC:
        assert json.loads(changed.body) == renamed(json.loads(call.body), context, OTHER)


def test_an_empty_twin_says_the_same_afterwards() -> None:
    """A reader may look at either."""
    call = rpc("SendMessage", {"message": {**SAID, "contextId": "", "context_id": "c"}, "sessionId": None})
    tree = json.loads(with_context(call, "d").body)["params"]
    assert (tree["message"]["contextId"], tree["message"]["context_id"], tree["sessionId"]) == ("d", "d", "d")


@for_each(
    "call",
    [
        rpc("SendMessage", {"message": SAID}),
        rpc("SendMessage", {"message": {**SAID, "contextId": "", "context_id": None}, "metadata": {"contextId": "c"}}),
        rpc("GetTask", {"id": "t"}, b"x=1"),
        over_http("GET", "tasks", query=b"contextId=&status=c"),
        over_http("POST", "tasks/t:cancel"),
        over_grpc(Operation.SEND_MESSAGE, Version.V1_0, message={"task_id": "t"}),
    ],
)
def test_a_call_that_names_no_context_stays_the_call_that_it_is(call: Call) -> None:
    assert with_context(call, "d") is call


contexts = st.dictionaries(st.sampled_from(["contextId", "context_id"]), st.just("c"), min_size=1)
others = st.dictionaries(
    st.sampled_from(["x", "metadata", "\u00e4", "parts"]), st.sampled_from([1, "c", [], {"contextId": "c"}])
)
styles = st.tuples(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:  ")]), st.booleans())


@given(contexts, others, others, styles, st.text(st.characters(codec="utf-8"), min_size=1, max_size=9))
def test_any_body_has_the_other_context_where_it_had_one_and_nowhere_else(
    pair_name: dict[str, str],
    beside: dict[str, Any],
    around: dict[str, Any],
    style: tuple[tuple[str, str], bool],
    context: str,
) -> None:
    tree = {"jsonrpc": "2.0", **around, "id": 1, "method": "SendMessage", "params": {**around, "message": {}}}
    tree["params"]["message"] = {**beside, **pair_name}
    body = json.dumps(tree, separators=style[0], ensure_ascii=style[1]).encode()
    call = jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)
    changed = with_context(call, context)
    tree["params"]["message"] |= dict.fromkeys(pair_name, context)
    assert json.loads(changed.body) == tree
    unread = with_context(replace(call, params=NO_PARAMS), context)
    assert (unread.body, unread.params) == (changed.body, NO_PARAMS)


# ---- Tasks -----------------------------------------------------------------------------------------------------------


@for_each(
    ("method", "params", "places"),
    [
        ("tasks/send", {"id": "t", "message": {**SAID, "metadata": {"id": "t"}}}, ["id"]),
        ("tasks/sendSubscribe", {"message": {**SAID, "taskId": "t"}, "id": "t", "taskId": "t"}, ["id", "taskId"]),
        ("tasks/get", {"id": "t", "historyLength": 3}, ["id"]),
        ("tasks/cancel", {"id": "t"}, ["id"]),
        ("tasks/resubscribe", {"id": "t"}, ["id"]),
        ("tasks/pushNotification/set", {"id": "t", "pushNotificationConfig": {"url": "t"}}, ["id"]),
        ("tasks/pushNotification/get", {"id": "t"}, ["id"]),
    ],
)
def test_a_task_that_its_client_named_is_another_to_the_agent(
    method: str, params: dict[str, Any], places: list[str]
) -> None:
    call = rpc(method, params)
    changed = with_task(call, MARK + "t")
    expected = {**params, **dict.fromkeys(places, MARK + "t")}
    if "taskId" in params.get("message", {}):
        expected["message"] = {**params["message"], "taskId": MARK + "t"}
    assert json.loads(changed.body)["params"] == expected
    assert changed.task_id == MARK + "t"
    assert referenced_ids(changed).tasks == (MARK + "t",)
    assert json.loads(with_task(changed, "t").body) == json.loads(call.body)


@for_each(
    "call",
    [
        rpc("tasks/send", {"message": {**SAID, "referenceTaskIds": ["t"]}}),
        rpc("ListTasks", {"contextId": "c"}),
        over_http("GET", "tasks/t"),
        over_grpc(Operation.GET_TASK, Version.V1_0, id="t"),
    ],
)
def test_no_other_call_has_a_task_that_its_client_named(call: Call) -> None:
    with pytest.raises(ValueError, match="no task"):
        with_task(call, "u")


# ---- Without a mark --------------------------------------------------------------------------------------------------


@for_each("binding", [Binding.JSONRPC, Binding.REST])
def test_a_mark_is_cut_out_of_json(binding: Binding) -> None:
    tree = {"id": f"{MARK}t", MARK: [f"a{MARK}", f"{MARK}{MARK}"], "text": f"see {MARK}chat-1, \u00e4", "n": 1.5}
    for frame in (json.dumps(tree, indent=1).encode(), json.dumps(tree, ensure_ascii=False).encode()):
        found = without(frame, MARK.encode(), binding, version=Version.V1_0, operation=Operation.GET_TASK, event=False)
        assert json.loads(found) == {"id": "t", "": ["a", ""], "text": "see chat-1, \u00e4", "n": 1.5}


@for_each("binding", list(Binding))
def test_a_frame_without_a_mark_is_the_frame(binding: Binding) -> None:
    frame = made(Operation.GET_TASK, Version.V1_0, id="t") if binding is Binding.GRPC else b'{"id":"t"}'
    assert (
        without(frame, MARK.encode(), binding, version=Version.V1_0, operation=Operation.GET_TASK, event=False) is frame
    )


@given(st.recursive(st.text(max_size=5), lambda below: st.lists(below) | st.dictionaries(st.text(max_size=5), below)))
def test_json_without_a_mark_is_json_all_the_same(tree: Any) -> None:
    frame = msgspec.json.encode({"x": tree, "t": MARK})
    found = without(
        frame, MARK.encode(), Binding.JSONRPC, version=Version.V1_0, operation=Operation.GET_TASK, event=True
    )
    assert json.loads(found) == {"x": tree, "t": ""}


def test_a_mark_is_cut_out_of_a_message_of_grpc() -> None:
    # The answer has its message under the number that the request has.
    answer, plain = (
        over_grpc(Operation.SEND_MESSAGE, Version.V1_0, message={"context_id": context}).body
        for context in (OTHER, CONTEXT)
    )
    found = without(
        answer, MARK.encode(), Binding.GRPC, version=Version.V1_0, operation=Operation.SEND_MESSAGE, event=False
    )
    assert found == plain
