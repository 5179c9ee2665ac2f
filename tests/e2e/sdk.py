"""The official client, starting from nothing but a URL behind the gateway and a credential."""

from collections.abc import Mapping

import httpx
from a2a.client import Client
from a2a.helpers import get_artifact_text, new_text_message
from a2a.types import Message, Role, SendMessageRequest, StreamResponse, Task, TaskState

BINDINGS = ("JSONRPC", "HTTP+JSON")

COMPLETED = TaskState.TASK_STATE_COMPLETED


def open_http(headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """A client that takes nothing from the environment."""
    return httpx.AsyncClient(trust_env=False, verify=False, timeout=20, headers=headers)


def saying(text: str, task: Task | None = None) -> SendMessageRequest:
    """A message of the user's, to a task or for a new one."""
    message: Message = new_text_message(text, role=Role.ROLE_USER)
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    return SendMessageRequest(message=message)


async def send(client: Client, request: SendMessageRequest) -> Task:
    """Send, and give the task of the only answer."""
    [answer] = [event async for event in client.send_message(request)]
    assert answer.WhichOneof("payload") == "task"
    return answer.task


def kinds(events: list[StreamResponse]) -> list[str]:
    """Return the kind of each event."""
    return [event.WhichOneof("payload") or "" for event in events]


def texts(task: Task) -> list[str]:
    """The text of every artifact of a task."""
    return [get_artifact_text(artifact) for artifact in task.artifacts]
