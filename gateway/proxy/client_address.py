"""The client's address and the request id, as trusted proxies report them, and the trace of a request."""

import ipaddress
import re
from collections.abc import Sequence

from gateway.a2a.call import Head
from gateway.a2a.headers import TRACEPARENT

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_MOST_HOPS = 32
"""Addresses of X-Forwarded-For that are read; chains of proxies are shorter."""

_ID = re.compile(rb"[0-9A-Za-z._~:=+/@-]{1,128}")
"""Ids of proxies: UUIDs, hex digits, and those of AWS (`Root=1-…`)."""

_WITH_PORT = re.compile(r"(?:(?P<v4>[0-9.]+):[0-9]{1,5}|\[(?P<v6>[0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?)")


def client_address(head: Head, trusted: Sequence[Network]) -> str:
    """Return the address of the client: the peer's, or the address that trusted proxies in front report.

    X-Forwarded-For is read from its end: the first address that is not a trusted proxy's is the client's. The addresses
    before it may be forged by the client.
    """
    if not trusted or not is_trusted(head.peer, trusted):
        return head.peer
    hops = [hop.strip() for value in head.all(b"x-forwarded-for") for hop in value.decode("latin-1").split(",")]
    for hop in reversed(hops[-_MOST_HOPS:]):
        address = _address(_without_port(hop))
        if address is None:
            break
        if not _within(address, trusted):
            # In the standard spelling, as it goes to the agent and into the log.
            return str(address)
    return head.peer


def is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    """Return whether a peer is a trusted proxy."""
    address = _address(peer.partition("%")[0])
    return address is not None and _within(address, trusted)


def trace_id(head: Head) -> str | None:
    """Return the trace that the client's `traceparent` names, or None."""
    parent = head.first(b"traceparent")
    found = None if parent is None else TRACEPARENT.fullmatch(parent)
    return None if found is None else found["trace"].decode("ascii")


def kept_id(head: Head, trusted: Sequence[Network]) -> str | None:
    """Return the X-Request-Id of a trusted proxy; None from other peers, and if it is invalid or repeated."""
    given = head.all(b"x-request-id")
    if len(given) != 1 or _ID.fullmatch(given[0]) is None or not is_trusted(head.peer, trusted):
        return None
    return given[0].decode("ascii")


def _without_port(hop: str) -> str:
    """Return the address of a hop; some proxies (Azure's) add the client's port, and brackets to an IPv6 address."""
    found = _WITH_PORT.fullmatch(hop)
    return hop if found is None else found["v6"] or found["v4"]


def _address(text: str) -> Address | None:
    """Return an address, IPv4 also where it is mapped into IPv6; None for other text and link-local scopes."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        # A scope may be any text.
        return None if address.scope_id is not None else address.ipv4_mapped or address
    return address


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
