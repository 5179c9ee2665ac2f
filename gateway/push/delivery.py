"""Posts one notification to one webhook, once, and says what came of it.

The webhook is judged again, and the very addresses that were judged are dialled: the connection goes to an address, TLS
and `Host` to the name. Nothing is taken from the environment, no redirect is followed, no connection is used twice, and
of the answer nothing but its head counts.

| the answer | the notification |
|---|---|
| 2xx | is delivered |
| none, 408, 425, 429, 5xx | is tried again, after `Retry-After` if there is one |
| all others, redirects too | is dead: the receiver does not want it |
| none asked for: the webhook may not be called any more | is refused |
"""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final, cast

import httpcore
import msgspec

from gateway.a2a.fault import PushDenied, StateUnavailable
from gateway.a2a.push_config import PushConfig
from gateway.push.signing import Signer
from gateway.push.webhook import Target, Unresolved, WebhookPolicy
from gateway.tls_failure import kind

MOST_READ: Final = 4096
"""Bytes of an answer's body that are read, so that its sender can finish; the rest is cut off."""
_DRAINED: Final = 1.0
_CONNECT: Final = 3.0
_MOST_TRIED: Final = 3
_PASSING: Final = frozenset({408, 425, 429})


class Result(StrEnum):
    """What came of an attempt; the closed set of the `result` label."""

    DELIVERED = "delivered"
    RETRIED = "retried"
    DEAD = "dead"
    REFUSED = "refused"


class Outcome(msgspec.Struct, frozen=True):
    """What came of an attempt.

    Attributes:
        pause: Seconds that the receiver asked for before the next attempt, or None.
        words: Why, for the log: no part of the URL but its origin, and nothing that the receiver wrote.
    """

    result: Result
    words: str = ""
    pause: float | None = None


class Delivery(msgspec.Struct, frozen=True):
    """One notification on its way.

    Attributes:
        id: The same in all attempts, so that a receiver can drop what it has had.
        config: Where it goes.
        task_id: The task, as the client knows it.
        attempt: Counts from 1.
    """

    id: str
    config: PushConfig
    task_id: str
    content_type: str
    body: bytes
    attempt: int = 1


