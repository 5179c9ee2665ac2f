"""JSON-RPC over the pipes of one process: concurrent calls, with ids that the gateway chooses.

Frames are read always, and each goes to the call that has its id:

    an open call                        its answer, or an event of its stream
    a call that is over                 dropped as `late`: the agent cannot be told
    not JSON, but with a readable id    that call fails
    no call                             dropped as a `stray`; too many in a row break the connection
    a request of the agent              refused, since clients serve no methods; counted as a stray
    a notification of the agent         dropped

The connection breaks for good with a bad frame, because the start of the next one is unknown, with a frame that stops
half-way, and when either pipe closes. Then every open call fails, and the runner ends the process.

An answer looks like one over HTTP (`Response`): a JSON body, or server-sent events for several frames with one id. A
slow client never blocks the pipe: a bounded number of bytes waits for it, then its stream ends.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import msgspec

from gateway.a2a.bindings.jsonrpc import read_progress
from gateway.a2a.bindings.stdio import (
    Course,
    StdioMessage,
    addressee,
    course,
    ends_stream,
    error_response,
    is_empty,
    read_message,
    with_id,
)
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BodyTooLarge, Fault, NoHealthyBackend, Overloaded, UpstreamProtocol, UpstreamReset
from gateway.a2a.framing import sse
from gateway.a2a.framing.lsp import HEADER_BYTES, BadFrame, Frame, FrameDecoder, Framing, whole
from gateway.a2a.json import Members
from gateway.a2a.progress import Progress
from gateway.network.deadline import Deadline
from gateway.upstream.response import Response, late
from gateway.upstream.response_parser import ResponseParser

MOST_STRAYS = 1000
"""Frames in a row that belong to no call."""
MOST_UNREAD = 16 * 1024 * 1024
"""Bytes that wait for a process that does not read."""
STALL = 10.0
"""Longest silence within a frame, in seconds."""
END_PAUSE = 0.5
"""Seconds to wait after an event that may be the last of its stream; an event that comes in time continues it."""
_MOST_HEADER = HEADER_BYTES - 256
"""Bytes of header fields; the rest of the header belongs to the framing."""
_MOST_REFUSALS = 64 * 1024
_TO_CLIENT = frozenset({b"a2a-extensions", b"x-a2a-extensions"})
"""Header fields of a frame that go to the client."""

logger = logging.getLogger("gateway.upstream.stdio")


class Pipe(Protocol):
    """The standard input of a process."""

    @property
    def unread(self) -> int:
        """Return the bytes that were written and that the process has not read."""

    def write(self, data: bytes) -> None:
        """Write a frame."""


class Rpc(asyncio.Protocol):
    """The connection to one process; as a protocol of asyncio it reads the process's standard output.

    Args:
        name: The process, for the log.
        framing: The framing for writing; both framings are read.
        longest: Bytes of the longest frame from the agent, and of the buffer of a stream for a slow client.
        asked: Bytes of the longest frame to the agent, where that is less.
        dropped: Counts frames that went to no call: `late`, `stray`, `notification`.
        learn: Called with the task and the context that a frame names.

    Attributes:
        broken: Done, with the reason, when the connection can no longer be used.
        served: Frames that answered calls of clients.
    """

    def __init__(
        self,
        name: str,
        pipe: Pipe,
        *,
        framing: Framing,
        longest: int,
        asked: int,
        dropped: "Counter[str]",
        learn: "Callable[[Rpc, str | None, str | None], None] | None" = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.broken: asyncio.Future[str] = self.loop.create_future()
        self.served = 0
        self._name = name
        self._pipe = pipe
        self._framing = framing
        self._longest = longest
        self._asked = min(asked, longest)
        self._dropped = dropped
        self._learn = learn
        self._decoder = FrameDecoder(longest)
        self._calls: dict[bytes, RpcCall] = {}
        self._last_id = 0
        self._strays = 0
        self._first: asyncio.Future[bytes] | None = None
        self._closed: Fault | None = None
        self._stall = Deadline(self.loop, self._on_stall)

    @property
    def calls(self) -> int:
        """The number of open calls."""
        return len(self._calls)

    @property
    def is_open(self) -> bool:
        """Return whether calls can be made."""
        return self._closed is None

    def ask(self, call: Call, body: Members, fields: bytes, version: Version) -> Response:
        """Send a client's call; return its pending response, which the caller closes.

        Args:
            body: Members of the JSON-RPC request.
            fields: Header fields of the frame, from `header_lines`; lost where frames are lines.
            version: The generation of the request.

        Raises:
            NoHealthyBackend: the connection is closed; nothing was sent.
            Overloaded: the process does not read earlier frames.
            BodyTooLarge: the call does not fit into a frame.
        """
        made = self._send(body, fields, call.id, version, streams=call.operation.streams)
        made.bare = call.path.legacy_card
        return made.response

    async def request(self, method: str, fields: bytes, version: Version, seconds: float) -> bytes:
        """Return the whole answer to a request of the gateway's own, within so many seconds.

        Raises:
            UpstreamTimeout, UpstreamReset, NoHealthyBackend, Overloaded: there is none.
        """
        body: dict[str, object] = {"jsonrpc": "2.0", "id": None, "method": method, "params": {}}
        members = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in body.items()}
        call = self._send(members, fields, b'"gateway"', version, streams=False)
        call.is_client = False
        response = call.response
        try:
            await response.head(self.loop.time() + seconds)
            return await response.read(self._longest + 1024, seconds)
        finally:
            response.close()

    def expect_first(self) -> "asyncio.Future[bytes]":
        """Return the first frame of any kind: some agents print their card first."""
        self._first = self.loop.create_future()
        return self._first

    def close(self, fault: Fault) -> None:
        """Refuse further calls, and fail the open ones."""
        if self._closed is not None:
            return
        self._closed = fault
        self._stall.stop()
        if self._first is not None and not self._first.done():
            self._first.cancel()
        for call in list(self._calls.values()):
            call.fail(fault)
        self._break("closed by the gateway")

    def input_closed(self) -> None:
        """Note that the process has closed its standard input."""
        self._break("it closed its standard input")

    def forget(self, key: bytes) -> None:
        """Note that the call is over: frames that still arrive for it are late."""
        self._calls.pop(key, None)

    # ---- Standard output (`asyncio.Protocol`) ----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Read frames."""
        if self._closed is not None:
            return
        try:
            frames = self._decoder.feed(data)
        except BadFrame as error:
            self._break(f"it wrote an invalid frame: {error}")
            return
        for frame in frames:
            if self._closed is None:
                self._receive(frame)
        if self._decoder.refused is not None:
            self._break(f"it wrote an invalid frame: {self._decoder.refused}")
            return
        if self._decoder.midway:
            self._stall.within(STALL)
        else:
            self._stall.lift()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason is the same for all
        """Standard output was closed; a last line without its end is still an answer."""
        if self._closed is not None:
            return
        try:
            last = self._decoder.last
        except BadFrame as error:
            self._break(f"it closed its standard output: {error}")
            return
        if last is not None:
            self._receive(last)
        self._break("it closed its standard output")

    # ---- Frames ----------------------------------------------------------------------------------------------------

    def _send(self, body: Members, fields: bytes, identity: bytes, version: Version, *, streams: bool) -> "RpcCall":
        if self._closed is not None:
            raise NoHealthyBackend("this agent is not running", retry_after=1.0)
        if self._pipe.unread > MOST_UNREAD:
            raise Overloaded("the agent does not read what it is sent", retry_after=1.0)
        key = b'"g-%d"' % (self._last_id + 1)
        content = with_id(body, key)
        # An agent with the same bound would exit because of this call, for all clients.
        if len(content) > self._asked:
            raise BodyTooLarge(f"the call exceeds the {self._asked} bytes of a frame of this agent")
        if len(fields) > _MOST_HEADER:
            raise BodyTooLarge("the headers that belong to this call are too long for a frame")
        self._last_id += 1
        call = self._calls[key] = RpcCall(self, key, identity, version, streams=streams, longest=self._longest)
        self._pipe.write(whole(content, self._framing, fields))
        return call

    def _receive(self, frame: Frame) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_result(frame.content)
            return
        received = read_message(frame.content)
        if received is None:
            call = self._calls.get(addressee(frame.content))
            if call is not None:
                # There will be no other answer.
                call.fail(UpstreamProtocol("the agent's answer is no JSON"))
            self._stray()
        elif received.method:
            self._receive_request(received)
        elif (call := self._calls.get(received.id)) is not None:
            self._strays = 0
            self.served += call.is_client
            progress = call.deliver(frame, received)
            if self._learn is not None and progress is not None and (progress.task_id or progress.context_id):
                self._learn(self, progress.task_id, progress.context_id)
        elif self._is_earlier(received.id):
            self._dropped["late"] += 1
        else:
            self._stray()

    def _receive_request(self, received: StdioMessage) -> None:
        if not received.id:
            self._dropped["notification"] += 1
            return
        if len(received.id) <= 256 and self._pipe.unread < _MOST_REFUSALS:
            self._pipe.write(whole(error_response(received.id), self._framing, b""))
        self._stray()

    def _stray(self) -> None:
        self._dropped["stray"] += 1
        self._strays += 1
        if self._strays == 1:
            logger.warning("%s sent a frame that answers no call", self._name)
        if self._strays > MOST_STRAYS:
            self._break(f"it sent {MOST_STRAYS} frames in a row that answer no call")

    def _is_earlier(self, identity: bytes) -> bool:
        """Return whether an id was given to a call."""
        number = identity[3:-1]
        return identity[:3] == b'"g-' and number.isdigit() and len(number) <= 18 and int(number) <= self._last_id

    def _on_stall(self) -> None:
        self._break(f"it stopped for {STALL:g} s in the middle of a frame")

    def _break(self, why: str) -> None:
        if not self.broken.done():
            self.broken.set_result(why)
        if self._closed is None:
            self.close(UpstreamReset("the agent ended before its answer was complete", detail=why))


