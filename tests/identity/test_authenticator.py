import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.a2a.fault import AuthExpired, AuthInvalid, AuthUnavailable, Fault, RateLimited
from gateway.config.model import Auth
from gateway.identity.anonymous import ANONYMOUS
from gateway.identity.authenticator import Credentials, Identity
from gateway.identity.jwk import Key
from gateway.identity.pending import Pending
from gateway.identity.turn import Turns
from gateway.principal import Principal
from tests.identity.issuance import (
    NOW,
    auth,
    bearer,
    identity,
    jwk,
    keys_of,
    read_key_set,
    rsa_key,
    sha256,
    token,
    unread_key_set,
)

KEY = b"a2a_key_0123456789abcdef"
KEYS = {"batch": {"sha256": sha256(KEY), "tenant": "acme"}}
NOTHING = Credentials()

BOTH = identity(settings=auth(KEYS))
ONLY_KEYS = identity(settings=Auth.model_validate({"api_keys": KEYS}))


def by_header(value: bytes) -> Credentials:
    return Credentials(api_key=(value,))


@pytest.mark.parametrize("shown", [NOTHING, bearer(b"x"), by_header(b"x"), Credentials((b"Basic x", b"y"), (b"z",))])
def test_a_gateway_without_auth_asks_nobody(shown: Credentials) -> None:
    assert Identity(None, anonymous=True, key_sets={}).identify(shown, NOW) is ANONYMOUS
    assert Identity(None, anonymous=False, key_sets={}).identify(shown, NOW) is ANONYMOUS


def test_who_shows_nothing_is_anonymous_only_where_that_is_admitted() -> None:
    assert identity().identify(NOTHING, NOW) is None
    assert identity(anonymous=True).identify(NOTHING, NOW) is ANONYMOUS


@pytest.mark.parametrize("shown", [bearer(KEY), by_header(KEY), Credentials((b"bEaReR  " + KEY + b" ",))])
@pytest.mark.parametrize("who", [BOTH, ONLY_KEYS])
def test_an_api_key_is_shown_in_either_header(who: Identity, shown: Credentials) -> None:
    principal = who.identify(shown, NOW)
    assert principal is not None
    assert (principal.tenant, principal.key) == ("acme", "batch")


def test_a_token_is_shown_as_bearer_only() -> None:
    principal = BOTH.identify(bearer(token()), NOW)
    assert principal is not None
    assert principal.method == "jwt"
    with pytest.raises(AuthInvalid):
        BOTH.identify(by_header(token()), NOW)


TWO = {
    "two authorizations": Credentials((b"Bearer " + KEY, b"Bearer " + KEY)),
    "a key and a token": Credentials((b"Bearer " + token(),), (KEY,)),
    "the same key twice": Credentials((b"Bearer " + KEY,), (KEY,)),
    "two keys": Credentials((), (KEY, KEY)),
    "one of them empty": Credentials((b"",), (KEY,)),
}


@pytest.mark.parametrize("shown", TWO.values(), ids=TWO.keys())
def test_two_credentials_are_none(shown: Credentials) -> None:
    with pytest.raises(AuthInvalid, match="show one credential"):
        BOTH.identify(shown, NOW)


BAD = {
    "another scheme": Credentials((b"Basic " + KEY,)),
    "no scheme": Credentials((KEY,)),
    "scheme alone": Credentials((b"Bearer",)),
    "scheme and a space": Credentials((b"Bearer ",)),
    "a tab for a space": Credentials((b"Bearer\t" + KEY,)),
    "empty": Credentials((b"",)),
    "empty key": by_header(b""),
    "unknown key": by_header(KEY + b"x"),
    "unknown bearer": bearer(KEY + b"x"),
    "two in one line": Credentials((b"Bearer " + KEY + b", Bearer " + KEY,)),
    "long": bearer(b"x" * 8193),
    "long key": by_header(b"x" * 8193),
    "long token": bearer(b"a." * 5000 + b"a"),
}


