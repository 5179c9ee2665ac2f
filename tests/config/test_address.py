from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.address import is_loopback, read_listen, read_url, same_place


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:9090", "::1", 9090, True),
        ("[::]:80", "::", 80, False),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("gw.example.com:65535", "gw.example.com", 65535, False),
    ],
)
def test_an_address_to_listen_at_has_a_host_and_a_port(text: str, host: str, port: int, *, loopback: bool) -> None:
    listen = read_listen(text)
    assert (listen.host, listen.port, listen.is_loopback) == (host, port, loopback)
    assert listen.is_any == (host in ("0.0.0.0", "::"))


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [
        ("127.0.0.1:80", "127.0.0.1:80", True),
        ("127.0.0.1:80", "127.0.0.1:81", False),
        ("127.0.0.1:80", "127.0.0.2:80", False),
        ("127.0.0.1:80", "localhost:80", True),
        ("[::1]:80", "LOCALHOST:80", True),
        ("[::1]:80", "[0::1]:80", True),
        ("0.0.0.0:80", "127.0.0.1:80", True),
        ("0.0.0.0:80", "[::1]:80", False),
        ("[::]:80", "localhost:80", True),
        ("[::]:80", "127.0.0.1:80", False),
        ("0.0.0.0:80", "[::]:80", False),
        ("gw.example.com:80", "0.0.0.0:80", True),
        ("gw.example.com:80", "GW.example.com:80", True),
        ("gw.example.com:80", "127.0.0.1:80", False),
        ("127.0.0.1:0", "127.0.0.1:0", False),
    ],
)
def test_two_listeners_collide_where_they_would_bind_the_same(one: str, other: str, *, collide: bool) -> None:
    assert read_listen(one).collides(read_listen(other)) is collide
    assert read_listen(other).collides(read_listen(one)) is collide


@pytest.mark.parametrize(
    "text", ["", ":8080", "8080", "localhost", "1.2.3:80", "[::g]:1", "::1:80", "a:65536", "a:-1", "a b:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|port"):
        read_listen(text)


@pytest.mark.parametrize(
    "text", ["http://a", "https://a.example:8443/x/y", "http://[::1]:80/", "http://127.0.0.1", "https://my_svc.ns.svc"]
)
def test_a_url_that_can_be_dialled_is_taken(text: str) -> None:
    assert read_url(text).geturl() == text


@pytest.mark.parametrize(
    "text",
    ["", "a", "http://", "http:///x", "http://a:0", "http://a:99999", "http://a:b", "http://a:", "http://u@a", "http://u:p@a",
     "http://@a", "http://a?x", "http://a?", "http://a#x", "http://a/#", "ftp://a", "http://a b", "http://a\\b", "http://a/../b",
     "http://a//b", "http://[::1", "http://[fe80::1%25eth0]/", "http://a..b", "http://a[b]", "file:///x", "http:a", "http://a\n",
     "http://\u00e4", "http://-a", "http://%41", "//a"],
)  # fmt: skip
def test_any_other_url_is_refused_with_a_fact_that_does_not_repeat_it(text: str) -> None:
    with pytest.raises(ValueError, match=" ") as caught:
        read_url(text)
    fact, remedy = caught.value.args
    assert "a.example" not in fact
    assert remedy


@given(st.text(max_size=40), st.sampled_from([read_url, read_listen]))
def test_no_text_is_too_odd_for_a_url_or_an_address(text: str, read: Callable[[str], object]) -> None:
    with suppress(ValueError):
        read(text)


def test_spellings_of_one_backend_are_the_same_place() -> None:
    assert same_place("http://A.example") == same_place("http://a.example:80/") == same_place("http://a.example.")
    assert same_place("http://a.example/x") != same_place("http://a.example/y")
    assert same_place("https://a.example") != same_place("http://a.example")
    assert same_place("no url") == "no url"


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.0.0.1.", "127.9.9.9", "[::1]", "[0:0:0:0:0:0:0:1]",
     "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "127.1", "0x7f000001"],
)  # fmt: skip
def test_all_names_of_this_machine_are_one_place(host: str) -> None:
    assert same_place(f"http://{host}:81/x") == same_place("http://localhost:81/x")
    assert same_place(f"http://{host}:81/x") != same_place("http://localhost:82/x")
    assert same_place(f"http://{host}:81/x") != same_place("http://10.0.0.1:81/x")


def test_spellings_of_one_address_are_the_same_place() -> None:
    assert same_place("http://[2001:db8::1]") == same_place("http://[2001:DB8:0::0:1]/")
    assert same_place("http://10.0.0.1") == same_place("http://[::ffff:10.0.0.1]")


def test_only_this_machine_is_loopback() -> None:
    assert all(map(is_loopback, ["localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "::1"]))
    assert not any(map(is_loopback, ["0.0.0.0", "10.0.0.1", "localhost.example.com", "127.0.0.1.example.com", ""]))
