from gateway.a2a.fault import AuthInvalid
from gateway.identity.anonymous import ANONYMOUS
from gateway.identity.jwks import KeySet
from gateway.identity.verdict import Refusal, Verdict, Verdicts
from tests.identity.issuance import jwk, keys_of, read_key_set, rsa_key


def verdict(key_set: KeySet | None = None) -> Verdict:
    return Verdict(ANONYMOUS, 10.0, 20.0, key_set, key_set.version if key_set else 0)


def test_a_verdict_stands_from_when_it_was_found_until_its_end() -> None:
    verdicts = Verdicts(2)
    verdicts.put(b"a", verdict())
    assert verdicts.get(b"a", 10.0) is not None
    assert verdicts.get(b"a", 19.9) is not None
    assert verdicts.get(b"b", 19.9) is None
    assert verdicts.get(b"a", 20.0) is None
    assert (b"a" in verdicts, b"b" in verdicts) == (True, False)
    verdicts.drop(b"a")
    verdicts.drop(b"a")
    assert b"a" not in verdicts
    assert len(verdicts) == 0


def test_a_refusal_can_be_told_again_and_again() -> None:
    refusal = Refusal(AuthInvalid, "no", "not the file's", "corp")
    first, second = refusal.fault(), refusal.fault()
    assert first is not second
    assert (type(first), first.message, first.detail, first.issuer) == (AuthInvalid, "no", "not the file's", "corp")


def test_a_clock_that_was_set_back_does_not_lengthen_a_verdict() -> None:
    assert not verdict().holds(9.0)


def test_a_verdict_falls_with_the_keys_it_rests_on() -> None:
    key_set = read_key_set()
    found = verdict(key_set)
    assert found.holds(10.0)
    key_set._take(keys_of(jwk(rsa_key(1), "k2")))
    assert not found.holds(10.0)


def test_the_oldest_verdict_goes_first() -> None:
    verdicts = Verdicts(2)
    for digest in (b"a", b"b", b"a", b"c"):
        verdicts.put(digest, Verdict(Refusal(AuthInvalid, "", ""), 10.0, 20.0))
    assert [verdicts.get(digest, 15.0) is None for digest in (b"a", b"b", b"c")] == [False, True, False]
    assert len(verdicts) == 2