@pytest.mark.parametrize("shown", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("anonymous", [True, False])
def test_what_is_offered_and_bad_is_refused_and_never_falls_through(shown: Credentials, *, anonymous: bool) -> None:
    with pytest.raises(AuthInvalid) as caught:
        identity(settings=auth(KEYS), anonymous=anonymous).identify(shown, NOW)
    assert KEY.decode() not in caught.value.message + caught.value.detail


def test_a_key_that_ended_is_called_expired() -> None:
    ended = {"batch": {**KEYS["batch"], "expires": "2020-01-01"}}
    with pytest.raises(AuthExpired) as caught:
        identity(settings=auth(ended)).identify(bearer(KEY), NOW)
    assert "batch" not in caught.value.message


def test_keys_that_end_soon_can_be_asked_for() -> None:
    soon = identity(settings=auth({"batch": {**KEYS["batch"], "expires": "2027-01-20"}}))
    assert list(soon.expiring_api_keys(NOW, 14 * 86400.0)) == ["batch"]
    assert not BOTH.expiring_api_keys(NOW, 14 * 86400.0)


def test_a_card_says_what_callers_may_show() -> None:
    assert Identity(None, anonymous=True, key_sets={}).schemes == ()
    assert identity().schemes == ("bearer",)
    assert ONLY_KEYS.schemes == ("api_key",)
    assert BOTH.schemes == ("bearer", "api_key")
    assert BOTH.challenge == 'Bearer realm="a2a"'


def test_an_issuer_without_a_key_set_is_no_configuration() -> None:
    with pytest.raises(KeyError):
        Identity(auth(), anonymous=False, key_sets={})


BYTES = st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"Bearer " + tail)
SEGMENTS = st.lists(st.text("AQeyJhbGciOi-_09=", max_size=12).map(str.encode), min_size=2, max_size=5)


@settings(deadline=None)  # the first key takes long to make
@given(st.lists(BYTES, max_size=2), st.lists(BYTES, max_size=2))
@example([b"Bearer ..."], [])
def test_no_bytes_make_anything_but_a_fault(authorization: list[bytes], api_key: list[bytes]) -> None:
    with suppress(Fault, Pending):
        assert BOTH.identify(Credentials(tuple(authorization), tuple(api_key)), NOW) is None


@settings(deadline=None)  # the first key takes long to make
@given(SEGMENTS)
def test_no_segments_make_anything_but_a_fault(segments: list[bytes]) -> None:
    with suppress(Fault, Pending):
        BOTH.identify(bearer(b".".join(segments)), NOW)
        raise AssertionError("nobody signed this")


GOOD_TOKEN = token()


@settings(deadline=None)  # the first key takes long to make
@given(st.integers(0, len(GOOD_TOKEN) - 1), st.integers(0, 255))
def test_a_token_with_one_byte_changed_is_another_or_refused(where: int, byte: int) -> None:
    changed = GOOD_TOKEN[:where] + bytes([byte]) + GOOD_TOKEN[where + 1 :]
    # A space at either end belongs to the header line, not to the token.
    if changed.strip(b" ") != GOOD_TOKEN:
        with pytest.raises((Fault, Pending)):
            BOTH.identify(bearer(changed), NOW)


# ---- Failures of one address ---------------------------------------------------------------------------------------

THREE = {"failures": "3/min"}
HERE, THERE = "192.0.2.1", "192.0.2.2"


def strict(**verification: object) -> Identity:
    return identity(settings=auth(KEYS, {**THREE, **verification}))


def at(address: str, shown: Credentials) -> Credentials:
    return Credentials(shown.authorization, shown.api_key, address)


def fails(who: Identity, shown: Credentials, now: float = NOW, tick: float = 0.0) -> type[Fault]:
    """How a credential is refused."""
    with pytest.raises(Fault) as caught:
        who.identify(shown, now, tick)
    return type(caught.value)


def use_up(who: Identity, address: str = HERE) -> None:
    for number in range(3):
        assert fails(who, at(address, by_header(b"guess%d" % number))) is AuthInvalid


