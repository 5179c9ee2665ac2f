"""FORWARD, OBSERVE, TRANSLATE BACK: an agent's answer on its way to a client of another dialect.

As a relay (`relay.py`) it reads an answer whole, or a stream event by event, and refuses what is none; then it says the
same in the client's dialect (`a2a/translation.py`). An answer may be as long as an event may be: it cannot be passed on
unread. Long ones are worked on in a thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import msgspec

from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import ClientGone, Fault, UpstreamProtocol
from gateway.a2a.framing.sse import HEARTBEAT, Event, encode
from gateway.a2a.headers import Pairs
from gateway.a2a.operation import Operation
from gateway.a2a.progress import Progress
from gateway.a2a.translation import JSONRPC_0_3, Translation
from gateway.exchange import Exchange
from gateway.relay import Relay, refuse_type
from gateway.snapshot import Backing
from gateway.stream import Stream
from gateway.upstream.http import A2A_JSON, EXTENSIONS, Interface, extensions
from gateway.upstream.page import refuse_page
from gateway.upstream.response import Response
from gateway.wire import Wire

_ASIDE = 128 * 1024
"""Bytes of an answer or of an event from which on it is translated in a thread."""
_PATIENCE = 0.5
"""Seconds for which an event that may be the last is held back."""
_T = TypeVar("_T")


class Interpreter(Relay):
    """Brings one answer to a client that speaks another dialect than the agent.

    Attributes:
        interface: Where the agent is asked.
    """

    def __init__(
        self,
        exchange: Exchange,
        backing: Backing,
        interface: Interface,
        clock: Callable[[], float],
        translation: Translation,
    ) -> None:
        super().__init__(exchange, backing, interface, clock)
        self.translation = self._translation = translation
        self.interface = interface
        # What was read of the answer before it was the answer.
        self._body: bytes | None = None
        # The agent's answer is one to what the agent was asked.
        self._call: Call = translation.call

    async def misses(self, response: Response) -> bool:
        """Whether the agent does not know a path by this method: for some the texts name two (protocol trap 1)."""
        if self._call.dialect.binding is Binding.JSONRPC or response.status not in (404, 405):
            return False
        self._body = await self._all(response)
        if response.status == 405 or self._translation.read_error(404, self._body) is None:
            self._body = None
            return True
        return False

    def _stream(self, wire: Wire) -> Stream:
        return InterpretedStream(self._exchange, self._backing, self._clock, wire, self._translation)

    # ---- One frame -----------------------------------------------------------------------------------------------

    async def _frame(self, response: Response, wire: Wire, content_type: bytes | None) -> None:
        exchange, translation = self._exchange, self._translation
        body = await self._all(response)
        exchange.upstream = self._clock() - (exchange.sent or exchange.started)
        told = None
        if response.status >= 400:
            self._read_error(response, content_type, body)
        else:
            if body:
                refuse_type(content_type)
            told = self._told(body)
            exchange.saw(told)
        if told is None or told.error is not None:
            await self._complain(response, wire, body)
            return
        if translation.call.operation.streams:
            # An agent may answer with the one event that there is; its client waits for a stream.
            answer, said = await _aside(len(body), self._only_event, body), b"text/event-stream"
        else:
            answer, said = await self._say(body), self._type()
        await self._answer(response, wire, 200, answer, said)

    async def _all(self, response: Response) -> bytes:
        """The whole body.

        Raises:
            UpstreamProtocol: it is longer than an event may be.
        """
        if self._body is not None:
            return self._body
        body = response.whole()
        if body is not None:
            return body
        longest = max(self._bounds.kept, self._bounds.event)
        gathered = bytearray()
        while part := await self._next(response):
            gathered += part
            if len(gathered) > longest:
                raise UpstreamProtocol(
                    "the agent's answer is too long", detail=f"over {longest} bytes, and it has to be translated"
                )
        return bytes(gathered)

    async def _say(self, body: bytes) -> bytes:
        if self._call.operation is Operation.GET_EXTENDED_CARD:
            return await self._card(body)
        return await _aside(len(body), self._translation.answer, body)

    def _only_event(self, body: bytes) -> bytes:
        return self._translation.event(body) + self._translation.held(last=True)

    async def _card(self, body: bytes) -> bytes:
        """An extended card is rebuilt in the client's own dialect."""
        exchange, call = self._exchange, self._exchange.call
        if exchange.rule is None or call is None:
            raise UpstreamProtocol("the agent's answer is no card")
        card = await self._backing.cards.extended(
            self._translation.inside(body),
            exchange.rule,
            call.tenant,
            host=exchange.head.host,
            dialect=JSONRPC_0_3 if call.path.legacy_card else call.dialect,
        )
        return self._translation.wrapped(msgspec.Raw(card))

    async def _complain(self, response: Response, wire: Wire, body: bytes) -> None:
        """Tell of an agent's own error, as the client's dialect does."""
        error = self._translation.read_error(response.status, body)
        if error is None:
            refuse_page(response)
            return
        if error.challenges:
            raise UpstreamProtocol("the agent does not accept the gateway", detail=error.message[:200])
        # Over HTTP+JSON no code was read along the way, and the client may be told of it under HTTP 200.
        self._exchange.saw(Progress(event="error", error=error.code))
        status, answer = self._translation.error(error)
        said = b"application/json"
        if self._exchange.hears_events:
            answer, said = encode(answer), b"text/event-stream"
        await self._answer(response, wire, status, answer, said)

    async def _answer(self, response: Response, wire: Wire, status: int, body: bytes, said: bytes) -> None:
        exchange = self._exchange
        exchange.status = status
        exchange.first_byte = self._clock()
        await wire.answer(status, self._headers(response, said), body)
        exchange.bytes_out += len(body)

    def _type(self) -> bytes:
        """What a good answer is: clients of HTTP+JSON 1.0 differ on which type they know, and say so."""
        client = self._translation.client
        if client.binding is Binding.REST and client.version is Version.V1_0:
            accepted = self._exchange.head.first(b"accept") or b""
            return A2A_JSON if A2A_JSON in accepted else b"application/json"
        return b"application/json"

    def _headers(self, response: Response, content_type: bytes | None) -> Pairs:
        theirs = [pair for pair in super()._headers(response, None) if pair[0] not in _SPOKEN_BACK]
        if content_type is not None:
            theirs.insert(0, (b"content-type", content_type))
        return theirs + extensions(response.headers, self._translation.client.version)


