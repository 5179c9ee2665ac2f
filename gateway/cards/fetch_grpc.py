"""The card of an agent behind gRPC, which has methods that return a card instead of a well-known path.

1.0 has the extended card alone, 0.3 one method for both (protocol trap 27). The services that answer show the versions
of the agent, even without a card. The gateway uses its own credential, so only callers that may use the agent see that
card; others see a minimal one, unless the file has a card.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.a2a.bindings.grpc import read_answer, with_tenant
from gateway.a2a.bindings.grpc_method import SCOPE_FIELD, GrpcMethod, method_of
from gateway.a2a.bindings.grpc_status import CODES
from gateway.a2a.call import Call
from gateway.a2a.card import CardInterface
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.json import write
from gateway.a2a.operation import Operation
from gateway.cards.fetch import CardAnswer
from gateway.upstream.grpc_channel import GrpcChannel
from gateway.upstream.oauth2 import NoToken, TokenSource
from gateway.upstream.outlier_detection import NotAccepted


@dataclass(slots=True)
class GrpcCards:
    """Asks one agent for its card.

    Attributes:
        place: `host:port` of the agent.
        credentials: Headers for the agent.
        version: The version of the file, or None for any.
        tenant: The tenant of the file for every call, or None.
        scope_field: The number of `scope` in requests of the scoped service, which carries the tenant in 0.3.
        others: The other replicas with their places, asked after a `turn`.
        tokens: The gateway's tokens for the agent, or None.
    """

    channel: GrpcChannel
    place: str
    credentials: Mapping[str, str]
    version: Version | None
    tenant: str | None = None
    scope_field: int = SCOPE_FIELD
    others: tuple[tuple[GrpcChannel, str], ...] = ()
    tokens: TokenSource | NoToken | None = None

    def turn(self) -> None:
        """Use the next replica from now on."""
        if self.others:
            (channel, place), *rest = self.others
            self.others = (*rest, (self.channel, self.place))
            self.channel, self.place = channel, place

    async def ask(self, deadline: float, longest: int) -> CardAnswer:
        """Ask in one version after the other until there is a card.

        Args:
            deadline: Timeout of each call in seconds.
            longest: Bytes of the longest card.

        Raises:
            UpstreamConnect, UpstreamTimeout, UpstreamReset, UpstreamProtocol, Draining: As the channel.
            UpstreamProtocol: The answer is not a card, or too long.
            UpstreamAuthFailed: There is no token for the agent.
        """
        shown = None if self.tokens is None else await self.tokens.pair()
        own = tuple((name.lower(), value) for name, value in self.credentials.items())
        own += () if shown is None else ((shown[0].decode(), shown[1].decode()),)
        spoken: list[CardInterface] = []
        for version in (Version.V1_0, Version.V0_3) if self.version is None else (self.version,):
            scoped = version is Version.V0_3 and self.tenant is not None
            method = method_of(Operation.GET_EXTENDED_CARD, version, scoped=scoped)
            metadata = (*own, ("a2a-version", version.value))
            try:
                answer = await self.channel.unary(method.path, self._request(method), metadata, timeout=deadline)
            except NotAccepted:
                if self.tokens is not None and shown is not None:
                    self.tokens.refused(shown)
                raise
            # A status shows that the method exists if it is an A2A error, or one that proxies do not send.
            status = answer.failure
            if status is None or status.details or "Error:" in status.message or status.code not in _ANYBODY:
                spoken.append(CardInterface(Dialect(Binding.GRPC, version), self.place))
            message = answer.whole()
            if message:
                if len(message) > longest:
                    raise UpstreamProtocol("the agent's card is too long")
                # The schema's classes take a tenth of a second to load, and the longest cards half as much to read.
                card = await asyncio.to_thread(_card, version, message)
                personal = version is Version.V1_0 or bool(own)
                return CardAnswer(tuple(spoken), card, personal)
        return CardAnswer(tuple(spoken), None)

    def _request(self, method: GrpcMethod) -> bytes:
        if self.tenant is None:
            # The request has no required fields.
            return b""
        call = Call(method.operation, Dialect(Binding.GRPC, method.version), method.path)
        return with_tenant(call, self.tenant, scope_field=self.scope_field)


def _card(version: Version, message: bytes) -> bytes:
    return write(read_answer(Operation.GET_EXTENDED_CARD, version, message))


_ANYBODY = frozenset(
    CODES[name] for name in ("UNIMPLEMENTED", "PERMISSION_DENIED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED")
)
"""Statuses that a check of credentials, or a proxy, may send before the method is looked up."""
