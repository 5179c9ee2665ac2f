import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any

import pytest

from gateway.a2a.fault import AuthInvalid, AuthUnavailable
from gateway.config.limit import Verification
from gateway.config.model import ALGORITHMS
from gateway.identity import jwks
from gateway.identity.authenticator import Credentials, Identity
from gateway.identity.jwk import KeySetInvalid
from gateway.identity.jwks import KeySet, open_http, pause_after
from gateway.identity.pending import Pending
from gateway.principal import Principal
from tests.identity.issuance import NOW, auth, bearer, identity, jwk, rsa_key, token
from tests.identity.provider import DISCOVERY, KEYS, Provider, provider

pytestmark = pytest.mark.anyio


@dataclass
class Running:
    """A key set that reads from a provider, with a clock that stands still."""

    key_set: KeySet
    results: asyncio.Queue[bool]
    now: float = 1000.0
    names: list[str] = field(default_factory=list)

    async def read(self) -> bool:
        """Wait for the next reading; whether it was good."""
        async with asyncio.timeout(10):
            return await self.results.get()

    def ask(self) -> Pending | None:
        """Have the keys read at once, as a token with an unknown kid does eleven seconds later."""
        self.now += 11.0
        return self.key_set.pending("nobody")


@asynccontextmanager
async def reading(served: Provider, *, discover: bool = False, **settings: Any) -> AsyncIterator[Running]:
    results: asyncio.Queue[bool] = asyncio.Queue()

    def on_result(name: str, good: bool) -> None:  # noqa: FBT001 - the shape of the hook
        running.names.append(name)
        results.put_nowait(good)

    async with open_http(SSLContext(PROTOCOL_TLS_CLIENT)) as http:
        asked = {
            "issuer_url": served.url,
            "jwks_url": None if discover else served.url + KEYS,
            "algorithms": ALGORITHMS,
        }
        key_set = KeySet(
            "corp", **{**asked, **settings}, http=http, on_result=on_result, clock=lambda: running.now, wall=lambda: NOW
        )
        running = Running(key_set, results)
        task = asyncio.get_running_loop().create_task(key_set.run())
        try:
            yield running
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def identify(who: Identity, shown: Credentials) -> Principal | None:
    """As the line does it."""
    try:
        return who.identify(shown, NOW)
    except Pending as pending:
        return await who.prove(pending, shown, lambda: NOW, 0.0)


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
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served) as running:
            assert await running.read()


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
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served) as running:
            assert await running.read()
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
    async with provider() as served:
        served.publish(jwk(rsa_key()), {"kty": "oct", "k": "AAAA"})
        async with reading(served) as running:
            assert await running.read()
    assert "1 keys of its key set are of no use" in caplog.text


# ---- Rotation, and tokens that wait --------------------------------------------------------------------------------


async def test_a_token_of_a_new_key_has_the_keys_read_and_is_good() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served) as running:
            assert await running.read()
            who = identity(running.key_set, auth(issuer=served.url))
            assert await identify(who, bearer(token(iss=served.url))) is not None
            served.publish(jwk(rsa_key()), jwk(rsa_key(1), "k2"))
            new = bearer(token(rsa_key(1), header={"kid": "k2"}, iss=served.url))
            assert await identify(who, new) is not None
            assert (running.key_set.version, served.asked[KEYS]) == (2, 2)


async def test_a_key_that_was_withdrawn_is_good_for_nothing() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served) as running:
            assert await running.read()
            who = identity(running.key_set, auth(issuer=served.url))
            old = bearer(token(iss=served.url))
            assert await identify(who, old) is not None
            served.publish(jwk(rsa_key(1), "k2"))
            running.ask()
            assert await running.read()
            with pytest.raises(AuthInvalid):
                await identify(who, old)


async def test_keys_that_did_not_change_are_the_same_version() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()), jwk(rsa_key(1), "k2"))
        async with reading(served) as running:
            assert await running.read()
            served.publish(jwk(rsa_key(1), "k2"), jwk(rsa_key()))
            running.ask()
            assert await running.read()
            assert running.key_set.version == 1


async def test_a_storm_of_unknown_keys_causes_one_reading_in_ten_seconds() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served) as running:
            assert await running.read()
            who = identity(running.key_set, auth(issuer=served.url))
            storm = [bearer(token(header={"kid": f"x{number}"}, iss=served.url)) for number in range(200)]
            for _ in range(2):
                answers = await asyncio.gather(*(identify(who, shown) for shown in storm), return_exceptions=True)
                assert {type(answer) for answer in answers} == {AuthInvalid}
            assert served.asked[KEYS] == 2
            running.now += 9.9
            with pytest.raises(AuthInvalid):
                await identify(who, bearer(token(header={"kid": "y"}, iss=served.url)))
            assert served.asked[KEYS] == 2
            running.now += 0.2
            with pytest.raises(AuthInvalid):
                await identify(who, bearer(token(header={"kid": "z"}, iss=served.url)))
            assert served.asked[KEYS] == 3


