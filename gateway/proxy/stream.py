"""Deliver a stream of an agent's events to the client, relayed or translated.

Events are pushed while the loop reads the agent's connection, without waking a task for each one: most streams are
many, slow and small. The task that serves the request sleeps meanwhile. It takes over if it has to wait: for a client
that reads slowly, the ledger, a long event, the end.

Only whole events are written, so that a heartbeat or the gateway's own last event never lands in the middle of one.
"""

import asyncio
from collections import deque
from contextlib import suppress

from gateway.a2a.agent_frame import event_reader
from gateway.a2a.bindings.grpc_status import Status, of_error, trailers
from gateway.a2a.bindings.jsonrpc import answers, is_same, with_id
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import ClientGone, Fault, UpstreamProtocol, UpstreamReset
from gateway.a2a.framing.grpc import FrameDecoder, frame
from gateway.a2a.framing.sse import HEARTBEAT, Event, SseDecoder
from gateway.a2a.headers import Pairs
from gateway.a2a.json import refuse_crowd
from gateway.a2a.progress import PLAIN, EventReader, Progress, is_content
from gateway.a2a.translation import Translation
from gateway.proxy.overload import ASIDE, FREE
from gateway.proxy.reply_delivery import ReplyDelivery
from gateway.proxy.request import record_owner
from gateway.proxy.responder import Responder

_TURN = 16 * 1024
"""Bytes of a stream that are read before other requests have their turn."""
_PATIENCE = 0.5
"""Seconds for which an event that may be the last one is held back."""
_EARLY = 0.001
"""Seconds by which timers of uvloop may fire early."""
_BLANK = Progress()


