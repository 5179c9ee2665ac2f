"""A sealed token opens for its owner alone; a context prefix depends on its words alone."""

from base64 import urlsafe_b64decode

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.tasks.token_cipher import LONGEST, SECRET, TokenCipher
from tests.table import for_each

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
WORDS = st.lists(TEXTS, max_size=4).map(tuple)
CIPHER = TokenCipher(bytes(range(SECRET)))


@given(TEXTS, WORDS, WORDS)
def test_a_token_opens_for_nothing_else(text: str, bound: tuple[str, ...], other: tuple[str, ...]) -> None:
    assume(bound != other)
    with pytest.raises(ValueError, match="no token of ours for this"):
        CIPHER.decrypt(CIPHER.encrypt(text, bound), other)


@for_each(
    "other",
    [("ab", "c"), ("abc",), ("a", "b", "c"), ("a", "bc", ""), ("", "a", "bc"), ("bc", "a"), ("a\0bc",), ()],
)
def test_words_that_read_alike_side_by_side_are_not_taken_for_each_other(other: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="no token of ours for this"):
        CIPHER.decrypt(CIPHER.encrypt("text", ("a", "bc")), other)
    assert CIPHER.name(*other) != CIPHER.name("a", "bc")


@given(TEXTS, st.data())
def test_a_token_of_which_a_bit_is_changed_does_not_open(text: str, data: st.DataObject) -> None:
    token = CIPHER.encrypt(text, ("acme",))
    at = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters(codec="ascii") | st.just("é"))
    changed = token[:at] + letter + token[at + 1 :]
    assume(changed != token)
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
        CIPHER.decrypt(changed, ("acme",))


def test_a_token_has_one_spelling() -> None:
    # Of so many bytes the last character has bits that mean nothing.
    token = CIPHER.encrypt("a", ())
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twins = [token[:-1] + letter for letter in alphabet if letter != token[-1]]
    same = [twin for twin in twins if urlsafe_b64decode(twin + "===") == urlsafe_b64decode(token + "===")]
    assert same
    for twin in same:
        with pytest.raises(ValueError, match="no token"):
            CIPHER.decrypt(twin, ())


def test_a_token_that_is_too_long_is_neither_made_nor_read() -> None:
    fits = (LONGEST * 3) // 4 - 12 - 16
    token = CIPHER.encrypt("x" * fits, ())
    assert len(token) == LONGEST
    assert CIPHER.decrypt(token, ()) == "x" * fits
    with pytest.raises(ValueError, match="too long"):
        CIPHER.encrypt("x" * (fits + 1), ())
    with pytest.raises(ValueError, match="too long"):
        CIPHER.decrypt("A" * (LONGEST + 1), ())


def test_gateways_with_one_secret_open_each_others_tokens_and_make_the_same_marks() -> None:
    twin, stranger = TokenCipher(bytes(range(SECRET))), TokenCipher(bytes(SECRET))
    token = CIPHER.encrypt("text", ("acme",))
    assert twin.decrypt(token, ("acme",)) == "text"
    assert twin.name("acme") == CIPHER.name("acme")
    with pytest.raises(ValueError, match="no token of ours for this"):
        stranger.decrypt(token, ("acme",))
    assert stranger.name("acme") != CIPHER.name("acme")


def test_prefixes_and_tokens_are_stable_between_versions() -> None:
    # Contexts at agents are called by them, and clients hold them: whoever changes them forgets what was.
    assert CIPHER.name("crm", "acme", "") == "njmdsp23qc5azllrklkph6pz7e"
    assert CIPHER.decrypt("QlEEdaeY4RyO3cUFOVL5IdCmgyTTarU0XUIqiAg5Ek4", ("acme",)) == "text"


@for_each("length", [0, 16, 31, 33, 64])
def test_a_secret_of_another_length_is_none(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        TokenCipher(bytes(length))
