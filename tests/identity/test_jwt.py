import hmac
import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.a2a.fault import AuthExpired, AuthInvalid, AuthUnavailable, Fault
from gateway.config.model import ALGORITHMS, Auth
from gateway.config.values import NAME
from gateway.identity.authenticator import Identity
from gateway.identity.pending import Pending
from gateway.principal import Principal
from tests.identity.issuance import (
    ISSUER,
    NOW,
    auth,
    bearer,
    claims,
    compact,
    ec_key,
    identity,
    jwk,
    key_set_document,
    keys_of,
    private_for,
    read_key_set,
    rsa_key,
    segment,
    token,
    unchecked_auth,
    unhurried,
    unread_key_set,
)

FAR = NOW + 10**6


def identify(shown: bytes, now: float = NOW, **issuer: Any) -> Principal:
    principal = identity(settings=auth(**issuer)).identify(bearer(shown), now)
    assert principal is not None
    return principal


def test_a_good_token_says_who_calls() -> None:
    principal = identify(token(groups=["a", "b"]))
    assert (principal.tenant, principal.subject, principal.method, principal.issuer) == ("acme", "ada", "jwt", "corp")
    assert principal.claims == claims(groups=["a", "b"])
    assert principal.expires == NOW + 3600 + 30
    assert (principal.key, principal.narrowed) == (None, None)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_of_the_issuer_is_good(algorithm: str) -> None:
    key_set = read_key_set(keys_of(jwk(private_for(algorithm))))
    settings = auth(algorithms=[algorithm])
    good = compact({"alg": algorithm, "kid": "k1"}, claims(), private_for(algorithm))
    assert identity(key_set, settings).identify(bearer(good), NOW) is not None
    tampered = good[: good.rindex(b".")] + b"." + segment(b"\0" * 64)
    with pytest.raises(AuthInvalid, match="signature"):
        identity(key_set, settings).identify(bearer(tampered), NOW)


@pytest.mark.parametrize("audience", ["agents", ["x", "agents"], ["agents"]])
def test_the_audience_is_one_string_or_a_list_that_names_us(audience: object) -> None:
    assert identify(token(aud=audience)).tenant == "acme"


def test_a_token_without_kid_means_the_only_key() -> None:
    assert identify(compact({"alg": "RS256"}, claims())).tenant == "acme"


def test_a_fixed_tenant_needs_no_claim() -> None:
    assert identify(token(org=...), tenant="partners", tenant_claim=None).tenant == "partners"


def test_a_subject_is_not_required() -> None:
    assert identify(token(sub=...)).subject == ""


HOSTILE_KEY = jwk(rsa_key(1), "evil")

BAD_HEADERS = {
    "alg none": {"alg": "none"},
    "alg None": {"alg": "None"},
    "alg HS256": {"alg": "HS256"},
    "alg rs256": {"alg": "rs256"},
    "alg not of the issuer": {"alg": "RS384"},
    "alg of another family": {"alg": "ES256"},
    "kid with a path": {"kid": "../../dev/null"},
    "kid with SQL": {"kid": "k1' OR '1'='1"},
}


@pytest.mark.parametrize("header", BAD_HEADERS.values(), ids=BAD_HEADERS.keys())
def test_the_header_decides_nothing(header: dict[str, object]) -> None:
    key_set = read_key_set()
    with pytest.raises(Pending):  # takes away the one reading that an unknown kid may cause
        identity(key_set).identify(bearer(token(header={"kid": "nobody"})), NOW)
    key_set._settle()
    key = None if header.get("alg") != "ES256" else ec_key()
    with pytest.raises(AuthInvalid):
        identity(key_set).identify(bearer(token(key, header=header)), NOW)


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": HOSTILE_KEY},
        {"jku": "http://127.0.0.1:1/"},
        {"x5u": "http://127.0.0.1:1/"},
        {"x5c": ["MIIB"]},
    ],
    ids=["jwk", "jku", "x5u", "x5c"],
)
def test_keys_that_a_token_brings_along_are_not_looked_at(header: dict[str, object]) -> None:
    assert identify(token(header=header)).tenant == "acme"
    with pytest.raises(AuthInvalid, match="signature"):
        identify(token(rsa_key(1), header=header))


