"""List the caller's own tasks at an agent that several callers share.

The gateway asks for the agent's pages until the client's page is full. It asks for as many tasks as are still missing,
so that the client's page ends where one of the agent's ends: no state is kept between two calls. An agent may return
more tasks than requested; then the client's page is longer too, because omitted tasks would never be returned again.
One call asks for a bounded number of pages; beyond that a page goes out that is not full, with the token of the next.
Once all tasks are found that the ledger has, no further page is asked for.

The agent's token may contain data of another tenant. The client's token holds it encrypted, for this owner and list.

`totalSize` of a list without a filter comes from the ledger. No ledger knows how many tasks pass a filter: they are
counted with the first page, and the token keeps the number for the following pages. If that takes too many pages, the
list is refused, because any number would be invented.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gateway.a2a import agent_error
from gateway.a2a.agent_error import AgentError, error_info
from gateway.a2a.bindings import binding
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import (
    BY_CODE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    BadParams,
    Fault,
    MethodNotAllowed,
    UpstreamBusy,
    UpstreamLimited,
    UpstreamProtocol,
    UpstreamReset,
)
from gateway.a2a.headers import Pairs
from gateway.a2a.json import Tree
from gateway.a2a.nested_ids import nested_in_tree
from gateway.a2a.task_list import LONGEST_PAGE, TaskListing
from gateway.a2a.task_state import state_of
from gateway.backend.backend import Backend
from gateway.proxy.reply import ClientAnswer
from gateway.proxy.reply_delivery import ReplyDelivery, head_of
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.tasks.ownership import Ownership
from gateway.tasks.token_cipher import TokenCipher
from gateway.upstream.error_page import refuse_page
from gateway.upstream.retry import Attempt
from gateway.upstream.upstream import AnswerTooLong, Reply

MOST_PAGES = 20
"""Pages of the agent's that one call asks for at most."""
_LONG = 128 * 1024
"""Bytes of an answer from which on it is worked on in a thread."""
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

Ask = Callable[[Call], Awaitable[bytes]]
"""Asks the agent and returns its good answer. Raises `AgentFailed`, `AnswerTooLong`, or any fault."""
Mine = Callable[[Sequence[Tree]], Awaitable[Sequence[Tree]]]
"""Returns the caller's tasks among some tasks, in their order; they may be changed. A task that could not be read has
an `id` only."""


class AgentFailed(Exception):  # noqa: N818 - it is answered as the agent's error, not as one of the gateway
    """The agent answered with an error of its own, which goes to the client."""

    def __init__(self, error: AgentError) -> None:
        super().__init__(error.message)
        self.error = error


class TaskLister:
    """Lists the tasks of one agent, for one request.

    Args:
        clock: Monotonic seconds.

    Attributes:
        status: The status of the last reply, in HTTP's numbers; None before the first.
    """

    def __init__(
        self,
        attempt: Attempt,
        request: RequestContext,
        backend: Backend,
        ownership: Ownership,
        clock: Callable[[], float],
    ) -> None:
        self._attempt = attempt
        self._backend = backend
        self._interface = attempt.interface
        self._request = request
        self._ownership = ownership
        self._clock = clock
        self._passed: Pairs = []
        # Bytes of all pages, which are held until the list is complete.
        self._bytes = 0
        self.status: int | None = None

    async def list_tasks(self, call: Call, client: Responder) -> None:
        """Answer a client's ListTasks.

        Raises:
            BadParams, MethodNotAllowed, UpstreamProtocol: as `walk`.
            StateUnavailable: the owners of the tasks are not known.
        """
        request, ownership, interface = self._request, self._ownership, self._interface
        listing = TaskListing(
            call, interface.dialect, tenant=self._backend.upstream.dialects.tenant(call, interface), id=request.id
        )
        cipher = await ownership.isolation.ledger.cipher()
        # From here on the context that is counted is known.
        await ownership.authorize(call)
        error: AgentError | None = None
        page = b""
        try:
            page = await walk(
                listing,
                ask=self._ask,
                mine=partial(_mine, ownership),
                known=ownership.count,
                cipher=cipher,
                bound=ownership.token_binding,
            )
        except AgentFailed as failed:
            error = failed.error
        request.received = self._clock()
        answer = ClientAnswer(request, self._clock, client, self._passed, [])
        if error is None:
            await answer.send_result(page)
        else:
            await answer.send_error(error, partial(_written, call))

    async def _ask(self, call: Call) -> bytes:
        """Return the agent's good answer, with retries where allowed."""
        attempt = self._attempt
        asked = await self._ownership.authorize(call)
        began = self._clock()
        try:
            try:
                reply = await attempt.send(asked)
            except Fault as fault:
                reply = await attempt.retry(asked, fault)
            while True:
                if reply.is_failing:
                    reply = await attempt.retry_if_busy(asked, reply)
                try:
                    return await self._page(reply, asked)
                except UpstreamReset as fault:
                    reply = await attempt.retry(asked, fault)
        finally:
            self._request.upstream += self._clock() - began

    async def _page(self, reply: Reply, asked: Call) -> bytes:
        attempt = self._attempt
        self.status = reply.http_status
        if reply.has_begun or reply.is_failing:
            attempt.answered(reply)
        delivery = ReplyDelivery(
            reply, self._request, self._backend, self._interface, asked, self._clock, beside=self._bytes
        )
        try:
            page = await _good(delivery)
        except AgentFailed:
            attempt.answered(reply)
            raise
        except Fault as fault:
            attempt.broke_off(reply, fault)
            if isinstance(fault, UpstreamProtocol) and not isinstance(fault, UpstreamLimited | UpstreamBusy):
                reply.disown()
            raise
        finally:
            reply.close()
        attempt.answered(reply)
        # Only the replica that returned the page knows the token of the next one.
        attempt.bind()
        self._bytes += len(page)
        self._passed = head_of(reply).passed
        return page


