"""Signatures of notifications, and the keys that they are made with: published before and after they sign."""

import hashlib
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.a2a.fault import StateUnavailable
from gateway.identity.jwks import parse_keys
from gateway.push.signing import LIFETIME, Signer
from gateway.tasks.key_ring import ANNOUNCED, MOST, NOTIFICATIONS, OVERLAP, REFRESH, SIGNS_FOR, rotate
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Note, Store
from tests.table import for_each

pytestmark = pytest.mark.anyio

GATEWAY, WEBHOOK = "https://gateway.example", "https://hooks.example"
NOW = 1_800_000_000.0
UNTIMED = {"verify_exp": False, "verify_iat": False}


class Gateway:
    """One of several, with a clock of its own."""

    def __init__(self, store: Store, now: float = NOW) -> None:
        self.now = now
        self.signer = Signer(store, GATEWAY, wall=lambda: self.now)

    async def sign(self, body: bytes = b"") -> str:
        return await self.signer.sign(body, audience=WEBHOOK, task_id="task-7", id="1")

    async def kid(self) -> str:
        """The key that signs."""
        return str(jwt.get_unverified_header(await self.sign())["kid"])

    async def kids(self) -> list[str]:
        """The key set."""
        return [str(key["kid"]) for key in (await self.signer.jwks())["keys"]]


class Elastic(SqliteStore):
    """A store that may be gone."""

    down = False

    async def group(self, kind: str, group: str, most: int) -> list[tuple[str, bytes]]:
        if self.down:
            raise StateUnavailable("gone")
        return await super().group(kind, group, most)


def later(seconds: float, *gateways: Gateway) -> None:
    for each in gateways:
        each.now += seconds


async def test_a_signature_is_for_one_body_one_webhook_and_five_minutes() -> None:
    gateway = Gateway(Elastic())
    token = await gateway.sign(b"{}")
    written = await gateway.signer.jwks()
    (key,) = written["keys"]
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "typ": "JWT", "kid": key["kid"]}
    claims = jwt.decode(token, jwt.PyJWK(key), ["ES256"], audience=WEBHOOK, issuer=GATEWAY, options=UNTIMED)  # type: ignore[arg-type]  # a plain dict
    assert claims == {
        "iss": GATEWAY,
        "aud": WEBHOOK,
        "iat": NOW,
        "exp": NOW + LIFETIME,
        "jti": "1",
        "task_id": "task-7",
        "request_body_sha256": hashlib.sha256(b"{}").hexdigest(),
    }
    # Nothing private, and what other verifiers take.
    assert set(key) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert (key["kty"], key["crv"], key["alg"], key["use"]) == ("EC", "P-256", "ES256", "sig")
    assert parse_keys(json.dumps(written).encode(), frozenset({"ES256"})).find(key["kid"], "ES256") is not None


async def test_a_key_is_published_a_day_before_it_signs_and_a_day_after() -> None:
    store = Elastic()
    one, two = Gateway(store), Gateway(store)
    first = await one.kid()
    assert await two.kids() == await one.kids() == [first]
    later(SIGNS_FOR - OVERLAP, one, two)
    signature = await one.sign()
    assert await one.kids() == await two.kids()
    kid, second = await one.kids()
    assert kid == first == await two.kid()
    later(OVERLAP, one, two)
    # A gateway that starts only now does as the others.
    for gateway in (one, two, Gateway(store, one.now)):
        assert await gateway.kid() == second
        assert await gateway.kids() == [second, first]
    keys = {key["kid"]: key for key in (await two.signer.jwks())["keys"]}
    assert jwt.decode(signature, jwt.PyJWK(keys[first]), ["ES256"], audience=WEBHOOK, options=UNTIMED)["jti"] == "1"  # type: ignore[arg-type]  # a plain dict
    later(OVERLAP, one, two)
    assert await one.kids() == await two.kids() == [second]
    assert len(await store.notes(("", ""), 10)) == 1


async def test_another_key_is_announced_before_it_signs() -> None:
    store = Elastic()
    one, two = Gateway(store), Gateway(store)
    old = await one.kid()
    assert await two.kid() == old
    told = await rotate(store, NOTIFICATIONS, NOW, drops=False)
    assert told.at == NOW + ANNOUNCED
    later(REFRESH, one, two)
    for gateway in (one, two):
        assert await gateway.kids() == [old, told.kid]
        assert await gateway.kid() == old
    later(ANNOUNCED, one, two)
    for gateway in (one, two):
        assert await gateway.kids() == [told.kid, old]
        assert await gateway.kid() == told.kid
    later(OVERLAP, one, two)
    assert await one.kids() == await two.kids() == [told.kid]


async def test_keys_that_have_leaked_are_worth_nothing_as_soon_as_gateways_look() -> None:
    store = Elastic()
    one, two = Gateway(store), Gateway(store)
    await one.kid()
    # With it leaks the next one, and one that was to sign soon.
    later(SIGNS_FOR - OVERLAP, one, two)
    await one.kids()
    await rotate(store, NOTIFICATIONS, one.now, drops=False)
    assert len(await two.kids()) == 3
    # The command may run where the clock is ahead.
    told = await rotate(store, NOTIFICATIONS, one.now + 3600, drops=True)
    later(REFRESH, one, two)
    for gateway in (one, two, Gateway(store, one.now)):
        assert await gateway.kid() == told.kid
        assert await gateway.kids() == [told.kid]
    assert len(await store.notes(("", ""), 10)) == 1


async def test_there_are_no_more_keys_than_gateways_read() -> None:
    store = Elastic()
    for _ in range(MOST - 1):
        await rotate(store, NOTIFICATIONS, NOW, drops=False)
    with pytest.raises(ValueError, match="wait a day"):
        await rotate(store, NOTIFICATIONS, NOW, drops=False)
    told = await rotate(store, NOTIFICATIONS, NOW, drops=True)
    assert await Gateway(store).kids() == [told.kid]


@for_each("damage", [b"{", b"{}", b'{"signs_from":0,"jwk":{}}', b'{"signs_from":0,"jwk":{"kty":"EC"}}'])
async def test_a_key_that_cannot_be_read_is_left_out(damage: bytes) -> None:
    store = Elastic()
    await store.keep(Note("secret", "push-key-000000007", damage, group="push-keys"))
    gateway = Gateway(store)
    assert await gateway.kids() == [await gateway.kid()]
    assert await gateway.kids() == await Gateway(store).kids()


async def test_known_keys_sign_while_the_store_is_away() -> None:
    store = Elastic()
    gateway = Gateway(store)
    kid = await gateway.kid()
    store.down = True
    later(3600, gateway)
    assert await gateway.kid() == kid
    assert await gateway.kids() == [kid]
    with pytest.raises(StateUnavailable):
        await Gateway(store).kid()


@for_each("replaced", [False, True])
async def test_the_key_of_the_last_release_goes_on_unless_it_was_replaced(replaced: bool) -> None:  # noqa: FBT001
    store = Elastic()
    private = generate_private_key(SECP256R1())
    former = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    await store.keep(Note("secret", f"push-signing-{int(NOW // SIGNS_FOR)}", former))
    if replaced:
        await store.keep(Note("secret", "push-signing-694-0", b"{}", group="push-signing"))
    token = await Gateway(store).sign()
    try:
        jwt.decode(token, private.public_key(), ["ES256"], audience=WEBHOOK, options=UNTIMED)  # type: ignore[arg-type]  # a plain dict
        assert not replaced
    except jwt.InvalidSignatureError:
        assert replaced
