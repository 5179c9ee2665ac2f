"""Who vouches for agents: the system's authorities, or those of a file, for calls and cards alike."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.catalog.cards import open_client
from gateway.upstream.authorities import authorities
from gateway.upstream.connections import client_tls, shows


@dataclass(frozen=True, slots=True)
class Trusting:
    """What the file says of the connections to an agent.

    Attributes:
        authorities: PEM file of those who vouch for it, or None for the system's.
        shown: PEM files of the certificate that the gateway shows and of its key, or None for none.
        server_name: What is asked for and has to be on the agent's certificate, or None for the host.
    """

    authorities: Path | None = None
    shown: tuple[Path, Path] | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class Trusted:
    """One set of authorities.

    Attributes:
        tls: For connections.
        client: Reads cards; whoever made `Trust` closes it.
    """

    tls: ssl.SSLContext
    client: httpx.AsyncClient


class Trust:
    """Every set of authorities that a configuration names, each made once: making one costs 20 ms."""

    def __init__(self) -> None:
        self._made: dict[tuple[Path | None, tuple[Path, Path] | None], Trusted] = {}
        self._read: dict[Path | None, bytes] = {}

    def of(self, file: Path | None = None, shown: tuple[Path, Path] | None = None) -> Trusted:
        """The authorities of a PEM file, or of the system.

        Args:
            shown: The certificate that the gateway shows with them, as `Trusting.shown`.

        Raises:
            OSError: the file is gone, or is no longer what it was when it was checked.
        """
        made = self._made.get((file, shown))
        if made is None:
            tls = client_tls(None if file is None else str(file))
            if shown is not None:
                tls = shows(tls, *shown)
            made = self._made[file, shown] = Trusted(tls, open_client(tls))
        return made

    def roots(self, file: Path | None = None) -> bytes:
        """The certificates themselves, for gRPC, which knows no contexts.

        Raises:
            OSError: as `of`.
        """
        if file not in self._read:
            self._read[file] = authorities(file)
        return self._read[file]

    @property
    def clients(self) -> tuple[httpx.AsyncClient, ...]:
        """All clients that were opened."""
        return tuple(made.client for made in self._made.values())
