"""Tokens that nobody signed, or not as they say (K1)."""

import hmac
import json

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.identity.corpus.genuine import EVIL, Named, good, published, said, signing_input
from tests.identity.issuance import (
    compact,
    ec_key,
    jwk,
    key_set_document,
    private_for,
    rsa_key,
    segment,
)

P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the curve."""


def unsigned(now: float) -> Named:
    real = good(now).rpartition(b".")[2]
    for word in ("none", "None", "NONE", "nOnE", "none ", " none", "none\0", "", "null", "unsecured"):
        signed = signing_input({"alg": word, "kid": "k1"}, said(now))
        yield f"unsigned: alg {word!r}, nothing signed", signed + b"."
        yield f"unsigned: alg {word!r}, with a signature", signed + b"." + real
    for value in (None, True, 0, [], ["none"], ["RS256"], {"RS256": 1}):
        yield f"unsigned: alg is {value!r}", signing_input({"alg": value, "kid": "k1"}, said(now)) + b"." + real
    yield "unsigned: no alg at all", signing_input({"kid": "k1"}, said(now)) + b"." + real
    yield "unsigned: alg RS256 and no signature", signing_input({"alg": "RS256", "kid": "k1"}, said(now)) + b"."


def confused(now: float) -> Named:
    """Public keys taken for secrets, in each of the shapes that a library could hand to HMAC."""
    public = rsa_key().public_key()
    numbers = public.public_numbers()
    own = jwk(rsa_key(), "k1")
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    secrets: dict[str, bytes] = {
        "PEM": pem,
        "PEM without its last newline": pem.rstrip(b"\n"),
        "PEM in CRLF": pem.replace(b"\n", b"\r\n"),
        "PKCS1 PEM": public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        "DER": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "PKCS1 DER": public.public_bytes(Encoding.DER, PublicFormat.PKCS1),
        "JWK": json.dumps(own).encode(),
        "JWK, short": json.dumps(own, separators=(",", ":"), sort_keys=True).encode(),
        "JWKS": key_set_document(*published()),
        "n": str(own["n"]).encode(),
        "n as bytes": numbers.n.to_bytes(256),
        "kid": b"k1",
        "nothing": b"",
        "EC PEM": ec_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    }
    for name, secret in secrets.items():
        for algorithm, digest in (("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")):
            signed = signing_input({"alg": algorithm, "kid": "k1"}, said(now))
            yield f"confused: {algorithm} by {name}", signed + b"." + segment(hmac.digest(secret, signed, digest))
        # The HMAC under an honest name.
        signed = signing_input({"alg": "RS256", "kid": "k1"}, said(now))
        yield f"confused: RS256 by HMAC of {name}", signed + b"." + segment(hmac.digest(secret, signed, "sha256"))


def foreign(now: float) -> Named:
    """True signatures, by keys or algorithms that are not the issuer's."""
    for algorithm in ("RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"):
        kid = "d1" if algorithm == "EdDSA" else "k1"
        token = compact({"alg": algorithm, "kid": kid}, said(now), private_for(algorithm))
        yield f"foreign: {algorithm} is not the issuer's", token
    for word in ("rs256", "Rs256", "RS256 ", "RSA256", "RS1", "RSA-OAEP", "es256", "ES256K", "HS256", "dir", "RS256\0"):
        yield f"foreign: alg {word!r}", compact({"alg": word, "kid": "k1"}, said(now), rsa_key())
    yield "foreign: another's RSA key", compact({"alg": "RS256", "kid": "k1"}, said(now), rsa_key(EVIL))
    yield "foreign: another's P-256 key", compact({"alg": "ES256", "kid": "e1"}, said(now), ec_key(EVIL))
    yield "foreign: another's RSA key without kid", compact({"alg": "RS256"}, said(now), rsa_key(EVIL))
    yield "foreign: RS256 by the name of the P-256 key", compact({"alg": "RS256", "kid": "e1"}, said(now), rsa_key())
    yield "foreign: ES256 by the name of the RSA key", compact({"alg": "ES256", "kid": "k1"}, said(now), ec_key())
    header, payload, signature = good(now).split(b".")
    other = good(now, sub="eve").split(b".")
    yield "foreign: the signature of another token", b".".join((header, payload, other[2]))
    yield "foreign: the payload of another token", b".".join((header, other[1], signature))
    longer = segment(b'{"alg":"RS256","kid":"k1","typ":"JWT"}')
    yield "foreign: another header", b".".join((longer, payload, signature))


