"""Tokens: which are good, which are refused, and how long that is remembered (safety K1 to K4, K7, T13)."""

import base64
import hmac
import json
import math
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.a2a.fault import AuthExpired, AuthInvalid, AuthUnavailable, Fault, RateLimited
from gateway.a2a.paths import NAME
from gateway.config.model import ALGORITHMS, Auth
from gateway.identity import settings as identity
from gateway.identity.authenticator import Authenticator
from gateway.principal import Principal
from tests.identity.issuance import (
    BOUNDS,
    ISSUER,
    NOW,
    Private,
    Published,
    auth,
    authenticator,
    bearer,
    claims,
    compact,
    identify,
    jwk,
    key_set_document,
    private_for,
    published,
    rsa_key,
    run,
    segment,
    token,
    unchecked_auth,
)
from tests.table import for_each

FAR = NOW + 10**6


def proven(shown: bytes, now: float = NOW, **issuer: Any) -> Principal:
    principal = identify(authenticator(settings=auth(**issuer)), bearer(shown), now)
    assert principal is not None
    return principal


def test_a_good_token_says_who_calls() -> None:
    principal = proven(token(groups=["a", "b"]))
    assert (principal.tenant, principal.subject, principal.method, principal.issuer) == ("acme", "ada", "jwt", "corp")
    assert principal.claims == claims(groups=["a", "b"])
    assert principal.expires == NOW + 3600 + 30
    assert (principal.key, principal.narrowed) == (None, None)


def verifies(private: Private, algorithm: str) -> None:
    who = authenticator(published(jwk(private)).key_set, auth(algorithms=[algorithm]))
    good = compact({"alg": algorithm, "kid": "k1"}, claims(), private)
    assert identify(who, bearer(good)) is not None
    signed, _, text = good.rpartition(b".")
    signature = base64.urlsafe_b64decode(text + b"==")
    for forged in (bytes(64), bytes(len(signature)), signature[:-1], signature + b"\0", b"\xff" * len(signature)):
        with pytest.raises(AuthInvalid, match="signature"):
            identify(who, bearer(signed + b"." + segment(forged)))


@for_each("algorithm", ALGORITHMS)
def test_every_algorithm_of_the_issuer_is_good(algorithm: str) -> None:
    verifies(private_for(algorithm), algorithm)


def test_ed448_is_eddsa_too() -> None:
    verifies(Ed448PrivateKey.generate(), "EdDSA")


@for_each("audience", ["agents", ["x", "agents"], ["agents"]])
def test_the_audience_is_one_string_or_a_list_that_names_us(audience: object) -> None:
    assert proven(token(aud=audience)).tenant == "acme"


HOSTILE_KEY = jwk(rsa_key(1), "evil")


@for_each(
    "header",
    [
        {"jwk": HOSTILE_KEY},
        {"jku": "http://127.0.0.1:1/"},
        {"x5u": "http://127.0.0.1:1/"},
        {"x5c": ["MIIB"]},
    ],
)
def test_keys_that_a_token_brings_along_are_not_looked_at(header: dict[str, object]) -> None:
    assert proven(token(header=header)).tenant == "acme"
    with pytest.raises(AuthInvalid, match="signature"):
        proven(token(rsa_key(1), header=header))


def test_a_public_key_is_no_secret_to_sign_with() -> None:
    document = key_set_document(jwk(rsa_key()))
    signed = segment(b'{"alg":"HS256","kid":"k1"}') + b"." + segment(json.dumps(claims()).encode())
    for secret in (document, str(jwk(rsa_key())["n"]).encode()):
        with pytest.raises(AuthInvalid):
            proven(signed + b"." + segment(hmac.digest(secret, signed, "sha256")))


BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "exp is negative": {"exp": -1},
    "exp in milliseconds": {"exp": FAR * 1000},
    "nbf later": {"nbf": NOW + 31},
    "iat later": {"iat": NOW + 31},
    "another audience": {"aud": "agents-eu"},
    "sub ends a header": {"sub": "ada\r\nX-A2A-Tenant: globex"},
    "no tenant": {"org": ...},
    "tenant is called anonymous": {"org": "anonymous"},
}
"""Beside those of the corpus (`corpus/claim.py`)."""


