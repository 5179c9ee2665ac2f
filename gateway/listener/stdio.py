"""One client on stdio: the host that started this process, such as an editor. Its calls share a pipe.

A frame is a call of the JSON-RPC binding (A2A issue 1074); its headers have the headers of HTTP. Answers come in any
order, and each has the id of its call, byte for byte, even if it was made before the body was read. A stream is one
answer per event. If the last event does not end the stream by itself, a null result does, with `A2A-Stream: end` in its
header.

The issue has no way to cancel a call. Here it is `$/cancelRequest` with the `id` of the call, as in LSP 3.17
(Cancellation Support). The call is answered at once with the error -32800, and the agent goes on. A task is ended by
CancelTask.

A malformed frame ends the reading, because the start of the next one is unknown.
"""

import asyncio
import logging
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.bindings.stdio import STREAM_HEADER, Course, StdioMessage, course, read_message, with_id
from gateway.a2a.call import Head
from gateway.a2a.dialect import Version
from gateway.a2a.fault import INTERNAL_ERROR, PARSE_ERROR, RESOURCE_UNAVAILABLE
from gateway.a2a.framing.lsp import LONGEST, BadFrame, Frame, FrameDecoder, Framing, encode
from gateway.a2a.framing.sse import Event, SseDecoder
from gateway.a2a.headers import TO_AGENT, Pairs
from gateway.background import Background
from gateway.listener.body_rules import check_length
from gateway.proxy.responder import Responder

_CHUNK = 64 * 1024
ROOM = 1024 * 1024
"""Queued bytes above which writers should wait."""


