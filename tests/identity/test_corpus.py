"""The corpus of bad tokens and key sets, one by one where tokens are judged and where key sets are read."""

from contextlib import suppress
from functools import cache

import pytest

from gateway.a2a.fault import AuthMissing, AuthUnavailable
from gateway.config.model import Auth
from gateway.identity.authenticator import Authenticator
from gateway.identity.jwks import Keys, KeySetInvalid, parse_keys
from tests.identity.corpus.genuine import ALGORITHMS, EVIL, good, published, said
from tests.identity.corpus.key_set import poisoned
from tests.identity.corpus.token import tokens
from tests.identity.issuance import (
    KEYS,
    NOW,
    Published,
    auth,
    authenticator,
    bearer,
    compact,
    ec_key,
    identify,
    key_set_document,
    rsa_key,
    run,
)
from tests.support.yardstick import cpu_seconds
from tests.table import for_each

TOKENS = tokens(NOW)
KEY_SETS = poisoned()
GOOD = key_set_document(*published())
SETTINGS: Auth = auth(algorithms=list(ALGORITHMS), verification={"failures": "100000/s"})


def read() -> Keys:
    return parse_keys(GOOD, frozenset(ALGORITHMS))


@cache
def reading(document: bytes) -> Published:
    """Keys that were read, and are not read again for a token that names another."""
    keys = Published(algorithms=ALGORITHMS)
    keys.documents[KEYS] = document
    assert keys.read()
    run(keys.exhaust())
    return keys


def who(document: bytes = GOOD) -> Authenticator:
    return authenticator(reading(document).key_set, SETTINGS)


def test_the_corpus_is_large_enough() -> None:
    assert len(TOKENS) > 400
    assert len(KEY_SETS) > 50


@for_each("name", TOKENS)
def test_a_bad_token_is_refused_and_the_next_good_one_is_not(name: str) -> None:
    asked = who()
    with pytest.raises(AuthMissing) as caught:
        identify(asked, bearer(TOKENS[name]))
    assert caught.value.http_status == 401
    assert len(caught.value.message) < 80
    principal = identify(asked, bearer(good(NOW)))
    assert principal is not None
    assert principal.tenant == "acme"


@for_each("name", TOKENS)
def test_without_keys_a_bad_token_is_no_better(name: str) -> None:
    with pytest.raises((AuthMissing, AuthUnavailable)):
        identify(authenticator(down().key_set, SETTINGS), bearer(TOKENS[name]))


@cache
def down() -> Published:
    """An issuer that does not answer."""
    keys = Published()
    assert not keys.read()
    return keys


def test_a_bad_token_takes_no_time() -> None:
    def judge_all() -> None:
        # Afresh, so that none of them was seen before.
        asked = who()
        for token in TOKENS.values():
            with pytest.raises(AuthMissing):
                identify(asked, bearer(token))

    # Half a millisecond each, by far.
    assert cpu_seconds(judge_all) < 0.0005 * len(TOKENS)


@for_each("name", KEY_SETS)
def test_a_poisoned_key_set_changes_nothing(name: str) -> None:
    before = read()
    if name.startswith("whole: "):
        with pytest.raises(KeySetInvalid) as caught:
            parse_keys(KEY_SETS[name], frozenset(ALGORITHMS), before=before)
        assert len(str(caught.value)) < 80
        return
    keys = parse_keys(KEY_SETS[name], frozenset(ALGORITHMS), before=before)
    assert keys.content == before.content
    # The Ed25519 key of the issuer is left out, too.
    assert keys.ignored == 2


@for_each("name", [name for name in KEY_SETS if name.startswith("beside: ")])
def test_a_poisoned_key_set_lets_nobody_in_even_if_it_is_the_first(name: str) -> None:
    asked = who(KEY_SETS[name])
    for kid in ("k1", "evil"):
        for algorithm, key in (("RS256", rsa_key(EVIL)), ("ES256", ec_key(EVIL))):
            with pytest.raises(AuthMissing):
                identify(asked, bearer(compact({"alg": algorithm, "kid": kid}, said(NOW), key)))


def test_no_key_set_takes_long_to_read() -> None:
    def read_all() -> None:
        for document in KEY_SETS.values():
            with suppress(KeySetInvalid):
                parse_keys(document, frozenset(ALGORITHMS))

    assert cpu_seconds(read_all) < 0.2
