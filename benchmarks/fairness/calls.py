"""The three ways to call: at a fixed pace, so many at a time, and without ever reading."""

import asyncio
import json
import random
import re
import socket
import time
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count, cycle
from typing import Protocol

import httptools

from benchmarks.edge.load import address, request
from benchmarks.fairness.plan import ANSWERED, BROKEN, OTHER, Outcome, Plan, Source

_MOST = 4_000
"""Connections of one source; a call for which there is none is broken."""
_SMALL = 4096
_GRACE = 0.5
"""Seconds after the window for which calls that were due in it still begin, where this process was late."""
_REASON = re.compile(rb'"reason" *: *"([A-Z_0-9]+)"')


class Calls:
    """The calls of one source: writes down what becomes of those that count.

    Attributes:
        under_way: Calls that have begun and are not answered, whether they count or not.
    """

    def __init__(self, source: Source, plan: Plan) -> None:
        self.source = source
        self.plan = plan
        self.outcome = Outcome(source.name)
        self.under_way = 0
        self._good = source.good.encode()
        self._requests = _requests(source)
        self._over = False

    def next_request(self) -> bytes:
        return next(self._requests)

    def begin(self, due: float) -> bool:
        """Whether a call that is due at this time counts."""
        counts = self.plan.opens <= due < self.plan.closes
        self.outcome.begun += counts
        return counts

    def tell(self, began: float, status: int, body: bytes) -> None:
        """A call that counts was answered; with status 0, it was broken off."""
        if not self._over:
            self.outcome.told.setdefault(self._told(status, body), []).append(time.monotonic() - began)

    def end(self) -> None:
        """Stop counting: later answers are ignored."""
        self.outcome.under_way = self.under_way
        self._over = True

    def _told(self, status: int, body: bytes) -> str:
        if not status:
            return BROKEN
        if status == 200 and self._good in body:
            return ANSWERED
        found = _REASON.search(body)
        return OTHER if found is None else found[1].decode().lower()


class Way(Protocol):
    """The way in which a source calls."""

    async def run(self) -> None:
        """Call, until the window closes."""

    def close(self) -> None:
        """Close all connections."""


class Line(asyncio.Protocol):
    """One connection, for one call at a time."""

    def __init__(self, calls: Calls, at_rest: Callable[["Line"], None]) -> None:
        self._calls = calls
        self._at_rest = at_rest
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._began = 0.0
        self._counts = False
        self._asking = False

    @property
    def open(self) -> bool:
        return self._transport is not None

    def ask(self, raw: bytes, began: float, *, counts: bool) -> None:
        """Call; whoever made the line is told when it is at rest again, or closed."""
        self._began, self._counts, self._asking = began, counts, True
        self._calls.under_way += 1
        if self._transport is None:
            self._end(0)
        else:
            self._transport.write(raw)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not registered as subclasses.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status, keeps = self._parser.get_status_code(), self._parser.should_keep_alive()
        if status < 200:
            return
        if not keeps and self._transport is not None:
            self._transport.close()
            self._transport = None
        self._end(status)

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._end(0)

    def _end(self, status: int) -> None:
        if not self._asking:
            return
        self._asking = False
        self._calls.under_way -= 1
        if self._counts:
            self._calls.tell(self._began, status, b"".join(self._body))
        self._parser = httptools.HttpResponseParser(self)
        self._body = []
        self._at_rest(self)


