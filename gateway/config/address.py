"""Addresses that the file writes: URLs, and where to listen."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

_LISTEN = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9.-]+)):(?P<port>[0-9]{1,5})")
_URL = re.compile(r"[!#$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]+")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?")
_DEFAULT_PORT = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen; port 0 lets the system pick."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def is_any(self) -> bool:
        """Whether it is every address of the machine."""
        return self.host in ("0.0.0.0", "::")  # noqa: S104 - it is compared, not bound

    def collides(self, other: "Listen") -> bool:
        """Whether the two cannot both be listened at; of names only that of this machine is known."""
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
    """The addresses that a listener at a host may have, or None for a name that only the system knows."""
    if host.lower().rstrip(".") == "localhost":
        return ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1")
    try:
        return (ipaddress.ip_address(host),)
    except ValueError:
        return None


def read_listen(text: str) -> Listen:
    """Read `HOST:PORT` or `[IPV6]:PORT`.

    Raises:
        ValueError: with a fact and a remedy.
    """
    found = _LISTEN.fullmatch(text)
    remedy = "write HOST:PORT, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080"
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


def is_loopback(host: str) -> bool:
    """Whether a host, as a URL or an address writes it, is this machine alone."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_url(text: str, *, query: bool = False) -> SplitResult:
    """Read an http or https URL that the gateway may dial or advertise.

    Args:
        query: Whether a query is allowed.

    Raises:
        ValueError: with a fact and a remedy; the fact never repeats the URL.
    """
    if _URL.fullmatch(text) is None:
        raise ValueError("has a character that a URL cannot have", "write it as https://host[:port][/path]")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError("is no URL", "write it as https://host[:port][/path], the port up to 65535") from error
    if parts.scheme not in _DEFAULT_PORT:
        raise ValueError("is no http or https URL", "write it as https://host[:port][/path]")
    if "@" in parts.netloc:
        raise ValueError("has a user name or password in it", "remove it, and use `upstream_auth` for credentials")
    host = parts.hostname or ""
    if not host:
        raise ValueError("names no host", "write it as https://host[:port][/path]")
    if not _is_host(parts.netloc, host) or port == 0 or parts.netloc.endswith(":"):
        raise ValueError("has a host or port that cannot be", "write it as https://host[:port][/path]")
    if "#" in text:
        raise ValueError("has a fragment", "remove everything from the # on")
    if "?" in text and not query:
        raise ValueError("has a query", "remove everything from the ? on")
    if any(segment in (".", "..") for segment in parts.path.split("/")) or "//" in parts.path:
        raise ValueError("has a path with `.`, `..` or `//` in it", "write the path that is meant")
    return parts


def same_place(text: str) -> str:
    """A URL in the one spelling that URLs of the same backend have in common; itself where it is no URL.

    All names and addresses of this machine alone are one: a server there mostly answers at each of them.
    """
    try:
        parts = read_url(text)
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
            # What resolvers take for an address too: 127.1, 0x7f000001.
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
