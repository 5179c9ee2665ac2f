"""Tells systemd how the service is (sd_notify(3)): ready, reading its configuration again, stopping, alive.

Without `NOTIFY_SOCKET` in the environment nothing is told. For Type=notify (from systemd 253 on also notify-reload),
WatchdogSec= and NotifyAccess=main.
"""

import contextlib
import socket
import time
from collections.abc import Mapping

_MICRO = 1_000_000


class Notifier:
    """One service, as its manager hears of it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # An @ stands for the first byte of an abstract address.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog = environ.get("WATCHDOG_USEC", "")
        self.alive_every = int(watchdog) / _MICRO / 2 if address and watchdog.isdigit() else 0.0
        """Seconds between two signs of life; 0 where nobody waits for one."""

    def ready(self) -> None:
        """It takes requests, by the configuration that it was told to read."""
        self._tell("READY=1", "STATUS=serving")

    def reloading(self) -> None:
        """It reads its configuration again; `ready` follows."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={int(time.clock_gettime(time.CLOCK_MONOTONIC) * _MICRO)}")

    def stopping(self) -> None:
        """It ends, within its own time."""
        self._tell("STOPPING=1", "STATUS=draining")

    def alive(self) -> None:
        """It is not stuck."""
        self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # Nobody hears it: that is no reason to serve nobody.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto("\n".join(lines).encode(), self._address)
