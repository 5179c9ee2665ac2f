"""Standard input and output of this process, which may be pipes, files or a terminal, without blocking the loop.

Each has a thread of its own: the loops differ in which of these they can watch, and a host that does not read must not
keep a signal from being heard. Both are daemons, so neither keeps the process from ending.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

_CHUNK = 64 * 1024
ROOM = 1024 * 1024
"""Bytes that may wait to be written before whoever writes should wait as well."""


class Pipes:
    """What comes in on one descriptor, and goes out on another.

    Args:
        on_broken: Called once, on the loop, where nobody reads what is written any more.
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
        """The next bytes; none at the end. Nothing is read before somebody asks."""
        self._read = self._loop.create_future()
        self._wanted.release()
        return await self._read

    def write(self, data: bytes) -> bool:
        """Have bytes written in one go; False where no more should be written until `drained`."""
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
        """Whether no more should be written for now."""
        return not self._drained.is_set()

    async def drained(self) -> None:
        """Wait until most of what waits was read."""
        # Of all that wait, the first to go on may fill it again.
        while self.full:
            await self._drained.wait()

    async def flushed(self, timeout: float) -> None:  # noqa: ASYNC109 - the host may never read
        """Wait until all was written, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._empty.wait()

    def close(self) -> None:
        """Let the threads go: nothing is read or written any more, but for what one of them is at."""
        self._closed = True
        self._wanted.release()
        self._unwritten.put(b"")

    # ---- On the loop -----------------------------------------------------------------------------------------------

    def _came(self, data: bytes) -> None:
        if self._read is not None and not self._read.done():
            self._read.set_result(data)

    def _wrote(self, count: int) -> None:
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
        # Whoever serves has gone before the thread.
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
            self._tell(self._came, data)

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
            self._tell(self._wrote, len(data))
