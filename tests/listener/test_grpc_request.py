"""The head of a call: one reading of it, or a refusal that its client understands."""

import pytest

from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.listener.grpc_request import CallRefused, GrpcRequest, read_request
from tests.listener.grpc_front import REQUEST, SEND, STREAM

Pairs = list[tuple[bytes, bytes]]


def read(headers: Pairs, *, longest: int = 32768, most: int = 100) -> GrpcRequest:
    return read_request(headers, "192.0.2.1", "https", longest=longest, most=most)


def but(name: bytes, value: bytes | None) -> Pairs:
    """The request, with another value of one header or without it."""
    return [(key, value if key == name else known) for key, known in REQUEST if key != name or value is not None]  # type: ignore[misc]


def refused(headers: Pairs, **bounds: int) -> CallRefused:
    with pytest.raises(CallRefused) as caught:
        read(headers, **bounds)
    return caught.value


def test_a_head_says_what_is_called_and_by_whom() -> None:
    request = read([*REQUEST, (b"a2a-version", b"1.0"), (b"x-bin", b"AAE"), (b"x-bin", b"AAI=")])
    head = request.head
    assert (head.method, head.path, head.query) == ("POST", SEND.encode(), b"")
    assert (head.host, head.peer, head.scheme) == ("gateway.example", "192.0.2.1", "https")
    assert head.headers == ((b"a2a-version", b"1.0"), (b"x-bin", b"AAE"), (b"x-bin", b"AAI="))
    assert head.grpc is BY_PATH[SEND]
    assert request.timeout is None


def test_what_says_how_a_call_is_written_is_no_metadata() -> None:
    more = [
        (b"content-length", b"5"),
        (b"host", b"gateway.example"),
        (b"grpc-encoding", b"identity"),
        (b"grpc-accept-encoding", b"gzip"),
        (b"grpc-timeout", b"5S"),
    ]
    request = read([*REQUEST, *more])
    # The agent is told how long its client waits.
    assert request.head.headers == ((b"grpc-timeout", b"5S"),)
    assert request.timeout == 5.0


def test_a_path_that_is_no_method_is_read_all_the_same() -> None:
    assert read(but(b":path", b"/a.b/C?d")).head.grpc is None


@pytest.mark.parametrize(("path", "again"), [(SEND, True), (STREAM, False), ("/a.b/C", False)])
def test_the_head_of_a_stream_serves_no_other(path: str, *, again: bool) -> None:
    assert read(but(b":path", path.encode())).again is again


@pytest.mark.parametrize(
    ("authority", "host"),
    [(b"Gateway.Example:443", "gateway.example"), (b"[::1]:50051", "[::1]"), (b"localhost", "localhost")],
)
def test_the_authority_is_the_host(authority: bytes, host: str) -> None:
    assert read(but(b":authority", authority)).head.host == host


def test_a_host_stands_for_a_missing_authority() -> None:
    assert read([*but(b":authority", None), (b"host", b"a.example:1")]).head.host == "a.example"


@pytest.mark.parametrize(
    "headers",
    [
        but(b":authority", None),
        but(b":authority", b"user@gateway.example"),
        but(b":authority", b"a/b"),
        but(b":authority", b""),
        [*REQUEST, (b"host", b"other.example")],
        but(b":path", b"*"),
        but(b":path", None),
        but(b":method", None),
        [*REQUEST, (b":path", b"/again")],
        [(b"te", b"trailers"), *REQUEST],
        [REQUEST[0], *REQUEST],
        [(b":status", b"200"), *REQUEST],
        [(b":protocol", b"websocket"), *REQUEST],
        [*REQUEST, (b"connection", b"close")],
        [*REQUEST, (b"transfer-encoding", b"chunked")],
        [*REQUEST, (b"Upper", b"x")],
        [*REQUEST, (b"", b"x")],
        [*REQUEST, (b"a b", b"x")],
        [*REQUEST, (b"a:b", b"x")],
        [*REQUEST, (b"a\nb", b"x")],
        [*REQUEST, (b"a", b"x\r\ny: z")],
        [*REQUEST, (b"a", b"x\0")],
        [*REQUEST, (b"a", b"x\x7f")],
        [*REQUEST, (b"content-type", b"application/grpc")],
        [*REQUEST, (b"grpc-timeout", b"1S"), (b"grpc-timeout", b"2S")],
    ],
)
def test_what_two_servers_could_read_in_two_ways_is_refused(headers: Pairs) -> None:
    error = refused(headers)
    assert (error.status, error.code) == (400, None)
    assert error.headers("id")[0] == (b":status", b"400")


@pytest.mark.parametrize("method", [b"GET", b"CONNECT", b"OPTIONS"])
def test_calls_are_posted(method: bytes) -> None:
    headers = refused(but(b":method", method)).headers("id")
    assert headers == [(b":status", b"405"), (b"allow", b"POST"), (b"x-request-id", b"id")]


@pytest.mark.parametrize("media", [b"application/grpc", b"application/grpc+proto", b"Application/gRPC;x=y"])
def test_calls_are_of_protobuf(media: bytes) -> None:
    assert read(but(b"content-type", media)).head.grpc is not None


@pytest.mark.parametrize("media", [b"application/json", b"application/grpc+json", b"application/grpc-web", b"", None])
def test_what_is_no_call_is_told_so_in_http(media: bytes | None) -> None:
    error = refused(but(b"content-type", media))
    assert (error.status, error.code) == (415, None)


def test_a_coding_that_is_not_known_is_told_with_the_one_that_is() -> None:
    error = refused([*REQUEST, (b"grpc-encoding", b"gzip")])
    headers = dict(error.headers("id"))
    assert headers[b":status"] == b"200"
    assert headers[b"grpc-status"] == b"12"
    assert headers[b"grpc-accept-encoding"] == b"identity"
    assert headers[b"x-request-id"] == b"id"


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (b"1H", 3600.0),
        (b"2M", 120.0),
        (b"3S", 3.0),
        (b"4m", 0.004),
        (b"5u", 0.000005),
        (b"6n", 6e-9),
        (b"0S", 0.0),
        (b"99999999S", None),
    ],
)
def test_a_timeout_is_read_in_its_unit(said: bytes, seconds: float | None) -> None:
    assert read([*REQUEST, (b"grpc-timeout", said)]).timeout == (seconds and pytest.approx(seconds))


@pytest.mark.parametrize("said", [b"", b"5", b"S", b"-1S", b"1.5S", b"123456789S", b"1s", "\u0661S".encode()])
def test_a_timeout_that_is_none_is_refused(said: bytes) -> None:
    error = refused([*REQUEST, (b"grpc-timeout", said)])
    assert (error.status, dict(error.headers("id"))[b"grpc-status"]) == (400, b"3")


def test_metadata_has_bounds_and_the_refusal_a_status_of_grpc() -> None:
    large = [*REQUEST, (b"x-a", b"x" * 1000)]
    size = sum(len(name) + len(value) + 32 for name, value in large)
    assert read(large, longest=size)
    for error in (refused(large, longest=size - 1), refused(large, most=len(large) - 1)):
        assert (error.status, dict(error.headers("id"))[b"grpc-status"]) == (431, b"8")


def test_blanks_round_a_value_are_none_of_it() -> None:
    assert read([*REQUEST, (b"x-a", b" 1 \t")]).head.headers == ((b"x-a", b"1"),)