async def _good(delivery: ReplyDelivery) -> bytes:
    """Return an agent's good answer.

    Raises:
        AgentFailed: it is an error of the agent's.
        AnswerTooLong, UpstreamProtocol: it is not an answer.
    """
    reply = delivery.reply
    if reply.failure is not None:
        raise AgentFailed(delivery.error_of(await delivery.failure(reply.failure)))
    head = head_of(reply)
    delivery.refuse_unasked(head)
    page = await delivery.take()
    progress = await delivery.judge(page, head)
    if progress is not None and progress.error is None:
        return page
    if progress is not None:
        await delivery.refuse_others(progress)
    error = binding.of(delivery.call.dialect).read_error(
        delivery.call, reply.http_status, delivery.without_prefix(page)
    )
    if error is None:
        refuse_page(reply)
        return b""
    raise AgentFailed(error)


async def _mine(ownership: Ownership, tasks: Sequence[Tree]) -> list[Tree]:
    owned = await ownership.check_list([(task["id"], _context(task), _state(task)) for task in tasks])
    return [
        ownership.prefix.remove_from_tree(task)
        for task, is_own in zip(tasks, owned, strict=True)
        if is_own and ((named := nested_in_tree(task)) is None or not await ownership.names_foreign(named))
    ]


def _context(task: Tree) -> str:
    context = task.get("contextId")
    return context if isinstance(context, str) else ""


def _state(task: Tree) -> str:
    """Return its state; empty for a task of which there is only the id."""
    status = task.get("status")
    word = status.get("state") if isinstance(status, dict) else None
    return state_of(word) if isinstance(word, str) else ""


def _written(call: Call, error: AgentError) -> tuple[int, bytes]:
    if call.dialect.binding is Binding.JSONRPC:
        return 200, agent_error.write_jsonrpc(error, id=call.id, version=call.dialect.version)
    return agent_error.write_rest(error, version=call.dialect.version)


# ---- From page to page -----------------------------------------------------------------------------------------------


async def walk(
    listing: TaskListing,
    *,
    ask: Ask,
    mine: Mine,
    known: Callable[[], Awaitable[int]],
    cipher: TokenCipher,
    bound: tuple[str, ...],
    pages: int = MOST_PAGES,
) -> bytes:
    """Return the answer to a client's ListTasks, in its envelope.

    Args:
        known: Returns how many tasks of the caller the ledger has, in the context of the listing if it has one.
        bound: The owner and the backend that the client's page token is valid for; always as many words.
        pages: Most pages that are asked for, 1 or more.

    Raises:
        BadParams: the client's page token does not belong to this list, or the agent has expired it.
        MethodNotAllowed: the tasks that pass the filter cannot be counted.
        UpstreamProtocol: a page, or a task of the caller's, is malformed, or the agent's page tokens repeat.
        AgentFailed, Fault: as `ask`, `mine` and `known`; beyond the first page without the agent's own words.
    """
    # As many words for every list, so that no two lists accept each other's tokens.
    bound = ("ListTasks", *bound, *listing.filters)
    begun = _opened(cipher, listing.page_token, bound)
    agents_pages = _Pages(listing, ask, mine, begun.token, pages)
    tasks: list[Tree] = []
    # The ledger comes first: it may refuse the caller, and without tasks of the caller no page is needed.
    total = begun.total if listing.is_filtered else await known()
    most = total if total is not None and not begun.token else None
    while (missing := listing.page_size - len(tasks)) > 0 and agents_pages.goes_on:
        tasks += await agents_pages.take(missing)
        if most is not None and len(tasks) >= most:
            # Only for a list within one call: between two calls tasks move between pages.
            agents_pages.token = ""
    rest = agents_pages.token
    if total is None:
        total = len(tasks) + await agents_pages.count()
    counted = total if listing.is_filtered else None
    if not begun.token and not rest:
        total = len(tasks)
    token = _closed(cipher, _Place(rest, counted), bound) if rest else ""
    return await agents_pages.answer(tasks, token, total)


