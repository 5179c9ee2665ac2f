"""FORWARD: the agent is asked, in the client's own dialect or in one of the agent's.

Relay or translate: where both sides speak the same dialect the client's bytes go on and the agent's come back
(`relay.py`); else the call is translated, and what comes back as well (`interpreter.py`).
"""

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from gateway import otherwise
from gateway.a2a.bindings.grpc_status import read as read_status
from gateway.a2a.bindings.jsonrpc import METHODS, SHARED_WITH_0_1
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.error_kind import TASK_NOT_CANCELABLE, TASK_NOT_FOUND
from gateway.a2a.fault import Fault, UpstreamConnect, UpstreamReset
from gateway.a2a.ids import NO_IDS as NAMELESS
from gateway.a2a.ids import referenced_ids
from gateway.a2a.naming import Alias
from gateway.a2a.operation import Operation
from gateway.a2a.translation import Translation
from gateway.backing import Backing
from gateway.enquiry import Enquiry
from gateway.exchange import Exchange
from gateway.group import Group
from gateway.interpreter import Interpreter
from gateway.once import Once
from gateway.principal import Principal
from gateway.relay import Relay
from gateway.repetition import Asking
from gateway.tasks.aliases import Aliases, KeptAliases, Key
from gateway.tasks.ownership import ownership_of
from gateway.upstream.failure import FAILING
from gateway.upstream.http import HttpUpstream
from gateway.upstream.repertoire import Interface, spellings
from gateway.upstream.response import Response
from gateway.upstream.stdio.upstream import StdioUpstream
from gateway.upstream.upstream import Caller, Upstream
from gateway.webhooks import Webhooks
from gateway.wire import Wire

if TYPE_CHECKING:
    from gateway.grpc_relay import GrpcRelay
    from gateway.upstream.grpc_answer import GrpcAnswer

_MAYBE_NAMED = (
    frozenset(name for name, known in METHODS.items() if known[1] is Version.V0_1)
    | SHARED_WITH_0_1
    | {"tasks/subscribe"}
)
"""Methods by which a client may name a task of its own, or one that it made in another generation than they tell."""
_MIXED = Alias("", newer=True, mixed=True)
"""What is known of a caller whose last message had objects of 1.0 under a method name of 0.3."""
_BRING_WEBHOOKS = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.CREATE_PUSH_CONFIG})
_MISSES = frozenset({TASK_NOT_FOUND.code, TASK_NOT_CANCELABLE.code})
"""Errors of an agent after which a task cannot be open."""
_LONG = 128 * 1024
"""Bytes of a body from which on it is translated in a thread."""
_SEEDS = uuid.UUID("5b7c2f1e-6d0b-5a7e-9a63-0c8a4a0f6f1d")


