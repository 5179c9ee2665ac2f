"""Which addresses are public, and which may be called where an operator says so."""

from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.push.address import is_dialled, is_public, parse

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001::1", "64:ff9b::808:808", "::ffff:8.8.8.8"]
METADATA = [
    "169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fe80::1",
    "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
]  # fmt: skip
NO_MACHINE = [
    "0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "239.255.255.250", "ff02::1", "ff0e::1", "255.255.255.255", "240.0.0.1",
    "::7f00:1",
]  # fmt: skip
OWN = [
    "127.0.0.1", "127.255.255.254", "::1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1",
    "fd12:3456::1", "100.64.0.1", "100.127.255.255", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
]  # fmt: skip
NOWHERE = [
    "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "2001:db8::1", "3fff::1", "2002:7f00:1::",
    "2002:808:808::", "100::1", "2001:0:7f00:1::1", "2001:0:808:808::1", "64:ff9b:1::7f00:1", "192.88.99.1",
    "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:a00:1", "4000::1",
]  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_may_be_called_always(text: str) -> None:
    assert is_public(ip_address(text))
    assert is_dialled(ip_address(text))


@pytest.mark.parametrize("text", [*METADATA, *NO_MACHINE])
def test_where_clouds_hand_out_credentials_and_what_is_no_machine_are_never_called(text: str) -> None:
    assert not is_public(ip_address(text))
    assert not is_dialled(ip_address(text))


@pytest.mark.parametrize("text", OWN)
def test_an_operator_may_have_its_own_network_called(text: str) -> None:
    assert not is_public(ip_address(text))
    assert is_dialled(ip_address(text))


@pytest.mark.parametrize("text", NOWHERE)
def test_what_is_for_documents_and_tunnels_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@given(st.ip_addresses(v=4))
def test_an_address_is_as_public_as_the_one_of_ipv4_that_it_holds(held: IPv4Address) -> None:
    for prefix in (0xFFFF << 32, 0x0064_FF9B << 96):
        assert is_public(ip_address(prefix | int(held))) == is_public(held)
    if is_public(ip_address((0x2606_4700 << 96) | (0x5EFE << 32) | int(held))):
        assert is_public(held)


@given(st.ip_addresses())
def test_what_is_public_may_be_called(address: object) -> None:
    found = ip_address(str(address))
    assert is_dialled(found) or not is_public(found)


@pytest.mark.parametrize("text", ["010.0.0.1", "1.2.3", "0x7f.0.0.1", "2130706433", "1.2.3.4.5", " 1.2.3.4", "", "::g"])
def test_other_spellings_are_no_addresses(text: str) -> None:
    assert parse(text) is None


def test_an_address_is_read() -> None:
    assert parse("192.0.2.1") == ip_address("192.0.2.1")
