from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.model import Push
from gateway.push.webhook_pattern import WebhookPattern, read_pattern
from tests.config.reading import good
from tests.table import for_each

PORTS = {"http": 80, "https": 443}


def matches(pattern: str, url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or PORTS[parts.scheme]
    return read_pattern(pattern).matches(parts.scheme, parts.hostname or "", port, parts.path)


@for_each(
    ("text", "pattern"),
    [
        ("https://hooks.example.com", WebhookPattern("https", "hooks.example.com", 443)),
        ("HTTPS://Hooks.Example.com", WebhookPattern("https", "hooks.example.com", 443)),
        ("https://*.acme.example", WebhookPattern("https", "*.acme.example", 443)),
        ("https://*.acme.example:8443/*", WebhookPattern("https", "*.acme.example", 8443)),
        ("https://hooks.globex.example/a2a/*", WebhookPattern("https", "hooks.globex.example", 443, "/a2a/*")),
        ("https://hooks.globex.example/a2a", WebhookPattern("https", "hooks.globex.example", 443, "/a2a")),
        ("https://hooks.globex.example/a2a-*", WebhookPattern("https", "hooks.globex.example", 443, "/a2a-*")),
        ("http://hooks.svc:8080", WebhookPattern("http", "hooks.svc", 8080)),
        ("http://[::1]:9000/x", WebhookPattern("http", "::1", 9000, "/x")),
        ("http://10.0.0.7", WebhookPattern("http", "10.0.0.7", 80)),
        ("http://127.0.0.1:*", WebhookPattern("http", "127.0.0.1", None)),
        ("http://[::1]:*/x", WebhookPattern("http", "::1", None, "/x")),
        ("https://*.acme.example:*", WebhookPattern("https", "*.acme.example", None)),
        ("http://localhost:*/a2a/*", WebhookPattern("http", "localhost", None, "/a2a/*")),
    ],
)
def test_a_pattern_is_a_scheme_a_host_and_perhaps_a_port_and_a_path(text: str, pattern: WebhookPattern) -> None:
    assert read_pattern(text) == pattern
    assert read_pattern(str(pattern)) == pattern


@for_each(
    "text",
    [
        *("", "*", "hooks.example.com", "https://", "https://*", "https://*.", "https://*:443", "https://*/x"),
        *("https://a.*.example", "https://*example.com", "https://**.example", "https://*.*.example", "*://h"),
        *("https://*.10.0.0.7", "ftp://h", "wss://h", "https://user:pw@h", "https://user:pw@*.h", "https://h:0"),
        *(
            "https://h:x",
            "https://h:*0",
            "https://h:8*",
            "https://h:80:*",
            "https://h:*:*",
            "https://:*",
            "https://*:*",
            "https://h*:*",
            "https://user:*@h",
            "https://::1:*",
            "https://h/",
            "https://h/a*b",
            "https://h/*/b",
            "https://h/a?b",
            "https://h/a#b",
        ),
        *("https://h/../a", "https://h//a", "https://h/./*", "https://ü.example", "https://h /", "https://*.h?*"),
    ],
)
def test_anything_else_is_refused_with_a_fact_and_a_remedy(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_pattern(text)
    fact, remedy = caught.value.args
    assert fact.startswith(("is ", "has ", "names "))
    assert remedy


@for_each(
    ("pattern", "url"),
    [
        ("https://hooks.example.com", "https://hooks.example.com"),
        ("https://hooks.example.com", "https://HOOKS.example.com.:443/a/b/../c"),
        ("https://*.acme.example", "https://hooks.acme.example/x"),
        ("https://*.acme.example", "https://a.b.acme.example/x"),
        ("https://*.acme.example:8443", "https://a.acme.example:8443"),
        ("https://h.example/a2a/*", "https://h.example/a2a/"),
        ("https://h.example/a2a/*", "https://h.example/a2a/acme/1"),
        ("https://h.example/a2a", "https://h.example/a2a"),
        ("http://[::1]:9000", "http://[0:0:0:0:0:0:0:1]:9000/x"),
        ("http://10.0.0.7", "http://10.0.0.7/"),
        ("http://127.0.0.1:*", "http://127.0.0.1"),
        ("http://127.0.0.1:*", "http://127.0.0.1:49152/x"),
        ("https://*.acme.example:*/a2a/*", "https://a.acme.example:8443/a2a/1"),
    ],
)
def test_patterns_match_their_urls(pattern: str, url: str) -> None:
    assert matches(pattern, url)


@for_each(
    ("pattern", "url"),
    [
        ("https://hooks.example.com", "http://hooks.example.com"),
        ("https://hooks.example.com", "https://hooks.example.com:8443"),
        ("https://hooks.example.com", "https://a.hooks.example.com"),
        ("https://hooks.example.com", "https://hooks.example.com.evil.example"),
        ("https://*.acme.example", "https://acme.example"),
        ("https://*.acme.example", "https://evilacme.example"),
        ("https://*.acme.example", "https://.acme.example"),
        ("https://*.acme.example", "https://acme.example.evil.example"),
        ("https://*.acme.example", "https://acme.example@evil.example"),
        ("https://*.0.0.7", "https://10.0.0.7"),
        ("https://h.example/a2a/*", "https://h.example/a2a"),
        ("https://h.example/a2a/*", "https://h.example/A2A/x"),
        ("https://h.example/a2a/*", "https://h.example/a2a/../admin"),
        ("https://h.example/a2a/*", "https://h.example/a2a/%2e%2E/admin"),
        ("https://h.example/a2a/*", "https://h.example/a2a/.%2e/admin"),
        ("https://h.example/a2a/*", "https://h.example/a2a/..;x/admin"),
        ("https://h.example/a2a/*", "https://h.example/a2a/..%2Fadmin"),
        ("https://h.example/a2a/*", "https://h.example/a2a/..%5cadmin"),
        ("https://h.example/a2a/*", "https://h.example/a2a/..\\admin"),
        ("https://h.example/a2a", "https://h.example/a2a/"),
        ("https://h.example/a2a", "https://h.example/a2ab"),
        ("http://127.0.0.1", "http://127.1"),
        ("http://127.0.0.1:*", "https://127.0.0.1:8443"),
        ("http://127.0.0.1:*", "http://127.0.0.10:80"),
        ("http://127.0.0.1:*", "http://127.0.0.2:80"),
        ("https://*.acme.example:*", "https://acme.example:8443"),
        ("https://h.example:*/a2a", "https://h.example:8443/b"),
        ("http://127.0.0.1", "http://0x7f000001"),
        ("http://10.0.0.7", "http://[::ffff:10.0.0.7]"),
    ],
)
def test_patterns_do_not_match_similar_urls(pattern: str, url: str) -> None:
    assert not matches(pattern, url)


@given(st.text(max_size=30), st.sampled_from(["https://", "http://", "https://*.", ""]))
def test_no_text_is_too_odd_to_be_read(text: str, before: str) -> None:
    try:
        pattern = read_pattern(before + text)
    except ValueError:
        return
    assert read_pattern(str(pattern)) == pattern


def test_patterns_are_read_one_or_several() -> None:
    agents = "version: 1\nagents: { a: http://127.0.0.1:1 }\n"
    one = good(f"{agents}push: {{ allow: 'https://*.acme.example' }}\n").push
    assert one.allow == (WebhookPattern("https", "*.acme.example", 443),)
    several = good(
        "version: 1\npush: { allow: ['https://a', 'https://b/x/*'] }\nagents: { a: http://127.0.0.1:1 }\n"
    ).push
    assert [str(pattern) for pattern in several.allow] == ["https://a", "https://b/x/*"]
    assert several.model_dump(mode="json")["allow"] == ["https://a", "https://b/x/*"]
    assert Push(allow=several.allow).allow == several.allow
