"""The head of a request: ours alone, whatever its parts are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.request_head import request_head
from tests.table import for_each


def head(
    method: bytes = b"POST",
    target: bytes = b"/",
    host: bytes = b"agent",
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> bytes:
    return request_head(method, target, host, headers, 2)


def test_a_head_is_a_request_line_host_headers_in_order_and_our_framing() -> None:
    made = request_head(b"POST", b"/rpc?x=1", b"[::1]:80", [(b"A2A-Version", b"1.0"), (b"b", b"")], 17)
    assert made == (
        b"POST /rpc?x=1 HTTP/1.1\r\nhost: [::1]:80\r\nA2A-Version: 1.0\r\nb: \r\n"
        b"accept-encoding: identity\r\ncontent-length: 17\r\n\r\n"
    )


def test_a_request_without_a_body_has_no_length() -> None:
    assert b"content-length" not in request_head(b"GET", b"/", b"agent", [], None)


def test_identity_is_asked_for_once() -> None:
    assert head(headers=((b"Accept-Encoding", b"identity"),)).lower().count(b"accept-encoding") == 1


@for_each("ending", [b"\r", b"\n", b"\r\n", b"\0", b"\r\nx: y", b"\x7f"])
def test_no_part_can_end_a_line(ending: bytes) -> None:
    with pytest.raises(ValueError, match="HTTP"):
        head(method=b"POST" + ending)
    with pytest.raises(ValueError, match="HTTP"):
        head(target=b"/" + ending)
    with pytest.raises(ValueError, match="HTTP"):
        head(host=b"agent" + ending)
    for pair in ((b"x" + ending, b"y"), (b"x", b"y" + ending), (b"x", ending + b"y")):
        with pytest.raises(ValueError, match="HTTP"):
            head(headers=(pair,))


@for_each("target", [b"", b"*", b"rpc", b"http://agent/", b"/a b", b"/a#b", b"/\xc3\xa9"])
def test_targets_are_origin_form(target: bytes) -> None:
    with pytest.raises(ValueError, match="HTTP"):
        head(target=target)


@for_each("host", [b"", b"a b", b"user@agent", b"agent/path", b"a\xe9"])
def test_hosts_are_hosts(host: bytes) -> None:
    with pytest.raises(ValueError, match="HTTP"):
        head(host=host)


@for_each("name", [b"", b"a b", b"a:", b"a: b", b"te: x", b" a", b"\xe9", b"("])
def test_names_are_tokens(name: bytes) -> None:
    with pytest.raises(ValueError, match="HTTP"):
        head(headers=((name, b"x"),))


@for_each("name", [b"Content-Length", b"transfer-encoding", b"HOST", b"Connection", b"Expect", b"te"])
def test_the_hop_is_ours(name: bytes) -> None:
    with pytest.raises(ValueError, match="hop"):
        head(headers=((name, b"1"),))


@for_each("method", [b"HEAD", b"CONNECT", b"get", b""])
def test_a_method_whose_answer_could_not_be_read_is_refused(method: bytes) -> None:
    with pytest.raises(ValueError, match=r"method|HTTP"):
        head(method=method)


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(ValueError, match="HTTP") as refused:
        head(headers=((b"authorization", b"Bearer secret\n"),))
    assert "secret" not in str(refused.value)


@given(st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=8)), max_size=4), st.binary(max_size=8))
def test_a_request_head_has_exactly_the_given_headers(pairs: list[tuple[bytes, bytes]], tail: bytes) -> None:
    try:
        made = request_head(b"POST", b"/" + tail, b"agent", pairs, 0)
    except ValueError:
        return
    assert made.endswith(b"\r\n\r\n")
    assert made.count(b"\r\n\r\n") == 1
    names = [line.split(b":", 1)[0] for line in made[:-4].split(b"\r\n")[1:]]
    assert [name for name in names if name not in (b"host", b"accept-encoding", b"content-length")] == [
        name for name, _ in pairs if name.lower() != b"accept-encoding"
    ]
