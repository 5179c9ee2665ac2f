"""One call of a gRPC client, between the pipeline and grpc.aio: its message on the way in, its answer on the way out.

The pipeline writes without waiting; the task that grpc.aio runs for the call sends what was written (`send`). grpc.aio
has no other way to write than to wait, and it cancels that task when the client cancels the call, leaves or runs out of
time. The task that runs the pipeline is another one, because it has to end in its own way: it closes the call to the
agent and writes the access log line.

    WAITING   nothing was answered                     → OPENED or OVER
    OPENED    the initial metadata are written         → OVER
    OVER      the status is written, or nobody waits   later writes are dropped
"""

import asyncio
from base64 import b64decode
from collections import deque
from collections.abc import Callable
from urllib.parse import unquote

from gateway.a2a.bindings.grpc_status import CODES, Status
from gateway.a2a.bindings.grpc_status import trailers as status_trailers
from gateway.a2a.fault import BadRequest, BodyTooLarge, BodyTooSlow, ClientGone
from gateway.a2a.framing.grpc import unframe
from gateway.a2a.headers import Pairs
from gateway.config.limit import Http
from gateway.upstream.grpc_library import aio, grpc

FULL = 64 * 1024
"""Bytes that may wait for a client before writers wait, too."""

_STATUSES = {status.value[0]: status for status in grpc.StatusCode}
_SLOWEST = 16 * 1024
"""Bytes a second at which a message counts as being read: grpc.aio tells only when all of it was taken."""
_NEWS = 0.05
"""Seconds in which grpc.aio tells that a client has left."""

Metadata = tuple[tuple[str, str | bytes], ...]


