"""The header of the PROXY protocol, version 2: the address of a client whose connection a load balancer passes on.

Specification: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.2. Version 1, which is text, is
refused.
"""

import asyncio
import ipaddress
import socket

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED = 16
_LONGEST = 4096
"""Bytes of addresses and extensions (TLVs); a client's certificate names, the longest of these, have some hundred."""
_LOCAL, _PROXY = 0x20, 0x21
_WITHOUT_ADDRESS = frozenset({0x00, 0x31})
"""UNSPEC, and streams over a Unix socket: the connection is the load balancer's as far as is known."""
_ADDRESSES = {0x11: (4, 12), 0x21: (16, 36)}
"""TCP over IPv4 and IPv6: bytes of an address, and of both addresses with both ports."""


class HeaderRefused(Exception):  # noqa: N818 - the text is logged
    """The connection does not begin with a header of version 2."""


def rest_of(fixed: bytes) -> int:
    """Return the number of bytes that follow the first 16 of a header.

    Raises:
        HeaderRefused: There is no such header.
    """
    if fixed[:12] != _SIGNATURE or fixed[12] not in (_LOCAL, _PROXY):
        raise HeaderRefused("the connection does not begin with a PROXY header of version 2")
    length = int.from_bytes(fixed[14:])
    if length > _LONGEST:
        raise HeaderRefused(f"the PROXY header is longer than {_LONGEST} bytes")
    return length


def client_of(fixed: bytes, rest: bytes) -> str | None:
    """Return the client's address; None where the header tells none, as in a health check.

    Args:
        fixed: The first 16 bytes, which `rest_of` has accepted.
        rest: Addresses and extensions; the extensions are not read.

    Raises:
        HeaderRefused: The header has no TCP address, or less of it than its length.
    """
    if fixed[12] == _LOCAL or fixed[13] in _WITHOUT_ADDRESS:
        return None
    size, both = _ADDRESSES.get(fixed[13], (0, 0))
    if not size or len(rest) < both:
        raise HeaderRefused("the PROXY header has no TCP address")
    address = ipaddress.ip_address(rest[:size])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


async def read_client(connection: socket.socket, seconds: float) -> str | None:
    """Read the header of a new connection and not one byte more; return as `client_of`.

    Args:
        seconds: Until the header is whole.

    Raises:
        HeaderRefused: There is none, in time.
        OSError: The connection is lost.
    """
    try:
        async with asyncio.timeout(seconds):
            fixed = await _exactly(connection, _FIXED)
            return client_of(fixed, await _exactly(connection, rest_of(fixed)))
    except TimeoutError as error:
        raise HeaderRefused("the PROXY header took too long") from error


async def _exactly(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        data = await asyncio.get_running_loop().sock_recv(connection, length - len(found))
        if not data:
            raise HeaderRefused("the connection ended within the PROXY header")
        found += data
    return found
