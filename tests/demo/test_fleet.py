"""The sample agents satisfy the official SDK's client, over every binding."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no stubs
import httpx
import pytest
from a2a.client.client import Client, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    InternalError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from gateway.demo.fleet import BEATS, serving
from gateway.demo.stage import free_port

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(pace=0.01, grpc=free_port(0)) as url:
        yield url


@pytest.fixture(params=["JSONRPC", "GRPC"])
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def client_of(url: str, binding: str, *, streaming: bool = True) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=10) as http:
        config = ClientConfig(
            streaming=streaming,
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[binding],
            use_client_preference=True,
        )
        async with await ClientFactory(config).create_from_url(url) as client:
            yield client


def saying(text: str, task_id: str = "", *, at_once: bool = False) -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task_id),
        configuration=SendMessageConfiguration(return_immediately=at_once),
    )


async def sent(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [event async for event in client.send_message(request)]


async def test_the_clock_streams_ten_events(url: str, binding: str) -> None:
    async with client_of(f"{url}/clock", binding) as client:
        events = await sent(client, saying("Go"))
    assert events[0].task.status.state == TaskState.TASK_STATE_SUBMITTED
    pieces = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [piece.append for piece in pieces] == [False] + [True] * (BEATS - 1)
    assert [piece.last_chunk for piece in pieces] == [False] * (BEATS - 1) + [True]
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


async def test_a_send_blocks_until_the_task_rests_unless_it_says_otherwise(url: str, binding: str) -> None:
    async with client_of(f"{url}/clock", binding, streaming=False) as client:
        [answer] = await sent(client, saying("Go"))
        assert answer.task.status.state == TaskState.TASK_STATE_COMPLETED
        assert len(answer.task.artifacts[0].parts) == BEATS
        [early] = await sent(client, saying("Go", at_once=True))
        assert early.task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)


async def test_a_task_can_be_watched_again_and_cancelled(url: str, binding: str) -> None:
    async with client_of(f"{url}/clock", binding) as client:
        stream = client.send_message(saying("Go"))
        first = await anext(stream)
        task_id = first.task.id
        watching = client.subscribe(SubscribeToTaskRequest(id=task_id))
        assert (await anext(watching)).task.id == task_id
        cancelled = await client.cancel_task(CancelTaskRequest(id=task_id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        last = [event async for event in watching][-1]
        assert last.status_update.status.state == TaskState.TASK_STATE_CANCELED
        assert [event async for event in stream][-1].status_update.status.state == TaskState.TASK_STATE_CANCELED
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task_id))
        with pytest.raises(UnsupportedOperationError):
            await anext(client.subscribe(SubscribeToTaskRequest(id=task_id)))


async def test_travel_asks_back_and_goes_on_with_the_same_task(url: str, binding: str) -> None:
    async with client_of(f"{url}/travel", binding) as client:
        asked = await sent(client, saying("To Lisbon"))
        assert asked[-1].status_update.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        task_id = asked[0].task.id
        booked = await sent(client, saying("Friday", task_id))
        assert booked[0].task.id == task_id
        assert booked[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        task = await client.get_task(GetTaskRequest(id=task_id))
        assert task.artifacts[0].parts[0].text == "Booked for Friday."
        assert [message.parts[0].text for message in task.history] == [
            "To Lisbon",
            "'To Lisbon': gladly. On which day?",
            "Friday",
        ]
        assert not (await client.get_task(GetTaskRequest(id=task_id, history_length=0))).history
        with pytest.raises(UnsupportedOperationError):
            await sent(client, saying("Saturday", task_id))


async def test_flaky_fails_every_third_time_in_two_ways(url: str, binding: str) -> None:
    async with client_of(f"{url}/flaky", binding, streaming=False) as client:
        seen = []
        for _ in range(6):
            try:
                [answer] = await sent(client, saying("Dare"))
                seen.append(TaskState.Name(answer.task.status.state))
            except InternalError:
                seen.append("error")
    good = "TASK_STATE_COMPLETED"
    assert seen == [good, good, "TASK_STATE_FAILED", good, good, "error"]


async def test_unsupported_operations_get_the_protocols_errors(url: str, binding: str) -> None:
    async with client_of(f"{url}/travel", binding) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="nothing"))
        transport = client._transport  # type: ignore[attr-defined]  # the client itself holds back what the card denies
        with pytest.raises(PushNotificationNotSupportedError):
            await transport.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id="t", id="p", url="https://hooks.example")
            )
        with pytest.raises(PushNotificationNotSupportedError):
            await transport.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id="t"))
