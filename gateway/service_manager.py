"""Signals that end the process, and notifications to the service manager.

The kernel delivers no unhandled signal to the first process of a container, so it needs a handler at any time: before
the event loop runs, after it has ended, and when it is stuck. Log lines of the last moment may be lost.

The notifications are those of sd_notify(3): ready, reloading, stopping, alive. They serve Type=notify (from systemd 253
on also notify-reload), WatchdogSec= and NotifyAccess=main. Without `NOTIFY_SOCKET` in the environment nothing is sent.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType

_MICRO = 1_000_000
SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SERVE = frozenset({"serve", "demo"})


class Notifier:
    """Sends notifications to the service manager."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # systemd writes the first byte of an abstract address as @.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog = environ.get("WATCHDOG_USEC", "")
        self.alive_every = int(watchdog) / _MICRO / 2 if address and watchdog.isdigit() else 0.0
        """Seconds between two heartbeats; 0 without a watchdog."""

    def ready(self) -> None:
        """Report that requests are served, or a reload is complete."""
        self._send("READY=1", "STATUS=serving")

    def reloading(self) -> None:
        """Report the begin of a reload; `ready` follows."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={int(time.clock_gettime(time.CLOCK_MONOTONIC) * _MICRO)}")

    def stopping(self) -> None:
        """Report that the service drains and stops."""
        self._send("STOPPING=1", "STATUS=draining")

    def alive(self) -> None:
        """Send a heartbeat for the watchdog."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # A missing service manager must not stop the gateway.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto("\n".join(lines).encode(), self._address)


def serves(arguments: list[str]) -> bool:
    """Return whether the command serves until a signal; ending by one is then a success."""
    return next((each for each in arguments if not each.startswith("-")), None) in _SERVE


def leave_at_once() -> None:
    """Let SIGTERM and SIGINT end this process with exit code 0."""
    for number in SIGNALS:
        signal.signal(number, _leave)


def leave_within(seconds: float, last: Callable[[], None]) -> threading.Timer:
    """End this process after a time with exit code 0, unless the returned timer is cancelled.

    Args:
        last: Called in a thread just before the end.
    """

    def leave() -> None:
        try:
            last()
        finally:
            os._exit(0)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
    return timer


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)
