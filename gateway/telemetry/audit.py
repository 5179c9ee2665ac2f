"""The audit log: one event for each thing that somebody was kept from, or changed, and who that was.

It says who and what, never what was in a message. Where the file writes no place of its own for it (`observe.audit`),
events are lines of the gateway's own log, under the logger `gateway.audit`.
"""

import logging
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from gateway.telemetry.access import AccessLog

logger = logging.getLogger("gateway.audit")


class Event(StrEnum):
    """What happened; the closed set of the field `event`."""

    IDENTITY_REFUSED = "identity_refused"
    """A credential was missing or proved nothing."""
    AGENT_DENIED = "agent_denied"
    """A caller asked for an agent that it may not call, or its words pointed at two."""
    TASK_DENIED = "task_denied"
    """A call named a task that is not its caller's."""
    ANSWER_WITHHELD = "answer_withheld"
    """An agent's answer named a task or a context that is another's."""
    WEBHOOK_REFUSED = "webhook_refused"
    """A push configuration pointed where none may."""
    CONFIGURATION_CHANGED = "configuration_changed"
    """A configuration was put to use."""
    ADMIN_CALLED = "admin_called"
    """Somebody asked the operators' listener for more than health and metrics."""
    STATE_ERASED = "state_erased"
    """What was known of a tenant was erased."""


BY_REASON: Mapping[str, Event] = {
    "auth_missing": Event.IDENTITY_REFUSED,
    "auth_invalid": Event.IDENTITY_REFUSED,
    "auth_expired": Event.IDENTITY_REFUSED,
    "tenant_denied": Event.AGENT_DENIED,
    "route_conflict": Event.AGENT_DENIED,
    "task_not_owned": Event.TASK_DENIED,
    "push_denied": Event.WEBHOOK_REFUSED,
}
"""Which refusals of calls are events."""

FIELDS = (
    "request_id", "trace_id", "tenant", "principal", "auth_method", "client_ip", "agent", "operation", "a2a_tenant",
    "task_id", "context_id", "reason", "detail",
)  # fmt: skip
"""What an event of a call has of the call's line in the access log."""


class AuditLog:
    """Writes events; never blocks, and never fails a call.

    Args:
        stream: Where they go; None for the gateway's own log.
    """

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = stream
        self._lines = None if stream is None else AccessLog(stream)

    @classmethod
    def open(cls, path: Path | None) -> "AuditLog":
        """The log at a path, which is appended to and which only its owner may read; None for the gateway's own log.

        Raises:
            OSError: it cannot be opened.
        """
        if path is None:
            return cls()
        return cls(open(path, "ab", buffering=0, opener=_private))

    @property
    def dropped(self) -> int:
        """How many events were never written."""
        return 0 if self._lines is None else self._lines.dropped

    def write(self, event: Event, fields: Mapping[str, object]) -> None:
        """Write one event with what is known of it."""
        if self._lines is not None:
            self._lines.write({"event": event.value, **fields})
            return
        known = {f"audit_{name}": value for name, value in fields.items() if value is not None}
        logger.info("%s", event.value, extra=known)

    def call(self, event: Event, line: Mapping[str, object]) -> None:
        """Write one event of a call.

        Args:
            line: The call's line in the access log.
        """
        self.write(event, {name: line.get(name) for name in FIELDS})

    def close(self) -> None:
        """Write what is queued."""
        if self._lines is not None:
            self._lines.close()
        if self._stream is not None:
            self._stream.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
