"""How notifications are signed."""

import hashlib
import json
from collections.abc import AsyncIterator

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.a2a.fault import StateUnavailable
from gateway.identity.jwks import parse_keys
from gateway.push.signing import LIFE, MARGIN, TERM, Signer
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Note, Store, StoreBroken

pytestmark = pytest.mark.anyio

GATEWAY, WEBHOOK = "https://gateway.example", "https://hooks.example"
NOW = 1_800_000_000.0
KEY = f"push-signing-{int(NOW // TERM)}"
ENDS = (NOW // TERM + 1) * TERM
"""When the term ends in which `NOW` lies."""


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made: Store = SqliteStore(None)
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
    await store.keep(Note("secret", KEY, kept))
    with pytest.raises(StoreBroken, match="no key"):
        await signer(store).open()


async def test_a_key_of_another_sort_is_not_signed_with(store: Store) -> None:
    other = generate_private_key(SECP384R1()).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    await store.keep(Note("secret", KEY, other))
    with pytest.raises(StoreBroken, match="P-256"):
        await signer(store).sign(b"", audience=WEBHOOK, task_id="t", id="1")


# ---- Terms -----------------------------------------------------------------------------------------------------------


class Gateway:
    """One of several, with a clock of its own."""

    def __init__(self, store: Store, now: float = NOW) -> None:
        self.now = now
        self.signer = Signer(store, GATEWAY, wall=lambda: self.now)

    async def kid(self) -> str:
        """Of the key that signs."""
        token = await self.signer.sign(b"", audience=WEBHOOK, task_id="t", id="1")
        return str(jwt.get_unverified_header(token)["kid"])

    async def kids(self) -> list[str]:
        """Of the key set."""
        return [str(key["kid"]) for key in (await self.signer.jwks())["keys"]]


class Elastic(SqliteStore):
    """A store whose time is the test's, and that may be gone."""

    def __init__(self) -> None:
        self.now, self.down = NOW, False
        super().__init__(wall=lambda: self.now)

    async def settle(self, note: Note) -> bytes:
        if self.down:
            raise StateUnavailable("gone")
        return await super().settle(note)


async def test_a_key_signs_for_a_term_and_is_known_a_day_before_and_after() -> None:
    store = Elastic()
    gateway = Gateway(store)
    first = await gateway.kid()
    assert await gateway.kids() == [first]
    store.now = gateway.now = ENDS - MARGIN + 1
    _, second = await gateway.kids()
    assert await gateway.kid() == first
    store.now = gateway.now = ENDS
    assert await gateway.kid() == second
    assert await gateway.kids() == [second, first]
    # What was signed a moment before is good for a while.
    store.now = gateway.now = ENDS + LIFE + 1
    assert first in await gateway.kids()
    store.now = gateway.now = ENDS + MARGIN
    assert await gateway.kids() == [second]


async def test_gateways_of_one_store_agree_whenever_they_start_and_whatever_their_clocks_say() -> None:
    store = Elastic()
    early = Gateway(store)
    first = await early.kid()
    store.now = early.now = ENDS + 60
    late, new = Gateway(store, ENDS - 60), Gateway(store, ENDS + 60)
    second = await early.kid()
    assert (await late.kid(), await new.kid()) == (first, second)
    for gateway in (early, late, new):
        assert set(await gateway.kids()) == {first, second}


async def test_a_term_in_which_nothing_was_signed_has_no_key() -> None:
    gateway = Gateway(Elastic(), ENDS + 60)
    assert await gateway.kids() == [await gateway.kid()]


async def test_keys_are_forgotten_when_nobody_is_to_verify_by_them() -> None:
    store = Elastic()
    gateway = Gateway(store)
    await gateway.kid()
    store.now = gateway.now = ENDS + 2 * MARGIN
    await gateway.kid()
    assert [note.key for note in await store.notes(("", ""), 10)] == [f"push-signing-{int(NOW // TERM) + 1}"]
    assert len(gateway.signer._keys) == 1


async def test_a_store_that_lost_the_key_gets_it_back() -> None:
    store = Elastic()
    gateway = Gateway(store)
    kid = await gateway.kid()
    await store.erase("")
    gateway.now += 60
    assert await gateway.kid() == kid == await Gateway(store).kid()


async def test_where_another_key_stands_by_now_it_is_everybodys_and_both_are_known() -> None:
    store = Elastic()
    gateway = Gateway(store)
    before = await gateway.kid()
    await store.erase("")
    other = await Gateway(store).kid()
    gateway.now += 60
    assert await gateway.kid() == other
    assert await gateway.kids() == [other, before]
    gateway.now += MARGIN
    assert await gateway.kids() == [other]


async def test_a_store_that_is_gone_keeps_nobody_from_signing_with_a_key_that_is_known() -> None:
    store = Elastic()
    gateway = Gateway(store)
    kid = await gateway.kid()
    store.down = True
    gateway.now += 3600
    assert await gateway.kid() == kid
    assert await gateway.kids() == [kid]
    with pytest.raises(StateUnavailable):
        await Gateway(store).kid()
