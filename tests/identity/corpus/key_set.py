"""Key sets that are no good (K5)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.identity.corpus.genuine import EVIL, published
from tests.identity.issuance import Private, ec_key, jwk, key_set_document, rsa_key, segment


def poisoned() -> dict[str, bytes]:
    """Key sets that must change nothing for tokens of `k1`, and let no token of the attacker's keys in.

    Those of which `k1` is a member have one bad key beside it; all others are refused whole.
    """
    own = published()
    evil = jwk(rsa_key(EVIL), "evil")
    point = jwk(ec_key(EVIL), "evil")
    whole = key_set_document(*own)
    beside: dict[str, object] = {
        "a secret": {"kty": "oct", "kid": "evil", "k": "c2VjcmV0", "alg": "HS256"},
        "a secret called k1": {"kty": "oct", "kid": "k1", "k": "c2VjcmV0"},
        "a secret that says RS256": {"kty": "oct", "kid": "evil", "k": "c2VjcmV0", "alg": "RS256"},
        "another k1": {**evil, "kid": "k1"},
        "k1 twice, once for RS256": {**evil, "kid": "k1", "alg": "RS256"},
        "for encryption": {**evil, "use": "enc"},
        "not to verify": {**evil, "key_ops": ["encrypt", "sign"]},
        "no operation at all": {**evil, "key_ops": []},
        "alg of another type": {**evil, "alg": "ES256"},
        "alg none": {**evil, "alg": "none"},
        "alg HS256": {**evil, "alg": "HS256"},
        "a private key": {**evil, "d": "AQAB"},
        "RSA of 512 bits": {**evil, "n": _modulus(512)},
        "RSA of 1024 bits": {**evil, "n": _modulus(1024)},
        "RSA of 2047 bits": {**evil, "n": _modulus(2047)},
        "RSA of 16384 bits": {**evil, "n": _modulus(16384)},
        "an even exponent": {**evil, "e": "Ag"},
        "exponent 1": {**evil, "e": "AQ"},
        "exponent 0": {**evil, "e": "AA"},
        "a long exponent": {**evil, "e": "_" * 40},
        "an even modulus": {**evil, "n": "_" * 341 + "g"},
        "no modulus": {**evil, "n": ""},
        "a point off the curve": {**point, "y": point["x"]},
        "the point at infinity": {**point, "x": "A" * 43, "y": "A" * 43},
        "coordinates beyond the field": {**point, "x": "_" * 42 + "8", "y": "_" * 42 + "8"},
        "a short point": {**point, "x": "AAAA"},
        "P-256 by the name of P-384": {**point, "crv": "P-384"},
        "secp256k1": {**point, "crv": "secp256k1"},
        "X25519": {"kty": "OKP", "crv": "X25519", "kid": "evil", "x": "A" * 43},
        "an unknown type": {**evil, "kty": "AKP"},
        "kid is a number": {**evil, "kid": 1},
        "a long kid": {**evil, "kid": "k" * 300},
        "a string": "k1",
        "null": None,
        "a list": [evil],
        "deep": json.loads("[" * 100 + "]" * 100),
    }
    documents = {f"beside: {name}": key_set_document(*own, key) for name, key in _members(beside)}
    secret = {"kty": "oct", "kid": "k1", "k": "c2VjcmV0"}
    documents |= {
        "whole: empty": b"",
        "whole: HTML": b"<!doctype html><title>Sign in</title>",
        "whole: text": b"service unavailable",
        "whole: cut": whole[: len(whole) // 2],
        "whole: cut by a byte": whole[:-1],
        "whole: with a BOM": b"\xef\xbb\xbf" + whole,
        "whole: UTF-16": whole.decode().encode("utf-16"),
        "whole: no UTF-8": whole[:-3] + b'\xff"]}',
        "whole: twice": whole + whole,
        "whole: null": b"null",
        "whole: a list": json.dumps(own).encode(),
        "whole: no keys": b"{}",
        "whole: keys is null": b'{"keys":null}',
        "whole: keys is an object": json.dumps({"keys": {"k1": own[0]}}).encode(),
        "whole: none left": b'{"keys":[]}',
        "whole: secrets alone": key_set_document(secret),
        "whole: weak keys alone": key_set_document({**evil, "n": _modulus(1024)}),
        "whole: 101 keys": key_set_document(*({**point, "kid": f"e{number}"} for number in range(101))),
        "whole: 20000 keys": b'{"keys":[' + b",".join([b'{"kty":"oct","k":"AA"}'] * 20_000) + b"]}",
        "whole: two megabytes": b'{"keys":[' + b" " * 2_000_000 + b"]}",
        "whole: deep": b'{"keys":' + b"[" * 100_000,
        "whole: PEM": private_pem(),
        "whole: one key without a set": json.dumps(own[0]).encode(),
    }
    return documents


def _members(beside: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    yield from beside.items()


def _modulus(bits: int) -> str:
    return segment((2**bits - 2 ** (bits // 2) + 1).to_bytes((bits + 7) // 8)).decode()


def private_pem() -> bytes:
    """A private key where a key set should be: it must be in no message."""
    key: Private = rsa_key(EVIL)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
