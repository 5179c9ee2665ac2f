"""Keys come and go; tokens of a key that is not known yet wait for a reading, and for no longer than they may."""

import asyncio

import pytest

from gateway.a2a.fault import AuthInvalid
from gateway.identity import jwks
from gateway.identity.pending import Pending
from tests.identity.issuance import NOW, auth, bearer, identity, jwk, rsa_key, token
from tests.identity.provider import DISCOVERY, KEYS, provider
from tests.identity.reading import identify, read, reading

pytestmark = pytest.mark.anyio


async def test_a_token_of_a_new_key_has_the_keys_read_and_is_good() -> None:
    async with read(jwk(rsa_key())) as (served, running):
        who = identity(running.key_set, auth(issuer=served.url))
        assert await identify(who, bearer(token(iss=served.url))) is not None
        served.publish(jwk(rsa_key()), jwk(rsa_key(1), "k2"))
        new = bearer(token(rsa_key(1), header={"kid": "k2"}, iss=served.url))
        assert await identify(who, new) is not None
        assert (running.key_set.version, served.asked[KEYS]) == (2, 2)


async def test_a_key_that_was_withdrawn_is_good_for_nothing() -> None:
    async with read(jwk(rsa_key())) as (served, running):
        who = identity(running.key_set, auth(issuer=served.url))
        old = bearer(token(iss=served.url))
        assert await identify(who, old) is not None
        served.publish(jwk(rsa_key(1), "k2"))
        running.ask()
        assert await running.read()
        with pytest.raises(AuthInvalid):
            await identify(who, old)


async def test_keys_that_did_not_change_are_the_same_version() -> None:
    async with read(jwk(rsa_key()), jwk(rsa_key(1), "k2")) as (served, running):
        served.publish(jwk(rsa_key(1), "k2"), jwk(rsa_key()))
        running.ask()
        assert await running.read()
        assert running.key_set.version == 1


async def test_a_storm_of_unknown_keys_causes_one_reading_in_ten_seconds() -> None:
    async with read(jwk(rsa_key())) as (served, running):
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
    async with read(jwk(rsa_key())) as (served, running):
        who = identity(running.key_set, auth(issuer=served.url))
        served.open.clear()
        assert running.ask() is not None
        assert await served.knocked.get() == KEYS
        assert await served.knocked.get() == KEYS
        assert who.identify(bearer(token(iss=served.url)), NOW) is not None


async def test_a_token_waits_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "PATIENCE", 0.05)
    async with read(jwk(rsa_key())) as (served, running):
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
    async with read(jwk(rsa_key())) as (served, running):
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
