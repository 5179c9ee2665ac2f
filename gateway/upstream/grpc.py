"""One agent over gRPC: builds the message and the metadata that it gets.

The method follows from the operation, metadata from allow-lists, and the message is passed on as it came unless its
`tenant` has to change. 0.3 has no such field: its agents get the tenant as the scope of the scoped service (protocol
§3).
"""

import re
import time
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from gateway.a2a.bindings.grpc import with_tenant
from gateway.a2a.bindings.grpc_method import BY_PATH, SCOPE_FIELD, method_of
from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.headers import TO_AGENT, Pairs, pass_on, without_parent
from gateway.upstream.credentials import EXTENSIONS, credentials, extensions, identity, session
from gateway.upstream.dialects import GRPC, Dialects, Interface, Reading
from gateway.upstream.grpc_channel import GrpcChannel, Metadata
from gateway.upstream.grpc_reply import GrpcReply, passed
from gateway.upstream.upstream import Caller, Treatment, UpstreamTimeouts

_OF_HTTP = frozenset({b"accept", b"cache-control", b"content-language", b"content-type", b"user-agent"})
_NAME = re.compile(rb"(?!grpc-)[0-9a-z_.-]+(?<!-bin)")
_VALUE = re.compile(rb"[\x20-\x7e]*")
"""Names and values that gRPC metadata may have (Custom-Metadata); the library refuses calls with any other."""


class GrpcUpstream:
    """One backend of one agent, over gRPC.

    Args:
        backend: The key of the backend in metrics and logs.
        version: The configured version, or None for that of the card.
        scope_field: The number of `scope` in requests of the scoped service.
        clock: Monotonic seconds.

    Raises:
        ValueError: gRPC cannot carry a credential; the text does not contain it.
    """

    def __init__(
        self,
        *,
        backend: str,
        url: str,
        channel: GrpcChannel,
        cards: Reading,
        timeouts: UpstreamTimeouts,
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
        self.dialects = Dialects(
            url=url, cards=cards, relayed=GRPC, tenant=treatment.tenant, binding=Binding.GRPC, version=version
        )
        self._scope_field = scope_field
        if len(_legal(treatment.credentials)) < len(treatment.credentials):
            raise ValueError("a credential is no metadata of gRPC")
        # Clients cannot add to metadata that the gateway sets itself.
        own = {name for name, _ in treatment.credentials} | EXTENSIONS | {b"a2a-version"} | _OF_HTTP
        self._allowed = (TO_AGENT | treatment.forwarded) - own

    @property
    def active(self) -> int:
        """1 while the connection serves calls or is made for one, else 0."""
        return self.channel.active

    @property
    def idle(self) -> int:
        """1 while the connection is established and idle, else 0."""
        return self.channel.idle

    def send(
        self,
        call: Call,
        interface: Interface,
        head: Head,
        caller: Caller,
        *,
        fresh: bool = False,  # noqa: ARG002 - calls share the connection
    ) -> Coroutine[Any, Any, GrpcReply]:
        """Send the call, and return the reply with its answer, or with the first message of a stream.

        The agent gets a deadline: the shorter of its own timeouts and of the rest of the client's deadline. The first
        message of a stream has the timeout of an answer; a stream as a whole has only the client's deadline.

        Raises:
            BodyTooLarge, UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Unsent, Draining: as the
                channel.
            DeadlinePassed: nothing is left of the client's time.
        """
        timeouts, version = self.timeouts, interface.dialect.version
        tenant = self.dialects.tenant(call, interface)
        scoped = version is Version.V0_3 and tenant is not None
        path = method_of(call.operation, version, scoped=scoped).path
        message = self._message(call, tenant, path)
        names = self.treatment.identity
        named = session(call, caller, names) if names.session else []
        if caller.token is not None:
            named.append(caller.token)
        if caller.traceparent is not None:
            named.append((b"traceparent", caller.traceparent))
        own = [(name.decode(), value.decode()) for name, value in named] if named else ()
        metadata = (*self._metadata(version, head, caller), ("x-request-id", caller.request_id), *own)
        patience = timeouts.send if call.operation.sends else timeouts.first_byte
        wanted = self._left(head, caller)
        # Not awaited here: the loop goes through each frame in between again when the answer comes.
        if call.operation.streams:
            return self.channel.stream(path, message, metadata, first=patience, timeout=wanted)
        limit = min(patience, timeouts.total)
        if wanted is not None and wanted < limit:
            return self.channel.unary(path, message, metadata, timeout=wanted, expired=passed)
        return self.channel.unary(path, message, metadata, timeout=limit)

    async def aclose(self) -> None:
        """Close the connection and cut open calls."""
        await self.channel.aclose()

    def _left(self, head: Head, caller: Caller) -> float | None:
        """Return the seconds left of a gRPC client's deadline, or None."""
        wanted = head.timeout
        if wanted is None or caller.since is None:
            return wanted
        left = wanted - (self._clock() - caller.since)
        if left <= 0:
            raise passed()
        return left

    def _message(self, call: Call, tenant: str | None, path: str) -> bytes:
        if tenant is not None and call.dialect.version is Version.V0_3 and not BY_PATH[call.method].scoped:
            # A call of the plain service, or a translated one, has no scope yet.
            call = replace(call, method=path, tenant=None)
        if (call.tenant_written and tenant == call.tenant) or (tenant is None and not call.in_body):
            return call.body
        return with_tenant(call, tenant, scope_field=self._scope_field)

    def _metadata(self, version: Version, head: Head, caller: Caller) -> Metadata:
        """Return all metadata except the request id; cached with the head for the next request of the same caller."""
        key = (self, version)
        found = caller.prepared.metadata.find(key, head, caller)
        if found is not None:
            return found
        pairs: Pairs = pass_on(head.headers, self._allowed)
        if caller.traceparent is not None:
            pairs = without_parent(pairs)
        pairs.append((b"a2a-version", version.encode("ascii")))
        pairs += extensions(head.headers, version)
        pairs += credentials(self.treatment, head)
        pairs += identity(caller, self.treatment.identity)
        metadata = tuple((name.decode("ascii"), value.decode("ascii")) for name, value in _legal(pairs))
        caller.prepared.metadata.keep(key, head, caller, metadata)
        return metadata


def _legal(pairs: Pairs | tuple[tuple[bytes, bytes], ...]) -> Pairs:
    """Return the pairs that gRPC metadata can carry as text."""
    return [
        (name, value.strip(b" "))
        for name, value in pairs
        if _NAME.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None
    ]
