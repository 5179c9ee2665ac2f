"""The public listener, and requests other than calls: health, callbacks of `push.mode: relay`, and public keys.

The path and token of a callback authenticate its sender. Both are checked before the body is read. The number of
bodies that are read at a time is limited, so that they fit into memory; other notifications wait for a while.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import msgspec

from gateway.a2a.call import Head
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import Fault
from gateway.a2a.headers import Pairs
from gateway.cards.sign import KEY_SET_PATH, SigningKeys
from gateway.proxy.client_address import client_address, trace_id
from gateway.proxy.pipeline import Pipeline
from gateway.proxy.request import FIELDS
from gateway.proxy.responder import Responder
from gateway.push.relay import PATH, PushRelay
from gateway.push.service import PushService
from gateway.push.subscription import Subscription
from gateway.snapshot import Snapshot
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.metrics import NO_TENANT, OTHER

KEYS: Final = KEY_SET_PATH.encode("ascii")
MOST: Final = 64
"""Notifications that are read at a time, of at most 1 MiB each."""
MOST_OF_AGENT: Final = 16
PATIENCE: Final = 10.0
"""Longest wait of a notification for its turn, in seconds."""

_PREFIX = PATH.encode("ascii")
_JSON = b"application/json"
_TEXT = b"text/plain; charset=utf-8"
_COME_AGAIN = (b"retry-after", b"5")


class _Answer(msgspec.Struct, frozen=True):
    """An answer, with the fields of its log line and its metrics.

    Attributes:
        subscription: The subscription of an authenticated sender.
        bytes_in: Bytes of the body that were read.
        outcome: As `RequestContext.outcome`; empty if it follows from the status.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    subscription: Subscription | None = None
    bytes_in: int = 0
    outcome: str = ""
    reason: str | None = None


