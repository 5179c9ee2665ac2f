import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448
from jwt.algorithms import ECAlgorithm, RSAAlgorithm, get_default_algorithms

from gateway.config.model import ALGORITHMS
from gateway.identity.jwk import KeySetInvalid, parse_keys
from tests.identity.issuance import ec_key, ed_key, jwk, key_set_document, keys_of, private_for, rsa_key

ALL = frozenset(ALGORITHMS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_verifies_what_its_other_half_signed_and_nothing_else(algorithm: str) -> None:
    private = private_for(algorithm)
    key = keys_of(jwk(private)).find("k1", algorithm)
    assert key is not None
    signature = get_default_algorithms()[algorithm].sign(b"said", private)
    assert key.verifies(algorithm, b"said", signature)
    assert not key.verifies(algorithm, b"said otherwise", signature)
    for forged in (b"", bytes(len(signature)), signature[:-1], signature + b"\0", b"\xff" * len(signature)):
        assert not key.verifies(algorithm, b"said", forged)


def test_ed448_is_eddsa_too() -> None:
    private = ed448.Ed448PrivateKey.generate()
    key = keys_of(jwk(private)).find("k1", "EdDSA")
    assert key is not None
    assert key.verifies("EdDSA", b"said", private.sign(b"said"))


def test_a_key_fits_the_algorithms_of_its_type_only() -> None:
    keys = keys_of(jwk(rsa_key(), "r"), jwk(ec_key(), "e"), jwk(ed_key(), "d"))
    fitting = {kid: {name for name in ALGORITHMS if keys.find(kid, name)} for kid in "red"}
    assert fitting == {
        "r": {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
        "e": {"ES256"},
        "d": {"EdDSA"},
    }
    assert keys.find("r", "none") is None
    assert keys.find("r", "HS256") is None


def test_a_key_that_is_made_for_one_algorithm_serves_no_other() -> None:
    keys = keys_of(jwk(rsa_key(), alg="PS256"))
    assert keys.find("k1", "PS256") is not None
    assert keys.find("k1", "RS256") is None
    key = keys.find("k1", "PS256")
    assert key is not None
    assert not key.verifies("RS256", b"said", get_default_algorithms()["RS256"].sign(b"said", rsa_key()))


def test_a_key_serves_the_algorithms_of_its_issuer_only() -> None:
    keys = keys_of(jwk(rsa_key()), algorithms=("RS256",))
    assert keys.find("k1", "RS256") is not None
    assert keys.find("k1", "PS256") is None


def test_a_token_without_kid_means_the_only_key_that_fits() -> None:
    assert keys_of(jwk(rsa_key()), jwk(ec_key(), None)).find(None, "RS256") is not None
    assert keys_of(jwk(rsa_key(0)), jwk(rsa_key(1), "k2")).find(None, "RS256") is None
    assert keys_of(jwk(rsa_key(0), None), jwk(rsa_key(1), None)).find(None, "RS256") is None


def test_newer_keys_may_help_where_a_kid_is_unknown() -> None:
    keys = keys_of(jwk(rsa_key()))
    assert (keys.knows("k1"), keys.knows("k2"), keys.knows(None)) == (True, False, True)


def bad_keys() -> dict[str, object]:
    good = jwk(rsa_key(), "bad")
    point = jwk(ec_key(), "bad")
    return {
        "symmetric": {"kty": "oct", "k": "c2VjcmV0", "kid": "bad", "alg": "HS256"},
        "private": {**RSAAlgorithm.to_jwk(rsa_key(), as_dict=True), "key_ops": ["verify"], "kid": "bad"},
        "RSA of 1024 bits": jwk(rsa_key(0, 1024), "bad"),
        "RSA that takes long": {**good, "n": "_" * 3000},
        "long exponent": {**good, "e": "_" * 20},
        "even modulus": {**good, "n": "_" * 341 + "g"},
        "even exponent": {**good, "e": "Ag"},
        "no modulus": {**good, "n": ""},
        "padded modulus": {**good, "n": f"{good['n']}="},
        "modulus is a number": {**good, "n": 65537},
        "modulus is no base64": {**good, "n": "é" * 400},
        "for encryption": {**good, "use": "enc"},
        "use is a list": {**good, "use": ["sig"]},
        "not to verify": {**good, "key_ops": ["encrypt"]},
        "key_ops is a string": {**good, "key_ops": "verify"},
        "alg of another type": {**good, "alg": "ES256"},
        "alg is none": {**good, "alg": "none"},
        "alg is symmetric": {**good, "alg": "HS256"},
        "alg is a number": {**good, "alg": 256},
        "no kty": {name: value for name, value in good.items() if name != "kty"},
        "unknown kty": {**good, "kty": "rsa"},
        "kid is a number": {**good, "kid": 1},
        "kid is long": {**good, "kid": "k" * 257},
        "point off the curve": {**point, "y": point["x"]},
        "short point": {**point, "x": "AAAA"},
        "another curve": {**point, "crv": "P-384"},
        "unwanted curve": {**json.loads(ECAlgorithm.to_jwk(ec_key(0, ec.SECP256K1))), "kid": "bad"},
        "short Edwards point": {**jwk(ed_key(), "bad"), "x": "AAAA"},
        "unwanted Edwards curve": {**jwk(ed_key(), "bad"), "crv": "X25519"},
        "null": None,
        "a list": [],
        "a string": "key",
    }


@pytest.mark.parametrize("name", bad_keys())
def test_a_bad_key_is_left_out_and_the_good_ones_stay(name: str) -> None:
    bad = bad_keys()[name]
    keys = parse_keys(json.dumps({"keys": [bad, jwk(ec_key(1), "good")]}).encode(), ALL)
    assert keys.ignored == 1
    assert keys.find("good", "ES256") is not None
    assert not any(keys.find("bad", algorithm) for algorithm in ALGORITHMS)


def test_two_keys_of_one_name_are_both_left_out() -> None:
    keys = keys_of(jwk(rsa_key(0)), jwk(rsa_key(1)), jwk(rsa_key(1), "k2"))
    assert keys.find("k1", "RS256") is None
    assert keys.find("k2", "RS256") is not None
    assert keys.ignored == 2


def test_of_two_keys_of_one_name_the_one_that_was_known_stays() -> None:
    before = keys_of(jwk(rsa_key(0)))
    for pair in ((jwk(rsa_key(0)), jwk(rsa_key(1))), (jwk(rsa_key(1)), jwk(rsa_key(0)))):
        keys = parse_keys(key_set_document(*pair), ALL, before=before)
        assert keys.content == before.content
        assert keys.ignored == 1
    # A new key of an old name is a new key; so is one that was known by another name.
    assert parse_keys(key_set_document(jwk(rsa_key(1))), ALL, before=before).find("k1", "RS256") is not None
    with pytest.raises(KeySetInvalid):
        parse_keys(key_set_document(jwk(rsa_key(0), "k2"), jwk(rsa_key(1), "k2")), ALL, before=before)


def test_a_second_key_takes_no_algorithm_from_the_first() -> None:
    before = keys_of(jwk(rsa_key(0)))
    both = key_set_document(jwk(rsa_key(0)), jwk(rsa_key(1), alg="PS256"))
    keys = parse_keys(both, ALL, before=before)
    assert keys.content == before.content


def test_one_key_written_twice_is_one_key() -> None:
    keys = keys_of(jwk(rsa_key(), alg="RS256"), jwk(rsa_key(), alg="PS256"))
    assert keys.find("k1", "RS256") is not None
    assert keys.find("k1", "PS256") is not None


def test_keys_of_two_types_may_share_a_name() -> None:
    keys = keys_of(jwk(rsa_key()), jwk(ec_key()))
    assert keys.find("k1", "RS256") is not None
    assert keys.find("k1", "ES256") is not None


def test_the_order_of_the_keys_is_no_change() -> None:
    one, two = jwk(rsa_key(0), "a"), jwk(rsa_key(1), "b")
    assert keys_of(one, two).content == keys_of(two, one).content
    assert keys_of(one, two).content != keys_of(one).content


DOCUMENTS = {
    "empty": b"",
    "HTML": b"<!doctype html><title>Sign in</title>",
    "a list": b"[]",
    "no keys": b"{}",
    "keys is null": b'{"keys":null}',
    "keys is an object": b'{"keys":{}}',
    "an empty set": b'{"keys":[]}',
    "symmetric keys alone": b'{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}',
    "cut short": key_set_document(jwk(ec_key()))[:-5],
    "not UTF-8": b'{"keys":["\xff"]}',
    "deep": b'{"keys":' + b"[" * 100_000,
    "20000 keys": b'{"keys":[' + b",".join([b'{"kty":"oct"}'] * 20_000) + b"]}",
    "101 keys": key_set_document(*(jwk(ec_key(), f"k{number}") for number in range(101))),
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_what_is_no_key_set_of_use_is_refused_whole(document: bytes) -> None:
    with pytest.raises(KeySetInvalid):
        parse_keys(document, ALL)


def test_a_set_may_have_as_many_keys_as_is_said() -> None:
    two = key_set_document(jwk(ec_key()), jwk(ec_key(), "k2"))
    assert parse_keys(two, ALL, most=2).ignored == 0
    with pytest.raises(KeySetInvalid):
        parse_keys(two, ALL, most=1)


def test_a_hundred_keys_are_not_too_many() -> None:
    assert parse_keys(key_set_document(*(jwk(ec_key(), f"k{number}") for number in range(100))), ALL).ignored == 0
