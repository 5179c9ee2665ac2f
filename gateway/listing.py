"""FORWARD for a list of tasks, where several callers share the agent: page by page, and the caller's own are kept.

The agent's pages are gone through until the client's page is full. Every page behind the first is asked for with as
many tasks as are still missing, so that nothing of a page is thrown away and the client's page ends where one of the
agent's does: no state is kept between two calls. Once all are found that the ledger knows of, no page is asked for. An
agent may give more than it was asked for; then the client's page is longer too, for what is left out here would never
come again. How many pages one call may take is bounded, and beyond that a page goes out that is not full, with the
token of the next.

The agent's token may hold what is another tenant's. The client's holds it sealed, for this owner and this list.

`totalSize` is what this call has counted where it went from the first page to the last, and what the ledger knows of
where the list has no filter. No ledger knows how many tasks pass a filter: with the first page they are counted, as far
as the bound allows, and the token keeps the number for the other pages. Where that is not far enough the list is
refused, for any number would be made up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gateway.a2a import error_detail
from gateway.a2a.agent_error import AgentError
from gateway.a2a.call import Call
from gateway.a2a.error_kind import BY_CODE, INTERNAL_ERROR, INVALID_PARAMS
from gateway.a2a.fault import BadParams, MethodNotAllowed, UpstreamProtocol
from gateway.a2a.listing import LONGEST_PAGE, Listing
from gateway.a2a.tree import Tree
from gateway.relay import AnswerTooLong
from gateway.tasks.token_cipher import TokenCipher

MOST_PAGES = 20
"""Pages of the agent's that one call may take."""
_LONG = 128 * 1024
"""Bytes of an answer from which on it is worked on in a thread."""
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

Ask = Callable[[Call], Awaitable[bytes]]
"""Asks the agent, and gives its good answer whole. Raises `Complaint` for the agent's own error, `AnswerTooLong`, or
any fault."""
Mine = Callable[[Sequence[Tree]], Awaitable[Sequence[Tree]]]
"""Gives those of some tasks that are the caller's, in their order; they may be changed. Of a task that could not be
read there is only the `id`."""


class Complaint(Exception):  # noqa: N818 - it is what it is
    """The agent's own error, on its way to the client."""

    def __init__(self, error: AgentError) -> None:
        super().__init__(error.message)
        self.error = error


async def walk(
    listing: Listing,
    *,
    ask: Ask,
    mine: Mine,
    known: Callable[[], Awaitable[int]],
    cipher: TokenCipher,
    bound: tuple[str, ...],
    pages: int = MOST_PAGES,
) -> bytes:
    """The answer to a client who lists tasks, in its envelope.

    Args:
        known: How many tasks of the caller the ledger knows, in the context of the listing if it has one.
        bound: Whose the client's page token is and for which backend; always as many words.
        pages: Most of the agent's, 1 or more; each is asked for under the deadlines of `ask`.

    Raises:
        BadParams: the client's page token is not one of this list, or the agent does not take it any more.
        MethodNotAllowed: how many tasks pass the filter cannot be told.
        UpstreamProtocol: a page is none, a task of the caller's is not what the agent's version says, or the agent's
            pages go in a circle.
        Complaint, Fault: as `ask`, `mine` and `known` raise them; behind the first page the complaint has no words of
            the agent's.
    """
    # As many words for every list, so that no two of them are bound alike.
    bound = ("ListTasks", *bound, *listing.filters)
    begun = _opened(cipher, listing.page_token, bound)
    steps = _Steps(listing, ask, mine, begun.token, pages)
    tasks: list[Tree] = []
    # Asked for first: who may not be told of tasks is not asked for them, and what is behind the last one is others'.
    total = begun.total if listing.is_filtered else await known()
    most = total if total is not None and not begun.token else None
    while (missing := listing.page_size - len(tasks)) > 0 and steps.goes_on:
        tasks += await steps.take(missing)
        if most is not None and len(tasks) >= most:
            # Only for a list that one call holds: pages that have moved meanwhile make tasks come twice.
            steps.token = ""
    rest = steps.token
    if total is None:
        total = len(tasks) + await steps.count()
    counted = total if listing.is_filtered else None
    if not begun.token and not rest:
        total = len(tasks)
    token = _closed(cipher, _Place(rest, counted), bound) if rest else ""
    return await steps.answer(tasks, token, total)


class _Place(msgspec.Struct, array_like=True, frozen=True):
    """What a client's page token says.

    Attributes:
        token: The agent's own, of the page at which the next call begins; empty for the first, or for none.
        total: How many tasks passed the filter when the list was begun; None where there is no filter.
    """

    token: str = ""
    total: int | None = None


