"""Two callers that list the tasks of an agent which both of them use."""

from collections.abc import AsyncIterator

import pytest
from a2a.types import ListTasksRequest, ListTasksResponse, TaskState
from a2a.utils.errors import InvalidParamsError

from tests.e2e.sdk import COMPLETED
from tests.e2e.shared_site import Party

MADE = {"ours": 5, "theirs": 4}
PAGE = 2


async def check_lists(ours: Party, theirs: Party) -> int:
    """Each sees its own, all of it, page by page; gives how many tasks there are. Nobody else may have made any."""
    parties = {"ours": ours, "theirs": theirs}
    made: dict[str, list[str]] = {"ours": [], "theirs": []}
    for turn in range(max(MADE.values())):
        for who, party in parties.items():
            if turn < MADE[who]:
                made[who].append((await party.send(f"{who} {turn}", context=f"even-{turn % 2}")).id)
    for who, party in parties.items():
        whole = await party.unary.list_tasks(ListTasksRequest())
        assert (_ids(whole), whole.total_size, whole.next_page_token) == (made[who][::-1], MADE[who], "")
        pages = [page async for page in _pages(party, ListTasksRequest(page_size=PAGE))]
        # Whether there is more is known when the agent has said so: the last page may be empty.
        assert {len(page.tasks) for page in pages[:-1]} == {PAGE}
        assert [task for page in pages for task in _ids(page)] == made[who][::-1]
        assert {page.total_size for page in pages} == {MADE[who]}
        even = [page async for page in _pages(party, ListTasksRequest(page_size=PAGE, context_id="even-0"))]
        assert [task for page in even for task in _ids(page)] == made[who][::2][::-1]
        assert {page.total_size for page in even} == {len(made[who][::2])}
        failed = await party.unary.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_FAILED))
        assert (len(failed.tasks), failed.total_size) == (0, 0)
    await _check_tokens(ours, theirs)
    return sum(MADE.values())


async def _check_tokens(ours: Party, theirs: Party) -> None:
    first = await ours.unary.list_tasks(ListTasksRequest(page_size=PAGE))
    token = first.next_page_token
    with pytest.raises(InvalidParamsError) as anothers:
        await theirs.unary.list_tasks(ListTasksRequest(page_size=PAGE, page_token=token))
    with pytest.raises(InvalidParamsError) as nobodys:
        await theirs.unary.list_tasks(ListTasksRequest(page_size=PAGE, page_token=token[::-1]))
    assert str(anothers.value) == str(nobodys.value)
    for other in (ListTasksRequest(context_id="even-0"), ListTasksRequest(status=COMPLETED)):
        other.page_token = token
        with pytest.raises(InvalidParamsError):
            await ours.unary.list_tasks(other)
    # It is good still, whatever others have tried with it.
    second = await ours.unary.list_tasks(ListTasksRequest(page_size=PAGE, page_token=token))
    assert not {*_ids(first)} & {*_ids(second)}


async def _pages(party: Party, request: ListTasksRequest) -> AsyncIterator[ListTasksResponse]:
    while True:
        page = await party.unary.list_tasks(request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def _ids(page: ListTasksResponse) -> list[str]:
    return [task.id for task in page.tasks]
