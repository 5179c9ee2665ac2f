"""The gateway's callbacks: what is taken of what agents post, and what clients are told of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore
from a2a.types import TaskPushNotificationConfig, TaskState, TaskStatus, TaskStatusUpdateEvent

from gateway.a2a.dialect import Dialect, Version
from gateway.a2a.fault import StateUnavailable
from gateway.push.delivery import Deliverer
from gateway.push.hook import SETTLED, digest
from gateway.push.outbox import MOST_WAITING, Outbox
from gateway.push.relay import PATH
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Note
from gateway.telemetry.audit import Event
from tests.doubles.scripted import ScriptedBackend, Wire, answers, whole
from tests.push.desk import (
    ANN,
    CLIENT,
    PAYLOADS,
    TASK,
    V0_1,
    V0_3,
    V1_0,
    Desk,
    body_of,
    id_of,
    told,
)
from tests.push.receiving import local, trusting, url, webhook

pytestmark = pytest.mark.anyio


# ---- Received --------------------------------------------------------------------------------------------------------


async def test_what_an_agent_posts_waits_for_its_webhook() -> None:
    desk = Desk()
    adopted = await desk.adopt()
    assert await desk.post(adopted) == 200
    (slip,) = await desk.waiting(adopted)
    assert (slip["tenant"], slip["agent"], slip["task"]) == ("acme", "crm", "task-7")
    assert slip["content_type"] == "application/a2a+json"
    ((hook, progress),) = desk.met
    assert (hook.owner, hook.scope, progress.task_id, progress.state) == (ANN, "crm/acme", "task-7", "working")
    assert await desk.post(adopted) == 200
    assert len(await desk.waiting(adopted)) == 1
    assert desk.counted == []


@pytest.mark.parametrize(
    "headers",
    [
        {"x_a2a_notification_token": "{}"},
        {"authorization": "Bearer {}"},
        {"authorization": "bearer  {}"},
        {"authorization": "Bearer other.signed.token", "x_a2a_notification_token": "{}"},
        {"authorization": "Bearer {}", "x_a2a_notification_token": "other"},
    ],
)
async def test_the_token_may_come_in_either_place(headers: dict[str, str]) -> None:
    desk = Desk()
    adopted = await desk.adopt()
    shown = {name: value.format(adopted.config["token"]) for name, value in headers.items()}
    assert await desk.show(adopted, shown) == 200


async def test_without_its_path_and_its_token_nothing_is_taken_and_nothing_is_told() -> None:
    desk = Desk()
    adopted = await desk.adopt()
    token, own = adopted.config["token"], id_of(adopted)
    good = {b"x-a2a-notification-token": token.encode()}
    for hook_id in ("", "x", "x" * 43, own[:-1], own + "x", own[:-1] + "é", adopted.hook_id, "../" + own):
        assert await desk.call(hook_id, good, TASK) == 404
    for bad in (
        {},
        {b"x-a2a-notification-token": b""},
        {b"x-a2a-notification-token": token[:-1].encode()},
        {b"x-a2a-notification-token": b"\xff\xfe"},
        {b"x-a2a-notification-token": b"tok-123"},
        {b"x-a2a-notification-token": digest(token).encode()},
        {b"authorization": b"Bearer"},
        {b"authorization": b"Basic " + token.encode()},
        {b"authorization": token.encode()},
    ):
        # Not even whether it is too long, or a notification at all.
        for body in (TASK, b"", b"x" * (desk.relay.max_body + 1)):
            assert await desk.call(own, bad, body) == 404
    assert await desk.waiting(adopted) == []
    assert (desk.met, desk.counted) == ([], [])
    # Whoever knows the path but not the token is told of, others are anybody.
    unproven = (Event.NOTIFICATION_REFUSED, "it does not show the token of its callback")
    assert desk.audited == [unproven] * 27


async def test_a_notification_of_a_foreign_task_is_an_event_of_the_audit_log() -> None:
    desk = Desk()
    adopted = await desk.adopt()
    assert await desk.post(adopted, TASK.replace(b"task-7", b"task-8")) == 403
    desk.owned = False
    assert await desk.post(adopted) == 403
    assert desk.audited == [(Event.NOTIFICATION_REFUSED, "it is of another task")] * 2


async def test_an_agent_of_0_1_shows_no_token_but_no_wrong_one_either() -> None:
    desk = Desk()
    adopted = await desk.adopt(asked=Version.V0_1)
    body = b'{"id":"task-7","status":{"state":"working"}}'
    assert await desk.post(adopted, body, authorization="Bearer its.own.signature") == 200
    assert await desk.post(adopted, body, x_a2a_notification_token="wrong") == 404
    modern = await desk.adopt({**CLIENT, "id": "cfg-2"}, asked=Version.V0_3)
    assert await desk.post(modern, body, authorization="Bearer its.own.signature") == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{}", 400),
        (b"[1]", 400),
        (b"\xff", 400),
        (b'{"jsonrpc":"2.0","result":{}}', 400),
        (b'{"statusUpdate":{"status":{"state":"TASK_STATE_WORKING"}}}', 200),
        (b'{"task":{"id":"task-8","status":{"state":"TASK_STATE_WORKING"}}}', 403),
        (b'{"statusUpdate":{"taskId":"task-8","status":{"state":"TASK_STATE_WORKING"}}}', 403),
        (b'{"kind":"status-update","taskId":"task-8","status":{"state":"working"}}', 403),
        (b'{"message":{"messageId":"m","taskId":"task-8"}}', 403),
        (b'{"message":{"messageId":"m","taskId":"task-7"}}', 200),
        (b'{"task":{"id":"' + b"x" * 2000 + b'","status":{"state":"TASK_STATE_WORKING"}}}', 400),
        (b'{"x":"' + b"x" * 1024 * 1024 + b'"}', 413),
    ],
)
async def test_what_is_no_notification_of_the_task_is_refused_and_counted(body: bytes, status: int) -> None:
    desk = Desk()
    adopted = await desk.adopt()
    assert await desk.post(adopted, body) == status
    refused = status != 200
    assert desk.counted == ([("crm", "refused")] if refused else [])
    assert bool(await desk.waiting(adopted)) is not refused


async def test_what_cannot_be_told_to_the_client_s_generation_is_refused() -> None:
    desk = Desk()
    adopted = await desk.adopt(dialect=V0_3)
    assert await desk.post(adopted, b'{"task":{"id":"task-7","status":{"state":"TASK_STATE_NO"}}}') == 400
    assert desk.counted == [("crm", "refused")]


async def test_a_task_that_is_another_s_is_not_told() -> None:
    desk = Desk()
    desk.owned = False
    bound, unbound = await desk.adopt(), await desk.adopt(task=None)
    assert await desk.post(bound) == await desk.post(unbound) == 403
    assert await desk.waiting(bound) == await desk.waiting(unbound) == []
    assert (await desk.hook(unbound)).task == ""


async def test_an_agent_may_be_quicker_than_its_own_answer() -> None:
    desk = Desk()
    adopted = await desk.adopt({"url": CLIENT["url"]}, task=None)
    assert "taskId" not in adopted.config
    assert "id" not in adopted.config
    assert await desk.post(adopted) == 200
    assert (await desk.hook(adopted)).task == "task-7"
    assert await desk.post(adopted, TASK.replace(b"task-7", b"task-8")) == 403
    # The answer knows better.
    await desk.relay.bind(adopted.hook_id, "task-8")
    assert await desk.post(adopted, TASK.replace(b"task-7", b"task-8")) == 200
    assert await desk.relay.restore(told(adopted, taskId="task-8", id="x"), ANN, "crm/acme") is not None


async def test_a_store_that_is_down_is_said_so() -> None:
    class Down(SqliteStore):
        down = ""

        async def note(self, kind: str, key: str) -> bytes | None:
            self._refuse("note")
            return await super().note(kind, key)

        async def keep(self, note: Note) -> None:
            self._refuse("keep")
            await super().keep(note)

        def _refuse(self, what: str) -> None:
            if what == self.down:
                raise StateUnavailable("down")

    store = Down()
    desk = Desk(store)
    adopted = await desk.adopt()
    for store.down in ("note", "keep"):
        assert await desk.post(adopted) == 503
    store.down = "note"
    assert await desk.relay.challenge(id_of(adopted), "validationToken=x") is None
    store.down = ""
    assert await desk.post(adopted) == 200


async def test_an_agent_is_told_when_too_many_wait() -> None:
    desk = Desk()
    adopted = await desk.adopt()
    for number in range(MOST_WAITING):
        assert await desk.post(adopted, TASK.replace(b"ctx-42", b"talk-%d" % number)) == 200
    assert await desk.post(adopted) == 503
    assert desk.counted == [("crm", "refused")]


async def test_a_hook_lives_as_long_as_its_task_and_then_a_little() -> None:
    desk = Desk(linger=1000)
    adopted = await desk.adopt()
    await desk.relay.bind(adopted.hook_id, "task-7")
    began = int(desk.wall.now)
    await desk.post(adopted)
    assert (await desk.hook(adopted)).until == began + SETTLED
    desk.wall.now += SETTLED * 3 // 4
    await desk.post(adopted)
    assert (await desk.hook(adopted)).until == int(desk.wall.now) + SETTLED
    completed = TASK.replace(b"WORKING", b"COMPLETED")
    await desk.post(adopted, completed)
    ended = int(desk.wall.now)
    assert (await desk.hook(adopted)).until == ended + 1000
    desk.wall.now += 500
    await desk.post(adopted, completed)
    await desk.post(adopted)
    await desk.relay.restore(told(adopted), ANN, "crm/acme")
    assert (await desk.hook(adopted)).until == ended + 1000


async def test_what_a_client_has_deleted_is_not_delivered_any_more() -> None:
    desk = Desk()
    adopted = await desk.adopt()
    await desk.post(adopted)
    await desk.relay.forget("crm/acme", "task-7", "cfg-1")
    task = asyncio.get_running_loop().create_task(desk.outbox.run())
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    assert await desk.waiting(adopted) == []
    assert desk.counted == []


async def test_a_challenge_is_answered_by_those_that_are_there() -> None:
    desk = Desk()
    adopted = await desk.adopt()
    there = id_of(adopted)
    assert await desk.relay.challenge(there, "validationToken=6f1c-4e") == b"6f1c-4e"
    for query in ("", "x=y", "validationToken=", "validationToken=%3Cb%3E", "validationToken=" + "x" * 257, "a&" * 600):
        assert await desk.relay.challenge(there, query) is None
    for nobody in ("", "x" * 43, adopted.hook_id):
        assert await desk.relay.challenge(nobody, "validationToken=x") is None


# ---- Names and generations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theirs", list(Version))
@pytest.mark.parametrize("ours", [V0_1, V0_3, V1_0])
async def test_a_client_of_any_generation_reads_what_an_agent_of_any_other_posts(
    theirs: Version, ours: Dialect
) -> None:
    desk = Desk()
    adopted = await desk.adopt(dialect=ours, asked=theirs)
    assert await desk.post(adopted, json.dumps(PAYLOADS["task"][theirs]).encode()) == 200
    body = await body_of(desk, adopted)
    if theirs is not Version.V0_1:
        # What 0.1 cannot say is missing in what is made of it.
        assert body == PAYLOADS["task"][ours.version]
    task = body["task"] if ours is V1_0 else body
    assert task["artifacts"][0]["parts"][0]["text"] == "3 x A-1, paid."
    (slip,) = await desk.waiting(adopted)
    assert slip["content_type"] == ("application/a2a+json" if ours is V1_0 else "application/json")


async def test_what_a_generation_has_no_word_for_is_taken_and_goes_nowhere() -> None:
    desk = Desk()
    adopted = await desk.adopt(dialect=V0_1)
    assert await desk.post(adopted, json.dumps(PAYLOADS["artifact_update"][Version.V1_0]).encode()) == 200
    assert await desk.waiting(adopted) == []


async def test_the_mark_of_an_owner_is_taken_out() -> None:
    desk = Desk()
    adopted = await desk.adopt(task="gw-abc-task-7", mark="gw-abc-")
    body = TASK.replace(b"ctx-42", b"gw-abc-chat-1").replace(b"task-7", b"gw-abc-task-7")
    assert await desk.post(adopted, TASK) == 403
    assert await desk.post(adopted, body) == 200
    task = (await body_of(desk, adopted))["task"]
    assert (task["id"], task["contextId"]) == ("task-7", "chat-1")
    assert desk.met[0][1].context_id == "gw-abc-chat-1"
    (slip,) = await desk.waiting(adopted)
    assert slip["task"] == "task-7"


async def test_a_client_of_0_1_reads_its_own_names() -> None:
    desk = Desk()
    adopted = await desk.adopt(dialect=V0_1, name="mine", session="talk")
    assert await desk.post(adopted) == 200
    body = await body_of(desk, adopted)
    assert (body["id"], body["sessionId"], body["status"]["state"]) == ("mine", "talk", "working")
    (slip,) = await desk.waiting(adopted)
    assert slip["task"] == "mine"


async def test_a_long_notification_is_translated_as_any_other() -> None:
    desk = Desk()
    adopted = await desk.adopt(dialect=V0_3)
    long = json.loads(TASK)
    long["task"]["metadata"] = {"x": "y" * 200_000}
    assert await desk.post(adopted, json.dumps(long).encode()) == 200
    assert (await body_of(desk, adopted))["metadata"] == long["task"]["metadata"]


# ---- From a real agent to a real webhook -----------------------------------------------------------------------------


@asynccontextmanager
async def callbacks(desks: list[Desk]) -> AsyncIterator[ScriptedBackend]:
    """The gateway's own listener: hands what is posted to the relay."""

    async def listen(wire: Wire) -> None:
        while True:
            request = await wire.request()
            headers = {name.lower(): value for name, value in request.headers}
            hook_id = request.target.decode().removeprefix(PATH)
            status = await desks[0].call(hook_id, headers, request.body)
            await wire.send(whole(b"", status=b"%d X" % status))

    async with ScriptedBackend(listen) as backend:
        yield backend


