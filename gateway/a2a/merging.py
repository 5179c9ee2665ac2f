"""One list of tasks made of the lists of several that have tasks of their own, newest first (1.0 §3.1.4).

Each of them tells its tasks page by page, newest first. What is told next is the newest of what all of them have next,
so of everyone whose page is used up the next page is read before it goes on. The client's page token says how far each
of them has got: they are asked for the page again of which a part was told.

Envelopes are JSON-RPC's, and the words those that 0.3 and 1.0 have in common.
"""

import base64
import binascii
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from gateway.a2a import document
from gateway.a2a.fault import BadParams, UpstreamProtocol

PAGE = 50
LONGEST_PAGE = 100
_LONGEST_TOKEN = 64 * 1024
_OLDEST = datetime.min.replace(tzinfo=UTC)


class Cursor(msgspec.Struct, array_like=True, frozen=True):
    """How far the list of one of them has got.

    Attributes:
        token: Of the page at which it goes on; empty for the first.
        size: How many tasks that page is asked for.
        told: How many of it were told.
        total: How many tasks it has.
        over: Whether all of them were told.
    """

    token: str = ""
    size: int = 0
    told: int = 0
    total: int = 0
    over: bool = False


class Wanted(msgspec.Struct, frozen=True):
    """A page that has to be read before the list goes on.

    Attributes:
        source: Whose, by number.
    """

    source: int
    token: str
    size: int


class MergedList:
    """One page for the client.

    Args:
        params: Of its call, raw.
        sources: How many there are.
        missing: Those that cannot be asked; what they had is not in the list.

    Raises:
        BadParams: the size of the page is out of bounds, or its token is none of this list.
    """

    def __init__(self, params: bytes, sources: int, missing: frozenset[int] = frozenset()) -> None:
        try:
            self._params = _members.decode(params)
            asked = _asked.decode(params)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadParams("the parameters are none of ListTasks") from error
        self._size = PAGE if asked.page_size is None else asked.page_size
        if not 1 <= self._size <= LONGEST_PAGE:
            raise BadParams(f"pageSize is not from 1 to {LONGEST_PAGE}", field="pageSize")
        cursors = _read(asked.page_token, sources) if asked.page_token else [Cursor()] * sources
        self._sources = [_Source(cursor) for cursor in cursors]
        for number in missing:
            self._sources[number] = _Source(Cursor(over=True))
        self._tasks: list[msgspec.Raw] = []

    def wanted(self) -> list[Wanted]:
        """The pages that have to be read now; none once the client's page is whole.

        Raises:
            UpstreamProtocol: pages without a task follow each other for ever.
        """
        while len(self._tasks) < self._size:
            unread = [
                Wanted(number, source.token, source.size or self._size)
                for number, source in enumerate(self._sources)
                if source.is_unread
            ]
            if unread:
                return unread
            newest = max(
                (each for each in self._sources if each.tasks), key=lambda each: each.tasks[0][0], default=None
            )
            if newest is None:
                break
            self._tasks.append(newest.tell())
        return []

    def params(self, wanted: Wanted) -> msgspec.Raw:
        """The parameters of the call for a page."""
        members = {**self._params, "pageSize": msgspec.Raw(b"%d" % wanted.size)}
        members.pop("pageToken", None)
        if wanted.token:
            members["pageToken"] = msgspec.Raw(msgspec.json.encode(wanted.token))
        return msgspec.Raw(msgspec.json.encode(members))

    def give(self, wanted: Wanted, result: bytes) -> None:
        """Take a page.

        Raises:
            UpstreamProtocol: it is none.
        """
        try:
            page = _page.decode(result)
            tasks = [(_moment(_dated.decode(task)), task) for task in page.tasks or ()]
        except (msgspec.DecodeError, RecursionError) as error:
            raise UpstreamProtocol("the agent's answer is no page of tasks") from error
        self._sources[wanted.source].give(wanted, page, tasks)

    def result(self) -> bytes:
        """The client's page."""
        cursors = [source.cursor(self._size) for source in self._sources]
        over = all(cursor.over for cursor in cursors)
        tree = {
            "tasks": self._tasks,
            "nextPageToken": "" if over else base64.urlsafe_b64encode(msgspec.json.encode(cursors)).decode(),
            "pageSize": self._size,
            "totalSize": sum(cursor.total for cursor in cursors),
        }
        return msgspec.json.encode(tree)


