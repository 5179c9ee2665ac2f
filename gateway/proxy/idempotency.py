"""Idempotent sends: a repeated message is sent once, to agents that treat two messages with one id as one.

The second of two equal sends of one caller waits for the first, or gets the answer that it had within the last ten
minutes. The same id with another body is refused. A failure goes to the callers that wait and is not kept: the next
send is tried again. Streamed and long answers are not kept either. Everything is in the memory of this process.
"""

import asyncio
import hashlib
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import msgspec

from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import BadParams, Fault
from gateway.a2a.headers import Pairs
from gateway.a2a.operation import Operation
from gateway.a2a.progress import Progress
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.upstream.retry import message_id

KEPT = 600.0
"""Seconds for which an answer is kept."""
MOST = 10_000
"""Messages of one backend that are remembered."""
MOST_BYTES = 16 * 1024 * 1024
"""Bytes of one backend's answers that are kept."""

_Key: TypeAlias = tuple[object, ...]
_Send: TypeAlias = Callable[[Responder], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Pairs
    body: bytes
    progress: Progress


@dataclass(slots=True)
class _Message:
    """One message: the digest of its parameters, when it was answered (monotonic seconds), and its answer if kept."""

    digest: bytes
    answer: "asyncio.Future[_Answer | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    since: float = math.inf


class Idempotency:
    """The messages of all backends that are idempotent; they outlive a configuration.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._backends: dict[str, _Messages] = {}

    async def send(self, backend: str, request: RequestContext, call: Call, client: Responder, send: _Send) -> None:
        """Answer a call: by sending it, or with the answer of an equal call.

        Args:
            send: Sends it, and answers on the client.

        Raises:
            BadParams: another message has this id.
            Fault: as `send`, or the fault of the equal call that it waited for.
        """
        id_ = message_id(call) if call.operation is Operation.SEND_MESSAGE else None
        principal = request.principal
        if id_ is None or principal is None:
            await send(client)
            return
        key = (principal.tenant, principal.issuer, principal.who, call.tenant, call.dialect, id_)
        messages = self._backends.setdefault(backend, _Messages())
        digest = _digest(call)
        while True:
            message = messages.find(key, self._clock())
            if message is None:
                await self._first(messages, key, digest, request, client=client, send=send)
                return
            if message.digest != digest:
                raise BadParams("another message has this id", field="message.messageId")
            # A waiting client may leave without ending the wait of others.
            answer = await asyncio.shield(message.answer)
            if answer is not None:
                await self._repeat(answer, request, client)
                return
            if messages.known.get(key) is message:
                # Its answer was not kept.
                await send(client)
                return

    async def _first(
        self,
        messages: "_Messages",
        key: _Key,
        digest: bytes,
        request: RequestContext,
        *,
        client: Responder,
        send: _Send,
    ) -> None:
        message = messages.known[key] = _Message(digest)
        recording = _Recording(client)
        try:
            await send(cast("Responder", recording))
        except Fault as fault:
            del messages.known[key]
            message.answer.set_exception(fault)
            # There may be no waiting caller.
            message.answer.exception()
            raise
        except BaseException:
            # The next waiting caller sends it instead.
            del messages.known[key]
            message.answer.set_result(None)
            raise
        status, headers, body = recording.answered or (200, [], b"")
        if status >= 300 or request.progress.error is not None:
            del messages.known[key]
            message.answer.set_result(None)
            return
        answer = None
        if recording.answered is not None and len(body) <= MOST_BYTES // 16:
            answer = _Answer(status, headers, body, request.progress)
        messages.answered(key, message, answer, self._clock())

    async def _repeat(self, answer: _Answer, request: RequestContext, client: Responder) -> None:
        body = answer.body
        if request.binding is Binding.JSONRPC:
            members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            body = msgspec.json.encode({**members, "id": msgspec.Raw(request.rpc_id)})
        own = (b"x-request-id", request.id.encode("ascii"))
        request.add_progress(answer.progress)
        request.status = answer.status
        request.first_byte = self._clock()
        await client.answer(answer.status, [*(pair for pair in answer.headers if pair[0] != own[0]), own], body)
        request.bytes_out += len(body)


class _Messages:
    """The messages of one backend."""

    def __init__(self) -> None:
        self.known: dict[_Key, _Message] = {}
        # Only the answered ones, in order: a message in progress must not keep others from expiring.
        self._answered: dict[_Key, None] = {}
        self._bytes = 0

    def find(self, key: _Key, now: float) -> _Message | None:
        """Return the entry of a message, after expired and surplus entries were removed."""
        while self._answered:
            oldest = next(iter(self._answered))
            message = self.known[oldest]
            if message.since > now - KEPT and len(self.known) <= MOST and self._bytes <= MOST_BYTES:
                break
            del self.known[oldest], self._answered[oldest]
            self._bytes -= _size(message.answer.result())
        return self.known.get(key)

    def answered(self, key: _Key, message: _Message, answer: _Answer | None, now: float) -> None:
        """Store the answer of a message; None if the answer is not kept."""
        self._bytes += _size(answer)
        self._answered[key] = None
        message.since = now
        message.answer.set_result(answer)


class _Recording:
    """A responder that keeps an answer of one piece."""

    def __init__(self, client: Responder) -> None:
        self._client = client
        self.answered: tuple[int, Pairs, bytes] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all other members of a responder
        return getattr(self._client, name)

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a whole answer, and keep it."""
        self.answered = (status, headers, body)
        await self._client.answer(status, headers, body)


def _size(answer: _Answer | None) -> int:
    return 0 if answer is None else len(answer.body)


def _digest(call: Call) -> bytes:
    """Return a digest of the parameters, the same for any order and spacing of members."""
    envelope = call.params.envelope
    raw = call.body if envelope is None else envelope.get("params", call.body)
    canonical = msgspec.json.encode(msgspec.json.decode(raw), order="deterministic")
    return hashlib.sha256(canonical).digest()
