"""Where a Redis is and how it is entered, read from a URL.

`redis://`, `rediss://` (TLS) and `unix://`, with the parameters that other clients of Redis know: `db`, and for TLS
`ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile`. `prefix` is ours: what every key starts with.
"""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from gateway.tasks.store import StoreBroken

PREFIX = "a2a"
PORT = 6379

_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DATABASE = re.compile(r"[0-9]{1,4}")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_REMEDY = "write redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]; in names and passwords, marks such as / ? # @ are %XX"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """One Redis, and the part of it that is ours.

    Attributes:
        host: Empty where it is a socket in the file system.
        path: That socket.
        user: Empty for Redis's default user.
        authorities: A file of certificates that the server's is verified with; empty for those of the system.
        certificate: A file with the certificate that is shown to the server, and with its key if `key` is empty.
        prefix: What keys start with, in braces: they are the hash tag by which a cluster keeps them on one shard.
    """

    host: str = ""
    port: int = PORT
    path: str = ""
    tls: bool = False
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    database: int = 0
    authorities: str = ""
    certificate: str = ""
    key: str = ""
    prefix: str = PREFIX

    @property
    def label(self) -> str:
        """What it is, without credentials, for logs and metrics."""
        if self.path:
            place = f"unix://{self.path}"
        else:
            host = f"[{self.host}]" if ":" in self.host else self.host
            place = f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}"
        return f"{place}{f'/{self.database}' if self.database and not self.path else ''}"

    def named(self, *words: str) -> bytes:
        """A key: the prefix, then the words."""
        return ":".join((f"{{{self.prefix}}}", *words)).encode()

    def open_tls(self) -> ssl.SSLContext | None:
        """How the server is verified; None without TLS. The environment has no say, as everywhere (safety K9).

        Raises:
            StoreBroken: a file of certificates cannot be read.
        """
        if not self.tls:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            if self.authorities:
                context.load_verify_locations(cafile=self.authorities)
            else:
                system = ssl.get_default_verify_paths()
                cafile = system.openssl_cafile if Path(system.openssl_cafile).is_file() else None
                context.load_verify_locations(cafile=cafile, capath=system.openssl_capath)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except OSError as error:
            raise StoreBroken(f"{self.label}: its certificate files cannot be used ({type(error).__name__})") from error
        return context


def read_address(url: str) -> RedisAddress:
    """Read a URL.

    Raises:
        StoreBroken: it is none of a Redis; the text does not repeat it, for it may hold a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        user, password = (unquote(word or "", errors="strict") for word in (parts.username, parts.password))
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
    except ValueError as error:
        raise _broken("is no URL") from error
    parameters = dict(query)
    known = {"db", "prefix", *(_TLS if parts.scheme == "rediss" else ())}
    if len(parameters) != len(query) or not parameters.keys() <= known:
        raise _broken(f"has a parameter twice, or another than {', '.join(sorted(known))}")
    if parts.scheme not in ("redis", "rediss", "unix") or parts.fragment:
        raise _broken("is no URL of a Redis")
    if user and not password:
        raise _broken("has a user without a password")
    prefix = parameters.get("prefix", PREFIX)
    if _PREFIX.fullmatch(prefix) is None:
        raise _broken("has a prefix of other marks than letters, digits, '.', '_' and '-', or of more than 64")
    return RedisAddress(
        host=_host(parts),
        port=PORT if port is None else port,
        path=unquote(parts.path) if parts.scheme == "unix" else "",
        tls=parts.scheme == "rediss",
        user=user,
        password=password,
        database=_database(parts, parameters),
        authorities=parameters.get("ssl_ca_certs", ""),
        certificate=parameters.get("ssl_certfile", ""),
        key=parameters.get("ssl_keyfile", ""),
        prefix=prefix,
    )


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if parts.scheme == "unix":
        if host or not parts.path.startswith("/"):
            raise _broken("names no socket by an absolute path", "write unix:///run/redis/redis.sock")
    elif _HOST.fullmatch(host) is None:
        raise _broken("names no host")
    return host


def _database(parts: SplitResult, parameters: dict[str, str]) -> int:
    written = parameters.get("db") or ("" if parts.scheme == "unix" else parts.path.removeprefix("/")) or "0"
    if _DATABASE.fullmatch(written) is None:
        raise _broken("has a database that is no number")
    return int(written)


def _broken(fact: str, remedy: str = _REMEDY) -> StoreBroken:
    return StoreBroken(f"the URL of the Redis {fact}: {remedy}")
