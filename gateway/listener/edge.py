"""What the connections of one listener share: who answers, how much is allowed, and how many there are of whom."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.a2a.call import Head
from gateway.identity.failure import network_of
from gateway.listener.request import Bounds
from gateway.listener.wire import ClientWire


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Bounds on the connections of clients; see `config.limit.Http`. Times are seconds."""

    bounds: Bounds = field(default_factory=Bounds)
    header_timeout: float = 10.0
    body_idle: float = 30.0
    body_rate: int = 1024
    keep_alive: float = 30.0
    connections: int = 20_000
    connections_per_peer: int = 10_000
    write_buffer: int = 64 * 1024
    write_stall: float = 30.0
    tls_handshake: float = 10.0


class ServerState(Protocol):
    """What uvicorn's server shares with its connections."""

    default_headers: list[tuple[bytes, bytes]]
    connections: set[Any]
    tasks: set[Any]
    total_requests: int


class Crowd:
    """Connections, counted by whose they are; in IPv6 by the /64 they come from.

    Args:
        most: Of all together.
        most_of_one: Of one address.
        shares: Whether many clients come from this address, so that no bound of one client holds for it.
    """

    def __init__(self, most: int, most_of_one: int, shares: Callable[[str], bool]) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._shares = shares
        self._networks: dict[str, int] = {}
        self.size = 0

    def enter(self, peer: str) -> bool:
        """Count one more; False where it is one too many, and to be turned away. Each leaves in the end."""
        network = network_of(peer)
        of_one = self._networks.get(network, 0)
        self._networks[network] = of_one + 1
        self.size += 1
        return self.size <= self._most and (of_one < self._most_of_one or self._shares(peer))

    def leave(self, peer: str) -> None:
        """Count one less."""
        network = network_of(peer)
        left = self._networks[network] - 1
        self.size -= 1
        if left:
            self._networks[network] = left
        else:
            del self._networks[network]


@dataclass(slots=True)
class Edge:
    """What the connections of one listener share.

    Attributes:
        serve: Answers one request.
        refused: Told of what could not be read: the peer, the request id, the status, the words.
        shares: As `Crowd`.
        closing: Whether connections end with the answer that they are waiting for.
        crowd: The connections there are.
        date: The headers that every answer has, as a list and as the lines that were made of it.
    """

    serve: Callable[[Head, ClientWire], Coroutine[Any, Any, None]]
    limits: ClientLimits = field(default_factory=ClientLimits)
    refused: Callable[[str, str, int, str], None] = lambda *_: None
    shares: Callable[[str], bool] = lambda _: False
    closing: bool = False
    crowd: Crowd = field(init=False)
    date: tuple[list[tuple[bytes, bytes]], bytes] = field(default_factory=lambda: ([], b""))

    def __post_init__(self) -> None:
        self.crowd = Crowd(self.limits.connections, self.limits.connections_per_peer, self.shares)
