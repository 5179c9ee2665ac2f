from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.network.address import (
    is_grpc,
    is_loopback,
    read_authority,
    read_backend,
    read_listen,
    read_url,
    same_place,
)
from tests.table import for_each


@for_each(
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


@for_each(
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


@for_each("text", ["", ":8080", "8080", "localhost", "1.2.3:80", "[::g]:1", "::1:80", "a:65536", "a:-1", "a b:1"])
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|port"):
        read_listen(text)


@for_each(
    "text", ["http://a", "https://a.example:8443/x/y", "http://[::1]:80/", "http://127.0.0.1", "https://my_svc.ns.svc"]
)
def test_a_url_that_can_be_dialled_is_taken(text: str) -> None:
    assert read_url(text).geturl() == text


@for_each(
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


@for_each(
    ("text", "host", "port"),
    [
        ("grpc://127.0.0.1:50051", "127.0.0.1", 50051),
        ("grpcs://Agents.example.com", "agents.example.com", None),
        ("grpcs://[::1]:443", "::1", 443),
        ("GRPC://a:1", "a", 1),
    ],
)
def test_an_agent_behind_grpc_is_a_host_and_a_port(text: str, host: str, port: int | None) -> None:
    parts = read_backend(text)
    assert (parts.hostname, parts.port) == (host, port)
    assert is_grpc(text)
    assert not is_grpc(f"http://{host}/grpc:")
    assert read_backend("http://a/x").path == "/x"


@for_each(
    "text",
    ["grpc://", "grpc://a", "grpc:a:1", "grpc://a:0", "grpc://a:65536", "grpc://a:", "grpcs://a:", "grpc://a:1/",
     "grpc://a:1/x", "grpc://a:1?x", "grpc://a:1#", "grpc://u@a:1", "grpc://u:p@a:1", "grpc://a b:1", "grpc://a..b:1",
     "grpc://[fe80::1%25eth0]:1", "grpcs://[::1", "grpc:///x", "grpcx://a:1", "unix:///x"],
)  # fmt: skip
def test_any_other_agent_is_refused_with_a_fact_and_a_remedy(text: str) -> None:
    with pytest.raises(ValueError, match=" ") as caught:
        read_backend(text)
    assert len(caught.value.args) == 2


@for_each(
    ("text", "host", "port"),
    [
        ("grpc.example.com:443", "grpc.example.com", 443),
        ("GRPC.example.com:1", "grpc.example.com", 1),
        ("127.0.0.1:50051", "127.0.0.1", 50051),
        ("[::1]:65535", "::1", 65535),
    ],
)
def test_a_grpc_authority_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert read_authority(text) == (host, port)


@for_each(
    ("text", "fact"),
    [
        ("https://a:1", "has a scheme, which clients of gRPC do not know"),
        ("dns:///a:1", "has a scheme, which clients of gRPC do not know"),
        ("a:1/x", "has a path, which gRPC has not"),
        ("a", "is no host and port"),
        ("a:", "is no host and port"),
        ("a:0", "is no host and port"),
        ("a:65536", "is no host and port"),
        ("::1:80", "is no host and port"),
        ("[::g]:80", "is no host and port"),
        ("a..b:80", "is no host and port"),
        ("u@a:80", "is no host and port"),
        (":80", "is no host and port"),
        ("0.0.0.0:80", "is no address that clients could dial"),
        ("[::]:80", "is no address that clients could dial"),
    ],
)
def test_anything_else_is_nothing_to_dial(text: str, fact: str) -> None:
    with pytest.raises(ValueError, match=" ") as caught:
        read_authority(text)
    assert caught.value.args[0] == fact
    assert caught.value.args[1]


@given(st.text(max_size=40), st.sampled_from([read_url, read_listen, read_backend, read_authority]))
def test_no_text_is_too_odd_for_a_url_or_an_address(text: str, read: Callable[[str], object]) -> None:
    with suppress(ValueError):
        read(text)


def test_spellings_of_one_backend_are_the_same_place() -> None:
    assert same_place("http://A.example") == same_place("http://a.example:80/") == same_place("http://a.example.")
    assert same_place("http://a.example/x") != same_place("http://a.example/y")
    assert same_place("https://a.example") != same_place("http://a.example")
    assert same_place("no url") == "no url"
    assert same_place("grpcs://A.example") == same_place("grpcs://a.example:443")
    assert same_place("grpc://127.0.0.1:1") == same_place("grpc://localhost:1") != same_place("http://localhost:1")


@for_each(
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
