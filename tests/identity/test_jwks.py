"""Where keys are read from, and what becomes of them while their provider fails."""

import logging

import pytest

from gateway.a2a.fault import AuthUnavailable
from gateway.identity import jwks
from gateway.identity.jwk import KeySetInvalid
from tests.identity.issuance import NOW, auth, bearer, identity, jwk, rsa_key, token
from tests.identity.provider import DISCOVERY, KEYS, provider
from tests.identity.reading import identify, read, reading

pytestmark = pytest.mark.anyio


async def test_keys_are_read_from_their_address() -> None:
    async with provider() as served, reading(served) as running:
        served.publish(jwk(rsa_key()))
        assert await running.read()
        assert (running.key_set.ready, running.key_set.version, running.key_set.last_success) == (True, 1, NOW)
        assert running.key_set.find("k1", "RS256") is not None
        assert running.names == ["corp"]
        assert served.asked == {KEYS: 1}
        assert served.fields["accept-encoding"] == b"identity"


async def test_keys_are_found_by_discovery() -> None:
    async with provider() as served:
        served.discoverable()
        served.publish(jwk(rsa_key()))
        async with reading(served, discover=True) as running:
            assert await running.read()
            assert served.asked == {DISCOVERY: 1, KEYS: 1}


async def test_an_issuer_that_ends_in_a_slash_is_discovered_too() -> None:
    async with provider() as served:
        served.discoverable(issuer=f"{served.url}/")
        served.publish(jwk(rsa_key()))
        async with reading(served, discover=True, issuer_url=f"{served.url}/") as running:
            assert await running.read()


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"jwks_uri": None},
        {"jwks_uri": "http://192.0.2.1/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "https://user:secret@192.0.2.1/keys"},
        {"jwks_uri": "https:///keys"},
        {"jwks_uri": "/keys"},
        {"jwks_uri": "http://127.0.0.1:99999/keys"},
        {"jwks_uri": "http://[::1/"},
        {"jwks_uri": "http://metadata.example/keys"},
        {"jwks_uri": ""},
    ],
)
async def test_discovery_leads_nowhere_else(changes: dict[str, object]) -> None:
    async with provider() as served:
        served.discoverable(**changes)
        served.publish(jwk(rsa_key()))
        async with reading(served, discover=True) as running:
            assert not await running.read()
            assert not running.key_set.ready
            assert served.asked == {DISCOVERY: 1}


@pytest.mark.parametrize("document", [b"", b"<html>", b"[]", b"{}", b"[" * 100_000])
async def test_what_is_no_discovery_document_leads_nowhere(document: bytes) -> None:
    async with provider() as served:
        served.documents[DISCOVERY] = document
        async with reading(served, discover=True) as running:
            assert not await running.read()


async def test_only_a_local_issuer_leads_to_local_addresses() -> None:
    async with provider() as served, reading(served, issuer_url="https://login.example.com") as running:
        running.key_set._configured_url = None
        with pytest.raises(KeySetInvalid):
            running.key_set._check(served.url)
        running.key_set._check("https://login.example.com/keys")


async def test_plain_http_is_for_loopback_only() -> None:
    async with provider() as served, reading(served) as running:
        for local in ("http://localhost/", "http://127.8.8.8:1/", "http://[::1]:8080/k", "https://idp.example/k"):
            running.key_set._check(local)
        for remote in ("http://10.0.0.1/", "http://localhost.example/", "http://0.0.0.0/", "ftp://localhost/"):
            with pytest.raises(KeySetInvalid):
                running.key_set._check(remote)


async def test_the_environment_says_nothing_about_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with read(jwk(rsa_key())) as (served, _):
        assert served.asked == {KEYS: 1}


# ---- A provider that fails -----------------------------------------------------------------------------------------


async def test_a_provider_that_is_down_at_the_start_is_asked_until_it_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with provider() as served, reading(served) as running:
        who = identity(running.key_set, auth(issuer=served.url))
        shown = bearer(token(iss=served.url))
        assert not await running.read()
        with pytest.raises(AuthUnavailable):
            await identify(who, shown)
        assert (running.key_set.last_success, running.key_set.version) == (0.0, 0)
        assert "issuer corp: keys not read: the answer has status 404" in caplog.text
        served.publish(jwk(rsa_key()))
        assert await running.read()
        assert await identify(who, shown) is not None


GARBAGE: dict[str, tuple[bytes, bytes]] = {
    "HTML": (b"HTTP/1.1 200 OK\r\n", b"<html>Sign in</html>"),
    "an error": (b"HTTP/1.1 500 Oops\r\n", b""),
    "a redirect": (b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n", b""),
    "an empty set": (b"HTTP/1.1 200 OK\r\n", b'{"keys":[]}'),
    "cut short": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n", b'{"keys":['),
    "symmetric keys": (b"HTTP/1.1 200 OK\r\n", b'{"keys":[{"kty":"oct","kid":"k1","k":"AAAA"}]}'),
    "too long": (b"HTTP/1.1 200 OK\r\n", b'{"keys":[' + b" " * (1024 * 1024 + 1) + b"]}"),
    "compressed": (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n", b"\x1f\x8b"),
    "no HTTP": (b"garbage\r\n", b""),
}


@pytest.mark.parametrize(("head", "body"), GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_later_leaves_the_good_keys_in_place(head: bytes, body: bytes) -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        served.documents["/elsewhere"] = served.documents[KEYS]
        async with reading(served) as running:
            assert await running.read()
            served.heads[KEYS], served.documents[KEYS] = head, body
            assert running.ask() is not None
            assert not await running.read()
            assert (running.key_set.ready, running.key_set.version) == (True, 1)
            assert running.key_set.find("k1", "RS256") is not None
            assert set(served.asked) == {KEYS}


async def test_keys_that_could_not_be_read_for_a_day_are_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async with read(jwk(rsa_key())) as (served, running):
        who = identity(running.key_set, auth(issuer=served.url))
        shown = bearer(token(iss=served.url))
        del served.documents[KEYS]
        running.now += 24 * 3600 - 20
        running.ask()
        assert not await running.read()
        assert await identify(who, shown) is not None
        running.ask()
        assert not await running.read()
        assert not running.key_set.ready
        with pytest.raises(AuthUnavailable):
            await identify(who, shown)
        assert "given up" in caplog.text
        served.publish(jwk(rsa_key()))
        assert await running.read()
        assert await identify(who, shown) is not None


async def test_a_provider_that_never_ends_its_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "_DEADLINE", 0.05)
    async with provider() as served:
        served.open.clear()
        async with reading(served) as running:
            assert not await running.read()


async def test_bad_keys_among_good_ones_are_told_to_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    async with read(jwk(rsa_key()), {"kty": "oct", "k": "AAAA"}):
        assert "1 keys of its key set are of no use" in caplog.text


async def test_nothing_of_the_provider_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gateway")
    async with provider() as served:
        served.documents[KEYS] = b"very secret"
        async with reading(served) as running:
            assert not await running.read()
    assert "secret" not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith("gateway")
    )
