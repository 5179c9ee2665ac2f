"""All that can be tried on a task by who knows its id: by a stranger, who must learn nothing, and by its owner."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from a2a.client.errors import A2AClientError
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotFoundError

from tests.e2e.agents.agent import Agent
from tests.e2e.sdk import send
from tests.e2e.shared_site import Heard, Party, asking, calls, hook, new_id
from tests.e2e.site import HOOK

Attempt = Callable[[Party, str], Awaitable[Any]]


async def _gets(party: Party, task: str) -> Task:
    return await party.unary.get_task(GetTaskRequest(id=task))


async def _sets_a_webhook(party: Party, task: str) -> Any:
    return await party.unary.create_task_push_notification_config(hook(task))


async def _gets_a_webhook(party: Party, task: str) -> Any:
    return await party.unary.get_task_push_notification_config(
        GetTaskPushNotificationConfigRequest(task_id=task, id="hook")
    )


async def _lists_webhooks(party: Party, task: str) -> Any:
    wanted = ListTaskPushNotificationConfigsRequest(task_id=task)
    return await party.unary.list_task_push_notification_configs(wanted)


async def _deletes_a_webhook(party: Party, task: str) -> None:
    wanted = DeleteTaskPushNotificationConfigRequest(task_id=task, id="hook")
    await party.unary.delete_task_push_notification_config(wanted)


async def _refers(party: Party, task: str) -> Task:
    return await party.send("as before", refers=task)


async def _names_it_in_a_webhook(party: Party, task: str) -> Task:
    return await party.send("tell me of that", hooked=True, hook_of=task)


async def _subscribes(party: Party, task: str) -> list[StreamResponse]:
    events: list[StreamResponse] = []
    async for event in party.streaming.subscribe(SubscribeToTaskRequest(id=task)):
        if not events:
            # To the end: servers of a2a-sdk 0.3 may hang for good once a subscriber has left.
            await _cancels(party, task)
        events.append(event)
    return events


async def _goes_on(party: Party, task: str) -> Task:
    return await party.send("blue", task=task)


async def _goes_on_with_a_webhook(party: Party, task: str) -> Task:
    return await party.send("blue", task=task, hooked=True)


async def _goes_on_as_a_stream(party: Party, task: str) -> list[StreamResponse]:
    return [event async for event in party.streaming.send_message(asking("blue", task=task))]


async def _cancels(party: Party, task: str) -> Task:
    return await party.unary.cancel_task(CancelTaskRequest(id=task))


ATTEMPTS: Mapping[str, Attempt] = {
    "gets": _gets,
    "sets a webhook": _sets_a_webhook,
    "gets a webhook": _gets_a_webhook,
    "lists webhooks": _lists_webhooks,
    "deletes a webhook": _deletes_a_webhook,
    "refers": _refers,
    "names it in a webhook": _names_it_in_a_webhook,
    "subscribes": _subscribes,
    "goes on": _goes_on,
    "goes on with a webhook": _goes_on_with_a_webhook,
    "goes on as a stream": _goes_on_as_a_stream,
    "cancels": _cancels,
}
"""All of it, in an order in which its owner can do it."""
ENDING = ("goes on", "goes on with a webhook", "goes on as a stream", "cancels")
"""Ways in which its owner continues a task that asks back; each has a task of its own."""


def attempts(party: Party) -> dict[str, Attempt]:
    """Return the attempts that a client has a call for."""
    lacking = set()
    if party.speech.version == "0.3":
        # The webhook of a send has no task there, and only JSON-RPC has references and lists.
        lacking = {"names it in a webhook"}
        if party.speech.binding != "JSONRPC":
            lacking |= {"refers", "lists webhooks", "deletes a webhook"}
    return {name: attempt for name, attempt in ATTEMPTS.items() if name not in lacking}


@dataclass(frozen=True, slots=True)
class Refusal:
    """All that a caller can see of a refusal, but for the ids of the request and the time.

    Attributes:
        error: The SDK's exception.
        told: The answer: status, headers and body.
    """

    error: type[Exception]
    words: str
    told: tuple[Any, ...]


async def refusal(party: Party, attempt: Attempt, task: str) -> Refusal:
    """Return the refusal of an attempt."""
    before = len(party.answers)
    with pytest.raises((A2AError, A2AClientError)) as caught:
        await attempt(party, task)
    [heard] = party.answers[before:]
    request_id = heard.answer.headers["x-request-id"]
    return Refusal(type(caught.value), str(caught.value).replace(request_id, "-"), _told(heard, request_id))


def _told(heard: Heard, request_id: str) -> tuple[Any, ...]:
    ours = ("x-request-id", "date", "connection")
    headers = [(name, value) for name, value in heard.answer.headers.multi_items() if name not in ours]
    # The request's own id, which the SDK makes.
    body = re.sub(rb'"id": ?"[^"]*"', b'"id":"-"', heard.body.replace(request_id.encode(), b"-"))
    return heard.answer.status_code, headers, body


async def tasks_of(owner: Party) -> list[Task]:
    """A task that works, with a webhook, and one that asks back for each of `ENDING`."""
    working = await send(owner.polling, asking("wait"))
    await _sets_a_webhook(owner, working.id)
    return [working, *[await owner.send("ask") for _ in ENDING]]


async def check_apart(owner: Party, stranger: Party, agent: Agent, tasks: list[Task] | None = None) -> None:
    """To a stranger a task is one that never was, the agent is not asked for it, and its owner is kept from nothing.

    Args:
        tasks: The owner's from `tasks_of`; new ones where it is left out.
    """
    tasks = await tasks_of(owner) if tasks is None else tasks
    before = await calls(owner, agent)
    tried = attempts(stranger)
    for name, attempt in tried.items():
        missing = await refusal(stranger, attempt, new_id())
        assert missing.error is TaskNotFoundError, name
        # One that works and one that asks back; the others may only not be ended by it.
        for task in tasks if name in ENDING else tasks[:2]:
            assert await refusal(stranger, attempt, task.id) == missing, name
    assert await calls(owner, agent) == before + 1
    await check_owned(owner, tasks)


async def check_owned(owner: Party, tasks: list[Task]) -> None:
    """The owner of tasks, fresh from `tasks_of`, can do all there is to be done with them."""
    working, *asking_back = tasks
    for task in tasks:
        found = await _gets(owner, task.id)
        assert (found.id, found.context_id) == (task.id, task.context_id)
    made = {name: task.id for name, task in zip(ENDING, asking_back, strict=True)}
    tried = attempts(owner)
    told = {name: await attempt(owner, made.get(name, working.id)) for name, attempt in tried.items()}
    assert (told["sets a webhook"].url, told["gets a webhook"].task_id) == (HOOK, working.id)
    if "lists webhooks" in told:
        assert [config.url for config in told["lists webhooks"].configs] == [HOOK]
    assert told["goes on"].id == made["goes on"]
    assert told["goes on"].status.state == TaskState.TASK_STATE_COMPLETED
    assert working.id in str(told["subscribes"][0])
    assert told["goes on as a stream"][-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert told["cancels"].status.state == TaskState.TASK_STATE_CANCELED
    if "deletes a webhook" in told:
        with pytest.raises(A2AError):
            await _gets_a_webhook(owner, working.id)
