"""Notify systemd of the state of the service (sd_notify(3)): ready, reloading, stopping, alive.

Without `NOTIFY_SOCKET` in the environment it sends nothing. For Type=notify (from systemd 253 on also notify-reload),
WatchdogSec= and NotifyAccess=main.
"""

import contextlib
import socket
import time
from collections.abc import Mapping

_MICRO = 1_000_000


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
        """Requests are served, or a reload is complete."""
        self._tell("READY=1", "STATUS=serving")

    def reloading(self) -> None:
        """A reload begins; `ready` follows."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={int(time.clock_gettime(time.CLOCK_MONOTONIC) * _MICRO)}")

    def stopping(self) -> None:
        """The service drains and stops."""
        self._tell("STOPPING=1", "STATUS=draining")

    def alive(self) -> None:
        """Send a heartbeat for the watchdog."""
        self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # A missing service manager must not stop the gateway.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto("\n".join(lines).encode(), self._address)
