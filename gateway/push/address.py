"""Which addresses are the public Internet, and which are somebody's own network, however they are written.

An address of IPv6 may hold one of IPv4 that somebody on the way unpacks (NAT64, ISATAP): it is as public as what it
holds. The tunnels of 6to4 and Teredo, which nobody serves from, lead nobody knows where. Beyond that only what IANA has
given out as global unicast counts, so that what is reserved today is no surprise tomorrow.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

# Where clouds answer their own machines with credentials, beside the link-local ones; the first is no private address.
_METADATA = frozenset({
    IPv4Address("168.63.129.16"), IPv4Address("169.254.169.254"), IPv4Address("100.100.100.200"),
    IPv4Address("192.0.0.192"), IPv6Address("fd00:ec2::254"), IPv6Address("fd20:ce::254"),
})  # fmt: skip
# Carrier-grade NAT (RFC 6598), and the relays of 6to4 (RFC 7526).
_SHARED_V4 = (IPv4Network("100.64.0.0/10"), IPv4Network("192.88.99.0/24"))
_GLOBAL_V6 = IPv6Network("2000::/3")
# Teredo, 6to4, and what is for documentation (RFC 9637): some interpreters hold them for global.
_NOT_GLOBAL_V6 = (IPv6Network("2001::/32"), IPv6Network("2002::/16"), IPv6Network("3fff::/20"))
_THIS_NETWORK = IPv4Network("0.0.0.0/8")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})


def is_public(address: Address) -> bool:
    """Whether whoever has this address is somewhere on the Internet."""
    if address in _METADATA or address.is_multicast:
        return False
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in _SHARED_V4)
    if (held := _held(address)) is not None and not is_public(held):
        return False
    if _is_translated(address):
        return True
    return address in _GLOBAL_V6 and address.is_global and not any(address in network for network in _NOT_GLOBAL_V6)


def is_dialled(address: Address) -> bool:
    """Whether one may be called that an operator has listed: a machine of its own network, or any public one.

    Never a link-local one, for there clouds hand out credentials, and never one that is not a single machine.
    """
    if address in _METADATA or address.is_multicast or address.is_link_local or address.is_unspecified:
        return False
    if isinstance(address, IPv4Address):
        return address not in _THIS_NETWORK and not address.is_reserved
    if (held := _held(address)) is not None and not is_dialled(held):
        return False
    # Of what IANA keeps for itself, which is reserved, these alone are anybody's.
    return address.is_loopback or _is_translated(address) or not address.is_reserved


def parse(text: str) -> Address | None:
    """The address that a text is, by the strict spelling: dotted decimal without leading zeros, or RFC 4291."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def _held(address: IPv6Address) -> IPv4Address | None:
    """The address of IPv4 within one of IPv6, or None where there is none."""
    number = int(address)
    if _is_translated(address) or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(number & 0xFFFFFFFF)
    return None


def _is_translated(address: IPv6Address) -> bool:
    """Whether it is but another spelling of the one of IPv4 that it holds."""
    return address.ipv4_mapped is not None or address in _NAT64
