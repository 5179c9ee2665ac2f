"""Forwards a call to its agent, and brings the answer to the client. `Forwarder._forward` is the order of the steps.

Where both sides speak the same dialect the client's bytes go on and the agent's come back (`relay.py`). Otherwise the
call is translated, and so is its answer (`interpreter.py`).
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from gateway.a2a.bindings.grpc_status import read as read_status
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.error_kind import TASK_NOT_CANCELABLE, TASK_NOT_FOUND
from gateway.a2a.fault import Fault, UpstreamConnect, UpstreamReset
from gateway.a2a.mention import NONE as NAMELESS
from gateway.a2a.mention import mentions
from gateway.a2a.naming import Alias
from gateway.a2a.operation import Operation
from gateway.a2a.translation import Translation
from gateway.backing import Backing
from gateway.claims import Claims, claims_of
from gateway.enquiry import Enquiry
from gateway.interpreter import Interpreter
from gateway.principal import Principal
from gateway.proxy import method_fallback
from gateway.proxy.idempotency import Idempotency
from gateway.proxy.replica_choice import choose_replica
from gateway.proxy.request import RequestContext
from gateway.proxy.responder import Responder
from gateway.proxy.task_names import TaskNames, message_id_of, name_key
from gateway.proxy.webhooks import Webhooks
from gateway.relay import Relay
from gateway.repetition import Asking
from gateway.upstream.failure import FAILING
from gateway.upstream.http import HttpUpstream
from gateway.upstream.repertoire import Interface
from gateway.upstream.response import Response
from gateway.upstream.stdio.upstream import StdioUpstream
from gateway.upstream.upstream import Caller

if TYPE_CHECKING:
    from gateway.grpc_relay import GrpcRelay
    from gateway.upstream.grpc_answer import GrpcAnswer

_BRING_WEBHOOKS = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.CREATE_PUSH_CONFIG})
_MISSES = frozenset({TASK_NOT_FOUND.code, TASK_NOT_CANCELABLE.code})
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

    async def forward(
        self, request: RequestContext, backing: Backing, client: Responder, call: Call, webhooks: Webhooks
    ) -> None:
        """Ask the agent, and bring its answer to the client; a message that was sent already gets the answer it had.

        Raises:
            VersionUnsupported, MethodNotAllowed: the agent cannot be asked for this.
            BadParams: the parameters are not of the client's generation, where they are translated; or another message
                has the same id.
            NotAdmitted: as `claims_of`.
            TaskNotFound, TasksLimited: as `Claims.enter`.
            PushDenied: a webhook may not be called.
            StateUnavailable: the ledger does not answer.
            NoHealthyBackend: the backend is ejected, or the replica that the call belongs to is gone.
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Overloaded: as the pool and the relay.
        """
        if backing.repeats.idempotent:
            send = partial(self._forward, request, backing, call, webhooks)
            await self._idempotency.send(backing.upstream.backend, request, call, client, send)
        else:
            await self._forward(request, backing, call, webhooks, client)

    async def _forward(
        self, request: RequestContext, backing: Backing, call: Call, webhooks: Webhooks, client: Responder
    ) -> None:
        principal = request.principal
        assert principal is not None
        key = name_key(principal, backing.upstream.backend, call)
        alias = None if key is None else await self._names.find(key, backing, call)
        binds, home = False, None
        if backing.group is not None:
            backing, binds, home = await choose_replica(backing, backing.group, principal, call, alias)
        call, meant = self._names.meaning(request, call, key, alias)
        interface = backing.upstream.interface(call, meant)
        meter, tenure = backing.meter, backing.tenure
        if call.operation is Operation.LIST_TASKS and tenure is not None and tenure.filters:
            meter.translated(call.dialect, interface.dialect)
            await self._list(request, backing, interface, call, client, binds=binds)
            return
        claims = None
        if tenure is not None:
            claims = request.claims = claims_of(tenure, principal, f"{request.binding.label}/{request.version}")
        named = mentions(call) if claims is not None or call.operation in _BRING_WEBHOOKS else NAMELESS
        pushing = request.pushing = webhooks.of(call, named, claims)
        if pushing is not None:
            # A name of 0.1 is one only to calls that are meant in 0.1.
            await pushing.adopt(call, interface.dialect, alias if meant[0].version is Version.V0_1 else None)
        translation, ours = None, call.dialect.version
        if interface.dialect not in meant or pushing is not None or call.is_mixed:
            if meant[0] != call.dialect and not call.path.legacy_card:
                call = request.call = replace(call, dialect=meant[0])
                request.version = meant[0].version
            translation = await self._translate(request, backing, interface, call, alias)
            meter.translated(call.dialect, interface.dialect)
            call = translation.call
        elif interface.dialect != call.dialect and not call.path.legacy_card:
            # Some methods have one name in two generations; from here on the agent's counts.
            call = replace(call, dialect=interface.dialect)
        if claims is not None:
            # Tasks that only the client's generation can name have to be its own, too; in 0.1 they are its own words.
            also = () if translation is None or ours is Version.V0_1 else named.references
            call = await claims.enter(call, named if translation is None else None, also)
        if named.webhooks and pushing is None:
            await webhooks.judge(named.webhooks)
        caller = _caller(request, principal)
        asking = _Asking(request, backing, interface, self._clock, caller=caller, binds=binds, call=call)
        asking.home, asking.translation = home, translation
        await self._counted(asking, self._ask(asking, call, client))

    async def _list(
        self,
        request: RequestContext,
        backing: Backing,
        interface: Interface,
        call: Call,
        client: Responder,
        *,
        binds: bool,
    ) -> None:
        """Answer with those of the agent's tasks that are the caller's."""
        assert backing.tenure is not None
        assert request.principal is not None
        claims = request.claims = claims_of(backing.tenure, request.principal, "")
        caller = _caller(request, request.principal)
        asking = _Asking(request, backing, interface, self._clock, caller=caller, binds=binds)
        await self._counted(asking, self._enquire(asking, call, claims, client))

    async def _enquire(self, asking: "_Asking", call: Call, claims: Claims, client: Responder) -> None:
        enquiry = Enquiry(asking.exchange, asking, self._clock)
        try:
            await enquiry.list_tasks(call, claims, client)
        finally:
            asking.status = enquiry.status

    async def _counted(self, asking: "_Asking", work: Coroutine[Any, Any, None]) -> None:
        """Count a call while it is at the agent, and its answer afterwards."""
        request, meter = asking.exchange, asking.backing.meter
        meter.forwarding(1)
        request.sent = self._clock()
        try:
            await work
        finally:
            request.on_event = None
            asking.end()
            meter.forwarding(-1)
            meter.answered(asking.backing.replica.key, asking.status)

    async def _ask(self, asking: "_Asking", call: Call, client: Responder) -> None:
        if isinstance(asking.backing.upstream, HttpUpstream | StdioUpstream):
            await self._over_http(asking, call, client)
        else:
            await self._over_grpc(asking, call, client)
        claims = asking.exchange.claims
        if claims is not None and asking.missed:
            await claims.gone()

    async def _over_http(self, asking: "_Asking", call: Call, client: Responder) -> None:
        request = asking.exchange
        try:
            response = await asking.over_http(call)
        except Fault as fault:
            response = await asking.again(call, fault, partial(asking.over_http, call))
        while True:
            try:
                await self._bring(asking, call, response, client)
            except (UpstreamReset, UpstreamConnect) as fault:
                # The answer broke off behind its head, or the agent was gone when it was asked by another verb: as long
                # as the client was told nothing, the call is retried.
                if request.status:
                    raise
                response = await asking.again(call, fault, partial(asking.over_http, call))
            else:
                return

    async def _bring(self, asking: "_Asking", call: Call, response: Response, client: Responder) -> None:
        """Bring the client an answer."""
        request = asking.exchange
        if response.status in FAILING:
            response = await asking.unless_busy(call, response, partial(asking.over_http, call))
        if response.status in FAILING:
            asking.answered(response.status)
        elif call.operation.streams:
            # A stream succeeds with its first event, any other answer when it is complete.
            request.on_event = partial(asking.answered, response.status)
        translation = asking.translation
        if translation is not None and call.operation in method_fallback.TWO_WAYS:
            # An earlier try may have left the call of the fallback here.
            translation.call = call
        relay = (
            Relay(request, asking.backing, asking.interface, self._clock)
            if translation is None
            else asking.interpreter(translation, self._clock)
        )
        try:
            if call.operation in method_fallback.TWO_WAYS:
                relay, response = await self._otherwise(asking, call, relay, response)
            asking.status = response.status
            request.received = self._clock()
            try:
                await relay.run(response, client)
            except Fault as fault:
                asking.broke(response, fault)
                raise
        finally:
            response.close()
        asking.answered(response.status)

    async def _otherwise(
        self, asking: "_Asking", call: Call, relay: Relay, response: Response
    ) -> tuple[Relay, Response]:
        """Return the answer and what relays it: the given ones, or those of another method that the agent knows."""
        request, backing, client = asking.exchange, asking.backing, asking.exchange.call
        if client is None or not isinstance(backing.upstream, HttpUpstream):
            return relay, response
        if isinstance(relay, Interpreter) and call.operation is Operation.SUBSCRIBE_TO_TASK:
            response = await _by_the_other_verb(relay, response, call, asking)
        if not await method_fallback.is_unknown(call, asking.interface.dialect, relay, response):
            return relay, response
        asking.answered(response.status)
        translation = asking.translation or await self._translate(request, backing, asking.interface, client, None)
        ask, interpreter = asking.over_http, partial(asking.interpreter, clock=self._clock)
        found = await method_fallback.find(call, translation, ask, interpreter)
        if found is None:
            return relay, response
        response.close()
        return found

    async def _over_grpc(self, asking: "_Asking", call: Call, client: Responder) -> None:
        request = asking.exchange
        try:
            answer = await asking.over_grpc(call)
        except Fault as fault:
            answer = await asking.again(call, fault, partial(asking.over_grpc, call))
        asking.heard(answer)
        asking.status = 200 if answer.status is None else read_status(answer.status, Version.V1_0).http_status
        request.received = self._clock()
        try:
            await _grpc_relay(asking, self._clock).run(answer, client)
        finally:
            answer.close()

    async def _translate(
        self, request: RequestContext, backing: Backing, interface: Interface, call: Call, alias: Alias | None
    ) -> Translation:
        assert request.principal is not None
        upstream = backing.upstream
        key = name_key(request.principal, upstream.backend, call)
        ours, theirs = call.dialect.version, interface.dialect.version
        met = None
        if key is not None and (Version.V0_1 in (ours, theirs) or call.is_mixed):
            met = self._names.recorder(key, backing)
        translate = partial(
            Translation,
            call,
            interface.dialect,
            tenant=upstream.tenant(call, interface),
            id=request.id,
            message_id=message_id_of(key, call) if key is not None and ours is Version.V0_1 else "",
            new_id=str(uuid.uuid4()) if theirs is Version.V0_1 else "",
            alias=alias,
            met=met,
            push=None if request.pushing is None else request.pushing.config,
        )
        if len(call.body) < _LONG:
            return translate()
        return await asyncio.get_running_loop().run_in_executor(self._threads, translate)


class _Asking(Asking):
    """The attempts of one call.

    Attributes:
        home: The replica that made its task, as `choose_replica` returns it.
        translation: None where client and agent speak the same dialect.
        status: The HTTP status of the answer; None until there is one.
    """

    home: str | None = None
    translation: Translation | None = None
    status: int | None = None

    def over_http(self, call: Call) -> Coroutine[Any, Any, Response]:
        """Send the call to the current replica, over HTTP or stdio."""
        return cast("Coroutine[Any, Any, Response]", self.send(call))

    def interpreter(self, translation: Translation, clock: Callable[[], float]) -> Interpreter:
        """Return what translates the answer."""
        return Interpreter(self.exchange, self.backing, self.interface, clock, translation)

    def over_grpc(self, call: Call) -> "Coroutine[Any, Any, GrpcAnswer]":
        """Send the call to the current replica, over gRPC."""
        return cast("Coroutine[Any, Any, GrpcAnswer]", self.send(call))

    @property
    def missed(self) -> bool:
        """Return whether the agent says that the task does not exist, or is over.

        Of several replicas only the one that made the task can tell.
        """
        if self.home is not None and self.home != self.backing.replica.name:
            return False
        if self.exchange.progress.error is not None:
            return self.exchange.progress.error in _MISSES
        return self.status in (404, 409) and self.interface.dialect.binding is Binding.REST


async def _by_the_other_verb(interpreter: Interpreter, response: Response, call: Call, asking: _Asking) -> Response:
    """Return the answer to a subscription by the other HTTP method, where the agent does not know the first one."""
    if not await interpreter.misses(response):
        return response
    response.close()
    call = replace(call, verb="GET" if call.verb == "POST" else "POST")
    return await asking.over_http(call)


def _grpc_relay(asking: _Asking, clock: Callable[[], float]) -> "GrpcRelay":
    from gateway.grpc_relay import GrpcRelay  # noqa: PLC0415 - only gateways with such agents load its schemas

    return GrpcRelay(asking.exchange, asking.backing, asking.interface, clock, asking.translation)


def _caller(request: RequestContext, principal: Principal) -> Caller:
    return Caller(principal, request.client_ip, request.id, request.started, request.weight, request.cache.prepared)
