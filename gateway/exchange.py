"""The record of one request while it is served: the only mutable thing on the line.

It collects what each step learns, and turns it once, at the end, into metrics and one line of the access log.
"""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import AuthInvalid, ClientGone, Fault
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.progress import NOTHING, Progress
from gateway.kept import FREE, Kept
from gateway.policy.limits import Permit
from gateway.principal import Principal
from gateway.routing.route import Rule
from gateway.tasks.ownership import Ownership
from gateway.telemetry.access import DIGITS, flat, short
from gateway.telemetry.metrics import NO_AGENT, NO_TENANT, OTHER, AgentMeter
from gateway.webhooks import Pushing

FIELDS = (
    "request_id", "trace_id", "agent", "backend", "match_line", "tenant", "principal", "auth_method", "binding",
    "operation", "a2a_version", "a2a_tenant", "task_id", "context_id", "task_state", "status", "rpc_code", "outcome",
    "reason", "detail", "duration_s", "first_byte_s", "upstream_s", "overhead_s", "attempts", "bytes_in", "bytes_out",
    "stream", "events", "closed_by", "client_ip", "method", "path",
)  # fmt: skip
"""The fields of every line of the access log."""

# Of the rules of one endpoint there may be thousands.
_MOST_TOLD = 8
_CLIENT_CODES = frozenset({-32700, -32600, -32601, -32602, *range(-32009, -32000)} - {-32006})


class Exchange:
    """One request from its head to the last byte of its answer.

    Times are monotonic seconds. `fault` is what the gateway itself had to say; what an agent answered, good or bad,
    is in `status` and `progress`. Where no agent was found, `contenders` are the rules that may have been meant.
    `on_event` is called for the first event of a stream, `on_toll` whenever `bytes_out` has come to `toll`. Of the
    bytes that were moved `paid` are charged. Those of long answers and events that are held are counted in `kept`.
    `weight` is its tenant's share of what an agent has.
    """

    __slots__ = (
        "agent", "attempts", "backend", "binding", "bytes_in", "bytes_out", "call", "client_ip", "closed_by",
        "contenders", "events", "fault", "first_byte", "grpc_status", "head", "held", "id", "interrupted", "kept",
        "meter", "on_event", "on_toll", "operation", "ownership", "paid", "permit", "principal", "progress", "pushing",
        "received", "rpc_id", "rule", "sent", "started", "status", "stream", "toll", "trace_id", "upstream", "version",
        "weight",
    )  # fmt: skip

    def __init__(
        self, head: Head, request_id: str, started: float, meter: AgentMeter, kept: Kept | None = None
    ) -> None:
        self.id = request_id
        self.head = head
        self.started = started
        self.meter = meter
        self.client_ip = head.peer
        self.trace_id: str | None = None
        self.binding = Binding.JSONRPC
        self.version: Version = Version.V1_0
        self.rpc_id = b"null"
        self.operation: Operation | None = None
        self.principal: Principal | None = None
        self.call: Call | None = None
        self.ownership: Ownership | None = None
        self.permit: Permit | None = None
        self.weight = 1.0
        self.pushing: Pushing | None = None
        self.rule: Rule | None = None
        self.contenders: tuple[Rule, ...] = ()
        self.agent = NO_AGENT
        self.backend: str | None = None
        self.fault: Fault | None = None
        self.interrupted: Fault | None = None
        self.status = 0
        self.progress: Progress = NOTHING
        self.grpc_status = 0
        self.attempts = 1
        self.sent: float | None = None
        self.received: float | None = None
        self.upstream = 0.0
        self.first_byte: float | None = None
        self.bytes_in = 0
        self.bytes_out = 0
        self.stream = False
        self.events = 0
        self.on_event: Callable[[], None] | None = None
        self.on_toll: Callable[[Exchange], None] | None = None
        self.toll = math.inf
        self.paid = 0
        self.closed_by: str | None = None
        self.kept = Kept() if kept is None else kept
        self.held = 0

    @property
    def outcome(self) -> str:
        """What became of it, from the closed set."""
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
    def hears_events(self) -> bool:
        """Whether the client takes an error before the first event only as an event.

        SDKs before 1.0 look for nothing but events once they have asked for a stream over JSON-RPC, as their servers
        answer so (protocol §5); to them any other answer is a broken one, whatever it says.
        """
        if self.binding is not Binding.JSONRPC or self.version is Version.V1_0:
            return False
        if self.operation is None or not self.operation.streams:
            return False
        # a2a-sdk 0.3 sends the header twice.
        return any(b"text/event-stream" in accepted for accepted in self.head.all(b"accept"))

    def hold(self, size: int) -> None:
        """Count the bytes of the answer that are held now, in place of those that were held before.

        Raises:
            Overloaded: the process holds as much as it may.
        """
        size = size if size > FREE else 0
        if size != self.held:
            self.kept.change(self.held, size)
            self.held = size

    def moved(self, size: int) -> None:
        """Count bytes of an answer of several pieces that go out."""
        self.bytes_out += size
        if self.bytes_out >= self.toll and self.on_toll is not None:
            self.on_toll(self)

    def saw(self, progress: Progress) -> None:
        """Keep what a frame told, beside what earlier ones did."""
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

    def close(self, now: float) -> dict[str, Any]:
        """Count the exchange, and give its line for the access log, its values flat."""
        duration = now - self.started
        first_byte = None if self.first_byte is None else self.first_byte - self.started
        if self.sent is not None and self.received is None:
            self.upstream = now - self.sent
        overhead = None
        if first_byte is not None:
            # What waited for an answer that never began waited for the agent all the same.
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
        meter.timed(kind, duration, first_byte, overhead)
        if self.progress.state is not None and self.operation is not None and self.operation.sends:
            meter.task(self.progress.state)
        return self._line(duration, first_byte, overhead, outcome)

    def _line(self, duration: float, first_byte: float | None, overhead: float | None, outcome: str) -> dict[str, Any]:
        call, told, fault = self.call, self.progress, self.fault
        standing = self._standing()
        return {
            "request_id": self.id,
            "trace_id": self.trace_id,
            **standing.front,
            "a2a_tenant": None if call is None else short(call.tenant),
            "task_id": short(told.task_id or (None if call is None else call.task_id)),
            "context_id": short(told.context_id or (None if call is None else call.context_id)),
            "task_state": told.state,
            "status": self.status,
            "rpc_code": self._told_code() if fault is None else self._rpc_code(fault),
            "outcome": outcome,
            "reason": None if fault is None else fault.reason,
            "detail": None if fault is None else short(fault.detail or None),
            "duration_s": round(duration, DIGITS),
            "first_byte_s": None if first_byte is None else round(first_byte, DIGITS),
            "upstream_s": None if self.sent is None else round(self.upstream, DIGITS),
            "overhead_s": None if overhead is None else round(overhead, DIGITS),
            "attempts": 0 if self.sent is None else self.attempts,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "stream": self.stream,
            "events": self.events,
            "closed_by": self.closed_by,
            **standing.back,
        }

    def _standing(self) -> "_Standing":
        """What the line has in common with that of the next exchange with the same head."""
        head, principal = self.head, self.principal
        known = head.known.get(_Standing)
        if (
            isinstance(known, _Standing)
            and known.rule is self.rule
            and known.principal is principal
            and known.operation is self.operation
            and known.version is self.version
            and known.binding is self.binding
            and known.backend == self.backend
            and known.client_ip == self.client_ip
        ):
            return known
        front = {
            "agent": self._meant() if self.agent == NO_AGENT else self.agent,
            "backend": self.backend,
            "match_line": self._places() if self.rule is None else str(self.rule.place),
            "tenant": None if principal is None else principal.tenant,
            "principal": None if principal is None else principal.shown or None,
            "auth_method": None if principal is None else principal.method,
            "binding": self.binding.label,
            "operation": self.operation,
            "a2a_version": self.version,
        }
        back = {
            "client_ip": self.client_ip,
            "method": head.method,
            # The query may hold a token; it is dropped.
            "path": head.path.decode("ascii", "replace"),
        }
        made = _Standing(
            self.rule,
            principal,
            self.operation,
            self.version,
            self.binding,
            self.backend,
            self.client_ip,
            {name: flat(value) for name, value in front.items()},
            {name: flat(value) for name, value in back.items()},
        )
        # A stream has let go of its head, and who was refused may have been meant for others the next time.
        if self.rule is not None and self.backend is not None and not self.stream:
            head.known[_Standing] = made
        return made

    def _meant(self) -> str | None:
        """The agents that a refused request may have meant: the one it was denied, or those that contended for it."""
        if self.rule is not None:
            return self.rule.agent
        return ", ".join(dict.fromkeys(rule.agent for rule in self.contenders[:_MOST_TOLD])) or None

    def _places(self) -> str | None:
        return ", ".join(str(rule.place) for rule in self.contenders[:_MOST_TOLD]) or None

    def _told_code(self) -> int | None:
        """The code that an agent's own error has for the client: that of gRPC over gRPC."""
        return self.progress.error if self.binding is not Binding.GRPC else (self.grpc_status or None)

    def _rpc_code(self, fault: Fault) -> int | None:
        if isinstance(fault, ClientGone):
            # Nobody was told any.
            return None
        if self.binding is Binding.GRPC:
            return self.grpc_status
        if self.binding is Binding.JSONRPC:
            return jsonrpc.code_of(fault, self.version, midway=self.stream)
        return self.progress.error


