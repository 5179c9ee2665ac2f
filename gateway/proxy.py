"""The line: what happens to a request, in order.

    LOCATE → IDENTIFY → ADMIT → READ → DECODE → SELECT → FORWARD → OBSERVE → ENCODE
    `intake`                           `intake`          `forward`, `relay` or `interpreter`
                                                         a fault, from anywhere: `refusal`

What lies before FORWARD is decided in plain synchronous code from what is in memory; only the body, a key set that is
being fetched and a card that was never read are waited for. Identity comes before the body, so that a stranger never
makes the gateway buffer; selection comes after it, because the `tenant` field may decide. There is no tower of
middleware: the order is the security, and it is read here.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway import showcase
from gateway.a2a import fault as faults
from gateway.a2a.call import Head
from gateway.a2a.fault import Fault
from gateway.a2a.headers import Pairs, is_encoded, is_no_json
from gateway.a2a.path import PathCall
from gateway.a2a.query import of_card
from gateway.admission import Admission
from gateway.entry import Entry
from gateway.exchange import Exchange, unread_line, untrusted_line
from gateway.forward import Forwarder
from gateway.intake import CountAuth, decode, decode_aside, identify, locate
from gateway.kept import Kept
from gateway.origin import client_address, trace_id
from gateway.policy.limits import Limits
from gateway.pressure import Pressure
from gateway.principal import Principal
from gateway.refusal import insufficient, refuse, turned_away
from gateway.request_id import RequestIds
from gateway.revocation import revoked
from gateway.routing.route import Knock, Verdict
from gateway.snapshot import Snapshot
from gateway.telemetry.access import AccessLog
from gateway.telemetry.audit import BY_REASON, Event
from gateway.webhooks import Pushing
from gateway.wire import Wire

_AT_A_TIME = 250
"""Calls that are looked at in one turn of the loop: about a millisecond."""

logger = logging.getLogger("gateway.proxy")


class Line:
    """Serves each request from the snapshot that is current when it arrives.

    Args:
        current: Gives the snapshot.
        count_auth: Told the method, issuer and result of every identification.
        audit: Told what somebody was kept from, and the line that tells who.
        limits: None for no limits.
        pressure: What the process is short of; None for nothing.
        clock: Monotonic seconds.
        wall: Wall-clock seconds, by which credentials expire.
    """

    def __init__(
        self,
        current: Callable[[], Snapshot],
        access: AccessLog,
        count_auth: CountAuth,
        audit: Callable[[Event, Mapping[str, object]], None] = lambda _event, _line: None,
        *,
        limits: Limits | None = None,
        pressure: Pressure | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - see above
    ) -> None:
        self._current = current
        self._access = access
        self._count_auth = count_auth
        self._audit = audit
        self._clock = clock
        self._wall = wall
        self._pressure = Pressure() if pressure is None else pressure
        self._ids = RequestIds()
        self._kept = Kept(self._most_kept)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[Exchange, asyncio.Task[Any]] = {}
        # One thread: each more would only take turns with it, and with the loop, at holding the interpreter.
        self._aside = ThreadPoolExecutor(1, "long-bodies")
        self._forwarder = Forwarder(clock, self._aside)
        self.admission = Admission(Limits() if limits is None else limits, clock)

    def _most_kept(self) -> float:
        """Bytes of long answers that the process may hold: with all else that it needs, they have to fit."""
        return min(self._current().config.gateway.answers_limit, self._pressure.most_memory / 2)

    @property
    def open(self) -> int:
        """Requests that are being served."""
        return len(self._open)

    def interrupt(self, why: Callable[[], Fault]) -> int:
        """End every open exchange with a fault as its last word; gives how many there were."""
        found = list(self._open.items())
        for exchange, task in found:
            self._interrupt(exchange, task, why())
        return len(found)

    async def reconsider(self) -> int:
        """End the streams of those who could not begin them any more, by what is current; gives how many there were."""
        snapshot, now, ended = self._current(), self._wall(), 0
        for number, (exchange, task) in enumerate(list(self._open.items()), 1):
            why = revoked(snapshot, exchange, now)
            if why is not None and self._interrupt(exchange, task, why):
                ended += 1
            if not number % _AT_A_TIME:
                # Others have their turn.
                await asyncio.sleep(0)
        return ended

    async def serve(self, head: Head, wire: Wire) -> None:
        """Answer one request. Only cancellation from outside leaves this: a fault becomes an answer."""
        snapshot = self._current()
        exchange = Exchange(head, self._ids.take(), self._clock(), snapshot.strangers, self._kept)
        exchange.client_ip = client_address(head, snapshot.trusted)
        exchange.trace_id = trace_id(head)
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        # By name: to find the loop costs a system call in 3.11.
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._open[exchange] = task
        snapshot.calls.begin()
        wire.when_gone(partial(self._left, exchange, task))
        preflight = None
        if snapshot.cors.allowed:
            preflight = snapshot.cors.preflight(head)
            wire.extra = snapshot.cors.headers(head)
        try:
            try:
                if preflight is None:
                    await self._walk(snapshot, exchange, wire)
                else:
                    await self._permit(exchange, wire, preflight)
            except Fault as fault:
                await self._refuse(exchange, wire, snapshot, fault)
            except Exception as error:
                logger.exception("request %s failed", exchange.id)
                internal = faults.Internal("internal error", detail=type(error).__name__)
                await self._refuse(exchange, wire, snapshot, internal)
        except asyncio.CancelledError:
            if exchange.interrupted is None:
                raise
            task.uncancel()
            if exchange.fault is None:
                await self._refuse(exchange, wire, snapshot, exchange.interrupted)
            else:
                # It was being refused already; one answer is enough.
                wire.cut()
        finally:
            del self._open[exchange]
            snapshot.calls.end()
            self._finish(exchange)
            if exchange.pushing is not None:
                await _settle(exchange, exchange.pushing)

    def _finish(self, exchange: Exchange) -> None:
        """Let go of what it holds, and tell of it."""
        exchange.hold(0)
        self.admission.leave(exchange)
        if exchange.ownership is not None:
            exchange.ownership.release()
        line = exchange.close(self._clock())
        self._access.write(line, flat=True)
        fault = exchange.fault
        if fault is None:
            return
        if (event := _audited(exchange, fault)) is not None:
            self._audit(event, line)
        # Its frames refer to the exchange, and with it to the answer that was refused, which may be long.
        fault.__traceback__ = fault.__cause__ = fault.__context__ = None

    def unreadable(self, peer: str, request_id: str, status: int, words: str) -> None:
        """Count and log what was refused before it was a request."""
        self._current().strangers.rejected("overloaded" if status == 503 else "bad_request")
        self._access.write(unread_line(peer, request_id, status, words))

    def distrusted(self, peer: str, request_id: str, why: str) -> None:
        """Count and log a client whose certificate was refused in its handshake."""
        self._count_auth("mtls", "", "invalid")
        self._current().strangers.rejected(faults.AuthInvalid.reason)
        line = untrusted_line(peer, request_id, why)
        self._access.write(line)
        self._audit(Event.IDENTITY_REFUSED, line)

    async def _permit(self, exchange: Exchange, wire: Wire, preflight: Pairs) -> None:
        """Tell a browser what its page may send: before identity, which a preflight never shows."""
        exchange.status = 204
        exchange.first_byte = self._clock()
        await wire.answer(204, [*preflight, (b"x-request-id", exchange.id.encode("ascii"))], b"")

    async def _walk(self, snapshot: Snapshot, exchange: Exchange, wire: Wire) -> None:
        entry = locate(snapshot, exchange)
        path = entry.path
        self._pressure.refuse()
        await identify(snapshot, exchange, self._count_auth, self._wall)
        if path is not None and path.card is not None:
            path = of_card(path, exchange.head.query)
            verdict = self._select(snapshot, exchange, entry, path.tenant)
            _refuse_method(path)
            await showcase.show(snapshot, exchange, verdict, wire, path=path, clock=self._clock)
            return
        decided = self._admit(snapshot, exchange, entry)
        await self.admission.arrive(exchange, wire)
        if path is None:
            raise entry.unread or faults.NoEndpoint("there is nothing here")
        if path.allowed:
            _refuse_method(path)
        if is_encoded(exchange.head.first(b"content-encoding")):
            raise faults.EncodedBody("the body must not be encoded")
        body = await wire.read(snapshot.config.gateway.body_limit)
        exchange.bytes_in = len(body)
        scope_field = snapshot.config.gateway.grpc.scope_field
        _refuse_type(snapshot, exchange, path, body)
        if len(body) < snapshot.config.gateway.body.aside:
            call = decode(exchange, path, body, snapshot.body, scope_field=scope_field)
        else:
            call = await decode_aside(
                exchange, path, body, bounds=snapshot.body, aside=self._aside, scope_field=scope_field
            )
        # The call lets go of it where a stream begins, which may last for hours.
        del body
        exchange.call = call
        verdict = self._select(snapshot, exchange, entry, call.tenant, decided)
        assert verdict.route is not None
        if verdict.rule is not None and verdict.rule.addressed:
            call = exchange.call = replace(call, addressed=True)
        backing = snapshot.backings[verdict.route.backend]
        if backing.methods is not None and call.operation not in backing.methods:
            raise faults.MethodNotAllowed(f"{call.operation} is not offered here")
        if showcase.answers(backing, call):
            await showcase.tell(exchange, backing, call, wire, self._clock)
            return
        self._pressure.refuse_stream(call.operation)
        await self.admission.admit(exchange, backing, call)
        # Another configuration came while this one was read: of what did not count as a stream then, no one was told.
        if (current := self._current()) is not snapshot and (why := revoked(current, exchange, self._wall())):
            raise why
        await self._forwarder.forward(exchange, backing, wire, call, snapshot.webhooks)

    def _admit(self, snapshot: Snapshot, exchange: Exchange, entry: Entry) -> "Decided | None":
        """Turn away who may reach nothing at the endpoint, before its body is read or anything of it is told.

        Gives what was decided for the same caller with the same head, if anything was.

        Raises:
            AuthMissing, NotAdmitted, NoEndpoint: as `_select`.
            BadRequest: the path can be no endpoint's.
        """
        if entry.endpoint is None and entry.unread is not None and exchange.principal is not None:
            raise entry.unread
        decided = exchange.head.known.get(Decided)
        if isinstance(decided, Decided) and decided.holds(snapshot, exchange):
            return decided
        kind = snapshot.table.turns_away(entry.endpoint, exchange.principal)
        if kind is not None:
            if entry.endpoint is not None:
                exchange.contenders = entry.endpoint.rules
            raise turned_away(kind)
        return None

    def _select(
        self, snapshot: Snapshot, exchange: Exchange, entry: Entry, tenant: str | None, decided: "Decided | None" = None
    ) -> Verdict:
        """Whose agent answers; for the card that says how to sign in nobody's.

        Args:
            decided: As `_admit` gave it.

        Raises:
            AuthMissing, NotAdmitted, NoRoute, RouteConflict, BadParams: nobody's.
        """
        table = snapshot.table
        if decided is not None and decided.tenant == tenant:
            verdict = decided.verdict
        else:
            knock = Knock((), exchange.head.host, tenant, exchange.principal)
            verdict = (table.resolve_card if entry.reads_card else table.resolve)(entry.endpoint, knock)
            if verdict.route is not None and exchange.principal is not None:
                exchange.head.known[Decided] = Decided(snapshot, exchange.principal, tenant, verdict)
        exchange.rule = verdict.rule
        if verdict.contenders:
            exchange.contenders = verdict.contenders
        if verdict.signs_in:
            return verdict
        if verdict.route is None:
            raise self._turned_away(snapshot, exchange, verdict)
        backing = snapshot.backings[verdict.route.backend]
        exchange.agent, exchange.backend, exchange.meter = backing.agent, verdict.route.backend, backing.meter
        return verdict

    @staticmethod
    def _turned_away(snapshot: Snapshot, exchange: Exchange, verdict: Verdict) -> Fault:
        if verdict.fault is faults.InsufficientScope and verdict.rule is not None and exchange.principal is not None:
            requirement = snapshot.table.agents[verdict.rule.agent].requirement
            assert requirement is not None
            return insufficient(requirement, exchange.principal)
        return turned_away(verdict.fault or faults.NoEndpoint, verdict.contenders)

    async def _refuse(self, exchange: Exchange, wire: Wire, snapshot: Snapshot, fault: Fault) -> None:
        try:
            await refuse(exchange, wire, fault, challenge=snapshot.authenticator.challenge, clock=self._clock)
        except Exception:
            logger.exception("request %s could not be refused", exchange.id)
            wire.cut()

    def _left(self, exchange: Exchange, task: "asyncio.Task[Any]") -> None:
        self._interrupt(exchange, task, faults.ClientGone("the client left"))

    def _interrupt(self, exchange: Exchange, task: "asyncio.Task[Any]", why: Fault) -> bool:
        if exchange not in self._open or exchange.interrupted is not None:
            return False
        exchange.interrupted = why
        task.cancel()
        return True


class Decided(msgspec.Struct, frozen=True, eq=False):
    """Whose agent answers requests with one head; what the same caller asks with the same head is decided alike."""

    snapshot: Snapshot
    principal: Principal
    tenant: str | None
    verdict: Verdict

    def holds(self, snapshot: Snapshot, exchange: Exchange) -> bool:
        """Whether it was decided by this snapshot, for this very caller."""
        return self.snapshot is snapshot and self.principal is exchange.principal


def _audited(exchange: Exchange, fault: Fault) -> Event | None:
    """The event of the audit log that a refusal is."""
    ownership = exchange.ownership
    if ownership is not None and ownership.is_foreign and not isinstance(fault, faults.TaskNotFound):
        return Event.ANSWER_WITHHELD
    return BY_REASON.get(fault.reason)


_NEVER_STORED = frozenset({-32001, -32003, -32601})
"""Errors by which a send has kept no webhook: no such task, no webhooks at all, no such method."""


def _was_refused(exchange: Exchange) -> bool:
    """Whether it is known that the agent will call no webhook of the call's.

    Who leaves before the answer comes may be told all the same: the agent may have begun. And an error is no proof in a
    send, as a2a-sdk keeps the webhook before the agent runs.
    """
    if exchange.sent is None or isinstance(exchange.fault, faults.UpstreamConnect):
        return True
    error, operation = exchange.progress.error, exchange.operation
    sends = operation is not None and operation.sends
    return error is not None and (error in _NEVER_STORED or not sends)


async def _settle(exchange: Exchange, pushing: Pushing) -> None:
    """See to a webhook of which no answer has told the task; if that cannot be, it is forgotten later."""
    with suppress(faults.StateUnavailable):
        if _was_refused(exchange):
            await pushing.end()
        elif exchange.progress.event == "message":
            await pushing.answered()


def _refuse_type(snapshot: Snapshot, exchange: Exchange, path: PathCall, body: bytes) -> None:
    """See that a body, if there is one, does not say of itself that it is no JSON; over gRPC the listener has looked.

    Raises:
        ContentTypeUnsupported: it does.
    """
    head = exchange.head
    if not body or head.grpc is not None or not is_no_json(head.first(b"content-type")):
        return
    if len(body) < snapshot.config.gateway.body.aside:
        # If it is some all the same, the refusal has the call's id and the words of the caller's generation.
        with suppress(Fault):
            decode(exchange, path, body, snapshot.body)
    raise faults.ContentTypeUnsupported("the content type must be application/json or application/a2a+json")


def _refuse_method(path: PathCall) -> None:
    if path.allowed:
        raise faults.WrongHttpMethod(f"this path is for {', '.join(path.allowed)}", allowed=path.allowed)