class Forwarder:
    """Asks agents, and brings their answers to clients.

    Args:
        clock: Monotonic seconds.
        aside: Where long bodies are worked on.
    """

    def __init__(self, clock: Callable[[], float], aside: Executor) -> None:
        self._clock = clock
        self._aside = aside
        self._aliases = Aliases()
        self._lasting: KeptAliases | None = None
        # By backend; they outlive a configuration.
        self._once: dict[str, Once] = {}

    def forward(
        self, exchange: Exchange, backing: Backing, wire: Wire, call: Call, webhooks: Webhooks
    ) -> Coroutine[Any, Any, None]:
        """Ask the agent, and bring its answer to the client; a message that was sent already gets the answer it had.

        Raises:
            Fault: as `_forward`; BadParams where another message has the same id.
        """
        if backing.repeats.idempotent:
            once = self._once.get(backing.upstream.backend)
            if once is None:
                once = self._once[backing.upstream.backend] = Once(self._clock)
            key = once.key(exchange, call)
            if key is not None:
                send = partial(self._forward, exchange, backing, call, webhooks)
                return once.send(key, exchange, call, wire, send)
        # Not awaited here: each frame in between is gone through again when the answer comes.
        return self._forward(exchange, backing, call, webhooks, wire)

    async def _forward(self, exchange: Exchange, backing: Backing, call: Call, webhooks: Webhooks, wire: Wire) -> None:
        """Ask the agent, and bring its answer to the client.

        Raises:
            VersionUnsupported, MethodNotAllowed: the agent cannot be asked for this.
            BadParams: the parameters are not what the client's generation says; an agent that speaks the same dialect
                reads them itself.
            NotAdmitted: as `ownership_of`.
            TaskNotFound, TasksLimited: as `Ownership.authorize`.
            PushDenied: a webhook may not be called.
            StateUnavailable: nobody knows whose the tasks are.
            NoHealthyBackend: the backend is left alone, or the replica that the call belongs to is gone.
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Overloaded: as the pool and the relay.
        """
        meter, principal = backing.meter, exchange.principal
        assert principal is not None
        key = self._key(principal, backing.upstream, call)
        alias = None if key is None else await self._alias(key, backing, call)
        binds, home = False, None
        if backing.group is not None:
            backing, binds, home = await self._lead(backing, backing.group, principal, call, alias)
        upstream = backing.upstream
        call, meant = self._meaning(exchange, call, key, alias)
        interface = upstream.interface(call, meant)
        if call.operation is Operation.LIST_TASKS and backing.isolation is not None and backing.isolation.filters:
            meter.translated(call.dialect, interface.dialect)
            await self._list(exchange, backing, interface, call, wire, binds=binds)
            return
        ownership = None
        if backing.isolation is not None:
            ownership = exchange.ownership = ownership_of(
                backing.isolation, principal, f"{exchange.binding.label}/{exchange.version}"
            )
        named = referenced_ids(call) if ownership is not None or call.operation in _BRING_WEBHOOKS else NAMELESS
        pushing = exchange.pushing = webhooks.of(call, named, ownership)
        if pushing is not None:
            # A name of 0.1 is one to calls that are meant in 0.1, here as everywhere.
            await pushing.adopt(call, interface.dialect, alias if meant[0].version is Version.V0_1 else None)
        translation, ours = None, call.dialect.version
        if interface.dialect not in meant or pushing is not None or call.is_mixed:
            if meant[0] != call.dialect and not call.path.legacy_card:
                call = exchange.call = replace(call, dialect=meant[0])
                exchange.version = meant[0].version
            translation = await self._translate(exchange, backing, interface, call, alias)
            meter.translated(call.dialect, interface.dialect)
            call = translation.call
        elif interface.dialect != call.dialect and not call.path.legacy_card:
            # Some methods are called the same in two generations; from here on it is the agent's that counts.
            call = replace(call, dialect=interface.dialect)
        if ownership is not None:
            # In 0.1 they are words of the client's own; all others have to be its tasks, be the agent told or not.
            also = () if translation is None or ours is Version.V0_1 else named.references
            call = await ownership.authorize(call, named if translation is None else None, also)
        if named.webhooks and pushing is None:
            await webhooks.judge(named.webhooks)
        caller = Caller(principal, exchange.client_ip, exchange.id, exchange.started, exchange.weight)
        asking = _Asking(exchange, backing, interface, self._clock, caller=caller, binds=binds, call=call)
        asking.home, asking.translation = home, translation
        meter.forwarding(1)
        exchange.sent = self._clock()
        try:
            await self._ask(asking, call, wire)
        finally:
            exchange.on_event = None
            asking.end()
            meter.forwarding(-1)
            meter.answered(asking.backing.replica.key, asking.status)

    @staticmethod
    async def _lead(
        backing: Backing, group: Group, principal: Principal, call: Call, alias: Alias | None
    ) -> tuple[Backing, bool, str | None]:
        """Which replica a call goes to, whether to that or to none, and which one made its task.

        The last is empty where nobody knows, and None where any replica knows of any task.

        Raises:
            NoHealthyBackend: as `Group.admit` and `Group.lead`.
            TaskNotFound: the same, of a task that is not the caller's.
            StateUnavailable: nobody knows where it belongs.
        """
        if not group.is_settled:
            with suppress(TimeoutError):
                async with asyncio.timeout(backing.upstream.timeouts.connect):
                    await group.settled()
        group.admit()
        if backing.isolation is None or backing.isolation.affinity is None:
            return group.another(()), False, None
        named = referenced_ids(call)
        if alias is not None and not alias.newer:
            named = replace(named, tasks=(alias.task_id, *named.tasks))
        ownership = ownership_of(backing.isolation, principal, "")
        home, by_task = await ownership.replica_of(named)
        home = group.called(home) if home else ""
        if call.operation is Operation.LIST_TASKS and not home:
            return group.steady(f"{principal.tenant} {principal.who}"), False, ""
        binds = home != "" and group.keeping.binds(by_task=by_task)
        if binds and not group.has(home):
            # Who may not know of something is not told that its replica is gone.
            for each in named.tasks[: 1 if alias is not None else None] if by_task else ():
                await ownership.authorize_task(each, call.dialect.version)
            if not by_task and not await ownership.owns_context(named.context or ""):
                return group.another(()), False, ""
        return group.lead(home, binds=binds), binds, home if by_task else ""

    async def _list(
        self, exchange: Exchange, backing: Backing, interface: Interface, call: Call, wire: Wire, *, binds: bool
    ) -> None:
        """Bring the client those of an agent's tasks that are the caller's."""
        assert backing.isolation is not None
        assert exchange.principal is not None
        ownership = exchange.ownership = ownership_of(backing.isolation, exchange.principal, "")
        caller = Caller(exchange.principal, exchange.client_ip, exchange.id, exchange.started, exchange.weight)
        asking = Asking(exchange, backing, interface, self._clock, caller=caller, binds=binds)
        enquiry = Enquiry(exchange, asking, self._clock)
        backing.meter.forwarding(1)
        exchange.sent = self._clock()
        try:
            await enquiry.list_tasks(call, ownership, wire)
        finally:
            asking.end()
            backing.meter.forwarding(-1)
            backing.meter.answered(asking.backing.replica.key, enquiry.status)

    async def _ask(self, asking: "_Asking", call: Call, wire: Wire) -> None:
        if isinstance(asking.backing.upstream, HttpUpstream | StdioUpstream):
            await self._over_http(asking, call, wire)
        else:
            await self._over_grpc(asking, call, wire)
        ownership = asking.exchange.ownership
        if ownership is not None and asking.missed:
            await ownership.record_loss()

    async def _over_http(self, asking: "_Asking", call: Call, wire: Wire) -> None:
        exchange = asking.exchange
        try:
            response = await asking.over_http(call)
        except Fault as fault:
            response = await asking.again(call, fault, partial(asking.over_http, call))
        while True:
            try:
                await self._bring(asking, call, response, wire)
            except (UpstreamReset, UpstreamConnect) as fault:
                # The head was there and the rest was not, or it was asked by another verb and there was nobody any
                # more; where nobody was told of it, it is as if there were none.
                if exchange.status:
                    raise
                response = await asking.again(call, fault, partial(asking.over_http, call))
            else:
                return

    async def _bring(self, asking: "_Asking", call: Call, response: Response, wire: Wire) -> None:
        """Bring the client an answer."""
        exchange = asking.exchange
        if response.status in FAILING:
            response = await asking.unless_busy(call, response, partial(asking.over_http, call))
        if response.status in FAILING:
            asking.answered(response.status)
        elif call.operation.streams:
            # A stream has gone well once there is an event, and whatever is none once all of it is there.
            exchange.on_event = partial(asking.answered, response.status)
        translation = asking.translation
        if translation is not None and call.operation in otherwise.TWO_WAYS:
            # What was asked before it was asked in another way, and is asked again now.
            translation.call = call
        relay = (
            Relay(exchange, asking.backing, asking.interface, self._clock)
            if translation is None
            else asking.interpreter(translation, self._clock)
        )
        try:
            if call.operation in otherwise.TWO_WAYS:
                relay, response = await self._otherwise(asking, call, relay, response)
            asking.status = response.status
            exchange.received = self._clock()
            try:
                await relay.run(response, wire)
            except Fault as fault:
                asking.broke(response, fault)
                raise
        finally:
            response.close()
        asking.answered(response.status)

    async def _otherwise(
        self, asking: "_Asking", call: Call, relay: Relay, response: Response
    ) -> tuple[Relay, Response]:
        """The same, or the answer in another way, which is the only one that the agent knows, and who brings it."""
        exchange, backing, client = asking.exchange, asking.backing, asking.exchange.call
        if client is None or not isinstance(backing.upstream, HttpUpstream):
            return relay, response
        if isinstance(relay, Interpreter) and call.operation is Operation.SUBSCRIBE_TO_TASK:
            response = await _by_the_other_verb(relay, response, call, asking)
        if not await otherwise.is_unknown(call, asking.interface.dialect, relay, response):
            return relay, response
        asking.answered(response.status)
        translation = asking.translation or await self._translate(exchange, backing, asking.interface, client, None)
        ask, interpreter = asking.over_http, partial(asking.interpreter, clock=self._clock)
        found = await otherwise.find(call, translation, ask, interpreter)
        if found is None:
            return relay, response
        response.close()
        return found

    async def _over_grpc(self, asking: "_Asking", call: Call, wire: Wire) -> None:
        exchange = asking.exchange
        try:
            answer = await asking.over_grpc(call)
        except Fault as fault:
            answer = await asking.again(call, fault, partial(asking.over_grpc, call))
        asking.heard(answer)
        asking.status = 200 if answer.status is None else read_status(answer.status, Version.V1_0).http_status
        exchange.received = self._clock()
        try:
            await _grpc_relay(asking, self._clock).run(answer, wire)
        finally:
            answer.close()

    async def _alias(self, key: Key, backing: Backing, call: Call) -> Alias | None:
        kept = self._kept(backing)
        if kept is None or call.method not in _MAYBE_NAMED:
            return self._aliases.find(key)
        alias = await kept.find(key)
        if alias is not None and not alias.newer and backing.isolation is not None and backing.isolation.keeps:
            known = await backing.isolation.ledger.store.tasks(backing.isolation.scope, (alias.task_id,))
            if known == [None] and not backing.isolation.adopts:
                # Erased or forgotten meanwhile: the name is free again.
                self._aliases.forget(key)
                return None
        return alias

    def _meaning(
        self, exchange: Exchange, call: Call, key: Key | None, alias: Alias | None
    ) -> tuple[Call, tuple[Dialect, ...]]:
        """Return the call, of 1.0 where only its task tells that it is, and the dialects that it may be meant in."""
        meant = spellings(call, alias)
        if meant[0].version is Version.V1_0 and meant[0] != call.dialect:
            call = exchange.call = replace(call, dialect=meant[0])
            exchange.version = Version.V1_0
        if key is not None and call.operation.sends:
            # For the caller's lists, which name no task.
            if call.is_mixed:
                self._aliases.put(key, "", _MIXED)
            else:
                self._aliases.forget(key._replace(name=""))
        return call, meant

    def _kept(self, backing: Backing) -> KeptAliases | None:
        """The names that outlive this process, for a backend whose tasks have owners."""
        if backing.isolation is None:
            return None
        if self._lasting is None or self._lasting.ledger is not backing.isolation.ledger:
            self._lasting = KeptAliases(self._aliases, backing.isolation.ledger)
        return self._lasting

    @staticmethod
    def _key(principal: Principal, upstream: Upstream, call: Call) -> Key | None:
        """Whose name for a task of which backend a call may hold; None where there are no such names."""
        mixed = call.is_mixed and call.operation.sends
        if call.dialect.binding is not Binding.JSONRPC or (call.dialect.version is Version.V1_0 and not mixed):
            return None
        owner = (principal.tenant, principal.issuer, principal.who, call.tenant or "")
        return Key(owner, upstream.backend, call.task_id or "")

    async def _translate(
        self, exchange: Exchange, backing: Backing, interface: Interface, call: Call, alias: Alias | None
    ) -> Translation:
        assert exchange.principal is not None
        upstream = backing.upstream
        key = self._key(exchange.principal, upstream, call)
        ours, theirs = call.dialect.version, interface.dialect.version
        met = None
        if key is not None and (Version.V0_1 in (ours, theirs) or call.is_mixed):
            kept = self._kept(backing)
            met = partial(self._aliases.put, key)
            if kept is not None:
                met = partial(kept.put, asyncio.get_running_loop(), key)
        translate = partial(
            Translation,
            call,
            interface.dialect,
            tenant=upstream.tenant(call, interface),
            id=exchange.id,
            message_id=_message_id(key, call) if key is not None and ours is Version.V0_1 else "",
            new_id=str(uuid.uuid4()) if theirs is Version.V0_1 else "",
            alias=alias,
            met=met,
            push=None if exchange.pushing is None else exchange.pushing.config,
        )
        if len(call.body) < _LONG:
            return translate()
        return await asyncio.get_running_loop().run_in_executor(self._aside, translate)