class _Steps:
    """The agent's pages as one call goes through them.

    Args:
        token: The agent's, of the page to begin with.
        pages: How many may be taken.

    Attributes:
        token: The agent's, of the page that comes next; empty at the end.
    """

    def __init__(self, listing: Listing, ask: Ask, mine: Mine, token: str, pages: int) -> None:
        self.token = token
        self._listing = listing
        self._ask = ask
        self._mine = mine
        self._left = pages
        self._most = LONGEST_PAGE
        self._begun = False
        self._asked: set[str] = set()
        self._met: set[str] = set()
        self._bytes = 0

    @property
    def goes_on(self) -> bool:
        """Whether there is another page, and it may be taken."""
        return self._left > 0 and (bool(self.token) or not self._begun)

    async def take(self, size: int) -> Sequence[Tree]:
        """The caller's tasks of the next page, but those that this call has met on another one.

        Args:
            size: Most tasks that the agent is asked for.
        """
        frame = await self._page(size)
        self._bytes += len(frame)
        page = await _aside(len(frame), self._listing.read, frame)
        self._begun, self._left = True, self._left - 1
        self._asked.add(self.token)
        if page.next_token and page.next_token in self._asked:
            raise UpstreamProtocol("the agent's pages go in a circle")
        self.token = page.next_token
        if page.broken and (own := await self._mine([{"id": task} for task in page.broken])):
            words = "the agent's answer is not what its version of A2A says"
            raise UpstreamProtocol(words, detail=page.broken[own[0]["id"]])
        # A task that moves while its agent is asked may be on two pages, or twice on one.
        fresh: dict[str, Tree] = {}
        for task in page.tasks:
            if task["id"] not in self._met:
                fresh.setdefault(task["id"], task)
        self._met.update(fresh)
        return await self._mine(list(fresh.values())) if fresh else ()

    async def count(self) -> int:
        """How many tasks of the caller's are on all the pages that are left.

        Raises:
            MethodNotAllowed: there are too many pages.
        """
        found = 0
        while self.goes_on:
            found += len(await self.take(LONGEST_PAGE))
        if self.token:
            raise MethodNotAllowed("how many tasks pass this filter cannot be told: ask without it, or for fewer")
        return found

    async def answer(self, tasks: list[Tree], next_token: str, total: int) -> bytes:
        """The client's page, in its envelope."""
        return await _aside(self._bytes, lambda found: self._listing.answer(found, next_token, total), tasks)

    async def _page(self, size: int) -> bytes:
        """The agent's answer with the next page, of fewer tasks where it is too long otherwise.

        What others have stored may be long, and is no reason for the caller to see nothing.
        """
        size = min(size, self._most)
        while True:
            try:
                return await self._ask(self._listing.ask(self.token, size))
            except AnswerTooLong:
                if size == 1:
                    raise
                size = self._most = size // 2
            except Complaint as complaint:
                if not self.token:
                    raise
                raise self._reworded(complaint.error) from complaint

    def _reworded(self, error: AgentError) -> Exception:
        """What a client may be told of an error that the agent has with its own token: it may well repeat that."""
        if error.code != INVALID_PARAMS.code or error.challenges:
            kind = BY_CODE.get(error.code, INTERNAL_ERROR)
            details = () if error.reason is None else (error_detail.bare(kind),)
            return Complaint(replace(error, message=kind.words, details=details, data=msgspec.UNSET))
        if self._begun:
            return UpstreamProtocol("the agent does not take the page token that it gave")
        return _refused()


def _opened(cipher: TokenCipher, token: str, bound: tuple[str, ...]) -> _Place:
    if not token:
        return _Place()
    try:
        return _place.decode(cipher.decrypt(token, bound))
    except ValueError as error:
        raise _refused() from error


def _closed(cipher: TokenCipher, place: _Place, bound: tuple[str, ...]) -> str:
    try:
        return cipher.encrypt(msgspec.json.encode(place).decode(), bound)
    except ValueError as error:
        raise UpstreamProtocol("the agent's page token is too long") from error


def _refused() -> BadParams:
    return BadParams("pageToken is none of this list: begin with the first page", field="pageToken")


async def _aside(size: int, work: Callable[[_Given], _Made], given: _Given) -> _Made:
    """What `work` makes of something, in a thread if it is long."""
    return work(given) if size < _LONG else await asyncio.to_thread(work, given)


_place = msgspec.json.Decoder(_Place)
