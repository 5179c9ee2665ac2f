"""Marks are cut out of what an agent says, wherever they stand and however it comes in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.progress import Progress
from gateway.mark import NO_MARK, Mark

MARK = "gw-abc-"
OURS = Mark.of(MARK)


def test_ids_are_told_without_the_mark() -> None:
    told = Progress(task_id="t", context_id=MARK + "chat", state="working", event="task")
    assert OURS.unmarked_progress(told) == Progress(task_id="t", context_id="chat", state="working", event="task")
    assert OURS.unmarked_progress(Progress(task_id=MARK + "t")) == Progress(task_id="t")


@pytest.mark.parametrize("told", [Progress(), Progress(task_id="t", context_id="c"), Progress(task_id="t" + MARK)])
def test_what_has_no_mark_stays_the_same_object(told: Progress) -> None:
    assert OURS.unmarked_progress(told) is told


def test_a_tree_is_rid_of_the_mark_in_all_its_strings() -> None:
    tree = {"id": "t", "of": [{"contextId": MARK + "chat"}, f"see {MARK}a", 1, None], MARK: True}
    assert OURS.unmarked_tree(tree) == {"id": "t", "of": [{"contextId": "chat"}, "see a", 1, None], MARK: True}


@given(st.lists(st.sampled_from([MARK.encode(), b"gw-", b"abc-", b"gw-ab", b"-", b"x", b"{}"])), st.data())
def test_where_it_is_cut_does_not_matter(words: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    unmarker = OURS.unmarker()
    assert unmarker is not None
    assert b"".join(map(unmarker.feed, pieces)) + unmarker.close() == whole.replace(MARK.encode(), b"")


def test_what_is_left_around_a_mark_is_none_wherever_it_is_cut() -> None:
    unmarker = OURS.unmarker()
    assert unmarker is not None
    assert unmarker.feed(b"gw-gw-abc-") + unmarker.feed(b"abc-") + unmarker.close() == b"gw-abc-"


def test_where_there_is_no_mark_all_stays_as_it_is() -> None:
    tree, told = {"id": MARK}, Progress(task_id=MARK + "t")
    assert NO_MARK.unmarked(MARK.encode()) == MARK.encode()
    assert NO_MARK.unmarked_tree(tree) is tree
    assert NO_MARK.unmarked_progress(told) is told
    assert NO_MARK.unmarker() is None
