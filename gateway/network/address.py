"""The grammar of addresses: URLs, and where to listen."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

UNIX = "unix:"
"""The beginning of the address of a Unix socket; its path follows."""
_LONGEST_PATH = 107
"""Longest path of a Unix socket in Linux, in bytes."""
_LISTEN = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9.-]+)):(?P<port>[0-9]{1,5})")
_URL = re.compile(r"[!#$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]+")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?")
_DEFAULT_PORT = {"http": 80, "https": 443, "grpcs": 443}
_NO_USER = "remove it, and use `upstream_auth` for credentials"
_AS_URL = "write it as https://host[:port][/path]"
_AS_GRPC = "write it as grpc://host:port, or grpcs://host:port over TLS"
_AS_AUTHORITY = "write HOST:PORT alone, such as grpc.example.com:443"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to listen at; port 0 lets the system pick.

    Attributes:
        path: Of a Unix socket, which has neither host nor port; else empty.
    """

    host: str
    port: int
    path: str = ""

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can connect."""
        return bool(self.path) or is_loopback(self.host)

    @property
    def is_any(self) -> bool:
        """Return whether it is every address of the machine."""
        return self.host in ("0.0.0.0", "::")  # noqa: S104 - it is compared, not bound

    @property
    def authority(self) -> str:
        """Return `host:port` for a URL on this machine; the loopback address for every address."""
        host = self.host if not self.is_any else "::1" if ":" in self.host else "127.0.0.1"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def collides(self, other: "Listen") -> bool:
        """Return whether the two cannot both be listened at; of names only that of this machine is known."""
        if self.path or other.path:
            return self.path == other.path
        if self.port != other.port or self.port == 0:
            return False
        mine, theirs = _bound(self.host), _bound(other.host)
        if mine is None or theirs is None:
            # A name may be any address; every address of a family holds those of a name too.
            return self.host.lower() == other.host.lower() or self.is_any or other.is_any
        # `::` is bound for IPv6 alone.
        meet = [(one, two) for one in mine for two in theirs if one.version == two.version]
        return any(one == two or one.is_unspecified or two.is_unspecified for one, two in meet)


def _bound(host: str) -> tuple[Address, ...] | None:
    """Return the addresses that a listener at a host may have, or None for a name that only the system knows."""
    if host.lower().rstrip(".") == "localhost":
        return ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1")
    address = ip_of(host)
    return None if address is None else (address,)


def read_listen(text: str) -> Listen:
    """Read `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`.

    Raises:
        ValueError: with a fact and a remedy.
    """
    if text.startswith(UNIX):
        return _unix(text.removeprefix(UNIX))
    found = _LISTEN.fullmatch(text)
    remedy = "write HOST:PORT, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080, or unix:/PATH"
    if found is None:
        raise ValueError("is no address to listen at", remedy)
    port = int(found["port"])
    if port > 65535:
        raise ValueError("has a port above 65535", remedy)
    host = found["six"] or found["host"]
    try:
        if found["six"] is not None:
            ipaddress.IPv6Address(host)
        elif re.fullmatch(r"[0-9.]+", host) is not None:
            ipaddress.IPv4Address(host)
    except ValueError as error:
        raise ValueError("is no address to listen at", remedy) from error
    return Listen(host, port)


def _unix(path: str) -> Listen:
    if not path.startswith("/") or not path.isprintable() or path.endswith("/"):
        raise ValueError("names no Unix socket", "write an absolute path, such as unix:/run/a2a-gateway/public.sock")
    if len(path.encode()) > _LONGEST_PATH:
        raise ValueError(f"has a path of more than {_LONGEST_PATH} bytes", "choose a shorter one")
    return Listen("", 0, path)


def ip_of(host: str) -> Address | None:
    """Return the IP address that a host is, or None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether a host, as a URL or an address writes it, is this machine alone."""
    address = ip_of(host)
    return host.lower().rstrip(".") == "localhost" if address is None else address.is_loopback


def is_exposed(url: SplitResult) -> bool:
    """Return whether a URL is plain http or grpc to another machine, which others can read and change."""
    return url.scheme in ("http", "grpc") and not is_loopback(url.hostname or "")


def read_url(text: str, *, query: bool = False, user: str = _NO_USER) -> SplitResult:
    """Read an http or https URL that the gateway may dial or advertise.

    Args:
        query: Whether a query is allowed.
        user: The remedy for a user name or a password in it.

    Raises:
        ValueError: with a fact and a remedy; the fact never repeats the URL.
    """
    parts = _split(text, _AS_URL)
    if parts.scheme not in ("http", "https"):
        raise ValueError("is no http or https URL", _AS_URL)
    _check_authority(parts, _AS_URL, user)
    if "#" in text:
        raise ValueError("has a fragment", "remove everything from the # on")
    if "?" in text and not query:
        raise ValueError("has a query", "remove everything from the ? on")
    if any(segment in (".", "..") for segment in parts.path.split("/")) or "//" in parts.path:
        raise ValueError("has a path with `.`, `..` or `//` in it", "write the path that is meant")
    return parts


def is_grpc(url: str) -> bool:
    """Return whether a URL is meant to be one of an agent behind gRPC."""
    return url.lower().startswith(("grpc:", "grpcs:"))


def read_backend(text: str) -> SplitResult:
    """Read the URL of an agent: as `read_url`, or `grpc://host:port` or `grpcs://host[:port]`, which end there.

    Raises:
        ValueError: with a fact and a remedy; the fact never repeats the URL.
    """
    if not is_grpc(text):
        return read_url(text)
    parts = _split(text, _AS_GRPC)
    _check_authority(parts, _AS_GRPC)
    if parts.path or "?" in text or "#" in text:
        raise ValueError("has something behind its host and port, and gRPC has no paths", _AS_GRPC)
    if parts.port is None and parts.scheme not in _DEFAULT_PORT:
        raise ValueError("names no port", _AS_GRPC)
    return parts


def _split(text: str, remedy: str) -> SplitResult:
    if _URL.fullmatch(text) is None:
        raise ValueError("has a character that a URL cannot have", remedy)
    try:
        parts = urlsplit(text)
        # It is parsed only where it is accessed.
        _ = parts.port
    except ValueError as error:
        raise ValueError("is no URL", f"{remedy}, the port up to 65535") from error
    return parts


def _check_authority(parts: SplitResult, remedy: str, user: str = _NO_USER) -> None:
    if "@" in parts.netloc:
        raise ValueError("has a user name or password in it", user)
    if not parts.hostname:
        raise ValueError("names no host", remedy)
    if not _is_host(parts.netloc, parts.hostname) or parts.port == 0 or parts.netloc.endswith(":"):
        raise ValueError("has a host or port that cannot be", remedy)


def read_authority(text: str) -> tuple[str, int]:
    """Read the address that clients of gRPC dial: `HOST:PORT` or `[IPV6]:PORT`.

    Returns:
        The host in lower case, without brackets, and the port.

    Raises:
        ValueError: with a fact and a remedy.
    """
    if "://" in text:
        raise ValueError("has a scheme, which clients of gRPC do not know", _AS_AUTHORITY)
    if "/" in text:
        raise ValueError("has a path, which gRPC has not", _AS_AUTHORITY)
    found = _LISTEN.fullmatch(text)
    if found is None or not 0 < int(found["port"]) <= 65535:
        raise ValueError("is no host and port", _AS_AUTHORITY)
    host = (found["six"] or found["host"]).lower()
    if not _is_host(text.rpartition(":")[0], host):
        raise ValueError("is no host and port", _AS_AUTHORITY)
    if any(address.is_unspecified for address in _bound(host) or ()):
        raise ValueError("is no address that clients could dial", "write the name that clients use")
    return host, int(found["port"])


def same_place(text: str) -> str:
    """Return the one spelling that all URLs of the same backend share; the text itself if it is no URL.

    All loopback names and addresses count as one, because a server there usually answers at each of them.
    """
    try:
        parts = read_backend(text)
    except ValueError:
        return text
    port = parts.port or _DEFAULT_PORT[parts.scheme]
    return f"{parts.scheme}://{_same_host(parts.hostname or '')}:{port}{parts.path.rstrip('/')}"


def _same_host(host: str) -> str:
    host = host.lower().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return "localhost"
    try:
        address: Address = ipaddress.ip_address(host)
    except ValueError:
        try:
            # Resolvers accept these as addresses too: 127.1, 0x7f000001.
            address = ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    # Dialling the unspecified address reaches this machine.
    return "localhost" if address.is_loopback or address.is_unspecified else str(address)


def _is_host(netloc: str, host: str) -> bool:
    if netloc.startswith("["):
        try:
            return ipaddress.IPv6Address(host).scope_id is None
        except ValueError:
            return False
    if "[" in netloc or "]" in netloc:
        return False
    return _HOST.fullmatch(host) is not None and ".." not in host
