"""One call over the pipe of a process: its frames as an answer like any other.

An answer over HTTP has a head and a body; so has this one, so that everything behind it is the same: a body of JSON, or
of server-sent events where the agent writes several frames with one id. The pipe is shared and is never held up: what
a slow client does not take waits here up to a bound, and then this one stream ends.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from gateway.a2a.bindings.stdio import Course, Heard, course, is_empty, readdress, says_end
from gateway.a2a.dialect import Version
from gateway.a2a.fault import Fault, Overloaded
from gateway.a2a.framing import sse
from gateway.a2a.framing.lsp import Frame
from gateway.a2a.progress import Progress, read_jsonrpc
from gateway.upstream.alarm import Alarm
from gateway.upstream.reader import ResponseReader
from gateway.upstream.response import Response, late

PATIENCE = 0.5
"""Seconds after an event that may be the last of its stream; what comes then goes on with it."""
_PASSED = frozenset({b"a2a-extensions", b"x-a2a-extensions"})
"""Header fields of a frame that go to the client."""


class Wired(Protocol):
    """What a call needs of the pipe."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where time comes from."""

    def forget(self, key: bytes) -> None:
        """The call is over."""


class StdioCall:
    """One call; what its `response` arrives on.

    Args:
        key: Its id on the pipe.
        identity: Its id as the caller wrote it, raw.
        version: The agent's generation.
        longest: Bytes that wait for a slow client, at most.

    Attributes:
        bare: Whether the caller wants a result without its envelope, and what is none as a status.
        own: Whether the gateway itself asks.
    """

    __slots__ = (
        "_alarm", "_expired", "_identity", "_key", "_link", "_longest", "_may_end", "_over",
        "_streams", "_version", "bare", "loop", "own", "response",
    )  # fmt: skip

    def __init__(
        self, link: Wired, key: bytes, identity: bytes, version: Version, *, streams: bool, longest: int
    ) -> None:
        self.loop = link.loop
        self.bare = False
        self.own = False
        self.response = Response(self, ResponseReader(0, 0))
        self._link = link
        self._key = key
        self._identity = identity
        self._version = version
        self._streams = streams
        self._longest = longest
        self._over = False
        self._expired: Callable[[], Fault] = late
        self._alarm = Alarm(self.loop, self._ring)
        self._may_end: asyncio.TimerHandle | None = None

    def deliver(self, frame: Frame, heard: Heard) -> Progress | None:
        """Take a frame with the call's id; what it tells, or None for what is no answer."""
        reader = self.response.reader
        content = readdress(heard.members, self._identity)
        told = read_jsonrpc(content)
        if not self._streams or (reader.status == 0 and (told is None or told.error is not None)):
            self._begin(frame, b"application/json")
            if self.bare:
                good = told is not None and told.error is None
                reader.status = 200 if good else 404
                content = bytes(heard.members.get("result", b"")) if good else content
            reader.keep(content)
            self._finish()
            return told
        if reader.status == 0:
            self._begin(frame, b"text/event-stream")
        if self._may_end is not None:
            self._may_end.cancel()
            self._may_end = None
        going = Course.ENDS if says_end(frame.headers) else course(heard.members, told, self._version)
        if not is_empty(heard.members):
            event = sse.encode(content)
            if reader.held and reader.held + len(event) > self._longest:
                self.fail(
                    Overloaded(
                        "the client reads slower than the agent writes: subscribe to the task to go on",
                        detail=f"over {self._longest} bytes wait",
                    )
                )
                return told
            try:
                self.response.lag(reader.held + len(event))
            except Overloaded as fault:
                self.fail(fault)
                return told
            reader.keep(event)
            self.response.arrived()
        if going is Course.ENDS:
            self._finish()
        elif going is Course.MAY_END:
            self._may_end = self.loop.call_later(PATIENCE, self._finish)
        return told

    def _begin(self, frame: Frame, content_type: bytes) -> None:
        reader = self.response.reader
        reader.headers = [(b"content-type", content_type)]
        reader.headers += [pair for pair in frame.headers if pair[0] in _PASSED]
        reader.status = 200

    def _finish(self) -> None:
        if self._over:
            return
        self.response.reader.ended = True
        self._end(None)

    def _end(self, fault: Fault | None) -> None:
        self._over = True
        self._link.forget(self._key)
        self._alarm.stop()
        if self._may_end is not None:
            self._may_end.cancel()
            self._may_end = None
        self.response.detach(fault)

    # ---- What a response needs (`response.Carrier`) ----------------------------------------------------------------

    def fail(self, fault: Fault) -> None:
        """Be done with the call; what the agent still sends for it is dropped."""
        if not self._over:
            self._end(fault)

    def distrust(self) -> None:
        """Nothing: ids tell the answers of a pipe apart, and another one is another's."""

    def pause_reading(self) -> None:
        """Nothing: the pipe is never held up."""

    def resume_reading(self) -> None:
        """Nothing, likewise."""

    def expect(self, deadline: float, expired: Callable[[], Fault]) -> "asyncio.Future[None]":
        """What to wait for until `deadline`; then the call fails with `expired()`."""
        self._expired = expired
        self._alarm.set(deadline)
        return self.loop.create_future()

    def expect_by(self, deadline: float) -> None:
        """What is waited for may take until then, which is no earlier than before."""
        self._alarm.deadline = deadline

    def expect_nothing(self, response: Response) -> None:  # noqa: ARG002 - a call has one
        """The response waits no longer."""
        self._alarm.deadline = math.inf

    def _ring(self) -> None:
        self.fail(self._expired())


class Nowhere:
    """A pipe of nobody's, for an answer that is made of several."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def forget(self, key: bytes) -> None:
        """Nothing: no other frame has its id."""
