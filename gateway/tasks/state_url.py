"""The URL of a store of tasks, as `gateway.state` names it.

The text after `sqlite://` is a literal path: `sqlite:///var/lib/a2a-gateway/state.db` is absolute and
`sqlite://state.db` is not. SQLAlchemy reads three slashes as a relative path; here they begin an absolute one, and four
slashes mean the same file.

A Redis is named as its other clients do: `redis://`, `rediss://` (TLS) and `unix://`. Several hosts with commas between
them are the Sentinels that know a master (`redis+sentinel://HOST,HOST/MASTER`), or nodes of a cluster
(`redis+cluster://HOST,HOST`); with `rediss+` they are spoken to over TLS.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

DEFAULT_FOLDER = "state"
DEFAULT_FILE = "a2a-gateway.db"
LONGEST_NAME = 242
"""Bytes of the name of a file: the ledger names one beside it with 13 more, and Linux takes 255."""
_LONGEST_FOLDER = 255
# Of Linux's 4,096, with room for a folder in front of a relative one and for the files beside it.
_LONGEST_PATH = 3072

StateKind = Literal["memory", "sqlite", "redis"]

_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_SENTINEL_CREDENTIALS = ("sentinel_username", "sentinel_password")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DEFAULT_PREFIX = "a2a"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,15}(?=:)")
_REDIS = frozenset(("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"))
REDIS_PORT = 6379
SENTINEL_PORT = 26379
MOST_HOSTS = 32
"""Sentinels, or nodes of a cluster, that a URL may name."""
_PATHS = {
    "": (re.compile(r"(?P<master>)(?:/(?P<db>[0-9]{0,4}))?"), "has a database that cannot be"),
    "sentinel": (
        re.compile(r"/(?P<master>[A-Za-z0-9._-]{1,128})(?:/(?P<db>[0-9]{0,4}))?"),
        "names no master that the Sentinels know, or no database",
    ),
    "cluster": (re.compile(r"(?P<master>)(?:/(?P<db>0?))?"), "names a database, and a cluster has only 0"),
}
"""Paths by what follows redis+ in a scheme: a database, or the master that Sentinels know and a database."""
_AUTHORITY = re.compile(r"[^:/?]+://([^/?]*@)?([^/?@]*)")
_URL = re.compile(r"[!-~]+")
# URLs that cannot hold a password, not even in a wrong place.
_OPEN = re.compile(
    r"memory|sqlite:.*|rediss?(?:\+cluster)?://[A-Za-z0-9._-]+(?::[0-9]{1,5})?(?:,[A-Za-z0-9._-]+(?::[0-9]{1,5})?)*(?:/[0-9]{0,3})?|"
    r"unix://[A-Za-z0-9/._-]+"
)
_REMEDY = (
    "write memory, sqlite:///PATH or redis://HOST:PORT/DB; rediss:// is Redis over TLS, unix:///PATH its socket, "
    "redis+sentinel://HOST,HOST/MASTER and redis+cluster://HOST,HOST several servers"
)
_REDIS_REMEDY = (
    "write redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], or unix://[:PASSWORD@]/PATH[?db=DB]; "
    "in passwords, marks such as / ? # @ are %XX"
)
_FORMS = {
    "sentinel": f"write redis+sentinel://[[USER]:PASSWORD@]HOST[:{SENTINEL_PORT}],HOST/MASTER[/DB]",
    "cluster": f"write redis+cluster://[[USER]:PASSWORD@]HOST[:{REDIS_PORT}],HOST",
}
"""Remedies by what follows redis+ in a scheme."""


@dataclass(frozen=True, slots=True)
class StateUrl:
    """Where state is kept.

    Attributes:
        kind: The kind of store.
        path: The file of `sqlite`.
        url: The URL of `redis`, with credentials.
    """

    kind: StateKind
    path: Path = field(default_factory=Path)
    url: str = field(default="", repr=False)

    @property
    def label(self) -> str:
        """The URL without credentials, for messages."""
        if self.kind == "memory":
            return "memory"
        if self.kind == "sqlite":
            return f"sqlite://{self.path}"
        return read_redis(self.url).label

    @property
    def is_shared(self) -> bool:
        """Whether gateways on several machines may use it at a time."""
        return self.kind == "redis"

    def beside(self, folder: Path) -> "StateUrl":
        """Return the same with a relative path taken from a folder."""
        return replace(self, path=folder / self.path) if self.kind == "sqlite" else self

    def is_same(self, other: "StateUrl") -> bool:
        """Return whether both are the same store, judged by their URLs."""
        if self.kind != other.kind:
            return False
        if self.kind == "sqlite":
            return self.path.resolve() == other.path.resolve()
        return self.kind == "memory" or read_redis(self.url).place == read_redis(other.url).place


def read_state(text: str) -> StateUrl:
    """Read a `gateway.state`; a relative path stays one.

    Raises:
        ValueError: with a fact and a remedy; neither repeats the text, which may hold a password.
    """
    if text == "memory":
        return StateUrl("memory")
    if text.startswith("sqlite:"):
        return StateUrl("sqlite", path=_file(text.removeprefix("sqlite:")))
    read_redis(text)
    return StateUrl("redis", url=text)


def default_state(environ: Mapping[str, str], cwd: Path) -> StateUrl:
    """Return the default place of the state: in `$STATE_DIRECTORY`, or else in `state/` under `cwd`.

    The file has a directory of its own, so that writing to it does not wake the watcher of the configuration. A file
    that an earlier release made in `cwd` itself is used where it lies.

    Args:
        environ: systemd sets STATE_DIRECTORY; of several directories, which colons separate, it is the first.
    """
    folder = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if folder:
        return StateUrl("sqlite", path=Path(folder) / DEFAULT_FILE)
    path, earlier = cwd / DEFAULT_FOLDER / DEFAULT_FILE, cwd / DEFAULT_FILE
    return StateUrl("sqlite", path=earlier if earlier.exists() and not path.exists() else path)


def may_be_shown(text: str) -> bool:
    """Return whether a `gateway.state`, valid or not, certainly holds no password."""
    return _OPEN.fullmatch(text) is not None


def _file(text: str) -> Path:
    path = text.removeprefix("//")
    remedy = "write sqlite:///var/lib/a2a-gateway/state.db, or sqlite://state.db for a file beside this one"
    if path.strip("/") in ("", ".", "..") or path.endswith("/"):
        raise ValueError("names no file", remedy)
    if path.strip("/") == ":memory:":
        raise ValueError("is SQLite's name for no file", "write memory")
    if "?" in path or "#" in path or not path.isprintable():
        raise ValueError("has something that the name of the file cannot have", remedy)
    *folders, name = (len(os.fsencode(part)) for part in path.split("/"))
    if name > LONGEST_NAME:
        raise ValueError(f"names a file by more than {LONGEST_NAME} bytes, too many for those beside it", remedy)
    if len(os.fsencode(path)) > _LONGEST_PATH or any(each > _LONGEST_FOLDER for each in folders):
        raise ValueError("names a folder by more than a path may have", remedy)
    # Four slashes are three to SQLAlchemy.
    return Path("/" + path.lstrip("/")) if path.startswith("/") else Path(path)


# ---- The URL of a Redis ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """The servers that a URL names, how to connect to them, and the keys that are ours.

    The parameters of the URL are those of redis-py: `db`, and for TLS `ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile`.
    `prefix` is ours. `sentinel_username` and `sentinel_password` are for Sentinels that ask for one.

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
    prefix: str = _DEFAULT_PREFIX

    @property
    def place(self) -> tuple[object, ...]:
        """Hosts and ports or the socket, the master, the database and the prefix; TLS or not, it is the same one."""
        hosts = frozenset((host.rstrip("."), port) for host, port in self.hosts)
        return hosts, self.path, self.master, self.cluster, self.database, self.prefix

    def named(self, *words: str) -> bytes:
        """Return a key: the prefix, then the words."""
        return ":".join((f"{{{self.prefix}}}", *words)).encode()


