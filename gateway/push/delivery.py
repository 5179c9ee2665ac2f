"""Posts one notification to one webhook, once, and returns the result.

The name of the webhook is looked up once, its addresses are checked, and one of them is dialled: the connection goes to
that address, TLS and `Host` to the name. The environment is ignored, no redirect is followed, no connection is reused,
and only the head of the answer counts.

| the answer | the notification |
|---|---|
| 2xx | is delivered |
| none, 408, 425, 429, 5xx | is tried again, after `Retry-After` if there is one |
| all others, redirects too | is dead: the receiver does not want it |
| none: the webhook may not be called any more | is refused |
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing, suppress
from enum import StrEnum
from typing import Final, cast

import httpcore
import msgspec

from gateway.a2a.fault import PushDenied, StateUnavailable
from gateway.a2a.push_config import PushConfig
from gateway.push.signing import Signer
from gateway.push.ssrf import Unresolved, WebhookPolicy, WebhookTarget
from gateway.telemetry.tls_failure import kind
from gateway.upstream.error_page import seconds_of

MOST_READ: Final = 4096
"""Bytes of an answer's body that are read, so that its sender can finish; the rest is cut off."""
_DRAINED: Final = 1.0
_CONNECT: Final = 3.0
_MOST_TRIED: Final = 3
_PASSING: Final = frozenset({408, 425, 429})


class DeliveryRetryPolicy(msgspec.Struct, frozen=True):
    """`push.deliver` of the configuration: how notifications are delivered.

    Attributes:
        attempts: Most attempts for each.
        timeout: Seconds that an attempt may take.
        keep: Seconds after which a notification is given up.
        first_pause: Seconds after the first attempt that failed, at least; up to twice as long.
        longest_pause: Seconds, at most.
        concurrency: Deliveries at a time.
    """

    attempts: int = 1000
    timeout: float = 10.0
    keep: float = 86_400.0
    first_pause: float = 1.0
    longest_pause: float = 300.0
    concurrency: int = 16


def backoff(failed: int, chance: float, policy: DeliveryRetryPolicy) -> float:
    """Return the seconds until the next attempt: from the first pause to twice that for each attempt that failed.

    Args:
        failed: Attempts that failed, from 1.
        chance: 0 to 1; spreads attempts that failed at the same moment.
    """
    longest = min(policy.longest_pause, policy.first_pause * 2.0 ** min(failed, 32))
    first = min(policy.first_pause, longest)
    return first + chance * (longest - first)


class DeliveryResult(StrEnum):
    """Result of an attempt; the closed set of the `result` label."""

    DELIVERED = "delivered"
    RETRIED = "retried"
    DEAD = "dead"
    REFUSED = "refused"


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of an attempt.

    Attributes:
        reason: For the log: with the origin of the URL only, and without text of the receiver.
        retry_after: Seconds that the receiver asked for before the next attempt, or None.
    """

    result: DeliveryResult
    reason: str = ""
    retry_after: float | None = None


class WebhookDelivery(msgspec.Struct, frozen=True):
    """One attempt to deliver a notification.

    Attributes:
        id: The same in all attempts, so that a receiver can recognize duplicates.
        config: The webhook.
        task_id: The client's id of the task.
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
        tls: Verifies receivers: always, and by name.

    Attributes:
        policy: Webhooks that may be called; replaced when the configuration is reloaded, as `tls` and `timeout` are.
        timeout: Seconds that an attempt may take in all.
    """

    def __init__(
        self,
        policy: WebhookPolicy,
        signer: Signer | None,
        *,
        tls: ssl.SSLContext,
        timeout: float = 10.0,
    ) -> None:
        self.policy = policy
        self._signer = signer
        self.tls = tls
        self.timeout = timeout

    async def deliver(self, delivery: WebhookDelivery) -> Outcome:
        """Post a notification; never raises for a fault of a webhook or its network."""
        policy = self.policy
        try:
            target = policy.refuse_url(delivery.config.url)
        except PushDenied as denied:
            return Outcome(DeliveryResult.REFUSED, denied.message)
        try:
            return await self._post(policy, target, delivery)
        except Unresolved:
            return _again(target, "has no address")
        except PushDenied as denied:
            return Outcome(DeliveryResult.REFUSED, f"{target.origin}: {denied.message}")
        except StateUnavailable:
            return _again(target, "was not called: the store with the signing key does not answer")
        except TimeoutError:
            return _again(target, f"did not answer within {self.timeout:g} s")
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            connecting = target.scheme == "https" and isinstance(error, httpcore.ConnectError)
            return _again(target, f"could not be called: {kind(error, connecting=connecting)}")

    async def _post(self, policy: WebhookPolicy, target: WebhookTarget, delivery: WebhookDelivery) -> Outcome:
        origin = httpcore.Origin(target.scheme.encode(), target.host.encode("ascii"), target.port)
        url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=target.port, target=target.path.encode("ascii"))
        times = {"connect": _CONNECT, "read": self.timeout, "write": self.timeout}
        network = _CheckedNetwork(policy, target)
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
        return _outcome(target, answer)

    async def _headers(self, delivery: WebhookDelivery, target: WebhookTarget) -> list[tuple[bytes, bytes]]:
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
            # 1.0 §4.3.1: the client's credentials come first. Before 1.0 they may have no scheme.
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


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects only to the addresses of the target that were just checked."""

    def __init__(self, policy: WebhookPolicy, target: WebhookTarget) -> None:
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
        """Connect to the target; `host` is ignored.

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


def _outcome(target: WebhookTarget, answer: httpcore.Response) -> Outcome:
    status = answer.status
    if 200 <= status < 300:
        return Outcome(DeliveryResult.DELIVERED)
    reason = f"{target.origin} answered {status}"
    if status not in _PASSING and status < 500:
        return Outcome(DeliveryResult.DEAD, reason)
    headers = {name.lower(): value for name, value in reversed(answer.headers)}
    return Outcome(DeliveryResult.RETRIED, reason, seconds_of(headers.get(b"retry-after"), headers.get(b"date")))


async def _drain(answer: httpcore.Response) -> None:
    """Read the beginning of a body, so that its sender is not cut off in the middle of a short one."""
    size = 0
    # httpcore declares less than it returns: closing needs the generator.
    chunks = cast("AsyncGenerator[bytes, None]", aiter(cast("AsyncIterable[bytes]", answer.stream)))
    with suppress(TimeoutError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError):
        async with asyncio.timeout(_DRAINED), aclosing(chunks):
            async for chunk in chunks:
                size += len(chunk)
                if size > MOST_READ:
                    return


def _again(target: WebhookTarget, reason: str) -> Outcome:
    return Outcome(DeliveryResult.RETRIED, f"{target.origin} {reason}")
