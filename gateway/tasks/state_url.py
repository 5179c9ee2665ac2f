"""The URL of a store of tasks, as `gateway.state` names it.

What follows `sqlite://` is a path, as it stands: `sqlite:///var/lib/a2a-gateway/state.db` is absolute and
`sqlite://state.db` is not. SQLAlchemy reads three slashes as a relative path; here they are what they look like, and
its four slashes mean the same file.

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
_SENTINEL = ("redis+sentinel", "rediss+sentinel")
_CLUSTER = ("redis+cluster", "rediss+cluster")
_REDIS = ("redis", "rediss", "unix", *_SENTINEL, *_CLUSTER)
REDIS_PORT = 6379
SENTINEL_PORT = 26379
MOST_HOSTS = 32
"""Sentinels, or nodes of a cluster, that a URL may name."""
# A path by scheme: a database; the master that Sentinels know, and a database; a cluster has database 0 alone.
_DATABASE_PATH = re.compile(r"/?|/[0-9]{1,4}")
_MASTER_PATH = re.compile(r"/[A-Za-z0-9._-]{1,128}(?:/|/[0-9]{1,4})?")
_CLUSTER_PATH = re.compile(r"/?|/0")
_URL = re.compile(r"[!-~]+")
# URLs that can hold no password, not even one in the wrong place.
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
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def is_shared(self) -> bool:
        """Whether gateways on several machines may use it at a time."""
        return self.kind == "redis"

    def beside(self, folder: Path) -> "StateUrl":
        """Return the same with a relative path taken from a folder."""
        return replace(self, path=folder / self.path) if self.kind == "sqlite" else self

    def is_same(self, other: "StateUrl") -> bool:
        """Return whether both are one place, as far as their names tell."""
        if self.kind != other.kind:
            return False
        if self.kind == "sqlite":
            return self.path.resolve() == other.path.resolve()
        return self.kind == "memory" or _place(self.url) == _place(other.url)


def read_state(text: str) -> StateUrl:
    """Read a `gateway.state`; a relative path stays one.

    Raises:
        ValueError: with a fact and a remedy; neither repeats the text, which may hold a password.
    """
    if text == "memory":
        return StateUrl("memory")
    if text.startswith("sqlite:"):
        return StateUrl("sqlite", path=_file(text.removeprefix("sqlite:")))
    found = _SCHEME.match(text)
    if found is None or found[0] not in _REDIS:
        told = f"starts with {found[0]}:, and there is no such store" if found is not None else "names no store"
        raise ValueError(told, _REMEDY)
    return StateUrl("redis", url=_redis(text))


def default_state(environ: Mapping[str, str], cwd: Path) -> StateUrl:
    """Return where state is kept if the file says nothing: in `$STATE_DIRECTORY`, or else in `state/` under `cwd`.

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
    """Return whether a `gateway.state`, right or wrong, surely holds no password."""
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


def redis_hosts(parts: SplitResult) -> tuple[tuple[str, int], ...]:
    """Return the hosts of a URL with their ports; none for a socket.

    Raises:
        ValueError: a port cannot be read.
    """
    if parts.scheme == "unix":
        return ()
    default = SENTINEL_PORT if parts.scheme in _SENTINEL else REDIS_PORT
    found = []
    for written in parts.netloc.rpartition("@")[2].split(","):
        one = urlsplit(f"//{written}")
        found.append((one.hostname or "", default if one.port is None else one.port))
    return tuple(found)


def redis_database(parts: SplitResult) -> int:
    """Return the number of the database that a valid URL names, by `?db=` or behind the last slash."""
    path = "" if parts.scheme == "unix" else parts.path.strip("/")
    if parts.scheme in _SENTINEL:
        path = path.partition("/")[2]
    return int(dict(parse_qsl(parts.query)).get("db") or path or "0")


