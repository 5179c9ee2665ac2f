"""Every operation of the official client of 1.0 over gRPC, through a gateway to agents of every binding."""

import asyncio
from pathlib import Path

import pytest
from a2a.helpers import get_message_text
from a2a.types import (
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
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError

from tests.e2e.agents.agent import SECRET_SKILL
from tests.e2e.grpc_site import BINDINGS, calling, site
from tests.e2e.sdk import COMPLETED, WORKING, kinds, saying, send, texts, told

SOME_AGENTS = [
    pytest.param(name, marks=[] if name in ("over-rpc", "over-grpc") else pytest.mark.long) for name in BINDINGS
]
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("name", SOME_AGENTS)]


async def test_the_card_says_where_grpc_is_and_what_the_agent_is_called_there(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        listed = [
            (each.url, each.tenant)
            for each in caller.card.supported_interfaces
            if (each.protocol_binding, each.protocol_version) == ("GRPC", "1.0")
        ]
        assert listed == [(here.address, name)]


async def test_a_message_is_answered(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        task = await send(caller.unary, saying("hello"))
        assert (task.status.state, texts(task)) == (COMPLETED, [f"{name}: hello"])
        [event] = [event async for event in caller.streaming.send_message(saying("talk to me"))]
        assert get_message_text(event.message) == f"{name}: talk to me"


async def test_a_long_message_passes_both_ways(tmp_path: Path, name: str) -> None:
    words = "long " * 100_000
    async with site(tmp_path) as here, calling(here, name) as caller:
        assert texts(await send(caller.unary, saying(words))) == [f"{name}: {words}"]


async def test_a_stream_brings_every_event_in_order(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        events = [event async for event in caller.streaming.send_message(saying("stream 3"))]
        assert kinds(events) == ["task", "status_update", *["artifact_update"] * 3, "status_update"]
        assert told(events) == [f"{name}: part {number}" for number in range(3)]
        assert events[-1].status_update.status.state == COMPLETED


async def test_a_question_is_answered_in_a_second_turn(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        task = await send(caller.unary, saying("ask me"))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert get_message_text(task.status.message) == f"{name}: which one?"
        events = [event async for event in caller.streaming.send_message(saying("the blue one", task))]
        assert told(events) == [f"{name}: told the blue one"]
        assert (events[-1].status_update.task_id, events[-1].status_update.status.state) == (task.id, COMPLETED)


async def test_tasks_are_found_again_and_listed_page_by_page(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        first = await send(caller.unary, saying("one"))
        again = saying("two")
        again.message.context_id = first.context_id
        second = await send(caller.unary, again)
        assert texts(await caller.unary.get_task(GetTaskRequest(id=first.id))) == [f"{name}: one"]
        page = await caller.unary.list_tasks(ListTasksRequest(context_id=first.context_id, page_size=1))
        asked = ListTasksRequest(context_id=first.context_id, page_size=1, page_token=page.next_page_token)
        rest = await caller.unary.list_tasks(asked)
        assert (page.total_size, page.page_size, rest.next_page_token) == (2, 1, "")
        assert {task.id for task in (*page.tasks, *rest.tasks)} == {first.id, second.id}


async def test_a_running_task_is_cancelled_once(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        task = await send(caller.polling, saying("wait here"))
        cancelled = await caller.unary.cancel_task(CancelTaskRequest(id=task.id))
        assert (cancelled.id, cancelled.status.state) == (task.id, TaskState.TASK_STATE_CANCELED)
        with pytest.raises(TaskNotCancelableError):
            await caller.unary.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_running_task_is_joined_and_left_and_joined_again(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        task = await send(caller.polling, saying("wait here"))
        async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=task.id)):
            assert event.task.id == task.id
            break
        seen: list[str] = []
        async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=task.id)):
            if not seen:
                assert event.task.status.state in (WORKING, TaskState.TASK_STATE_SUBMITTED)
                here.places[name].agent.let_go(task.id)
            seen.append(event.WhichOneof("payload") or "")
        assert (seen[0], seen[-2:]) == ("task", ["artifact_update", "status_update"])
        assert event.status_update.status.state == COMPLETED


async def test_push_configurations_are_kept_read_listed_and_deleted(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        client = caller.unary
        task = await send(client, saying("hello"))
        wanted = TaskPushNotificationConfig(task_id=task.id, id="hook", url="https://hooks.example.com/a", token="t")
        one = GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
        made = await client.create_task_push_notification_config(wanted)
        assert (made.task_id, made.id, made.url, made.token) == (task.id, "hook", wanted.url, "t")
        # The agent echoes the tenant it was given; what the client reads is the one that its card told it to write.
        assert made.tenant in (name, "")
        listed = await client.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        assert [await client.get_task_push_notification_config(one), *listed.configs] == [made, made]
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
        )
        with pytest.raises(TaskNotFoundError):
            await client.get_task_push_notification_config(one)


async def test_the_extended_card_is_rebuilt_like_any_other(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        assert SECRET_SKILL not in {skill.id for skill in caller.card.skills}
        card = await caller.unary.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert SECRET_SKILL in {skill.id for skill in card.skills}
        assert card.supported_interfaces == caller.card.supported_interfaces
        backend = here.places[name].entry["backend"]
        assert str(backend).rstrip("'}").rpartition(":")[2] not in str(card.supported_interfaces)


async def test_many_calls_at_once_are_each_answered(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        tasks = await asyncio.gather(*(send(caller.unary, saying(f"call {number}")) for number in range(50)))
        assert [texts(task) for task in tasks] == [[f"{name}: call {number}"] for number in range(50)]
