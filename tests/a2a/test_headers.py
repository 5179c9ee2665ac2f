"""Which headers pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import BadRequest
from gateway.a2a.headers import (
    NEVER_FORWARDED,
    TO_AGENT,
    TO_CLIENT,
    is_json,
    media_type,
    pass_on,
    refuse_ambiguous,
)
from tests.table import for_each


def test_only_what_is_allowed_passes_in_the_order_it_came() -> None:
    headers = [(b"a2a-version", b"1.0"), (b"x-tenant", b"other"), (b"accept", b"*/*"), (b"a2a-extensions", b"u, v")]
    assert pass_on(headers, TO_AGENT) == [headers[0], headers[2], headers[3]]


@for_each(
    "name",
    [
        "authorization", "x-api-key", "cookie", "host", "x-tenant", "x-a2a-tenant", "x_a2a_tenant", "x-a2a_subject",
        "x-forwarded-for", "x-forwarded-user", "x-forwarded-uri", "x-forwarded-prefix", "x-forwarded-host",
        "x-original-url", "x-real-ip", "forwarded", "x-http-method-override", "te", "trailer", "keep-alive", "upgrade",
        "proxy-authorization", "proxy-connection", "transfer-encoding", "connection", "content-length", "expect",
        "a2a_version", "accept-encoding", "content-encoding", "x-request-id",
    ],
)  # fmt: skip
def test_identity_hop_by_hop_and_what_nobody_thought_of_stays_here(name: str) -> None:
    pair = (name.encode(), b"x")
    assert pass_on([pair], TO_AGENT) == []
    assert pass_on([pair], TO_CLIENT) == []


def test_what_connection_names_is_of_this_hop() -> None:
    headers = [(b"connection", b"close, A2A-Version"), (b"connection", b"Accept "), (b"a2a-version", b"1.0")]
    kept = (b"baggage", b"a=1")
    assert pass_on([*headers, (b"accept", b"*/*"), kept], TO_AGENT) == [kept]


TRACE = b"0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
STATE = (b"tracestate", b"a=1")


@for_each("value", [b"00-" + TRACE + b"-01", b"00-" + TRACE + b"-00", b"cc-" + TRACE + b"-01-later"])
def test_a_trace_passes_with_its_state(value: bytes) -> None:
    headers = [STATE, (b"baggage", b"b"), (b"traceparent", value), (b"tracestate", b"c=2")]
    assert pass_on(headers, TO_AGENT) == headers


@for_each(
    "value",
    [
        b"", b"x", b"00-1-2-01", b"ff-" + TRACE + b"-01", b"00-" + TRACE.upper() + b"-01",
        b"00-" + TRACE + b"-01-later",
        b"00-" + TRACE + b"-01 ", b"cc-" + TRACE + b"-01later", b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01",
        b"00-0af7651916cd43dd8448eb211c80319c-" + b"0" * 16 + b"-01", b"00-" + TRACE + b"-01, 00-" + TRACE + b"-01",
    ],
)  # fmt: skip
def test_a_trace_that_is_none_stays_here_and_so_does_its_state(value: bytes) -> None:
    kept = (b"baggage", b"b")
    assert pass_on([(b"traceparent", value), STATE, kept], TO_AGENT) == [kept]


def test_of_two_headers_that_are_no_list_the_one_that_was_looked_at_passes() -> None:
    headers = [(b"content-type", b"application/json"), (b"content-type", b"text/html"), (b"a2a-extensions", b"u")]
    headers += [(b"a2a-extensions", b"v"), (b"retry-after", b"1"), (b"retry-after", b"2")]
    assert pass_on(headers, TO_CLIENT) == [headers[0], headers[2], headers[3], headers[4]]


@for_each(
    "name",
    ["a2a-version", "authorization", "x-api-key", "content-type", "content-encoding", "traceparent", "origin"],
)
@for_each("second", [b"one", b"another", b""])
def test_a_header_that_is_no_list_stands_once(name: str, second: bytes) -> None:
    pair = (name.encode(), b"one")
    refuse_ambiguous([(b"accept", b"a"), pair, (b"accept", b"b"), (b"x-anything", b""), (b"x-anything", b"")])
    with pytest.raises(BadRequest, match=name):
        refuse_ambiguous([pair, (b"accept", b"a"), (pair[0], second)])


def test_two_credentials_are_one_too_many() -> None:
    with pytest.raises(BadRequest):
        refuse_ambiguous([(b"x-api-key", b"a"), (b"authorization", b"Bearer b")])


@for_each("value", [b"A2A-Version", b"close, a2a-version", b"a2A-veRsion ,close"])
def test_connection_cannot_take_away_what_is_decided_on(value: bytes) -> None:
    refuse_ambiguous([(b"connection", b"close, X-Tenant, Authorization, x-request-id"), (b"connection", b"te")])
    with pytest.raises(BadRequest, match="Connection"):
        refuse_ambiguous([(b"connection", b"close"), (b"connection", value)])


@given(st.binary(max_size=20))
def test_no_value_can_end_a_line(value: bytes) -> None:
    passed = pass_on([(b"accept", value)], TO_AGENT)
    assert passed in ([], [(b"accept", value)])
    assert not passed or not set(value) & set(b"\r\n\0\x7f")


def test_no_list_allows_what_is_never_forwarded() -> None:
    assert not (TO_AGENT | TO_CLIENT) & NEVER_FORWARDED
    assert all(name == name.lower() and b"_" not in name for name in TO_AGENT | TO_CLIENT | NEVER_FORWARDED)


@for_each(
    ("value", "media", "json"),
    [
        (b"application/json", b"application/json", True),
        (b"Application/A2A+JSON; charset=utf-8", b"application/a2a+json", True),
        (b"application/problem+json", b"application/problem+json", True),
        (b" application/json ;x", b"application/json", True),
        (b"text/json", b"text/json", False),
        (b"text/event-stream+json", b"text/event-stream+json", False),
        (b"text/html", b"text/html", False),
        (b"", b"", False),
        (None, b"", False),
    ],
)
def test_a_media_type_is_read_without_case_and_parameters(value: bytes | None, media: bytes, *, json: bool) -> None:
    assert media_type(value) == media
    assert is_json(value) is json
