"""Names that would get a meaning on the way from one generation to another."""

from gateway.a2a.versions.foreign import drop, foreign


def test_names_are_known_in_both_spellings_of_protojson() -> None:
    assert foreign("taskId", "referenceTaskIds", "kind") == {
        "taskId", "task_id", "referenceTaskIds", "reference_task_ids", "kind",
    }  # fmt: skip


def test_members_of_these_names_go_and_others_stay() -> None:
    tree = {"taskId": 1, "task_id": None, "taskid": 2}
    drop(tree, foreign("taskId", "contextId"))
    assert tree == {"taskid": 2}
