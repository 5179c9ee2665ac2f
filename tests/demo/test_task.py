"""A task is what its steps have made of it."""

from gateway.demo.task import Chunk, Status, Task, say


def test_statuses_are_spelled_as_1_0_spells_them() -> None:
    task = Task("c")
    event = task.take(Status("input-required", "When?"))
    assert event["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert event["statusUpdate"]["status"]["message"]["parts"] == [{"text": "When?"}]
    assert (event["statusUpdate"]["taskId"], event["statusUpdate"]["contextId"]) == (task.id, "c")


def test_pieces_of_the_result_become_one_artifact() -> None:
    task = Task("c")
    events = [task.take(Chunk("a")), task.take(Chunk("b", last=True))]
    assert [event["artifactUpdate"]["append"] for event in events] == [False, True]
    assert [event["artifactUpdate"]["lastChunk"] for event in events] == [False, True]
    assert [part["text"] for part in task.snapshot()["artifacts"][0]["parts"]] == ["a", "b"]
    assert "artifacts" not in task.snapshot(artifacts=False)


def test_a_snapshot_does_not_change_any_more() -> None:
    task = Task("c")
    task.take(Chunk("a"))
    before = task.snapshot()
    task.take(Chunk("b"))
    task.hear(say("x"))
    assert len(before["artifacts"][0]["parts"]) == 1
    assert "history" not in before


def test_history_is_in_the_order_of_the_talk_and_can_be_shortened() -> None:
    task = Task("c")
    task.hear(say("one"))
    task.take(Status("input-required", "two"))
    task.hear(say("three"))
    assert [message["parts"][0]["text"] for message in task.snapshot()["history"]] == ["one", "two", "three"]
    assert [message["parts"][0]["text"] for message in task.snapshot(1)["history"]] == ["three"]
    assert "history" not in task.snapshot(0)


def test_watchers_hear_everything_until_they_leave() -> None:
    task = Task("c")
    queue = task.watch()
    task.tell({"a": 1})
    task.unwatch(queue)
    task.tell(None)
    assert queue.get_nowait() == {"a": 1}
    assert queue.empty()