def test_an_address_that_keeps_failing_is_not_looked_at_until_time_has_passed() -> None:
    who = strict()
    use_up(who)
    for shown in (by_header(b"next"), bearer(b"next"), bearer(b"a.b.c"), bearer(token()), by_header(KEY), bearer(KEY)):
        assert fails(who, at(HERE, shown)) is RateLimited
    assert fails(who, at(HERE, by_header(b"next")), tick=19.0) is RateLimited
    assert fails(who, at(HERE, by_header(b"next")), tick=20.0) is AuthInvalid
    assert fails(who, at(HERE, by_header(b"another")), tick=20.0) is RateLimited
    assert who.identify(at(HERE, by_header(KEY)), NOW, 40.0) is not None


def test_it_is_told_when_to_come_back_and_nothing_else() -> None:
    who = strict()
    use_up(who)
    with pytest.raises(RateLimited) as caught:
        who.identify(at(HERE, by_header(KEY)), NOW, 5.0)
    assert caught.value.retry_after == pytest.approx(15.0)
    assert HERE not in caught.value.message + caught.value.detail


def test_another_address_is_looked_at_as_ever() -> None:
    who = strict()
    use_up(who)
    assert who.identify(at(THERE, bearer(token())), NOW) is not None
    assert fails(who, at(THERE, by_header(b"next"))) is AuthInvalid


def test_who_is_known_to_be_good_is_served_while_others_at_its_address_fail() -> None:
    who = strict()
    good = [at(HERE, bearer(token())), at(HERE, bearer(KEY)), at(HERE, by_header(KEY))]
    assert all(who.identify(shown, NOW) for shown in good)
    use_up(who)
    assert fails(who, at(HERE, by_header(b"next"))) is RateLimited
    # For as long as it likes: a minute later the token is verified anew, and still no guess.
    for later in (0.0, 59.0, 61.0, 3000.0):
        assert all(who.identify(shown, NOW + later) for shown in good)


def test_a_guess_that_hits_is_no_help_to_who_may_not_guess() -> None:
    who = strict()
    assert who.identify(at(THERE, by_header(KEY)), NOW) is not None
    use_up(who)
    assert fails(who, at(HERE, by_header(KEY))) is RateLimited
    assert who.identify(at(THERE, by_header(KEY)), NOW) is not None


def test_one_bad_credential_that_is_shown_again_and_again_is_one_failure() -> None:
    who = strict()
    for _ in range(20):
        for shown in (by_header(b"old"), bearer(b"a.b.c")):
            assert fails(who, at(HERE, shown)) is AuthInvalid
    assert fails(who, at(HERE, by_header(b"third"))) is AuthInvalid
    assert fails(who, at(HERE, by_header(b"fourth"))) is RateLimited
    # From memory, for five seconds; then it is a new one.
    assert fails(who, at(HERE, by_header(b"old"))) is AuthInvalid
    assert fails(who, at(HERE, by_header(b"old")), now=NOW + 5) is RateLimited


def test_a_token_in_the_header_of_keys_does_not_spoil_it_as_a_bearer() -> None:
    who = strict()
    assert fails(who, at(HERE, by_header(token()))) is AuthInvalid
    assert who.identify(at(HERE, bearer(token())), NOW) is not None


def test_what_is_not_the_callers_fault_is_no_failure() -> None:
    unread = unread_key_set()
    unread._begin_first()
    unread._settle()
    who = identity(unread, auth(KEYS, THREE))
    for number in range(10):
        assert fails(who, at(HERE, bearer(token(jti=str(number))))) is AuthUnavailable
        assert who.identify(at(HERE, NOTHING), NOW) is None
    assert fails(who, at(HERE, by_header(b"next"))) is AuthInvalid


def test_what_is_refused_unread_is_no_failure() -> None:
    who = strict()
    for _ in range(10):
        for shown in (Credentials((b"Basic x",)), by_header(b""), Credentials((b"x",), (b"y",)), bearer(b"x" * 9000)):
            assert fails(who, at(HERE, shown)) is AuthInvalid
    assert who.identify(at(HERE, by_header(KEY)), NOW) is not None


