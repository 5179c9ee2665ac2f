"""What the connections of one listener share: who answers, how much is allowed, and how many there are of whom."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.a2a.call import Head
from gateway.config.certificate import ServerTls
from gateway.config.limit import Http
from gateway.identity.throttle import network_of
from gateway.listener.introduction import Introduction
from gateway.listener.turn import Turns
from gateway.listener.wire import header_lines, status_line

_MOST_OPENINGS = 64
_LONGEST_OPENING = 1024


class Accepted(Protocol):
    """A connection, as the server uses it; `made` and `introduction` are as in `ClientConnection`."""

    @property
    def made(self) -> bool: ...  # noqa: D102

    @property
    def introduction(self) -> Introduction: ...  # noqa: D102

    def shutdown(self) -> None:
        """End with what is on its way, or now."""

    def end(self) -> None:
        """End now, with what was written."""

    def abort(self) -> None:
        """End now, and drop what was written."""


@dataclass(slots=True)
class ServerState:
    """The connections and requests of one server.

    Attributes:
        default_headers: Of every answer; another list when one of them changes.
        tasks: Of the requests that are served.
    """

    default_headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    connections: set[Accepted] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    total_requests: int = 0


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
        serve: Answers one request; each protocol gives it a wire of its own kind.
        limits: What bounds their connections.
        refused: Told of what could not be read: the peer, the request id, the status, the words.
        shares: As `Crowd`.
        distrusted: Told of a handshake that failed for the client's certificate: the peer, an id, why.
        tls: How handshakes are made by now; None without TLS.
        closing: Whether connections end with the answer that they are waiting for.
        crowd: The connections there are.
        turns: Whose request is begun when.
    """

    serve: Callable[[Head, Any], Coroutine[Any, Any, None]]
    limits: Http = field(default_factory=Http)
    refused: Callable[[str, str, int, str], None] = lambda *_: None
    shares: Callable[[str], bool] = lambda _: False
    distrusted: Callable[[str, str, str], None] = lambda *_: None
    tls: ServerTls | None = None
    closing: bool = False
    crowd: Crowd = field(init=False)
    turns: Turns = field(default_factory=Turns)
    _standing: tuple[list[tuple[bytes, bytes]], bytes] = field(default_factory=lambda: ([], b""))
    _openings: dict[tuple[int, tuple[tuple[bytes, bytes], ...]], bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.crowd = Crowd(self.limits.connections, self.limits.connections_per_peer, self.shares)

    def standing(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The lines of the headers that every answer has; made anew when there is another list, once a second."""
        known, lines = self._standing
        if known is not headers:
            lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
            self._standing = (headers, lines)
            self._openings.clear()
        return lines

    def opening(
        self, standing: list[tuple[bytes, bytes]], status: int, headers: tuple[tuple[bytes, bytes], ...]
    ) -> bytes:
        """How an answer begins: the status line, the headers that every answer has, and its own.

        Raises:
            ValueError: as `header_lines`.
        """
        if self._standing[0] is standing:
            known = self._openings.get((status, headers))
            if known is not None:
                return known
        opening = b"".join((status_line(status), self.standing(standing), header_lines(headers)))
        if len(self._openings) < _MOST_OPENINGS and len(opening) <= _LONGEST_OPENING:
            self._openings[status, headers] = opening
        return opening
