"""Marks are cut out of what an agent says, wherever they stand."""

import pytest

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


def test_where_there_is_no_mark_all_stays_as_it_is() -> None:
    tree, told = {"id": MARK}, Progress(task_id=MARK + "t")
    assert NO_MARK.unmarked(MARK.encode()) == MARK.encode()
    assert NO_MARK.unmarked_tree(tree) is tree
    assert NO_MARK.unmarked_progress(told) is told
