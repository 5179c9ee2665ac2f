"""What the official clients of both generations can ask of an agent, whatever stands between the two."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from a2a.helpers import get_message_text
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    InternalError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from tests.e2e.agents.agent import SECRET_SKILL
from tests.e2e.sdk import COMPLETED, WORKING, Caller, kinds, saying, send, texts, told
from tests.e2e.site import HOOK

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


async def keeps_tasks(caller: Caller, name: str, *, old: bool = False) -> None:
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


async def pages_and_histories(caller: Caller) -> None:
    """List tasks page by page, and ask for a task with its history and without."""
    first = await send(caller.unary, saying("one"))
    again = saying("two")
    again.message.context_id = first.context_id
    second = await send(caller.unary, again)
    asked = ListTasksRequest(context_id=first.context_id, page_size=1)
    page = await caller.unary.list_tasks(asked)
    asked.page_token = page.next_page_token
    rest = await caller.unary.list_tasks(asked)
    assert (page.total_size, page.page_size, rest.next_page_token) == (2, 1, "")
    assert {task.id for task in (*page.tasks, *rest.tasks)} == {first.id, second.id}
    assert await caller.unary.get_task(GetTaskRequest(id=first.id)) == first
    assert len(first.history) == 1
    assert len((await caller.unary.get_task(GetTaskRequest(id=first.id, history_length=0))).history) == 0


async def joins_again(caller: Caller, let_go: Callable[[str], object]) -> None:
    """Join a running task, leave it, which cancels nothing, and join it again to its end."""
    task = await send(caller.polling, saying("wait here"))
    async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=task.id)):
        assert event.task.id == task.id
        break
    seen: list[str] = []
    async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=task.id)):
        if not seen:
            assert event.task.status.state in (WORKING, TaskState.TASK_STATE_SUBMITTED)
            let_go(task.id)
        seen += kinds([event])
    assert (seen[0], seen[-2:]) == ("task", ["artifact_update", "status_update"])
    assert event.status_update.status.state == COMPLETED


async def keeps_webhooks(caller: Caller, *, old: bool = False) -> TaskPushNotificationConfig:
    """Create a push configuration, read, list and delete it.

    Args:
        old: Whether the agent is of 0.3: its SDK calls one that is not there an internal error.
    """
    client = caller.unary
    task = await send(client, saying("hello"))
    wanted = TaskPushNotificationConfig(task_id=task.id, id="hook", url=HOOK, token="t")
    one = GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
    made = await client.create_task_push_notification_config(wanted)
    assert (made.id, made.url) == ("hook", HOOK)
    listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task.id))
    assert [await client.get_task_push_notification_config(one), *listed.configs] == [made, made]
    await client.delete_task_push_notification_config(
        DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
    )
    with pytest.raises(InternalError if old else TaskNotFoundError):
        await client.get_task_push_notification_config(one)
    return made


async def shows_its_extended_card(caller: Caller) -> AgentCard:
    """Ask for it."""
    card = await caller.unary.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert SECRET_SKILL in {skill.id for skill in card.skills}
    return card


async def passes_refusals(caller: Caller) -> None:
    """Ask for what an agent refuses; the client tells it by the agent's own error."""
    done = await send(caller.unary, saying("hello"))
    with pytest.raises(TaskNotFoundError):
        await caller.unary.cancel_task(CancelTaskRequest(id="no-such-task"))
    with pytest.raises(UnsupportedOperationError):
        _ = [event async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=done.id))]
    with pytest.raises(InvalidParamsError):
        await caller.unary.list_tasks(ListTasksRequest(page_size=1000))
    running = await send(caller.polling, saying("wait here"))
    assert (await caller.unary.cancel_task(CancelTaskRequest(id=running.id))).id == running.id
    with pytest.raises(TaskNotCancelableError):
        await caller.unary.cancel_task(CancelTaskRequest(id=running.id))
    assert (await send(caller.unary, saying("fail now"))).status.state == TaskState.TASK_STATE_FAILED


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