class _Place(msgspec.Struct, array_like=True, frozen=True):
    """The content of a client's page token.

    Attributes:
        token: The agent's own, of the page with which the next call begins; empty for the first, or for none.
        total: The number of tasks that passed the filter when the list was begun; None without a filter.
    """

    token: str = ""
    total: int | None = None


class _Pages:
    """The agent's pages, as one call asks for them.

    Args:
        token: The agent's, of the page to begin with.
        pages: The most pages that may be requested.

    Attributes:
        token: The agent's, of the page that comes next; empty at the end.
    """

    def __init__(self, listing: TaskListing, ask: Ask, mine: Mine, token: str, pages: int) -> None:
        self.token = token
        self._listing = listing
        self._ask = ask
        self._mine = mine
        self._left = pages
        self._most = LONGEST_PAGE
        self._begun = False
        self._used_tokens: set[str] = set()
        self._listed: set[str] = set()
        self._bytes = 0

    @property
    def goes_on(self) -> bool:
        """Whether there is another page, and it may be asked for."""
        return self._left > 0 and (bool(self.token) or not self._begun)

    async def take(self, size: int) -> Sequence[Tree]:
        """Return the caller's tasks on the next page, without those that were on an earlier one.

        Args:
            size: Most tasks that the agent is asked for.
        """
        frame = await self._page(size)
        self._bytes += len(frame)
        page = await _aside(len(frame), self._listing.read, frame)
        self._begun, self._left = True, self._left - 1
        self._used_tokens.add(self.token)
        if page.next_token and page.next_token in self._used_tokens:
            raise UpstreamProtocol("the agent's page tokens repeat")
        self.token = page.next_token
        if page.broken and (own := await self._mine([{"id": task} for task in page.broken])):
            words = "the agent's answer is not what its version of A2A says"
            raise UpstreamProtocol(words, detail=page.broken[own[0]["id"]])
        # A task that moves during the walk may be on two pages, or twice on one.
        fresh: dict[str, Tree] = {}
        for task in page.tasks:
            if task["id"] not in self._listed:
                fresh.setdefault(task["id"], task)
        self._listed.update(fresh)
        return await self._mine(list(fresh.values())) if fresh else ()

    async def count(self) -> int:
        """Return the number of the caller's tasks on all remaining pages.

        Raises:
            MethodNotAllowed: there are too many pages.
        """
        found = 0
        while self.goes_on:
            found += len(await self.take(LONGEST_PAGE))
        if self.token:
            raise MethodNotAllowed("the tasks that pass this filter cannot be counted: ask without it, or for fewer")
        return found

    async def answer(self, tasks: list[Tree], next_token: str, total: int) -> bytes:
        """Return the client's page, in its envelope."""
        return await _aside(self._bytes, lambda found: self._listing.answer(found, next_token, total), tasks)

    async def _page(self, size: int) -> bytes:
        """Return the agent's next page; if it is too long, with fewer tasks.

        Other callers may have stored long tasks, which must not hide the caller's.
        """
        size = min(size, self._most)
        while True:
            try:
                return await self._ask(self._listing.ask(self.token, size))
            except AnswerTooLong:
                if size == 1:
                    raise
                size = self._most = size // 2
            except AgentFailed as failed:
                if not self.token:
                    raise
                raise self._reworded(failed.error) from failed

    def _reworded(self, error: AgentError) -> Exception:
        """Return the error beyond the first page, without the agent's text, which may repeat its token."""
        if error.code != INVALID_PARAMS.code or error.challenges:
            kind = BY_CODE.get(error.code, INTERNAL_ERROR)
            details = () if error.reason is None else (error_info(kind),)
            return AgentFailed(replace(error, message=kind.words, details=details, data=msgspec.UNSET))
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
    return BadParams("pageToken is not of this list: begin with the first page", field="pageToken")


async def _aside(size: int, work: Callable[[_Given], _Made], given: _Given) -> _Made:
    """Return the result of `work`, in a thread if its input is long."""
    return work(given) if size < _LONG else await asyncio.to_thread(work, given)


_place = msgspec.json.Decoder(_Place)
