"""Where the gateway keeps what it knows of tasks: `gateway.state`.

What follows `sqlite://` is a path, as it stands: `sqlite:///var/lib/a2a-gateway/state.db` is absolute and
`sqlite://state.db` is not. SQLAlchemy reads three slashes as a relative path; here they are what they look like, and
its four slashes mean the same file.
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
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DEFAULT_PREFIX = "a2a"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,15}(?=:)")
_URL = re.compile(r"[!-~]+")
# URLs that can hold no password, not even one in the wrong place.
_OPEN = re.compile(
    r"memory|sqlite:.*|rediss?://[A-Za-z0-9._-]+(?::[0-9]{1,5})?(?:/[0-9]{0,3})?|unix://[A-Za-z0-9/._-]+"
)
_REMEDY = "write memory, sqlite:///PATH or redis://HOST:PORT/DB; rediss:// is Redis over TLS, unix:///PATH its socket"


@dataclass(frozen=True, slots=True)
class StateUrl:
    """Where state is kept.

    Attributes:
        kind: What keeps it.
        path: The file of `sqlite`.
        url: What `redis` is dialled by: `redis://`, `rediss://` or `unix://`, with credentials.
    """

    kind: StateKind
    path: Path = field(default_factory=Path)
    url: str = field(default="", repr=False)

    @property
    def label(self) -> str:
        """What it is, without credentials, for messages."""
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
        """The same with a relative path taken from a folder."""
        return replace(self, path=folder / self.path) if self.kind == "sqlite" else self

    def is_same(self, other: "StateUrl") -> bool:
        """Whether both are one place, as far as their names tell."""
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
    if found is None or found[0] not in ("redis", "rediss", "unix"):
        told = f"starts with {found[0]}:, and there is no such store" if found is not None else "is no place for state"
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
    """Whether a `gateway.state`, right or wrong, surely holds no password."""
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


def _redis(text: str) -> str:
    remedy = (
        "write redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], or unix://[:PASSWORD@]/PATH[?db=DB]; "
        "in passwords, marks such as / ? # @ are %XX"
    )
    if _URL.fullmatch(text) is None or "#" in text:
        raise ValueError("has a character that must be written as %XX", remedy)
    parts = _split(text, remedy)
    if not text.startswith(f"{parts.scheme}://"):
        raise ValueError("has no // behind its scheme", remedy)
    if parts.scheme == "unix" and (parts.hostname or parts.path in ("", "/")):
        raise ValueError("names no socket by an absolute path", "write unix:///run/redis/redis.sock")
    if parts.scheme != "unix" and not parts.hostname:
        raise ValueError("names no host", remedy)
    if parts.scheme != "unix" and (parts.port == 0 or re.fullmatch(r"/?|/[0-9]{1,4}", parts.path) is None):
        raise ValueError("has a port or a database that cannot be", remedy)
    if parts.username and not parts.password:
        raise ValueError("has a user without a password", remedy)
    _parameters(parts)
    return text


def _split(text: str, remedy: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        # The port is read only where it is asked for.
        _ = parts.port
        for word in (parts.username, parts.password):
            unquote(word or "", errors="strict")
    except ValueError as error:
        raise ValueError("is no URL: its host, port or password cannot be read", remedy) from error
    return parts


def _parameters(parts: SplitResult) -> None:
    written = parse_qsl(parts.query, keep_blank_values=True)
    given = dict(written)
    if given.keys() & {"username", "password"}:
        raise ValueError("has a credential behind its ?", f"write {parts.scheme}://USER:PASSWORD@…, best by ${{VAR}}")
    known = ("db", "prefix", *(_TLS if parts.scheme == "rediss" else ()))
    if not given.keys() <= set(known) or len(given) != len(written) or (parts.query and not written):
        raise ValueError("has a parameter twice, or one that is not known", f"parameters are {', '.join(known)}")
    if re.fullmatch(r"[0-9]{1,4}", given.get("db", "0")) is None:
        raise ValueError("has a db that is no number", "write ?db=0")
    if _PREFIX.fullmatch(given.get("prefix", _DEFAULT_PREFIX)) is None:
        raise ValueError("has a prefix that cannot be", "write 1 to 64 of letters, digits and . _ -")


def _place(url: str) -> tuple[str, ...]:
    """Host and port or the socket, the database and the prefix of a Redis; TLS or not, it is the same one."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    prefix = given.get("prefix", _DEFAULT_PREFIX)
    if parts.scheme == "unix":
        return parts.path, given.get("db", "0"), prefix
    return (
        (parts.hostname or "").rstrip("."),
        str(parts.port or 6379),
        given.get("db") or parts.path.strip("/") or "0",
        prefix,
    )
