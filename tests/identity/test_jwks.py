"""Keys of an issuer: which are used, where they are read from, and how long they serve without it (K5, K6, R16)."""

import asyncio
import json
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from gateway.a2a.fault import AuthInvalid, AuthUnavailable
from gateway.config.limit import Verification
from gateway.config.model import ALGORITHMS
from gateway.identity import jwks
from gateway.identity.jwks import Keys, KeySetInvalid, parse_keys, pause_after
from tests.identity.issuance import (
    DISCOVERY,
    ISSUER,
    KEYS,
    NOW,
    Published,
    authenticator,
    bearer,
    ec_key,
    ed_key,
    identify,
    jwk,
    key_set_document,
    published,
    rsa_key,
    run,
    token,
)
from tests.table import for_each

ALL = frozenset(ALGORITHMS)


def keys_of(*keys: dict[str, object], algorithms: frozenset[str] = ALL, before: Keys | None = None) -> Keys:
    return parse_keys(key_set_document(*keys), algorithms, before=before)


def usable(keys: Keys) -> dict[str, set[str]]:
    """The algorithms for which there is a key, by kid."""
    return {kid: found for kid in "abk" if (found := {name for name in ALGORITHMS if keys.find(kid, name)})}


RSA = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
FITTING = [
    ([jwk(rsa_key(), "a")], {"a": RSA}),
    ([jwk(ec_key(), "a"), jwk(ec_key(0, ec.SECP384R1), "b")], {"a": {"ES256"}, "b": {"ES384"}}),
    ([jwk(ec_key(0, ec.SECP521R1), "a"), jwk(ed_key(), "b")], {"a": {"ES512"}, "b": {"EdDSA"}}),
    # A key that is made for one algorithm serves no other, and written twice it is one key.
    ([jwk(rsa_key(), "a", alg="PS256")], {"a": {"PS256"}}),
    ([jwk(rsa_key(), "a", alg="RS256"), jwk(rsa_key(), "a", alg="PS256")], {"a": {"RS256", "PS256"}}),
    # Keys of two types may share a name, two of one type may not.
    ([jwk(rsa_key(), "a"), jwk(ec_key(), "a")], {"a": RSA | {"ES256"}}),
    ([jwk(rsa_key(), "a"), jwk(rsa_key(1), "a"), jwk(rsa_key(1), "b")], {"b": RSA}),
]


@for_each(("keys", "found"), FITTING)
def test_a_key_verifies_what_its_type_its_issuer_and_its_name_allow(
    keys: list[dict[str, object]], found: dict[str, set[str]]
) -> None:
    read = keys_of(*keys)
    assert usable(read) == found
    assert read.find("a", "none") is read.find("a", "HS256") is None
    if "RS256" in found.get("a", set()):
        assert usable(keys_of(*keys, algorithms=frozenset({"RS256"}))) == {"a": {"RS256"}}


def test_a_token_without_kid_means_the_only_key_that_fits() -> None:
    assert keys_of(jwk(rsa_key()), jwk(ec_key(), None)).find(None, "RS256") is not None
    assert keys_of(jwk(rsa_key(0)), jwk(rsa_key(1), "k2")).find(None, "RS256") is None
    assert keys_of(jwk(rsa_key(0), None), jwk(rsa_key(1), None)).find(None, "RS256") is None