def test_a_whole_network_of_ipv6_is_one_address() -> None:
    who = strict()
    for number in range(3):
        assert fails(who, at(f"2001:db8::{number:x}", by_header(b"guess%d" % number))) is AuthInvalid
    assert fails(who, at("2001:db8::ffff", by_header(KEY))) is RateLimited
    assert who.identify(at("2001:db8:0:1::1", by_header(KEY)), NOW) is not None


def test_neither_addresses_nor_strangers_are_remembered_without_end() -> None:
    who = strict(entries=50)
    for number in range(200):
        assert fails(who, at(f"192.0.2.{number}", by_header(b"guess%d" % number))) is AuthInvalid
    assert (len(who._failures), len(who._strange)) == (50, 50)


def test_bad_credentials_are_remembered_as_long_as_the_file_says() -> None:
    who = strict(remember_bad="1h")
    for later in (0.0, 3599.0):
        for shown in (by_header(b"old"), bearer(b"a.b.c")):
            assert fails(who, at(HERE, shown), now=NOW + later) is AuthInvalid
    assert fails(who, at(HERE, by_header(b"third"))) is AuthInvalid
    assert fails(who, at(HERE, by_header(b"old")), now=NOW + 3600) is RateLimited


# ---- Turns ---------------------------------------------------------------------------------------------------------


async def proven(who: Identity, shown: Credentials) -> Principal | None:
    try:
        return who.identify(shown, NOW)
    except Pending as pending:
        return await who.prove(pending, shown, lambda: NOW, 0.0)


@pytest.mark.anyio
async def test_a_burst_of_new_tokens_is_judged_over_many_turns_and_who_is_known_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, judged = auth(KEYS), 0
    who = Identity(settings, anonymous=False, key_sets={"corp": read_key_set()}, turns=Turns(4))
    known = bearer(token())
    assert await proven(who, known) is not None
    burst = [bearer(token(jti=str(number))) for number in range(50)]
    most, before = 0, 0
    verifies: Callable[[Key, str, bytes, bytes], bool] = Key.verifies

    def counted(key: Key, algorithm: str, signed: bytes, signature: bytes) -> bool:
        nonlocal judged
        judged += 1
        return verifies(key, algorithm, signed, signature)

    monkeypatch.setattr(Key, "verifies", counted)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        waiting = [group.create_task(proven(who, shown)) for shown in burst]
        while judged < 50:
            await asyncio.sleep(0)
            most, before = max(most, judged - before), judged
            assert who.identify(known, NOW) is not None
            assert who.identify(by_header(KEY), NOW) is not None
    assert all(task.result() is not None for task in waiting)
    assert most <= 8


@pytest.mark.anyio
async def test_a_token_waits_for_its_turn_its_keys_and_its_turn_again() -> None:
    unread = unread_key_set()
    who = Identity(auth(KEYS), anonymous=False, key_sets={"corp": unread}, turns=Turns(1))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        waiting = [group.create_task(proven(who, bearer(token(jti=str(number))))) for number in range(5)]
        for _ in range(20):
            await asyncio.sleep(0)
        unread._take(keys_of(jwk(rsa_key())))
        unread._settle()
    assert all(task.result() is not None for task in waiting)


@pytest.mark.anyio
async def test_a_token_waits_for_keys_once_however_often_they_may_be_read() -> None:
    key_set = read_key_set(bounds=auth(verification={"keys_on_demand": "1ms"}).verification, clock=count().__next__)
    who = identity(key_set)
    shown = bearer(token(header={"kid": "nobody"}))
    with pytest.raises(Pending) as caught:
        who.identify(shown, NOW)
    key_set._settle()
    with pytest.raises(AuthInvalid, match="names no key"):
        await who.prove(caught.value, shown, lambda: NOW, 0.0)