async def test_what_the_official_sdk_posts_reaches_a_client_of_another_generation() -> None:
    desks: list[Desk] = []
    async with webhook(answers(whole(b"{}"))) as hooks, callbacks(desks) as listener:
        desk = Desk(policy=local(hooks), public_url=listener.url)
        desks.append(desk)
        client = {**CLIENT, "url": url(hooks), "authentication": {"scheme": "Basic", "credentials": "dTpw"}}
        adopted = await desk.adopt(client, dialect=V0_3)

        configs = InMemoryPushNotificationConfigStore()
        given = adopted.config
        config = TaskPushNotificationConfig(id=given["id"], task_id="task-7", url=given["url"], token=given["token"])
        await configs.set_info("task-7", config, ServerCallContext())
        async with httpx.AsyncClient(trust_env=False) as http:
            sender = BasePushNotificationSender(http, configs)
            for state in (TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED):
                event = TaskStatusUpdateEvent(task_id="task-7", context_id="ctx-42", status=TaskStatus(state=state))
                await sender.send_notification("task-7", event)
        await listener.all_gone()
        assert len(listener.requests) == 2

        delivered: asyncio.Queue[str] = asyncio.Queue()
        deliverer = Deliverer(local(hooks), None, tls=trusting(), timeout=60.0)
        outbox = Outbox(desk.store, deliverer.deliver, count=lambda _, result: delivered.put_nowait(result))
        task = asyncio.get_running_loop().create_task(outbox.run())
        try:
            async with asyncio.timeout(10):
                assert [await delivered.get(), await delivered.get()] == ["delivered"] * 2
        finally:
            task.cancel()
        bodies = [json.loads(request.body) for request in hooks.requests]
        assert [body["status"]["state"] for body in bodies] == ["working", "completed"]
        assert [(body["kind"], body["taskId"], body["final"]) for body in bodies] == [
            ("status-update", "task-7", False),
            ("status-update", "task-7", True),
        ]
        for request in hooks.requests:
            assert request.header(b"authorization") == b"Basic dTpw"
            assert request.header(b"x-a2a-notification-token") == b"tok-123"
            assert adopted.config["token"].encode() not in repr(request).encode()
