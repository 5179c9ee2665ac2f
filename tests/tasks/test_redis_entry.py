"""How entries are written in a Redis, and read again."""

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import redis_entry as entry
from gateway.tasks.redis_client import Reply
from gateway.tasks.store import LONGEST_ID, Note, Owner, Row, Task

UNREADABLE: list[Reply] = [b"\xc1", b"\x90", 7, None, [b"x"]]


def test_an_id_that_is_too_long_is_not_kept() -> None:
    assert entry.short("a" * LONGEST_ID) == "a" * LONGEST_ID
    assert entry.short("a" * (LONGEST_ID + 1)) == ""
    assert entry.told_row(Row("crm", "", task=Task(Owner("acme")))) is None
    assert entry.told_row(Row("crm", "t1")) is None


def test_times_are_exact_to_the_microsecond_and_never_beyond_what_lua_counts() -> None:
    assert entry.micros(1_700_000_000.25) == 1_700_000_000_250_000
    assert entry.micros(1e300) == 2**53
    assert entry.told_note(Note("k", "n", b"", due=1e-9, until=10**20))[2:] == (1, 10**12 - 1)
    assert entry.told_note(Note("k", "n", b"", due=-1.0, until=-1))[2:] == (0, 0)


def test_what_cannot_be_read_is_not_guessed_at() -> None:
    for read in (entry.read_task, entry.read_context, entry.read_decision):
        for known in UNREADABLE:
            with pytest.raises(StateUnavailable):
                read(known)
    assert (entry.as_bytes(b"a"), entry.as_number(1), entry.as_list([])) == (b"a", 1, [])
    for expected in (entry.as_bytes, entry.as_list, entry.as_number):
        with pytest.raises(StateUnavailable):
            expected(None)