class Paced:
    """Calls at a fixed pace, on as many connections as that takes."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._idle: deque[Line] = deque()
        self._lines: set[Line] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._from = cycle(_addresses(calls.source.addresses) or [None])

    async def run(self) -> None:
        plan, every = self._calls.plan, 1.0 / self._calls.source.pace
        begins = plan.opens - plan.lead
        for _ in range(self._calls.source.addresses):
            self._idle.append(await self._opened())
        for number in count():
            # Half a step from the borders of the window, or rounding would say how many are in it.
            due = begins + (number + 0.5) * every
            # Also where it is late: answers are read meanwhile.
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if due >= plan.closes or time.monotonic() >= plan.closes + _GRACE:
                return
            self._fire(due)

    def close(self) -> None:
        for task in self._opening:
            task.cancel()
        for line in self._lines:
            line.close()

    def _fire(self, due: float) -> None:
        now = time.monotonic()
        counts = self._calls.begin(due)
        if counts:
            self._calls.outcome.late.append(now - due)
        raw = self._calls.next_request()
        while self._idle:
            # In turns, so that all addresses are seen.
            line = self._idle.popleft()
            if line.open:
                line.ask(raw, now, counts=counts)
                return
            self._lines.discard(line)
        task = asyncio.get_running_loop().create_task(self._ask_anew(raw, now, counts=counts))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _ask_anew(self, raw: bytes, began: float, *, counts: bool) -> None:
        try:
            if len(self._lines) + len(self._opening) > _MOST:
                raise OSError  # noqa: TRY301 - as if there were no more
            line = await self._opened()
        except OSError:
            if counts:
                self._calls.tell(began, 0, b"")
            return
        line.ask(raw, began, counts=counts)

    async def _opened(self) -> Line:
        line = await _connected(self._calls, self._rested, next(self._from))
        self._lines.add(line)
        return line

    def _rested(self, line: Line) -> None:
        if line.open:
            self._idle.append(line)
        else:
            self._lines.discard(line)


class Lines:
    """So many calls at a time."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lines: set[Line] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        plan, loop = self._calls.plan, asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, plan.opens - plan.lead - time.monotonic()))
        # Not all at once: it is not their beginning that is measured.
        every = plan.lead / 2 / self._calls.source.lines
        self._tasks = [loop.create_task(self._call(number * every)) for number in range(self._calls.source.lines)]
        done, _ = await asyncio.wait(self._tasks, timeout=max(0.0, plan.closes - time.monotonic()))
        for task in done:
            task.result()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for line in self._lines:
            line.close()

    async def _call(self, wait: float) -> None:
        calls, rested = self._calls, asyncio.Event()
        line: Line | None = None
        await asyncio.sleep(wait)
        while (now := time.monotonic()) < calls.plan.closes:
            if line is None or not line.open:
                line = await _connected(calls, lambda _: rested.set())
                self._lines.add(line)
            rested.clear()
            line.ask(calls.next_request(), now, counts=calls.begin(now))
            await rested.wait()
            if calls.source.rest:
                # Clients that were refused together do not come again together.
                await asyncio.sleep(calls.source.rest * random.uniform(0.5, 1.5))


class Deaf:
    """Streams that are asked for, and of which nothing is read."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._sockets: list[socket.socket] = []

    async def run(self) -> None:
        calls, plan, loop = self._calls, self._calls.plan, asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, plan.opens - plan.lead - time.monotonic()))
        for _ in range(calls.source.deaf):
            asking = socket.socket()
            self._sockets.append(asking)
            asking.setblocking(False)
            # Before the connection: a window that was told is not taken back.
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
            await loop.sock_connect(asking, address(calls.source.url))
            await loop.sock_sendall(asking, calls.next_request())
        # In the middle: all have been asked for by then, and none has been unread for so long that it was cut.
        await asyncio.sleep(max(0.0, (plan.opens + plan.closes) / 2 - time.monotonic()))
        for asked in self._sockets:
            calls.begin(plan.opens)
            calls.tell(plan.opens, *_seen(asked))
        await asyncio.sleep(max(0.0, plan.closes - time.monotonic()))

    def close(self) -> None:
        for asked in self._sockets:
            asked.close()


def way(calls: Calls) -> Way:
    """Return the way in which a source calls."""
    if calls.source.pace:
        return Paced(calls)
    return Lines(calls) if calls.source.lines else Deaf(calls)


async def _connected(calls: Calls, at_rest: Callable[[Line], None], local: str | None = None) -> Line:
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(
        lambda: Line(calls, at_rest),
        *address(calls.source.url),
        local_addr=None if local is None else (local, 0),
    )
    return line


def _seen(asked: socket.socket) -> tuple[int, bytes]:
    """Status and text of what has come over a connection, which stays unread."""
    try:
        text = asked.recv(_SMALL, socket.MSG_PEEK)
    except OSError:
        return 0, b""
    return (int(text[9:12]), text) if text.startswith(b"HTTP/1.1 ") else (0, b"")


def _addresses(number: int) -> Sequence[str]:
    """So many of the loopback interface, which has all that begin with 127."""
    return [f"127.1.{index // 250}.{index % 250 + 1}" for index in range(number)]


def _requests(source: Source) -> Iterator[bytes]:
    if not source.forged:
        return cycle([request(source.url, source.headers, body.encode()) for body in source.bodies])
    return _forged(source)


def _forged(source: Source) -> Iterator[bytes]:
    _, claims, signature = source.forged.split(".")
    for body in cycle(source.bodies):
        header = {"alg": "RS256", "typ": "JWT", "kid": f"k-{time.monotonic_ns()}"}
        encoded = urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
        shown = {"Authorization": f"Bearer {encoded}.{claims}.{signature}"}
        yield request(source.url, {**source.headers, **shown}, body.encode())
