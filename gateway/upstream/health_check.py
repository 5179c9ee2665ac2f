"""Active health checks of every replica of a backend."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.a2a.fault import Draining, Fault, Overloaded, UpstreamAuthFailed
from gateway.upstream.connection_pool import ConnectionPool
from gateway.upstream.oauth2 import NoToken, TokenSource
from gateway.upstream.outlier_detection import NotAccepted
from gateway.upstream.replica import Target
from gateway.upstream.request_head import request_head
from gateway.upstream.upstream import AnswerTooLong

if TYPE_CHECKING:
    # A configuration without such an agent never loads gRPC.
    from gateway.upstream.grpc_channel import GrpcChannel

_LONGEST = 256 * 1024
"""Bytes of an answer that are read; the connection of a longer answer is closed."""
_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"
_UNIMPLEMENTED = 12

Credentials = Sequence[tuple[bytes, bytes]]

logger = logging.getLogger("gateway.health")


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The settings of health checks; see `config.agent.Health`.

    Attributes:
        path: Below the backend's URL.
        every: Seconds between two checks of one replica.
        timeout: Seconds for one check.
    """

    path: str
    every: float = 10.0
    timeout: float = 3.0
    fail_after: int = 3
    pass_after: int = 1


class HealthChecker:
    """Checks the replicas at one URL; there are several if each address of its name is one.

    Args:
        key: Their name in the log.
        targets: Returns the current replicas.
        credentials: The gateway's own headers.
        tokens: The gateway's tokens for them, or None.
    """

    def __init__(
        self,
        key: str,
        url: str,
        targets: Callable[[], Iterable[Target]],
        check: HealthCheck,
        credentials: Credentials = (),
        *,
        tokens: TokenSource | NoToken | None = None,
    ) -> None:
        self._key = key
        self._url = url
        self._targets = targets
        self._check = check
        self._credentials = credentials
        self._tokens = tokens

    async def run(self) -> None:
        """Check all of them periodically, with a jitter of up to a tenth of the interval."""
        while True:
            await self.check_all()
            await asyncio.sleep(self._check.every * (1 - random.random() / 10))  # noqa: S311 - no secret

    async def check_all(self) -> None:
        """Check each once."""
        await asyncio.gather(*(self._check_one(target) for target in list(self._targets())))

    async def _check_one(self, target: Target) -> None:
        check = self._check
        try:
            why = await check_health(
                target.connections, self._url, check.path, check.timeout, self._credentials, tokens=self._tokens
            )
        except (Overloaded, Draining, UpstreamAuthFailed):
            # A replica without a free connection is busy, not down; nor is it down if the gateway has no token for it.
            return
        except Fault as fault:
            why = f"{fault.message} ({fault.detail})" if fault.detail else fault.message
        changed = target.condition.probed(
            time.monotonic(), why, fail_after=check.fail_after, pass_after=check.pass_after
        )
        if changed:
            where = self._url if target.address is None else f"{self._url} at {target.address}"
            logger.warning("%s at %s is %s", self._key, where, f"down: {why}" if why else "up again")


async def check_health(
    connections: "ConnectionPool | GrpcChannel",
    url: str,
    path: str,
    timeout: float,  # noqa: ASYNC109 - each part of the request has it
    credentials: Credentials = (),
    *,
    tokens: TokenSource | NoToken | None = None,
) -> str:
    """Check one replica; return why it failed, or an empty text.

    Args:
        tokens: The gateway's tokens for it, or None; one that it refuses is dropped.

    Raises:
        Fault: it does not answer, or there is no token for it.
    """
    if tokens is None:
        return (await _check(connections, url, path, timeout, credentials))[0]
    shown = await tokens.pair()
    try:
        why, is_refused = await _check(connections, url, path, timeout, (*credentials, shown))
    except NotAccepted:
        tokens.refused(shown)
        raise
    if is_refused:
        tokens.refused(shown)
    return why


async def _check(
    connections: "ConnectionPool | GrpcChannel",
    url: str,
    path: str,
    timeout: float,  # noqa: ASYNC109 - as above
    credentials: Credentials,
) -> tuple[str, bool]:
    """Return why it failed, and whether that is the credential."""
    if not isinstance(connections, ConnectionPool):
        return await _check_grpc(connections, timeout, credentials), False
    parts = urlsplit(url)
    head = request_head(
        b"GET",
        (parts.path.rstrip("/") + path).encode("ascii"),
        parts.netloc.encode("ascii"),
        [(b"accept", b"*/*"), (b"user-agent", b"a2a-gateway"), *credentials],
        None,
    )
    # An idle connection may be about to close, which does not show that the agent is down.
    response = await connections.request(head, b"", connect=timeout, first_byte=timeout, fresh=True)
    try:
        with suppress(AnswerTooLong):
            await response.read(_LONGEST, timeout)
    finally:
        response.close()
    status = response.status
    return "" if 200 <= status < 400 else f"{path} answers {status}", status == 401


async def _check_grpc(
    channel: "GrpcChannel",
    timeout: float,  # noqa: ASYNC109 - the channel's
    credentials: Credentials,
) -> str:
    metadata = tuple((name.decode(), value.decode("latin-1")) for name, value in credentials)
    answer = await channel.unary(_CHECK, b"", metadata, timeout=timeout)
    if answer.failure is None:
        return "" if answer.whole() == _SERVING else "grpc.health.v1 says that it is not serving"
    # An agent without the service has answered, too.
    code = answer.failure.code
    return "" if code == _UNIMPLEMENTED else f"grpc.health.v1 answers with status {code}"
