"""The origin of a request."""

from ipaddress import ip_network

from gateway.a2a.call import Head
from gateway.proxy.client_address import client_address, is_trusted, trace_id
from tests.table import for_each

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def forwarded(peer: str, *values: bytes) -> Head:
    return Head("GET", b"/", peer=peer, headers=tuple((b"x-forwarded-for", value) for value in values))


@for_each(
    ("values", "client"),
    [
        ((b"198.51.100.9",), "198.51.100.9"), ((b"1.2.3.4, 198.51.100.9",), "198.51.100.9"),
        ((b"1.2.3.4", b"198.51.100.9, 10.0.0.2"), "198.51.100.9"), ((b"2001:db8::1 , fd00::2",), "2001:db8::1"),
        ((b"2001:DB8:0:0::1",), "2001:db8::1"), ((b"::ffff:198.51.100.9, ::ffff:10.0.0.2",), "198.51.100.9"),
        ((b"fe80::1%<script>",), "10.0.0.1"), ((b"fd00::2%\x1b[1m",), "10.0.0.1"),
        ((b"198.51.100.9, " + b"10.0.0.2, " * 4000 + b"10.0.0.2",), "10.0.0.1"),
        ((b"1.2.3.4, not-an-address",), "10.0.0.1"), ((b"1.2.3.4, 198.51.100.9:443",), "198.51.100.9"),
        ((b"1.2.3.4, [2001:db8::1]:50312, 10.0.0.2:81",), "2001:db8::1"), ((b"[2001:db8::1]",), "2001:db8::1"),
        ((b"1.2.3.4, [198.51.100.9:443",), "10.0.0.1"), ((b"1.2.3.4, [fe80::1%eth0]:443",), "10.0.0.1"),
        ((b"1.2.3.4, 198.51.100.9:http",), "10.0.0.1"), ((b"1.2.3.4, 198.51.100.9:443:443",), "10.0.0.1"),
        ((b"10.0.0.3",), "10.0.0.1"), ((b"",), "10.0.0.1"), ((b"\xff",), "10.0.0.1"), ((), "10.0.0.1"),
    ],
)  # fmt: skip
def test_the_client_is_the_last_address_that_no_trusted_proxy_vouches_for(
    values: tuple[bytes, ...], client: str
) -> None:
    assert client_address(forwarded("10.0.0.1", *values), TRUSTED) == client


@for_each("peer", ["", "unix:", "nonsense"])
def test_a_peer_without_an_address_is_trusted_with_nothing(peer: str) -> None:
    assert client_address(forwarded(peer, b"198.51.100.9"), TRUSTED) == peer


@for_each(
    ("peer", "trusted"),
    [("10.0.0.1", True), ("::ffff:10.0.0.1", True), ("fd00::1%eth0", True), ("11.0.0.1", False), ("", False)],
)
def test_a_trusted_proxy_is_known_however_its_address_is_written(peer: str, *, trusted: bool) -> None:
    assert is_trusted(peer, TRUSTED) is trusted


TRACE = b"0af7651916cd43dd8448eb211c80319c"


@for_each(
    ("value", "trace"),
    [
        (b"00-" + TRACE + b"-b7ad6b7169203331-01", TRACE.decode()),
        (b"cc-" + TRACE + b"-b7ad6b7169203331-01-later", TRACE.decode()),
        (b"ff-" + TRACE + b"-b7ad6b7169203331-01", None), (b"00-" + TRACE + b"-b7ad6b7169203331-01-later", None),
        (b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01", None), (b"00-" + TRACE + b"-0000000000000000-01", None),
        (b"00-" + TRACE.upper() + b"-b7ad6b7169203331-01", None), (b"00-" + TRACE + b"-b7ad6b7169203331-01\n", None),
        (b"", None), (b"x" * 10_000, None),
    ],
)  # fmt: skip
def test_a_trace_is_what_the_standard_calls_valid(value: bytes, trace: str | None) -> None:
    assert trace_id(Head("GET", b"/", headers=((b"traceparent", value),))) == trace
