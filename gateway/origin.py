"""Where a request comes from: the client's address behind trusted proxies, and the trace it belongs to."""

import ipaddress
import re
from collections.abc import Sequence

from gateway.a2a.call import Head
from gateway.a2a.headers import TRACEPARENT

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_MOST_HOPS = 32
"""Addresses of X-Forwarded-For that are looked at; there are never so many proxies."""

_WITH_PORT = re.compile(r"(?:(?P<v4>[0-9.]+):[0-9]{1,5}|\[(?P<v6>[0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?)")


def client_address(head: Head, trusted: Sequence[Network]) -> str:
    """The address of the client: the peer's, or what the trusted proxies in front of it say.

    X-Forwarded-For is read from its end: every address that a trusted proxy wrote counts, the first that none of them
    vouches for is the client's. Whatever stands left of it the client may have written itself.
    """
    if not trusted or not is_trusted(head.peer, trusted):
        return head.peer
    hops = [hop.strip() for value in head.all(b"x-forwarded-for") for hop in value.decode("latin-1").split(",")]
    for hop in reversed(hops[-_MOST_HOPS:]):
        address = _address(_without_port(hop))
        if address is None:
            break
        if not _within(address, trusted):
            # As the standard writes it, not as it came: it goes to the agent and into the log.
            return str(address)
    return head.peer


def is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    """Whether a peer is one of the proxies that may say whom they speak for."""
    address = _address(peer.partition("%")[0])
    return address is not None and _within(address, trusted)


def trace_id(head: Head) -> str | None:
    """The trace that the client's `traceparent` names, or None."""
    parent = head.first(b"traceparent")
    found = None if parent is None else TRACEPARENT.fullmatch(parent)
    return None if found is None else found["trace"].decode("ascii")


def _without_port(hop: str) -> str:
    """A hop as most proxies write it; some (Azure's) add the client's port, and then an IPv6 address has brackets."""
    found = _WITH_PORT.fullmatch(hop)
    return hop if found is None else found["v6"] or found["v4"]


def _address(text: str) -> Address | None:
    """An address, an IPv4 one also where it stands in an IPv6 one; None for what is none, or of one link only."""
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
