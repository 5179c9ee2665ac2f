import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.a2a.fault import AuthInvalid, AuthUnavailable, Fault, RateLimited
from gateway.config.model import Auth
from gateway.identity.authenticator import Authenticator, Credentials
from gateway.identity.verification import VerificationQueue
from gateway.principal import ANONYMOUS
from tests.identity.issuance import (
    BOUNDS,
    NOW,
    Published,
    auth,
    authenticator,
    bearer,
    identify,
    jwk,
    key_set_document,
    rsa_key,
    run,
    sha256,
    token,
)
from tests.table import for_each

KEY = b"a2a_key_0123456789abcdef"
KEYS = {"batch": {"sha256": sha256(KEY), "tenant": "acme"}}
NOTHING = Credentials()

BOTH = authenticator(settings=auth(KEYS))
ONLY_KEYS = authenticator(settings=Auth.model_validate({"api_keys": KEYS}))


def by_header(value: bytes) -> Credentials:
    return Credentials(api_key=(value,))


@for_each("shown", [NOTHING, bearer(b"x"), by_header(b"x"), Credentials((b"Basic x", b"y"), (b"z",))])
def test_a_gateway_without_auth_asks_nobody(shown: Credentials) -> None:
    for anonymous in (True, False):
        assert identify(Authenticator(None, anonymous=anonymous, bounds=BOUNDS, key_sets={}), shown) is ANONYMOUS


def test_a_caller_without_a_credential_is_anonymous_only_if_allowed() -> None:
    assert identify(authenticator(), NOTHING) is None
    assert identify(authenticator(anonymous=True), NOTHING) is ANONYMOUS


@for_each("shown", [bearer(KEY), by_header(KEY), Credentials((b"bEaReR  " + KEY + b" ",))])
@for_each("who", [BOTH, ONLY_KEYS])
def test_an_api_key_is_shown_in_either_header(who: Authenticator, shown: Credentials) -> None:
    principal = identify(who, shown)
    assert principal is not None
    assert (principal.tenant, principal.key) == ("acme", "batch")


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


@for_each("shown", BAD.values())
@for_each("anonymous", [True, False])
def test_a_bad_credential_is_refused_and_never_falls_through(shown: Credentials, *, anonymous: bool) -> None:
    with pytest.raises(AuthInvalid) as caught:
        identify(authenticator(settings=auth(KEYS), anonymous=anonymous), shown)
    assert KEY.decode() not in caught.value.message + caught.value.detail


BYTES = st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"Bearer " + tail)
SEGMENTS = st.lists(st.text("AQeyJhbGciOi-_09=", max_size=12).map(str.encode), min_size=2, max_size=5)


@settings(deadline=None)  # the first key takes long to make
@given(st.lists(BYTES, max_size=2), st.lists(BYTES, max_size=2))
@example([b"Bearer ..."], [])
def test_no_bytes_make_anything_but_a_fault(authorization: list[bytes], api_key: list[bytes]) -> None:
    with suppress(Fault):
        assert identify(BOTH, Credentials(tuple(authorization), tuple(api_key))) is None


@settings(deadline=None)  # the first key takes long to make
@given(SEGMENTS)
def test_no_segments_make_anything_but_a_fault(segments: list[bytes]) -> None:
    with suppress(Fault):
        identify(BOTH, bearer(b".".join(segments)))
        raise AssertionError("nobody signed this")


GOOD_TOKEN = token()


@settings(deadline=None)  # the first key takes long to make
@given(st.integers(0, len(GOOD_TOKEN) - 1), st.integers(0, 255))
def test_a_token_with_one_byte_changed_is_another_or_refused(where: int, byte: int) -> None:
    changed = GOOD_TOKEN[:where] + bytes([byte]) + GOOD_TOKEN[where + 1 :]
    # A space at either end belongs to the header line, not to the token.
    if changed.strip(b" ") != GOOD_TOKEN:
        with pytest.raises(Fault):
            identify(BOTH, bearer(changed))


# ---- Failures of one address ---------------------------------------------------------------------------------------

THREE = {"failures": "3/min"}
HERE, THERE = "192.0.2.1", "192.0.2.2"


def strict(**verification: object) -> Authenticator:
    return authenticator(settings=auth(KEYS, {**THREE, **verification}))


def at(address: str, shown: Credentials) -> Credentials:
    return Credentials(shown.authorization, shown.api_key, address)


def fails(who: Authenticator, shown: Credentials, now: float = NOW, tick: float = 0.0) -> type[Fault]:
    """Return the class of the fault that refuses a credential."""
    with pytest.raises(Fault) as caught:
        identify(who, shown, now, tick)
    return type(caught.value)


def use_up(who: Authenticator, address: str = HERE) -> None:
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
    assert identify(who, at(HERE, by_header(KEY)), tick=40.0) is not None


def test_a_limited_caller_is_told_when_to_retry_and_nothing_else() -> None:
    who = strict()
    use_up(who)
    with pytest.raises(RateLimited) as caught:
        identify(who, at(HERE, by_header(KEY)), tick=5.0)
    assert caught.value.retry_after == pytest.approx(15.0)
    assert HERE not in caught.value.message + caught.value.detail


