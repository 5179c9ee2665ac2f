"""Forwards a call to its agent, and brings the answer to the client. `Forwarder._forward` is the order of the steps.

If both sides speak the same dialect, the client's bytes are forwarded and the agent's bytes are returned. Otherwise the
call and the reply are translated (`reply.py`).
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.a2a.call import NO_IDS as NAMELESS
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import TASK_NOT_CANCELABLE, TASK_NOT_FOUND, Fault, UpstreamConnect, UpstreamReset
from gateway.a2a.ids import referenced_ids
from gateway.a2a.naming import Alias
from gateway.a2a.operation import Operation
from gateway.a2a.translation import Translation
from gateway.backend.backend import Backend
from gateway.principal import Principal
from gateway.proxy import method_fallback
from gateway.proxy.idempotency import Idempotency
from gateway.proxy.list_tasks import TaskLister
from gateway.proxy.replica_choice import choose_replica
from gateway.proxy.reply import deliver
from gateway.proxy.reply_delivery import ReplyDelivery
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.proxy.task_names import TaskNames, message_id_of, name_key
from gateway.push.webhooks import Webhooks
from gateway.tasks.ownership import ownership_of
from gateway.upstream.dialects import Interface
from gateway.upstream.http import HttpUpstream
from gateway.upstream.replica import Replica
from gateway.upstream.retry import Attempt
from gateway.upstream.upstream import Caller, Reply

_BRING_WEBHOOKS = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.CREATE_PUSH_CONFIG})
_TASK_IS_OVER = frozenset({TASK_NOT_FOUND.code, TASK_NOT_CANCELABLE.code})
"""Errors of an agent after which a task cannot be open."""
_LONG = 128 * 1024
"""Bytes of a body from which on it is translated in a thread."""


class Forwarder:
    """Forwards calls to agents.

    Args:
        clock: Monotonic seconds.
        threads: Translates long bodies.
    """

    def __init__(self, clock: Callable[[], float], threads: Executor) -> None:
        self._clock = clock
        self._threads = threads
        self._names = TaskNames()
        self._idempotency = Idempotency(clock)

    def forward(
        self, request: RequestContext, backend: Backend, client: Responder, call: Call, webhooks: Webhooks
    ) -> Coroutine[Any, Any, None]:
        """Call the agent, and deliver its answer to the client; a repeated message gets its earlier answer.

        Raises:
            VersionUnsupported, MethodNotAllowed: the agent does not support this call.
            BadParams: the parameters are not of the client's generation, where they are translated; or another message
                has the same id.
            NotAdmitted: as `ownership_of`.
            TaskNotFound, TasksLimited: as `Ownership.authorize`.
            PushDenied: a webhook may not be called.
            StateUnavailable: the ledger does not answer.
            NoHealthyBackend: the backend is ejected, or the replica that the call belongs to is gone.
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Overloaded: as the pool and the relay.
        """
        if backend.retry.idempotent:
            send = partial(self._forward, request, backend, call, webhooks)
            return self._idempotency.send(backend.upstream.backend, request, call, client, send)
        # Not awaited here: the loop goes through each frame in between again when the answer comes.
        return self._forward(request, backend, call, webhooks, client)

    async def _forward(
        self, request: RequestContext, backend: Backend, call: Call, webhooks: Webhooks, client: Responder
    ) -> None:
        principal = request.principal
        assert principal is not None
        key = name_key(principal, backend.upstream.backend, call)
        alias = None if key is None else await self._names.find(key, backend, call)
        replica, binds, home = backend.balancer.only, False, None
        if replica is None:
            replica, binds, home = await choose_replica(backend, backend.balancer, principal, call, alias)
        call, meant = self._names.meaning(request, call, key, alias)
        interface = replica.upstream.dialects.interface(call, meant)
        meter, isolation = backend.meter, backend.isolation
        if call.operation is Operation.LIST_TASKS and isolation is not None and isolation.filters_lists:
            meter.translated(call.dialect, interface.dialect)
            await self._list(request, backend, interface, call, client, replica=replica, binds=binds)
            return
        ownership = None
        if isolation is not None:
            ownership = request.ownership = ownership_of(
                isolation, principal, f"{request.binding.label}/{request.version}"
            )
            ownership.by_skill = request.by_skill
        named = referenced_ids(call) if ownership is not None or call.operation in _BRING_WEBHOOKS else NAMELESS
        pushing = request.pushing = webhooks.of(call, named, ownership)
        if pushing is not None:
            # A name of 0.1 is valid only in calls that are read as 0.1.
            await pushing.register(call, interface.dialect, alias if meant[0].version is Version.V0_1 else None)
        translation, ours = None, call.dialect.version
        if interface.dialect not in meant or pushing is not None or call.is_mixed:
            if meant[0] != call.dialect and not call.path.legacy_card:
                call = request.call = replace(call, dialect=meant[0])
                request.version = meant[0].version
            translation = await self._translate(request, backend, interface, call, alias)
            meter.translated(call.dialect, interface.dialect)
            call = translation.call
        elif interface.dialect != call.dialect and not call.path.legacy_card:
            # Some methods have one name in two generations; from here on the agent's counts.
            call = replace(call, dialect=interface.dialect)
        if ownership is not None:
            # Tasks that only the client's version can name must be the caller's, too; in 0.1 the client itself made
            # these ids.
            also = () if translation is None or ours is Version.V0_1 else named.references
            call = await ownership.authorize(call, named if translation is None else None, also)
        if named.webhooks and pushing is None:
            await webhooks.judge(named.webhooks)
        caller = _caller(request, principal)
        attempt = Attempt(
            request, backend, interface, self._clock, caller=caller, binds=binds, call=call, replica=replica
        )
        agent_call = _AgentCall(attempt, request, backend, home, translation)
        agent_call.begin(self._clock())
        try:
            await self._send(agent_call, call, client)
        finally:
            agent_call.finish()

    async def _list(
        self,
        request: RequestContext,
        backend: Backend,
        interface: Interface,
        call: Call,
        client: Responder,
        *,
        replica: Replica,
        binds: bool,
    ) -> None:
        """Answer a list with the caller's tasks only."""
        assert backend.isolation is not None
        assert request.principal is not None
        ownership = request.ownership = ownership_of(backend.isolation, request.principal, "")
        caller = _caller(request, request.principal)
        attempt = Attempt(request, backend, interface, self._clock, caller=caller, binds=binds, replica=replica)
        agent_call = _AgentCall(attempt, request, backend)
        lister = TaskLister(attempt, request, backend, ownership, self._clock)
        agent_call.begin(self._clock())
        try:
            await lister.list_tasks(call, client)
        finally:
            agent_call.status = lister.status
            agent_call.finish()

    async def _send(self, agent_call: "_AgentCall", call: Call, client: Responder) -> None:
        """Send the call, with retries where allowed, and deliver the reply."""
        request, attempt = agent_call.request, agent_call.attempt
        try:
            reply = await attempt.send(call)
        except Fault as fault:
            reply = await attempt.retry(call, fault)
        while True:
            try:
                await self._deliver(agent_call, call, reply, client)
                break
            except (UpstreamReset, UpstreamConnect) as fault:
                # The reply broke off after its head, or the agent was gone before the method fallback. If the client
                # got no byte of it, it counts as no reply.
                if request.status:
                    raise
                reply = await attempt.retry(call, fault)
        if request.ownership is not None and agent_call.is_unknown_task:
            await request.ownership.record_loss()

    async def _deliver(self, agent_call: "_AgentCall", call: Call, reply: Reply, client: Responder) -> None:
        request, attempt, translation = agent_call.request, agent_call.attempt, agent_call.translation
        if reply.is_failing:
            reply = await attempt.retry_if_busy(call, reply)
        if request.ownership is not None:
            # The only replica is recorded as well: its tasks stay its own when others are added.
            request.ownership.replica = attempt.replica.place
        request.upstream_address = reply.address or None
        if reply.has_begun or reply.is_failing:
            attempt.answered(reply)
        elif call.operation.streams:
            # A stream counts as a success once there is an event, any other answer once it is complete.
            request.on_event = partial(attempt.answered, reply)
        delivery = self._delivery(agent_call, reply, translation, call)
        try:
            if call.operation in method_fallback.TWO_WAYS:
                if translation is not None:
                    # The call as it was before the method fallback; it is sent again now.
                    translation.call = call
                delivery = await self._by_other_verb(agent_call, delivery)
                delivery = await self._by_other_method(agent_call, delivery)
                reply = delivery.reply
            agent_call.status = reply.http_status
            request.received = self._clock()
            try:
                await deliver(delivery, client)
            except Fault as fault:
                attempt.broke_off(reply, fault)
                raise
        finally:
            delivery.reply.close()
        attempt.answered(reply)

    def _delivery(
        self, agent_call: "_AgentCall", reply: Reply, translation: Translation | None, call: Call
    ) -> ReplyDelivery:
        request, backend, interface = agent_call.request, agent_call.backend, agent_call.attempt.interface
        return ReplyDelivery(reply, request, backend, interface, call, self._clock, translation)

    async def _by_other_verb(self, agent_call: "_AgentCall", delivery: ReplyDelivery) -> ReplyDelivery:
        """Return the delivery, or that of the reply to a subscription by the HTTP method that the agent knows."""
        is_subscription = delivery.call.operation is Operation.SUBSCRIBE_TO_TASK
        if not is_subscription or not await method_fallback.is_unknown_path(delivery):
            return delivery
        delivery.reply.close()
        call = method_fallback.by_the_other_verb(delivery.call)
        return self._delivery(agent_call, await agent_call.attempt.send(call), delivery.translation, call)

    async def _by_other_method(self, agent_call: "_AgentCall", delivery: ReplyDelivery) -> ReplyDelivery:
        """Return the delivery, or that of the reply to the same call by the other name that the agent knows."""
        request, backend, attempt = agent_call.request, agent_call.backend, agent_call.attempt
        asked = request.call
        if asked is None or not isinstance(backend.upstream, HttpUpstream):
            return delivery
        if not await method_fallback.is_unknown(delivery, attempt.interface.dialect):
            return delivery
        attempt.answered(delivery.reply)
        translation = agent_call.translation or await self._translate(request, backend, attempt.interface, asked, None)
        deliver_reply = partial(self._delivery, agent_call)
        found = await method_fallback.find(delivery.call, translation, attempt.send, deliver_reply)
        if found is None:
            return delivery
        delivery.reply.close()
        return found

    async def _translate(
        self, request: RequestContext, backend: Backend, interface: Interface, call: Call, alias: Alias | None
    ) -> Translation:
        assert request.principal is not None
        upstream = backend.upstream
        key = name_key(request.principal, upstream.backend, call)
        ours, theirs = call.dialect.version, interface.dialect.version
        record = None
        if key is not None and (Version.V0_1 in (ours, theirs) or call.is_mixed):
            record = self._names.recorder(key, backend)
        translate = partial(
            Translation,
            call,
            interface.dialect,
            tenant=upstream.dialects.tenant(call, interface),
            id=request.id,
            message_id=message_id_of(key, call) if key is not None and ours is Version.V0_1 else "",
            new_id=str(uuid.uuid4()) if theirs is Version.V0_1 else "",
            alias=alias,
            record=record,
            push=None if request.pushing is None else request.pushing.config,
        )
        if len(call.body) < _LONG:
            return translate()
        return await asyncio.get_running_loop().run_in_executor(self._threads, translate)