_MOST_EMPTY = 20


@dataclass(slots=True)
class _Source:
    """One of them, while a page is made."""

    start: Cursor
    tasks: "deque[tuple[datetime, msgspec.Raw]]"
    token: str
    size: int
    told: int
    total: int
    next: str | None
    empty: int

    def __init__(self, start: Cursor) -> None:
        self.start = start
        self.tasks = deque()
        self.token, self.size, self.told, self.total = start.token, start.size, start.told, start.total
        # Of the page that was read; None before that, empty for the end.
        self.next = "" if start.over else None
        self.empty = 0

    @property
    def is_unread(self) -> bool:
        return not self.tasks and self.next != ""

    def give(self, wanted: Wanted, page: "_Page", tasks: "list[tuple[datetime, msgspec.Raw]]") -> None:
        skipped = self.told
        self.token, self.size = wanted.token, wanted.size
        self.total = page.total_size or 0
        self.next = page.next_page_token or ""
        if self.next == wanted.token != "":
            raise UpstreamProtocol("the agent's pages go in a circle")
        self.tasks.extend(tasks[skipped:])
        self.told = min(skipped, len(tasks))
        self.empty = 0 if self.tasks else self.empty + 1
        if self.empty > _MOST_EMPTY:
            raise UpstreamProtocol("the agent's pages are empty, and there is always another one")
        self._turn()

    def tell(self) -> msgspec.Raw:
        self.told += 1
        _, task = self.tasks.popleft()
        self._turn()
        return task

    def cursor(self, size: int) -> Cursor:
        over = not self.tasks and self.next == ""
        return Cursor(self.token, 0 if over else self.size or size, self.told, self.total, over)

    def _turn(self) -> None:
        """Go on to the next page where this one is used up."""
        if not self.tasks and self.next:
            self.token, self.size, self.told, self.next = self.next, 0, 0, None


def _read(token: str, sources: int) -> list[Cursor]:
    if len(token) > _LONGEST_TOKEN:
        raise _foreign()
    try:
        cursors = _cursors.decode(base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True))
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise _foreign() from error
    if len(cursors) != sources or not all(map(_may_be, cursors)):
        raise _foreign()
    return cursors


def _may_be(cursor: Cursor) -> bool:
    return 0 <= cursor.size <= LONGEST_PAGE and 0 <= cursor.told <= LONGEST_PAGE and cursor.total >= 0


def _foreign() -> BadParams:
    return BadParams("pageToken is none of this list: begin with the first page", field="pageToken")


def _moment(task: "_Dated") -> datetime:
    """When it changed last; who does not say so comes last."""
    try:
        told = datetime.fromisoformat(task.status.timestamp)
    except ValueError:
        return _OLDEST
    return told if told.tzinfo is not None else told.replace(tzinfo=UTC)


class _Asked(msgspec.Struct, rename="camel"):
    page_size: int | None = None
    page_token: str | None = None


class _Status(msgspec.Struct):
    timestamp: str = ""


class _Dated(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class _Page(msgspec.Struct, rename="camel"):
    tasks: list[msgspec.Raw] | None = None
    next_page_token: str | None = None
    total_size: int | None = None


_members = msgspec.json.Decoder(document.Members)
_asked = msgspec.json.Decoder(_Asked)
_page = msgspec.json.Decoder(_Page)
_dated = msgspec.json.Decoder(_Dated)
_cursors = msgspec.json.Decoder(list[Cursor])
