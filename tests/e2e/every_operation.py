"""What the official clients of both generations can ask of an agent, whatever stands between the two."""

import asyncio
from typing import Any

import pytest
from a2a.helpers import get_message_text
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotFoundError, UnsupportedOperationError

from tests.e2e.agents.agent import SECRET_SKILL
from tests.e2e.previous import PreviousClient, SdkFailed
from tests.e2e.sdk import COMPLETED, Caller, kinds, saying, send, texts, told
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


# ---- Of 1.0 ----------------------------------------------------------------------------------------------------------


async def talks(caller: Caller, name: str) -> None:
    """Send messages, read a stream, and take a second turn.

    Args:
        name: What the agent puts before what it says.
    """
    task = await send(caller.unary, saying("hello"))
    assert (task.status.state, texts(task)) == (COMPLETED, [f"{name}: hello"])
    events = [event async for event in caller.streaming.send_message(saying("stream 3"))]
    assert told(events) == [f"{name}: part {number}" for number in range(3)]
    assert events[-1].status_update.status.state == COMPLETED
    [event] = [event async for event in caller.streaming.send_message(saying("talk to me"))]
    assert get_message_text(event.message) == f"{name}: talk to me"
    question = await send(caller.unary, saying("ask"))
    assert question.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    again = await send(caller.unary, saying("blue", question))
    assert (again.id, again.status.state) == (question.id, COMPLETED)


async def keeps_tasks(caller: Caller, name: str, *, old: bool) -> None:
    """Find, list, join and cancel tasks.

    Args:
        old: Whether the agent is of 0.3 and not behind HTTP: its SDK has no list, and ends a stream without a word.
    """
    task = await send(caller.unary, saying("hello"))
    found = await caller.unary.get_task(GetTaskRequest(id=task.id))
    assert (found.id, texts(found)) == (task.id, [f"{name}: hello"])
    with pytest.raises(TaskNotFoundError):
        await caller.unary.get_task(GetTaskRequest(id="no-such-task"))
    if old:
        with pytest.raises(UnsupportedOperationError):
            await caller.unary.list_tasks(ListTasksRequest())
    else:
        page = await caller.unary.list_tasks(ListTasksRequest(context_id=task.context_id))
        assert [each.id for each in page.tasks] == [task.id]
    running = await send(caller.polling, saying("wait"))
    joined: list[Any] = []
    async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=running.id)):
        if not joined:
            cancelled = await caller.unary.cancel_task(CancelTaskRequest(id=running.id))
            assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        joined.append(event)
    assert old or joined[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED


async def shows_its_extended_card(caller: Caller) -> None:
    """Ask for it."""
    card = await caller.unary.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert SECRET_SKILL in {skill.id for skill in card.skills}


async def streams(caller: Caller, name: str, pieces: int = 1000) -> None:
    """Read a stream of many events."""
    events = [event async for event in caller.streaming.send_message(saying(f"stream {pieces}"))]
    assert told(events) == [f"{name}: part {number}" for number in range(pieces)]
    assert kinds(events)[-1] == "status_update"


async def answers_each(caller: Caller, name: str, calls: int = 200) -> None:
    """Make many calls at a time, a quarter of them streams."""

    async def one(number: int) -> list[str]:
        if number % 4:
            return texts(await send(caller.unary, saying(f"number {number}")))
        return told([event async for event in caller.streaming.send_message(saying(f"stream {number % 7}"))])

    answers = await asyncio.gather(*map(one, range(calls)))
    for number, answer in enumerate(answers):
        if number % 4:
            assert answer == [f"{name}: number {number}"]
        else:
            assert answer == [f"{name}: part {part}" for part in range(number % 7)]