class Callbacks:
    """Answers callbacks and requests for public keys.

    Args:
        service: Returns the push service; None before it runs.
        current: Returns the active snapshot.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        service: Callable[[], PushService | None],
        current: Callable[[], Snapshot],
        access: AccessLog,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._current = current
        self._access = access
        self._clock = clock
        self._room = asyncio.Semaphore(MOST)
        # By agent, so that one agent cannot take all of it.
        self._rooms: dict[str, asyncio.Semaphore] = {}

    def takes(self, head: Head) -> bool:
        """Return whether a request is a callback or asks for public keys."""
        path = head.path
        if not (path.endswith(KEYS) or _PREFIX in path):
            return False
        service, prefix = self._service(), self._prefix()
        relays = service is not None and service.relay is not None
        if path == prefix + KEYS:
            return relays or bool(self._current().card_keys)
        return relays and path.startswith(prefix + _PREFIX)

    async def serve(self, head: Head, client: Responder) -> None:
        """Answer one request."""
        began, request_id = self._clock(), secrets.token_hex(8)
        try:
            answer = await self._answer(head, client)
        except Fault as fault:
            answer = _error_response(fault)
        headers: Pairs = [(b"x-request-id", request_id.encode("ascii")), (b"cache-control", b"no-store")]
        try:
            await client.answer(answer.status, [*headers, *answer.headers], answer.body)
        finally:
            self._record(head, request_id, answer, self._clock() - began)

    async def _answer(self, head: Head, client: Responder) -> _Answer:
        service, prefix = self._service(), self._prefix()
        if head.path == prefix + KEYS:
            return await _keys(service, self._current().card_keys, head)
        relay = None if service is None else service.relay
        if relay is None:
            return _Answer(404)
        callback_id = head.path[len(prefix + _PREFIX) :].decode("latin-1")
        if head.method == "GET":
            echo = await relay.challenge(callback_id, head.query.decode("latin-1"))
            return _Answer(404) if echo is None else _Answer(200, echo, ((b"content-type", _TEXT),))
        if head.method != "POST":
            return _Answer(405, headers=((b"allow", b"GET, POST"),))
        subscription = await relay.authenticate(callback_id, dict(head.headers))
        return _Answer(404) if subscription is None else await self._receive(relay, subscription, client)

    async def _receive(self, relay: PushRelay, subscription: Subscription, client: Responder) -> _Answer:
        body = b""
        try:
            async with self._turn(subscription.agent):
                body = await client.read(relay.max_body)
                status = await relay.receive(subscription, body)
        except TimeoutError:
            status = 503
        except Fault as fault:
            return _error_response(fault, subscription, len(body))
        if status == 503:
            return _Answer(status, b"", (_COME_AGAIN,), subscription, len(body), "limited")
        return _Answer(status, subscription=subscription, bytes_in=len(body))

    @asynccontextmanager
    async def _turn(self, agent: str) -> AsyncIterator[None]:
        """Hold room for one body.

        Raises:
            TimeoutError: There was none within `PATIENCE`.
        """
        own = self._rooms.get(agent) or self._rooms.setdefault(agent, asyncio.Semaphore(MOST_OF_AGENT))
        async with asyncio.timeout(PATIENCE) as patience, own, self._room:
            patience.reschedule(None)
            yield

    def _prefix(self) -> bytes:
        return "".join(f"/{part}" for part in self._current().prefix).encode()

    def _record(self, head: Head, request_id: str, answer: _Answer, duration: float) -> None:
        """Count and log one request, without the id of a callback, which is a secret."""
        snapshot, subscription = self._current(), answer.subscription
        backend = None if subscription is None else snapshot.backends.get(subscription.scope)
        outcome = answer.outcome or ("ok" if answer.status < 400 else "client_error")
        meter = snapshot.strangers if backend is None else backend.meter
        meter.request(
            OTHER, Binding.REST.label, outcome, NO_TENANT if subscription is None else subscription.owner.tenant
        )
        if answer.reason is not None:
            meter.rejected(answer.reason)
        path, is_callback, _ = head.path.partition(_PREFIX)
        shown = path.decode("ascii", "replace") + (f"{PATH}…" if is_callback else "")
        line: dict[str, Any] = dict.fromkeys(FIELDS)
        line |= {
            "request_id": request_id,
            "trace_id": trace_id(head),
            "status": answer.status,
            "outcome": outcome,
            "reason": answer.reason,
            "duration_s": duration,
            "attempts": 0,
            "stream": False,
            "events": 0,
            "bytes_in": answer.bytes_in,
            "bytes_out": len(answer.body),
            "client_ip": client_address(head, snapshot.trusted),
            "method": head.method,
            "path": shown,
        }
        if subscription is not None:
            owner, task = subscription.owner, subscription.task.removeprefix(subscription.context_prefix)
            line |= {"agent": subscription.agent, "backend": subscription.scope, "tenant": owner.tenant}
            line |= {"principal": owner.principal or None, "task_id": task or None}
        self._access.write(line)


def _error_response(fault: Fault, subscription: Subscription | None = None, bytes_in: int = 0) -> _Answer:
    again = (_COME_AGAIN,) if fault.http_status == 503 else ()
    return _Answer(fault.http_status, b"", again, subscription, bytes_in, fault.outcome, fault.reason)


async def _keys(service: PushService | None, card_keys: Iterable[SigningKeys], head: Head) -> _Answer:
    """Return the gateway's key set: the keys of notifications and of cards."""
    if head.method not in ("GET", "HEAD"):
        return _Answer(405, headers=((b"allow", b"GET, HEAD"),))
    pushing = None if service is None else await service.jwks()
    found = [] if pushing is None else list(pushing["keys"])
    for keys in card_keys:
        found += [key.public for key in await keys.published()]
    if not found:
        return _Answer(404)
    return _Answer(200, msgspec.json.encode({"keys": found}), ((b"content-type", _JSON),))


class PublicListener:
    """The public listener: health, callbacks and keys, and the pipeline for everything else.

    Args:
        ready: Returns whether new calls are accepted, for `/-/ready`.
        callbacks: Answers callbacks and requests for public keys.
        trouble: Returns another reason than draining why they are not accepted; empty if there is none.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        ready: Callable[[], bool],
        callbacks: Callbacks | None = None,
        *,
        trouble: Callable[[], str] = str,
    ) -> None:
        self._pipeline = pipeline
        self._callbacks = callbacks
        self._ready = ready
        self._trouble = trouble

    def __call__(self, head: Head, client: Responder) -> Coroutine[Any, Any, None]:
        """Serve one request."""
        if head.path in (b"/-/live", b"/-/ready"):
            return self._answer_health(head, client)
        if self._callbacks is not None and self._callbacks.takes(head):
            return self._callbacks.serve(head, client)
        # Returned, not awaited: each coroutine in between costs time whenever the request resumes.
        return self._pipeline.serve(head, client)

    async def _answer_health(self, head: Head, client: Responder) -> None:
        if head.method not in ("GET", "HEAD"):
            await client.answer(HTTPStatus.METHOD_NOT_ALLOWED, [*_named(), (b"allow", b"GET, HEAD")], b"")
            return
        good = head.path == b"/-/live" or self._ready()
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        body = b"ok\n" if good else f"{self._trouble() or 'draining'}\n".encode()
        await client.answer(status, [(b"content-type", b"text/plain; charset=utf-8"), *_named()], body)


def _named() -> Pairs:
    """Return a request id for an answer that has no line in the access log."""
    return [(b"x-request-id", secrets.token_hex(8).encode("ascii"))]
