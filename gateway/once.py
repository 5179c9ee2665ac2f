"""A message that comes twice is sent once, where the agent takes two messages with one id for one.

The second of two equal sends of one caller waits for the first, or gets the answer that it had; for ten minutes after
that. The same id with another body is refused. What went wrong is told to those who wait, and not kept: the next one is
sent. Answers that are streamed, or too long to be kept, are not kept either.

What is remembered lies in this process alone.
"""

import asyncio
import hashlib
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import msgspec

from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import BadParams, Fault
from gateway.a2a.headers import Pairs
from gateway.a2a.operation import Operation
from gateway.a2a.progress import Progress
from gateway.exchange import Exchange
from gateway.upstream.retry import message_id
from gateway.wire import Wire

KEPT = 600.0
"""Seconds for which an answer is kept."""
MOST = 10_000
"""Messages of one backend that are remembered."""
MOST_BYTES = 16 * 1024 * 1024
"""Bytes of one backend's answers that are kept."""

_Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Pairs
    body: bytes
    progress: Progress


@dataclass(slots=True)
class _Message:
    """One message: what it says, since when it is answered (monotonic seconds), and its answer, if it has one yet."""

    digest: bytes
    since: float
    answer: "asyncio.Future[_Answer | None]"


class Once:
    """The messages of one backend.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[_Key, _Message] = {}
        # Those of them that are answered, the first one first: one that an agent works on for long keeps no other.
        self._answered: dict[_Key, None] = {}
        self._bytes = 0

    def key(self, exchange: Exchange, call: Call) -> _Key | None:
        """By what a call is known again; None for one that is always sent."""
        id_ = message_id(call) if call.operation is Operation.SEND_MESSAGE else None
        principal = exchange.principal
        if id_ is None or principal is None:
            return None
        return principal.tenant, principal.issuer, principal.who, call.tenant, call.dialect, id_

    async def send(
        self,
        key: _Key,
        exchange: Exchange,
        call: Call,
        wire: Wire,
        forward: Callable[[Wire], Coroutine[Any, Any, None]],
    ) -> None:
        """Answer a call: by sending it, or by the answer that the same one had.

        Args:
            forward: Sends it, and answers on the wire.

        Raises:
            BadParams: another message has this id.
            Fault: as `forward`; also that of the call that was waited for.
        """
        digest = _digest(call)
        while True:
            known = self._find(key)
            if known is None:
                await self._lead(key, digest, exchange, wire, forward)
                return
            if known.digest != digest:
                raise BadParams("another message has this id", field="message.messageId")
            # Whoever waits may leave, and the others wait on.
            answer = await asyncio.shield(known.answer)
            if answer is not None:
                await self._tell(answer, exchange, wire)
                return
            if self._known.get(key) is known:
                # It was sent, and answered in a way that nobody else can be told.
                await forward(wire)
                return

    async def _lead(
        self,
        key: _Key,
        digest: bytes,
        exchange: Exchange,
        wire: Wire,
        forward: Callable[[Wire], Coroutine[Any, Any, None]],
    ) -> None:
        message = _Message(digest, math.inf, asyncio.get_running_loop().create_future())
        self._known[key] = message
        keeping = _Keeping(wire)
        answer: _Answer | None = None
        try:
            await forward(cast("Wire", keeping))
        except Fault as fault:
            del self._known[key]
            message.answer.set_exception(fault)
            # Nobody has to wait for it.
            message.answer.exception()
            raise
        except BaseException:
            # Whoever waits does it instead.
            del self._known[key]
            message.answer.set_result(None)
            raise
        told = keeping.told
        if told is not None and told[0] < 300 and exchange.progress.error is None and len(told[2]) <= MOST_BYTES // 16:
            answer = _Answer(*told, exchange.progress)
            self._bytes += len(answer.body)
        if (told is not None and told[0] >= 300) or exchange.progress.error is not None:
            del self._known[key]
        else:
            message.since = self._clock()
            self._answered[key] = None
        message.answer.set_result(answer)

    def _find(self, key: _Key) -> _Message | None:
        """What is known of a message, once what is too old or too much is forgotten."""
        begin = self._clock() - KEPT
        while self._answered:
            oldest = next(iter(self._answered))
            message = self._known[oldest]
            if message.since > begin and len(self._known) <= MOST and self._bytes <= MOST_BYTES:
                break
            del self._known[oldest], self._answered[oldest]
            answer = message.answer.result()
            self._bytes -= 0 if answer is None else len(answer.body)
        return self._known.get(key)

    async def _tell(self, answer: _Answer, exchange: Exchange, wire: Wire) -> None:
        body = answer.body
        if exchange.binding is Binding.JSONRPC:
            members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            body = msgspec.json.encode({**members, "id": msgspec.Raw(exchange.rpc_id)})
        own = (b"x-request-id", exchange.id.encode("ascii"))
        exchange.saw(answer.progress)
        exchange.status = answer.status
        exchange.first_byte = self._clock()
        await wire.answer(answer.status, [*(pair for pair in answer.headers if pair[0] != own[0]), own], body)
        exchange.bytes_out += len(body)


class _Keeping:
    """A wire that keeps an answer of one piece."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.told: tuple[int, Pairs, bytes] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a wire has
        return getattr(self._wire, name)

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """As any wire, and kept."""
        self.told = (status, headers, body)
        await self._wire.answer(status, headers, body)


def _digest(call: Call) -> bytes:
    """What a message says, however its members are ordered and spaced."""
    envelope = call.params.envelope
    raw = call.body if envelope is None else envelope.get("params", call.body)
    said = msgspec.json.encode(msgspec.json.decode(raw), order="deterministic")
    return hashlib.sha256(said).digest()
