"""The policy for webhooks: rules for their URLs, and for the addresses of their hosts.

A client has the gateway, or an agent behind it, call a URL of its choice from within the operator's network. So a
webhook is https at any public address by default. If patterns are listed, it has to match one. Plain http or a private
address needs a pattern that lists it, and private networks that are not blocked (safety B3).

URL and addresses are checked when a webhook is set, and again for each delivery. The second check is of the addresses
that are then dialled (`delivery.py`), which prevents DNS rebinding.

A refusal names the rule, and reveals nothing of the network: neither the addresses of a name nor whether it exists.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import idna

from gateway.a2a.fault import PushDenied
from gateway.network.address import Address, ip_of
from gateway.push.webhook_pattern import WebhookPattern

LONGEST_URL: Final = 2048
_LONGEST_HOST: Final = 253
_MOST_ADDRESSES: Final = 32
_LARGEST_PORT: Final = 65535

# RFC 3986 Appendix B, for the two schemes, without parts that two parsers could split differently.
_URL = re.compile(r"(?i:(https?))://([^/?#]*)(/[^?#]*)?(\?[^#]*)?")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@%]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# By the rules of the WHATWG a host whose last label is a number is an address, in any base.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}

# The same for a missing name and an internal one: the difference would reveal the operator's names.
_NOWHERE: Final = "the host of a webhook must have public addresses, and no others"

# Metadata addresses of clouds that are not link-local; the first is not a private address.
_METADATA = frozenset({
    IPv4Address("168.63.129.16"), IPv4Address("169.254.169.254"), IPv4Address("100.100.100.200"),
    IPv4Address("192.0.0.192"), IPv6Address("fd00:ec2::254"), IPv6Address("fd20:ce::254"),
})  # fmt: skip
# Carrier-grade NAT (RFC 6598), and the relays of 6to4 (RFC 7526).
_SHARED_V4 = (IPv4Network("100.64.0.0/10"), IPv4Network("192.88.99.0/24"))
# Only addresses that IANA has assigned as global unicast, so that reserved ones stay refused.
_GLOBAL_V6 = IPv6Network("2000::/3")
# Teredo and 6to4, which no server uses, and documentation (RFC 9637): some Python versions treat them as global.
_NOT_GLOBAL_V6 = (IPv6Network("2001::/32"), IPv6Network("2002::/16"), IPv6Network("3fff::/20"))
_THIS_NETWORK = IPv4Network("0.0.0.0/8")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})

LOOKUP_TIMEOUT: Final = 2.0
"""Timeout of a look-up in seconds, including the wait for a thread."""
_LOOKUP_THREADS: Final = 8

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a host; raises OSError if there are none, or not in time."""


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """The parts of a webhook's URL.

    Attributes:
        host: A name in its ASCII form and in lower case, or an address, without brackets.
        port: The one that is dialled, also where the URL has none.
        path: With the query, and at least `/`.
        free: Whether a pattern lists it and private networks are not blocked.
    """

    scheme: str
    host: str
    port: int
    path: str = field(repr=False)
    free: bool = False

    @property
    def authority(self) -> str:
        """Return host and port, as a URL has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Return the part that may be logged: paths and queries of webhooks are often their keys."""
        return f"{self.scheme}://{self.authority}"


class Unresolved(PushDenied):
    """The host of a webhook has no address at the moment."""


class WebhookPolicy:
    """Checks webhooks.

    Args:
        allow: Those that may be named; empty for any public one.
        block_private: Whether those in `allow` must be https at a public address all the same.
        resolve: Looks names up.
    """

    def __init__(self, allow: Sequence[WebhookPattern] = (), *, block_private: bool = True, resolve: Resolve) -> None:
        self._allow = tuple(allow)
        self._block_private = block_private
        self._resolve = resolve

    def refuse_url(self, url: str) -> WebhookTarget:
        """Return the parts of a URL, if the URL itself may be called.

        Raises:
            PushDenied: it may not.
        """
        scheme, authority, path, query = _parts(url)
        host, port = _place(authority, scheme)
        listed = any(pattern.matches(scheme, host, port, path) for pattern in self._allow)
        target = WebhookTarget(scheme, host, port, path + query, free=listed and not self._block_private)
        if self._allow and not listed:
            raise PushDenied("this webhook is not on the list of those that are allowed here", detail=target.origin)
        if scheme != "https" and not target.free:
            raise PushDenied("a webhook must be https", detail=target.origin)
        if not target.free and "." not in host and ":" not in host:
            raise PushDenied(_NOWHERE, detail=target.origin)
        return target

    async def refuse_address(self, target: WebhookTarget) -> tuple[str, ...]:
        """Return the addresses of a target, if every one of them may be called.

        Raises:
            PushDenied: one may not.
            Unresolved: there is none, or the look-up took too long.
        """
        if ip_of(target.host) is not None:
            addresses: Sequence[str] = (target.host,)
        else:
            try:
                addresses = await self._resolve(target.host)
            except OSError as error:
                raise Unresolved(_NOWHERE, detail=target.origin) from error
        if not addresses:
            raise Unresolved(_NOWHERE, detail=target.origin)
        if len(addresses) > _MOST_ADDRESSES:
            raise PushDenied(_NOWHERE, detail=target.origin)
        is_allowed = is_dialable if target.free else is_public
        for text in addresses:
            address = ip_of(text)
            if address is None or not is_allowed(address):
                # One is enough: any of them may be dialled.
                raise PushDenied(_NOWHERE, detail=target.origin)
        return tuple(addresses)


