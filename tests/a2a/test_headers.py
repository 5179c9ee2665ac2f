"""Which headers pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.headers import (
    NEVER_FORWARDED,
    TO_AGENT,
    TO_CLIENT,
    is_event_stream,
    is_json,
    media_type,
    pass_on,
)


def test_only_what_is_allowed_passes_in_the_order_it_came() -> None:
    headers = [(b"a2a-version", b"1.0"), (b"x-tenant", b"other"), (b"accept", b"*/*"), (b"a2a-extensions", b"u, v")]
    assert pass_on(headers, TO_AGENT) == [headers[0], headers[2], headers[3]]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("name", ["set-cookie", "location", "server", "www-authenticate", "x-powered-by", "via"])
def test_what_would_show_the_agent_stays_here(name: str) -> None:
    assert pass_on([(name.encode(), b"x")], TO_CLIENT) == []


def test_what_connection_names_is_of_this_hop() -> None:
    headers = [(b"connection", b"close, A2A-Version"), (b"connection", b"Accept "), (b"a2a-version", b"1.0")]
    kept = (b"traceparent", b"00")
    assert pass_on([*headers, (b"accept", b"*/*"), kept], TO_AGENT) == [kept]


@given(st.binary(max_size=20))
def test_no_value_can_end_a_line(value: bytes) -> None:
    passed = pass_on([(b"accept", value)], TO_AGENT)
    assert passed in ([], [(b"accept", value)])
    assert not passed or not set(value) & set(b"\r\n\0\x7f")


def test_no_list_allows_what_is_never_forwarded() -> None:
    assert not (TO_AGENT | TO_CLIENT) & NEVER_FORWARDED
    assert all(name == name.lower() and b"_" not in name for name in TO_AGENT | TO_CLIENT | NEVER_FORWARDED)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("value", [b"text/event-stream", b"Text/Event-Stream;charset=utf-8"])
def test_streams_are_known_with_and_without_charset(value: bytes) -> None:
    assert is_event_stream(value)
    assert not is_event_stream(b"application/json")
    assert not is_event_stream(None)
