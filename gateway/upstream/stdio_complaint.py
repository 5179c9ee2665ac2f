"""What an agent on stdio writes to standard error: read always, and told line by line in the gateway's own log.

A pipe that nobody reads stops its writer at 64 KiB. So all is read; but no more than some lines a second are told, the
rest is counted, and who writes more than that is read slowly: a flood costs the agent time, and nobody else.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

LONGEST_LINE = 2048
"""Bytes of a line that are told."""
_BURST = 100.0
_PER_SECOND = 20.0
_REST = 0.01
_TOLD_EVERY = 10.0

logger = logging.getLogger("gateway.upstream.stdio")


class Complaints(asyncio.Protocol):
    """Reads standard error of one process.

    Args:
        name: Whose it is, for the log.
        clock: Monotonic seconds.
    """

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name = name
        self._clock = clock
        self._transport: asyncio.ReadTransport | None = None
        self._line = b""
        self._tokens = _BURST
        self._counted = clock()
        self._untold = 0
        self._told = clock()
        self._resting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The pipe is there."""
        self._transport = cast("asyncio.ReadTransport", transport)  # uvloop's do not inherit from asyncio's

    def data_received(self, data: bytes) -> None:
        """Tell whole lines; what is more than may be told is counted."""
        self._refill()
        if self._tokens < 1 and len(self._line) >= LONGEST_LINE:
            # In the midst of a flood nobody cuts lines.
            self._untold += data.count(b"\n")
            self._slow_down()
            return
        *lines, rest = (self._line + data).split(b"\n")
        for line in lines:
            self._tell(line)
        # What is longer than a line may be is told as far as it is kept.
        self._line = rest[:LONGEST_LINE]
        if self._tokens < 1:
            self._slow_down()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why is the same to everybody
        """The process has closed it, or exited."""
        if self._resting is not None:
            self._resting.cancel()
        if self._line:
            self._tell(self._line)
        self._tell_untold()

    def _tell(self, line: bytes) -> None:
        text = line[:LONGEST_LINE].decode("utf-8", "replace").strip()
        if not text:
            return
        if self._tokens < 1:
            self._untold += 1
            return
        self._tokens -= 1
        logger.info("%s: %s", self._name, text)

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(_BURST, self._tokens + (now - self._counted) * _PER_SECOND)
        self._counted = now
        if now - self._told >= _TOLD_EVERY:
            self._told = now
            self._tell_untold()

    def _tell_untold(self) -> None:
        if self._untold:
            logger.warning("%s wrote %d more lines to standard error than are told", self._name, self._untold)
            self._untold = 0

    def _slow_down(self) -> None:
        if self._transport is None or self._resting is not None or self._transport.is_closing():
            return
        self._transport.pause_reading()
        self._resting = asyncio.get_running_loop().call_later(_REST, self._go_on)

    def _go_on(self) -> None:
        self._resting = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
