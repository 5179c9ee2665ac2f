"""FORWARD, OBSERVE, TRANSLATE BACK: an agent's answer on its way to a client of another dialect.

As a relay (`relay.py`) it reads an answer whole, or a stream event by event, and refuses what is none; then it says the
same in the client's dialect (`a2a/translation.py`). Long ones are worked on in a thread.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from gateway.a2a.bindings.grpc_status import of_error, trailers
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import ClientGone, UpstreamProtocol, UpstreamReset
from gateway.a2a.framing.sse import HEARTBEAT, Event
from gateway.a2a.headers import Pairs
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.progress import Progress
from gateway.a2a.translation import JSONRPC_0_3, Translation
from gateway.backing import Backing
from gateway.exchange import Exchange
from gateway.late import LateHead
from gateway.relay import Relay, refuse_type
from gateway.reply import Reply
from gateway.stream import Flowing, Stream
from gateway.tasks.ownership import Ownership
from gateway.upstream.http import Interface
from gateway.upstream.page import refuse_page
from gateway.upstream.response import Response
from gateway.wire import Wire

PUSH_OPERATIONS = frozenset(operation for operation in Operation if operation.kind is Kind.PUSH)
_PATIENCE = 0.5
"""Seconds for which an event that may be the last is held back."""


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
        # The agent's answer is one to what the agent was asked.
        self._call: Call = translation.call

    async def misses(self, response: Response) -> bool:
        """Whether the agent does not know a path by this method: for some the texts name two (protocol trap 1)."""
        if self._call.dialect.binding is Binding.JSONRPC or response.status not in (404, 405):
            return False
        body = await self.read(response)
        if response.status == 405 or self._translation.read_error(404, body) is None:
            self._body = None
            return True
        return False

    async def _bring_stream(self, response: Response, wire: Wire) -> None:
        translation = self._translation
        if translation.tells_failures:
            await super()._bring_stream(response, wire)
            return
        try:
            await super()._bring_stream(response, LateHead(wire))
        except UpstreamReset:
            if translation.complaint is None or wire.opened:
                raise
            await self._reply(response).complain(wire, translation.complaint, translation.error)

    def _stream(self, wire: Wire) -> Stream:
        return InterpretedStream(self._exchange, self._backing, self._clock, wire, self._translation)

    # ---- One frame -----------------------------------------------------------------------------------------------

    async def _frame(self, response: Response, wire: Wire, content_type: bytes | None) -> None:
        exchange, translation = self._exchange, self._translation
        body = await self._all(response)
        exchange.upstream = self._clock() - (exchange.sent or exchange.started)
        told = None
        if response.status >= 400:
            await self._refuse_others(await self._read_refusal(response, content_type, body))
        else:
            if body:
                refuse_type(content_type)
            told = await self._noted(await self._judge(response, partial(self._told, response), body))
        body = await self._work(self._unmarked, body)
        reply = self._reply(response)
        if told is None or told.error is not None:
            error = await self._work(lambda each: translation.read_error(response.status, each), body)
            if error is None:
                refuse_page(response)
                return
            await reply.complain(wire, error, translation.error)
            return
        # An agent may answer with the one event that there is; its client waits for a stream.
        streamed = translation.call.operation.streams
        said = await (self._work(self._only_event, body) if streamed else self._say(body))
        # What the agent said is let go while its client reads.
        self._body = None
        del body
        exchange.hold(len(said))
        await reply.tell(wire, said, streamed=streamed)

    async def _say(self, body: bytes) -> bytes:
        if self._call.operation is Operation.GET_EXTENDED_CARD:
            return await self._card(body)
        pushing = self._exchange.pushing
        if pushing is not None and self._exchange.operation in PUSH_OPERATIONS:
            result = await self._work(self._translation.result, body)
            await pushing.restore(result)
            return self._translation.tell(result)
        return await self._work(self._translation.answer, body)

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
            dual=call.is_open,
        )
        return self._translation.wrapped(msgspec.Raw(card))

    def _reply(self, response: Response) -> Reply:
        passed = super()._headers(response, None)
        return Reply(self._exchange, self._clock, self._translation.client, passed, response.headers)

    def _stream_headers(self, response: Response) -> Pairs:
        return [*self._reply(response).headers(b"text/event-stream"), *UNBUFFERED[self._exchange.binding]]


class InterpretedStream(Stream):
    """Brings the events of one answer to a client that speaks another dialect than the agent."""

    def __init__(
        self, exchange: Exchange, backing: Backing, clock: Callable[[], float], wire: Wire, translation: Translation
    ) -> None:
        super().__init__(exchange, backing, clock, wire)
        self._translation = translation
        self._call = translation.call
        self._wrapped = self._call.dialect.binding is Binding.JSONRPC
        self._release: asyncio.TimerHandle | None = None

    async def run(self, response: Flowing, headers: Pairs) -> None:
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
        return super()._take(chunk) and not self._gave_up

    async def _settle(self) -> None:
        await super()._settle()
        if self._gave_up:
            raise _GaveUp

    async def _flow(self, response: Flowing) -> None:
        with suppress(_GaveUp):
            await super()._flow(response)

    @property
    def _gave_up(self) -> bool:
        """Whether an error came for a client of gRPC: it is told by a status, behind which nothing can come."""
        return self._translation.complaint is not None and not self._beats

    def _bring(self, event: Event) -> bytes:
        said = super()._bring(event)
        self._see_to_held()
        return said

    def _look(self, event: Event) -> Progress | None:
        return None if self._gave_up else super()._look(event)

    def _say(self, event: Event) -> bytes:
        if self._gave_up:
            return b""
        read = event.read()
        if read is None:
            # A comment; the client hears that the stream is alive.
            if not self._beats:
                return b""
            # A line that ends in CR alone has no end to clients of JavaScript, and would swallow the next event's.
            return event.raw if event.silent and event.raw.endswith(b"\n") else HEARTBEAT
        data = read[1]
        if not data.strip():
            return b""
        ownership = self._exchange.ownership
        said = self._translation.event(data if ownership is None else self._unmarked(ownership, data))
        if self._translation.complaint is not None:
            self._exchange.saw(Progress(event="error", error=self._translation.complaint.code))
        return said

    def _unmarked(self, ownership: Ownership, data: bytes) -> bytes:
        return ownership.prefix.remove(data)

    # ---- The last event ------------------------------------------------------------------------------------------

    def _trailers(self) -> Pairs | None:
        complaint = self._translation.complaint
        if complaint is None or self._translation.client.binding is not Binding.GRPC:
            return None
        status = of_error(complaint, self._translation.client.version)
        self._exchange.grpc_status = status.code
        return trailers(status)

    def _held(self) -> bytes:
        return self._translation.held(last=True)

    def _see_to_held(self) -> None:
        """See to it that what is held back is not held for ever."""
        if self._translation.holds and self._release is None:
            self._release = asyncio.get_running_loop().call_later(_PATIENCE, self._let_go)

    def _let_go(self) -> None:
        """Tell the client what was held back: the agent keeps its stream open, and both may wait for the client."""
        self._release = None
        if self._unsent or self._rest or self._waiting:
            # Something is on its way to the client already, and this comes behind it.
            self._release = asyncio.get_running_loop().call_later(_PATIENCE, self._let_go)
        elif held := self._translation.release():
            self._count(len(held))
            self._wire.write_nowait(held)


class _GaveUp(Exception):  # noqa: N818 - nothing went wrong here
    """The agent ended its stream with an error, whether it closes it or not."""


UNBUFFERED: Mapping[Binding, Pairs] = {
    Binding.JSONRPC: [(b"x-accel-buffering", b"no")],
    Binding.REST: [(b"x-accel-buffering", b"no")],
    Binding.GRPC: [],
}
"""What a stream's headers have beside the others: proxies in front would gather its events."""