def test_a_public_key_is_no_secret_to_sign_with() -> None:
    document = key_set_document(jwk(rsa_key()))
    signed = segment(b'{"alg":"HS256","kid":"k1"}') + b"." + segment(json.dumps(claims()).encode())
    for secret in (document, str(jwk(rsa_key())["n"]).encode()):
        with pytest.raises(AuthInvalid):
            identify(signed + b"." + segment(hmac.digest(secret, signed, "sha256")))


BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "no iss": {"iss": ...},
    "iss with a slash more": {"iss": f"{ISSUER}/"},
    "iss is a prefix": {"iss": ISSUER[:-1]},
    "iss is a list": {"iss": [ISSUER]},
    "iss is an object": {"iss": {}},
    "no aud": {"aud": ...},
    "aud is null": {"aud": None},
    "aud of another": {"aud": "agents-eu"},
    "aud in another case": {"aud": "Agents"},
    "aud is empty": {"aud": []},
    "aud is a list in a list": {"aud": [["agents"]]},
    "aud has a number": {"aud": ["agents", 1]},
    "aud is an object": {"aud": {"agents": True}},
    "no exp": {"exp": ...},
    "exp is null": {"exp": None},
    "exp is a string": {"exp": str(FAR)},
    "exp is true": {"exp": True},
    "exp is a list": {"exp": [FAR]},
    "exp in milliseconds": {"exp": FAR * 1000},
    "exp of 400 digits": {"exp": 10**400},
    "exp of 1e300": {"exp": 1e300},
    "exp is negative": {"exp": -1},
    "nbf is a string": {"nbf": "0"},
    "nbf is null": {"nbf": None},
    "nbf later": {"nbf": NOW + 31},
    "nbf of 400 digits": {"nbf": 10**400},
    "iat is false": {"iat": False},
    "iat later": {"iat": NOW + 31},
    "sub is a number": {"sub": 7},
    "sub is null": {"sub": None},
    "sub ends a header": {"sub": "ada\r\nX-A2A-Tenant: globex"},
    "sub with NUL": {"sub": "\0"},
    "sub that turns text round": {"sub": "\u202eada"},
    "no tenant": {"org": ...},
    "tenant is null": {"org": None},
    "tenant is empty": {"org": ""},
    "tenant is a list": {"org": ["acme"]},
    "tenants": {"org": ["acme", "globex"]},
    "tenant is a number": {"org": 1},
    "tenant is an object": {"org": {"acme": True}},
    "tenant with a space": {"org": "acme "},
    "tenant with a newline": {"org": "acme\n"},
    "tenant is a star": {"org": "*"},
    "tenant with a slash": {"org": "a/b"},
    "tenant is long": {"org": "a" * 65},
    "tenant is not ASCII": {"org": "\u0430cme"},
    "tenant is a dot segment": {"org": ".."},
    "tenant is called anonymous": {"org": "anonymous"},
}


@pytest.mark.parametrize("changes", BAD_CLAIMS.values(), ids=BAD_CLAIMS.keys())
def test_a_true_token_that_says_something_odd_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(AuthInvalid) as caught:
        identify(token(**changes))
    assert type(caught.value) is AuthInvalid
    assert len(caught.value.message) < 60


def test_an_expired_token_was_good_once() -> None:
    end = NOW + 3600
    assert identify(token(), end + 29).tenant == "acme"
    with pytest.raises(AuthExpired):
        identify(token(), end + 30)
    with pytest.raises(AuthExpired):
        identify(token(), end, leeway="0s")


def test_only_true_tokens_are_called_expired() -> None:
    with pytest.raises(AuthInvalid) as caught:
        identify(token(rsa_key(1)), FAR)
    assert not isinstance(caught.value, AuthExpired)


def test_the_leeway_is_never_longer_than_30_seconds() -> None:
    with pytest.raises(AuthExpired):
        identity(settings=unchecked_auth(leeway=3600.0)).identify(bearer(token()), NOW + 3600 + 30)


def test_clocks_that_differ_a_little_are_forgiven() -> None:
    assert identify(token(nbf=NOW + 29, iat=NOW + 29)).tenant == "acme"