class _Asking(Asking):
    """One call on its way to an agent.

    Attributes:
        home: The replica that made its task, as `Forwarder._lead` gives it.
        translation: How, where the client speaks otherwise.
        status: That of the answer, in HTTP's numbers; None until there is one.
    """

    home: str | None = None
    translation: Translation | None = None
    status: int | None = None

    def over_http(self, call: Call) -> Coroutine[Any, Any, Response]:
        """Send the call to the replica of the moment, which answers as one over HTTP does."""
        return cast("Coroutine[Any, Any, Response]", self.send(call))

    def interpreter(self, translation: Translation, clock: Callable[[], float]) -> Interpreter:
        """Who brings the answer to a client that speaks otherwise."""
        return Interpreter(self.exchange, self.backing, self.interface, clock, translation)

    def over_grpc(self, call: Call) -> "Coroutine[Any, Any, GrpcAnswer]":
        """As `over_http`, behind gRPC."""
        return cast("Coroutine[Any, Any, GrpcAnswer]", self.send(call))

    @property
    def missed(self) -> bool:
        """Whether the agent has said that it knows no such task, or that it is over.

        Of several replicas that is for the one to say that made it: another knows nothing of it.
        """
        if self.home is not None and self.home != self.backing.replica.name:
            return False
        if self.exchange.progress.error is not None:
            return self.exchange.progress.error in _MISSES
        return self.status in (404, 409) and self.interface.dialect.binding is Binding.REST


async def _by_the_other_verb(interpreter: Interpreter, response: Response, call: Call, asking: _Asking) -> Response:
    """The answer to a subscription by the other HTTP method, where the agent does not know the first one."""
    if not await interpreter.misses(response):
        return response
    response.close()
    call = replace(call, verb="GET" if call.verb == "POST" else "POST")
    return await asking.over_http(call)


def _grpc_relay(asking: _Asking, clock: Callable[[], float]) -> "GrpcRelay":
    from gateway.grpc_relay import GrpcRelay  # noqa: PLC0415 - only those who have such agents pay for its schemas

    return GrpcRelay(asking.exchange, asking.backing, asking.interface, clock, asking.translation)


def _message_id(key: Key, call: Call) -> str:
    """An id for a message of 0.1, which has none; the same when the very same request comes again."""
    body = hashlib.sha256(call.body).hexdigest()
    return str(uuid.uuid5(_SEEDS, f"{key!r} {body}"))
