"""A response that is being received over HTTP/1.1, or over a pipe that imitates it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, Self

from gateway.a2a.fault import Fault, UpstreamIdle, UpstreamReset, UpstreamTimeout
from gateway.a2a.headers import Pairs, is_event_stream
from gateway.upstream.outlier_detection import FAILING
from gateway.upstream.response_parser import ResponseParser
from gateway.upstream.upstream import AnswerTooLong, ignore_size

CUT = "the agent closed the connection before its answer was complete"


class Carrier(Protocol):
    """The connection that a response arrives on, as the response uses it."""

    @property
    def address(self) -> str:
        """The agent's IP address and port; empty for a process."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, which has the clock."""

    def fail(self, fault: Fault) -> None:
        """Close at once and fail the response with `fault`."""

    def expect(self, deadline: float, expired: Callable[[], Fault]) -> "asyncio.Future[None]":
        """Return a future to wait for until `deadline`; then the response fails with `expired()`."""

    def expect_by(self, deadline: float) -> None:
        """Extend the deadline of the current wait."""

    def expect_nothing(self, response: "Response") -> None:
        """End the wait of `response`."""

    def distrust(self) -> None:
        """Refuse further requests."""

    def pause_reading(self) -> None:
        """Stop reading: received bytes were not consumed yet."""

    def resume_reading(self) -> None:
        """Resume reading: received bytes were consumed."""