class RpcCall:
    """One call, and the carrier of its response (`response.Carrier`).

    Args:
        key: Its id on the pipe.
        identity: Its id as the client wrote it, raw.
        version: The generation of the agent.
        longest: Bytes that wait for a slow client, at most.

    Attributes:
        bare: Whether the client gets the result without its envelope, and an error as a status.
        is_client: Whether it is the call of a client, not of the gateway itself.
    """

    __slots__ = (
        "_deadline", "_expired", "_identity", "_key", "_longest", "_may_end", "_over", "_rpc",
        "_streams", "_version", "bare", "is_client", "loop", "response",
    )  # fmt: skip

    address = ""

    def __init__(self, rpc: Rpc, key: bytes, identity: bytes, version: Version, *, streams: bool, longest: int) -> None:
        self.loop = rpc.loop
        self.bare = False
        self.is_client = True
        self.response = Response(self, ResponseParser(0, 0))
        self._rpc = rpc
        self._key = key
        self._identity = identity
        self._version = version
        self._streams = streams
        self._longest = longest
        self._over = False
        self._expired: Callable[[], Fault] = late
        self._deadline = Deadline(self.loop, self._on_deadline)
        self._may_end: asyncio.TimerHandle | None = None

    def deliver(self, frame: Frame, received: StdioMessage) -> Progress | None:
        """Accept a frame with the call's id; return its progress, or None if it is not an answer."""
        content = with_id(received.members, self._identity)
        progress = read_progress(content)
        is_first = self.response.reader.status == 0
        if not self._streams or (is_first and (progress is None or progress.error is not None)):
            self._answer(frame, received, content, progress)
            return progress
        if is_first:
            self._begin(frame, b"text/event-stream")
        self._cancel_end()
        if not is_empty(received.members) and not self._pass_on(sse.encode(content)):
            return progress
        going = Course.ENDS if ends_stream(frame.headers) else course(received.members, progress, self._version)
        if going is Course.ENDS:
            self._finish()
        elif going is Course.MAY_END:
            self._may_end = self.loop.call_later(END_PAUSE, self._finish)
        return progress

    def _answer(self, frame: Frame, received: StdioMessage, content: bytes, progress: Progress | None) -> None:
        """Make the frame the whole answer."""
        self._begin(frame, b"application/json")
        reader = self.response.reader
        if self.bare:
            is_good = progress is not None and progress.error is None
            reader.status = 200 if is_good else 404
            content = bytes(received.members.get("result", b"")) if is_good else content
        reader.keep(content)
        self._finish()

    def _pass_on(self, event: bytes) -> bool:
        """Buffer an event for the client; return False if the buffer was full, which ends the stream."""
        reader = self.response.reader
        waiting = reader.held + len(event)
        if reader.held and waiting > self._longest:
            message = "the client reads slower than the agent writes: subscribe to the task to continue"
            self.fail(Overloaded(message, detail=f"over {self._longest} bytes wait"))
            return False
        try:
            self.response.lag(waiting)
        except Overloaded as fault:
            self.fail(fault)
            return False
        reader.keep(event)
        self.response.arrived()
        return True

    def _begin(self, frame: Frame, content_type: bytes) -> None:
        reader = self.response.reader
        reader.headers = [(b"content-type", content_type)]
        reader.headers += [pair for pair in frame.headers if pair[0] in _TO_CLIENT]
        reader.status = 200

    def _finish(self) -> None:
        if not self._over:
            self.response.reader.ended = True
            self._end(None)

    def _end(self, fault: Fault | None) -> None:
        self._over = True
        self._rpc.forget(self._key)
        self._deadline.stop()
        self._cancel_end()
        self.response.detach(fault)

    def _cancel_end(self) -> None:
        if self._may_end is not None:
            self._may_end.cancel()
            self._may_end = None

    # ---- `response.Carrier` ----------------------------------------------------------------------------------------

    def fail(self, fault: Fault) -> None:
        """End the call; frames that the agent still sends for it are dropped."""
        if not self._over:
            self._end(fault)

    def distrust(self) -> None:
        """Do nothing: the ids identify the answers on the pipe."""

    def pause_reading(self) -> None:
        """Do nothing: the pipe is never paused."""

    resume_reading = pause_reading

    def expect(self, deadline: float, expired: Callable[[], Fault]) -> "asyncio.Future[None]":
        """Return a future to wait for; at `deadline` the call fails with `expired()`."""
        self._expired = expired
        self._deadline.set(deadline)
        return self.loop.create_future()

    def expect_by(self, deadline: float) -> None:
        """Move the deadline to a later time."""
        self._deadline.at = deadline

    def expect_nothing(self, response: Response) -> None:  # noqa: ARG002 - a call has one
        """Remove the deadline."""
        self._deadline.lift()

    def _on_deadline(self) -> None:
        self.fail(self._expired())
