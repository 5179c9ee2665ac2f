"""An answer whose body may still be on its way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, Self

from gateway.a2a.fault import Fault, UpstreamIdle, UpstreamProtocol, UpstreamReset, UpstreamTimeout
from gateway.upstream.response_parser import ResponseParser

CUT = "the agent closed the connection before its answer was complete"


def _nothing(_size: int) -> None:
    """Where nobody asks how much waits."""


class Carrier(Protocol):
    """What a response needs of the connection that it arrives on."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where time comes from."""

    def fail(self, fault: Fault) -> None:
        """Close at once, and let the exchange know why."""

    def expect(self, deadline: float, expired: Callable[[], Fault]) -> "asyncio.Future[None]":
        """What to wait for until `deadline`; then the exchange fails with `expired()`."""

    def expect_by(self, deadline: float) -> None:
        """What is waited for may take until then, which is no earlier than before."""

    def expect_nothing(self, response: "Response") -> None:
        """`response` waits no longer."""

    def distrust(self) -> None:
        """Serve nothing that has not begun yet."""

    def pause_reading(self) -> None:
        """What has arrived is not taken yet."""

    def resume_reading(self) -> None:
        """What had arrived was taken."""


class Response:
    """An answer, from its head on.

    Whoever has one reads it to the end or calls `close`: until then it occupies a place in the pool. The connection
    goes back by itself when the last byte arrives, read or not. Cancelling a read closes the connection.

    Attributes:
        status: 200 to 599; redirects and errors are returned as they are.
        headers: Names in lower case, in order.
        alone: Whether its connection has carried no call before this one.
        known: What was worked out from the headers, or None where nothing is kept of them: as `ResponseParser.known`.
        reader: What has been read of it; between a response and its connection, as is the next.
        flows: Whether the body goes on as it arrives: `pour` takes it.
        patience: Seconds of silence that it is given while it flows.
        lag: Told how many bytes wait, by a connection that cannot be paused.
    """

    __slots__ = (
        "_carrier", "_connection", "_fault", "_full", "_refused", "_take_on", "_waiter", "alone", "flows", "headers",
        "known", "lag", "patience", "reader", "status",
    )  # fmt: skip

    def __init__(self, connection: Carrier, reader: ResponseParser, *, alone: bool = True) -> None:
        self.status = 0
        self.alone = alone
        self.headers = reader.headers
        self.known = reader.known
        self.reader = reader
        self._carrier = connection
        # None once the exchange is over; the connection may serve another one by then.
        self._connection: Carrier | None = connection
        self._fault: Fault | None = None
        self._waiter: asyncio.Future[None] | None = None
        # Where the body goes while `flow` waits, how long it may stay silent, and why `flow` wakes.
        self.flows = False
        self._take_on: Callable[[bytes], bool] = _nowhere
        self.patience = 0.0
        self.lag: Callable[[int], None] = _nothing
        self._full = False
        self._refused: Exception | None = None

    @property
    def fault(self) -> Fault | None:
        """Why what comes is no whole answer; None while it may be one."""
        return self._fault

    def header(self, name: bytes) -> bytes | None:
        """The first header called `name` (in lower case), or None."""
        for known, value in self.headers:
            if known == name:
                return value
        return None

    async def read(self, limit: int, timeout: float) -> bytes:  # noqa: ASYNC109 - kept by the connection's one alarm
        """The whole body.

        Args:
            limit: Most bytes that are accepted.
            timeout: Seconds for all of it.

        Raises:
            UpstreamProtocol: the body is longer than `limit`, or no HTTP.
            UpstreamTimeout: it is not complete in time.
            UpstreamReset: the agent closed before the end.
        """
        reader = self.reader
        parts: list[bytes] = []
        size = 0
        deadline = 0.0
        while True:
            size += reader.held
            if size > limit:
                self.close()
                raise UpstreamProtocol(f"the agent's answer exceeds {limit} bytes")
            if reader.held:
                parts.append(self._take())
            if self._fault is not None:
                raise self._fault
            if reader.ended:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            deadline = deadline or self._deadline(timeout)
            await self._more(deadline, late)

    def whole(self) -> bytes | None:
        """The whole body, where all of it has arrived already and none of it was read; None where it has not."""
        reader = self.reader
        # Nothing is held back any more: what is whole has let its connection go.
        return reader.take() if reader.ended and self._fault is None else None

    async def chunk(self, timeout: float) -> bytes:  # noqa: ASYNC109 - kept by the connection's one alarm
        """The next bytes of the body: all that have arrived, or b"" after the last ones.

        Times and faults are those of `chunk_or_pause`.
        """
        data = await self.chunk_or_pause(timeout, None)
        return b"" if data is None else data

    async def chunk_or_pause(
        self,
        timeout: float,  # noqa: ASYNC109 - as `chunk`
        pause: float | None,
    ) -> bytes | None:
        """The next bytes of the body, b"" after the last ones, or None if nothing came for `pause` seconds.

        After None the answer is as good as before: ask again with what is left of `timeout`. What arrived before a
        fault is returned before the fault is raised.

        Args:
            timeout: Seconds of silence that are accepted; interim framing is silence.
            pause: Seconds after which the caller wants to know of a silence that is still accepted, or None.

        Raises:
            UpstreamIdle: nothing came for `timeout`.
            UpstreamReset: the agent closed before the end.
            UpstreamProtocol: what came is no HTTP.
        """
        reader = self.reader
        deadline = 0.0
        alarm: asyncio.TimerHandle | None = None
        paused = False

        def ring() -> None:
            # A flag, for uvloop rings up to a millisecond before its own clock says so.
            nonlocal paused
            paused = True
            self.arrived()

        try:
            while True:
                if reader.held:
                    return self._take()
                if self._fault is not None:
                    raise self._fault
                if reader.ended:
                    return b""
                if paused:
                    return None
                if not deadline:
                    deadline = self._now() + timeout
                    if pause is not None and self._connection is not None:
                        alarm = self._connection.loop.call_later(pause, ring)
                await self._more(deadline, silent)
        finally:
            if alarm is not None:
                alarm.cancel()

    async def flow(
        self,
        take: Callable[[bytes], bool],
        settle: Callable[[], Awaitable[None]],
        timeout: float,  # noqa: ASYNC109 - as `chunk`
        lag: Callable[[int], None] = _nothing,
    ) -> None:
        """Give the body to `take` as it comes, to its end.

        The headers are let go: a stream may last for hours.

        `take` is called from within the reading of the connection. Where it answers False nothing more is given to it
        before `settle` was awaited. What arrived before a fault is given before the fault is raised.

        Args:
            timeout: Seconds of silence that are accepted; interim framing is silence.
            lag: Told how many bytes wait, each time that some come to those which wait already, on a connection that
                cannot be paused; what it raises ends the answer.

        Raises:
            UpstreamIdle: nothing came for `timeout`.
            UpstreamReset: the agent closed before the end.
            UpstreamProtocol: what came is no HTTP; or what `take` raises.
        """
        reader = self.reader
        self._take_on, self.patience, self.lag = take, timeout, lag
        self.headers.clear()
        self.known = reader.known = None
        while True:
            if reader.held:
                if not take(reader.take()):
                    # Whoever reads a stream slowly, or not at all, would else have as much wait here as there.
                    self._pause()
                    await settle()
                continue
            if self._fault is not None:
                raise self._fault
            if reader.ended:
                return
            if self._connection is not None:
                self._connection.resume_reading()
            self.flows = True
            try:
                await self._more(self._deadline(timeout), silent)
            finally:
                self.flows = False
            if self._refused is not None:
                raise self._refused
            if self._full:
                self._full = False
                await settle()

    def close(self) -> None:
        """Be done with the answer. If it is not complete, the agent sees the connection close at once."""
        connection = self._connection
        if connection is not None:
            connection.fail(UpstreamReset(CUT, detail="closed by the gateway"))

    def disown(self) -> None:
        """As `close`, also where the answer is complete: it was not one to what was asked.

        Whose it was nobody knows, nor whose the next one on that connection would be (safety T14).
        """
        self.close()
        self.distrust()

    def distrust(self) -> None:
        """Have its connection serve nothing after this answer, which goes on."""
        self._carrier.distrust()

    # ---- Between a response and its connection ------------------------------------------------------------------

    async def head(self, deadline: float) -> Self:
        """Wait until the head is there."""
        while self.status == 0:
            if self._fault is not None:
                raise self._fault
            await self._more(deadline, late)
        return self

    def arrived(self) -> None:
        """Something was read: tell the task that waits."""
        self._learn_head()
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self.flows and self._connection is not None:
            # Framing is silence.
            if self.reader.held and self.pour(self._take()):
                self._connection.expect_by(self._connection.loop.time() + self.patience)
        else:
            waiter.set_result(None)

    def pour(self, data: bytes) -> bool:
        """Give on bytes of the body that have just arrived; False where nobody is there to take them.

        Only while it `flows`; whoever pours sees to it that the next ones may take `patience` again.
        """
        waiter = self._waiter
        if self._connection is None or waiter is None or waiter.done():
            # Whoever waited was woken or cancelled, and has not run yet.
            return False
        try:
            if self._take_on(data):
                return True
            self._full = True
            self._pause()
        except Exception as error:  # noqa: BLE001 - raised where it can be answered: in the task that waits
            self._refused = error
        if not waiter.done():
            waiter.set_result(None)
        return True

    def detach(self, fault: Fault | None = None) -> None:
        """The exchange is over; `fault` says why if the answer is not complete."""
        self._connection = None
        self._fault = fault
        self.reader.stop()
        # Nothing flows any more: the task that waits is woken for what is left.
        self._learn_head()
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _learn_head(self) -> None:
        if self.status == 0:
            reader = self.reader
            self.status, self.headers, self.known = reader.status, reader.headers, reader.known

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

    def _deadline(self, seconds: float) -> float:
        return self._now() + seconds

    def _now(self) -> float:
        assert self._connection is not None
        return self._connection.loop.time()

    def _pause(self) -> None:
        if self._connection is not None:
            self._connection.pause_reading()

    def _take(self) -> bytes:
        data = self.reader.take()
        if self._connection is not None:
            self._connection.resume_reading()
        return data


def _nowhere(_data: bytes) -> bool:
    """Where the body goes before `flow`: it stays."""
    return False


def late() -> Fault:
    """The fault of an answer that did not come in time."""
    return UpstreamTimeout("the agent did not answer in time")


def silent() -> Fault:
    """The fault of a stream on which nothing comes any more."""
    return UpstreamIdle("the agent's stream fell silent")
