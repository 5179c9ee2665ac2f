"""An answer over gRPC: one message, or a stream that may last for hours, and the status that ends it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Self, cast

from gateway.a2a.bindings.grpc_status import Status
from gateway.a2a.bindings.grpc_status import read as read_status
from gateway.a2a.dialect import Version
from gateway.a2a.fault import Fault, UpstreamProtocol
from gateway.a2a.framing.grpc import frame
from gateway.a2a.headers import Pairs
from gateway.upstream.connection import closing
from gateway.upstream.credentials import EXTENSIONS
from gateway.upstream.grpc_end import own_status
from gateway.upstream.grpc_library import aio, grpc
from gateway.upstream.reply import AnswerTooLong, ignore_size
from gateway.upstream.response import late, silent


class GrpcAnswer:
    """An answer, from its first message or its end on.

    Its owner reads it to the end or calls `close`. Cancelling a read cancels the call at the agent.

    Args:
        address: Host and port that the library connects to.
        bare: A cache that answers of one message without headers share.

    Attributes:
        headers: The metadata in front, without what is binary: names in lower case, those of one name together.
        known: A cache for what is worked out from the headers of an answer that has none, as nearly all; or None.
        status: The final status if it is not OK; None before the end and for OK.
        metadata: The trailing metadata that names extensions.
        is_stream: Whether the call answers with a stream of messages.
        alone: True: the library tells the answers of one connection apart.
    """

    __slots__ = (
        "_call",
        "_channel",
        "_message",
        "_over",
        "address",
        "headers",
        "is_stream",
        "known",
        "metadata",
        "status",
    )

    alone = True
    fault = None
    has_begun = True

    def __init__(
        self, call: aio.Call, channel: aio.Channel, address: str, bare: dict[object, object] | None = None
    ) -> None:
        self.address = address
        self.headers: Pairs = []
        self.is_stream = False
        self.known = bare
        self.status: Status | None = None
        self.metadata: Pairs = []
        self._call = call
        self._channel = channel
        self._message: bytes | None = None
        self._over = False

    def whole(self) -> bytes | None:
        """The message of an answer that has one; None where the call streams or failed."""
        return self._message if self._over else None

    @property
    def http_status(self) -> int:
        """The status in HTTP's numbers."""
        return 200 if self.status is None else read_status(self.status, Version.V1_0).http_status

    @property
    def is_failing(self) -> bool:
        """Whether the agent, or a server in front of it, is down."""
        return self.status is not None and self.status.code == _UNAVAILABLE

    @property
    def failure(self) -> Status | None:
        """The status that the agent ended the call with, other than OK."""
        return self.status

    async def read(self, limit: int, timeout: float, hold: Callable[[int], None] = ignore_size) -> bytes:  # noqa: ARG002, ASYNC109 - the message is there
        """Return the message of an answer that has one, and keep it no longer.

        Raises:
            UpstreamProtocol: there is none.
            AnswerTooLong: it is longer than `limit`.
        """
        message, self._message = self.whole(), None
        if message is None:
            raise UpstreamProtocol("the agent's answer is empty")
        if len(message) > limit:
            raise AnswerTooLong(limit)
        hold(len(message))
        return message

    async def flow(
        self,
        take: Callable[[bytes], bool],
        settle: Callable[[], Awaitable[None]],
        timeout: float,  # noqa: ASYNC109 - of silence
        lag: Callable[[int], None] = ignore_size,  # noqa: ARG002 - gRPC makes the agent wait
    ) -> None:
        """Give the messages of a stream to `take` as they come, each in its frame; `status` tells how they ended.

        The headers are let go: a stream may last for hours. Where `take` answers False nothing more is given to it, nor
        asked of the agent, before `settle` was awaited.

        Args:
            timeout: Seconds of silence that are accepted.

        Raises:
            UpstreamIdle: nothing came for `timeout`.
            DeadlinePassed: it is not over by the time that the client said.
            UpstreamReset: it broke off.
            UpstreamProtocol: what came is no gRPC; or what `take` raises.
            Draining: the channel is closed.
        """
        self.headers = []
        message, self._message = self._message, None
        while message is not None:
            if not take(frame(message)):
                await settle()
            message = await self._next(timeout, silent)

    def close(self) -> None:
        """Be done with the answer. If it is not complete, the agent sees the call cancelled at once."""
        if not self._over:
            self._over = True
            self._call.cancel()

    disown = close

    def distrust(self) -> None:
        """Do nothing: no call is mistaken for another."""

    # ---- Between an answer and its channel -------------------------------------------------------------------------

    async def only(
        self,
        timeout: float,  # noqa: ASYNC109 - kept by gRPC
        expired: Callable[[], Fault] = late,
    ) -> Self:
        """Wait for the one message of an answer that has one.

        Args:
            timeout: Seconds that the call was given.
            expired: Makes the fault when they are over.
        """
        end = asyncio.get_running_loop().time() + timeout
        try:
            self._message = await self._call
        except aio.AioRpcError as error:
            self._ended(error, expired if asyncio.get_running_loop().time() > end - _HASTE else None)
            return self
        except asyncio.CancelledError as error:
            if _is_leaving():
                raise
            raise closing() from error
        finally:
            self._over = True
        if pairs := _pairs(await self._call.initial_metadata()):
            self.headers, self.known = pairs, None
        self.metadata = _named(_pairs(await self._call.trailing_metadata()))
        if self._message is None:
            raise UpstreamProtocol("the agent's answer is empty", detail="OK, and no message")
        return self

    async def begin(self, timeout: float) -> Self:  # noqa: ASYNC109 - kept here
        """Wait for the first message of a stream, or its end.

        Args:
            timeout: Seconds to wait.
        """
        self.is_stream = True
        self._message = await self._next(timeout, late)
        if self.status is None:
            self.headers = _pairs(await self._call.initial_metadata())
        return self

    async def _next(self, timeout: float, expired: Callable[[], Fault]) -> bytes | None:  # noqa: ASYNC109 - as `begin`
        """The next message of a stream, or None after the last one."""
        if self._over:
            return None
        call = self._call
        rung = False

        def ring() -> None:
            # Not `asyncio.timeout`, which would leave a read of gRPC's behind.
            nonlocal rung
            rung = True
            call.cancel()

        alarm = asyncio.get_running_loop().call_later(timeout, ring)
        try:
            message = await call.read()
        except aio.AioRpcError as error:
            self._over = True
            # The rest of the stream's deadline is kept by the caller.
            self._ended(error, None)
            return None
        except asyncio.CancelledError as error:
            self.close()
            if _is_leaving():
                raise
            raise (expired() if rung else closing()) from error
        finally:
            alarm.cancel()
        if message is aio.EOF:
            self._over = True
            self.metadata = _named(_pairs(await call.trailing_metadata()))
            return None
        return cast("bytes", message)  # nobody told gRPC to make anything else of it

    def _ended(self, error: aio.AioRpcError, expired: Callable[[], Fault] | None) -> None:
        self.status = own_status(error, unreachable=self._channel.get_state() is _FAILED, expired=expired)
        self.headers, self.known = _pairs(error.initial_metadata()), None
        self.metadata = _named(_pairs(error.trailing_metadata()))


_UNAVAILABLE = 14
_FAILED = grpc.ChannelConnectivity.TRANSIENT_FAILURE
_HASTE = 0.05
"""Seconds by which gRPC may be early: its clock is another."""


def _is_leaving() -> bool:
    """Whether a wait was cancelled because its task is to end; else the channel was closed under it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _pairs(metadata: Iterable[tuple[str, str | bytes]] | None) -> Pairs:
    return [
        (name.encode("ascii"), value.encode("utf-8"))
        for name, value in metadata or ()
        if isinstance(value, str) and not name.endswith("-bin")
    ]


def _named(pairs: Pairs) -> Pairs:
    return [pair for pair in pairs if pair[0] in EXTENSIONS]
