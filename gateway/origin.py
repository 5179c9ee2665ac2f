"""Where a request comes from: the client's address behind trusted proxies, and the trace it belongs to."""

import ipaddress
import re
from collections.abc import Sequence

from gateway.a2a.call import Head

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# W3C Trace Context §3.2: version, trace id, parent id, flags; all zeros are invalid.
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def client_address(head: Head, trusted: Sequence[Network]) -> str:
    """The address of the client: the peer's, or what the trusted proxies in front of it say.

    X-Forwarded-For is read from its end: every address that a trusted proxy wrote counts, the first that none of them
    vouches for is the client's. Whatever stands left of it the client may have written itself.
    """
    if not trusted or not _within(head.peer, trusted):
        return head.peer
    hops = [hop.strip() for value in head.all(b"x-forwarded-for") for hop in value.decode("latin-1").split(",")]
    for hop in reversed(hops):
        if not _is_address(hop):
            break
        if not _within(hop, trusted):
            return hop
    return head.peer


def trace_id(head: Head) -> str | None:
    """The trace that the client's `traceparent` names, or None."""
    found = _TRACEPARENT.fullmatch(head.first(b"traceparent") or b"")
    return None if found is None else found[1].decode("ascii")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _within(text: str, networks: Sequence[Network]) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return any(address in network for network in networks)
