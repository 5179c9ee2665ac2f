"""How often keys are read, how many there may be, and how long they serve."""

import asyncio

import pytest

from gateway.config.limit import Verification
from gateway.identity.jwks import pause_after
from tests.doubles.undisturbed import undisturbed
from tests.identity.issuance import jwk, rsa_key
from tests.identity.provider import KEYS, provider
from tests.identity.reading import read, reading

pytestmark = pytest.mark.anyio


def bounds(**written: object) -> Verification:
    return Verification.model_validate(written)


@undisturbed(0.3)
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
    async with read(jwk(rsa_key()), bounds=bounds(keys_on_demand="30s")) as (served, running):
        assert running.ask() is not None
        assert await running.read()
        assert [running.ask() is not None for _ in range(4)] == [False, False, True, False]
        assert await running.read()
        assert served.asked == {KEYS: 3}


async def test_keys_serve_without_their_issuer_as_long_as_the_file_says() -> None:
    async with read(jwk(rsa_key()), bounds=bounds(keys_kept="1m")) as (served, running):
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
