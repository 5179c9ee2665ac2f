"""FORWARD, OBSERVE, ENCODE: an agent's answer on its way to the client.

An answer of one frame is read whole before a byte goes out, so that what breaks on the way can still be said cleanly;
one that is too long to be kept is passed on as it comes. A stream goes event by event: only whole events are written,
so a heartbeat or the gateway's own last word never lands in the middle of one.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from gateway.a2a import document, progress
from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.echo import restore_tenant, with_result
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding
from gateway.a2a.document import Members
from gateway.a2a.fault import BadRequest, ClientGone, Fault, UpstreamIdle, UpstreamProtocol, UpstreamTimeout, details
from gateway.a2a.framing.sse import HEARTBEAT, Event, SseDecoder
from gateway.a2a.headers import TO_CLIENT, Pairs, is_event_stream, is_json, pass_on
from gateway.a2a.operation import Operation
from gateway.exchange import Exchange
from gateway.snapshot import Backing
from gateway.upstream.http import Interface
from gateway.upstream.response import Response

KEPT = 1024 * 1024
"""Bytes of an answer that are kept before it goes out unread; longer ones are passed on as they come."""
LONGEST_EVENT = 4 * 1024 * 1024
HEARTBEAT_AFTER = 15.0
"""Seconds of silence after which a client is told that its stream is alive."""

_ECHOES_TENANT = frozenset({Operation.CREATE_PUSH_CONFIG, Operation.GET_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS})


class Wire(Protocol):
    """The client's side of an exchange: the body in, the answer out."""

    @property
    def opened(self) -> bool:
        """Whether the head of an answer has gone out."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete."""

    async def read(self, limit: int) -> bytes:
        """The whole request body; more than `limit` bytes raise BodyTooLarge."""

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """A whole answer."""

    async def open(self, status: int, headers: Pairs) -> None:
        """The head of an answer whose body follows by `write`."""

    async def write(self, data: bytes) -> None:
        """Bytes of the body; waits while the client reads slowly."""

    async def close(self) -> None:
        """The clean end of the body."""

    def cut(self) -> None:
        """The end of the connection, without the clean end of the body."""


