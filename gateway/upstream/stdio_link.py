"""The pipe to one process on stdio: many calls at a time, told apart by ids of the gateway's own.

A frame is written whole, behind those that wait. What comes is read always, and goes to the call whose id it has:

    an open call       its answer, or an event of its stream (`stdio_call`)
    a call that is over, or that its client gave up     dropped: the agent cannot be told
    what is no JSON    as one of no call; where its id can be read all the same, that call fails
    no call            dropped, and counted: too many of them, and the pipe is *broken*
    a request of the agent's own      refused: clients serve no methods; counted as one that is no call's
    a notification of its own         dropped: JSON-RPC lets it say what it likes to who need not listen

The pipe is broken for good by a bad frame, behind which nobody knows where the next one begins, by one that is not
finished, and where either end of it is closed. Then every open call fails, and whoever owns the process ends it.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from gateway.a2a.bindings.stdio import addressee, hear, readdress, refusal
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.document import Members
from gateway.a2a.fault import BodyTooLarge, Fault, NoHealthyBackend, Overloaded, UpstreamProtocol, UpstreamReset
from gateway.a2a.framing.lsp import HEADER_BYTES, LONGEST, BadFrame, Frame, FrameDecoder, Framing, whole
from gateway.upstream.response import Response
from gateway.upstream.stdio_call import StdioCall

LONGEST_HEARD = 32 * 1024 * 1024
"""Bytes of the content of a frame from an agent, by default: as long as an answer may be."""
MOST_STRAYS = 1000
"""Frames in a row that are nobody's."""
_MOST_LINES = HEADER_BYTES - 256
"""Bytes of header fields; the rest of the header is the framing's."""
MOST_UNREAD = 16 * 1024 * 1024
"""Bytes that wait for a process that does not read."""
_MOST_REFUSALS = 64 * 1024
STALL = 10.0
"""Seconds of silence in the middle of a frame."""

logger = logging.getLogger("gateway.upstream.stdio")