def test_known_callers_are_served_while_others_at_their_address_fail() -> None:
    who = strict()
    good = [at(HERE, bearer(token())), at(HERE, bearer(KEY)), at(HERE, by_header(KEY))]
    assert all(identify(who, shown) for shown in good)
    use_up(who)
    assert fails(who, at(HERE, by_header(b"next"))) is RateLimited
    # For as long as it likes: a minute later the token is verified anew, and still no guess.
    for later in (0.0, 59.0, 61.0, 3000.0):
        assert all(identify(who, shown, NOW + later) for shown in good)


def test_a_guess_that_hits_is_no_help_to_who_may_not_guess() -> None:
    who = strict()
    assert identify(who, at(THERE, by_header(KEY))) is not None
    use_up(who)
    assert fails(who, at(HERE, by_header(KEY))) is RateLimited
    assert identify(who, at(THERE, by_header(KEY))) is not None


@for_each(("written", "lasts"), [({}, 5.0), ({"remember_bad": "1h"}, 3600.0)])
def test_one_bad_credential_that_is_shown_again_and_again_is_one_failure(written: dict[str, str], lasts: float) -> None:
    who = strict(**written)
    for later in (0.0, lasts - 0.1):
        for shown in (by_header(b"old"), bearer(b"a.b.c")):
            assert fails(who, at(HERE, shown), now=NOW + later) is AuthInvalid
    assert fails(who, at(HERE, by_header(b"third"))) is AuthInvalid
    assert fails(who, at(HERE, by_header(b"fourth"))) is RateLimited
    # From memory; then it is a new one.
    assert fails(who, at(HERE, by_header(b"old"))) is AuthInvalid
    assert fails(who, at(HERE, by_header(b"old")), now=NOW + lasts) is RateLimited


def test_a_token_in_the_header_of_keys_does_not_spoil_it_as_a_bearer() -> None:
    who = strict()
    assert fails(who, at(HERE, by_header(token()))) is AuthInvalid
    assert identify(who, at(HERE, bearer(token()))) is not None


def test_unavailable_keys_are_no_failure_of_the_caller() -> None:
    down = Published()
    assert not down.read()
    who = authenticator(down.key_set, auth(KEYS, THREE))
    for number in range(10):
        assert fails(who, at(HERE, bearer(token(jti=str(number))))) is AuthUnavailable
        assert identify(who, at(HERE, NOTHING)) is None
    assert fails(who, at(HERE, by_header(b"next"))) is AuthInvalid


def test_credentials_refused_unread_are_no_failures() -> None:
    who = strict()
    for _ in range(10):
        for shown in (Credentials((b"Basic x",)), by_header(b""), Credentials((b"x",), (b"y",)), bearer(b"x" * 9000)):
            assert fails(who, at(HERE, shown)) is AuthInvalid
    assert identify(who, at(HERE, by_header(KEY))) is not None


def test_a_whole_network_of_ipv6_is_one_address() -> None:
    who = strict()
    for number in range(3):
        assert fails(who, at(f"2001:db8::{number:x}", by_header(b"guess%d" % number))) is AuthInvalid
    assert fails(who, at("2001:db8::ffff", by_header(KEY))) is RateLimited
    assert identify(who, at("2001:db8:0:1::1", by_header(KEY))) is not None


def test_neither_addresses_nor_strangers_are_remembered_without_end() -> None:
    who = strict(entries=50)
    for number in range(200):
        assert fails(who, at(f"192.0.2.{number}", by_header(b"guess%d" % number))) is AuthInvalid
    # The last fifty have used up nothing more than one each; the first is a new one, and nobody remembers its key.
    assert fails(who, at("192.0.2.0", by_header(b"guess0"))) is AuthInvalid
    for number in range(2):
        assert fails(who, at("192.0.2.0", by_header(b"other%d" % number))) is AuthInvalid
    assert fails(who, at("192.0.2.0", by_header(b"last"))) is RateLimited


# ---- Waiting -------------------------------------------------------------------------------------------------------


async def prove(who: Authenticator, shown: Credentials) -> Any:
    return await who.authenticate(shown, lambda: NOW)


def test_a_burst_of_new_tokens_is_verified_over_many_turns_and_known_credentials_do_not_wait() -> None:
    who = authenticator(settings=auth(KEYS), queue=VerificationQueue(4))
    known = bearer(token())
    assert identify(who, known) is identify(who, known)
    assert identify(who, by_header(KEY)) is not None
    burst = [bearer(token(jti=str(number))) for number in range(50)]

    async def flood() -> list[int]:
        done: list[int] = []
        waiting = [asyncio.ensure_future(prove(who, shown)) for shown in burst]
        while not all(task.done() for task in waiting):
            await asyncio.sleep(0)
            done.append(sum(task.done() for task in waiting))
            for at_once in (known, by_header(KEY)):
                # A coroutine that does not suspend ends with its first step.
                with pytest.raises(StopIteration):
                    prove(who, at_once).send(None)
        assert all(task.result() is not None for task in waiting)
        return done

    done = run(flood())
    assert max(after - before for before, after in zip([0, *done], done, strict=False)) <= 8


def test_a_token_in_many_waiting_requests_is_verified_once() -> None:
    down = Published()
    who = authenticator(down.key_set)

    async def flood() -> list[Any]:
        waiting = [asyncio.ensure_future(prove(who, bearer(token()))) for _ in range(5)]
        await asyncio.sleep(0)
        down.documents["/keys"] = key_set_document(jwk(rsa_key()))
        await down.key_set.refresh()
        return await asyncio.gather(*waiting)

    assert len({id(principal) for principal in run(flood())}) == 1
