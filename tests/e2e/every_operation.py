"""Every operation of a client of 0.3, whatever stands behind the gateway."""

from typing import Any

import pytest

from tests.e2e.agents.agent import SECRET_SKILL
from tests.e2e.previous import PreviousClient, SdkFailed
from tests.e2e.site import HOOK

_UNKNOWN = {"JSONRPC": -32001, "HTTP+JSON": 404, "GRPC": 5}
"""What the SDK tells of a task that nobody knows, by binding."""


def asks_all(client: PreviousClient, name: str, binding: str, *, events: int = 3) -> None:
    """Have a client that is connected ask an agent for all that there is.

    Args:
        name: What the agent puts before what it says.
        events: How many pieces it streams.
    """
    [task] = client.do("send", text="hello")
    assert (task["status"]["state"], words(task)) == ("completed", [f"{name}: hello"])
    first, *pieces, last = client.do("send", text=f"stream {events}", how="streaming")
    assert first["kind"] == "task"
    parts = [each["artifact"]["parts"][0]["text"] for each in pieces if each["kind"] == "artifact-update"]
    assert parts == [f"{name}: part {number}" for number in range(events)]
    assert (last["kind"], last["final"], last["status"]["state"]) == ("status-update", True, "completed")
    [message] = client.do("send", text="talk to me", how="streaming")
    assert (message["kind"], message["parts"][0]["text"]) == ("message", f"{name}: talk to me")
    assert client.do("get", task=task["id"])["artifacts"] == task["artifacts"]
    [question] = client.do("send", text="ask")
    assert question["status"]["state"] == "input-required"
    [again] = client.do("send", text="blue", task={"task_id": question["id"], "context_id": question["contextId"]})
    assert (again["id"], again["status"]["state"]) == (question["id"], "completed")
    [running] = client.do("send", text="wait", how="polling")
    assert client.do("cancel", task=running["id"])["status"]["state"] == "canceled"
    [running] = client.do("send", text="wait", how="polling")
    # Agents of 0.3 on stdio end it without a word.
    assert client.do("join", task=running["id"])[0]["kind"] in ("task", "status-update", "artifact-update")
    assert client.do("get", task=running["id"])["status"]["state"] == "canceled"
    made = client.do("set_push", task=task["id"], name="hook", url=HOOK)
    assert made["pushNotificationConfig"]["url"] == HOOK
    assert client.do("get_push", task=task["id"], name="hook") == made
    assert SECRET_SKILL in {skill["id"] for skill in client.do("extended")["skills"]}
    with pytest.raises(SdkFailed) as refused:
        client.do("get", task="no-such-task")
    assert refused.value.code == _UNKNOWN[binding]


def words(task: dict[str, Any]) -> list[str]:
    """The texts of a task's artifacts."""
    return [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]]
