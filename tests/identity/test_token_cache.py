"""Results of authentication: kept for a time, up to a number, and until the keys change."""

import pytest

from gateway.a2a.fault import AuthInvalid
from gateway.identity.verification import CredentialCache
from gateway.principal import ANONYMOUS
from tests.identity.issuance import jwk, published, rsa_key


def test_a_result_is_valid_from_when_it_was_found_until_its_end() -> None:
    cache = CredentialCache(2)
    cache.put(b"a", ANONYMOUS, since=10.0, until=20.0)
    # A clock that was set back makes nothing last longer.
    for now, found in ((9.9, None), (10.0, ANONYMOUS), (19.9, ANONYMOUS), (20.0, None)):
        assert cache.find(b"a", now) is found
    assert cache.find(b"b", 15.0) is None
    assert (b"a" in cache, b"b" in cache) == (True, False)
    for _ in range(2):
        cache.drop(b"a")
        assert b"a" not in cache


def test_a_refusal_is_told_again_by_another_fault() -> None:
    cache = CredentialCache(2)
    refusal = AuthInvalid("no", detail="not the file's", issuer="corp")
    cache.put(b"a", refusal, since=10.0, until=20.0)
    told = []
    for _ in range(2):
        with pytest.raises(AuthInvalid) as caught:
            cache.find(b"a", 15.0)
        told.append(caught.value)
    assert len({id(fault) for fault in (*told, refusal)}) == 3
    assert {(fault.message, fault.detail, fault.issuer) for fault in told} == {("no", "not the file's", "corp")}


def test_a_result_ends_with_the_keys_it_rests_on() -> None:
    cache, keys = CredentialCache(2), published()
    cache.put(b"a", ANONYMOUS, since=10.0, until=20.0, key_set=keys.key_set)
    assert cache.find(b"a", 10.0) is ANONYMOUS
    keys.publish(jwk(rsa_key(1), "k2"))
    assert cache.find(b"a", 10.0) is None


def test_the_oldest_result_is_evicted_first() -> None:
    cache = CredentialCache(2)
    for digest in (b"a", b"b", b"a", b"c"):
        cache.put(digest, ANONYMOUS, since=10.0, until=20.0)
    assert [digest in cache for digest in (b"a", b"b", b"c")] == [True, False, True]
    assert len(cache) == 2
