"""The audit log: one event for each refusal and each change, with its principal; never message contents.

Without `observe.audit`, events are lines of the gateway's own log, by the logger `gateway.audit`.
"""

import logging
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, cast

from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.log_output import RotatedFile

logger = logging.getLogger("gateway.audit")

STRANGERS = 10
"""Refused credentials per second with an event of their own, because clients can send any number."""


class AuditEvent(StrEnum):
    """The closed set of the field `event`."""

    IDENTITY_REFUSED = "identity_refused"
    """A credential was missing or invalid."""
    AGENT_DENIED = "agent_denied"
    """A caller asked for an agent that it may not call, or for two."""
    TASK_DENIED = "task_denied"
    """A call named a task of another owner."""
    ANSWER_WITHHELD = "answer_withheld"
    """An agent's answer named a task or a context of another owner."""
    WEBHOOK_REFUSED = "webhook_refused"
    """A push configuration named a forbidden webhook, or one that has become forbidden."""
    NOTIFICATION_REFUSED = "notification_refused"
    """A notification named a task of another owner, or lacked the token of its callback."""
    CONFIGURATION_CHANGED = "configuration_changed"
    """A configuration was activated."""
    ADMIN_CALLED = "admin_called"
    """A request to the admin listener for more than health and metrics."""
    STATE_ERASED = "state_erased"
    """The state of a tenant was erased."""
    KEY_ROTATED = "key_rotated"
    """The key that signs notifications was rotated."""


BY_REASON: Mapping[str, AuditEvent] = {
    "auth_missing": AuditEvent.IDENTITY_REFUSED,
    "auth_invalid": AuditEvent.IDENTITY_REFUSED,
    "auth_expired": AuditEvent.IDENTITY_REFUSED,
    "tenant_denied": AuditEvent.AGENT_DENIED,
    "route_conflict": AuditEvent.AGENT_DENIED,
    "insufficient_scope": AuditEvent.AGENT_DENIED,
    "task_not_owned": AuditEvent.TASK_DENIED,
    "push_denied": AuditEvent.WEBHOOK_REFUSED,
}
"""The refusals of calls that are events."""

FIELDS = (
    "request_id", "trace_id", "tenant", "principal", "auth_method", "client_ip", "agent", "operation", "a2a_tenant",
    "task_id", "context_id", "reason", "detail",
)  # fmt: skip
"""Fields of the access log line that an event of a call has."""


class AuditLog:
    """Writes events; never blocks, and never fails a call.

    At most `STRANGERS` refused credentials per second are written; the next event has the number of the others in
    `omitted`.

    Args:
        stream: The output; None for the gateway's own log.
        clock: Monotonic seconds.
    """

    def __init__(self, stream: BinaryIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second = -1
        self._strangers = self._omitted = 0
        self._lines = None if stream is None else AccessLog(stream)

    @classmethod
    def open(cls, path: Path, clock: Callable[[], float] = time.monotonic) -> "AuditLog":
        """Return the log at a path, which is appended to.

        A new file is readable by its owner only. After rotation or removal a new file is opened at the same path.

        Raises:
            OSError: It cannot be opened, or it is a pipe without a reader.
        """
        return cls(cast("BinaryIO", RotatedFile(path)), clock)

    @property
    def dropped(self) -> int:
        """Return the number of lost events."""
        return 0 if self._lines is None else self._lines.dropped

    def write(self, event: AuditEvent, fields: Mapping[str, object]) -> None:
        """Write one event with its fields."""
        if self._lines is not None:
            self._lines.write({"event": event.value, **fields})
            return
        known = {f"audit_{name}": value for name, value in fields.items() if value is not None}
        logger.info("%s", event.value, extra=known)

    def call(self, event: AuditEvent, line: Mapping[str, object]) -> None:
        """Write one event of a call.

        Args:
            line: The call's line in the access log.
        """
        fields: dict[str, object] = {name: line.get(name) for name in FIELDS}
        if event is AuditEvent.IDENTITY_REFUSED:
            second = int(self._clock())
            if second != self._second:
                self._second, self._strangers = second, 0
            self._strangers += 1
            if self._strangers > STRANGERS:
                self._omitted += 1
                return
            if self._omitted:
                fields["omitted"], self._omitted = self._omitted, 0
        self.write(event, fields)

    def close(self) -> None:
        """Write queued events."""
        if self._lines is not None:
            self._lines.close()
