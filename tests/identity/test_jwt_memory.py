"""What was found of a token is remembered as long as it is true, and for no longer than the file says."""

import hashlib
from collections.abc import Callable

import pytest

from gateway.a2a.fault import AuthExpired, AuthInvalid, AuthMissing
from gateway.identity.jwk import Key
from gateway.identity.pending import Pending
from tests.identity.issuance import NOW, auth, bearer, identity, jwk, keys_of, read_key_set, rsa_key, token

GOOD_FOR = 60.0
BAD_FOR = 5.0


@pytest.fixture
def verifications(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The algorithm of every signature that is verified."""
    seen: list[str] = []
    verifies: Callable[[Key, str, bytes, bytes], bool] = Key.verifies

    def counted(key: Key, algorithm: str, signed: bytes, signature: bytes) -> bool:
        seen.append(algorithm)
        return verifies(key, algorithm, signed, signature)

    monkeypatch.setattr(Key, "verifies", counted)
    return seen


def test_a_good_token_is_verified_once_a_minute(verifications: list[str]) -> None:
    who = identity()
    shown = bearer(token())
    first = who.identify(shown, NOW)
    assert who.identify(shown, NOW + GOOD_FOR - 1) is first
    assert len(verifications) == 1
    who.identify(shown, NOW + GOOD_FOR)
    assert len(verifications) == 2


def test_what_is_remembered_does_not_outlive_the_token() -> None:
    who = identity()
    shown = bearer(token(exp=NOW + 5))
    assert who.identify(shown, NOW) is not None
    assert who.identify(shown, NOW + 34) is not None
    with pytest.raises(AuthExpired):
        who.identify(shown, NOW + 35)


def test_what_is_remembered_does_not_outlive_the_key() -> None:
    key_set = read_key_set()
    who = identity(key_set)
    assert who.identify(bearer(token()), NOW) is not None
    key_set._take(keys_of(jwk(rsa_key(1), "k2")))
    with pytest.raises(Pending):
        who.identify(bearer(token()), NOW)
    key_set._settle()
    with pytest.raises(AuthInvalid):
        who.identify(bearer(token()), NOW)


def test_what_is_remembered_does_not_outlive_the_configuration() -> None:
    key_set = read_key_set()
    assert identity(key_set).identify(bearer(token()), NOW) is not None
    with pytest.raises(AuthInvalid):
        identity(key_set, auth(audience="others")).identify(bearer(token()), NOW)


def test_a_bad_token_is_verified_once_in_five_seconds(verifications: list[str]) -> None:
    who = identity()
    for later in (0.0, 1.0, BAD_FOR - 0.1):
        with pytest.raises(AuthInvalid, match="signature"):
            who.identify(bearer(token(rsa_key(1))), NOW + later)
    assert len(verifications) == 1
    with pytest.raises(AuthInvalid):
        who.identify(bearer(token(rsa_key(1))), NOW + BAD_FOR)
    assert len(verifications) == 2


def test_what_is_remembered_lasts_as_long_as_the_file_says(verifications: list[str]) -> None:
    who = identity(settings=auth(verification={"remember": "2s", "remember_bad": "1s"}))
    for now, judged in ((0.0, 1), (1.9, 1), (2.0, 2)):
        who.identify(bearer(token()), NOW + now)
        assert len(verifications) == judged
    verifications.clear()
    for now, judged in ((0.0, 1), (0.9, 1), (1.0, 2)):
        with pytest.raises(AuthInvalid):
            who.identify(bearer(token(rsa_key(1))), NOW + now)
        assert len(verifications) == judged


def test_nothing_is_remembered_where_the_file_says_so(verifications: list[str]) -> None:
    who = identity(settings=auth(verification={"remember": "0s"}))
    who.identify(bearer(token()), NOW)
    who.identify(bearer(token()), NOW)
    assert len(verifications) == 2


def test_as_many_tokens_are_remembered_as_the_file_says(verifications: list[str]) -> None:
    who = identity(settings=auth(verification={"entries": 2}))
    shown = [bearer(token(jti=str(number))) for number in range(3)]
    for each in (*shown, shown[2], shown[1]):
        who.identify(each, NOW)
    assert len(verifications) == 3
    who.identify(shown[0], NOW)
    assert len(verifications) == 4


@pytest.mark.parametrize("step", [60.0, -7200.0, 7200.0])
def test_a_clock_that_is_set_costs_a_verification_and_no_session(step: float, verifications: list[str]) -> None:
    who = identity()
    shown = bearer(token(exp=NOW + 8000))
    for now in (NOW, NOW + step, NOW + step + 1, NOW):
        assert who.identify(shown, now) is not None
    assert len(verifications) <= 3


def test_a_token_that_ends_soon_survives_a_step_within_the_leeway() -> None:
    assert identity().identify(bearer(token(exp=NOW + 31)), NOW + 60) is not None


def test_a_token_that_was_good_is_familiar_until_it_is_not(verifications: list[str]) -> None:
    key_set = read_key_set()
    who = identity(key_set)
    good, bad = token(), token(rsa_key(1))
    familiar = [hashlib.sha256(each).digest() for each in (good, bad)]
    who.identify(bearer(good), NOW)
    with pytest.raises(AuthInvalid):
        who.identify(bearer(bad), NOW)
    assert [who._tokens.is_familiar(each) for each in familiar] == [True, False]
    with pytest.raises(AuthExpired):
        who.identify(bearer(good), NOW + 4000)
    assert not who._tokens.is_familiar(familiar[0])


def test_a_refused_token_is_counted_for_the_issuer_that_it_names() -> None:
    elsewhere = bearer(token(iss="https://elsewhere.example.com"))
    named = (
        bearer(token(rsa_key(1))), bearer(token(aud="others")), bearer(token(aud=7)), bearer(token(exp=...)),
        bearer(token(exp=NOW - 40)), bearer(token(header={"alg": "HS256"})), bearer(token(org=7)),
    )  # fmt: skip
    who = identity()
    for shown, issuer in (*((each, "corp") for each in named), (elsewhere, ""), (bearer(b"a.b.c"), "")):
        # The second time it is told from memory.
        for _ in range(2):
            with pytest.raises(AuthMissing) as caught:
                who.identify(shown, NOW)
            assert caught.value.issuer == issuer


def test_a_token_that_was_too_early_is_good_in_time() -> None:
    who = identity()
    shown = bearer(token(nbf=NOW + 40))
    with pytest.raises(AuthInvalid):
        who.identify(shown, NOW)
    assert who.identify(shown, NOW + 10) is not None


def test_a_token_that_a_new_key_makes_good_is_good_at_once() -> None:
    key_set = read_key_set(keys_of(jwk(rsa_key(1))))
    who = identity(key_set)
    with pytest.raises(AuthInvalid):
        who.identify(bearer(token()), NOW)
    key_set._take(keys_of(jwk(rsa_key())))
    assert who.identify(bearer(token()), NOW) is not None


def test_bad_tokens_push_out_no_good_ones_and_are_bounded(verifications: list[str]) -> None:
    who = identity(settings=auth(verification={"entries": 50}))
    shown = bearer(token())
    who.identify(shown, NOW)
    for number in range(100):
        with pytest.raises(AuthInvalid):
            who.identify(bearer(b"a.b.%d" % number), NOW)
    assert len(who._tokens._bad) == 50
    assert who.identify(shown, NOW) is not None
    assert len(verifications) == 1
