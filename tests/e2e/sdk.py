"""The official client, starting from nothing but a URL behind the gateway and a credential."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.helpers import get_artifact_text, new_text_message
from a2a.types import AgentCard, Message, Role, SendMessageRequest, StreamResponse, Task, TaskState

from tests.e2e.site import FORGED, Site, Way

BINDINGS = ("JSONRPC", "HTTP+JSON")

COMPLETED = TaskState.TASK_STATE_COMPLETED
WORKING = TaskState.TASK_STATE_WORKING


@dataclass
class Caller:
    """A client of one agent.

    Attributes:
        streaming: The client that streams what it sends.
        unary: The client that waits for the whole answer.
        polling: The client that does not wait for the task.
        answers: Every HTTP answer so far, cards too.
    """

    http: httpx.AsyncClient
    card: AgentCard
    streaming: Client
    unary: Client
    polling: Client
    answers: list[httpx.Response] = field(default_factory=list)


@asynccontextmanager
async def calling(site: Site, way: Way, binding: str) -> AsyncIterator[Caller]:
    """A caller on a way; every answer it gets must bear a request id of the gateway's own."""
    async with open_http({**FORGED, **way.headers}) as http:
        answers: list[httpx.Response] = []

        async def keep(answer: httpx.Response) -> None:
            answers.append(answer)

        http.event_hooks["response"].append(keep)
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
        streaming = await ClientFactory(config).create_from_url(site.gateway.url + way.path)
        card: AgentCard = streaming._card  # type: ignore[attr-defined]  # the factory gives it to nobody
        yield Caller(
            http=http,
            card=card,
            streaming=streaming,
            unary=ClientFactory(replace(config, streaming=False)).create(card),
            polling=ClientFactory(replace(config, streaming=False, polling=True)).create(card),
            answers=answers,
        )
        ids = [answer.headers["x-request-id"] for answer in answers]
        assert len(set(ids)) == len(ids)
        assert "forged" not in ids


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
    """What sort of event each is."""
    return [event.WhichOneof("payload") or "" for event in events]


def told(events: list[StreamResponse]) -> list[str]:
    """The text of every artifact of a stream."""
    return [get_artifact_text(event.artifact_update.artifact) for event in events if event.HasField("artifact_update")]


def texts(task: Task) -> list[str]:
    """The text of every artifact of a task."""
    return [get_artifact_text(artifact) for artifact in task.artifacts]
