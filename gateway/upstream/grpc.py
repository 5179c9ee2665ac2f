"""One agent over gRPC: the message and the metadata that it gets.

As over HTTP, they are made from what was decided on: the method from the operation, metadata from allow-lists, the
message as it came unless its `tenant` has to change. An agent of 0.3 has no such field: what it is told as its tenant
is the scope of the scoped service (protocol §3).
"""

import re
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.a2a.bindings.grpc import with_tenant
from gateway.a2a.bindings.grpc_method import BY_PATH, SCOPE_FIELD, method_of
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.headers import TO_AGENT, Pairs, pass_on
from gateway.principal import Principal
from gateway.upstream.credentials import EXTENSIONS, credentials, extensions, identity, session
from gateway.upstream.dialects import GRPC, Dialects, Interface, Reading
from gateway.upstream.grpc_answer import GrpcAnswer
from gateway.upstream.grpc_channel import GrpcChannel, Metadata
from gateway.upstream.grpc_end import passed
from gateway.upstream.upstream import Caller, Timeouts, Treatment

_MOST_KNOWN = 16
"""What is worked out from one head that is kept at most: a client may call many agents with it."""
_OF_HTTP = frozenset({b"accept", b"cache-control", b"content-language", b"content-type", b"user-agent"})
_NAME = re.compile(rb"(?!grpc-)[0-9a-z_.-]+(?<!-bin)")
_VALUE = re.compile(rb"[\x20-\x7e]*")
"""What metadata may be (gRPC over HTTP/2, Custom-Metadata); a call with anything else is never sent."""
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_FOREVER = 30 * 24 * 3600.0
"""Seconds from which on a time is none; gRPC reckons with nanoseconds, which have an end."""
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


class GrpcUpstream:
    """One backend of one agent, over gRPC.

    Args:
        backend: The key of the backend in metrics and logs.
        version: The version that the file writes, or None for what the card says.
        scope_field: The number of `scope` in requests of the scoped service.
        clock: Monotonic seconds.

    Raises:
        ValueError: a credential is none that gRPC can carry; the text does not have it.
    """

    def __init__(
        self,
        *,
        backend: str,
        url: str,
        channel: GrpcChannel,
        cards: Reading,
        timeouts: Timeouts,
        treatment: Treatment,
        version: Version | None = None,
        scope_field: int = SCOPE_FIELD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.backend = backend
        self.url = url
        self.channel = channel
        self.timeouts = timeouts
        self._clock = clock
        self.treatment = treatment
        repertoire = Dialects(
            url=url, cards=cards, relayed=GRPC, tenant=treatment.tenant, binding=Binding.GRPC, version=version
        )
        # As `HttpUpstream` does.
        self.interfaces = repertoire.interfaces
        self.interface = repertoire.interface
        self.tenant = repertoire.tenant
        self.restores_tenant = repertoire.restores_tenant
        self._scope_field = scope_field
        if len(_legal(treatment.credentials)) < len(treatment.credentials):
            raise ValueError("a credential is no metadata of gRPC")
        # What the gateway sets itself no client adds to.
        own = {name for name, _ in treatment.credentials} | EXTENSIONS | {b"a2a-version"} | _OF_HTTP
        self._allowed = (TO_AGENT | treatment.forwarded) - own

    @property
    def active(self) -> int:
        """1 while the connection serves calls or is made for one, else 0."""
        return self.channel.active

    @property
    def idle(self) -> int:
        """1 while the connection stands and serves none, else 0."""
        return self.channel.idle

    def send(self, call: Call, interface: Interface, head: Head, caller: Caller) -> Coroutine[Any, Any, GrpcAnswer]:
        """Send the call; the answer, or the first message of a stream, is there when this was awaited.

        The agent is told how long it has: the shorter of what its timeouts say and of what is left of the client's own.
        The first message of a stream has as long as an answer; a stream as a whole only what the client says.

        Raises:
            BodyTooLarge, UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Unsent, Draining: as the
                channel.
            DeadlinePassed: nothing is left of the client's time.
        """
        timeouts, version = self.timeouts, interface.dialect.version
        told = self.tenant(call, interface)
        scoped = version is Version.V0_3 and told is not None
        path = method_of(call.operation, version, scoped=scoped).path
        message = self._message(call, told, path)
        own = [(b"x-request-id", caller.request_id.encode()), *session(call, caller, self.treatment.identity)]
        metadata = (*self._metadata(version, head, caller), *((name.decode(), value.decode()) for name, value in own))
        patience = timeouts.send if call.operation.sends else timeouts.first_byte
        wanted = self._left(head, caller)
        if call.operation.streams:
            return self.channel.stream(path, message, metadata, first=patience, timeout=wanted)
        limit = min(patience, timeouts.total)
        if wanted is not None and wanted < limit:
            return self.channel.unary(path, message, metadata, timeout=wanted, expired=passed)
        return self.channel.unary(path, message, metadata, timeout=limit)

    async def aclose(self) -> None:
        """Close the connection, cutting what is on its way."""
        await self.channel.aclose()

    def _left(self, head: Head, caller: Caller) -> float | None:
        """Seconds that a client of gRPC still gives the call, or None."""
        wanted = _clients_timeout(head)
        if wanted is None or caller.since is None:
            return wanted
        left = wanted - (self._clock() - caller.since)
        if left <= 0:
            raise passed()
        return left

    def _message(self, call: Call, told: str | None, path: str) -> bytes:
        if told is not None and call.dialect.version is Version.V0_3 and not BY_PATH[call.method].scoped:
            # What came from the plain service, or was translated, has no scope yet.
            call = replace(call, method=path, tenant=None)
        if (call.told and told == call.tenant) or (told is None and not call.in_body):
            return call.body
        return with_tenant(call, told, scope_field=self._scope_field)

    def _metadata(self, version: Version, head: Head, caller: Caller) -> Metadata:
        """All but the request's id; the same for the next request with the same head of the same caller."""
        key = (self, version)
        found = head.known.get(key)
        if isinstance(found, _Prepared) and found.principal is caller.principal and found.peer == caller.forwarded_for:
            return found.metadata
        pairs: Pairs = pass_on(head.headers, self._allowed)
        pairs.append((b"a2a-version", version.encode("ascii")))
        pairs += extensions(head.headers, version)
        pairs += credentials(self.treatment, head)
        pairs += identity(caller, self.treatment.identity)
        metadata = tuple((name.decode("ascii"), value.decode("ascii")) for name, value in _legal(pairs))
        if len(head.known) >= _MOST_KNOWN:
            head.known.clear()
        head.known[key] = _Prepared(caller.principal, caller.forwarded_for, metadata)
        return metadata


class _Prepared(msgspec.Struct, frozen=True, eq=False):
    """The metadata for one caller behind one client."""

    principal: Principal
    peer: str
    metadata: Metadata


def _legal(pairs: Pairs | tuple[tuple[bytes, bytes], ...]) -> Pairs:
    """What gRPC can carry as text, and may."""
    return [
        (name, value.strip(b" "))
        for name, value in pairs
        if _NAME.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None
    ]


def _clients_timeout(head: Head) -> float | None:
    """Seconds that a client of gRPC gives the call, or None."""
    said = head.first(b"grpc-timeout") if head.grpc is not None else None
    found = None if said is None else _TIMEOUT.fullmatch(said)
    seconds = _FOREVER if found is None else int(found[1]) * _SECONDS[found[2]]
    return seconds if seconds < _FOREVER else None
