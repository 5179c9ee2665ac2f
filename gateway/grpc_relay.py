"""FORWARD, OBSERVE, ENCODE: the answer of an agent behind gRPC on its way to the client.

Between two that speak gRPC of one generation the messages pass as they came: they are read along the way, never written
again, but for the tenant that push configurations echo, and for cards. To any other client they are translated. An
agent's own error is the status of the call: a client of gRPC gets it as it is, in the bounds of `grpc_status`.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import msgspec

from gateway.a2a.bindings import grpc, grpc_progress
from gateway.a2a.bindings.body import write
from gateway.a2a.bindings.grpc_status import Status, trailers
from gateway.a2a.bindings.grpc_status import read as read_status
from gateway.a2a.call import Call
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.grpc import FrameDecoder, frame
from gateway.a2a.framing.sse import Event
from gateway.a2a.headers import TO_CLIENT, Pairs, pass_on
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.progress import Progress
from gateway.a2a.translation import JSONRPC_0_3, Translation
from gateway.backing import Backing
from gateway.exchange import Exchange, meet
from gateway.interpreter import UNBUFFERED, InterpretedStream
from gateway.reply import Reply
from gateway.stream import Flowing, Stream
from gateway.tasks.ownership import Ownership
from gateway.upstream.grpc_answer import GrpcAnswer
from gateway.upstream.repertoire import Interface
from gateway.wire import Wire

_T = TypeVar("_T")


class GrpcRelay:
    """Brings the answer of an agent behind gRPC to the client.

    Args:
        translation: How, where the client speaks otherwise; None where it speaks as the agent does.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        exchange: Exchange,
        backing: Backing,
        interface: Interface,
        clock: Callable[[], float],
        translation: Translation | None,
    ) -> None:
        if exchange.call is None:
            raise ValueError("nothing was called")
        self._exchange = exchange
        self._backing = backing
        self._interface = interface
        self._clock = clock
        self._translation = translation
        self._asked: Call = exchange.call if translation is None else translation.call

    async def run(self, answer: GrpcAnswer, wire: Wire) -> None:
        """Pass the answer on, to its end.

        Raises:
            UpstreamProtocol: the answer is none that A2A knows.
            UpstreamReset, UpstreamIdle, UpstreamTimeout: it broke off.
        """
        exchange = self._exchange
        assert exchange.call is not None
        reply = Reply(exchange, self._clock, exchange.call.dialect, self._passed(answer), self._theirs(answer))
        if answer.status is not None:
            await self._complain(answer, wire, reply)
        elif self._asked.operation.streams:
            headers = [*reply.headers(b"text/event-stream"), *UNBUFFERED[exchange.binding]]
            await self._stream(answer, wire).run(answer, headers)
        else:
            await self._frame(answer, wire, reply)

    def _theirs(self, answer: GrpcAnswer) -> Pairs:
        # Servers of 0.3 name the extensions that are active behind the answer (protocol trap 26).
        return [*answer.headers, *answer.metadata]

    def _passed(self, answer: GrpcAnswer) -> Pairs:
        passed = pass_on(answer.headers, TO_CLIENT - {b"content-type", b"x-accel-buffering"})
        own = (b"cache-control", b"no-store")
        return [*passed, own, (b"x-request-id", self._exchange.id.encode("ascii"))]

    async def _complain(self, answer: GrpcAnswer, wire: Wire, reply: Reply) -> None:
        assert answer.status is not None
        await _refuse_others(self._exchange.ownership, answer.status, self._asked)
        status = _shown(self._exchange, answer.status)
        error = read_status(status, self._asked.dialect.version)
        self._exchange.upstream = self._clock() - (self._exchange.sent or self._exchange.started)
        if self._translation is not None:
            await reply.complain(wire, error, self._translation.error)
            return
        self._exchange.saw(Progress(event="error", error=error.code))
        await reply.end(wire, status)

    def _stream(self, answer: GrpcAnswer, wire: Wire) -> Stream:
        if self._translation is None:
            return GrpcStream(self._exchange, self._backing, self._clock, wire, answer)
        return InterpretedGrpcStream(
            self._exchange, self._backing, self._clock, wire, answer=answer, translation=self._translation
        )

    # ---- One message ---------------------------------------------------------------------------------------------

    async def _frame(self, answer: GrpcAnswer, wire: Wire, reply: Reply) -> None:
        exchange, asked, translation = self._exchange, self._asked, self._translation
        message = answer.whole()
        if message is None:
            raise UpstreamProtocol("the agent's answer is empty")
        answer.forget()
        exchange.upstream = self._clock() - (exchange.sent or exchange.started)
        if len(message) > self._backing.bounds.kept:
            raise UpstreamProtocol("the agent's answer is too long", detail=f"over {self._backing.bounds.kept} bytes")
        exchange.hold(len(message))
        told = await self._work(partial(grpc_progress.read, asked.operation, asked.dialect.version), message)
        if told is None:
            raise UpstreamProtocol("the agent's answer is no message of its method")
        ownership = exchange.ownership
        if ownership is not None:
            await meet(exchange, told)
            told = ownership.prefix.remove_from_progress(told)
            unmark = partial(ownership.prefix.remove_from_message, asked, event=False)
            message = await self._work(unmark, message)
        exchange.saw(told)
        if asked.operation is Operation.GET_EXTENDED_CARD:
            body = await self._card(message)
        elif translation is None:
            body = frame(self._restored(message))
        elif exchange.pushing is not None and asked.operation.kind is Kind.PUSH:
            result = await self._work(translation.result, message)
            await exchange.pushing.restore(result)
            body = translation.tell(result)
        else:
            body = await self._work(translation.answer, message)
        # What the agent said is let go while its client reads.
        del message
        exchange.hold(len(body))
        await reply.tell(wire, body)

    def _work(self, work: Callable[[bytes], _T], message: bytes) -> Coroutine[Any, Any, _T]:
        """Return what `work` makes of a message, in a thread if that is long."""
        return self._exchange.kept.work(work, message, len(message))

    def _restored(self, message: bytes) -> bytes:
        call, asked = self._exchange.call, self._asked
        assert call is not None
        echoes = asked.operation.kind is Kind.PUSH and asked.operation is not Operation.DELETE_PUSH_CONFIG
        if echoes and self._backing.upstream.restores_tenant(call, self._interface):
            return grpc.restore_tenant(asked.operation, asked.dialect.version, message, call.tenant)
        return message

    async def _card(self, message: bytes) -> bytes:
        """An extended card holds the agent's addresses like any other, so it is rebuilt like any other."""
        exchange, call, asked = self._exchange, self._exchange.call, self._asked
        if exchange.rule is None or call is None:
            raise UpstreamProtocol("the agent's answer is no card")
        tree = grpc.read_answer(asked.operation, asked.dialect.version, message)
        card = await self._backing.cards.extended(
            write(tree),
            exchange.rule,
            call.tenant,
            host=exchange.head.host,
            dialect=JSONRPC_0_3 if call.path.legacy_card else call.dialect,
            dual=call.is_open,
        )
        if self._translation is not None:
            return self._translation.wrapped(msgspec.Raw(card))
        return frame(grpc.write_answer(asked.operation, asked.dialect.version, msgspec.json.decode(card)))