class Link:
    """The pipe to one process.

    Args:
        name: Whose it is, for the log.
        framing: How frames are written.
        longest: Bytes of the longest frame from the agent; also of what a stream may hold back for a slow client.
        asked: Bytes of the longest frame to it, where that is less.
        write: Writes a frame to the process.
        unread: Bytes that were written and that the process has not read.
        learn: Told which task and which context a frame names, or None where nobody asks.

    Attributes:
        broken: Done when nothing more can be read or written, with the reason.
        calls: How many are open.
        late: Frames of calls that were over.
        strays: Frames that were nobody's.
        notices: Notifications of the agent's own.
        served: Answers, and events of streams, that went to clients' calls.
    """

    def __init__(
        self,
        name: str,
        *,
        framing: Framing = Framing.LSP,
        longest: int = LONGEST_HEARD,
        asked: int = LONGEST,
        write: Callable[[bytes], None],
        unread: Callable[[], int] = lambda: 0,
        learn: "Callable[[Link, str | None, str | None], None] | None" = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.broken: asyncio.Future[str] = self.loop.create_future()
        self.late = 0
        self.strays = 0
        self.notices = 0
        self.served = 0
        self._name = name
        self._framing = framing
        self._longest = longest
        self._asked = min(asked, longest)
        self._write = write
        self._unread = unread
        self._learn = learn
        self._decoder = FrameDecoder(longest)
        self._open: dict[bytes, StdioCall] = {}
        self._given = 0
        self._in_a_row = 0
        self._first: asyncio.Future[bytes] | None = None
        self._closed: Fault | None = None
        self._stall: asyncio.TimerHandle | None = None

    @property
    def calls(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def is_up(self) -> bool:
        """Whether calls can be made."""
        return self._closed is None

    def ask(self, call: Call, body: Members, lines: bytes, version: Version) -> Response:
        """Send a call; its answer is on the way, and whoever gets it closes it.

        Args:
            body: Members of the JSON-RPC request.
            lines: Header fields of the frame, from `header_lines`; lost where frames are lines.
            version: The generation that the agent is asked in.

        Raises:
            NoHealthyBackend: the pipe is closed; nothing was sent.
            Overloaded: the process does not read what it was sent already.
        """
        asked = self._send(body, lines, call.id, version, streams=call.operation.streams)
        asked.bare = call.path.legacy_card
        return asked.response

    async def request(self, method: str, lines: bytes, version: Version, seconds: float) -> bytes:
        """The whole answer to a request of the gateway's own.

        Args:
            seconds: Until the answer is there.

        Raises:
            UpstreamTimeout: it is not.
            UpstreamReset, NoHealthyBackend, Overloaded: there is none.
        """
        members = {
            "jsonrpc": msgspec.Raw(b'"2.0"'),
            "id": msgspec.Raw(b"null"),
            "method": msgspec.Raw(msgspec.json.encode(method)),
            "params": msgspec.Raw(b"{}"),
        }
        asked = self._send(members, lines, b'"gateway"', version, streams=False)
        asked.own = True
        response = asked.response
        try:
            await response.head(self.loop.time() + seconds)
            return await response.read(self._longest + 1024, seconds)
        finally:
            response.close()

    def expect_first(self) -> "asyncio.Future[bytes]":
        """The very first frame, whatever it is: some agents print their card before anything else."""
        self._first = self.loop.create_future()
        return self._first

    def close(self, fault: Fault) -> None:
        """Make no more calls, and fail those that are open."""
        if self._closed is not None:
            return
        self._closed = fault
        if self._stall is not None:
            self._stall.cancel()
        if self._first is not None and not self._first.done():
            self._first.cancel()
        for call in list(self._open.values()):
            call.fail(fault)
        self._break("closed by the gateway")

    def reads(self) -> asyncio.Protocol:
        """What hears standard output."""
        return _Output(self)

    def writes(self) -> asyncio.BaseProtocol:
        """What is told of standard input."""
        return _Input(self)

    # ---- Between a link and its calls ------------------------------------------------------------------------------

    def forget(self, key: bytes) -> None:
        """The call is over: what still comes for it is late."""
        self._open.pop(key, None)

    # ---- Called by the loop ----------------------------------------------------------------------------------------

    def hear(self, data: bytes) -> None:
        """Bytes of standard output."""
        if self._closed is not None:
            return
        try:
            frames = self._decoder.feed(data)
        except BadFrame as error:
            self._break(f"it wrote what is no frame: {error}")
            return
        for frame in frames:
            if self._closed is None:
                self._take(frame)
        if self._decoder.refused is not None:
            self._break(f"it wrote what is no frame: {self._decoder.refused}")
            return
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        if self._decoder.midway:
            why = f"it stopped for {STALL:g} s in the middle of a frame"
            self._stall = self.loop.call_later(STALL, self._break, why)

    def hear_end(self) -> None:
        """Standard output was closed."""
        if self._closed is not None or self.broken.done():
            return
        try:
            last = self._decoder.last
        except BadFrame as error:
            self._break(f"it closed its standard output: {error}")
            return
        if last is not None:
            self._take(last)
        self._break("it closed its standard output")

    def deaf(self) -> None:
        """Standard input was closed by the process."""
        self._break("it closed its standard input")

    def _send(self, body: Members, lines: bytes, identity: bytes, version: Version, *, streams: bool) -> StdioCall:
        if self._closed is not None:
            raise NoHealthyBackend("this agent is not running", retry_after=1.0)
        if self._unread() > MOST_UNREAD:
            raise Overloaded("the agent does not read what it is sent", retry_after=1.0)
        key = b'"g-%d"' % (self._given + 1)
        content = readdress(body, key)
        # An agent may bound frames and their headers as the gateway does, and would end for all because of one call.
        if len(content) > self._asked:
            raise BodyTooLarge(f"the call exceeds the {self._asked} bytes of a frame of this agent")
        if len(lines) > _MOST_LINES:
            raise BodyTooLarge("the headers that belong to this call are too long for a frame")
        self._given += 1
        call = StdioCall(self, key, identity, version, streams=streams, longest=self._longest)
        self._open[key] = call
        self._write(whole(content, self._framing, lines))
        return call

    def _take(self, frame: Frame) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_result(frame.content)
            return
        heard = hear(frame.content)
        if heard is None:
            self._fail(frame.content)
        call = None if heard is None or heard.method else self._open.get(heard.id)
        if heard is not None and heard.method and not heard.id:
            self.notices += 1
            return
        if heard is None or call is None:
            self._stray(b"" if heard is None else heard.id, request=heard is not None and heard.method)
            return
        self._in_a_row = 0
        self.served += not call.own
        told = call.deliver(frame, heard)
        if self._learn is not None and told is not None and (told.task_id or told.context_id):
            self._learn(self, told.task_id, told.context_id)

    def _fail(self, content: bytes) -> None:
        """Tell whoever waits for it that their answer is no JSON: another one will not come."""
        call = self._open.get(addressee(content))
        if call is not None:
            call.fail(UpstreamProtocol("the agent's answer is no JSON"))

    def _stray(self, identity: bytes, *, request: bool) -> None:
        if not request and self._was_given(identity):
            self.late += 1
            return
        if request and identity and len(identity) <= 256 and self._unread() < _MOST_REFUSALS:
            self._write(whole(refusal(identity), self._framing, b""))
        self.strays += 1
        self._in_a_row += 1
        if self._in_a_row == 1:
            logger.warning("%s sent %s", self._name, "a request of its own" if request else "an answer to no call")
        if self._in_a_row > MOST_STRAYS:
            self._break(f"it sent {MOST_STRAYS} frames in a row that are nobody's")

    def _was_given(self, identity: bytes) -> bool:
        """Whether an id was one of a call's."""
        number = identity[3:-1]
        return identity[:3] == b'"g-' and number.isdigit() and len(number) <= 18 and int(number) <= self._given

    def _break(self, why: str) -> None:
        if not self.broken.done():
            self.broken.set_result(why)
        if self._closed is None:
            self.close(UpstreamReset("the agent ended before its answer was complete", detail=why))


class _Output(asyncio.Protocol):
    def __init__(self, link: Link) -> None:
        self._link = link

    def data_received(self, data: bytes) -> None:
        self._link.hear(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why is the same to everybody
        self._link.hear_end()


class _Input(asyncio.BaseProtocol):
    def __init__(self, link: Link) -> None:
        self._link = link

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why is the same to everybody
        self._link.deaf()
