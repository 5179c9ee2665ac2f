"""Another key takes the place of one before its term is over: soon and unnoticed, or at once where one has leaked."""

import jwt
import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.push.rotation import LEAD, LINGER, MOST, chain, rotation, rotations
from gateway.push.signing import LIFE, LOOK, MARGIN, TERM, rotate
from gateway.tasks.store import Note
from tests.push.test_signing import ENDS, NOW, WEBHOOK, Elastic, Gateway

pytestmark = pytest.mark.anyio


def later(store: Elastic, seconds: float, *gateways: Gateway) -> None:
    store.now += seconds
    for each in gateways:
        each.now += seconds


# ---- The chain ---------------------------------------------------------------------------------------------------


def test_a_key_is_announced_then_signs_and_the_one_before_it_lingers() -> None:
    since = [rotation(0, 10.0, 70.0, b"second", drops=False)]
    assert chain(b"first", since, 10.0) == [b"first", b"second"]
    assert chain(b"first", since, 69.9) == [b"first", b"second"]
    assert chain(b"first", since, 70.0) == [b"second", b"first"]
    assert chain(b"first", since, 70.0 + LINGER - 1) == [b"second", b"first"]
    assert chain(b"first", since, 70.0 + LINGER) == [b"second"]


def test_one_that_drops_leaves_nothing_of_those_before_it_whatever_the_clock_says() -> None:
    since = [
        rotation(0, 10.0, 70.0, b"second", drops=False),
        rotation(0, 20.0, 20.0, b"third", drops=True),
        rotation(0, 30.0, 90.0, b"fourth", drops=False),
    ]
    # A gateway whose clock is slow as well.
    assert chain(b"first", since[:2], 5.0) == [b"third"]
    assert chain(b"first", since, 80.0) == [b"third", b"fourth"]
    assert chain(b"first", since, 90.0) == [b"fourth", b"third"]
    assert chain(b"first", since, 90.0 + LINGER) == [b"fourth"]


# ---- Gateways ----------------------------------------------------------------------------------------------------


async def test_every_gateway_knows_the_key_before_any_signs_with_it_and_none_forgets_the_old_one_too_soon() -> None:
    store = Elastic()
    one, two = Gateway(store), Gateway(store)
    old = await one.kid()
    assert await two.kid() == old
    told = await rotate(store, store.now, drops=False)
    assert told.at == NOW + LEAD
    later(store, LOOK, one, two)
    for gateway in (one, two, Gateway(store, store.now)):
        assert await gateway.kids() == [old, told.kid]
        assert await gateway.kid() == old
    later(store, LEAD, one, two)
    for gateway in (one, two, Gateway(store, store.now)):
        assert await gateway.kid() == told.kid
        # What was signed a moment before is good for a while.
        assert await gateway.kids() == [told.kid, old]
    later(store, 2 * LIFE, one, two)
    assert old in await one.kids()
    later(store, LINGER, one, two)
    for gateway in (one, two, Gateway(store, store.now)):
        assert await gateway.kids() == [told.kid]


async def test_a_key_that_has_leaked_is_worth_nothing_as_soon_as_gateways_look() -> None:
    store = Elastic()
    one, two = Gateway(store), Gateway(store)
    leaked = await one.kid()
    await two.kids()
    told = await rotate(store, store.now, drops=True)
    later(store, LOOK, one, two)
    for gateway in (one, two, Gateway(store, store.now)):
        assert await gateway.kid() == told.kid
        assert await gateway.kids() == [told.kid]
    assert leaked != told.kid


async def test_with_it_goes_whatever_else_the_store_held() -> None:
    store = Elastic()
    gateway = Gateway(store)
    first = await gateway.kid()
    # The next term's is there already.
    later(store, ENDS - MARGIN + 60 - NOW, gateway)
    _, second = await gateway.kids()
    # And one that was to sign soon.
    announced = await rotate(store, store.now, drops=False)
    later(store, 1, gateway)
    told = await rotate(store, store.now, drops=True)
    later(store, LOOK, gateway)
    kid, following = await gateway.kids()
    assert kid == told.kid
    assert not {first, second, announced.kid} & {kid, following}
    later(store, MARGIN, gateway)
    assert await gateway.kid() == following
    assert not {first, second, announced.kid} & set(await gateway.kids())


async def test_with_it_goes_the_key_of_the_term_before() -> None:
    store = Elastic()
    gateway = Gateway(store)
    first = await gateway.kid()
    later(store, ENDS + 60 - NOW, gateway)
    assert first in await gateway.kids()
    told = await rotate(store, store.now, drops=True)
    later(store, LOOK, gateway)
    assert await gateway.kids() == [told.kid]


async def test_the_next_term_has_a_key_of_its_own_and_the_last_one_is_known_for_a_day() -> None:
    store = Elastic()
    gateway = Gateway(store)
    told = await rotate(store, store.now, drops=True)
    assert await gateway.kid() == told.kid
    later(store, ENDS + 60 - NOW, gateway)
    new = await gateway.kid()
    assert new != told.kid
    assert await gateway.kids() == [new, told.kid]
    later(store, MARGIN, gateway)
    assert await gateway.kids() == [new]


async def test_a_store_that_is_gone_keeps_nobody_from_signing() -> None:
    class Gone(Elastic):
        async def group(self, kind: str, group: str, most: int) -> list[tuple[str, bytes]]:
            if self.down:
                raise StateUnavailable("gone")
            return await super().group(kind, group, most)

    store = Gone()
    gateway = Gateway(store)
    told = await rotate(store, store.now, drops=True)
    assert await gateway.kid() == told.kid
    store.down = True
    later(store, 10, gateway)
    assert await gateway.kid() == told.kid


async def test_what_cannot_be_read_is_left_out_and_there_is_a_bound() -> None:
    store = Elastic()
    await store.keep(Note("secret", "push-signing-0", b"{", group="push-signing"))
    gateway = Gateway(store)
    assert await gateway.kids() == [await gateway.kid()]
    told = await rotate(store, store.now, drops=True)
    assert [one.drops for one in await rotations(store, "secret")] == [True]
    later(store, LOOK, gateway)
    assert await gateway.kid() == told.kid
    value = dict(await _note(store))
    for number in range(MOST):
        await store.keep(Note("secret", f"push-signing-x{number}", next(iter(value.values())), group="push-signing"))
    with pytest.raises(ValueError, match="no gateway looks at more"):
        await rotate(store, store.now, drops=False)


async def _note(store: Elastic) -> list[tuple[str, bytes]]:
    return [each for each in await store.group("secret", "push-signing", 10) if each[1] != b"{"]


async def test_what_was_signed_by_the_old_one_is_verified_by_the_set_of_any_gateway() -> None:
    store = Elastic()
    one, two = Gateway(store), Gateway(store)
    signature = await one.signer.sign(b"", audience=WEBHOOK, task_id="t", id="1")
    await rotate(store, store.now, drops=False)
    later(store, LEAD + LOOK, one, two)
    keys = {key["kid"]: key for key in (await two.signer.jwks())["keys"]}
    key = jwt.PyJWK(keys[jwt.get_unverified_header(signature)["kid"]])
    options = {"verify_exp": False, "verify_iat": False}
    assert jwt.decode(signature, key, ["ES256"], audience=WEBHOOK, options=options)["jti"] == "1"  # type: ignore[arg-type]  # a plain dict


async def test_the_notes_are_forgotten_with_their_term() -> None:
    store = Elastic()
    await rotate(store, store.now, drops=True)
    later(store, TERM + 2 * MARGIN)
    assert await rotations(store, "secret") == []
