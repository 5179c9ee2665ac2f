"""OBSERVE and ENCODE of a stream: an agent's events on their way to the client.

What arrives is passed on from within the loop's own reading of the agent's connection, without waking a task for each
event: most streams are many, slow and small. The task that serves the request sleeps meanwhile, and takes over where
there is something to wait for: a client that reads slowly, a long event, much at once, the end.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from gateway.a2a import progress
from gateway.a2a.bindings.jsonrpc_id import answers, is_same, with_id
from gateway.a2a.bounds import refuse_crowd
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import ClientGone, Fault, UpstreamProtocol, UpstreamReset
from gateway.a2a.framing.sse import HEARTBEAT, Event, SseDecoder
from gateway.a2a.headers import Pairs
from gateway.backing import Backing
from gateway.exchange import Exchange, meet
from gateway.kept import ASIDE, FREE
from gateway.wire import Wire

_TURN = 16 * 1024
"""Bytes of a stream that are read before other requests have their turn."""
_BLANK = progress.Progress()


class Flowing(Protocol):
    """An agent's answer, as it comes."""

    async def flow(
        self,
        take: Callable[[bytes], bool],
        settle: Callable[[], Awaitable[None]],
        timeout: float,  # noqa: ASYNC109 - of silence
        lag: Callable[[int], None],
    ) -> None:
        """As `upstream.response.Response.flow`."""


class Decoder(Protocol):
    """Takes the events out of what comes; `SseDecoder` says what its methods do."""

    @property
    def last(self) -> Event | None:
        """What was not ended when the stream was."""

    @property
    def refused(self) -> Fault | None:
        """Why nothing more is read."""

    @property
    def held(self) -> int:
        """Bytes of an event that has not come whole."""

    def only(self, chunk: bytes) -> Event | None:
        """The one event that a chunk is."""

    def feed(self, chunk: bytes) -> Iterable[Event]:
        """The events that end in a chunk."""


