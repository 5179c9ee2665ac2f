"""Who vouches for agents: the system's authorities, or those of a file, for calls and cards alike."""

import asyncio
import hashlib
import re
import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.catalog.cards import READERS, open_client
from gateway.resources import Resources
from gateway.upstream.connection_pool import client_tls, shows


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
        client: Reads cards.
        turns: How many at a time.
    """

    tls: ssl.SSLContext
    client: httpx.AsyncClient
    turns: asyncio.Semaphore


class Trust:
    """Every set of authorities that a configuration names, each made once: making one costs 20 ms.

    Args:
        resources: What else there is of them; whoever has these closes the clients.
    """

    def __init__(self, resources: Resources | None = None) -> None:
        self._resources = Resources() if resources is None else resources
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
            files = [*(() if file is None else (file,)), *(shown or ())]
            # Those of the system are read once in the life of a process.
            said = tuple(hashlib.sha256(each.read_bytes()).digest() for each in files)
            made = self._made[file, shown] = self._resources.acquire(
                ("trust", str(file or ""), *(str(each) for each in shown or ())),
                said,
                lambda: _trusted(file, shown),
                close=lambda trusted: trusted.client.aclose,
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


def _trusted(file: Path | None, shown: tuple[Path, Path] | None) -> Trusted:
    tls = client_tls(None if file is None else str(file))
    if shown is not None:
        tls = shows(tls, *shown)
    return Trusted(tls, open_client(tls), asyncio.Semaphore(READERS))


_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")


def authorities(file: Path | None = None) -> bytes:
    """The certificates of a PEM file, or of the authorities that the system trusts; costs milliseconds.

    The system's are those of `connections.client_tls`. The environment has no say (safety K9), as it would if gRPC were
    left to look for them.

    Raises:
        OSError: the file is gone.
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
