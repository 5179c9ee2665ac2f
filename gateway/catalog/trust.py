"""Who vouches for agents: the system's authorities, or those of a file, for calls and cards alike."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.catalog.cards import open_client
from gateway.upstream.authorities import authorities
from gateway.upstream.connections import client_tls


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
        self._made: dict[Path | None, Trusted] = {}
        self._read: dict[Path | None, bytes] = {}

    def of(self, file: Path | None = None) -> Trusted:
        """The authorities of a PEM file, or of the system.

        Raises:
            OSError: the file is gone, or is no longer what it was when it was checked.
        """
        made = self._made.get(file)
        if made is None:
            tls = client_tls(None if file is None else str(file))
            made = self._made[file] = Trusted(tls, open_client(tls))
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