async def test_tokens_of_known_keys_never_wait_while_the_provider_hangs() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served) as running:
            assert await running.read()
            who = identity(running.key_set, auth(issuer=served.url))
            served.open.clear()
            assert running.ask() is not None
            assert await served.knocked.get() == KEYS
            assert await served.knocked.get() == KEYS
            assert who.identify(bearer(token(iss=served.url)), NOW) is not None


async def test_a_token_waits_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "PATIENCE", 0.05)
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served) as running:
            assert await running.read()
            who = identity(running.key_set, auth(issuer=served.url))
            served.open.clear()
            shown = bearer(token(header={"kid": "k2"}, iss=served.url))
            with pytest.raises(Pending) as caught:
                who.identify(shown, NOW)
            await caught.value.settled()
            running.now += 0.05
            with pytest.raises(AuthInvalid):
                who.identify(shown, NOW)


async def test_a_token_waits_for_the_first_keys_and_then_gets_its_answer() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served) as running:
            who = identity(running.key_set, auth(issuer=served.url))
            assert await identify(who, bearer(token(iss=served.url))) is not None


async def test_waiting_may_be_cancelled() -> None:
    async with provider() as served:
        served.open.clear()
        async with reading(served) as running:
            pending = running.key_set.pending("k1")
            assert pending is not None
            assert pending.issuer == "corp"
            waiting = asyncio.get_running_loop().create_task(pending.settled())
            await served.knocked.get()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting


async def test_a_reading_that_is_under_way_serves_those_who_ask_meanwhile() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served) as running:
            assert await running.read()
            served.open.clear()
            running.ask()
            await served.knocked.get()
            await served.knocked.get()
            pending = running.ask()
            assert pending is not None
            served.open.set()
            await pending.settled()
            assert served.asked[KEYS] == 2


async def test_asking_again_trusts_the_address_that_was_discovered_and_reading_again_does_not() -> None:
    async with provider() as served:
        served.discoverable()
        served.publish(jwk(rsa_key()))
        async with reading(served, discover=True) as running:
            assert await running.read()
            running.ask()
            assert await running.read()
            assert served.asked == {DISCOVERY: 1, KEYS: 2}
            assert await running.key_set._refresh()
            assert served.asked == {DISCOVERY: 2, KEYS: 3}


def bounds(**written: object) -> Verification:
    return Verification.model_validate(written)


async def test_keys_are_read_as_often_as_the_file_says() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served, bounds=bounds(keys_every="10ms")) as running:
            for _ in range(3):
                assert await running.read()
            del served.documents[KEYS]
            while await running.read():
                pass
            # Not after a second: nothing waits longer for failures than for successes.
            async with asyncio.timeout(0.9):
                assert not await running.read()


async def test_unknown_keys_cause_readings_as_often_as_the_file_says() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served, bounds=bounds(keys_on_demand="30s")) as running:
            assert await running.read()
            assert running.ask() is not None
            assert await running.read()
            assert [running.ask() is not None for _ in range(4)] == [False, False, True, False]
            assert await running.read()
            assert served.asked == {KEYS: 3}


async def test_keys_serve_without_their_issuer_as_long_as_the_file_says() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        async with reading(served, bounds=bounds(keys_kept="1m")) as running:
            assert await running.read()
            del served.documents[KEYS]
            for ready in (True, True, True, True, True, False):
                running.ask()
                assert not await running.read()
                assert running.key_set.ready is ready


async def test_a_key_set_is_as_long_as_the_file_says() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()))
        size = len(served.documents[KEYS])
        for longest, good in ((size, True), (size - 1, False)):
            async with reading(served, bounds=bounds(keys_size=longest)) as running:
                assert await running.read() is good


async def test_a_key_set_has_as_many_keys_as_the_file_says() -> None:
    async with provider() as served:
        served.publish(jwk(rsa_key()), jwk(rsa_key(1), "k2"))
        for most, good in ((2, True), (1, False)):
            async with reading(served, bounds=bounds(keys_count=most)) as running:
                assert await running.read() is good


async def test_keys_are_read_every_five_minutes_and_sooner_after_failures() -> None:
    assert [pause_after(failures, 0.0) for failures in range(8)] == [300, 1, 2, 4, 8, 16, 30, 30]
    assert pause_after(0, 1.0) == 225
    assert pause_after(10**6, 0.0) == 30


async def test_nothing_of_the_provider_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gateway")
    async with provider() as served:
        served.documents[KEYS] = b"very secret"
        async with reading(served) as running:
            assert not await running.read()
    assert "secret" not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith("gateway")
    )
