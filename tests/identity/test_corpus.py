"""The corpus of bad tokens and key sets, one by one where tokens are judged and where key sets are read."""

from contextlib import suppress

import pytest

from gateway.a2a.fault import AuthMissing
from gateway.config.model import Auth
from gateway.identity.authenticator import Identity
from gateway.identity.jwk import Keys, KeySetInvalid, parse_keys
from gateway.identity.jwks import KeySet
from gateway.identity.pending import Pending
from gateway.principal import Principal
from tests.doubles.yardstick import cpu_seconds
from tests.identity.corpus.genuine import ALGORITHMS, EVIL, good, published, said
from tests.identity.corpus.key_set import poisoned
from tests.identity.corpus.token import tokens
from tests.identity.issuance import (
    NOW,
    auth,
    bearer,
    compact,
    ec_key,
    identity,
    key_set_document,
    read_key_set,
    rsa_key,
    unread_key_set,
)

TOKENS = tokens(NOW)
KEY_SETS = poisoned()
SETTINGS: Auth = auth(algorithms=list(ALGORITHMS), verification={"failures": "100000/s"})


def read() -> Keys:
    return parse_keys(key_set_document(*published()), frozenset(ALGORITHMS))


def judged(who: Identity, key_set: KeySet, token: bytes) -> Principal | None:
    """What comes of a token, with the reading that an unknown key may cause."""
    try:
        return who.identify(bearer(token), NOW)
    except Pending:
        key_set._settle()
    return who.identify(bearer(token), NOW)


def test_there_are_enough_of_them() -> None:
    assert len(TOKENS) > 400
    assert len(KEY_SETS) > 50


@pytest.mark.parametrize("name", TOKENS)
def test_a_bad_token_is_refused_and_the_next_good_one_is_not(name: str) -> None:
    key_set = read_key_set(read())
    who = identity(key_set, SETTINGS)
    with pytest.raises(AuthMissing) as caught:
        judged(who, key_set, TOKENS[name])
    assert caught.value.http_status == 401
    assert len(caught.value.message) < 80
    principal = judged(who, key_set, good(NOW))
    assert principal is not None
    assert principal.tenant == "acme"


@pytest.mark.parametrize("name", TOKENS)
def test_without_keys_a_bad_token_is_no_better(name: str) -> None:
    unread = unread_key_set()
    with pytest.raises((AuthMissing, Pending)):
        identity(unread, SETTINGS).identify(bearer(TOKENS[name]), NOW)


def test_a_bad_token_takes_no_time() -> None:
    def judge_all() -> None:
        # Afresh, so that none of them was seen before.
        who = identity(read_key_set(read()), SETTINGS)
        for token in TOKENS.values():
            with pytest.raises((AuthMissing, Pending)):
                who.identify(bearer(token), NOW)

    # Half a millisecond each, by far.
    assert cpu_seconds(judge_all) < 0.0005 * len(TOKENS)


@pytest.mark.parametrize("name", KEY_SETS)
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


@pytest.mark.parametrize("name", [name for name in KEY_SETS if name.startswith("beside: ")])
def test_a_poisoned_key_set_lets_nobody_in_even_if_it_is_the_first(name: str) -> None:
    key_set = read_key_set(parse_keys(KEY_SETS[name], frozenset(ALGORITHMS)))
    who = identity(key_set, SETTINGS)
    for kid in ("k1", "evil"):
        for algorithm, key in (("RS256", rsa_key(EVIL)), ("ES256", ec_key(EVIL))):
            with pytest.raises(AuthMissing):
                judged(who, key_set, compact({"alg": algorithm, "kid": kid}, said(NOW), key))


def test_no_key_set_takes_long_to_read() -> None:
    def read_all() -> None:
        for document in KEY_SETS.values():
            with suppress(KeySetInvalid):
                parse_keys(document, frozenset(ALGORITHMS))

    assert cpu_seconds(read_all) < 0.2
