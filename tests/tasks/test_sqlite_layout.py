"""How arrivals are laid out: what a head and a line say, and what is none."""

import zlib

import pytest

from gateway.tasks.sqlite_arrivals import MOST
from gateway.tasks.sqlite_layout import GONE, HEAD, LAYOUT, NONE, entries_of, line_of, read_head
from gateway.tasks.sqlite_young import Entry

ENTRIES = [Entry(kind, "crm", "t1\n", "acme", "", "", "working", "", "", 1, 1) for kind in (0, 1)]


@pytest.mark.parametrize("found", [(0, HEAD), (1, HEAD), (7, 16 << 20), (10**19, 10**19)])
def test_a_head_says_the_epoch_and_the_end(found: tuple[int, int]) -> None:
    assert read_head(LAYOUT % found) == found


@pytest.mark.parametrize(
    "head",
    [
        b"",
        NONE,
        GONE,
        LAYOUT % (1, HEAD - 1),
        (LAYOUT % (1, HEAD))[:-1],
        LAYOUT % (1, HEAD) + b"\n",
        (LAYOUT % (1, HEAD)).replace(b"2", b"1", 1),
        (LAYOUT % (1, HEAD)).replace(b" 0", b" +"),
        (LAYOUT % (1, HEAD)).replace(b" 0", b"  "),
        LAYOUT % (10**20, HEAD),
    ],
)
def test_anything_else_is_no_head(head: bytes) -> None:
    assert read_head(head) is None


def test_what_changes_in_a_head_is_written_at_once() -> None:
    """While others compare it: half of the old one and half of the new one are not like one that they know."""
    line_of_cache, word = 64, 8
    least, most = LAYOUT % (1, HEAD), LAYOUT % (10**20 - 1, 10**20 - 1)
    assert all(least[at] == most[at] for at in range(line_of_cache, HEAD))
    # One line more than that: an agent's frame is 16 MiB at the very most, and its ids are 4 KiB.
    least, most = LAYOUT % (7, HEAD), LAYOUT % (7, 4 * MOST)
    changed = [at for at in range(HEAD) if least[at] != most[at]]
    assert {at // word for at in changed} == {changed[-1] // word}
    assert len(GONE) == len(NONE) == HEAD


def test_a_line_says_its_entries_in_its_epoch_alone() -> None:
    for entries in (ENTRIES, []):
        line = line_of(entries, 7)
        assert line.count(b"\n") == 1
        assert entries_of(line[:-1], 7) == entries
        for epoch in (0, 6, 8, 7 + (1 << 31)):
            assert entries_of(line[:-1], epoch) is None


def test_a_line_that_is_not_whole_says_nothing() -> None:
    line = line_of(ENTRIES, 7)[:-1]
    for cut in range(len(line)):
        assert entries_of(line[:cut], 7) is None
        assert entries_of(line[:cut] + b"\0" + line[cut + 1 :], 7) is None


@pytest.mark.parametrize("text", [b"{}", b"[1]", b'[[1,"s"]]', b'[[1,"\xff"]]', b""])
def test_what_has_the_checksum_and_is_no_list_of_entries_says_nothing(text: bytes) -> None:
    assert entries_of(b"%08x%b" % (zlib.crc32(text, 7), text), 7) is None
