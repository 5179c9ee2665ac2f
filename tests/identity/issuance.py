"""What an identity provider has: keys, key set documents, and tokens, good ones and any other bytes."""

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm, get_default_algorithms

from gateway.config.model import ALGORITHMS, Auth
from gateway.identity.authenticator import Credentials, Identity
from gateway.identity.jwk import Keys, parse_keys
from gateway.identity.jwks import KeySet
from gateway.identity.turn import Turns

ISSUER = "https://login.example.com"
NOW = 1_800_000_000.0

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey


@cache
def rsa_key(serial: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """One key per serial."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(serial: int = 0, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


@cache
def ed_key(serial: int = 0) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def private_for(algorithm: str) -> Private:
    if algorithm[:2] in {"RS", "PS"}:
        return rsa_key()
    curves: dict[str, type[ec.EllipticCurve]] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
    return ec_key(0, curves[algorithm]) if algorithm in curves else ed_key()


def jwk(key: Private, kid: str | None = "k1", **members: object) -> dict[str, object]:
    """The public half, as a key set has it."""
    public = key.public_key()
    written: dict[str, Any]
    if isinstance(public, rsa.RSAPublicKey):
        written = RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(public, ec.EllipticCurvePublicKey):
        written = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        written = OKPAlgorithm.to_jwk(public, as_dict=True)
    written.pop("key_ops", None)
    return {**written, **({} if kid is None else {"kid": kid}), **members}


def key_set_document(*keys: Mapping[str, object]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def keys_of(*keys: Mapping[str, object], algorithms: tuple[str, ...] = ALGORITHMS) -> Keys:
    return parse_keys(key_set_document(*keys), frozenset(algorithms))


def segment(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def compact(header: bytes | Mapping[str, object], payload: bytes | Mapping[str, object], key: Any = None) -> bytes:
    """A token with exactly this header and payload, truly signed by `key` with the header's algorithm."""
    algorithm = "RS256" if isinstance(header, bytes) else str(header.get("alg"))
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, payload)]
    signed = segment(parts[0]) + b"." + segment(parts[1])
    signer = get_default_algorithms()[algorithm if algorithm in ALGORITHMS else "RS256"]
    return signed + b"." + segment(signer.sign(signed, rsa_key() if key is None else key))


def claims(**changes: object) -> dict[str, object]:
    """What a good token says; a member that is `...` is left out."""
    said = {"iss": ISSUER, "aud": "agents", "exp": NOW + 3600, "sub": "ada", "org": "acme", **changes}
    return {name: value for name, value in said.items() if value is not ...}


def token(key: Any = None, header: Mapping[str, object] | None = None, **changes: Any) -> bytes:
    return compact({"alg": "RS256", "kid": "k1", "typ": "JWT", **(header or {})}, claims(**changes), key)


def unchecked_auth(**issuer: object) -> Auth:
    """A configuration that the file format does not let pass."""
    good = auth().issuers["corp"]
    return Auth.model_construct(issuers={"corp": good.model_copy(update=issuer)}, api_keys={})


def auth(
    api_keys: Mapping[str, object] | None = None, verification: Mapping[str, object] | None = None, **issuer: Any
) -> Auth:
    settings = {"issuer": ISSUER, "audience": "agents", "tenant_claim": "org", **issuer}
    return Auth.model_validate(
        {"issuers": {"corp": settings}, "api_keys": api_keys or {}, "verification": verification or {}}
    )


def read_key_set(keys: Keys | None = None, **settings: Any) -> KeySet:
    """A key set that has read `keys` already; it has no network."""
    key_set = unread_key_set(**settings)
    key_set._begin_first()
    key_set._take(keys_of(jwk(rsa_key())) if keys is None else keys)
    key_set._settle()
    return key_set


def unread_key_set(**settings: Any) -> KeySet:
    asked = {"issuer_url": ISSUER, "jwks_url": f"{ISSUER}/keys", "algorithms": ALGORITHMS, "http": NO_NETWORK}
    return KeySet("corp", **{**asked, **settings})


NO_NETWORK: httpx.AsyncClient = None  # type: ignore[assignment]  # never reached: `run` is not called


def identity(key_set: KeySet | None = None, settings: Auth | None = None, *, anonymous: bool = False) -> Identity:
    used = auth() if settings is None else settings
    return Identity(
        used,
        anonymous=anonymous,
        key_sets={"corp": read_key_set() if key_set is None else key_set} if used.issuers else {},
        turns=unhurried(),
    )


def unhurried() -> Turns:
    """Nobody stands in line, with or without a running loop."""
    return Turns(10**9, lambda _callback: None)


def bearer(credential: bytes) -> Credentials:
    return Credentials(authorization=(b"Bearer " + credential,))


def sha256(credential: bytes) -> str:
    return hashlib.sha256(credential).hexdigest()