def read_redis(url: str) -> RedisAddress:
    """Read the URL of a Redis.

    Raises:
        ValueError: as `read_state`.
    """
    scheme = _SCHEME.match(url)
    if scheme is None or scheme[0] not in _REDIS:
        fact = f"starts with {scheme[0]}:, and there is no such store" if scheme is not None else "names no store"
        raise ValueError(fact, _REMEDY)
    if _URL.fullmatch(url) is None or "#" in url:
        raise ValueError("has a character that must be written as %XX", _REDIS_REMEDY)
    addresses, readable = "", url
    if (authority := _AUTHORITY.match(url)) is not None:
        addresses = authority[2]
        # Newer versions of Python reject an IPv6 address among several hosts.
        readable = f"{url[: authority.start(2)]}{addresses.partition(',')[0]}{url[authority.end(2) :]}"
    try:
        parts = urlsplit(readable)
        user, password = (unquote(word or "", errors="strict") for word in (parts.username, parts.password))
    except ValueError as error:
        raise ValueError("is no URL: its host or password cannot be read", _REDIS_REMEDY) from error
    kind = parts.scheme.partition("+")[2]
    remedy = _FORMS.get(kind, _REDIS_REMEDY)
    if not url.startswith(f"{parts.scheme}://"):
        raise ValueError("has no // behind its scheme", remedy)
    if user and not password:
        raise ValueError("has a user without a password", remedy)
    parameters = _parameters(parts, kind)
    database = parameters.get("db", "")
    hosts: tuple[tuple[str, int], ...] = ()
    path = master = ""
    if parts.scheme == "unix":
        path = unquote(parts.path)
        if addresses or path in ("", "/"):
            raise ValueError("names no socket by an absolute path", "write unix:///run/redis/redis.sock")
    else:
        hosts = _hosts(addresses, kind, remedy)
        pattern, fact = _PATHS[kind]
        found = pattern.fullmatch(parts.path)
        if found is None or (kind == "cluster" and int(database or 0)):
            raise ValueError(fact, remedy)
        master, database = found["master"], database or found["db"] or ""
    return RedisAddress(
        label=f"{parts.scheme}://{addresses}{parts.path}",
        hosts=hosts,
        path=path,
        master=master,
        cluster=kind == "cluster",
        tls=parts.scheme.startswith("rediss"),
        user=user,
        password=password,
        sentinel_user=parameters.get("sentinel_username", ""),
        sentinel_password=parameters.get("sentinel_password", ""),
        database=int(database or 0),
        authorities=parameters.get("ssl_ca_certs", ""),
        certificate=parameters.get("ssl_certfile", ""),
        key=parameters.get("ssl_keyfile", ""),
        prefix=parameters.get("prefix", _DEFAULT_PREFIX),
    )