class Deliverer:
    """Posts notifications.

    Args:
        signer: Signs them; None for deliveries without a signature.
        tls: How receivers are verified: always, and by name.
        wall: Unix seconds.

    Attributes:
        policy: What may be called; whoever reads the configuration again sets it, `tls` and `timeout`.
        timeout: Seconds that an attempt may take in all.
    """

    def __init__(
        self,
        policy: WebhookPolicy,
        signer: Signer | None,
        *,
        tls: ssl.SSLContext,
        timeout: float = 10.0,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - Retry-After may be a date
    ) -> None:
        self.policy = policy
        self._signer = signer
        self.tls = tls
        self.timeout = timeout
        self._wall = wall

    async def deliver(self, delivery: Delivery) -> Outcome:
        """Post a notification; never raises for what a webhook or its network does."""
        policy = self.policy
        try:
            target = policy.refuse_url(delivery.config.url)
        except PushDenied as denied:
            return Outcome(Result.REFUSED, denied.message)
        try:
            return await self._post(policy, target, delivery)
        except Unresolved:
            return _again(target, "has no address")
        except PushDenied as denied:
            return Outcome(Result.REFUSED, f"{target.origin}: {denied.message}")
        except StateUnavailable:
            return _again(target, "was not called: the store with the signing key does not answer")
        except TimeoutError:
            return _again(target, f"did not answer within {self.timeout:g} s")
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            connecting = target.scheme == "https" and isinstance(error, httpcore.ConnectError)
            return _again(target, f"could not be called: {kind(error, connecting=connecting)}")

    async def _post(self, policy: WebhookPolicy, target: Target, delivery: Delivery) -> Outcome:
        origin = httpcore.Origin(target.scheme.encode(), target.host.encode("ascii"), target.port)
        url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=target.port, target=target.path.encode("ascii"))
        times = {"connect": _CONNECT, "read": self.timeout, "write": self.timeout}
        network = _JudgedNetwork(policy, target)
        async with httpcore.AsyncHTTPConnection(origin, self.tls, network_backend=network) as connection:
            async with asyncio.timeout(self.timeout):
                headers = await self._headers(delivery, target)
                request = httpcore.Request(
                    "POST", url, headers=headers, content=delivery.body, extensions={"timeout": times}
                )
                answer = await connection.handle_async_request(request)
            try:
                await _drain(answer)
            finally:
                await answer.aclose()
        return self._judged(target, answer)

    async def _headers(self, delivery: Delivery, target: Target) -> list[tuple[bytes, bytes]]:
        config = delivery.config
        headers = {
            "Host": target.authority,
            "User-Agent": "a2a-gateway",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "Content-Type": delivery.content_type,
            "Content-Length": str(len(delivery.body)),
            "X-A2A-Delivery": delivery.id,
            "Idempotency-Key": delivery.id,
        }
        if config.token:
            headers["X-A2A-Notification-Token"] = config.token
        shown = bool(config.credentials)
        if shown:
            # 1.0 §4.3.1: the client has asked for it, so it comes first. Before 1.0 there may be no scheme beside it.
            headers["Authorization"] = f"{config.scheme or 'Bearer'} {config.credentials}"
        if self._signer is not None:
            signature = await self._signer.sign(
                delivery.body,
                audience=target.origin,
                task_id=delivery.task_id,
                id=f"{delivery.id}.{delivery.attempt}",
            )
            if shown:
                headers["X-A2A-Signature"] = signature
            else:
                headers["Authorization"] = f"Bearer {signature}"
        return [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]

    def _judged(self, target: Target, answer: httpcore.Response) -> Outcome:
        status = answer.status
        if 200 <= status < 300:
            return Outcome(Result.DELIVERED)
        words = f"{target.origin} answered {status}"
        if status in _PASSING or status >= 500:
            return Outcome(Result.RETRIED, words, retry_after(answer.headers, self._wall()))
        return Outcome(Result.DEAD, words)


class _JudgedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were judged a moment ago, and to nothing else."""

    def __init__(self, policy: WebhookPolicy, target: Target) -> None:
        self._policy = policy
        self._target = target
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - the target's
        port: int,  # noqa: ARG002 - as above
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's word
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the target, whatever `host` says.

        Raises:
            PushDenied: as `WebhookPolicy.refuse_address`.
        """
        failed: httpcore.NetworkError | httpcore.TimeoutException | None = None
        for address in (await self._policy.refuse_address(self._target))[:_MOST_TRIED]:
            try:
                return await self._sockets.connect_tcp(
                    address, self._target.port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed or httpcore.ConnectError()


def retry_after(headers: Iterable[tuple[bytes, bytes]], now: float) -> float | None:
    """Seconds that a `Retry-After` asks to wait (RFC 9110 §10.2.3); None where there is none that can be read.

    Args:
        now: Unix seconds, for one that is a date.
    """
    value = next((value for name, value in headers if name.lower() == b"retry-after"), None)
    if value is None or len(value) > 40:
        return None
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(moment.timestamp() - now, 0.0)


async def _drain(answer: httpcore.Response) -> None:
    """Read the beginning of a body, so that its sender is not cut off in the middle of a short one."""
    size = 0
    # httpcore declares less than it gives: closing needs the generator.
    chunks = cast("AsyncGenerator[bytes, None]", aiter(cast("AsyncIterable[bytes]", answer.stream)))
    with suppress(TimeoutError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError):
        async with asyncio.timeout(_DRAINED), aclosing(chunks):
            async for chunk in chunks:
                size += len(chunk)
                if size > MOST_READ:
                    return


def _again(target: Target, words: str) -> Outcome:
    return Outcome(Result.RETRIED, f"{target.origin} {words}")
