"""One list of several: every task once, newest first, whatever the pages."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import BadParams, UpstreamProtocol
from gateway.a2a.merging import MergedList

SECONDS = st.integers(0, 59)


class Agent:
    """Tells its tasks page by page, newest first."""

    def __init__(self, name: str, seconds: list[int]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = [
            {"id": f"{name}-{number}", "status": {"timestamp": f"2026-11-22T10:00:{second:02}Z"}}
            for number, second in enumerate(sorted(seconds, reverse=True))
        ]

    def answer(self, params: bytes) -> bytes:
        asked = json.loads(params)
        self.asked.append(asked)
        begin = int(asked.get("pageToken", "0"))
        end = begin + asked["pageSize"]
        rest = str(end) if end < len(self.tasks) else ""
        return json.dumps(
            {"tasks": self.tasks[begin:end], "nextPageToken": rest, "totalSize": len(self.tasks)}
        ).encode()


def page(agents: list[Agent], missing: frozenset[int] = frozenset(), **params: Any) -> Any:
    listing = MergedList(json.dumps(params).encode(), len(agents), missing)
    while wanted := listing.wanted():
        for each in wanted:
            listing.give(each, agents[each.source].answer(bytes(listing.params(each))))
    return json.loads(listing.result())


def pages(agents: list[Agent], sizes: list[int]) -> list[Any]:
    found: list[Any] = []
    token = ""
    for number in range(1000):
        more: dict[str, Any] = {"pageToken": token} if token else {}
        found.append(page(agents, pageSize=sizes[number % len(sizes)], **more))
        token = found[-1]["nextPageToken"]
        if not token:
            return found
    raise AssertionError("it never ends")


@given(
    st.lists(st.lists(SECONDS, max_size=12), min_size=1, max_size=4),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
)
def test_every_task_comes_once_and_the_newest_first(seconds: list[list[int]], sizes: list[int]) -> None:
    agents = [Agent(str(number), each) for number, each in enumerate(seconds)]
    found = pages(agents, sizes)
    tasks = [task for each in found for task in each["tasks"]]
    moments = [task["status"]["timestamp"] for task in tasks]
    assert moments == sorted(moments, reverse=True)
    assert sorted(task["id"] for task in tasks) == sorted(task["id"] for agent in agents for task in agent.tasks)
    assert {each["totalSize"] for each in found} == {len(tasks)}
    assert all(len(each["tasks"]) == sizes[number % len(sizes)] for number, each in enumerate(found[:-1]))


def test_other_parameters_go_to_all() -> None:
    agents = [Agent("a", [1]), Agent("b", [2])]
    assert page(agents, contextId="c", historyLength=0)["pageSize"] == 50
    assert [agent.asked for agent in agents] == [[{"contextId": "c", "historyLength": 0, "pageSize": 50}]] * 2


def test_who_cannot_be_asked_is_left_out() -> None:
    agents = [Agent("a", [1]), Agent("b", [2])]
    assert [task["id"] for task in page(agents, frozenset({1}))["tasks"]] == ["a-0"]
    assert agents[1].asked == []


def test_a_task_without_a_moment_comes_last() -> None:
    agents = [Agent("a", [1]), Agent("b", [2])]
    agents[1].tasks = [{"id": "b-0"}, {"id": "b-1", "status": {"timestamp": "soon"}}]
    assert [task["id"] for task in page(agents)["tasks"]] == ["a-0", "b-0", "b-1"]


@pytest.mark.parametrize(
    "params",
    [
        b'{"pageSize":0}',
        b'{"pageSize":101}',
        b'{"pageSize":"x"}',
        b"[]",
        b'{"pageToken":"nobody"}',
        b'{"pageToken":"' + b"A" * 70_000 + b'"}',
        b'{"pageToken":"W10="}',
        b'{"pageToken":"W1siIiwxMDEsMCwwLGZhbHNlXSxbXV0="}',
        b'{"pageToken":"\xc3\xa9"}',
    ],
)
def test_what_is_no_page_of_this_list_is_refused(params: bytes) -> None:
    with pytest.raises(BadParams):
        MergedList(params, 2)


def test_what_is_no_page_of_tasks_is_refused() -> None:
    listing = MergedList(b"{}", 1)
    [wanted] = listing.wanted()
    for result in (b"[]", b'{"tasks":[1]}', b'{"tasks":{}}'):
        with pytest.raises(UpstreamProtocol):
            listing.give(wanted, result)


def test_pages_that_never_end_are_refused() -> None:
    listing = MergedList(b'{"pageSize":1}', 1)
    for number in range(20):
        [wanted] = listing.wanted()
        listing.give(wanted, b'{"tasks":[],"nextPageToken":"%d"}' % number)
    [wanted] = listing.wanted()
    with pytest.raises(UpstreamProtocol, match="another one"):
        listing.give(wanted, b'{"tasks":[],"nextPageToken":"more"}')
    listing = MergedList(b"{}", 1)
    [wanted] = listing.wanted()
    listing.give(wanted, b'{"tasks":[],"nextPageToken":"x"}')
    [wanted] = listing.wanted()
    with pytest.raises(UpstreamProtocol, match="circle"):
        listing.give(wanted, b'{"tasks":[],"nextPageToken":"x"}')