def _parts(url: str) -> tuple[str, str, str, str]:
    """Return scheme, authority, path, and query with its question mark, of a URL that all parsers split alike.

    Raises:
        PushDenied: it is not such a URL.
    """
    if len(url) > LONGEST_URL:
        raise PushDenied(f"the URL of a webhook must not be longer than {LONGEST_URL} characters")
    if any(character <= " " or character in "\\\x7f" for character in url):
        raise PushDenied("the URL of a webhook must not have spaces, control characters or backslashes")
    if "#" in url:
        raise PushDenied("the URL of a webhook must not have a fragment")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise PushDenied("a webhook must be an absolute https URL")
    path, query = parts[3] or "/", parts[4] or ""
    if "@" in parts[2]:
        raise PushDenied("the URL of a webhook must not have a user or a password")
    if not (path + query).isascii():
        raise PushDenied("the path and the query of a webhook must be ASCII: write other characters as %XX")
    if _climbs(path):
        raise PushDenied("the path of a webhook must not have dot segments, nor be escaped over and over")
    return parts[1].lower(), parts[2], path, query


def _place(authority: str, scheme: str) -> tuple[str, int]:
    """Return host and port of an authority without a user.

    Raises:
        PushDenied: they are invalid.
    """
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise PushDenied("the URL of a webhook must have a host, and a port that is a number if any")
    port = int(parts[2]) if parts[2] else _DEFAULT_PORTS[scheme]
    if not 0 < port <= _LARGEST_PORT:
        raise PushDenied("the port of a webhook must be from 1 to 65535")
    return _host(parts[1]), port


def _host(text: str) -> str:
    """Return a host in the one spelling in which it is compared, resolved and sent.

    Raises:
        PushDenied: it is invalid, or parsers read it differently.
    """
    if text.startswith("["):
        address = ip_of(text[1:-1])
        if not isinstance(address, IPv6Address):
            raise PushDenied("the host of a webhook is no IPv6 address")
        if address.ipv4_mapped is not None:
            raise PushDenied("the host of a webhook must not be an IPv4 address in an IPv6 one")
        return str(address)
    if text.endswith("."):
        raise PushDenied("the host of a webhook must not end in a dot")
    if not text.isascii():
        try:
            # No mapping of similar characters: a name that is invalid by strict IDNA 2008 is refused.
            text = idna.encode(text, strict=True, std3_rules=True).decode("ascii")
        except idna.IDNAError as error:
            raise PushDenied("the host of a webhook is no name") from error
    host = text.lower()
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        if ip_of(host) is None:
            raise PushDenied("the host of a webhook that is a number must be an address as 192.0.2.1")
        return host
    if len(host) > _LONGEST_HOST or any(_LABEL.fullmatch(label) is None for label in labels):
        raise PushDenied("the host of a webhook is no name")
    return host


def _climbs(path: str) -> bool:
    """Return whether a path has a dot segment for any parser, after any number of decodings."""
    for _ in range(3):
        if any(segment.partition(";")[0] in (".", "..") for segment in re.split(r"[/\\]", path)):
            return True
        decoded = unquote_to_bytes(path).decode("latin-1")
        if decoded == path:
            return False
        path = decoded
    return True


# ---- Addresses -------------------------------------------------------------------------------------------------------


def is_public(address: Address) -> bool:
    """Return whether an address is a public one, in any notation."""
    if address in _METADATA or address.is_multicast:
        return False
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in _SHARED_V4)
    if (embedded := _embedded(address)) is not None and not is_public(embedded):
        return False
    if _is_translated(address):
        return True
    return address in _GLOBAL_V6 and address.is_global and not any(address in network for network in _NOT_GLOBAL_V6)


def is_dialable(address: Address) -> bool:
    """Return whether an address may be called that an operator has listed: a public one, or a machine of its network.

    Refused are link-local addresses, where clouds serve credentials, and addresses that are not a single machine.
    """
    if address in _METADATA or address.is_multicast or address.is_link_local or address.is_unspecified:
        return False
    if isinstance(address, IPv4Address):
        return address not in _THIS_NETWORK and not address.is_reserved
    if (embedded := _embedded(address)) is not None and not is_dialable(embedded):
        return False
    # Of the networks that IANA reserves only these are in use.
    return address.is_loopback or _is_translated(address) or not address.is_reserved


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address within an IPv6 one, which a router may unpack (NAT64, ISATAP), or None."""
    number = int(address)
    if _is_translated(address) or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(number & 0xFFFFFFFF)
    return None


def _is_translated(address: IPv6Address) -> bool:
    return address.ipv4_mapped is not None or address in _NAT64


class Resolver:
    """Looks names up in its own threads: an unanswered look-up blocks its thread for half a minute.

    Args:
        look_up: As `socket.getaddrinfo`; blocks.
    """

    def __init__(
        self,
        *,
        timeout: float = LOOKUP_TIMEOUT,
        threads: int = _LOOKUP_THREADS,
        look_up: Callable[..., Sequence[tuple[Any, ...]]] = socket.getaddrinfo,
    ) -> None:
        self._timeout = timeout
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(threads, "webhook names")

    async def __call__(self, host: str) -> tuple[str, ...]:
        """Return the addresses of a host, in the order of preference, without duplicates.

        Raises:
            OSError: there is none, or the look-up took too long (`TimeoutError`).
        """
        ask = partial(self._look_up, host, None, type=socket.SOCK_STREAM)
        async with asyncio.timeout(self._timeout):
            try:
                entries = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
            except UnicodeError as error:
                raise OSError("no name") from error
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))

    def close(self) -> None:
        """Release the threads, without waiting for pending look-ups."""
        self._threads.shutdown(wait=False, cancel_futures=True)