@for_each("changes", BAD_CLAIMS.values())
def test_a_true_token_that_says_something_odd_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(AuthInvalid) as caught:
        proven(token(**changes))
    assert type(caught.value) is AuthInvalid
    assert len(caught.value.message) < 60


def test_an_expired_token_was_good_once() -> None:
    end = NOW + 3600
    assert proven(token(), end + 29).tenant == "acme"
    with pytest.raises(AuthExpired):
        proven(token(), end + 30)
    with pytest.raises(AuthExpired):
        proven(token(), end, leeway="0s")


def test_the_leeway_is_never_longer_than_30_seconds() -> None:
    with pytest.raises(AuthExpired):
        identify(authenticator(settings=unchecked_auth(leeway=3600.0)), bearer(token()), NOW + 3600 + 30)


def test_clocks_that_differ_a_little_are_forgiven() -> None:
    assert proven(token(nbf=NOW + 29, iat=NOW + 29)).tenant == "acme"


def twins(**second: object) -> identity.AuthSettings:
    both = {name: auth(tenant=name, tenant_claim=None).issuers["corp"] for name in ("one", "two")}
    both["two"] = both["two"].model_copy(update=second)
    return Auth.model_construct(issuers=both, api_keys={}).as_settings()


def test_two_entries_of_one_issuer_are_told_apart_by_audience_or_not_at_all() -> None:
    sets = {"one": published().key_set, "two": published().key_set}
    apart = Authenticator(twins(audience=("agents-eu",)), anonymous=False, bounds=BOUNDS, key_sets=sets)
    for audience, tenant in (("agents", "one"), ("agents-eu", "two")):
        principal = identify(apart, bearer(token(aud=audience)))
        assert principal is not None
        assert principal.tenant == tenant
    with pytest.raises(AuthInvalid, match="ambiguous"):
        identify(apart, bearer(token(aud=["agents", "agents-eu"])))
    with pytest.raises(AuthInvalid, match="ambiguous"):
        identify(Authenticator(twins(), anonymous=False, bounds=BOUNDS, key_sets=sets), bearer(token()))


# ---- Keys that are not there ---------------------------------------------------------------------------------------


def down() -> Published:
    keys = Published()
    assert not keys.read()
    return keys


def test_without_keys_a_token_is_neither_good_nor_bad() -> None:
    with pytest.raises(AuthUnavailable) as caught:
        identify(authenticator(down().key_set), bearer(token()))
    assert caught.value.retry_after is not None
    assert caught.value.issuer == "corp"
    assert ISSUER not in caught.value.message


def test_a_token_that_could_never_be_good_is_refused_also_without_keys() -> None:
    for bad in (token(aud="others"), token(header={"alg": "HS256"}), token(iss="x"), b"a.b.c"):
        with pytest.raises(AuthInvalid):
            identify(authenticator(Published().key_set), bearer(bad))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
OFTEN_GOOD = {"iss": ISSUER, "aud": "agents", "exp": NOW + 60, "nbf": NOW, "iat": NOW, "sub": "ada", "org": "acme"}


@settings(deadline=None)  # the first key takes long to make
@given(st.fixed_dictionaries({}, optional={name: st.just(good) | JSON for name, good in OFTEN_GOOD.items()}))
def test_a_valid_token_names_a_tenant_or_is_refused(said: dict[str, object]) -> None:
    with suppress(Fault):
        principal = identify(authenticator(), bearer(compact({"alg": "RS256", "kid": "k1"}, said)))
        assert principal is not None
        assert NAME.fullmatch(principal.tenant)
        assert NOW < principal.expires < math.inf


EXHAUSTED = published()
run(EXHAUSTED.exhaust())
READY = authenticator(EXHAUSTED.key_set)