class Pipes:
    """Reads one file descriptor and writes another, each in a thread.

    Args:
        on_broken: Called once, on the loop, when the host has closed its end.
    """

    def __init__(self, source: int, target: int, on_broken: Callable[[], None] = lambda: None) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._target = target
        self._on_broken = on_broken
        self._read: asyncio.Future[bytes] | None = None
        self._wanted = threading.Semaphore(0)
        self._unwritten: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._waiting = 0
        self._broken = self._closed = False
        self._drained = asyncio.Event()
        self._empty = asyncio.Event()
        self._drained.set()
        self._empty.set()
        threading.Thread(target=self._run_reader, name="stdin", daemon=True).start()
        threading.Thread(target=self._run_writer, name="stdout", daemon=True).start()

    async def read(self) -> bytes:
        """Return the next bytes; none at the end. Nothing is read ahead."""
        self._read = self._loop.create_future()
        self._wanted.release()
        return await self._read

    def write(self, data: bytes) -> bool:
        """Queue bytes for writing; return False if no more should be written until `drained`."""
        if self._broken:
            return True
        self._waiting += len(data)
        self._empty.clear()
        if self._waiting > ROOM:
            self._drained.clear()
        self._unwritten.put(data)
        return not self.full

    @property
    def full(self) -> bool:
        """Return whether writers should wait for `drained`."""
        return not self._drained.is_set()

    async def drained(self) -> None:
        """Wait until most of the queued bytes were read."""
        # The first task that continues may fill the queue again.
        while self.full:
            await self._drained.wait()

    async def flushed(self, timeout: float) -> None:  # noqa: ASYNC109 - the host may never read
        """Wait until everything was written, at most `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._empty.wait()

    def close(self) -> None:
        """Stop the threads after their current read or write."""
        self._closed = True
        self._wanted.release()
        self._unwritten.put(b"")

    # ---- On the loop -----------------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        if self._read is not None and not self._read.done():
            self._read.set_result(data)

    def _written(self, count: int) -> None:
        self._waiting -= count
        if self._waiting <= ROOM // 2:
            self._drained.set()
        if not self._waiting:
            self._empty.set()

    def _broke(self) -> None:
        if not self._broken:
            self._broken = True
            self._drained.set()
            self._empty.set()
            self._on_broken()

    # ---- In the threads --------------------------------------------------------------------------------------------

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        # The event loop may have ended before this thread.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    def _run_reader(self) -> None:
        while True:
            self._wanted.acquire()
            if self._closed:
                return
            try:
                data = os.read(self._source, _CHUNK)
            except OSError:
                data = b""
            self._tell(self._received, data)

    def _run_writer(self) -> None:
        while True:
            data = self._unwritten.get()
            if self._closed and not data:
                return
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._target, view) :]
            except OSError:
                self._tell(self._broke)
                return
            self._tell(self._written, len(data))


MOST_CALLS = 1_000
"""Most concurrent calls; further calls are refused."""
CANCEL = "$/cancelRequest"

_CANCELLED = -32800
"""The code of a cancelled call in the Language Server Protocol."""
_NO_ID = b"null"
_LONGEST_EVENT = 64 * 1024 * 1024
# The content is JSON, and both kinds of answers are read here.
_HEADERS = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))
_VERSION = b"a2a-version"
_FROM_HOST = TO_AGENT - {name for name, _ in _HEADERS}
_TO_HOST = frozenset({b"a2a-extensions", b"x-a2a-extensions"})
_EVENTS = b"text/event-stream"

logger = logging.getLogger("gateway.listener.stdio")

Serve = Callable[[Head, Responder], Coroutine[Any, Any, None]]
Rewrite = Callable[[bytes], Awaitable[bytes]]
"""Returns the answer for the host from the answer of the agent."""


class StdioResponder:
    """One call of the host (`proxy.responder.Responder`).

    Args:
        identity: The raw id for every answer; null for a call without one.
        version: The version of A2A that the host uses.
        rewrite: Rewrites a whole answer; None for no change.

    Attributes:
        opened: Whether an answer has begun.
        extra: As `Responder`; not used, because frames have no place for it.
    """

    def __init__(
        self, client: "StdioClient", identity: bytes, body: bytes, version: Version, rewrite: Rewrite | None = None
    ) -> None:
        self.opened = False
        self.extra: Pairs = []
        self._client = client
        self._id = identity
        self._body = body
        self._version = version
        self._rewrite = rewrite
        self._gone: Callable[[], None] = lambda: None
        self._left = False
        # No more bytes go out.
        self._silent = False
        self._decoder = SseDecoder(_LONGEST_EVENT)
        # For the first frame of the answer.
        self._headers: Pairs = []
        self._ended = False

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once if the host cancels the call, or has cancelled it."""
        if self._left:
            callback()
        else:
            self._gone = callback

    def leave(self) -> None:
        """Drop the answer, and tell the pipeline that the client is gone."""
        if not self._left:
            self._left = self._silent = True
            self._gone()

    def cancel(self) -> None:
        """Cancel the call, and confirm that to the host."""
        self.refuse(_CANCELLED, "cancelled by the client")
        self.leave()

    def refuse(self, code: int, message: str) -> None:
        """Answer with an error, unless the answer is complete; nothing follows it."""
        if self._ended:
            return
        self._ended = True
        self._put(jsonrpc.write_error(self._id, code, message))
        self._silent = True

    async def read(self, limit: int) -> bytes:
        """Return the content of the frame.

        Raises:
            BodyTooLarge: it is longer than `limit` bytes.
        """
        body, self._body = self._body, b""
        check_length(len(body), limit)
        return body

    async def answer(self, status: int, headers: Pairs, body: bytes) -> None:  # noqa: ARG002 - JSON-RPC has its own status
        """Send a whole answer."""
        self._begin(headers)
        await self._client.pipes.drained()
        if dict(headers).get(b"content-type", b"").startswith(_EVENTS):
            self._events(body)
        else:
            content = body if self._rewrite is None else await self._rewrite(body)
            self._ended, is_answered = True, self._ended
            if not is_answered:
                self._put(self._addressed(content, read_message(content)))

    def open(self, status: int, headers: Pairs) -> None:  # noqa: ARG002 - as above
        """Begin a stream."""
        self._begin(headers)

    async def write(self, data: bytes) -> None:
        """Send bytes of a stream; waits while the host reads slowly."""
        await self._client.pipes.drained()
        self._events(data)

    def write_nowait(self, data: bytes) -> bool:
        """Send bytes of a stream without waiting; return False if no more should be written until `drained`."""
        return self._events(data)

    async def drained(self) -> None:
        """Wait until the host has read most of the written bytes."""
        await self._client.pipes.drained()

    async def close(self, trailers: Pairs | None = None) -> None:  # noqa: ARG002 - only gRPC has any
        """End a stream."""
        if not self._ended:
            self._ended = True
            self._headers.append((STREAM_HEADER, b"end"))
            self._put(b'{"jsonrpc":"2.0","id":%b,"result":null}' % self._id)

    def cut(self) -> None:
        """End an answer that is incomplete."""
        self.refuse(INTERNAL_ERROR.code, "the answer broke off")

    def _begin(self, headers: Pairs) -> None:
        self.opened = True
        self._headers = [pair for pair in headers if pair[0] in _TO_HOST]

    def _events(self, data: bytes) -> bool:
        goes_on = True
        single = self._decoder.only(data)
        for event in self._decoder.feed(data) if single is None else (single,):
            content = _content(event)
            if content is not None:
                received = read_message(content)
                self._ended = received is not None and _ends_stream(received, content, self._version)
                goes_on = self._put(self._addressed(content, received))
        return goes_on

    def _addressed(self, content: bytes, received: StdioMessage | None) -> bytes:
        """Return the answer with the id of the call, which alone identifies the call on a pipe."""
        if received is None or self._id in (received.id, _NO_ID):
            return content
        return with_id(received.members, self._id)

    def _put(self, content: bytes) -> bool:
        """Write one frame; return False if the host reads slowly."""
        if self._silent:
            return True
        headers, self._headers = self._headers, []
        return self._client.pipes.write(encode(content, self._client.framing, headers))