class GrpcStream(Stream):
    """Brings the messages of one stream to a client that speaks as the agent does."""

    def __init__(
        self, exchange: Exchange, backing: Backing, clock: Callable[[], float], wire: Wire, answer: GrpcAnswer
    ) -> None:
        super().__init__(exchange, backing, clock, wire)
        self._decoder = FrameDecoder(backing.bounds.event)
        self._answer = answer

    async def _flow(self, response: Flowing) -> None:
        await super()._flow(response)
        if self._answer.status is not None:
            await _refuse_others(self._exchange.ownership, self._answer.status, self._call)

    def _told(self, data: bytes) -> Progress:
        return _told(self._call, data)

    def _say(self, event: Event) -> bytes:
        ownership = self._exchange.ownership
        if ownership is None or not ownership.prefix.text or event.line is None:
            return event.raw
        message = ownership.prefix.remove_from_message(self._call, event.line, event=True)
        return event.raw if message is event.line else frame(message)

    def _trailers(self) -> Pairs | None:
        if self._answer.status is None:
            return None
        status = _shown(self._exchange, self._answer.status)
        error = read_status(status, self._call.dialect.version)
        self._exchange.saw(Progress(event="error", error=error.code))
        self._exchange.grpc_status = status.code
        return trailers(status)


class InterpretedGrpcStream(InterpretedStream):
    """Brings them to a client of another dialect."""

    def __init__(
        self,
        exchange: Exchange,
        backing: Backing,
        clock: Callable[[], float],
        wire: Wire,
        *,
        answer: GrpcAnswer,
        translation: Translation,
    ) -> None:
        super().__init__(exchange, backing, clock, wire, translation)
        self._decoder = FrameDecoder(backing.bounds.event)
        self._answer = answer

    async def _flow(self, response: Flowing) -> None:
        await super()._flow(response)
        if self._answer.status is not None:
            await _refuse_others(self._exchange.ownership, self._answer.status, self._call)

    def _told(self, data: bytes) -> Progress:
        return _told(self._call, data)

    def _held(self) -> bytes:
        if self._answer.status is None:
            return super()._held()
        status = _shown(self._exchange, self._answer.status)
        error = read_status(status, self._call.dialect.version)
        self._exchange.saw(Progress(event="error", error=error.code))
        return self._translation.fail(error)

    def _unmarked(self, ownership: Ownership, data: bytes) -> bytes:
        return ownership.prefix.remove_from_message(self._call, data, event=True)


async def _refuse_others(ownership: Ownership | None, status: Status, asked: Call) -> None:
    """As `refuse_others`, of the status that the agent wrote to what it was asked."""
    if ownership is not None:
        await ownership.refuse_foreign_details(read_status(status, asked.dialect.version).details)


def _shown(exchange: Exchange, status: Status) -> Status:
    """How an agent has ended a call, as the client may see it."""
    return status if exchange.ownership is None else exchange.ownership.prefix.remove_from_status(status)


def _told(call: Call, message: bytes) -> Progress:
    """What one message of a stream tells.

    Raises:
        UpstreamProtocol: it is none.
    """
    told = grpc_progress.read(call.operation, call.dialect.version, message)
    if told is None:
        # Not for the stream to say: what is blank there, and nothing, are bytes like any other here.
        raise UpstreamProtocol("the agent sent an event that is no answer", detail=f"{len(message)} bytes")
    return told