class InterpretedStream(Stream):
    """Brings the events of one answer to a client that speaks another dialect than the agent."""

    def __init__(
        self, exchange: Exchange, backing: Backing, clock: Callable[[], float], wire: Wire, translation: Translation
    ) -> None:
        super().__init__(exchange, backing, clock, wire)
        self._translation = translation
        self._call = translation.call
        self._wrapped = self._call.dialect.binding is Binding.JSONRPC
        # Events that wait for a long one in front of them.
        self._waiting: deque[Event] = deque()
        self._release: asyncio.TimerHandle | None = None

    async def run(self, response: Response, headers: Pairs) -> None:
        """As any stream; what was held back goes out also where the agent's stream breaks off or is ended."""
        try:
            await super().run(response, headers)
        except BaseException:
            if not isinstance(self._exchange.interrupted, ClientGone) and (held := self._translation.release()):
                self._count(len(held))
                self._wire.write_nowait(held)
            raise
        finally:
            if self._release is not None:
                self._release.cancel()

    # ---- Long events ---------------------------------------------------------------------------------------------

    def _take(self, chunk: bytes) -> bool:
        goes_on = super()._take(chunk)
        return goes_on and not self._waiting

    async def _settle(self) -> None:
        failure: Fault | None = None
        try:
            await super()._settle()
        except Fault as fault:
            failure = fault
        while self._waiting:
            event = self._waiting.popleft()
            self._write(await _aside(len(event.raw), self._say, event))
            await self._send()
        if failure is not None:
            raise failure

    def _bring(self, event: Event) -> bytes:
        if self._waiting or len(event.raw) >= _ASIDE:
            self._waiting.append(event)
            return b""
        return self._say(event)

    def _say(self, event: Event) -> bytes:
        self._learn(event)
        read = event.read()
        if read is None:
            # A comment; the client hears that the stream is alive.
            return event.raw if event.silent else HEARTBEAT
        if not read[1].strip():
            return b""
        said = self._translation.event(read[1])
        if self._translation.complaint is not None:
            self._exchange.saw(Progress(event="error", error=self._translation.complaint.code))
        if self._translation.holds and self._release is None:
            self._release = asyncio.get_running_loop().call_later(_PATIENCE, self._let_go)
        return said

    # ---- The last event ------------------------------------------------------------------------------------------

    def _held(self) -> bytes:
        waiting, self._waiting = self._waiting, deque()
        return b"".join(map(self._say, waiting)) + self._translation.held(last=True)

    def _let_go(self) -> None:
        """Tell the client what was held back: the agent keeps its stream open, and both may wait for the client."""
        self._release = None
        if self._unsent or self._rest or self._waiting:
            # Something is on its way to the client already, and this comes behind it.
            self._release = asyncio.get_running_loop().call_later(_PATIENCE, self._let_go)
        elif held := self._translation.release():
            self._count(len(held))
            self._wire.write_nowait(held)


async def _aside(size: int, work: Callable[[_T], bytes], given: _T) -> bytes:
    """What `work` makes of something, in a thread if it is long."""
    return work(given) if size < _ASIDE else await asyncio.to_thread(work, given)


_SPOKEN_BACK = EXTENSIONS | {b"a2a-version", b"content-type"}