def _redis(text: str) -> str:
    if _URL.fullmatch(text) is None or "#" in text:
        raise ValueError("has a character that must be written as %XX", _REDIS_REMEDY)
    parts = _split(text)
    remedy = _FORMS.get(parts.scheme.partition("+")[2], _REDIS_REMEDY)
    if not text.startswith(f"{parts.scheme}://"):
        raise ValueError("has no // behind its scheme", remedy)
    if parts.scheme == "unix":
        if parts.netloc.rpartition("@")[2] or parts.path in ("", "/"):
            raise ValueError("names no socket by an absolute path", "write unix:///run/redis/redis.sock")
    else:
        _servers(parts, remedy)
    if parts.username and not parts.password:
        raise ValueError("has a user without a password", remedy)
    _parameters(parts)
    return text


def _servers(parts: SplitResult, remedy: str) -> None:
    """Judge the hosts, then the path.

    Raises:
        ValueError: as `read_state`.
    """
    try:
        hosts = redis_hosts(parts)
    except ValueError as error:
        raise ValueError("is no URL: its host, port or password cannot be read", remedy) from error
    if not all(host for host, _ in hosts):
        raise ValueError("names no host", remedy)
    if not all(port for _, port in hosts):
        raise ValueError("has a port that cannot be", remedy)
    if parts.scheme in ("redis", "rediss") and len(hosts) > 1:
        raise ValueError(
            "names several hosts", f"for Sentinels {_FORMS['sentinel']}; for a cluster {_FORMS['cluster']}"
        )
    if len(hosts) > MOST_HOSTS:
        raise ValueError(f"names more than {MOST_HOSTS} hosts", "name a few: they know the others")
    _path(parts, remedy)


def _path(parts: SplitResult, remedy: str) -> None:
    """Judge what the path names: a database, or a master.

    Raises:
        ValueError: as `read_state`.
    """
    if parts.scheme in _SENTINEL:
        if _MASTER_PATH.fullmatch(parts.path) is None:
            raise ValueError("names no master that the Sentinels know, or no database", remedy)
    elif parts.scheme in _CLUSTER:
        if _CLUSTER_PATH.fullmatch(parts.path) is None or redis_database(parts):
            raise ValueError("names a database, and a cluster has only 0", remedy)
    elif _DATABASE_PATH.fullmatch(parts.path) is None:
        raise ValueError("has a database that cannot be", remedy)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        for word in (parts.username, parts.password):
            unquote(word or "", errors="strict")
    except ValueError as error:
        raise ValueError("is no URL: its host or password cannot be read", _REDIS_REMEDY) from error
    return parts


def _parameters(parts: SplitResult) -> None:
    written = parse_qsl(parts.query, keep_blank_values=True)
    given = dict(written)
    if given.keys() & {"username", "password"}:
        raise ValueError("has a credential behind its ?", f"write {parts.scheme}://USER:PASSWORD@…, best by ${{VAR}}")
    known = (
        "db",
        "prefix",
        *(_TLS if parts.scheme.startswith("rediss") else ()),
        *(_SENTINEL_CREDENTIALS if parts.scheme in _SENTINEL else ()),
    )
    if not given.keys() <= set(known) or len(given) != len(written) or (parts.query and not written):
        raise ValueError("has a parameter twice, or one that is not known", f"write no others than {', '.join(known)}")
    if re.fullmatch(r"[0-9]{1,4}", given.get("db", "0")) is None:
        raise ValueError("has a db that is no number", "write ?db=0")
    if "sentinel_username" in given and not given.get("sentinel_password"):
        raise ValueError("has a user of the Sentinels without a password", "write sentinel_password, too")
    if _PREFIX.fullmatch(given.get("prefix", _DEFAULT_PREFIX)) is None:
        raise ValueError("has a prefix that cannot be", "write 1 to 64 of letters, digits and . _ -")


def _place(url: str) -> tuple[object, ...]:
    """Hosts and ports or the socket, the master, the database and the prefix; TLS or not, it is the same one."""
    parts = urlsplit(url)
    hosts = frozenset((host.rstrip("."), port) for host, port in redis_hosts(parts))
    named = {"": "", "sentinel": parts.path.strip("/").partition("/")[0]}.get(parts.scheme.partition("+")[2], "cluster")
    prefix = dict(parse_qsl(parts.query)).get("prefix", _DEFAULT_PREFIX)
    return hosts, parts.path if parts.scheme == "unix" else named, redis_database(parts), prefix
