"""Pages that may call, and what others could do without asking."""

import pytest

from gateway.a2a.call import Head
from gateway.config.limit import Cors
from gateway.cors import ANSWER_HEADERS, METHODS, REQUEST_HEADERS, Policy

CONSOLE = b"https://console.test"
OTHER = b"https://other.test"
SOME = Policy.compile(Cors(origins=("https://console.test", "http://localhost:3000"), headers=("X-Region",)))
ANY = Policy.compile(Cors.model_validate({"origins": "*", "max_age": "1h"}))
CLOSED = Policy.compile(None)


def request(origin: bytes | None = CONSOLE, method: str = "POST", **headers: bytes) -> Head:
    named = [] if origin is None else [(b"origin", origin)]
    return Head(
        method, b"/x", headers=(*named, *((name.replace("_", "-").encode(), value) for name, value in headers.items()))
    )


def preflight(origin: bytes | None = CONSOLE, method: bytes = b"POST") -> Head:
    return request(origin, "OPTIONS", access_control_request_method=method)


def test_a_page_that_may_call_is_told_so_on_every_answer() -> None:
    assert SOME.headers(request()) == [
        (b"access-control-allow-origin", CONSOLE),
        (b"access-control-expose-headers", ANSWER_HEADERS),
        (b"vary", b"Origin"),
    ]
    assert SOME.headers(request(b"http://localhost:3000"))[0] == (
        b"access-control-allow-origin",
        b"http://localhost:3000",
    )


@pytest.mark.parametrize(
    "origin",
    [
        OTHER, b"null", b"", b"https://console.test/", b"https://CONSOLE.test", b"http://console.test",
        b"https://console.test:443", b"https://console.test.evil.test", b"https://evil.test, https://console.test",
        b"https://console.test ", b"*", None,
    ],
)  # fmt: skip
def test_no_other_origin_is_ever_repeated(origin: bytes | None) -> None:
    assert SOME.headers(request(origin)) == [(b"vary", b"Origin")]
    assert CLOSED.headers(request(origin)) == []


def test_two_origins_are_none() -> None:
    twice = Head("POST", b"/", headers=((b"origin", CONSOLE), (b"origin", OTHER)))
    assert SOME.headers(twice) == [(b"vary", b"Origin")]
    assert (
        SOME.preflight(Head("OPTIONS", b"/", headers=(*twice.headers, (b"access-control-request-method", b"POST"))))
        is None
    )


def test_any_origin_gets_one_answer_that_caches_may_share() -> None:
    same = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", ANSWER_HEADERS)]
    assert ANY.headers(request(OTHER)) == ANY.headers(request(None)) == ANY.headers(request(b"null")) == same


def test_credentials_go_to_named_origins_only() -> None:
    policy = Policy.compile(Cors(origins=("https://console.test",), credentials=True))
    assert (b"access-control-allow-credentials", b"true") in policy.headers(request())
    assert policy.headers(request(OTHER)) == [(b"vary", b"Origin")]


def test_a_preflight_is_told_what_the_page_may_send() -> None:
    told = dict(SOME.preflight(preflight()) or [])
    assert told == {
        b"access-control-allow-methods": METHODS,
        b"access-control-allow-headers": ", ".join((*REQUEST_HEADERS, "X-Region")).encode(),
        b"access-control-max-age": b"600",
    }
    assert dict(ANY.preflight(preflight(OTHER)) or [])[b"access-control-max-age"] == b"3600"
    for name in ("A2A-Version", "A2A-Extensions", "Authorization", "X-API-Key", "Content-Type"):
        assert name in told[b"access-control-allow-headers"].decode().split(", ")
    # Whatever it asks for: the answer is what is allowed, and the browser compares.
    assert dict(SOME.preflight(preflight(method=b"PUT")) or []) == told


def test_a_preflight_of_another_origin_is_told_nothing() -> None:
    assert SOME.preflight(preflight(OTHER)) == []


def test_options_is_a_preflight_only_where_a_browser_asks_and_pages_may_call() -> None:
    assert SOME.preflight(request(CONSOLE, "OPTIONS")) is None
    assert SOME.preflight(preflight(None)) is None
    assert SOME.preflight(request(CONSOLE, "POST", access_control_request_method=b"POST")) is None
    assert CLOSED.preflight(preflight()) is None


@pytest.mark.parametrize("policy", [SOME, CLOSED])
@pytest.mark.parametrize("kind", [b"text/plain;charset=UTF-8", b"application/x-www-form-urlencoded", b"", None])
def test_what_a_form_could_have_sent_from_a_page_that_may_not_call_is_forged(
    policy: Policy, kind: bytes | None
) -> None:
    for head in (request(OTHER), request(b"null", "DELETE")):
        typed = head.headers if kind is None else (*head.headers, (b"content-type", kind))
        assert policy.is_forged(Head(head.method, head.path, headers=typed))


@pytest.mark.parametrize(
    "head",
    [
        request(None, content_type=b"text/plain"),
        request(CONSOLE, content_type=b"text/plain"),
        request(OTHER, content_type=b"application/json"),
        request(OTHER, content_type=b"application/a2a+json; charset=utf-8"),
        request(OTHER, a2a_version=b"1.0"),
        request(OTHER, authorization=b"Bearer x"),
        request(OTHER, x_api_key=b"x"),
        request(OTHER, "GET"),
        request(OTHER, "HEAD"),
    ],
)
def test_what_needs_a_preflight_or_changes_nothing_is_not_forged(head: Head) -> None:
    assert not SOME.is_forged(head)
    assert not ANY.is_forged(head)


def test_where_everybody_may_call_nobody_forges() -> None:
    assert not ANY.is_forged(request(OTHER, content_type=b"text/plain"))
