"""TLS with agents: contexts and clients for the authorities of the system or of a file."""

import asyncio
import hashlib
import re
import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.cards.fetch import READERS, open_client
from gateway.resources import Resources
from gateway.upstream.connection_pool import client_tls, shows


@dataclass(frozen=True, slots=True)
class Trusted:
    """One set of authorities.

    Attributes:
        tls: The context for connections.
        client: Fetches cards.
        turns: Limits concurrent fetches.
    """

    tls: ssl.SSLContext
    client: httpx.AsyncClient
    turns: asyncio.Semaphore


class Trust:
    """All sets of authorities of a configuration, each made once, because that takes 20 ms.

    Args:
        resources: Shared resources; they close the clients.
    """

    def __init__(self, resources: Resources | None = None) -> None:
        self._resources = Resources() if resources is None else resources
        self._made: dict[tuple[Path | None, tuple[Path, Path] | None], Trusted] = {}
        self._read: dict[Path | None, bytes] = {}

    def of(self, file: Path | None = None, shown: tuple[Path, Path] | None = None) -> Trusted:
        """Return the authorities of a PEM file, or of the system.

        Args:
            shown: PEM files of the gateway's client certificate and key.

        Raises:
            OSError: The file is missing, or has changed since it was checked.
        """
        made = self._made.get((file, shown))
        if made is None:
            files = [*(() if file is None else (file,)), *(shown or ())]
            # The system's authorities are read once per process.
            digests = tuple(hashlib.sha256(each.read_bytes()).digest() for each in files)
            made = self._made[file, shown] = self._resources.acquire(
                ("trust", str(file or ""), *(str(each) for each in shown or ())),
                digests,
                lambda: _trusted(file, shown),
                close=lambda trusted: trusted.client.aclose,
            )
        return made

    def roots(self, file: Path | None = None) -> bytes:
        """Return the certificates for gRPC, which does not use contexts.

        Raises:
            OSError: As `of`.
        """
        if file not in self._read:
            self._read[file] = authorities(file)
        return self._read[file]


def _trusted(file: Path | None, shown: tuple[Path, Path] | None) -> Trusted:
    tls = client_tls(None if file is None else str(file))
    if shown is not None:
        tls = shows(tls, *shown)
    return Trusted(tls, open_client(tls), asyncio.Semaphore(READERS))


_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")


def authorities(file: Path | None = None) -> bytes:
    """Return the certificates of a PEM file, or of the authorities that the system trusts; takes milliseconds.

    Those of the system are the same as in `connections.client_tls`; the environment is ignored (safety K9).

    Raises:
        OSError: The file is missing.
    """
    if file is not None:
        return file.read_bytes()
    system = ssl.get_default_verify_paths()
    bundle = Path(system.openssl_cafile)
    if bundle.is_file():
        return bundle.read_bytes()
    # As OpenSSL does: it finds them by the hash of their name.
    folder = Path(system.openssl_capath)
    found = sorted(each for each in folder.iterdir() if _HASHED.fullmatch(each.name)) if folder.is_dir() else []
    return b"\n".join(each.read_bytes() for each in found if each.is_file())