class Relay:
    """Brings one answer to the client."""

    def __init__(self, exchange: Exchange, backing: Backing, interface: Interface, clock: Callable[[], float]) -> None:
        if exchange.call is None:
            raise ValueError("nothing was called")
        self._exchange = exchange
        self._call: Call = exchange.call
        self._backing = backing
        self._interface = interface
        self._clock = clock

    async def run(self, response: Response, wire: Wire) -> None:
        """Pass the answer on, to its end.

        Raises:
            UpstreamProtocol: the answer is none that A2A knows.
            UpstreamReset, UpstreamIdle, UpstreamTimeout: it broke off.
        """
        content_type = response.header(b"content-type")
        if 300 <= response.status < 400:
            # Never followed, and never shown: `Location` is an address of the agent's.
            raise UpstreamProtocol("the agent answered with a redirect", detail=f"status {response.status}")
        if is_event_stream(content_type):
            if not self._call.operation.streams or response.status != 200:
                raise UpstreamProtocol("the agent answered with a stream that nobody asked for")
            await self._stream(response, wire)
        else:
            await self._frame(response, wire, content_type)

    # ---- One frame -----------------------------------------------------------------------------------------------

    async def _frame(self, response: Response, wire: Wire, content_type: bytes | None) -> None:
        exchange = self._exchange
        parts: list[bytes] = []
        size = 0
        while part := await self._next(response):
            parts.append(part)
            size += len(part)
            if size > KEPT:
                await self._pass_through(response, wire, content_type, parts)
                return
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        exchange.upstream = self._clock() - (exchange.sent or exchange.started)
        headers = self._headers(response)
        if response.status >= 400 and not is_json(content_type):
            headers, body = self._in_our_words(response)
        else:
            body = self._read(response.status, content_type, body)
        exchange.status = response.status
        exchange.first_byte = self._clock()
        await wire.answer(response.status, headers, body)
        exchange.bytes_out += len(body)

    def _in_our_words(self, response: Response) -> tuple[Pairs, bytes]:
        """The agent's status, without its page: one that is no JSON may name its addresses, or be a script."""
        exchange, call = self._exchange, self._call
        fault = UpstreamProtocol(f"the agent answered with HTTP status {response.status}")
        said = details(fault, exchange.id)
        version = call.dialect.version
        if call.dialect.binding is Binding.JSONRPC:
            body = jsonrpc.render(fault, id=call.id, version=version, details=said)
        else:
            body = rest.render(fault, version=version, details=said)
        headers = [pair for pair in self._headers(response) if pair[0] != b"content-type"]
        return [*headers, (b"content-type", b"application/json")], body

    async def _pass_through(
        self, response: Response, wire: Wire, content_type: bytes | None, parts: list[bytes]
    ) -> None:
        _refuse_type(content_type)
        if response.status < 400 and self._rewrites():
            raise UpstreamProtocol("the agent's answer is too long", detail="it has to be changed, and is not kept")
        exchange = self._exchange
        exchange.status = response.status
        await wire.open(response.status, self._headers(response))
        for part in parts:
            await self._write(part, wire)
        while part := await self._next(response):
            await self._write(part, wire)
        exchange.upstream = self._clock() - (exchange.sent or exchange.started)
        await wire.close()

    async def _next(self, response: Response) -> bytes:
        """The next bytes of a unary answer, whose time is limited as a whole."""
        end = (self._exchange.sent or self._clock()) + self._backing.upstream.timeouts.total
        try:
            return await response.chunk(max(end - self._clock(), 0.001))
        except UpstreamIdle as error:
            raise UpstreamTimeout("the agent's answer was not complete in time") from error

    def _rewrites(self) -> bool:
        operation = self._call.operation
        return operation is Operation.GET_EXTENDED_CARD or (
            operation in _ECHOES_TENANT and self._backing.upstream.restores_tenant(self._call, self._interface)
        )

    def _read(self, status: int, content_type: bytes | None, body: bytes) -> bytes:
        """Learn from an answer, refuse one that is none, and change what must not go out as it came."""
        if status >= 400:
            # The agent's own error: passed on as it is.
            told = progress.read_jsonrpc(body) if self._wrapped else None
            if told is not None and told.error is not None:
                self._exchange.saw(told)
            return body
        if body:
            _refuse_type(content_type)
        told = self._told(body)
        self._exchange.saw(told)
        if not self._rewrites():
            return body
        try:
            if self._wrapped and not _has_result(document.open_body(body)):
                return body
            if self._call.operation is Operation.GET_EXTENDED_CARD:
                return self._card(body)
            return restore_tenant(body, self._call.dialect.binding, self._call.tenant)
        except BadRequest as error:
            # Written twice or in another case: what is to be changed could be read in two ways.
            raise UpstreamProtocol("the agent's answer can be read in two ways", detail=error.message) from error

    def _told(self, body: bytes) -> progress.Progress:
        if self._wrapped:
            told = progress.read_jsonrpc(body)
            if told is None:
                raise UpstreamProtocol("the agent's answer is no JSON-RPC answer")
            self._refuse_stranger(told)
            return told
        if body:
            _refuse_garbage(body)
        return progress.read_bare(body)

    @property
    def _wrapped(self) -> bool:
        """Whether an answer is a JSON-RPC envelope."""
        return self._call.dialect.binding is Binding.JSONRPC and not self._call.path.legacy_card

    def _refuse_stranger(self, told: progress.Progress) -> None:
        if not progress.answers(told.id, self._call.id):
            raise UpstreamProtocol("the agent answered another request", detail=f"id {told.id[:64]!r}")

    def _card(self, body: bytes) -> bytes:
        """An extended card holds the agent's addresses like any other, so it is rebuilt like any other."""
        exchange, call = self._exchange, self._call
        rule = exchange.rule
        if rule is None:
            raise UpstreamProtocol("the agent's answer is no card")
        raw = body
        if self._wrapped:
            members = document.open_body(body)
            raw = bytes(members.get("result", msgspec.Raw(b"null")))
        version = self._interface.dialect.version
        card = self._backing.cards.extended(raw, rule, call.tenant, host=exchange.head.host, version=version)
        return with_result(members, card) if self._wrapped else card

    # ---- A stream ------------------------------------------------------------------------------------------------

    async def _stream(self, response: Response, wire: Wire) -> None:
        exchange, meter = self._exchange, self._backing.meter
        decoder = SseDecoder(LONGEST_EVENT)
        idle = self._backing.upstream.timeouts.stream_idle
        headers = self._headers(response)
        if not any(name == b"x-accel-buffering" for name, _ in headers):
            headers.append((b"x-accel-buffering", b"no"))
        exchange.stream = True
        exchange.status = response.status
        meter.streaming(1)
        closed_by = "gateway"
        try:
            await wire.open(response.status, headers)
            silent_since = self._clock()
            while True:
                left = idle - (self._clock() - silent_since)
                chunk = await response.chunk_or_pause(left, HEARTBEAT_AFTER)
                if chunk is None:
                    await wire.write(HEARTBEAT)
                    continue
                silent_since = self._clock()
                if not chunk:
                    break
                await self._events(decoder.feed(chunk), wire)
            closed_by = "agent"
            if decoder.rest:
                # Some servers do not end their last event, and some clients read it all the same.
                self._learn(Event(decoder.rest))
                await self._write(decoder.rest, wire)
            await wire.close()
        except Fault:
            closed_by = "agent"
            raise
        finally:
            if isinstance(exchange.interrupted, ClientGone):
                closed_by = "client"
            exchange.closed_by = closed_by
            exchange.upstream = self._clock() - (exchange.sent or exchange.started)
            meter.streaming(-1)
            meter.stream_closed(exchange.closed_by)

    async def _events(self, events: list[Event], wire: Wire) -> None:
        good = []
        try:
            for event in events:
                self._learn(event)
                good.append(event.raw)
        finally:
            # What came before an event that is none of this call's is the client's all the same.
            if good:
                await self._write(good[0] if len(good) == 1 else b"".join(good), wire)

    def _learn(self, event: Event) -> None:
        read = event.read()
        if read is None:
            return
        told = progress.read_jsonrpc(read[1]) if self._wrapped else progress.read_bare(read[1])
        if told is not None:
            if self._wrapped:
                self._refuse_stranger(told)
            self._exchange.saw(told)
        self._exchange.events += 1
        self._backing.meter.event("other" if told is None else told.event)

    async def _write(self, data: bytes, wire: Wire) -> None:
        exchange = self._exchange
        if exchange.first_byte is None:
            exchange.first_byte = self._clock()
        await wire.write(data)
        exchange.bytes_out += len(data)

    def _headers(self, response: Response) -> Pairs:
        headers = pass_on(response.headers, TO_CLIENT)
        # An answer belongs to its caller: what the agent says of caching it knows nothing of who else asks here.
        headers.append((b"cache-control", b"no-store"))
        headers.append((b"x-request-id", self._exchange.id.encode("ascii")))
        return headers


def _has_result(members: Members) -> bool:
    """Whether an answer that is to be changed has a result; one with a real error is passed on as it is.

    Raises:
        UpstreamProtocol: it has both, or neither: clients would differ on which one counts.
    """
    error = bytes(members.get("error", msgspec.Raw(b"null")))
    failed, answered = error[:1] == b"{", "result" in members
    if failed == answered or (not failed and error != b"null"):
        raise UpstreamProtocol("the agent's answer is no JSON-RPC answer", detail="result and error")
    return answered


def _refuse_type(content_type: bytes | None) -> None:
    if content_type is not None and not is_json(content_type):
        raise UpstreamProtocol("the agent's answer is no JSON", detail=f"content-type {content_type[:64]!r}")


def _refuse_garbage(body: bytes) -> None:
    try:
        _any.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UpstreamProtocol("the agent's answer is no JSON") from error


_any = msgspec.json.Decoder(msgspec.Raw)
