"""Lists of tasks on a shared agent hold all tasks of the caller, each once, and nothing of anybody else's."""

import asyncio
from base64 import b64encode, urlsafe_b64decode
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.a2a.call import Call
from gateway.a2a.dialect import Dialect
from gateway.a2a.fault import BadParams, MethodNotAllowed, UpstreamProtocol
from gateway.a2a.json import Tree
from gateway.a2a.task_list import TaskListing
from gateway.proxy.list_tasks import walk
from tests.a2a.lists import CLIENTS, JSONRPC, JSONRPC_0_3, PAIRS, listed, page_of, result_of
from tests.support.shared_agent import (
    ACME,
    CIPHER,
    COMPLETED,
    WORKING,
    SharedAgent,
    Stored,
    acmes,
    answered,
    counting,
    crowd,
    ids,
    page,
    task_of,
    unasked,
)
from tests.table import for_each

# ---- The whole -------------------------------------------------------------------------------------------------------

OWNERS = st.sampled_from(["acme", "globex", "initech"])
TASKS = st.lists(st.tuples(OWNERS, st.sampled_from(["c-1", "c-2"]), st.sampled_from([WORKING, COMPLETED])), max_size=40)
AGENTS = st.fixed_dictionaries(
    {
        "tasks": TASKS.map(
            lambda found: [Stored(owner, f"{owner}-task-{n:03}", *rest) for n, (owner, *rest) in enumerate(found)]
        ),
        "most": st.none() | st.integers(1, 9),
        "at_most": st.sampled_from([1, 2, 7, 100]),
        "empty": st.dictionaries(st.integers(0, 20), st.integers(1, 3), max_size=3),
    }
)
"""In any order of owners; some give as many as they like, some have empty pages in between."""


@settings(max_examples=3 * settings().max_examples)
@given(
    pair=st.sampled_from(PAIRS),
    described=AGENTS,
    size=st.integers(1, 12),
    pages=st.integers(1, 6) | st.just(20),
    context=st.sampled_from(["", "c-1"]),
    status=st.sampled_from(["", WORKING]),
)
def test_the_pages_of_a_client_are_its_own_tasks_each_once_in_the_agents_order(
    *, pair: tuple[Dialect, Dialect], described: dict[str, Any], size: int, pages: int, context: str, status: str
) -> None:
    ours, theirs = pair
    agent = SharedAgent(theirs=theirs, **deepcopy(described))
    spelled = "working" if ours == JSONRPC_0_3 else status
    asked_for = {name: said for name, said in {"contextId": context, "status": status and spelled}.items() if said}
    own = [
        task.id
        for task in agent.tasks
        if task.owner == "acme" and context in ("", task.context) and status in ("", task.state)
    ]
    told: list[str] = []
    token = ""
    while True:
        agent.asked.clear()
        begun = bool(token)
        call = listed(ours, pageSize=size, **asked_for, **({"pageToken": token} if token else {}))
        try:
            answer = answered(call, agent.ask, counting(len(own)), theirs=theirs, pages=pages)
        except MethodNotAllowed:
            # With the first page or not at all, and only where there is more than may be gone through.
            assert status
            assert not begun
            assert len(agent.asked) == pages
            return
        found = result_of(ours, answer)
        token = found["nextPageToken"]
        shows_nothing_of_others(agent, answer, token)
        assert (found["pageSize"], found["totalSize"]) == (size, len(own))
        assert len(agent.asked) <= pages
        # Those that only counted are among what was asked for.
        stopped_early = len(agent.asked) == pages and (begun or not status)
        assert len(found["tasks"]) >= size or not token or stopped_early
        assert len(found["tasks"]) <= size or agent.most is not None
        told += ids(found)
        assert len(agent.given) <= 500
        if not token:
            break
    assert told == own


def shows_nothing_of_others(agent: SharedAgent, answer: bytes, token: str) -> None:
    for told in (answer, urlsafe_b64decode(token + "=" * (-len(token) % 4))):
        for secret in ("globex", "initech", *agent.given):
            assert secret.encode() not in told
            assert b64encode(secret.encode()).strip(b"=") not in told


# ---- Pages -----------------------------------------------------------------------------------------------------------


@for_each("circle", [("a", "a"), ("a", "b", "a"), ("a", "b", "b")])
def test_an_agent_whose_pages_go_in_a_circle_is_at_fault(circle: tuple[str, ...]) -> None:
    following = iter(circle)

    async def ask(call: Call) -> bytes:
        return page_of(JSONRPC, [], next(following))

    with pytest.raises(UpstreamProtocol, match="tokens repeat"):
        answered(listed(), ask)


def test_a_task_that_moves_while_the_agent_is_asked_is_told_once() -> None:
    moved = task_of("acme", "acme-1")
    pages = iter([page_of(JSONRPC, [moved], "more"), page_of(JSONRPC, [moved, task_of("acme", "acme-2")])])

    async def ask(call: Call) -> bytes:
        return next(pages)

    found = page(listed(), ask)
    assert ids(found) == ["acme-1", "acme-2"]
    assert found["totalSize"] == 2