class Stream:
    """Brings the events of one answer to the client.

    Args:
        clock: Monotonic seconds.

    Attributes:
        on_foreign_id: Called for each event whose id cannot be that of the call.
    """

    def __init__(self, exchange: Exchange, backing: Backing, clock: Callable[[], float], wire: Wire) -> None:
        if exchange.call is None:
            raise ValueError("nothing was called")
        self._exchange = exchange
        self._call = exchange.call
        self._wrapped = self._call.dialect.binding is Binding.JSONRPC
        self._meter = backing.meter
        self._heartbeat = backing.bounds.heartbeat
        self._idle = backing.upstream.timeouts.stream_idle
        self._clock = clock
        self._wire = wire
        self._decoder: Decoder = SseDecoder(backing.bounds.event)
        # HTTP/2 has pings of its own.
        self._beats = exchange.binding is not Binding.GRPC
        # What came and has to wait for its turn, the last of it first; and for the client.
        self._rest: list[bytes] = []
        self._unsent = b""
        # Bytes in `_rest`, and those that wait where the agent cannot be made to wait.
        self._left = 0
        self._behind = 0
        # Events that wait for the first of them: for the ledger, or for a thread that works on it.
        self._waiting: deque[Event] = deque()
        self.on_foreign_id: Callable[[], None] | None = None
        # Whether an event came under another id than the call's.
        self._readdresses = False
        self._unmet: progress.Progress | None = None
        self._failure: Fault | None = None
        # The number of the event that cannot be passed on, where one has been begun.
        self._failed = 0
        self._heard = 0.0
        self._beat: asyncio.TimerHandle | None = None

    async def run(self, response: Flowing, headers: Pairs) -> None:
        """Pass the events on, to the last one.

        Args:
            headers: Of the answer to the client.

        Raises:
            UpstreamProtocol: an event is none that A2A knows, or of another call.
            UpstreamReset, UpstreamIdle: the stream broke off.
        """
        exchange, wire, meter = self._exchange, self._wire, self._meter
        exchange.stream = True
        exchange.status = 200
        meter.streaming(1)
        # Who ends it, unless it is told below.
        closed_by = "gateway"
        try:
            wire.open(200, headers)
            if exchange.permit is not None:
                exchange.permit.streaming()
            # A stream may last for hours, and from here on its request tells nothing more.
            exchange.head.forget()
            for call in (self._call, exchange.call):
                if call is not None:
                    call.forget()
            self._heard = self._clock()
            if self._beats:
                self._beat_after(self._heartbeat)
            await self._flow(response)
            self._stop_beating()
            await self._bring_rest()
            closed_by = "agent"
            await wire.close(self._trailers())
        except UpstreamReset:
            closed_by = "agent"
            raise
        except UpstreamProtocol as fault:
            self._tell_number(fault)
            raise
        finally:
            self._stop_beating()
            if isinstance(exchange.interrupted, ClientGone):
                closed_by = "client"
            exchange.closed_by = closed_by
            exchange.upstream = self._clock() - (exchange.sent or exchange.started)
            meter.streaming(-1)
            meter.stream_closed(closed_by)

    async def _bring_rest(self) -> None:
        """Pass on what is left once nothing more comes."""
        if (last := self._decoder.last) is not None:
            # Some servers do not end their last event, and some clients read it all the same. Nothing may follow it but
            # the end: no heartbeat, no last word.
            brought = self._bring(last)
            self._count(len(brought))
            await self._wire.write(brought)
            await self._catch_up()
        if held := self._held():
            self._count(len(held))
            await self._wire.write(held)

    def _tell_number(self, fault: Fault) -> None:
        """Say in the log which event could not be passed on, counted from 1, without comments."""
        # One that was too long was not begun.
        number = self._failed or (0 if self._decoder.refused is None else self._exchange.events + 1)
        if number:
            fault.detail = f"event {number}" + (f": {fault.detail}" if fault.detail else "")

    def _take(self, chunk: bytes) -> bool:
        """Pass on what arrived; False where `_settle` has to be awaited before there is more.

        Raises:
            UpstreamProtocol: an event is no answer to this call; those before it have gone out.
        """
        self._heard = self._clock()
        if len(chunk) > _TURN:
            self._left, self._behind = len(chunk), 0
            self._hold()
            # In pieces: what has gone out is not held for the sake of what has not.
            self._rest = [chunk[at : at + _TURN] for at in range(0, len(chunk), _TURN)]
            self._rest.reverse()
            return False
        event = self._decoder.only(chunk)
        if event is None:
            return self._events(chunk)
        # Nothing is unsent here: what is has been settled before more is taken.
        brought = self._bring(event)
        exchange = self._exchange
        if not brought:
            return not self._waiting
        if exchange.first_byte is None or len(brought) > _TURN:
            return self._write(brought)
        exchange.moved(len(brought))
        return self._wire.write_nowait(brought)

    async def _settle(self) -> None:
        """Finish what could not be finished at once."""
        rest, self._rest = self._rest, []
        while rest:
            piece = rest.pop()
            self._left -= len(piece)
            self._events(piece)
            await self._catch_up()
            await self._send()
            if rest:
                await asyncio.sleep(0)
        await self._catch_up()
        await self._send()
        self._hold()

    def _lag(self, size: int) -> None:
        """Count what waits at the agent's connection, too, which is not paused.

        Raises:
            Overloaded: as `_hold`.
        """
        self._behind = size
        self._hold()

    def _hold(self) -> None:
        """Count what is held of long events.

        Raises:
            Overloaded: the process holds as much as it may.
        """
        waiting = sum([len(event.raw) for event in self._waiting])
        self._exchange.hold(self._decoder.held + self._left + self._behind + len(self._unsent) + waiting)

    async def _catch_up(self) -> None:
        """Bring what had to wait, in its order."""
        while self._waiting:
            # It waits until it is done: nothing is let go in the meantime.
            event = self._waiting[0]
            unmet, self._unmet = self._unmet, None
            number = self._exchange.events + (unmet is None)
            try:
                if unmet is None:
                    told = await self._exchange.kept.work(self._look, event, len(event.raw))
                    unmet = None if told is None else self._note(told)
                if unmet is not None:
                    await meet(self._exchange, unmet)
                said = await self._exchange.kept.work(self._say, event, len(event.raw))
            except UpstreamProtocol:
                self._failed = number
                raise
            self._waiting.popleft()
            if said:
                self._write(said)
            self._see_to_held()
            await self._send(whole=not self._waiting)

    async def _send(self, *, whole: bool = True) -> None:
        if self._unsent:
            await self._wire.write(self._unsent)
            # Not before: a heartbeat in between would land in the middle of it.
            self._unsent = b""
        if self._failure is not None and whole:
            raise self._failure
        await self._wire.drained()

    def _events(self, chunk: bytes) -> bool:
        decoder = self._decoder
        good: list[bytes] = []
        failure: Fault | None = None
        try:
            # Where an event raises, those before it are in the list.
            good.extend(filter(None, map(self._bring, decoder.feed(chunk))))
            failure = decoder.refused
            if decoder.held > FREE or self._waiting:
                self._hold()
        except Fault as fault:
            failure = fault
        # What came before an event that is none of this call's is the client's all the same.
        goes_on = (not good or self._write(good[0] if len(good) == 1 else b"".join(good))) and not self._waiting
        if failure is None:
            return goes_on
        if not self._unsent and not self._waiting:
            raise failure
        self._failure = failure
        return False

    # ---- What another sort of stream does otherwise ----------------------------------------------------------------

    async def _flow(self, response: Flowing) -> None:
        """Take what comes, to its end."""
        await response.flow(self._take, self._settle, self._idle, self._lag)

    def _say(self, event: Event) -> bytes:
        """What goes out for an event."""
        ownership, raw = self._exchange.ownership, event.raw
        if self._readdresses and (read := event.read()) is not None and read[1].strip():
            raw = event.with_data(with_id(read[1], self._call.id))
        # As `Mark.unmarked`, which would be a call for every event of every stream.
        return (
            raw.replace(mark, b"") if ownership is not None and (mark := ownership.prefix.raw) and mark in raw else raw
        )

    def _see_to_held(self) -> None:
        """See to what is held back."""

    def _held(self) -> bytes:
        """What goes out once nothing more comes."""
        return b""

    def _trailers(self) -> Pairs | None:
        """What stands behind the last event, for a client whose binding has a place for it."""
        return None

    # ---- Events ----------------------------------------------------------------------------------------------------

    def _bring(self, event: Event) -> bytes:
        """What goes out for an event now; what has to wait goes out later.

        Raises:
            UpstreamProtocol: as `_look`, or it names what is another's.
        """
        if self._waiting or len(event.raw) >= ASIDE:
            self._waiting.append(event)
            return b""
        before = self._exchange.events
        try:
            told = self._look(event)
            unmet = None if told is None else self._note(told)
            if unmet is not None:
                self._unmet = unmet
                self._waiting.append(event)
                return b""
            return self._say(event)
        except UpstreamProtocol:
            self._failed = before + 1
            raise

    def _look(self, event: Event) -> progress.Progress | None:
        """What an event tells; None for comments and events without data.

        Raises:
            UpstreamProtocol: its data is no answer.
        """
        data = event.line
        if data is None:
            read = event.read()
            if read is None:
                return None
            data = read[1]
        told = self._told(data)
        if told is not None:
            if self._wrapped and told.id != self._call.id and not is_same(told.id, self._call.id):
                self._readdresses = True
                if self.on_foreign_id is not None and not answers(told.id, self._call.id):
                    self.on_foreign_id()
            return told
        if data.strip():
            raise UpstreamProtocol("the agent sent an event that is no answer")
        return _BLANK

    def _note(self, told: progress.Progress) -> progress.Progress | None:
        """Keep what an event tells; return it where what it names has to be written down before it goes out."""
        exchange = self._exchange
        exchange.events += 1
        if exchange.events == 1 and exchange.on_event is not None:
            exchange.on_event()
        self._meter.event(told.event)
        if told is _BLANK:
            return None
        ownership = exchange.ownership
        # Nearly all events of a stream name what its first one did.
        if ownership is None or (exchange.pushing is None and ownership.is_known(told)):
            exchange.saw(told)
            return None
        exchange.saw(ownership.prefix.remove_from_progress(told))
        return told

    def _told(self, data: bytes) -> progress.Progress | None:
        refuse_crowd(data)
        return progress.read_jsonrpc(data) if self._wrapped else progress.read_bare(data)

    def _write(self, data: bytes) -> bool:
        self._count(len(data))
        if self._unsent or len(data) > _TURN:
            self._unsent += data
            return False
        return self._wire.write_nowait(data)

    def _count(self, size: int) -> None:
        exchange = self._exchange
        if exchange.first_byte is None:
            exchange.first_byte = self._clock()
        exchange.moved(size)

    # ---- Heartbeats ----------------------------------------------------------------------------------------------

    def _beat_after(self, seconds: float) -> None:
        self._beat = asyncio.get_running_loop().call_later(seconds, self._on_beat)

    def _stop_beating(self) -> None:
        if self._beat is not None:
            self._beat.cancel()

    def _on_beat(self) -> None:
        """Tell the client that the stream is alive, if nothing else has; whole events only were written before."""
        left = self._heartbeat - (self._clock() - self._heard)
        # Timers of uvloop ring up to a millisecond early.
        if left > 0.001:
            self._beat_after(left)
            return
        if not self._unsent and not self._rest:
            self._wire.write_nowait(HEARTBEAT)
        self._beat_after(self._heartbeat)
