"""How entries are written in a Redis, and read again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import redis_entry as entry
from gateway.tasks.redis_client import Reply
from gateway.tasks.store import LONGEST_ID, Met, Note, Owner, Row, Task

UNREADABLE: list[Reply] = [b"\xc1", b"\x90", 7, None, [b"x"]]

packed = msgspec.msgpack.encode

WORDS = st.text(st.sampled_from("\0\1\2ab/ÿ\U0001f600"), max_size=6)


@given(WORDS, WORDS)
def test_a_name_is_its_words(word: str, rest: str) -> None:
    assert entry.split(entry.named(word, rest)) == (word, rest)
    assert entry.opened(entry.closed(word)) == word


@given(st.lists(st.tuples(WORDS, WORDS), max_size=20))
def test_names_are_in_the_order_of_their_words_and_no_two_the_same(words: list[tuple[str, str]]) -> None:
    names = sorted(entry.named(*each).encode() for each in set(words))
    assert [entry.split(name.decode()) for name in names] == sorted(set(words))


def test_an_id_that_is_too_long_is_not_kept() -> None:
    assert entry.short("a" * LONGEST_ID) == "a" * LONGEST_ID
    assert entry.short("a" * (LONGEST_ID + 1)) == ""
    assert entry.told_row(Row("crm", "", task=Task(Owner("acme")))) is None
    assert entry.told_row(Row("crm", "t1")) is None


def test_rows_are_read_as_they_were_told() -> None:
    task = Task(Owner("acme", "ann"), "c1", "working", "r1", "jsonrpc/1.0", 1, 2)
    for mark, row in (
        ("t", Row("crm\0", "t1", task=task, seen=2)),
        ("c", Row("crm", "c1", context=task.owner, seen=3)),
    ):
        told = entry.told_row(row)
        assert told is not None
        tenant, (scope, id_, is_task, kept) = told
        assert (tenant, is_task) == ("acme", mark == "t")
        assert entry.read_row(mark + scope + id_, packed(kept)) == row


def test_a_note_is_read_as_it_was_told() -> None:
    note = Note("out", "k\0", b"v", "acme", "g", 1_700_000_000.5, 1_800_000_000)
    name = entry.named(note.kind, note.key)
    assert entry.read_note(name, note.value, packed(entry.told_note(note))) == note


def test_whose_it_all_is_may_be_nobodys() -> None:
    owner = Owner("acme", "ann")
    assert entry.read_met(packed((("acme", "ann"), False))) == Met(task=owner)
    assert entry.read_met(packed((False, ("acme", "ann")))) == Met(context=owner)


def test_times_are_exact_to_the_microsecond_and_never_beyond_what_lua_counts() -> None:
    assert entry.micros(1_700_000_000.25) == 1_700_000_000_250_000
    assert entry.micros(1e300) == 2**53
    assert entry.told_note(Note("k", "n", b"", due=1e-9, until=10**20))[2:] == (1, 10**12 - 1)
    assert entry.told_note(Note("k", "n", b"", due=-1.0, until=-1))[2:] == (0, 0)


def test_what_cannot_be_read_is_not_guessed_at() -> None:
    for read in (entry.read_task, entry.read_context, entry.read_met):
        for known in UNREADABLE:
            with pytest.raises(StateUnavailable):
                read(known)
    assert (entry.as_bytes(b"a"), entry.as_number(1), entry.as_list([])) == (b"a", 1, [])
    for expected in (entry.as_bytes, entry.as_list, entry.as_number):
        with pytest.raises(StateUnavailable):
            expected(None)


def test_a_list_is_read_so_many_at_a_time() -> None:
    assert list(entry.by(2, [b"a", b"1", b"b", b"2"])) == [(b"a", b"1"), (b"b", b"2")]
    assert list(entry.slices([1, 2, 3], 2)) == [[1, 2], [3]]
