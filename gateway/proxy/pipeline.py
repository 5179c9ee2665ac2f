"""The pipeline: what happens to a request, in order. `Pipeline.serve` and `_answer` are the order.

The caller is authenticated before the body is read, so a stranger never makes the gateway buffer. The agent is selected
after the body is decoded, because the A2A `tenant` field may decide. A `Fault` of any step becomes an answer in the
caller's own dialect. There is no middleware: the order is the security.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from msgspec.structs import replace

from gateway.a2a import fault as faults
from gateway.a2a.call import Head
from gateway.a2a.fault import Fault
from gateway.policy.limits import QuotaEnforcer
from gateway.principal import Principal
from gateway.proxy import card_requests, documents, protected_resource
from gateway.proxy.admission import Admission
from gateway.proxy.authenticate import CountAuth, authenticate
from gateway.proxy.client_address import client_address, kept_id
from gateway.proxy.connection_cache import cache_of
from gateway.proxy.decode import decode
from gateway.proxy.error_response import refuse
from gateway.proxy.forward import Forwarder
from gateway.proxy.locate import called_path, locate
from gateway.proxy.overload import AnswerMemory, Overload
from gateway.proxy.request import RequestContext, headless_line, request_ids, settle_webhook
from gateway.proxy.responder import Responder
from gateway.proxy.revocation import revoked
from gateway.proxy.selection import follow_task, refuse_outsiders, select
from gateway.snapshot import Snapshot
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.audit_log import BY_REASON, AuditEvent

logger = logging.getLogger("gateway.proxy")


class Pipeline:
    """Serves each request from the snapshot that is current when it arrives.

    Args:
        current: Returns the current snapshot.
        count_auth: Called with the method, issuer and result of every authentication.
        audit: Called with each refusal that is audited, and its line of the access log.
        limits, overload: None for no limits, and no overload protection.
        clock: Monotonic seconds.
        wall: Wall-clock seconds, by which credentials expire; also an attribute.
    """

    def __init__(
        self,
        current: Callable[[], Snapshot],
        access: AccessLog,
        count_auth: CountAuth,
        audit: Callable[[AuditEvent, Mapping[str, object]], None] = lambda _event, _line: None,
        *,
        limits: QuotaEnforcer | None = None,
        overload: Overload | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - see above
    ) -> None:
        self._current = current
        self._access = access
        self._count_auth = count_auth
        self._audit = audit
        self._clock = clock
        self.wall = wall
        self._overload = Overload() if overload is None else overload
        self._ids = request_ids()
        self._kept = AnswerMemory(lambda: self._overload.answer_memory(self._current().config.gateway.answers_limit))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[RequestContext, asyncio.Task[Any]] = {}
        # One thread: several would only compete for the GIL, with each other and with the loop.
        self._threads = ThreadPoolExecutor(1, "long-bodies")
        self._forwarder = Forwarder(clock, self._threads)
        self.admission = Admission(QuotaEnforcer() if limits is None else limits, clock)

    async def serve(self, head: Head, client: Responder, *, caller: Principal | None = None) -> None:
        """Answer one request. Only cancellation from outside is raised: every fault becomes an answer.

        Args:
            caller: The principal that an operator acts as; the head is not authenticated. For the admin listener only.
        """
        snapshot = self._current()
        cache = cache_of(head, snapshot.resources)
        request = RequestContext(head, next(self._ids), self._clock(), snapshot.strangers, self._kept, cache)
        if snapshot.keeps_ids:
            request.id = kept_id(head, snapshot.trusted) or request.id
        if self._access.streams:
            request.on_stream = self._log_opened
        request.client_ip = client_address(head, snapshot.trusted)
        request.trace(snapshot.tracing)
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        # Without the loop as an argument it costs a system call in Python 3.11.
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._open[request] = task
        snapshot.calls.begin()
        client.when_gone(partial(self._client_left, request))
        try:
            try:
                await self._answer(snapshot, request, client, caller)
            except Fault as fault:
                await self._refuse(request, client, snapshot, fault)
            except Exception as error:
                logger.exception("request %s failed", request.id)
                internal = faults.Internal("internal error", detail=type(error).__name__)
                await self._refuse(request, client, snapshot, internal)
        except asyncio.CancelledError:
            if request.interrupted is None:
                raise
            task.uncancel()
            if request.fault is None:
                await self._refuse(request, client, snapshot, request.interrupted)
            else:
                # It was already being refused; one answer is enough.
                client.cut()
        finally:
            del self._open[request]
            snapshot.calls.end()
            self._close(request)
            if request.pushing is not None:
                await settle_webhook(request, request.pushing)

    async def _answer(
        self, snapshot: Snapshot, request: RequestContext, client: Responder, caller: Principal | None
    ) -> None:
        head, config = request.head, snapshot.config.gateway
        if snapshot.cors.allowed:
            client.extra = snapshot.cors.headers(head)
            if (preflight := snapshot.cors.preflight(head)) is not None:
                await documents.permit(request, client, preflight, self._clock)
                return
        location = locate(snapshot, request)
        self._overload.refuse()
        if location.resource is not None:
            await protected_resource.show(snapshot, request, location.resource, client, clock=self._clock)
            return
        await authenticate(snapshot, request, self._count_auth, self.wall, caller)
        if location.is_document:
            await documents.show(snapshot, request, location, client, admission=self.admission, clock=self._clock)
            return
        refuse_outsiders(snapshot, request, location)
        await self.admission.arrive(request, client)
        path = called_path(location)
        body = await client.read(config.body_limit)
        request.bytes_in = len(body)
        call = await decode(request, location, path, body, snapshot=snapshot, threads=self._threads)
        # From here on only the call holds the body: a stream drops it there, and may last for hours.
        del body
        request.call = call
        if location.endpoint is not None and location.endpoint.skills:
            await follow_task(snapshot, request, location, call)
        verdict = select(snapshot, request, location, call.tenant)
        assert verdict.route is not None
        if verdict.rule is not None and verdict.rule.addressed:
            call = request.call = replace(call, addressed=True)
        backend = snapshot.backends[verdict.route.backend]
        if backend.methods is not None and call.operation not in backend.methods:
            raise faults.MethodNotAllowed(f"{call.operation} is not offered here")
        if card_requests.answers(backend, call):
            await card_requests.send_extended(request, backend, call, client, self._clock)
            return
        self._overload.refuse_stream(call.operation)
        await self.admission.admit(request, backend, call)
        # A configuration that was activated meanwhile has not checked this stream.
        if (current := self._current()) is not snapshot and (why := revoked(current, request, self.wall())):
            raise why
        await self._forwarder.forward(request, backend, client, call, snapshot.webhooks)

    async def _refuse(self, request: RequestContext, client: Responder, snapshot: Snapshot, fault: Fault) -> None:
        try:
            shown = protected_resource.challenge(snapshot, request.head) if fault.http_status == 401 else ""
            await refuse(request, client, fault, challenge=shown, clock=self._clock)
        except Exception:
            logger.exception("request %s could not be refused", request.id)
            client.cut()

    def _close(self, request: RequestContext) -> None:
        """Release what the request holds, and write its line of the access log."""
        if request.held:
            request.hold(0)
        self.admission.leave(request)
        ownership, fault = request.ownership, request.fault
        if ownership is not None:
            ownership.release()
        line = request.close(self._clock())
        self._access.write(line, flat=True)
        if fault is None:
            return
        event = BY_REASON.get(fault.reason)
        if ownership is not None and ownership.is_foreign and not isinstance(fault, faults.TaskNotFound):
            event = AuditEvent.ANSWER_WITHHELD
        if event is not None:
            self._audit(event, line)
        # Its frames refer to the request, and so to the answer that was refused, which may be long.
        fault.__traceback__ = fault.__cause__ = fault.__context__ = None

    def _log_opened(self, request: RequestContext) -> None:
        """Write the line of a stream that has just opened."""
        self._access.write(request.opened(self._clock()), flat=True, recent=False)

    # ---- From outside ----------------------------------------------------------------------------------------------

    @property
    def open(self) -> int:
        """Return how many requests are being served."""
        return len(self._open)

    def interrupt(self, why: Callable[[], Fault]) -> int:
        """End every open request with a fault; return the number of ended requests."""
        return sum(self._interrupt(request, why()) for request in list(self._open))

    async def reconsider(self) -> int:
        """End the streams of callers that could not begin them under the current snapshot; return their number."""
        snapshot, now, ended = self._current(), self.wall(), 0
        for number, request in enumerate(list(self._open), 1):
            why = revoked(snapshot, request, now)
            if why is not None and self._interrupt(request, why):
                ended += 1
            if not number % 250:
                # It took about a millisecond: let other tasks run.
                await asyncio.sleep(0)
        return ended

    def _client_left(self, request: RequestContext) -> None:
        self._interrupt(request, faults.ClientGone("the client left"))

    def _interrupt(self, request: RequestContext, why: Fault) -> bool:
        task = self._open.get(request)
        if task is None or request.interrupted is not None:
            return False
        request.interrupted = why
        task.cancel()
        return True

    def unreadable(self, peer: str, request_id: str, status: int, words: str) -> None:
        """Count and log a request whose head could not be read."""
        kind = faults.Overloaded if status == 503 else faults.BadRequest
        self._access.write(headless_line(peer, request_id, kind, words, status))
        self._current().strangers.rejected(kind.reason)

    def distrusted(self, peer: str, request_id: str, why: str) -> None:
        """Count and log a client whose certificate was refused in the handshake."""
        self._count_auth("mtls", "", "invalid")
        self._current().strangers.rejected(faults.AuthInvalid.reason)
        line = headless_line(peer, request_id, faults.AuthInvalid, why)
        self._access.write(line)
        self._audit(AuditEvent.IDENTITY_REFUSED, line)
