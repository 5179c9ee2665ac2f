"""A list of tasks is asked for and told in every dialect that has it, task by task and with nothing beside them."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from a2a.types import a2a_pb2
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, UpstreamProtocol
from gateway.a2a.json import Tree
from gateway.a2a.task_list import LONGEST_PAGE, TaskListing, can_list
from gateway.a2a.translation import Translation
from tests.a2a.dialects import asked
from tests.a2a.lists import CLIENTS, GRPC, JSONRPC, JSONRPC_0_3, LIST, PAIRS, REST, listed, page_of, result_of
from tests.a2a.versions.trees import HUB, MORE, Hub
from tests.table import for_each

TASK: Tree = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}

pairs = pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=str)
agents = pytest.mark.parametrize("theirs", CLIENTS, ids=str)


# ---- What is asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", CLIENTS, ids=str)
@pytest.mark.parametrize("size", [-1, 0, LONGEST_PAGE + 1, 2**31 - 1])
def test_a_page_of_a_size_that_is_out_of_bounds_is_refused(ours: Dialect, size: int) -> None:
    with pytest.raises(BadParams) as caught:
        TaskListing(listed(ours, pageSize=size), JSONRPC)
    assert caught.value.field == "pageSize"


@for_each("ours", [JSONRPC, JSONRPC_0_3])
def test_two_spellings_of_one_parameter_are_one(ours: Dialect) -> None:
    listing = TaskListing(listed(ours, page_token="sealed", page_size=3, lastUpdatedAfter="2026-02-03T04:05:06Z"), REST)
    assert (listing.page_token, listing.page_size) == ("sealed", 3)
    assert listing.filters == ("", "", "", "2026-02-03T04:05:06Z")
    with pytest.raises(BadParams):
        TaskListing(listed(ours, page_token="one", pageToken="another"), REST)


@pairs
def test_the_tenant_is_told_as_the_agents_dialect_tells_it(ours: Dialect, theirs: Dialect) -> None:
    call = TaskListing(listed(ours), theirs, tenant="inner", id="g-7").ask("", 50)
    assert call.tenant == "inner"
    if theirs.binding is Binding.JSONRPC:
        assert json.loads(call.body)["params"]["tenant"] == "inner"
        assert json.loads(call.body)["id"] == "g-7"
    elif theirs.binding is Binding.GRPC:
        assert asked(call).tenant == "inner"
    else:
        # In the path, which is written where the call is sent.
        assert call.query == b"pageSize=50"
        assert call.verb == "GET"


@for_each("token", ["a\x00b", "t" * 9000])
def test_a_token_of_the_agents_that_no_query_can_carry_is_the_agents_fault(token: str) -> None:
    with pytest.raises(UpstreamProtocol):
        TaskListing(listed(), REST).ask(token, 50)


def test_a_context_that_no_query_can_carry_is_the_clients_fault() -> None:
    with pytest.raises(BadParams) as caught:
        TaskListing(listed(contextId="a\nb"), REST).ask("", 50)
    assert caught.value.field == "contextId"


def test_a_dialect_without_lists_cannot_be_asked() -> None:
    oldest = Dialect(Binding.JSONRPC, Version.V0_1)
    grpc_0_3 = Dialect(Binding.GRPC, Version.V0_3)
    assert not can_list(JSONRPC, oldest)
    assert not can_list(grpc_0_3, grpc_0_3)
    # In prose alone, and nobody has met an agent that does it: only who asks for it that way gets it that way.
    assert not can_list(JSONRPC, JSONRPC_0_3)
    assert can_list(JSONRPC_0_3, JSONRPC_0_3)
    with pytest.raises(ValueError, match="cannot be listed"):
        TaskListing(listed(), oldest)


# ---- What is answered ------------------------------------------------------------------------------------------------


MARKED = Hub(marks="nobodyKnows").results[LIST]
# Neither 0.3's own objects nor protobuf can hold all that JSON can.
EXACT = [pair for pair in PAIRS if pair[0] in (JSONRPC, REST) and pair[1] in (JSONRPC, REST)]


@MORE
@given(pair=st.sampled_from(EXACT), result=MARKED)
def test_members_that_nobody_knows_survive(pair: tuple[Dialect, Dialect], result: Tree) -> None:
    ours, theirs = pair
    listing = TaskListing(listed(ours, pageSize=9), theirs)
    page = listing.read(page_of(theirs, result["tasks"], result["nextPageToken"]))
    assert page.next_token == result["nextPageToken"]
    told = result_of(ours, listing.answer(page.tasks, "sealed", 3))
    assert told == {"tasks": result["tasks"], "nextPageToken": "sealed", "pageSize": 9, "totalSize": 3}


TRANSLATED = [pair for pair in PAIRS if pair[1].version is Version.V1_0]


@MORE
@given(pair=st.sampled_from(TRANSLATED), result=HUB.results[LIST])
def test_a_task_is_told_as_a_translation_tells_it(pair: tuple[Dialect, Dialect], result: Tree) -> None:
    ours, theirs = pair
    call = listed(ours, pageSize=50)
    listing, translation = TaskListing(call, theirs), Translation(call, theirs)
    try:
        frame = page_of(theirs, result["tasks"])
        expected = result_of(ours, translation.answer(frame))
    except UpstreamProtocol:
        # Values that protobuf cannot hold.
        return
    expected["totalSize"] = 9
    assert result_of(ours, listing.answer(listing.read(frame).tasks, "", 9)) == expected


@pairs
def test_nothing_that_an_agent_says_beside_its_tasks_is_told(ours: Dialect, theirs: Dialect) -> None:
    listing = TaskListing(listed(ours), theirs)
    frame = page_of(theirs, [TASK], "theirs")
    if theirs.binding is not Binding.GRPC:
        frame = frame.replace(b'"pageSize":50', b'"pageSize":50,"metadata":{"others":["theirs"]}')
        assert b"others" in frame
    told = listing.answer(listing.read(frame).tasks, "", 1)
    assert b"theirs" not in told
    assert result_of(ours, told)["totalSize"] == 1


@agents
@pytest.mark.parametrize(("length", "kept"), [(0, []), (1, ["3"]), (2, ["2", "3"]), (9, ["1", "2", "3"])])
def test_history_is_trimmed_where_the_agent_does_not_care(theirs: Dialect, length: int, kept: list[str]) -> None:
    ours = theirs if theirs.version is Version.V0_3 else JSONRPC
    messages = [{"messageId": each, "role": "ROLE_USER", "parts": [{"text": "hi"}]} for each in "123"]
    listing = TaskListing(listed(ours, historyLength=length), theirs)
    [task] = listing.read(page_of(theirs, [{**TASK, "history": messages}])).tasks
    assert [message["messageId"] for message in task.get("history", [])] == kept


# ---- What is none ----------------------------------------------------------------------------------------------------


def rpc(tasks: str, more: str = "") -> bytes:
    return f'{{"jsonrpc":"2.0","id":"1","result":{{"tasks":{tasks}{more}}}}}'.encode()


GOOD = '{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_WORKING"}}'


@for_each(
    "task",
    [
        '{"id":"t-2"}',
        '{"id":"t-2","status":[]}',
        '{"id":"t-2","status":{"state":"asleep"}}',
        '{"id":"t-2","status":{},"history":[{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a","url":"b"}]}]}',
        '{"id":"t-2","status":{},"metadata":{"n":1e99999999999999999999}}',
    ],
)
def test_a_task_that_is_not_what_it_should_be_does_not_hide_the_others(task: str) -> None:
    page = TaskListing(listed(), JSONRPC).read(rpc(f"[{task},{GOOD}]", ',"nextPageToken":"n"'))
    assert [each["id"] for each in page.tasks] == ["t-1"]
    assert page.next_token == "n"
    assert page.broken.keys() == {"t-2"}


def test_nor_does_it_over_grpc() -> None:
    bad = a2a_pb2.Task(id="t-2", status={"state": 2})
    bad.metadata.fields["n"].number_value = float("nan")
    good = a2a_pb2.Task(id="t-1", context_id="c-1", status={"state": 2})
    frame = a2a_pb2.ListTasksResponse(tasks=[bad, good], next_page_token="n").SerializeToString()
    page = TaskListing(listed(), GRPC).read(frame)
    assert page.tasks == [TASK]
    assert page.next_token == "n"
    assert page.broken.keys() == {"t-2"}


@for_each(
    "frame",
    [
        b"",
        b"[]",
        b"{",
        b'{"jsonrpc":"2.0","id":"1","result":[]}',
        b'{"jsonrpc":"2.0","id":"1","result":null}',
        rpc("{}"),
        rpc("[1]"),
        rpc("[null]"),
        rpc('[{"status":{"state":"TASK_STATE_WORKING"}}]'),
        rpc('[{"id":"","status":{"state":"TASK_STATE_WORKING"}}]'),
        rpc('[{"id":7,"status":{"state":"TASK_STATE_WORKING"}}]'),
        rpc("[]", ',"nextPageToken":7'),
        rpc("[]", ',"nextPageToken":"a","next_page_token":"b"'),
        rpc('[{"id":"t","metadata":' + '{"a":' * 50_000 + "1" + "}" * 50_001 + "]"),
    ],
)
def test_a_malformed_page_is_the_agents_fault(frame: bytes) -> None:
    with pytest.raises(UpstreamProtocol):
        TaskListing(listed(), JSONRPC).read(frame)
    for message in (b"\xff", a2a_pb2.ListTasksResponse(tasks=[{}]).SerializeToString()):
        with pytest.raises(UpstreamProtocol):
            TaskListing(listed(), GRPC).read(message)


@agents
def test_a_task_without_an_id_is_the_agents_fault_in_every_dialect(theirs: Dialect) -> None:
    listing = TaskListing(listed(theirs), theirs)
    frame = page_of(theirs, [{**TASK, "id": ""}])
    with pytest.raises(UpstreamProtocol):
        listing.read(frame)


@for_each(
    ("ours", "make"), [(GRPC, lambda: Decimal("1e400")), (GRPC, lambda: deep(50_000)), (JSONRPC, lambda: deep(50_000))]
)
def test_tasks_that_the_clients_dialect_cannot_hold_are_the_agents_fault(
    ours: Dialect, make: Callable[[], Any]
) -> None:
    with pytest.raises(UpstreamProtocol):
        TaskListing(listed(ours), JSONRPC).answer([{**TASK, "metadata": {"n": make()}}], "", 1)


def deep(levels: int) -> Tree:
    tree: Tree = {}
    for _ in range(levels):
        tree = {"a": tree}
    return tree
