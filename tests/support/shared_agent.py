"""An agent that several tenants share, as a model: it tells whoever asks of everybody's tasks. And who lists there."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.a2a.call import Call
from gateway.a2a.dialect import Dialect
from gateway.a2a.json import Tree
from gateway.a2a.task_list import TaskListing
from gateway.proxy.list_tasks import Ask, walk
from gateway.tasks.token_cipher import TokenCipher
from tests.a2a.dialects import asked, hub_params
from tests.a2a.lists import JSONRPC, page_of, result_of

WORKING = "TASK_STATE_WORKING"
COMPLETED = "TASK_STATE_COMPLETED"


class Stored(NamedTuple):
    """One task; its id begins with the name of its owner."""

    owner: str
    id: str
    context: str
    state: str


@dataclass
class SharedAgent:
    """Lists tasks, over any binding.

    Attributes:
        tasks: In the order in which it lists them.
        most: Tasks that it puts on a page whatever it is asked for; None for as many as it is asked for.
        at_most: Tasks of a page that it never exceeds.
        empty: The number of empty pages before the task with each number.
        asked: Token and size of each page that it was asked for.
        given: The tokens that it gave.
    """

    tasks: list[Stored]
    theirs: Dialect = JSONRPC
    most: int | None = None
    at_most: int = 100
    empty: dict[int, int] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    given: set[str] = field(default_factory=set)

    async def ask(self, call: Call) -> bytes:
        params = hub_params(asked(call))
        token, size = params.get("pageToken", ""), params["pageSize"]
        self.asked.append((token, size))
        found = [task for task in self.tasks if _passes(task, params)]
        start, gap = _place(token)
        if gap < self.empty.get(start, 0):
            shown, following = [], self._token(found, start, gap + 1)
        else:
            end = start + (min(size, self.at_most) if self.most is None else self.most)
            shown, following = found[start:end], "" if end >= len(found) else self._token(found, end, 0)
        return page_of(self.theirs, [task_of(*task) for task in shown], following)

    def _token(self, found: list[Stored], start: int, gap: int) -> str:
        # It says where the agent stopped, which is at anybody's task.
        behind = found[start - 1].id if 0 < start <= len(found) else "globex"
        token = f"behind:{behind}:{start}:{gap}"
        self.given.add(token)
        return token


def _passes(task: Stored, params: Tree) -> bool:
    return params.get("contextId") in (None, task.context) and params.get("status") in (None, task.state)


def _place(token: str) -> tuple[int, int]:
    if not token:
        return 0, 0
    _, _, start, gap = token.split(":")
    return int(start), int(gap)


def task_of(owner: str, task_id: str, context: str = "c-1", state: str = WORKING) -> Tree:
    """The task as the hub has it."""
    return {"id": task_id, "contextId": context, "status": {"state": state}, "metadata": {"owner": owner}}


def crowd(*owners: str, state: str = WORKING) -> list[Stored]:
    """Tasks of these owners, one after the other."""
    return [Stored(owner, f"{owner}-task-{number:03}", "c-1", state) for number, owner in enumerate(owners)]


async def acmes(tasks: Sequence[Tree]) -> list[Tree]:
    """Return acme's tasks."""
    return [task for task in tasks if task["id"].startswith("acme")]


# ---- Who lists -------------------------------------------------------------------------------------------------------

CIPHER = TokenCipher(bytes(range(32)))
ACME = ("acme", "", "crm")


async def unasked() -> int:
    raise AssertionError("the ledger is not asked for this")


async def countless() -> int:
    """More than any list here has, so that all pages are gone through."""
    return 1_000_000


def counting(number: int) -> Callable[[], Awaitable[int]]:
    async def known() -> int:
        return number

    return known


def answered(
    call: Call, ask: Ask, known: Callable[[], Awaitable[int]] = countless, *, theirs: Dialect = JSONRPC, **more: Any
) -> bytes:
    told = {"mine": acmes, "cipher": CIPHER, "bound": ACME, **more}
    return asyncio.run(walk(TaskListing(call, theirs), ask=ask, known=known, **told))


def page(call: Call, ask: Ask, known: Callable[[], Awaitable[int]] = countless, **more: Any) -> Tree:
    return result_of(call.dialect, answered(call, ask, known, **more))


def ids(page: Tree) -> list[str]:
    return [task["id"] for task in page["tasks"]]