# ---- Tokens ----------------------------------------------------------------------------------------------------------


def token_of(call: Call, **more: Any) -> str:
    agent = SharedAgent(crowd(*["acme", "globex"] * 8))
    return str(page(call, agent.ask, counting(8), **more)["nextPageToken"])


@for_each("bound", [("globex", "", "crm"), ("acme", "bob", "crm"), ("acme", "", "erp"), ("acme", "crm", "")])
def test_a_token_of_another_owner_or_backend_is_refused(bound: tuple[str, ...]) -> None:
    refused(listed(pageSize=2, pageToken=token_of(listed(pageSize=2))), bound=bound)


@for_each(
    "params",
    [
        {"contextId": "c-1"},
        {"status": WORKING},
        {"statusTimestampAfter": "2026-02-03T04:05:06Z"},
        {"contextId": "c-1", "status": WORKING},
    ],
)
def test_a_token_of_another_list_is_refused(params: Tree) -> None:
    plain = token_of(listed(pageSize=2))
    refused(listed(pageSize=2, pageToken=plain, **params))
    other = token_of(listed(pageSize=2, **{**params, "statusTimestampAfter": "2026-02-03T04:05:06Z"}))
    refused(listed(pageSize=2, pageToken=other))


def test_a_token_of_another_a2a_tenant_is_refused() -> None:
    token = token_of(listed(pageSize=2))
    listing = TaskListing(listed(pageToken=token), JSONRPC, tenant="inner")
    with pytest.raises(BadParams):
        asyncio.run(walk(listing, ask=unexpected, mine=acmes, known=unasked, cipher=CIPHER, bound=ACME))


@for_each("ours", CLIENTS)
@for_each("token", ["behind:globex-task-003:4:0", "bmV4dA==", "A" * 100, "A" * 5000, "Ω"])
def test_a_token_that_is_not_ours_is_refused_and_the_agent_not_asked(ours: Dialect, token: str) -> None:
    refused(listed(ours, pageToken=token))


def test_a_token_that_was_closed_for_something_else_is_refused() -> None:
    refused(listed(pageToken=CIPHER.encrypt('["behind:globex-task-003:4:0",null]', ACME)))
    refused(listed(pageToken=CIPHER.encrypt("webhook", ("ListTasks", *ACME, "", "", "", ""))))


async def unexpected(call: Call) -> bytes:
    raise AssertionError("the agent is not asked")


def refused(call: Call, **more: Any) -> None:
    with pytest.raises(BadParams) as caught:
        answered(call, unexpected, **more)
    assert caught.value.rpc_code == -32602
    assert caught.value.message == "pageToken is not of this list: begin with the first page"


def test_a_token_of_the_agents_that_is_too_long_to_be_sealed_is_its_fault() -> None:
    async def ask(call: Call) -> bytes:
        return page_of(JSONRPC, [task_of("acme", "acme-1")], "t" * 5000)

    with pytest.raises(UpstreamProtocol, match="too long"):
        answered(listed(pageSize=1), ask, counting(2))


# ---- Totals ----------------------------------------------------------------------------------------------------------


def test_a_list_without_a_filter_that_is_longer_is_counted_by_the_ledger() -> None:
    agent = SharedAgent(crowd("acme", "acme", "globex"))
    first = page(listed(pageSize=1), agent.ask, counting(17))
    assert first["totalSize"] == 17
    # Also at its end: this call has not seen what came before.
    assert page(listed(pageToken=first["nextPageToken"]), agent.ask, counting(17))["totalSize"] == 17


def test_filtered_tasks_are_counted_to_the_end_and_remembered() -> None:
    agent = SharedAgent(crowd(*["acme", "globex"] * 5) + crowd("acme", state=COMPLETED))
    filtered: Tree = {"pageSize": 2, "status": WORKING}
    first = page(listed(**filtered), agent.ask)
    assert (ids(first), first["totalSize"]) == (["acme-task-000", "acme-task-002"], 5)
    # Nothing is told of what was only counted, and the next page begins behind what was told.
    assert [size for _, size in agent.asked] == [2, 1, 100]
    agent.asked.clear()
    second = page(listed(**filtered, pageToken=first["nextPageToken"]), agent.ask)
    assert (ids(second), second["totalSize"]) == (["acme-task-004", "acme-task-006"], 5)
    assert [size for _, size in agent.asked] == [2, 1, 1]


def test_a_list_that_cannot_be_counted_is_refused() -> None:
    agent = SharedAgent(crowd(*["acme", "globex"] * 20), at_most=4)
    with pytest.raises(MethodNotAllowed) as caught:
        answered(listed(pageSize=2, status=WORKING), agent.ask, pages=5)
    assert caught.value.rpc_code == -32004
    assert len(agent.asked) == 5