class StdioClient:
    """The host and its open calls.

    Args:
        serve: Answers one call.
        path: The path of the agent for every call.
        rewrites: Rewrite the answers of a method, by its name.
        longest: Bytes of the longest frame.
    """

    def __init__(
        self,
        pipes: Pipes,
        serve: Serve,
        *,
        path: bytes,
        framing: Framing = Framing.LSP,
        rewrites: Mapping[str, Rewrite] | None = None,
        longest: int = LONGEST,
    ) -> None:
        self.pipes = pipes
        self.framing = framing
        self._serve = serve
        self._path = path
        self._rewrites = rewrites or {}
        self._longest = longest
        self._calls: dict[asyncio.Task[None], StdioResponder] = {}
        self._by_id: dict[object, StdioResponder] = {}

    @property
    def open(self) -> int:
        """Return the number of calls without a complete answer."""
        return len(self._calls)

    async def run(self, background: Background) -> None:
        """Accept calls until the end of the input; open calls go on.

        Raises:
            BadFrame: The input is not a frame.
        """
        decoder = FrameDecoder(self._longest)
        try:
            while chunk := await self.pipes.read():
                for frame in decoder.feed(chunk):
                    self._take(frame, background)
                if decoder.refused is not None:
                    raise decoder.refused
                # Nothing more is read from a host that does not read its answers.
                await self.pipes.drained()
            if (last := decoder.last) is not None:
                self._take(last, background)
        except BadFrame as error:
            refusal = jsonrpc.write_error(_NO_ID, PARSE_ERROR.code, f"this is no frame: {error}")
            self.pipes.write(encode(refusal, self.framing))
            raise

    async def ended(self, timeout: float) -> None:  # noqa: ASYNC109 - a call may last for hours
        """Wait until every call is answered, at most `timeout` seconds."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=timeout)

    def leave(self) -> None:
        """Cancel every call, because the host is gone."""
        for responder in tuple(self._calls.values()):
            responder.leave()

    def _take(self, frame: Frame, background: Background) -> None:
        received = read_message(frame.content)
        method = None if received is None else _method(received)
        if received is not None and method is not None and not received.id:
            self._notified(method, received.members.get("params"))
            return
        if received is not None and not received.method and received.id and {"result", "error"} & set(received.members):
            logger.warning("the host sent an answer without a request")
            return
        # The pipeline refuses a frame that is no call.
        identity = _NO_ID if received is None else _identity(received, frame.content)
        method = method or ""
        version = Version.V0_3 if "/" in method else Version.V1_0
        responder = StdioResponder(self, identity, frame.content, version, self._rewrites.get(method))
        if len(self._calls) >= MOST_CALLS:
            responder.refuse(RESOURCE_UNAVAILABLE.code, f"more than {MOST_CALLS} calls at a time")
            return
        passed = tuple(pair for pair in frame.headers if pair[0] in _FROM_HOST)
        if version is Version.V1_0 and frame.header(_VERSION) is None:
            # A host that writes lines cannot send it, and agents would read the call as one of 0.3 (1.0 §3.6).
            passed += ((_VERSION, Version.V1_0.encode("ascii")),)
        head = Head("POST", self._path, headers=(*_HEADERS, *passed), peer="127.0.0.1", http_version="")
        task = background.start("call", partial(self._serve, head, responder))
        self._calls[task] = responder
        key = _key(identity)
        self._by_id[key] = responder
        task.add_done_callback(partial(self._done, key, responder))

    def _done(self, key: object, responder: StdioResponder, task: asyncio.Task[None]) -> None:
        self._calls.pop(task, None)
        if self._by_id.get(key) is responder:
            del self._by_id[key]

    def _notified(self, method: str, params: msgspec.Raw | None) -> None:
        if method != CANCEL:
            # JSON-RPC 2.0 §4.1: a notification is never answered, not even by an error.
            logger.warning("the host sent a notification, of which A2A has none")
            return
        try:
            wanted = msgspec.json.decode(params or b"", type=_Cancel).id
        except msgspec.DecodeError:
            logger.warning("%s without an id", CANCEL)
            return
        responder = self._by_id.get(_key(wanted))
        if responder is not None:
            responder.cancel()


class _Cancel(msgspec.Struct):
    id: msgspec.Raw


def _content(event: Event) -> bytes | None:
    """Return the data of an event, or None for a heartbeat."""
    if event.line is not None:
        return event.line
    read = event.read()
    return None if read is None else read[1]


def _identity(received: StdioMessage, content: bytes) -> bytes:
    """Return the raw id of a call; null if it has none, two, or one of another type."""
    is_one = received.id[:1] == b'"' or received.id.lstrip(b"-")[:1].isdigit()
    return received.id if is_one and not strict_json.has_twins(content, received.members) else _NO_ID


def _ends_stream(received: StdioMessage, content: bytes, version: Version) -> bool:
    """Return whether an event ends its stream by itself."""
    return course(received.members, jsonrpc.read_progress(content), version) is Course.ENDS


def _method(received: StdioMessage) -> str | None:
    try:
        return msgspec.json.decode(received.members.get("method", b""), type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _key(identity: bytes | msgspec.Raw) -> object:
    """Return a key for the id of a call; 1 and "1" differ."""
    try:
        value: Any = msgspec.json.decode(identity)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return bytes(identity)
    return (type(value).__name__, value) if isinstance(value, str | int | float) else bytes(identity)