@settings(deadline=None)  # the first key takes long to make
@given(st.fixed_dictionaries({"alg": st.just("RS256") | JSON}, optional={"kid": st.just("k1") | JSON, "crit": JSON}))
def test_every_header_of_an_unsigned_token_is_a_fault(header: dict[str, object]) -> None:
    signed = segment(json.dumps(header).encode()) + b"." + segment(json.dumps(claims()).encode())
    with suppress(Fault):
        identify(READY, bearer(signed + b"." + segment(b"nothing")))
        raise AssertionError("nobody signed this")


# ---- The cache -----------------------------------------------------------------------------------------------------


def ages(who: Authenticator, shown: bytes, *later: float) -> list[bool]:
    """For each time whether the token is answered from the cache: then the principal is the same object."""
    found = [identify(who, bearer(shown), NOW + after) for after in (0.0, *later)]
    assert all(found)
    return [after is before for before, after in pairwise(found)]


def test_a_good_token_is_verified_once_a_minute_or_as_often_as_the_file_says() -> None:
    assert ages(authenticator(), token(), 59.0, 60.0, 61.0) == [True, False, True]
    assert ages(authenticator(settings=auth(verification={"remember": "2s"})), token(), 1.9, 2.0) == [True, False]
    assert ages(authenticator(settings=auth(verification={"remember": "0s"})), token(), 0.0) == [False]


def test_a_bad_token_is_verified_once_in_five_seconds_or_as_often_as_the_file_says() -> None:
    for written, lasts in ({}, 5.0), ({"remember_bad": "1s"}, 1.0):
        who = authenticator(settings=auth(verification={"failures": "2/h", **written}))
        for later in (0.0, lasts / 2, lasts - 0.1, lasts):
            with pytest.raises(AuthInvalid, match="signature"):
                identify(who, bearer(token(rsa_key(1))), NOW + later)
        # Two verifications failed, so that nothing more is looked at.
        with pytest.raises(RateLimited):
            identify(who, bearer(token(rsa_key(1))), NOW + 2 * lasts)


def test_the_cache_does_not_outlive_the_token() -> None:
    who = authenticator()
    assert ages(who, token(exp=NOW + 5), 34.0) == [True]
    with pytest.raises(AuthExpired):
        identify(who, bearer(token(exp=NOW + 5)), NOW + 35)


def test_the_cache_does_not_outlive_the_configuration() -> None:
    key_set = published().key_set
    assert identify(authenticator(key_set), bearer(token())) is not None
    with pytest.raises(AuthInvalid):
        identify(authenticator(key_set, auth(audience="others")), bearer(token()))


def test_as_many_tokens_are_remembered_as_the_file_says_and_bad_ones_evict_no_good_one() -> None:
    who = authenticator(settings=auth(verification={"entries": 2}))
    shown = [token(jti=str(number)) for number in range(3)]
    first, second, third = (identify(who, bearer(each)) for each in shown)
    for number in range(10):
        with pytest.raises(AuthInvalid):
            identify(who, bearer(b"a.b.%d" % number))
    assert identify(who, bearer(shown[2])) is third
    assert identify(who, bearer(shown[1])) is second
    assert identify(who, bearer(shown[0])) is not first


@for_each("step", [60.0, -7200.0, 7200.0])
def test_a_clock_that_is_set_costs_no_session(step: float) -> None:
    assert ages(authenticator(), token(exp=NOW + 8000), step, step + 1)[1]


def test_a_token_that_was_too_early_is_good_in_time() -> None:
    who = authenticator()
    shown = bearer(token(nbf=NOW + 40))
    with pytest.raises(AuthInvalid):
        identify(who, shown)
    assert identify(who, shown, NOW + 10) is not None


def test_a_token_that_a_new_key_makes_good_is_good_at_once() -> None:
    keys = published(jwk(rsa_key(1)))
    who = authenticator(keys.key_set)
    with pytest.raises(AuthInvalid):
        identify(who, bearer(token()))
    keys.publish(jwk(rsa_key()))
    assert identify(who, bearer(token())) is not None
