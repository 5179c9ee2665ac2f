from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.a2a.fault import AuthExpired, AuthInvalid, Fault
from gateway.config.model import Auth
from gateway.identity.anonymous import ANONYMOUS
from gateway.identity.authenticator import Credentials, Identity, Pending
from tests.identity.issuance import NOW, auth, bearer, identity, sha256, token

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
