"""Retry: whether, when and where a call is sent again, and what each try says about its replica.

    operation                       nothing was sent   no answer came   503 with Retry-After of at most 2 s
    reads: GetTask, ListTasks,      yes                once             once
      Get and ListPush, the card
    CancelTask, DeletePush,         yes                once             no
      SubscribeToTask
    CreatePush                      yes                once, if the client named the configuration    no
    SendMessage                     yes                once, if the agent deduplicates messages       no
    SendStreamingMessage            yes                no               no

Timeouts are never retried, and neither is a stream after its first event: its client subscribes to the task.

A call of which nothing was sent goes to another replica at once; every other retry waits for a random moment, so that
callers that failed together do not come back together. There is no retry while the circuit breaker of the backend is
open, and none beyond the retry budget.

A call that belongs to one replica is retried there. If the file says so it waits for that replica while no connection
can be made, whatever the operation: nothing was sent. A message that may have been seen is retried at the same replica,
too: an agent deduplicates only the messages that it has met itself.

A call that did not reach a replica uses new connections there: an agent that stops closes its listener first and its
connections one after the other, so an idle connection may be about to be reset.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import (
    BadParams,
    Fault,
    MethodNotAllowed,
    NoHealthyBackend,
    Overloaded,
    UpstreamConnect,
    UpstreamProtocol,
    UpstreamReset,
    VersionUnsupported,
)
from gateway.a2a.operation import Operation
from gateway.telemetry.metrics import AgentMeter
from gateway.upstream.balancer import NOT_HALF_OPEN, Balancer
from gateway.upstream.credentials import subject_of
from gateway.upstream.dialects import Interface
from gateway.upstream.error_page import retry_after
from gateway.upstream.http import HttpUpstream
from gateway.upstream.oauth2 import NoToken, TokenSource
from gateway.upstream.outlier_detection import NotAccepted, Reclaimed, Unsent, counts, tells_nothing
from gateway.upstream.replica import Replica
from gateway.upstream.upstream import Caller, Reply

if TYPE_CHECKING:
    # It imports an optional library.
    from gateway.telemetry.tracing import AttemptSpan, ExchangeSpan

OWN_IDS = "ids"
"""The agent answers under ids of its own."""


# ---- Policy ----------------------------------------------------------------------------------------------------------

MOST_PATIENCE = 2.0
"""The longest `Retry-After` in seconds that is waited for."""


class RetryOn(StrEnum):
    """A failure that may be retried; the words of the file, and of a metric label."""

    CONNECT = "connect"
    """No connection: nothing was sent."""
    RESET = "reset"
    """The connection ended before the answer, and the client was told nothing: the agent may have acted."""
    BUSY = "503"
    """The agent says that it is busy, and for how long."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The retry policy of one backend; see `config.agent.Retry`.

    Attributes:
        idempotent: Whether the agent takes two messages with one id for one.
    """

    most: int = 2
    when: frozenset[RetryOn] = frozenset(RetryOn)
    idempotent: bool = False


_READS = frozenset(
    {
        Operation.GET_TASK,
        Operation.LIST_TASKS,
        Operation.GET_PUSH_CONFIG,
        Operation.LIST_PUSH_CONFIGS,
        Operation.GET_EXTENDED_CARD,
    }
)


def retry_reason(fault: Fault) -> RetryOn | None:
    """Return the kind of a failure; None if it is never retried."""
    if isinstance(fault, Reclaimed):
        # The agent may have acted on it.
        return None
    if isinstance(fault, UpstreamConnect | Overloaded | Unsent):
        return RetryOn.CONNECT
    return RetryOn.RESET if isinstance(fault, UpstreamReset) else None


def may_retry(call: Call, reason: RetryOn, *, idempotent: bool) -> bool:
    """Return whether a second execution of a call would change nothing.

    Args:
        call: As the client sent it.
        idempotent: As `RetryPolicy.idempotent`.
    """
    if reason is RetryOn.CONNECT:
        return True
    operation = call.operation
    if reason is RetryOn.BUSY:
        return operation in _READS
    if operation is Operation.CREATE_PUSH_CONFIG:
        return _names_config(call)
    is_deduplicated = operation is Operation.SEND_MESSAGE and idempotent and message_id(call) is not None
    return operation.repeatable or is_deduplicated


def message_id(call: Call) -> str | None:
    """Return the id that the sender gave its message, as raw JSON; None without one, and over gRPC."""
    if call.dialect.binding is Binding.GRPC:
        return None
    raw = call.params.message.get("messageId", call.params.message.get("message_id"))
    text = None if raw is None else bytes(raw)
    return None if text is None or len(text) < 3 or text[:1] != b'"' else text.decode("utf-8", "replace")


def _names_config(call: Call) -> bool:
    """Return whether the client named the push configuration, so that a second one replaces the first."""
    if call.dialect.binding is Binding.GRPC:
        return False
    outer = call.params.members
    places = [way[-1][1] for way in call.params.pushes]
    if "pushNotificationConfig" not in outer and "push_notification_config" not in outer:
        # In 0.3 the outer `id` is the task's.
        places.append(outer)
    return any(bytes(each["id"]) not in (b"null", b'""') for each in places if "id" in each)


_WINDOW = 10.0
_PART = 1.0
_FLOOR = 20
"""Retries in any ten seconds, however few calls there are: as many calls may be open when a replica dies."""


class RetryBudget:
    """Limits the retries of one backend to a share of its calls of the last ten seconds.

    Args:
        share: Retries per call.
    """

    __slots__ = ("_calls", "_next", "_parts", "_share", "_taken")

    def __init__(self, share: float) -> None:
        self._share = share
        self._taken: deque[float] = deque()
        # The end and the number of calls of each past second, and the number of calls of the current one.
        self._parts: deque[tuple[float, int]] = deque()
        self._next = 0.0
        self._calls = 0

    def call(self, now: float) -> None:
        """Count a call."""
        if now >= self._next:
            self._parts.append((now, self._calls))
            self._calls = 0
            self._next = now + _PART
            self._forget(now)
        self._calls += 1

    def take(self, now: float) -> bool:
        """Take one retry; return whether there was one."""
        self._forget(now)
        while self._taken and self._taken[0] <= now - _WINDOW:
            self._taken.popleft()
        recent = sum(calls for _, calls in self._parts) + self._calls
        if len(self._taken) >= _FLOOR + self._share * recent:
            return False
        self._taken.append(now)
        return True

    def _forget(self, now: float) -> None:
        while self._parts and self._parts[0][0] <= now - _WINDOW:
            self._parts.popleft()
        if self._next + _WINDOW <= now:
            self._calls = 0


# ---- One call --------------------------------------------------------------------------------------------------------

_SHORTEST = 0.025
_LATER = 0.125
"""The shortest pause before the second retry and later ones: an agent that is away for a moment is back by then."""
_LONGEST = 0.25
_LONGEST_WAIT = 1.0


class RetriedBackend(Protocol):
    """A backend, as far as retries are concerned."""

    @property
    def agent(self) -> str:
        """The name of its agent."""

    @property
    def balancer(self) -> Balancer:
        """Its replicas."""

    @property
    def retry(self) -> RetryPolicy:
        """Its retry policy."""

    @property
    def budget(self) -> RetryBudget:
        """Its retry budget."""

    @property
    def meter(self) -> AgentMeter:
        """Counts retries."""

    @property
    def warned(self) -> set[str]:
        """Peculiarities of the agent, such as `OWN_IDS`."""


class Record(Protocol):
    """The request context, as far as a call to an agent reads and fills it.

    Attributes:
        head: The head of the client's request.
        call: The client's call.
        sent: The time of the first try.
        span: The span above those of the tries; None without tracing.
    """

    attempts: int
    backend: str | None
    head: Head
    call: Call | None
    sent: float | None
    span: "ExchangeSpan | None"


class Attempt:
    """One call on its way to an agent: one try after the other, until it is answered or must not be sent again.

    Args:
        caller: The caller, whose identity the agent is sent.
        binds: Whether the call goes to its replica or to none.
        call: As the agent gets it; with it the choice is made again where a half-open call began meanwhile. None for
            a call of the gateway's own.
        replica: The first replica; None where the backend has only one.

    Raises:
        NoHealthyBackend: as `Balancer.admit`.

    Attributes:
        replica: The replica of the current try.
        interface: The interface of the agent that speaks the call's dialect.
    """

    __slots__ = (
        "_binds", "_caller", "_clock", "_failing_since", "_half_open", "_is_reported", "_pauses", "_retries", "_span",
        "_tried", "_unreached", "backend", "interface", "replica", "request",
    )  # fmt: skip

    def __init__(
        self,
        request: Record,
        backend: RetriedBackend,
        interface: Interface,
        clock: Callable[[], float],
        *,
        caller: Caller,
        binds: bool,
        call: Call | None = None,
        replica: Replica | None = None,
    ) -> None:
        self.request = request
        self.backend = backend
        self.interface = interface
        self._clock = clock
        self._caller = caller
        self._binds = binds
        # Whether the result of the current try is known; only the first one counts.
        self._is_reported = False
        self._tried: list[str] = []
        self._retries: list[RetryOn] = []
        # Replicas that a try did not reach; since when, and how often, the call waits for its own.
        self._unreached: frozenset[str] = frozenset()
        self._failing_since: float | None = None
        self._pauses = 0
        self._half_open: tuple[bool, bool] | None = None
        self._span: AttemptSpan | None = None
        replica = replica or backend.balancer.only
        assert replica is not None
        self.replica = replica
        if call is not None and backend.balancer.only is None:
            # Time has passed since the replica was chosen: another call may be the half-open one by now.
            backend.balancer.admit()
            if not binds and not replica.condition.is_available(clock()):
                self.replica = self._other_replica(call) or replica
        self._begin()

    def _begin(self) -> None:
        backend, replica, request = self.backend, self.replica, self.request
        backend.budget.call(self._clock() if request.sent is None else request.sent)
        self._half_open = backend.balancer.begin(replica)
        if backend.balancer.only is None:
            request.backend = replica.key if replica.name in replica.key else f"{replica.key}@{replica.name}"

    def send(self, call: Call) -> Coroutine[Any, Any, Reply]:
        """Send the call to the current replica."""
        self._is_reported = False
        treatment = self.replica.upstream.treatment
        tokens = treatment.own_tokens if treatment.caller_tokens is None else treatment.caller_tokens
        # Not awaited here: the loop goes through each frame in between again when the answer comes.
        return self._send(call, self._caller) if tokens is None else self._with_token(call, tokens)

    def _send(self, call: Call, caller: Caller) -> Coroutine[Any, Any, Reply]:
        replica = self.replica
        # An agent with ids of its own gets one call per connection (safety T14).
        is_fresh = replica.name in self._unreached or OWN_IDS in self.backend.warned
        if self.request.span is not None:
            return self._send_traced(self.request.span, call, caller, fresh=is_fresh)
        return replica.upstream.send(call, self.interface, self.request.head, caller, fresh=is_fresh)

    async def _send_traced(self, above: "ExchangeSpan", call: Call, caller: Caller, *, fresh: bool) -> Reply:
        """Send the call under a span of its own, whose context the agent gets."""
        self._end_span()
        replica, request = self.replica, self.request
        url, number = replica.upstream.url, request.attempts
        span = above.attempt(call, agent=self.backend.agent, backend=replica.key, url=url, number=number)
        self._span, caller = span, replace(caller, traceparent=span.traceparent)
        try:
            reply = await replica.upstream.send(call, self.interface, request.head, caller, fresh=fresh)
        except Fault as fault:
            span.end(fault)
            raise
        span.reply = reply
        return reply

    def _end_span(self, fault: Fault | None = None) -> None:
        if self._span is not None:
            self._span.end(fault)
            self._span = None

    async def _with_token(self, call: Call, tokens: TokenSource | NoToken) -> Reply:
        """Send the call with a token for the agent; a call that may be repeated a second time if that is refused.

        Raises:
            AuthMissing: The caller's token is to be exchanged, and it showed none.
            UpstreamAuthFailed: No token can be had; nothing was sent.
        """
        subject = subject_of(self.request.head, self._caller.principal) if tokens.spec.exchanges else None
        shown = await tokens.pair(subject)
        try:
            answer = await self._send(call, replace(self._caller, token=shown))
        except NotAccepted:
            if not tokens.refused(shown, subject) or not call.operation.repeatable:
                raise
        else:
            if answer.http_status != 401 or not tokens.refused(shown, subject) or not call.operation.repeatable:
                return answer
            answer.close()
        self.request.attempts += 1
        return await self._send(call, replace(self._caller, token=await tokens.pair(subject)))

    def bind(self) -> None:
        """Bind the call to this replica from now on: later calls depend on what it has answered."""
        balancer = self.backend.balancer
        self._binds = self._binds or (balancer.only is None and balancer.affinity.by != "none")

    def end(self) -> None:
        """End the call, whether it was answered or not."""
        self._end_span()
        if self._half_open is not None:
            self.backend.balancer.end(self.replica, self._half_open)
            self._half_open = None

    # ---- Results -------------------------------------------------------------------------------------------------

    def answered(self, reply: Reply) -> None:
        """Report an answer, by its status."""
        if self._is_reported:
            return
        if reply.is_failing:
            self._failed(f"status {reply.http_status}")
        else:
            self._is_reported = True
            self.backend.balancer.succeeded(self.replica)

    def broke_off(self, reply: Reply, fault: Fault) -> None:
        """Report an answer that broke off, or was none."""
        self._end_span(fault)
        if not self._report(fault, reply.fault) and not tells_nothing(fault):
            self.answered(reply)

    def _report(self, fault: Fault, cause: Fault | None) -> bool:
        """Report a fault that counts against the replica; return whether it does.

        Args:
            cause: A fault of the transport. Bytes that are no HTTP count; over gRPC such an error may be about this one
                caller.
        """
        is_not_http = isinstance(cause, UpstreamProtocol) and isinstance(self.replica.upstream, HttpUpstream)
        if not is_not_http and not counts(fault):
            return False
        self._failed(f"{fault.message}: {fault.detail}" if fault.detail else fault.message)
        return True

    def _failed(self, why: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            self.backend.balancer.failed(self.replica, why, self._half_open or NOT_HALF_OPEN)

    # ---- Retries -------------------------------------------------------------------------------------------------

    async def retry(self, call: Call, fault: Fault) -> Reply:
        """Return the reply to a call that failed, once a retry succeeds.

        Args:
            call: As the agent gets it.

        Raises:
            Fault: the last failure, once there is no further retry.
        """
        if self._failing_since is None:
            self._failing_since = self._clock()
        lost: UpstreamReset | None = None
        while True:
            self._end_span(fault)
            self._report(fault, fault)
            if isinstance(fault, UpstreamReset | UpstreamConnect):
                self._unreached |= {self.replica.name}
            reason = retry_reason(fault)
            # If all connections are taken only another replica helps.
            may_stay = not isinstance(fault, Overloaded)
            if isinstance(fault, UpstreamReset):
                lost = fault
            elif reason is RetryOn.CONNECT and lost is not None:
                # Nothing was sent by the last try alone.
                fault = lost
            if reason is None:
                raise fault
            if isinstance(fault, Unsent):
                self._move_on(call, fault)
            elif not await self._wait_for_replica(reason, self._failing_since) and not await self._retry(
                call, reason, may_stay=may_stay
            ):
                raise fault
            try:
                return await self.send(call)
            except Fault as following:
                fault = following

    async def retry_if_busy(self, call: Call, reply: Reply) -> Reply:
        """Return the reply to a call whose replica is down: that one, or that of a retry."""
        # A status of gRPC does not say when to come again.
        is_busy = reply.http_status == 503 and reply.failure is None
        patience = retry_after(reply) if is_busy else None
        if patience is None or patience > MOST_PATIENCE:
            return reply
        before = self.replica
        try:
            if not await self._retry(call, RetryOn.BUSY, may_stay=True):
                return reply
            if self.replica is before:
                await asyncio.sleep(patience)
        except BaseException:
            reply.close()
            raise
        reply.close()
        try:
            return await self.send(call)
        except Fault as fault:
            return await self.retry(call, fault)

    def _take_retry(self, call: Call, reason: RetryOn) -> bool:
        """Take one retry; return whether there was one."""
        backend, policy = self.backend, self.backend.retry
        if reason not in policy.when or len(self._retries) >= policy.most:
            return False
        # The client's own words count; a translated call may name more.
        asked = call if self.request.call is None else self.request.call
        is_second = reason is not RetryOn.CONNECT and reason in self._retries
        if is_second or not may_retry(asked, reason, idempotent=policy.idempotent):
            return False
        is_alone = self._binds or backend.balancer.only is not None
        if reason is RetryOn.CONNECT and is_alone and self.replica.condition.ejection.is_open:
            # It has been away for some time, and the call can go nowhere else.
            return False
        now = self._clock()
        if not backend.balancer.breaker.admits(now) or not backend.budget.take(now):
            return False
        self._retries.append(reason)
        self._end_span()
        return True

    async def _retry(self, call: Call, reason: RetryOn, *, may_stay: bool) -> bool:
        """Choose the replica of the next try and wait until it is time; return False if there is no retry.

        Args:
            may_stay: Whether it may be the same replica.
        """
        if not self._take_retry(call, reason):
            return False
        left = self.replica
        if reason is RetryOn.BUSY:
            self._failed("status 503")
        self._tried.append(left.name)
        found = self._other_replica(call)
        if found is None and not may_stay:
            return False
        self.backend.meter.repeated(left.key, reason.value)
        if reason is not RetryOn.CONNECT or found is None or found.name in self._tried:
            shortest = _SHORTEST if len(self._retries) == 1 else _LATER
            await asyncio.sleep(random.uniform(shortest, _LONGEST))  # noqa: S311 - no secret
            # The replica may be gone by now, or have its half-open call.
            found = self._other_replica(call) or (None if may_stay else found)
        self.request.attempts += 1
        self._switch(found)
        return True

    async def _wait_for_replica(self, reason: RetryOn, since: float) -> bool:
        """Wait before the next try of a call that waits for its replica; return False if it does not, or no longer.

        Args:
            since: The time of the first failure.
        """
        balancer = self.backend.balancer
        if not self._binds or reason is not RetryOn.CONNECT:
            return False
        while (left := balancer.affinity.wait - (self._clock() - since)) > 0:
            self._pauses += 1
            pause = min(_SHORTEST * 2 ** min(self._pauses, 10), _LONGEST_WAIT, left)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            now = self._clock()
            if balancer.breaker.admits(now):
                if self._half_open is not None:
                    # It may be the half-open call of the backend.
                    self._half_open = self._half_open[0], balancer.breaker.begin(now)
                self.request.attempts += 1
                return True
        return False

    def _move_on(self, call: Call, fault: Fault) -> None:
        """Move on to another replica: this one was closed between the choice and the call, which counts as no retry.

        Raises:
            NoHealthyBackend: the call belongs to this replica.
            Fault: the same fault, if the gateway stops.
        """
        left = self.replica
        self._tried.append(left.name)
        found = self._other_replica(call)
        if found is not None and found.name not in self._tried:
            self._switch(found)
        elif left.condition.gone:
            detail = f"{left.name!r} went while the ownership of the task was checked"
            message = "the replica of the agent that the call belongs to is gone"
            raise NoHealthyBackend(message, detail=detail, retry_after=1.0) from fault
        else:
            raise fault

    def _switch(self, replica: Replica | None) -> None:
        if replica is not None and replica is not self.replica:
            self.end()
            self.replica = replica
            self._begin()

    def _other_replica(self, call: Call) -> Replica | None:
        """Return another replica that the call may go to; None if it stays."""
        balancer = self.backend.balancer
        if self._binds:
            return None
        if RetryOn.RESET in self._retries and not call.operation.repeatable and balancer.affinity.by != "none":
            # The message may have been seen, and only there it is known again.
            return None
        found = balancer.another(self._tried)
        if found is self.replica:
            return None
        # The call is written in one dialect, with one tenant.
        with suppress(VersionUnsupported, MethodNotAllowed, BadParams):
            theirs, mine = found.upstream.dialects, self.interface
            interface = theirs.interface(call, (mine.dialect,))
            tenant = self.replica.upstream.dialects.tenant(call, mine)
            if interface.dialect == mine.dialect and theirs.tenant(call, interface) == tenant:
                self.interface = interface
                return found
        return None