def elliptic(now: float) -> Named:
    signed = signing_input({"alg": "ES256", "kid": "e1"}, said(now))
    der = ec_key().sign(signed, ec.ECDSA(hashes.SHA256()))
    r, s = decode_dss_signature(der)
    raw = {
        "zero": bytes(64),
        "r is 0": bytes(32) + s.to_bytes(32),
        "s is 0": r.to_bytes(32) + bytes(32),
        "r is the order": P256.to_bytes(32) + s.to_bytes(32),
        "s is the order": r.to_bytes(32) + P256.to_bytes(32),
        "both are the order": P256.to_bytes(32) * 2,
        "r above the order": (2**256 - 1).to_bytes(32) + s.to_bytes(32),
        "all ones": b"\xff" * 64,
        "r and s are 1": (1).to_bytes(32) * 2,
        "swapped": s.to_bytes(32) + r.to_bytes(32),
        "r alone": r.to_bytes(32),
        "DER": der,
        "DER, filled up": der.ljust(80, b"\0"),
        "DER of zero": bytes.fromhex("3006020100020100"),
        "one byte short": (r.to_bytes(32) + s.to_bytes(32))[:-1],
        "one byte more": r.to_bytes(32) + s.to_bytes(32) + b"\0",
        "of 384 bits": r.to_bytes(48) + s.to_bytes(48),
        "little-endian": r.to_bytes(32, "little") + s.to_bytes(32, "little"),
        "one bit off": r.to_bytes(32) + (s ^ 1).to_bytes(32),
        "one byte": b"\0",
    }
    for name, signature in raw.items():
        yield f"elliptic: {name}", signed + b"." + segment(signature)
    other = ec_key(EVIL, ec.SECP384R1)
    yield "elliptic: ES256 by a key of P-384", signed + b"." + segment(_raw(other, signed, hashes.SHA256(), 48))
    yield "elliptic: SHA-512 under ES256", signed + b"." + segment(_raw(ec_key(), signed, hashes.SHA512(), 32))


def _raw(key: ec.EllipticCurvePrivateKey, signed: bytes, digest: hashes.HashAlgorithm, size: int) -> bytes:
    r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(digest)))
    return r.to_bytes(size) + s.to_bytes(size)


def rsa(now: float) -> Named:
    signed = signing_input({"alg": "RS256", "kid": "k1"}, said(now))
    key, modulus = rsa_key(), rsa_key().public_key().public_numbers().n
    true = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)
    signatures = {
        "zero": bytes(256),
        "one": (1).to_bytes(256),
        "the modulus": modulus.to_bytes(256),
        "the modulus less one": (modulus - 1).to_bytes(256),
        "plus the modulus": (int.from_bytes(true) + modulus).to_bytes(257),
        "a zero in front": b"\0" + true,
        "a zero behind": true + b"\0",
        "one byte short": true[:-1],
        "one bit off": true[:-1] + bytes((true[-1] ^ 1,)),
        "backwards": true[::-1],
        "PSS under RS256": key.sign(signed, pss, hashes.SHA256()),
        "SHA-512 under RS256": key.sign(signed, padding.PKCS1v15(), hashes.SHA512()),
        "SHA-1 under RS256": key.sign(signed, padding.PKCS1v15(), hashes.SHA1()),
        "of the payload alone": key.sign(signed.partition(b".")[2], padding.PKCS1v15(), hashes.SHA256()),
        "of the decoded text": key.sign(json.dumps(said(now)).encode(), padding.PKCS1v15(), hashes.SHA256()),
        "a thousand bytes": true.ljust(1000, b"\0"),
    }
    for name, signature in signatures.items():
        yield f"rsa: {name}", signed + b"." + segment(signature)
