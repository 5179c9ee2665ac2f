"""Which webhooks may be called: what their URLs may be, and where these may lead.

A client has the gateway, or an agent behind it, call a URL of its choice from within the operator's network. So a
webhook is https, at the default of any public address; where patterns are listed, one of those; and plain http or a
private address only where a pattern lists it and private networks are not blocked (safety B3).

The URL is judged when it is set and the address with it, and both again for each delivery. The second judgement is of
the very addresses that are dialled (`delivery.py`), so that a name which changes its mind meanwhile gains nothing.

A refusal names the rule, and tells nothing of the network: not which address a name has, nor whether anybody is there.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

import idna

from gateway.a2a.fault import PushDenied
from gateway.push import address as addresses

LONGEST_URL: Final = 2048
_LONGEST_HOST: Final = 253
_MOST_ADDRESSES: Final = 32
_LARGEST_PORT: Final = 65535

# RFC 3986 Appendix B, for the two schemes, and with nothing in it that two readers could cut in two ways.
_URL = re.compile(r"(?i:(https?))://([^/?#]*)(/[^?#]*)?(\?[^#]*)?")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@%]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# A host whose last label is one is an address to whoever reads as the WHATWG does, in whatever base.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}

# The same for a name that is nowhere and for one within: which of the two it is would tell of the operator's names.
_NOWHERE: Final = "the host of a webhook must have public addresses, and no others"

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Gives the addresses of a host; raises OSError where there are none, or not in time."""


class Pattern(Protocol):
    """Webhooks that may be called; `config.push.WebhookPattern` is one."""

    def matches(self, scheme: str, host: str, port: int, path: str) -> bool:
        """Whether a webhook is one of them; host in lower case without brackets, path without the query."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a webhook's URL names.

    Attributes:
        host: A name in its ASCII form and in lower case, or an address, without brackets.
        port: The one that is dialled, also where the URL has none.
        path: As it is asked for: with the query, and at least `/`.
        free: Whether a pattern lists it and private networks are not blocked.
    """

    scheme: str
    host: str
    port: int
    path: str = field(repr=False)
    free: bool = False

    @property
    def authority(self) -> str:
        """Host and port, as a URL has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """What may be logged of it: paths and queries of webhooks are often their keys."""
        return f"{self.scheme}://{self.authority}"


class Unresolved(PushDenied):
    """The host of a webhook has no address now; later it may have one."""


class WebhookPolicy:
    """Judges webhooks.

    Args:
        allow: Those that may be named; empty for any public one.
        block_private: Whether what `allow` lists must be https at a public address all the same.
        resolve: Looks names up.
    """

    def __init__(self, allow: Sequence[Pattern] = (), *, block_private: bool = True, resolve: Resolve) -> None:
        self._allow = tuple(allow)
        self._block_private = block_private
        self._resolve = resolve

    def refuse_url(self, url: str) -> Target:
        """What a URL names, if it may be called as far as the URL tells.

        Raises:
            PushDenied: it may not.
        """
        scheme, authority, path, query = _parts(url)
        host, port = _place(authority, scheme)
        listed = any(pattern.matches(scheme, host, port, path) for pattern in self._allow)
        target = Target(scheme, host, port, path + query, free=listed and not self._block_private)
        if self._allow and not listed:
            raise PushDenied("this webhook is not on the list of those that are allowed here", detail=target.origin)
        if scheme != "https" and not target.free:
            raise PushDenied("a webhook must be https", detail=target.origin)
        if not target.free and "." not in host and ":" not in host:
            raise PushDenied(_NOWHERE, detail=target.origin)
        return target

    async def refuse_address(self, target: Target) -> tuple[str, ...]:
        """The addresses of a target, if every one of them may be called.

        Raises:
            PushDenied: one may not.
            Unresolved: there is none, or nobody knew in time.
        """
        if addresses.parse(target.host) is not None:
            found: Sequence[str] = (target.host,)
        else:
            try:
                found = await self._resolve(target.host)
            except OSError as error:
                raise Unresolved(_NOWHERE, detail=target.origin) from error
        if not found:
            raise Unresolved(_NOWHERE, detail=target.origin)
        if len(found) > _MOST_ADDRESSES:
            raise PushDenied(_NOWHERE, detail=target.origin)
        may = addresses.is_dialled if target.free else addresses.is_public
        for text in found:
            address = addresses.parse(text)
            if address is None or not may(address):
                # One is enough: which of them is dialled is chance.
                raise PushDenied(_NOWHERE, detail=target.origin)
        return tuple(found)


def _parts(url: str) -> tuple[str, str, str, str]:
    """Scheme, authority, path, and query with its question mark, of a URL that all readers cut alike.

    Raises:
        PushDenied: it is no such URL.
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
    """Host and port of an authority without a user.

    Raises:
        PushDenied: they are none.
    """
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise PushDenied("the URL of a webhook must have a host, and a port that is a number if any")
    port = int(parts[2]) if parts[2] else _DEFAULT_PORTS[scheme]
    if not 0 < port <= _LARGEST_PORT:
        raise PushDenied("the port of a webhook must be from 1 to 65535")
    return _host(parts[1]), port


def _host(text: str) -> str:
    """A host in the one spelling in which it is compared, resolved, and shown to whoever answers.

    Raises:
        PushDenied: it is none, or one that readers read differently.
    """
    if text.startswith("["):
        address = addresses.parse(text[1:-1])
        if not isinstance(address, IPv6Address):
            raise PushDenied("the host of a webhook is no IPv6 address")
        if address.ipv4_mapped is not None:
            raise PushDenied("the host of a webhook must not be an IPv4 address in an IPv6 one")
        return str(address)
    if text.endswith("."):
        raise PushDenied("the host of a webhook must not end in a dot")
    if not text.isascii():
        try:
            # No mapping of look-alikes: what is no name by the letter of IDNA 2008 is refused.
            text = idna.encode(text, strict=True, std3_rules=True).decode("ascii")
        except idna.IDNAError as error:
            raise PushDenied("the host of a webhook is no name") from error
    host = text.lower()
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        if addresses.parse(host) is None:
            raise PushDenied("the host of a webhook that is a number must be an address as 192.0.2.1")
        return host
    if len(host) > _LONGEST_HOST or any(_LABEL.fullmatch(label) is None for label in labels):
        raise PushDenied("the host of a webhook is no name")
    return host


def _climbs(path: str) -> bool:
    """Whether a path has a dot segment to any reader, however often that one decodes it."""
    for _ in range(3):
        if any(segment.partition(";")[0] in (".", "..") for segment in re.split(r"[/\\]", path)):
            return True
        decoded = unquote_to_bytes(path).decode("latin-1")
        if decoded == path:
            return False
        path = decoded
    return True