def bad_keys() -> dict[str, object]:
    """Return bad keys that the corpus lacks (`corpus/key_set.py`)."""
    good = jwk(rsa_key(), "bad")
    return {
        "private": {**RSAAlgorithm.to_jwk(rsa_key(), as_dict=True), "key_ops": ["verify"], "kid": "bad"},
        "RSA that takes long": {**good, "n": "_" * 3000},
        "long exponent": {**good, "e": "_" * 20},
        "padded modulus": {**good, "n": f"{good['n']}="},
        "modulus and a line end": {**good, "n": f"{good['n']}\n"},
        "modulus is a number": {**good, "n": 65537},
        "modulus is no base64": {**good, "n": "é" * 400},
        "use is a list": {**good, "use": ["sig"]},
        "use is null": {**good, "use": None},
        "key_ops is a string": {**good, "key_ops": "verify"},
        "alg is a number": {**good, "alg": 256},
        "no kty": {name: value for name, value in good.items() if name != "kty"},
        "unknown kty": {**good, "kty": "rsa"},
        "a curve of another type": {**jwk(ed_key(), "bad"), "crv": "P-256"},
        "unwanted curve": {**json.loads(ECAlgorithm.to_jwk(ec_key(0, ec.SECP256K1))), "kid": "bad"},
        "short Edwards point": {**jwk(ed_key(), "bad"), "x": "AAAA"},
        "Edwards point of zeros": {**jwk(ed_key(), "bad"), "x": "A" * 43},
        "Edwards point of order 8": {**jwk(ed_key(), "bad"), "x": "JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_AU"},
        "Edwards point of order 4": {**jwk(ed_key(), "bad"), "x": "7f_______________________________________38"},
        "Ed448 point of order 4": {"kty": "OKP", "crv": "Ed448", "x": "A" * 76, "kid": "bad"},
    }


@for_each("name", bad_keys())
def test_a_bad_key_is_ignored_and_the_good_ones_stay(name: str) -> None:
    keys = parse_keys(json.dumps({"keys": [bad_keys()[name], jwk(ec_key(1), "a")]}).encode(), ALL)
    assert (keys.ignored, usable(keys)) == (1, {"a": {"ES256"}})
    assert not any(keys.find("bad", algorithm) for algorithm in ALGORITHMS)


def test_a_known_key_wins_over_another_with_the_same_kid() -> None:
    before = keys_of(jwk(rsa_key(0)))
    for second in (jwk(rsa_key(1)), jwk(rsa_key(1), alg="PS256")):
        for pair in ((jwk(rsa_key(0)), second), (second, jwk(rsa_key(0)))):
            keys = keys_of(*pair, before=before)
            assert (keys.content, keys.ignored) == (before.content, 1)
    # A new key of an old name is a new key; so is one that was known by another name.
    assert keys_of(jwk(rsa_key(1)), before=before).find("k1", "RS256") is not None
    with pytest.raises(KeySetInvalid):
        keys_of(jwk(rsa_key(0), "k2"), jwk(rsa_key(1), "k2"), before=before)


# ---- Where keys are read from --------------------------------------------------------------------------------------


def discovered(**changes: object) -> Published:
    """An issuer whose keys are found by discovery."""
    found = Published(jwk(rsa_key()), jwks_url=None)
    document = {"issuer": ISSUER, "jwks_uri": ISSUER + KEYS, "token_endpoint": "x", **changes}
    found.documents[DISCOVERY] = json.dumps(document).encode()
    return found


def test_keys_are_found_by_discovery_also_of_an_issuer_that_ends_in_a_slash() -> None:
    keys = discovered()
    assert keys.read()
    assert keys.asked == [DISCOVERY, KEYS]
    keys = Published(jwk(rsa_key()), jwks_url=None, issuer_url=f"{ISSUER}/")
    keys.documents[DISCOVERY] = json.dumps({"issuer": f"{ISSUER}/", "jwks_uri": ISSUER + KEYS}).encode()
    assert keys.read()


ASTRAY: list[dict[str, object]] = [
    {"issuer": "https://evil.example"},
    {"issuer": None},
    {"jwks_uri": None},
    {"jwks_uri": "http://192.0.2.1/keys"},
    # Only a local issuer leads to local addresses.
    {"jwks_uri": "http://127.0.0.1/keys"},
    {"jwks_uri": "http://localhost/keys"},
    {"jwks_uri": "file:///etc/passwd"},
    {"jwks_uri": "https://user:secret@192.0.2.1/keys"},
    {"jwks_uri": "https:///keys"},
    {"jwks_uri": "/keys"},
    {"jwks_uri": "https://127.0.0.1:99999/keys"},
    {"jwks_uri": "http://[::1/"},
    {"jwks_uri": "http://metadata.example/keys"},
    {"jwks_uri": "https://xn--/keys"},
    {"jwks_uri": ""},
]