class Response:
    """A `Reply`, from its head on.

    Until it is read to the end or closed it occupies a place in the pool. The connection returns by itself when the
    last byte arrives, read or not. Cancelling a read closes the connection.

    Attributes:
        status: 200 to 599; redirects and errors are returned as they are. `http_status` is the same.
        headers: Names in lower case, in order.
        alone: Whether its connection has carried no call before this one.
        known: A cache of values that are derived from the headers, as `ResponseParser.known`; or None.
        reader: The parser of this response; used by the connection, as are the following.
        sink: Takes the body as it arrives, while `flow` waits for more of it; else None.
        patience: Seconds of silence that are accepted while there is a sink.
        received: Time of the loop at which the sink was last given something.
        lag: Called with the bytes that wait, by a connection that cannot be paused.
    """

    metadata: Pairs = []  # noqa: RUF012 - never changed: HTTP has no headers behind the body
    failure = None
    has_begun = False

    __slots__ = (
        "_carrier", "_connection", "_full", "_refused", "_waiter", "alone", "fault", "headers", "http_status",
        "is_failing", "known", "lag", "patience", "reader", "received", "sink", "status",
    )  # fmt: skip

    def __init__(self, connection: Carrier, reader: ResponseParser, *, alone: bool = True) -> None:
        self.status = self.http_status = 0
        self.is_failing = False
        self.alone = alone
        self.headers = reader.headers
        self.known = reader.known
        self.reader = reader
        self._carrier = connection
        # None once the exchange is over; by then the connection may serve another one.
        self._connection: Carrier | None = connection
        # Why the response is incomplete; None while it may be complete.
        self.fault: Fault | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.sink: Callable[[bytes], bool] | None = None
        self.patience = self.received = 0.0
        self.lag: Callable[[int], None] = ignore_size
        # Why `flow` wakes: the sink is full, or has raised.
        self._full = False
        self._refused: Exception | None = None

    def header(self, name: bytes) -> bytes | None:
        """Return the first header called `name` (in lower case), or None."""
        for known, value in self.headers:
            if known == name:
                return value
        return None

    @property
    def address(self) -> str:
        """The agent's IP address and port; empty for a process."""
        return self._carrier.address

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of server-sent events."""
        return is_event_stream(self.header(b"content-type"))

    async def read(self, limit: int, timeout: float, hold: Callable[[int], None] = ignore_size) -> bytes:  # noqa: ASYNC109 - kept by the connection's one alarm
        """Return the whole body.

        Args:
            limit: Most bytes that are accepted.
            timeout: Seconds for all of it.
            hold: Called with the number of held bytes; an exception of it ends the read.

        Raises:
            AnswerTooLong: the body is longer than `limit`.
            UpstreamProtocol: it is no HTTP.
            UpstreamTimeout: it is not complete in time.
            UpstreamReset: the agent closed before the end.
        """
        reader = self.reader
        # Not a list of parts: if an agent sends single bytes, a list takes many times the size of the body.
        gathered: bytes | bytearray = b""
        deadline = 0.0
        if not reader.ended and int(self.header(b"content-length") or 0) > limit:
            self.close()
            raise AnswerTooLong(limit)
        while True:
            size = len(gathered) + reader.held
            if size > limit:
                self.close()
                raise AnswerTooLong(limit)
            hold(size)
            if reader.held:
                part = self._take()
                if not gathered:
                    gathered = part
                else:
                    if isinstance(gathered, bytes):
                        gathered = bytearray(gathered)
                    gathered += part
            if self.fault is not None:
                raise self.fault
            if reader.ended:
                return bytes(gathered)
            deadline = deadline or self._carrier.loop.time() + timeout
            await self._more(deadline, late)

    async def flow(
        self,
        take: Callable[[bytes], bool],
        settle: Callable[[], Awaitable[None]],
        timeout: float,  # noqa: ASYNC109 - as `read`
        lag: Callable[[int], None] = ignore_size,
    ) -> None:
        """Push the body to `take` as it arrives, to its end.

        The headers are released: a stream may last for hours. `take` is called while the connection is being read.
        After it returns False nothing more is pushed until `settle` has been awaited. What arrived before a fault is
        pushed before the fault is raised.

        Args:
            timeout: Seconds of silence that are accepted; interim framing is silence.
            lag: Called with the bytes that wait, whenever more arrive on a connection that cannot be paused; an
                exception of it ends the response.

        Raises:
            UpstreamIdle: nothing came for `timeout`.
            UpstreamReset: the agent closed before the end.
            UpstreamProtocol: what came is no HTTP; or what `take` raises.
        """
        reader = self.reader
        self.patience, self.lag = timeout, lag
        self.headers.clear()
        self.known = reader.known = None
        try:
            while True:
                if reader.held:
                    self.received = self._carrier.loop.time()
                    if not take(reader.take()):
                        # The gateway must not buffer the stream of a client that reads slowly, or not at all.
                        self._pause_reading()
                        await settle()
                    continue
                if self.fault is not None:
                    raise self.fault
                if reader.ended:
                    return
                if self._connection is not None:
                    self._connection.resume_reading()
                self.sink = take
                try:
                    await self._more(self._carrier.loop.time() + timeout, silent)
                finally:
                    self.sink = None
                if self._refused is not None:
                    raise self._refused
                if self._full:
                    self._full = False
                    await settle()
        finally:
            # It refers to the response: a reference cycle would keep both alive.
            self.lag = ignore_size

    def close(self) -> None:
        """Release the response. If it is incomplete, the agent sees the connection close at once."""
        connection = self._connection
        if connection is not None:
            connection.fail(UpstreamReset(CUT, detail="closed by the gateway"))

    def disown(self) -> None:
        """Close, and do not reuse the connection: the response may belong to another call (safety T14)."""
        self.close()
        self.distrust()

    def distrust(self) -> None:
        """Do not reuse the connection after this response."""
        self._carrier.distrust()

    # ---- Between a response and its connection ------------------------------------------------------------------

    async def head(self, deadline: float) -> Self:
        """Return the response once its head has arrived."""
        while self.status == 0:
            connection = self._connection
            if connection is None:
                assert self.fault is not None
                raise self.fault
            # As `_more`, which would add a frame to every answer.
            self._waiter = connection.expect(deadline, late)
            try:
                await self._waiter
            except asyncio.CancelledError:
                self.close()
                raise
            finally:
                self._waiter = None
                connection.expect_nothing(self)
        return self

    def arrived(self) -> None:
        """Wake the waiting task, or push the bytes that have arrived."""
        if self.status == 0:
            self._learn_head()
        if self.sink is None:
            self._wake()
        elif self.reader.held and self._connection is not None:
            # Framing alone counts as silence.
            self.received = self._connection.loop.time()
            self._connection.expect_by(self.received + self.patience)
            try:
                if not self.sink(self._take()):
                    self.pause()
            except Exception as error:  # noqa: BLE001 - raised in the task that waits
                self.refuse(error)

    def pause(self) -> None:
        """Stop pushing until the task has settled, because the sink is full."""
        self._full = True
        self._pause_reading()
        self._wake()

    def refuse(self, error: Exception) -> None:
        """End `flow` with the exception of the sink."""
        self._refused = error
        self._wake()

    def detach(self, fault: Fault | None = None) -> None:
        """End the exchange; `fault` is the reason if the response is incomplete."""
        self._connection = None
        self.fault = fault
        self.reader.stop()
        # The waiting task reads what is left.
        if self.status == 0:
            self._learn_head()
        self._wake()

    def _wake(self) -> None:
        """Wake the waiting task; bytes that arrive before it runs are kept for it."""
        self.sink = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _learn_head(self) -> None:
        reader = self.reader
        self.status = self.http_status = reader.status
        self.is_failing = reader.status in FAILING
        self.headers, self.known = reader.headers, reader.known

    async def _more(self, deadline: float, expired: Callable[[], Fault]) -> None:
        connection = self._connection
        assert connection is not None
        self._waiter = connection.expect(deadline, expired)
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._waiter = None
            connection.expect_nothing(self)

    def _pause_reading(self) -> None:
        if self._connection is not None:
            self._connection.pause_reading()

    def _take(self) -> bytes:
        data = self.reader.take()
        if self._connection is not None:
            self._connection.resume_reading()
        return data


def late() -> Fault:
    """Return the fault of a reply that did not come in time."""
    return UpstreamTimeout("the agent did not answer in time")


def silent() -> Fault:
    """Return the fault of a stream that fell silent."""
    return UpstreamIdle("the agent's stream sent nothing for too long")
