"""Which servers a URL of a Redis names, and how they are entered; `config/state.py` judges the URL.

The parameters are those of redis-py: `db`, and for TLS `ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile`. `prefix` is
ours: what every key starts with. `sentinel_username` and `sentinel_password` are for Sentinels that ask for one.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from gateway.config.state import read_state, redis_database, redis_hosts
from gateway.tasks.store import StoreBroken

PREFIX = "a2a"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """One Redis, and the part of it that is ours.

    Attributes:
        label: The URL without credentials and parameters, for logs and metrics.
        hosts: Servers, Sentinels or nodes of a cluster, each with its port; none where it is a socket.
        path: The socket.
        master: The name by which Sentinels know the master; empty where there are none.
        cluster: Whether the hosts are nodes of a cluster.
        user: Empty for Redis's default user.
        authorities: A file of certificates that the server's is verified with; empty for those of the system.
        certificate: A file with the certificate that is shown to the server, and with its key if `key` is empty.
        prefix: The beginning of all keys, in braces: it is the hash tag by which a cluster keeps them on one shard.
    """

    label: str = ""
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    master: str = ""
    cluster: bool = False
    tls: bool = False
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    sentinel_user: str = field(default="", repr=False)
    sentinel_password: str = field(default="", repr=False)
    database: int = 0
    authorities: str = ""
    certificate: str = ""
    key: str = ""
    prefix: str = PREFIX

    def named(self, *words: str) -> bytes:
        """A key: the prefix, then the words."""
        return ":".join((f"{{{self.prefix}}}", *words)).encode()

    def open_tls(self) -> ssl.SSLContext | None:
        """Return the TLS context that verifies the server; None without TLS. The environment is ignored (safety K9).

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
        state = read_state(url)
    except ValueError as error:
        fact, remedy = error.args
        raise StoreBroken(f"the URL of the Redis {fact}: {remedy}") from error
    if state.kind != "redis":
        raise StoreBroken("the URL of the Redis is no URL of a Redis: write redis://HOST:PORT/DB")
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    kind = parts.scheme.partition("+")[2]
    return RedisAddress(
        label=state.label,
        hosts=redis_hosts(parts),
        path=unquote(parts.path) if parts.scheme == "unix" else "",
        master=parts.path.strip("/").partition("/")[0] if kind == "sentinel" else "",
        cluster=kind == "cluster",
        tls=parts.scheme.startswith("rediss"),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        sentinel_user=given.get("sentinel_username", ""),
        sentinel_password=given.get("sentinel_password", ""),
        database=redis_database(parts),
        authorities=given.get("ssl_ca_certs", ""),
        certificate=given.get("ssl_certfile", ""),
        key=given.get("ssl_keyfile", ""),
        prefix=given.get("prefix", PREFIX),
    )
