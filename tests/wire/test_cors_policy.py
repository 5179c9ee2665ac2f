"""The CORS policy; `test_cors_pages` has what browsers get of it."""

from gateway.a2a.call import Head
from gateway.policy.cors import Policy
from tests.table import for_each

CONSOLE = b"https://console.test"
OTHER = b"https://other.test"
SOME = Policy.compile(("https://console.test", "http://localhost:3000"), ("X-Region",), 600, credentials=False)
ANY = Policy.compile(("*",), (), 3600, credentials=False)
CLOSED = Policy()


def request(origin: bytes | None = CONSOLE, method: str = "POST", **headers: bytes) -> Head:
    named = [] if origin is None else [(b"origin", origin)]
    more = ((name.replace("_", "-").encode(), value) for name, value in headers.items())
    return Head(method, b"/x", headers=(*named, *more))


@for_each(
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
    assert (b"access-control-allow-origin", b"*") in ANY.headers(request(origin))


def test_two_origins_are_none() -> None:
    asks = (b"access-control-request-method", b"POST")
    twice = Head("OPTIONS", b"/", headers=((b"origin", CONSOLE), (b"origin", OTHER), asks))
    assert SOME.headers(twice) == [(b"vary", b"Origin")]
    assert SOME.preflight(twice) is None


def test_credentials_go_to_named_origins_only() -> None:
    policy = Policy.compile(("https://console.test",), (), 600, credentials=True)
    assert (b"access-control-allow-credentials", b"true") in policy.headers(request())
    assert policy.headers(request(OTHER)) == [(b"vary", b"Origin")]


def test_a_preflight_gets_the_headers_and_the_age_of_the_file() -> None:
    head = request(CONSOLE, "OPTIONS", access_control_request_method=b"PUT")
    told = dict(SOME.preflight(head) or [])
    assert told[b"access-control-allow-headers"].endswith(b", X-Region")
    assert told[b"access-control-max-age"] == b"600"
    assert dict(ANY.preflight(head) or [])[b"access-control-max-age"] == b"3600"
    assert CLOSED.preflight(head) is None


@for_each("policy", [SOME, CLOSED])
@for_each("kind", [b"text/plain;charset=UTF-8", b"application/x-www-form-urlencoded", b"", None])
def test_form_requests_of_forbidden_pages_are_forged(policy: Policy, kind: bytes | None) -> None:
    for head in (request(OTHER), request(b"null", "DELETE")):
        typed = head.headers if kind is None else (*head.headers, (b"content-type", kind))
        assert policy.is_forged(Head(head.method, head.path, headers=typed))


@for_each(
    "head",
    [
        request(None, content_type=b"text/plain"), request(CONSOLE, content_type=b"text/plain"),
        request(OTHER, content_type=b"application/json"),
        request(OTHER, content_type=b"application/a2a+json; charset=utf-8"), request(OTHER, a2a_version=b"1.0"),
        request(OTHER, authorization=b"Bearer x"), request(OTHER, x_api_key=b"x"), request(OTHER, "GET"),
        request(OTHER, "HEAD"),
    ],
)  # fmt: skip
def test_preflighted_and_safe_requests_are_not_forged(head: Head) -> None:
    assert not SOME.is_forged(head)
    assert not ANY.is_forged(head)
    assert not ANY.is_forged(request(OTHER))