def _hosts(addresses: str, kind: str, remedy: str) -> tuple[tuple[str, int], ...]:
    default = SENTINEL_PORT if kind == "sentinel" else REDIS_PORT
    try:
        split = [urlsplit(f"//{written}") for written in addresses.split(",")]
        hosts = tuple((one.hostname or "", default if one.port is None else one.port) for one in split)
    except ValueError as error:
        raise ValueError("is no URL: its host, port or password cannot be read", remedy) from error
    if not all(host for host, _ in hosts):
        raise ValueError("names no host", remedy)
    if not all(port for _, port in hosts):
        raise ValueError("has a port that cannot be", remedy)
    if not kind and len(hosts) > 1:
        raise ValueError(
            "names several hosts", f"for Sentinels {_FORMS['sentinel']}; for a cluster {_FORMS['cluster']}"
        )
    if len(hosts) > MOST_HOSTS:
        raise ValueError(f"names more than {MOST_HOSTS} hosts", "name a few: they know the others")
    return hosts


def _parameters(parts: SplitResult, kind: str) -> dict[str, str]:
    written = parse_qsl(parts.query, keep_blank_values=True)
    parameters = dict(written)
    if parameters.keys() & {"username", "password"}:
        raise ValueError("has a credential behind its ?", f"write {parts.scheme}://USER:PASSWORD@…, best by ${{VAR}}")
    known = (
        "db",
        "prefix",
        *(_TLS if parts.scheme.startswith("rediss") else ()),
        *(_SENTINEL_CREDENTIALS if kind == "sentinel" else ()),
    )
    if not parameters.keys() <= set(known) or len(parameters) != len(written) or (parts.query and not written):
        raise ValueError("has a parameter twice, or one that is not known", f"write no others than {', '.join(known)}")
    if re.fullmatch(r"[0-9]{1,4}", parameters.get("db", "0")) is None:
        raise ValueError("has a db that is no number", "write ?db=0")
    if "sentinel_username" in parameters and not parameters.get("sentinel_password"):
        raise ValueError("has a user of the Sentinels without a password", "write sentinel_password, too")
    if _PREFIX.fullmatch(parameters.get("prefix", _DEFAULT_PREFIX)) is None:
        raise ValueError("has a prefix that cannot be", "write 1 to 64 of letters, digits and . _ -")
    return parameters