@for_each("changes", ASTRAY)
def test_discovery_leads_nowhere_else(changes: dict[str, object]) -> None:
    keys = discovered(**changes)
    assert not keys.read()
    assert (keys.key_set.ready, keys.asked) == (False, [DISCOVERY])


@for_each("document", [b"", b"<html>", b"[]", b"{}", b"[" * 100_000])
def test_a_malformed_discovery_document_gives_no_keys(document: bytes) -> None:
    keys = discovered()
    keys.documents[DISCOVERY] = document
    assert not keys.read()


@for_each(
    ("url", "good"),
    [
        ("http://localhost/keys", True),
        ("http://127.8.8.8:1/keys", True),
        ("http://[::1]:8080/keys", True),
        ("https://idp.example/keys", True),
        ("http://10.0.0.1/keys", False),
        ("http://localhost.example/keys", False),
        ("http://0.0.0.0/keys", False),
        ("ftp://localhost/keys", False),
    ],
)
def test_plain_http_is_for_loopback_only(url: str, *, good: bool) -> None:
    keys = Published(jwk(rsa_key()), jwks_url=url)
    assert keys.read() is good
    assert len(keys.asked) == good


# ---- Rotation ------------------------------------------------------------------------------------------------------


def running(keys: Published, test: Coroutine[Any, Any, None]) -> None:
    """Run a test while keys are read in the background."""

    async def both() -> None:
        reading = asyncio.ensure_future(keys.key_set.run())
        try:
            async with asyncio.timeout(10):
                await test
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    run(both())


async def settled(keys: Published, count: int) -> None:
    for _ in range(count):
        await keys.results.get()


def test_a_key_that_was_withdrawn_is_good_for_nothing_and_the_order_is_no_change() -> None:
    keys = published(jwk(rsa_key()), jwk(rsa_key(1), "k2"))
    assert keys.publish(jwk(rsa_key(1), "k2"), jwk(rsa_key()))
    assert keys.key_set.version == 1
    assert keys.publish(jwk(rsa_key(1), "k2"))
    assert (keys.key_set.version, keys.key_set.find("k1", "RS256")) == (2, None)


@for_each(("written", "pause"), [({}, 10.0), ({"keys_on_demand": "30s"}, 30.0)])
def test_a_storm_of_unknown_keys_causes_one_reading_in_ten_seconds_or_as_the_file_says(
    written: dict[str, str], pause: float
) -> None:
    keys = Published(jwk(rsa_key()), bounds=Verification.model_validate(written).as_settings())
    who = authenticator(keys.key_set)

    async def refused(*names: str) -> int:
        """Return how often the keys were read until now."""
        storm = [who.authenticate(bearer(token(header={"kid": name})), lambda: NOW) for name in names]
        answers = await asyncio.gather(*storm, return_exceptions=True)
        assert {type(answer) for answer in answers} == {AuthInvalid}
        return len(keys.asked)

    async def test() -> None:
        await keys.key_set.settled()
        many = [f"x{number}" for number in range(200)]
        assert await refused(*many) == await refused(*many) == 2
        keys.now += pause - 0.1
        assert await refused("y") == 2
        keys.now += 0.2
        assert await refused("z") == 3

    running(keys, test())


