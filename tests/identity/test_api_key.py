import hashlib
from datetime import UTC, date, datetime

import pytest

from gateway.a2a.fault import AuthExpired
from gateway.config.model import ApiKey
from gateway.identity.api_key import MOST_PLACES, ApiKeys
from tests.identity.issuance import sha256
from tests.table import for_each


def digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def keys(**written: dict[str, object]) -> ApiKeys:
    return ApiKeys(
        {name: ApiKey.model_validate({"tenant": "acme", **key}).as_settings() for name, key in written.items()}
    )


def seconds(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type]  # year to second


def test_a_key_is_found_by_its_hash_and_names_its_tenant() -> None:
    found = keys(batch={"sha256": sha256(b"secret")}).find(digest(b"secret"), 0.0)
    assert found is not None
    assert (found.tenant, found.subject, found.key, found.method) == ("acme", "batch", "batch", "api_key")
    assert found.narrowed is None
    assert found.expires == float("inf")


def test_both_hashes_of_a_key_that_is_being_replaced_are_good_and_an_empty_one_is_none() -> None:
    rotating = keys(batch={"sha256": [sha256(b"new"), sha256(b"old").upper()]}, other={"sha256": ["", sha256(b"x")]})
    new, old = rotating.find(digest(b"new"), 0.0), rotating.find(digest(b"old"), 0.0)
    assert new is not None
    assert old is not None
    assert new == old
    # Which of the two was shown is known for as long as a stream lasts, wherever the file writes it in capitals.
    assert (new.digest, old.digest) == (sha256(b"new"), sha256(b"old"))
    assert rotating.find(digest(b"x"), 0.0) is not None
    assert rotating.find(digest(b""), 0.0) is None


def test_a_key_is_good_through_its_whole_last_day() -> None:
    ending = keys(batch={"sha256": sha256(b"s"), "expires": date(2027, 6, 30)})
    assert ending.find(digest(b"s"), seconds(2027, 6, 30, 23, 59, 59)) is not None
    with pytest.raises(AuthExpired):
        ending.find(digest(b"s"), seconds(2027, 7, 1))


def test_a_key_may_last_to_the_end_of_time() -> None:
    assert keys(batch={"sha256": sha256(b"s"), "expires": date.max}).find(digest(b"s"), 9e15) is not None


def test_a_key_is_recalled_where_it_was_shown_before_each_hash_by_itself() -> None:
    rotating = keys(batch={"sha256": [sha256(b"new"), sha256(b"old")], "expires": date(2027, 6, 30)})
    rotating.remember(digest(b"new"), "192.0.2.1")
    assert rotating.recall(digest(b"new"), "192.0.2.1", 0.0) is rotating.find(digest(b"new"), 0.0)
    assert rotating.recall(digest(b"new"), "192.0.2.2", 0.0) is None
    assert rotating.recall(digest(b"old"), "192.0.2.1", 0.0) is None
    assert rotating.recall(digest(b"no"), "192.0.2.1", 0.0) is None
    with pytest.raises(AuthExpired):
        rotating.recall(digest(b"new"), "192.0.2.1", seconds(2027, 7, 1))


def test_the_places_of_a_key_are_bounded_and_the_oldest_goes_first() -> None:
    one = keys(batch={"sha256": sha256(b"s")})
    for number in range(MOST_PLACES + 1):
        one.remember(digest(b"s"), str(number))
    known = [number for number in range(MOST_PLACES + 1) if one.recall(digest(b"s"), str(number), 0.0)]
    assert known == list(range(1, MOST_PLACES + 1))


@for_each("written", ["abc", "zz" * 32, "ab" * 31])
def test_a_malformed_sha256_is_refused(written: str) -> None:
    unchecked = ApiKey.model_construct(sha256=(written,), tenant="acme", agents=None, expires=None)
    with pytest.raises(ValueError, match="hex"):
        ApiKeys({"batch": unchecked.as_settings()})


def test_one_hash_under_two_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="a and b have the same"):
        keys(a={"sha256": sha256(b"s")}, b={"sha256": sha256(b"s")})
