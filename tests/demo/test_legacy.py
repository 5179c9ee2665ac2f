"""What 0.3 clients get is what the 0.3 schema asks for."""

import pytest
from a2a.compat.v0_3 import types

from gateway.demo import legacy
from gateway.demo.task import Chunk, Status, Task, say


def test_results_and_events_are_valid_0_3() -> None:
    task = Task("c")
    task.hear({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}, {"data": {"a": 1}}]})
    piece = legacy.lower(task.take(Chunk("a", last=True)))
    asked = legacy.lower(task.take(Status("input-required", "When?")))
    done = legacy.lower(task.take(Status("completed")))
    assert types.TaskArtifactUpdateEvent.model_validate(piece).last_chunk
    assert types.TaskStatusUpdateEvent.model_validate(asked).final
    assert types.TaskStatusUpdateEvent.model_validate(done).status.state == "completed"
    whole = types.Task.model_validate(legacy.lower({"task": task.snapshot()}))
    assert whole == types.Task.model_validate(legacy.lower(task.snapshot()))
    assert whole.history is not None
    assert [message.role for message in whole.history] == ["user", "agent"]
    assert types.Message.model_validate(legacy.lower({"message": say("x")})).role == "agent"


def test_working_is_not_the_end() -> None:
    assert legacy.lower(Task("c").take(Status("working")))["final"] is False


def test_parameters_are_read_in_the_old_spelling() -> None:
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    lifted = legacy.lift({"message": message, "configuration": {"blocking": False}})
    assert lifted["message"] == {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    assert lifted["configuration"] == {"returnImmediately": True}


@pytest.mark.parametrize("params", [{}, {"id": "t"}, {"message": "x"}, {"message": {"parts": "x"}}])
def test_what_is_no_message_is_left_to_the_agent(params: dict[str, object]) -> None:
    lifted = legacy.lift(params)
    assert lifted.get("id") == params.get("id")