class _AgentCall(msgspec.Struct, eq=False):
    """A call while it is at the agent; a struct, since one is made for each.

    Attributes:
        home: The replica that made its task, as `choose_replica` returns it.
        translation: None where client and agent speak the same dialect.
        status: The HTTP status of the answer; None until there is one.
    """

    attempt: Attempt
    request: RequestContext
    backend: Backend
    home: str | None = None
    translation: Translation | None = None
    status: int | None = None

    def begin(self, now: float) -> None:
        """Count the call while it is at the agent."""
        self.backend.meter.forwarding(1)
        self.request.sent = now

    def finish(self) -> None:
        """End the call, and count its answer."""
        request, meter, attempt = self.request, self.backend.meter, self.attempt
        request.on_event = None
        attempt.end()
        meter.forwarding(-1)
        meter.answered(attempt.replica.key, self.status)
        if self.status == 200 and request.sent is not None and request.received is not None:
            operation = request.operation
            if operation is not None and operation.sends:
                self.backend.listing.first_byte.note(request.received - request.sent, request.received)

    @property
    def is_unknown_task(self) -> bool:
        """Return whether the agent says that the task does not exist, or is over.

        Of several replicas only the one that made the task can tell.
        """
        attempt = self.attempt
        if self.home is not None and self.home != attempt.replica.name:
            return False
        if self.request.progress.error is not None:
            return self.request.progress.error in _TASK_IS_OVER
        return self.status in (404, 409) and attempt.interface.dialect.binding is Binding.REST


def _caller(request: RequestContext, principal: Principal) -> Caller:
    return Caller(principal, request.client_ip, request.id, request.started, request.weight, request.cache.prepared)