class Stream:
    """Delivers the events of one reply.

    Args:
        headers: Of the answer to the client.
    """

    # Not a dict: each of many streams would have one of its own, for it has more than thirty names.
    __slots__ = (
        "_after", "_backlog", "_before", "_call", "_client", "_clock", "_decoder", "_delivery", "_failed", "_failure",
        "_has_ended", "_headers", "_heartbeat", "_heartbeat_timer", "_is_grpc", "_is_renumbered", "_is_wrapped",
        "_is_writing", "_longest_repeated", "_meter", "_prefix", "_read", "_recorded",
        "_release_timer", "_request", "_sends_heartbeats", "_text", "_too_long_to_push", "_translation",
        "_undecoded", "_unrecorded", "_waiting",
    )  # fmt: skip

    def __init__(self, delivery: ReplyDelivery, client: Responder, headers: Pairs) -> None:
        backend = delivery.backend
        self._delivery = delivery
        self._request = delivery.request
        self._call = delivery.call
        self._translation = delivery.translation
        self._clock = delivery.clock
        self._meter = backend.meter
        self._heartbeat = backend.bounds.heartbeat
        self._client = client
        self._is_wrapped = self._call.dialect.binding is Binding.JSONRPC
        self._is_grpc = self._call.dialect.binding is Binding.GRPC
        # Clients of gRPC get no heartbeats: HTTP/2 has pings.
        self._sends_heartbeats = delivery.request.binding is not Binding.GRPC
        longest = backend.bounds.event
        self._decoder = FrameDecoder(longest) if self._is_grpc else SseDecoder(longest)
        self._read = event_reader(self._call)
        # The headers, until they go out with the first event.
        self._headers: Pairs | None = headers
        # Undecoded pieces of a long chunk, the first one last; bytes that wait at the connection.
        self._undecoded: list[bytes] = []
        self._backlog = 0
        # Events that wait; the first of them waits for the ledger, or for a thread.
        self._waiting: deque[Event] = deque()
        # The ids in the first of them that the ledger has to record.
        self._unrecorded: Progress | None = None
        # The progress of the last event, if none of its ids had to be recorded; the reader returns the same object
        # again.
        self._recorded: Progress | None = None
        # The bytes around the text of the last chunk; empty unless that was one event that was relayed unchanged.
        self._before = self._after = b""
        self._text = slice(0)
        self._longest_repeated = min(longest, _TURN)
        # The context prefix that is removed from events; empty for none.
        self._prefix = b""
        # Whole events that are too long to be written without waiting for the client.
        self._too_long_to_push = b""
        self._is_writing = False
        self._is_renumbered = False
        self._has_ended = False
        # The status with which a gRPC agent ended the stream, as the client may see it.
        self._failure: Status | None = None
        # The number of the event that was refused.
        self._failed = 0
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._release_timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Deliver the events, to the last one.

        Raises:
            UpstreamProtocol: an event is not an A2A event, or belongs to another call.
            UpstreamReset, UpstreamIdle: the stream broke off.
        """
        request, meter = self._request, self._meter
        request.stream = True
        request.status = 200
        meter.streaming(1)
        closed_by = "gateway"
        try:
            self._begin()
            await self._read_events()
            self._stop_heartbeat()
            await self._finish()
            closed_by = "agent"
            self._open()
            await self._client.close(self._trailers())
        except BaseException as error:
            if isinstance(error, UpstreamReset):
                closed_by = "agent"
            elif isinstance(error, UpstreamProtocol):
                self._add_event_number(error)
            self._write_held()
            raise
        finally:
            self._stop_heartbeat()
            if self._release_timer is not None:
                self._release_timer.cancel()
            if isinstance(request.interrupted, ClientGone):
                closed_by = "client"
            request.closed_by = closed_by
            request.upstream = self._clock() - (request.sent or request.started)
            meter.streaming(-1)
            meter.stream_closed(closed_by, self._clock() - request.started, request.trace_id)

    def _begin(self) -> None:
        request = self._request
        if self._translation is None or self._translation.tells_failures:
            self._open()
        if request.permit is not None:
            request.permit.streaming()
        # A stream may last for hours, and its rest needs neither head nor body of the request.
        request.forget_head()
        for call in (self._call, request.call):
            if call is not None:
                call.forget()
        if self._sends_heartbeats:
            self._schedule_heartbeat(self._heartbeat)

    async def _read_events(self) -> None:
        """Deliver the events that arrive, to the end of the reply."""
        delivery = self._delivery
        reply, idle = delivery.reply, delivery.backend.upstream.timeouts.stream_idle
        with suppress(_Ended):
            await reply.flow(self._on_chunk, self._settle, idle, self._on_backlog)
        if reply.failure is not None:
            self._failure = await delivery.failure(reply.failure)

    async def _finish(self) -> None:
        """Deliver the remaining bytes after the end of the reply."""
        if (last := self._decoder.last) is not None:
            # Some servers do not terminate their last event, and some clients read it nevertheless. No event may follow
            # it.
            await self._write(self._deliver_event(last))
            await self._deliver_waiting()
        if self._failure is not None:
            error = self._delivery.error_of(self._failure)
            self._request.add_progress(Progress(event="error", error=error.code))
            if self._translation is not None:
                await self._write(self._translation.fail(error))
        elif self._translation is not None:
            await self._write(self._translation.held(last=True))

    def _trailers(self) -> Pairs | None:
        """Return the status of a stream that failed, for a client of gRPC."""
        status, translation = self._failure, self._translation
        if self._request.binding is not Binding.GRPC:
            return None
        if translation is not None:
            stream_error = translation.stream_error
            status = None if stream_error is None else of_error(stream_error, translation.client.version)
        if status is None:
            return None
        self._request.grpc_status = status.code
        return trailers(status)

    def _add_event_number(self, fault: Fault) -> None:
        """Add the number of the undelivered event to the log line, counted from 1, without comments."""
        # An event that was too long has not been counted.
        number = self._failed or (0 if self._decoder.refused is None else self._request.events + 1)
        if number:
            fault.detail = f"event {number}" + (f": {fault.detail}" if fault.detail else "")

    # ---- Pushed from the agent's connection --------------------------------------------------------------------------

    def _on_chunk(self, chunk: bytes) -> bool:
        """Deliver received bytes; return False if `_settle` has to be awaited before more are read.

        Raises:
            UpstreamProtocol: an event is not an answer to this call; earlier events have gone out.
        """
        request = self._request
        if (
            self._before
            and len(chunk) <= self._longest_repeated
            and chunk.startswith(self._before)
            and chunk.endswith(self._after)
            # Also empty if the two would overlap.
            and (text := chunk[self._text])
            and (not text.translate(None, PLAIN) or is_content(text))
            and not (self._prefix and b"-" in text and self._prefix in text)
        ):
            # The usual event of a stream: it differs from the last one only in its text. The bytes around the text hold
            # no prefix; a prefix holds hyphens and no quotation marks.
            request.events += 1
            self._meter.event("artifact")
            request.bytes_out += len(chunk)
            if request.bytes_out >= request.toll:
                request.charge()
            return self._client.write_nowait(chunk)
        self._before = b""
        if len(chunk) > _TURN:
            self._backlog = 0
            # In pieces, so that delivered bytes are not held together with undelivered ones.
            self._undecoded = [chunk[at : at + _TURN] for at in range(0, len(chunk), _TURN)]
            self._undecoded.reverse()
            self._count_held()
            return False
        event = self._decoder.only(chunk)
        output = self._events(chunk) if event is None else self._deliver_event(event)
        if len(output) > _TURN:
            self._too_long_to_push = output
            return False
        if not output:
            return not self._waiting and not self._has_ended
        if request.first_byte is None:
            self._open()
            request.first_byte = self._clock()
        request.bytes_out += len(output)
        if request.bytes_out >= request.toll:
            request.charge()
        return self._client.write_nowait(output) and not self._waiting and not self._has_ended

    def _events(self, chunk: bytes) -> bytes:
        """Return the output for the events that end in a chunk.

        Raises:
            Fault: as `_deliver_event`, or of the decoder; earlier events have gone out.
        """
        decoder = self._decoder
        output: list[bytes] = []
        try:
            # If an event raises, earlier events are in the list.
            output.extend(filter(None, map(self._deliver_event, decoder.feed(chunk))))
            if decoder.held > FREE or self._waiting:
                self._count_held()
            if decoder.refused is not None and not self._waiting:
                raise decoder.refused
        except Fault:
            if output:
                self._write_nowait(b"".join(output))
            raise
        return output[0] if len(output) == 1 else b"".join(output)

    async def _settle(self) -> None:
        """Finish the work that had to wait."""
        unsent, self._too_long_to_push = self._too_long_to_push, b""
        await self._write(unsent)
        await self._deliver_waiting()
        while self._undecoded:
            await self._write(self._events(self._undecoded.pop()))
            await self._deliver_waiting()
            await self._client.drained()
            # Let other requests run.
            await asyncio.sleep(0)
        await self._client.drained()
        self._count_held()
        if self._has_ended:
            raise _Ended

    async def _deliver_waiting(self) -> None:
        """Deliver the waiting events, in their order."""
        while self._waiting:
            # It stays first until it is done, so that no other event overtakes it.
            event, size = self._waiting[0], len(self._waiting[0].raw)
            unrecorded, self._unrecorded = self._unrecorded, None
            number = self._request.events + (unrecorded is None)
            try:
                if unrecorded is None:
                    progress = await self._request.kept.work(self._check_event, event, size)
                    unrecorded = None if progress is None else self._record_progress(progress)
                if unrecorded is not None:
                    await record_owner(self._request, unrecorded)
                output = await self._request.kept.work(self._render, event, size)
            except UpstreamProtocol:
                self._failed = number
                raise
            self._waiting.popleft()
            await self._write(output)
            self._start_release_timer()
        if self._decoder.refused is not None:
            raise self._decoder.refused

    def _on_backlog(self, size: int) -> None:
        """Count the bytes that wait at a connection that cannot be paused.

        Raises:
            Overloaded: as `_count_held`.
        """
        self._backlog = size
        self._count_held()

    def _count_held(self) -> None:
        """Count the bytes that are held.

        Raises:
            Overloaded: the process holds as much as it may.
        """
        waiting = sum(map(len, self._undecoded)) + sum([len(event.raw) for event in self._waiting])
        self._request.hold(self._decoder.held + self._backlog + len(self._too_long_to_push) + waiting)

    # ---- One event ---------------------------------------------------------------------------------------------------

    def _deliver_event(self, event: Event) -> bytes:
        """Return the output for an event; an event that has to wait is queued for `_deliver_waiting`.

        Raises:
            UpstreamProtocol: as `_check_event`.
        """
        raw, progress = event.raw, None
        if self._waiting or len(raw) >= ASIDE:
            self._waiting.append(event)
            return b""
        if self._recorded is not None and event.line is not None:
            progress = self._read(event.line)
            if progress is self._recorded and self._translation is None and not self._is_renumbered:
                # It has no new progress, and is relayed unchanged.
                self._request.events += 1
                self._meter.event(progress.event)
                if self._prefix and self._prefix in raw:
                    return self._render(event)
                if isinstance(self._read, EventReader):
                    # Its line is known, so it was alone in its chunk, and the decoder is empty.
                    self._before, self._after = b"data: " + self._read.before, self._read.after + b"\n\n"
                    self._text = slice(len(self._before), -len(self._after))
                return raw
        before = self._request.events
        try:
            progress = self._check_event(event, progress)
            if progress is not None and (unrecorded := self._record_progress(progress)) is not None:
                self._unrecorded = unrecorded
                self._waiting.append(event)
                return b""
            output = self._render(event)
        except UpstreamProtocol:
            self._failed = before + 1
            raise
        if self._translation is not None:
            self._start_release_timer()
        return output

    def _check_event(self, event: Event, progress: Progress | None = None) -> Progress | None:
        """Return the progress of an event; None for comments and events without data.

        Args:
            progress: The progress of its data, if it was read before.

        Raises:
            UpstreamProtocol: its data is not an answer, or may answer another call.
        """
        if self._has_ended:
            return None
        data = event.line
        if data is None:
            read = event.read()
            if read is None:
                return None
            data = read[1]
        if len(data) >= ASIDE and not self._is_grpc:
            refuse_crowd(data)
        progress = progress or self._read(data)
        if progress is None:
            # Blank data is empty in JSON, and ordinary bytes over gRPC.
            if self._is_grpc or data.strip():
                raise UpstreamProtocol(
                    "the agent sent an event that is no answer", detail=f"{len(data)} bytes" if self._is_grpc else ""
                )
            return _BLANK
        if self._is_wrapped and progress.id != self._call.id and not is_same(progress.id, self._call.id):
            self._is_renumbered = True
            if not answers(progress.id, self._call.id):
                self._delivery.suspect()
        return progress

    def _record_progress(self, progress: Progress) -> Progress | None:
        """Record the progress of an event; return it if the ledger has to record it before the event goes out."""
        request = self._request
        request.events += 1
        if request.events == 1 and request.on_event is not None:
            request.on_event()
        self._meter.event(progress.event)
        self._recorded = None
        if progress is _BLANK:
            return None
        ownership, before = request.ownership, request.progress
        # Nearly all events of a stream name the ids of the first one.
        if ownership is None or (request.pushing is None and ownership.is_known(progress)):
            if (
                progress.state
                or progress.event != before.event
                or progress.task_id != before.task_id
                or progress.context_id != before.context_id
            ):
                request.add_progress(progress)
            self._recorded = progress
            self._prefix = b"" if ownership is None else ownership.prefix.raw
            return None
        request.add_progress(ownership.prefix.remove_from_progress(progress))
        return progress

    def _render(self, event: Event) -> bytes:
        """Return the output for an event."""
        ownership = self._request.ownership
        if self._translation is not None:
            return self._translated(self._translation, event)
        raw = event.raw
        if self._is_renumbered and (read := event.read()) is not None and read[1].strip():
            raw = event.with_data(with_id(read[1], self._call.id))
        # As `ContextPrefix.remove`, which would be a call for every event of every stream.
        if ownership is None or not (mark := ownership.prefix.raw) or mark not in raw:
            return raw
        if self._is_grpc and event.line is not None:
            return frame(self._delivery.without_prefix(event.line, event=True))
        return raw.replace(mark, b"")

    def _translated(self, translation: Translation, event: Event) -> bytes:
        if self._has_ended:
            return b""
        read = event.read()
        if read is None:
            # The client sees that the stream is alive. JavaScript clients do not end a comment at a lone CR, and would
            # lose the next event.
            comment = event.raw if event.silent and event.raw.endswith(b"\n") else HEARTBEAT
            return comment if self._sends_heartbeats else b""
        data = read[1]
        if not data.strip():
            return b""
        output = translation.event(self._delivery.without_prefix(data, event=True))
        if translation.stream_error is not None:
            self._request.add_progress(Progress(event="error", error=translation.stream_error.code))
            # A client of gRPC gets the error as the final status.
            self._has_ended = not self._sends_heartbeats
        return output

    # ---- An event that may be the last -------------------------------------------------------------------------------

    def _start_release_timer(self) -> None:
        """Start the timer of an event that is held back."""
        if self._translation is not None and self._translation.holds and self._release_timer is None:
            self._release_timer = asyncio.get_running_loop().call_later(_PATIENCE, self._on_release)

    def _on_release(self) -> None:
        """Deliver the held event: the agent keeps its stream open, and both may wait for the client."""
        self._release_timer = None
        if self._is_writing or self._too_long_to_push or self._undecoded or self._waiting:
            # Other output is being written, and this follows it.
            self._start_release_timer()
        else:
            self._write_held()

    def _write_held(self) -> None:
        translation = self._translation
        if translation is None or isinstance(self._request.interrupted, ClientGone):
            return
        if held := translation.release():
            self._write_nowait(held)

    # ---- To the client -----------------------------------------------------------------------------------------------

    def _write_nowait(self, data: bytes) -> bool:
        """Write whole events; return False if the client reads slowly."""
        self._count(data)
        return self._client.write_nowait(data)

    async def _write(self, data: bytes) -> None:
        """Write whole events (none if empty), and wait while the client reads slowly."""
        if data:
            self._count(data)
            self._is_writing = True
            await self._client.write(data)
            self._is_writing = False

    def _count(self, data: bytes) -> None:
        request = self._request
        if self._headers is not None:
            self._open()
        if request.first_byte is None:
            request.first_byte = self._clock()
        request.moved(len(data))

    def _open(self) -> None:
        """Send the head of the answer, unless it has gone out."""
        headers, self._headers = self._headers, None
        if headers is not None:
            self._client.open(200, headers)
            if self._request.on_stream is not None:
                self._request.on_stream(self._request)

    def _schedule_heartbeat(self, seconds: float) -> None:
        self._heartbeat_timer = asyncio.get_running_loop().call_later(seconds, self._on_heartbeat)

    def _stop_heartbeat(self) -> None:
        if self._heartbeat_timer is not None:
            self._heartbeat_timer.cancel()

    def _on_heartbeat(self) -> None:
        """Send a heartbeat if the agent was silent."""
        left = self._heartbeat - (asyncio.get_running_loop().time() - self._delivery.reply.received)
        if left > _EARLY:
            self._schedule_heartbeat(left)
            return
        if not self._is_writing and not self._too_long_to_push:
            self._open()
            self._client.write_nowait(HEARTBEAT)
        self._schedule_heartbeat(self._heartbeat)


class _Ended(Exception):  # noqa: N818 - not an error of the gateway's
    """The agent ended its stream with an error, and may not have closed it."""
