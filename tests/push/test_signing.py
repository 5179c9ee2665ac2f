"""How notifications are signed."""

import hashlib
import json
from collections.abc import AsyncIterator

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.identity.jwk import parse_keys
from gateway.push.signing import LIFE, Signer
from gateway.tasks.memory import MemoryStore
from gateway.tasks.store import Note, Store, StoreBroken

pytestmark = pytest.mark.anyio

GATEWAY, WEBHOOK = "https://gateway.example", "https://hooks.example"
NOW = 1_800_000_000.0


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made: Store = MemoryStore()
    await made.open()
    yield made
    await made.aclose()


def signer(store: Store) -> Signer:
    return Signer(store, GATEWAY, wall=lambda: NOW)


async def test_a_signature_is_for_one_body_one_webhook_and_five_minutes(store: Store) -> None:
    made = signer(store)
    token = await made.sign(b"{}", audience=WEBHOOK, task_id="task-7", id="1")
    (written,) = (await made.jwks())["keys"]
    header = jwt.get_unverified_header(token)
    assert header == {"alg": "ES256", "typ": "JWT", "kid": written["kid"]}
    claims = jwt.decode(token, jwt.PyJWK(written), ["ES256"], audience=WEBHOOK, issuer=GATEWAY,
                        options={"verify_exp": False, "verify_iat": False})  # fmt: skip
    assert claims == {
        "iss": GATEWAY,
        "aud": WEBHOOK,
        "iat": NOW,
        "exp": NOW + LIFE,
        "jti": "1",
        "task_id": "task-7",
        "request_body_sha256": hashlib.sha256(b"{}").hexdigest(),
    }


async def test_the_key_set_has_nothing_private_and_is_one_that_verifiers_take(store: Store) -> None:
    written = await signer(store).jwks()
    (key,) = written["keys"]
    assert set(key) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert (key["kty"], key["crv"], key["alg"], key["use"]) == ("EC", "P-256", "ES256", "sig")
    keys = parse_keys(json.dumps(written).encode(), frozenset({"ES256"}))
    assert keys.find(key["kid"], "ES256") is not None


async def test_every_gateway_of_a_store_has_the_same_key(store: Store) -> None:
    first, other = signer(store), signer(store)
    await first.open()
    assert await first.jwks() == await other.jwks()
    before = await first.jwks()
    before["keys"][0]["kid"] = "changed"
    assert await first.jwks() == await other.jwks()


@pytest.mark.parametrize("kept", [b"", b"no key"])
async def test_a_store_that_keeps_no_key_is_broken(store: Store, kept: bytes) -> None:
    store.keep(Note("secret", "push-signing", kept))
    with pytest.raises(StoreBroken, match="no key"):
        await signer(store).open()


async def test_a_key_of_another_sort_is_not_signed_with(store: Store) -> None:
    other = generate_private_key(SECP384R1()).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    store.keep(Note("secret", "push-signing", other))
    with pytest.raises(StoreBroken, match="P-256"):
        await signer(store).sign(b"", audience=WEBHOOK, task_id="t", id="1")