class _Standing(msgspec.Struct, frozen=True, eq=False):
    """What the lines of many exchanges have in common: the fields, and by what they are the same.

    Attributes:
        front: Those from `agent` to `a2a_version`.
        back: Those from `client_ip` on.
    """

    rule: Rule | None
    principal: Principal | None
    operation: Operation | None
    version: Version
    binding: Binding
    backend: str | None
    client_ip: str
    front: dict[str, object]
    back: dict[str, object]


async def meet(exchange: Exchange, told: Progress) -> None:
    """Write down what an agent's frame names, before it leaves.

    Raises:
        UpstreamProtocol, StateUnavailable: as `Ownership.observe`.
    """
    ownership, pushing = exchange.ownership, exchange.pushing
    # A list that comes here is not gone through, for all of it is one owner's.
    if ownership is not None and exchange.operation is not Operation.LIST_TASKS:
        await ownership.observe(told)
    if pushing is not None and pushing.waits and told.task_id:
        await pushing.met(told.task_id)


def untrusted_line(peer: str, request_id: str, why: str) -> dict[str, Any]:
    """The line of a client whose certificate was refused, before there was a request."""
    return dict.fromkeys(FIELDS) | {
        "request_id": request_id,
        "outcome": AuthInvalid.outcome,
        "reason": AuthInvalid.reason,
        "detail": why,
        "client_ip": peer,
    }


def unread_line(peer: str, request_id: str, status: int, words: str) -> dict[str, Any]:
    """The line of what was refused before it was a request: hardly any field of it is known.

    Args:
        words: What the client was told.
    """
    crowded = status == 503
    return dict.fromkeys(FIELDS) | {
        "request_id": request_id,
        "status": status,
        "outcome": "limited" if crowded else "client_error",
        "reason": "overloaded" if crowded else "bad_request",
        "detail": words,
        "client_ip": peer,
    }
