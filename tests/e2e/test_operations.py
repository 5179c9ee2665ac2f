"""Every operation of A2A 1.0 with the official client and agent, on every way to an agent, over both bindings."""

from collections.abc import AsyncIterator

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
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from tests.e2e.agents.agent import SECRET_SKILL
from tests.e2e.sdk import BINDINGS, COMPLETED, WORKING, Caller, calling, kinds, saying, send, texts, told
from tests.e2e.site import HOOK, WAYS, Site, Way
from tests.table import cells

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize(("way", "binding"), cells(WAYS, BINDINGS), ids=str, scope="module"),
]


@pytest.fixture(scope="module")
async def caller(site: Site, way: Way, binding: str) -> AsyncIterator[Caller]:
    """A caller on a way, for all the operations."""
    async with calling(site, way, binding) as found:
        yield found


async def test_a_message_is_answered_by_the_agent_at_the_end_of_the_way(site: Site, way: Way, caller: Caller) -> None:
    with site.only(way) as seen:
        task = await send(caller.unary, saying("hello"))
    assert task.status.state == COMPLETED
    assert texts(task) == [f"{way.agent}: hello"]
    [call] = seen.calls
    assert call.headers["a2a-version"] == "1.0"
    assert call.headers["x-request-id"] == caller.answers[-1].headers["x-request-id"]
    assert call.tree.get("params", call.tree)["message"]["parts"] == [{"text": "hello"}]


async def test_an_agent_may_answer_with_a_message_alone(site: Site, way: Way, caller: Caller) -> None:
    with site.only(way):
        [event] = [event async for event in caller.streaming.send_message(saying("talk to me"))]
    assert get_message_text(event.message) == f"{way.agent}: talk to me"


async def test_a_stream_brings_every_event_in_order(site: Site, way: Way, caller: Caller) -> None:
    with site.only(way):
        events = [event async for event in caller.streaming.send_message(saying("stream 3"))]
    assert kinds(events) == ["task", "status_update", *["artifact_update"] * 3, "status_update"]
    assert told(events) == [f"{way.agent}: part {number}" for number in range(3)]
    assert events[-1].status_update.status.state == COMPLETED
    assert caller.answers[-1].headers["content-type"].startswith("text/event-stream")


async def test_a_question_is_answered_in_a_second_turn(site: Site, way: Way, caller: Caller) -> None:
    with site.only(way):
        task = await send(caller.unary, saying("ask me"))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert get_message_text(task.status.message) == f"{way.agent}: which one?"
        events = [event async for event in caller.streaming.send_message(saying("the blue one", task))]
    assert told(events) == [f"{way.agent}: told the blue one"]
    assert events[-1].status_update.task_id == task.id
    assert events[-1].status_update.status.state == COMPLETED


async def test_a_task_is_found_again(site: Site, way: Way, caller: Caller) -> None:
    task = await send(caller.unary, saying("hello"))
    with site.only(way):
        whole = await caller.unary.get_task(GetTaskRequest(id=task.id))
        bare = await caller.unary.get_task(GetTaskRequest(id=task.id, history_length=0))
    assert whole == task
    assert len(whole.history) == 1
    assert len(bare.history) == 0


async def test_tasks_are_listed_page_by_page(site: Site, way: Way, caller: Caller) -> None:
    first = await send(caller.unary, saying("one"))
    again = saying("two")
    again.message.context_id = first.context_id
    second = await send(caller.unary, again)
    with site.only(way):
        page = await caller.unary.list_tasks(ListTasksRequest(context_id=first.context_id, page_size=1))
        rest = await caller.unary.list_tasks(
            ListTasksRequest(context_id=first.context_id, page_size=1, page_token=page.next_page_token)
        )
    assert (page.total_size, page.page_size) == (2, 1)
    assert {task.id for task in (*page.tasks, *rest.tasks)} == {first.id, second.id}
    assert rest.next_page_token == ""


async def test_a_running_task_is_cancelled_once(site: Site, way: Way, caller: Caller) -> None:
    with site.only(way):
        task = await send(caller.polling, saying("wait here"))
        cancelled = await caller.unary.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotCancelableError):
            await caller.unary.cancel_task(CancelTaskRequest(id=task.id))
    assert cancelled.id == task.id
    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED


async def test_a_running_task_is_joined_and_left_and_joined_again(site: Site, way: Way, caller: Caller) -> None:
    with site.only(way):
        task = await send(caller.polling, saying("wait here"))
        async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=task.id)):
            assert event.task.id == task.id
            break
        kind: list[str] = []
        async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=task.id)):
            if not kind:
                # Leaving the first stream has cancelled nothing.
                assert event.task.status.state in (WORKING, TaskState.TASK_STATE_SUBMITTED)
                site.agents[way.agent].let_go(task.id)
            kind.append(event.WhichOneof("payload") or "")
    assert kind[0] == "task"
    assert kind[-2:] == ["artifact_update", "status_update"]
    assert event.status_update.status.state == COMPLETED


async def test_push_configurations_are_kept_read_listed_and_deleted(site: Site, way: Way, caller: Caller) -> None:
    client = caller.unary
    task = await send(client, saying("hello"))
    wanted = TaskPushNotificationConfig(task_id=task.id, id="hook", url=HOOK, token="t")
    with site.only(way):
        made = await client.create_task_push_notification_config(wanted)
        read = await client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
        )
        listed = await client.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
        )
        with pytest.raises(TaskNotFoundError):
            await client.get_task_push_notification_config(
                GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
            )
    assert (made.task_id, made.id, made.url, made.token) == (task.id, "hook", wanted.url, "t")
    assert [read, *listed.configs] == [made, made]
    # The agent echoes the tenant it was given; what the client reads is the one it wrote, or none.
    assert made.tenant in (way.tenant, "")


async def test_the_extended_card_is_rebuilt_like_any_other(site: Site, way: Way, caller: Caller) -> None:
    assert SECRET_SKILL not in {skill.id for skill in caller.card.skills}
    with site.only(way):
        card = await caller.unary.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert SECRET_SKILL in {skill.id for skill in card.skills}
    assert card.supported_interfaces == caller.card.supported_interfaces
    assert card.name == way.agent
    text = caller.answers[-1].text
    assert not any(port in text for port in site.ports)
    assert "upstream.example" not in text


async def test_what_an_agent_refuses_reaches_the_client_as_it_is(site: Site, way: Way, caller: Caller) -> None:
    done = await send(caller.unary, saying("hello"))
    with site.only(way):
        with pytest.raises(TaskNotFoundError):
            await caller.unary.get_task(GetTaskRequest(id="no-such-task"))
        with pytest.raises(TaskNotFoundError):
            await caller.unary.cancel_task(CancelTaskRequest(id="no-such-task"))
        with pytest.raises(UnsupportedOperationError):
            _ = [event async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=done.id))]
        with pytest.raises(InvalidParamsError):
            await caller.unary.list_tasks(ListTasksRequest(page_size=1000))
        failed = await send(caller.unary, saying("fail now"))
    assert failed.status.state == TaskState.TASK_STATE_FAILED
