"""FORWARD: the agent is asked, in the client's own dialect or in one of the agent's.

Relay or translate: where both sides speak the same dialect the client's bytes go on and the agent's come back
(`relay.py`); else the call is translated, and what comes back as well (`interpreter.py`).
"""

import asyncio
import hashlib
import uuid
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from gateway.a2a.bindings.grpc_status import read as read_status
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.naming import Alias
from gateway.a2a.operation import Operation
from gateway.a2a.translation import Translation
from gateway.backing import Backing
from gateway.exchange import Exchange
from gateway.interpreter import Interpreter
from gateway.principal import Principal
from gateway.relay import Relay
from gateway.tasks.aliases import Aliases, Key
from gateway.upstream.http import HttpUpstream
from gateway.upstream.repertoire import Interface, spellings
from gateway.upstream.response import Response
from gateway.upstream.upstream import Caller, Upstream
from gateway.wire import Wire

if TYPE_CHECKING:
    from gateway.grpc_relay import GrpcRelay
    from gateway.upstream.grpc_answer import GrpcAnswer

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

    async def forward(self, exchange: Exchange, backing: Backing, wire: Wire, call: Call) -> None:
        """Ask the agent, and bring its answer to the client.

        Raises:
            VersionUnsupported, MethodNotAllowed: the agent cannot be asked for this.
            BadParams: the parameters are not what the client's generation says; an agent that speaks the same dialect
                reads them itself.
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Overloaded: as the pool and the relay.
        """
        upstream, meter, principal = backing.upstream, backing.meter, exchange.principal
        assert principal is not None
        key = self._key(principal, upstream, call)
        alias = None if key is None else self._aliases.find(key)
        meant = spellings(call, alias)
        interface = upstream.interface(call, meant)
        translation: Translation | None = None
        if interface.dialect not in meant or _is_mixed(call):
            if meant[0] != call.dialect and not call.path.legacy_card:
                call = exchange.call = replace(call, dialect=meant[0])
                exchange.version = meant[0].version
            translation = await self._translate(exchange, upstream, interface, call, alias)
            call = translation.call
        caller = Caller(principal, exchange.client_ip, exchange.id)
        status: int | None = None
        meter.forwarding(1)
        exchange.sent = self._clock()
        try:
            if isinstance(upstream, HttpUpstream):
                response = await upstream.send(call, interface, exchange.head, caller)
                relay: Relay
                if translation is None:
                    relay = Relay(exchange, backing, interface, self._clock)
                else:
                    relay = interpreter = Interpreter(exchange, backing, interface, self._clock, translation)
                    if call.operation is Operation.SUBSCRIBE_TO_TASK:
                        response = await _by_the_other_verb(interpreter, upstream, response, exchange, caller)
                status = response.status
                exchange.received = self._clock()
                try:
                    await relay.run(response, wire)
                finally:
                    response.close()
            else:
                answer = cast("GrpcAnswer", await upstream.send(call, interface, exchange.head, caller))
                status = 200 if answer.status is None else read_status(answer.status, Version.V1_0).http_status
                exchange.received = self._clock()
                try:
                    await _grpc_relay(exchange, backing, interface, self._clock, translation).run(answer, wire)
                finally:
                    answer.close()
        finally:
            meter.forwarding(-1)
            meter.answered(upstream.backend, status)

    @staticmethod
    def _key(principal: Principal, upstream: Upstream, call: Call) -> Key | None:
        """Whose name for a task of which backend a call may hold; None where there are no such names."""
        if call.dialect.version is Version.V1_0 or call.dialect.binding is not Binding.JSONRPC:
            return None
        owner = (principal.tenant, principal.issuer, principal.subject, call.tenant or "")
        return Key(owner, upstream.backend, call.task_id or "")

    async def _translate(
        self, exchange: Exchange, upstream: Upstream, interface: Interface, call: Call, alias: Alias | None
    ) -> Translation:
        assert exchange.principal is not None
        key = self._key(exchange.principal, upstream, call)
        ours, theirs = call.dialect.version, interface.dialect.version
        met = None
        if key is not None and Version.V0_1 in (ours, theirs):
            met = partial(self._aliases.put, key)
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
        )
        if len(call.body) < _LONG:
            return translate()
        return await asyncio.get_running_loop().run_in_executor(self._aside, translate)


def _is_mixed(call: Call) -> bool:
    """Whether objects of 1.0 came under a method name of 0.3 (protocol trap 14), which agents of 1.0 do not know."""
    return call.dialect.version is Version.V1_0 and call.dialect.binding is Binding.JSONRPC and "/" in call.method


async def _by_the_other_verb(
    interpreter: Interpreter, upstream: HttpUpstream, response: Response, exchange: Exchange, caller: Caller
) -> Response:
    """The answer to a subscription by the other HTTP method, where the agent does not know the first one."""
    if not await interpreter.misses(response):
        return response
    response.close()
    call = interpreter.translation.call
    call = replace(call, verb="GET" if call.verb == "POST" else "POST")
    return await upstream.send(call, interpreter.interface, exchange.head, caller)


def _grpc_relay(
    exchange: Exchange,
    backing: Backing,
    interface: Interface,
    clock: Callable[[], float],
    translation: Translation | None,
) -> "GrpcRelay":
    from gateway.grpc_relay import GrpcRelay  # noqa: PLC0415 - only those who have such agents pay for its schemas

    return GrpcRelay(exchange, backing, interface, clock, translation)


def _message_id(key: Key, call: Call) -> str:
    """An id for a message of 0.1, which has none; the same when the very same request comes again."""
    body = hashlib.sha256(call.body).hexdigest()
    return str(uuid.uuid5(_SEEDS, f"{key!r} {body}"))