class GrpcResponder:
    """The client's side of one call (`gateway.proxy.responder.Responder`).

    Args:
        context: The call, as grpc.aio has it.
        limits: Deadlines of a message and of an answer.
        streams: Whether the method answers with a stream.

    Attributes:
        opened: Whether the initial metadata, or the status alone, were written.
        extra: Headers that the answer has beside its own.
    """

    __slots__ = (
        "_context",
        "_drained",
        "_ended",
        "_gone",
        "_limits",
        "_lost",
        "_opening",
        "_out",
        "_size",
        "_status",
        "_streams",
        "_trailing",
        "_written",
        "extra",
        "opened",
    )  # fmt: skip

    def __init__(self, context: aio.ServicerContext, limits: Http, *, streams: bool) -> None:
        self._context = context
        self._limits = limits
        self._streams = streams
        self._opening: Metadata | None = None
        self._trailing: Metadata = ()
        self._out: deque[bytes] = deque()
        self._size = 0
        self._status: Pairs | None = None
        self._written: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._gone: Callable[[], None] | None = None
        self._lost = False
        self.opened = False
        self.extra: Pairs = []

    # ---- What the pipeline calls -----------------------------------------------------------------------------------

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the client leaves before the answer is complete, or has left."""
        if self._lost:
            callback()
        else:
            self._gone = callback

    async def read(self, limit: int) -> bytes:
        """Return the message of the request.

        Raises:
            BodyTooLarge: it is longer than `limit` bytes.
            BadRequest: there is none.
            BodyTooSlow: it did not come in time.
            ClientGone: the client left before its end.
        """
        limits = self._limits
        patience = limits.body_idle + limit / limits.body_rate if limits.body_rate else None
        try:
            async with asyncio.timeout(patience):
                message = await self._context.read()
        except TimeoutError:
            raise BodyTooSlow("the message came too slowly") from None
        except aio.BaseError:
            raise ClientGone("the connection is closed") from None
        if message is aio.EOF:
            # A call that the client took back reads like a request that ends; this task is cancelled soon after.
            await asyncio.sleep(_NEWS)
            if self._lost:
                raise ClientGone("the client left")
            raise BadRequest("the call has no message")
        if len(message) > limit:
            raise BodyTooLarge(f"the message exceeds {limit} bytes")
        return bytes(message)

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:  # noqa: ARG002 - gRPC has its own status
        """Write a whole answer: framed messages that end well, or a status alone where `headers` has one."""
        if self._over:
            return
        front, ending = _parted([*headers, *self.extra])
        if body or not ending:
            self._opening = front
            self._put(body)
        else:
            self._trailing = front
        await self._end(ending)

    def open(self, status: int, headers: Pairs) -> None:  # noqa: ARG002 - as `answer`
        """Write the initial metadata of an answer whose messages follow by `write`."""
        if not self._over:
            self._opening = _parted([*headers, *self.extra])[0]
            self.opened = True
            self._wake()

    async def write(self, data: bytes) -> None:
        """Write framed messages, after those that wait have mostly been taken."""
        await self.drained()
        self.write_nowait(data)

    def write_nowait(self, data: bytes) -> bool:
        """Write framed messages; False where the next ones should wait for `drained`."""
        if not self._over and data:
            self._put(data)
            self._wake()
        return self._size <= FULL

    async def drained(self) -> None:
        """Wait until the client has taken most of what was written, or left."""
        while self._size > FULL and not self._lost:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            # Several may wait, and one of them may be cancelled.
            await asyncio.shield(self._drained)

    async def close(self, trailers: Pairs | None = None) -> None:
        """End the answer with the status in `trailers`, or well where there is none."""
        if not self._over:
            await self._end(trailers or [])

    def fail(self, code: str, words: str) -> None:
        """End the answer with a status by its name, after what was written."""
        if not self._over:
            self._status = status_trailers(Status(CODES[code], words))
            if not self.opened:
                self._trailing = _parted(self.extra)[0]
            self.opened = True
            self._wake()

    def cut(self) -> None:
        """End an answer that broke off."""
        self.fail("UNAVAILABLE", "the answer broke off")
        self._gone = None

    @property
    def _over(self) -> bool:
        return self._status is not None or self._lost

    def _put(self, data: bytes) -> None:
        for message in unframe(data):
            self._out.append(message)
            self._size += len(message)

    async def _end(self, status: Pairs) -> None:
        self._status = status
        self.opened = True
        self._wake()
        try:
            if self._size > FULL:
                # Bytes that the client does not read count for the caller's limits as long as they are held.
                self._ended = asyncio.get_running_loop().create_future()
                self._context.add_done_callback(lambda _: self._release())
                await self._ended
        finally:
            self._gone = None

    # ---- What the task of grpc.aio calls ---------------------------------------------------------------------------

    async def send(self) -> bytes:
        """Send what is written, until the end; return the message of an answer that has only one."""
        try:
            return await self._send()
        except aio.AbortError:
            # The status was sent.
            raise
        except aio.BaseError:
            # The client left while something was sent, or the server was stopped; grpc.aio would log it.
            self.lost()
            raise asyncio.CancelledError from None
        except BaseException:
            self.lost()
            raise

    def lost(self) -> None:
        """Tell the pipeline that the client takes no answer any more."""
        self._lost = True
        self._out.clear()
        self._size = 0
        self._release()
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    def _release(self) -> None:
        """Wake the tasks that wait for the client."""
        for waiter in (self._drained, self._ended):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        self._drained = None

    async def _send(self) -> bytes:
        while self._status is None:
            await self._send_written()
            if self._status is None:
                self._written = asyncio.get_running_loop().create_future()
                await self._written
        await self._send_written()
        return await self._send_status(self._status)

    async def _send_written(self) -> None:
        if not self._streams:
            return
        if self._opening is not None:
            opening, self._opening = self._opening, None
            if opening:
                await self._context.send_initial_metadata(opening)
        while self._out:
            message = self._out.popleft()
            try:
                async with asyncio.timeout(self._limits.write_stall + len(message) / _SLOWEST):
                    await self._context.write(message)
            except TimeoutError:
                # grpc.aio cannot reset a call: the client finds this status behind what it has not read.
                self.lost()
                await self._send_status(status_trailers(Status(CODES["UNAVAILABLE"], "the client reads too slowly")))
            self._size -= len(message)
            if self._drained is not None and self._size <= FULL:
                self._drained.set_result(None)
                self._drained = None

    async def _send_status(self, status: Pairs) -> bytes:
        """Send a status; one that says that all is well, and the message in front of it, grpc.aio sends itself."""
        # An answer of one message has its metadata behind it: in front they are a write of their own.
        trailing = (*(self._opening or ()), *self._trailing)
        if status:
            found = dict(status)
            code = int(found.pop(b"grpc-status", b"0"))
            words = unquote(found.pop(b"grpc-message", b"").decode("ascii"))
            trailing += tuple([_metadatum(name, value.decode("ascii")) for name, value in found.items()])
            if code:
                await self._context.abort(_STATUSES[code], words, trailing)
        if trailing:
            self._context.set_trailing_metadata(trailing)
        return self._out.popleft() if self._out else b""

    def _wake(self) -> None:
        if self._written is not None and not self._written.done():
            self._written.set_result(None)


def _parted(headers: Pairs) -> tuple[Metadata, Pairs]:
    """Return headers as the metadata of an answer, and beside them the headers of its status.

    Raises:
        ValueError: gRPC has no such metadata; nothing was written.
    """
    front: list[tuple[str, str | bytes]] = []
    status: Pairs = []
    for pair in headers:
        name, value = pair
        text = value.decode("latin-1")
        if not text.isascii() or not text.isprintable():
            raise ValueError(f"{name.decode('latin-1')} cannot be metadata of gRPC")
        if name.startswith(b"grpc-"):
            status.append(pair)
        elif name != b"content-type":
            front.append(_metadatum(name, text))
    return tuple(front), status


def _metadatum(name: bytes, value: str) -> tuple[str, str | bytes]:
    if name.endswith(b"-bin"):
        return name.decode("ascii"), b64decode(value + "=" * (-len(value) % 4))
    return name.decode("ascii"), value
