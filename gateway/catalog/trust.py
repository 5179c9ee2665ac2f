"""Who vouches for agents: the system's authorities, or those of a file, for calls and cards alike."""

import asyncio
import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.catalog.cards import READERS, open_client
from gateway.holdings import Holdings
from gateway.upstream.authorities import authorities
from gateway.upstream.connections import client_tls


@dataclass(frozen=True, slots=True)
class Trusted:
    """One set of authorities.

    Attributes:
        tls: For connections.
        client: Reads cards.
        turns: How many at a time.
    """

    tls: ssl.SSLContext
    client: httpx.AsyncClient
    turns: asyncio.Semaphore


class Trust:
    """Every set of authorities that a configuration names, each made once: making one costs 20 ms.

    Args:
        holdings: What else there is of them; whoever has these closes the clients.
    """

    def __init__(self, holdings: Holdings | None = None) -> None:
        self._holdings = Holdings() if holdings is None else holdings
        self._made: dict[Path | None, Trusted] = {}
        self._read: dict[Path | None, bytes] = {}

    def of(self, file: Path | None = None) -> Trusted:
        """The authorities of a PEM file, or of the system.

        Raises:
            OSError: the file is gone, or is no longer what it was when it was checked.
        """
        made = self._made.get(file)
        if made is None:
            # Those of the system are read once in the life of a process.
            said = None if file is None else hashlib.sha256(file.read_bytes()).digest()
            made = self._made[file] = self._holdings.hold(
                ("trust", str(file or "")), said, lambda: _trusted(file), close=lambda trusted: trusted.client.aclose
            )
        return made

    def roots(self, file: Path | None = None) -> bytes:
        """The certificates themselves, for gRPC, which knows no contexts.

        Raises:
            OSError: as `of`.
        """
        if file not in self._read:
            self._read[file] = authorities(file)
        return self._read[file]


def _trusted(file: Path | None) -> Trusted:
    tls = client_tls(None if file is None else str(file))
    return Trusted(tls, open_client(tls), asyncio.Semaphore(READERS))