def test_while_an_issuer_hangs_known_keys_never_wait_and_others_no_longer_than_they_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jwks, "PATIENCE", 0.05)
    keys = Published(jwk(rsa_key()))
    who = authenticator(keys.key_set)

    async def test() -> None:
        await keys.key_set.settled()
        keys.open.clear()
        keys.knocked.clear()
        unknown = bearer(token(header={"kid": "k2"}))
        waiting = asyncio.ensure_future(who.authenticate(unknown, lambda: NOW))
        await keys.knocked.wait()
        # A coroutine that does not suspend ends with its first step.
        assert await asyncio.wait_for(who.authenticate(bearer(token()), lambda: NOW), 0.01) is not None
        cancelled = asyncio.ensure_future(keys.key_set.wait_for("k3"))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(AuthInvalid, match="names no key"):
            await waiting
        keys.now += 0.05
        assert not await keys.key_set.wait_for("k4")
        keys.open.set()

    running(keys, test())


def test_a_token_waits_for_keys_once_however_often_they_may_be_read() -> None:
    keys = Published(jwk(rsa_key()), bounds=Verification.model_validate({"keys_on_demand": "1ms"}).as_settings())
    who = authenticator(keys.key_set)

    async def test() -> None:
        await keys.key_set.settled()
        with pytest.raises(AuthInvalid, match="names no key"):
            await who.authenticate(bearer(token(header={"kid": "nobody"})), lambda: NOW)
        assert len(keys.asked) == 2

    running(keys, test())


# ---- Issuers that fail -----------------------------------------------------------------------------------------------


def test_keys_that_could_not_be_read_for_a_day_are_given_up(caplog: pytest.LogCaptureFixture) -> None:
    for written, lasts in ({}, 24 * 3600.0), ({"keys_kept": "1m"}, 60.0):
        keys = published(bounds=Verification.model_validate(written).as_settings())
        who = authenticator(keys.key_set)
        keys.documents.clear()
        keys.now += lasts
        assert not keys.read()
        assert identify(who, bearer(token())) is not None
        keys.now += 1
        assert not keys.read()
        with pytest.raises(AuthUnavailable):
            identify(who, bearer(token()))
        assert "keys dropped" in caplog.text
        assert keys.publish(jwk(rsa_key()))
        assert identify(who, bearer(token())) is not None


def test_a_key_set_is_as_long_as_the_file_says_and_has_as_many_keys() -> None:
    two = (jwk(ec_key()), jwk(ec_key(), "k2"))
    size = len(key_set_document(*two))
    for written, good in (
        ({"keys_size": str(size)}, True),
        ({"keys_size": str(size - 1)}, False),
        ({"keys_count": "2"}, True),
        ({"keys_count": "1"}, False),
    ):
        assert Published(*two, bounds=Verification.model_validate(written).as_settings()).read() is good
    assert keys_of(*(jwk(ec_key(), f"k{number}") for number in range(100))).ignored == 0


def test_a_compressed_answer_is_not_read() -> None:
    keys = published()
    keys.headers["Content-Encoding"] = "gzip"
    assert not keys.read()
    assert keys.key_set.ready


def test_an_issuer_that_never_ends_its_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "DEADLINE", 0.05)
    keys = Published(jwk(rsa_key()))
    keys.open.clear()
    assert not keys.read()


def test_ignored_keys_are_told_to_the_operator_and_nothing_of_the_issuers_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "gateway")
    assert published(jwk(rsa_key()), {"kty": "oct", "k": "AAAA"})
    assert "1 keys of its key set are unusable" in caplog.text
    keys = Published()
    keys.documents[KEYS] = b"very secret"
    assert not keys.read()
    assert "secret" not in caplog.text


def test_keys_are_read_every_five_minutes_and_sooner_after_failures() -> None:
    assert [pause_after(failures, 0.0, 300.0) for failures in range(8)] == [300, 1, 2, 4, 8, 16, 30, 30]
    assert pause_after(0, 1.0, 300.0) == 225
    assert pause_after(10**6, 0.0, 300.0) == 30
    keys = Published(jwk(rsa_key()), bounds=Verification.model_validate({"keys_every": "10ms"}).as_settings())
    running(keys, settled(keys, 3))
    keys.documents.clear()
    # Not after a second: nothing waits longer for failures than for successes.
    running(keys, asyncio.wait_for(settled(keys, 3), 0.9))