def twins(**second: object) -> Auth:
    both = {name: auth(tenant=name, tenant_claim=None).issuers["corp"] for name in ("one", "two")}
    both["two"] = both["two"].model_copy(update=second)
    return Auth.model_construct(issuers=both, api_keys={})


def test_two_entries_of_one_issuer_are_told_apart_by_audience_or_not_at_all() -> None:
    sets = {"one": read_key_set(), "two": read_key_set()}
    apart = Identity(twins(audience=("agents-eu",)), anonymous=False, key_sets=sets, turns=unhurried())
    assert [
        principal.tenant
        for audience in ("agents", "agents-eu")
        if (principal := apart.identify(bearer(token(aud=audience)), NOW))
    ] == ["one", "two"]
    with pytest.raises(AuthInvalid, match="ambiguous"):
        apart.identify(bearer(token(aud=["agents", "agents-eu"])), NOW)
    with pytest.raises(AuthInvalid, match="ambiguous"):
        Identity(twins(), anonymous=False, key_sets=sets, turns=unhurried()).identify(bearer(token()), NOW)


def test_an_issuer_without_a_rule_for_tenants_admits_nobody() -> None:
    with pytest.raises(AuthInvalid):
        identity(settings=unchecked_auth(tenant_claim=None)).identify(bearer(token()), NOW)


# ---- Keys that are not there ---------------------------------------------------------------------------------------


def test_without_keys_a_token_is_neither_good_nor_bad() -> None:
    key_set = unread_key_set()
    key_set._begin_first()
    key_set._settle()
    with pytest.raises(AuthUnavailable) as caught:
        identity(key_set).identify(bearer(token()), NOW)
    assert caught.value.retry_after is not None
    assert caught.value.issuer == "corp"
    assert ISSUER not in caught.value.message


def test_while_the_first_keys_are_read_a_token_waits() -> None:
    with pytest.raises(Pending):
        identity(unread_key_set()).identify(bearer(token()), NOW)


def test_an_unknown_kid_may_wait_for_new_keys_and_a_known_one_never_does() -> None:
    who = identity(read_key_set(keys_of(jwk(rsa_key()), jwk(ec_key(), "e1"))))
    for known in (token(rsa_key(1)), token(header={"kid": "e1"}), compact({"alg": "ES256"}, claims(), ec_key(1))):
        with pytest.raises(AuthInvalid):
            who.identify(bearer(known), NOW)
    with pytest.raises(Pending):
        who.identify(bearer(token(header={"kid": "k2"})), NOW)


def test_a_token_that_could_never_be_good_waits_for_no_keys() -> None:
    for bad in (token(aud="others"), token(header={"alg": "HS256"}), token(iss="x"), b"a.b.c"):
        with pytest.raises(AuthInvalid):
            identity(unread_key_set()).identify(bearer(bad), NOW)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
OFTEN_GOOD = {"iss": ISSUER, "aud": "agents", "exp": NOW + 60, "nbf": NOW, "iat": NOW, "sub": "ada", "org": "acme"}


@settings(deadline=None)  # the first key takes long to make
@given(st.fixed_dictionaries({}, optional={name: st.just(good) | JSON for name, good in OFTEN_GOOD.items()}))
def test_whatever_a_true_token_says_the_tenant_is_a_name_or_it_is_refused(said: dict[str, object]) -> None:
    with suppress(Fault):
        principal = identity().identify(bearer(compact({"alg": "RS256", "kid": "k1"}, said)), NOW)
        assert principal is not None
        assert NAME.fullmatch(principal.tenant)
        assert NOW < principal.expires < math.inf


@settings(deadline=None)  # the first key takes long to make
@given(st.fixed_dictionaries({"alg": st.just("RS256") | JSON}, optional={"kid": st.just("k1") | JSON, "crit": JSON}))
def test_whatever_the_header_says_nothing_but_faults_comes_of_it(header: dict[str, object]) -> None:
    signed = segment(json.dumps(header).encode()) + b"." + segment(json.dumps(claims()).encode())
    with suppress(Fault, Pending):
        identity().identify(bearer(signed + b"." + segment(b"nothing")), NOW)
        raise AssertionError("nobody signed this")
