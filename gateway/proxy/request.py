"""The context of one request while it is served: the only mutable object of the pipeline.

It collects the results of each step, and becomes metrics and one line of the access log at the end.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import (
    INTERNAL_ERROR,
    INVALID_AGENT_RESPONSE,
    KINDS_1_0,
    METHOD_NOT_FOUND,
    PUSH_NOTIFICATION_NOT_SUPPORTED,
    TASK_NOT_FOUND,
    ClientGone,
    Fault,
    StateUnavailable,
    UpstreamConnect,
)
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.progress import NOTHING, Progress
from gateway.policy.limits import Permit
from gateway.principal import Principal
from gateway.proxy.client_address import trace_id
from gateway.proxy.connection_cache import ConnectionCache, LogFields
from gateway.proxy.overload import FREE, AnswerMemory
from gateway.push.webhooks import CallWebhooks
from gateway.routing.route import Rule
from gateway.tasks.affinity import SkillCall
from gateway.tasks.ownership import Ownership
from gateway.tasks.store import OPEN
from gateway.telemetry.access_log import DIGITS, flat, short
from gateway.telemetry.metrics import NO_AGENT, NO_TENANT, OTHER, AgentMeter

if TYPE_CHECKING:
    # It imports an optional library.
    from gateway.telemetry.tracing import ExchangeSpan, GatewayTracer

FIELDS = (
    "request_id", "trace_id", "agent", "backend", "match_line", "tenant", "principal", "auth_method", "binding",
    "operation", "a2a_version", "a2a_tenant", "task_id", "context_id", "task_state", "status", "rpc_code", "outcome",
    "reason", "detail", "duration_s", "first_byte_s", "upstream_s", "overhead_s", "attempts", "bytes_in", "bytes_out",
    "stream", "events", "closed_by", "upstream_address", "client_ip",
    "host", "user_agent", "http_version", "method", "path",
)  # fmt: skip
"""The fields of every line of the access log; a traced request has `span_id` beside them."""
_EMPTY: Mapping[str, Any] = dict.fromkeys(FIELDS)

STREAM_OPEN = "open"
"""The outcome in the line of a stream that has just opened."""

# One endpoint may have thousands of rules.
_MOST_NAMED = 8
_CLIENT_CODES = frozenset(kind.code for kind in KINDS_1_0) - {INVALID_AGENT_RESPONSE.code, INTERNAL_ERROR.code}
_NEVER_STORED = frozenset({TASK_NOT_FOUND.code, PUSH_NOTIFICATION_NOT_SUPPORTED.code, METHOD_NOT_FOUND.code})
"""Errors after which an agent has stored no webhook: unknown task, no push support, unknown method."""


class RequestContext(msgspec.Struct, eq=False):
    """One request from its head to the last byte of its answer; a struct, since one is made for each.

    Times are monotonic seconds.

    Attributes:
        fault: The gateway's own refusal; an agent's answer, good or bad, is in `status` and `progress`.
        interrupted: Why the request was ended from outside.
        trace_id: The trace that the client's `traceparent` names; with tracing that of `span`.
        span_id: The id of `span`, or None.
        span: The server span; None without tracing.
        contenders: The rules that may have been meant, if no agent was selected.
        weight: The tenant's share of an agent's capacity.
        user_agent: The header of that name, after a stream has dropped its head.
        on_event: Called for the first event of a stream.
        on_stream: Called when a stream opens.
        on_toll: Called whenever `bytes_out` reaches `toll`.
        paid: Bytes that were charged already.
        held: Bytes of long answers and events that are counted in `kept` for this request.
    """

    head: Head
    id: str
    started: float
    meter: AgentMeter
    kept: AnswerMemory = msgspec.field(default_factory=AnswerMemory)
    cache: ConnectionCache = msgspec.field(default_factory=ConnectionCache)
    client_ip: str = ""
    trace_id: str | None = None
    span_id: str | None = None
    span: "ExchangeSpan | None" = None
    binding: Binding = Binding.JSONRPC
    version: Version = Version.V1_0
    rpc_id: bytes = b"null"
    operation: Operation | None = None
    principal: Principal | None = None
    call: Call | None = None
    ownership: Ownership | None = None
    by_skill: SkillCall | None = None
    permit: Permit | None = None
    weight: float = 1.0
    pushing: CallWebhooks | None = None
    rule: Rule | None = None
    contenders: tuple[Rule, ...] = ()
    agent: str = NO_AGENT
    backend: str | None = None
    fault: Fault | None = None
    interrupted: Fault | None = None
    status: int = 0
    progress: Progress = NOTHING
    grpc_status: int = 0
    attempts: int = 1
    sent: float | None = None
    received: float | None = None
    upstream: float = 0.0
    first_byte: float | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    stream: bool = False
    events: int = 0
    upstream_address: str | None = None
    user_agent: bytes | None = None
    on_event: Callable[[], None] | None = None
    on_stream: "Callable[[RequestContext], None] | None" = None
    on_toll: "Callable[[RequestContext], None] | None" = None
    toll: float = math.inf
    paid: int = 0
    closed_by: str | None = None
    held: int = 0

    def trace(self, tracing: "GatewayTracer | None") -> None:
        """Begin the server span, if there is tracing, and name the trace that the request belongs to."""
        if tracing is None:
            self.trace_id = trace_id(self.head)
            return
        self.span = tracing.exchange(self.head)
        self.trace_id, self.span_id = self.span.trace_id, self.span.span_id

    @property
    def outcome(self) -> str:
        """Return the outcome of the request, from the closed set."""
        if self.fault is not None:
            return self.fault.outcome
        if self.status == 429:
            return "limited"
        if self.status >= 500 or (self.progress.error is not None and self.progress.error not in _CLIENT_CODES):
            return "upstream_error"
        if self.status >= 400 or self.progress.error is not None:
            return "client_error"
        return "task_failed" if self.progress.state in ("failed", "rejected") else "ok"

    @property
    def expects_events(self) -> bool:
        """Return whether the client understands an error before the first event only as an event.

        SDKs before 1.0 that ask for a stream over JSON-RPC read nothing but events (protocol §5).
        """
        if self.binding is not Binding.JSONRPC or self.version is Version.V1_0:
            return False
        if self.operation is None or not self.operation.streams:
            return False
        # a2a-sdk 0.3 sends the header twice.
        return any(b"text/event-stream" in accepted for accepted in self.head.all(b"accept"))

    def hold(self, size: int) -> None:
        """Set the number of bytes of the answer that are held now.

        Raises:
            Overloaded: the process holds as much as it may.
        """
        size = size if size > FREE else 0
        if size != self.held:
            self.kept.change(self.held, size)
            self.held = size

    def moved(self, size: int) -> None:
        """Count bytes of a streamed answer that go out."""
        self.bytes_out += size
        if self.bytes_out >= self.toll:
            self.charge()

    def charge(self) -> None:
        """Charge the bytes of a streamed answer that have not been charged yet."""
        if self.on_toll is not None:
            self.on_toll(self)

    def add_progress(self, progress: Progress) -> None:
        """Keep the progress of a frame, merged with that of earlier frames."""
        if self.span is not None:
            self.span.add_progress(progress)
        before = self.progress
        if before is NOTHING:
            self.progress = progress
            return
        self.progress = Progress(
            id=progress.id,
            task_id=progress.task_id or before.task_id,
            context_id=progress.context_id or before.context_id,
            state=progress.state or before.state,
            event=progress.event,
            error=progress.error,
        )

    def forget_head(self) -> None:
        """Drop the head except the fields of the log, because a stream may last for hours."""
        self.user_agent = self.head.first(b"user-agent")
        self.head.forget()

    def opened(self, now: float) -> dict[str, Any]:
        """Return the line of a stream that has just opened; its values are flat."""
        duration = now - self.started
        return self._line(duration, duration, None, STREAM_OPEN)

    def close(self, now: float) -> dict[str, Any]:
        """Count the request, and return its line for the access log; its values are flat."""
        duration = now - self.started
        first_byte = None if self.first_byte is None else self.first_byte - self.started
        if self.sent is not None and self.received is None:
            self.upstream = now - self.sent
        overhead = None
        if first_byte is not None:
            # The time until an answer that never began counts, too.
            until = self.first_byte if self.received is None else self.received
            waited = 0.0 if self.sent is None or until is None else until - self.sent
            overhead = max(first_byte - waited, 0.0)
        outcome = self.outcome
        tenant = NO_TENANT if self.principal is None else self.principal.tenant
        meter = self.meter
        operation = OTHER if self.operation is None else self.operation
        meter.request(operation, self.binding.label, outcome, tenant)
        if self.fault is not None:
            meter.rejected(self.fault.reason)
            if self.fault.reason == "task_not_owned":
                meter.task_denied(operation)
        kind = Kind.OTHER if self.operation is None else self.operation.kind
        meter.timed(kind, duration, first_byte, overhead, self.trace_id)
        meter.sized(self.bytes_in, self.bytes_out)
        if self.progress.state is not None and self.operation is not None:
            self._count_task(self.progress.state, self.operation, duration)
        line = self._line(duration, first_byte, overhead, outcome)
        if self.span is not None:
            self.span.end(line, "" if self.agent == NO_AGENT else self.agent)
        return line

    def _count_task(self, state: str, operation: Operation, duration: float) -> None:
        if operation.sends:
            self.meter.task(state)
        if state in OPEN or operation is Operation.LIST_TASKS:
            return
        age = None if self.ownership is None else self.ownership.open_task_age
        if age is None and operation.sends:
            # It made the task, or the ledger does not know the task.
            age = duration
        if age is not None:
            self.meter.task_ended(age, self.trace_id)

    def _line(self, duration: float, first_byte: float | None, overhead: float | None, outcome: str) -> dict[str, Any]:
        call, progress, fault = self.call, self.progress, self.fault
        # A copy with all names in place takes half the time of a new mapping.
        line = self._log_fields().line.copy()
        line["request_id"] = self.id
        line["trace_id"] = self.trace_id
        if call is not None:
            line["a2a_tenant"] = short(call.tenant)
            line["task_id"] = short(progress.task_id or call.task_id)
            line["context_id"] = short(progress.context_id or call.context_id)
        elif progress is not NOTHING:
            line["task_id"] = short(progress.task_id)
            line["context_id"] = short(progress.context_id)
        line["task_state"] = progress.state
        line["status"] = self.status
        line["rpc_code"] = self._rpc_code()
        line["outcome"] = outcome
        if fault is not None:
            line["reason"] = fault.reason
            line["detail"] = short(fault.detail or None)
        line["duration_s"] = round(duration, DIGITS)
        if first_byte is not None:
            line["first_byte_s"] = round(first_byte, DIGITS)
        if overhead is not None:
            line["overhead_s"] = round(overhead, DIGITS)
        if self.sent is None:
            line["attempts"] = 0
        else:
            line["upstream_s"] = round(self.upstream, DIGITS)
            line["attempts"] = self.attempts
        line["bytes_in"] = self.bytes_in
        line["bytes_out"] = self.bytes_out
        line["stream"] = self.stream
        line["events"] = self.events
        line["closed_by"] = self.closed_by
        line["upstream_address"] = self.upstream_address
        if self.span_id is not None:
            line["span_id"] = self.span_id
        return line

    def _log_fields(self) -> LogFields:
        """Return the fields that the next request with the same head is likely to have, too."""
        head, principal, rule = self.head, self.principal, self.rule
        key = (rule, principal, self.operation, self.version, self.binding, self.backend, self.client_ip)
        known = self.cache.log_fields
        if known is not None and known.key == key:
            return known
        named = (rule,) if rule is not None else self.contenders[:_MOST_NAMED]
        agent = head.first(b"user-agent") or self.user_agent
        # Of a refused request the possible agents.
        meant = ", ".join(dict.fromkeys(each.agent for each in named)) or None
        values = {
            "agent": self.agent if self.agent != NO_AGENT else meant,
            "backend": self.backend,
            "match_line": ", ".join(str(each.place) for each in named) or None,
            "tenant": None if principal is None else principal.tenant,
            "principal": None if principal is None else principal.shown or None,
            "auth_method": None if principal is None else principal.method,
            "binding": self.binding.label,
            "operation": self.operation,
            "a2a_version": self.version,
            "client_ip": self.client_ip,
            "host": head.host or None,
            "user_agent": None if agent is None else agent.decode("latin-1"),
            "http_version": head.http_version or None,
            "method": head.method,
            # The query may hold a token; it is dropped.
            "path": head.path.decode("ascii", "replace"),
        }
        fields = LogFields(key, {**_EMPTY, **{name: flat(value) for name, value in values.items()}})
        # A refused request may have other possible agents the next time, and a stream has dropped its head.
        if rule is not None and self.backend is not None and not self.stream:
            self.cache.log_fields = fields
        return fields

    def _rpc_code(self) -> int | None:
        """Return the error code that the client got: that of gRPC over gRPC."""
        fault = self.fault
        if fault is not None and isinstance(fault, ClientGone):
            return None
        if self.binding is Binding.GRPC:
            return self.grpc_status or None
        if fault is None or self.binding is not Binding.JSONRPC:
            return self.progress.error
        return jsonrpc.code_of(fault, self.version, midway=self.stream)


def request_ids() -> Iterator[str]:
    """Yield unpredictable request ids of 16 hex digits; one system call gives the random bytes of 512 ids."""
    while True:
        digits = os.urandom(4096).hex()
        for start in range(0, len(digits), 16):
            yield digits[start : start + 16]


async def record_owner(request: RequestContext, progress: Progress) -> None:
    """Record the owner of the ids in an agent's frame, before the frame goes out.

    Raises:
        UpstreamProtocol, StateUnavailable: as `Ownership.observe`.
    """
    ownership, pushing = request.ownership, request.pushing
    # All tasks of a list that comes here belong to one owner.
    if ownership is not None and request.operation is not Operation.LIST_TASKS:
        await ownership.observe(progress)
    if pushing is not None and pushing.waits and progress.task_id:
        await pushing.bind(progress.task_id)


async def settle_webhook(request: RequestContext, pushing: CallWebhooks) -> None:
    """Drop or bind the webhook of a call whose answer named no task; if that fails, it expires later.

    A client that leaves before the answer comes keeps its webhook: the agent may have begun. An error of a send proves
    nothing either, as a2a-sdk stores the webhook before the agent runs.
    """
    error, operation = request.progress.error, request.operation
    was_sent = request.sent is not None and not isinstance(request.fault, UpstreamConnect)
    sends = operation is not None and operation.sends
    with suppress(StateUnavailable):
        if not was_sent or (error is not None and (error in _NEVER_STORED or not sends)):
            await pushing.end()
        elif request.progress.event == "message":
            await pushing.answered()


def headless_line(peer: str, request_id: str, kind: type[Fault], why: str, status: int | None = None) -> dict[str, Any]:
    """Return the line of a client that was refused before it had sent a head.

    Args:
        status: Of the answer, if there was one.
    """
    return dict.fromkeys(FIELDS) | {
        "request_id": request_id,
        "status": status,
        "outcome": kind.outcome,
        "reason": kind.reason,
        "detail": why,
        "client_ip": peer,
    }
