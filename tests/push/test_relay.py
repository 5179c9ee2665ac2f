"""Registration of webhooks, the callbacks that agents are given for them, and what is taken of what agents post."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore
from a2a.types import TaskPushNotificationConfig, TaskState, TaskStatus, TaskStatusUpdateEvent

from gateway.a2a.dialect import Dialect, Version
from gateway.a2a.fault import PushDenied, StateUnavailable
from gateway.push.delivery import Deliverer
from gateway.push.queue import MOST_WAITING
from gateway.push.relay import PATH, Registered
from gateway.push.ssrf import WebhookPolicy
from gateway.push.subscription import CONFIRMED, KIND, PENDING, Subscriptions, digest
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Note, Store
from gateway.telemetry.audit_log import AuditEvent
from tests.push.support import (
    ANN,
    BOB,
    CLIENT,
    EVE,
    PAYLOADS,
    PREFIX,
    PUBLIC_URL,
    TASK,
    V0_1,
    V0_3,
    V1_0,
    Desk,
    Names,
    Remote,
    Works,
    fields,
    id_of,
    local,
    running,
    told,
    trusting,
    url,
    webhook,
)
from tests.support.scripted import ScriptedBackend, Wire, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio


# ---- Registered ------------------------------------------------------------------------------------------------------


async def test_no_two_callbacks_are_alike_and_none_can_be_read_from_the_store() -> None:
    desk = Desk()
    one, other = await desk.register(), await desk.register({**CLIENT, "id": "cfg-2"})
    secrets = {id_of(one), id_of(other), one.config["token"], other.config["token"]}
    assert [len(secret) for secret in secrets] == [43] * 4
    kept = await desk.store.notes(("", ""), 100)
    assert {note.kind for note in kept} == {KIND}
    for note in kept:
        assert note.tenant == "acme"
        for secret in secrets:
            assert secret not in note.key + note.value.decode() + note.group


@for_each("bad", ["http://hooks.example/", "https://user@hooks.example/", "https://10.0.0.1/"])
async def test_a_webhook_that_may_not_be_called_is_refused_when_it_is_set(bad: str) -> None:
    desk = Desk()
    with pytest.raises(PushDenied):
        await desk.register({**CLIENT, "url": bad})
    assert await desk.store.notes(("", ""), 10) == []
    with pytest.raises(PushDenied):
        await Desk(policy=WebhookPolicy(resolve=Names(("10.0.0.1",)))).register()


@for_each("public_url", [PUBLIC_URL, "https://gateway.example:443/a2a/"])
async def test_the_gateway_s_own_callbacks_are_no_webhooks(public_url: str) -> None:
    desk = Desk(public_url=public_url)
    for own in (PREFIX + "x", "https://GATEWAY.example:443/a2a/-/push/x"):
        with pytest.raises(PushDenied, match="own"):
            await desk.register({**CLIENT, "url": own})
    await desk.register({**CLIENT, "url": "https://gateway.example/hooks"})
    await desk.register({**CLIENT, "url": "https://gateway.example:8443/a2a/-/push/x"})


async def test_a_task_has_no_more_webhooks_than_it_may_have() -> None:
    desk = Desk(max_per_task=2)
    for number in range(2):
        await desk.register({**CLIENT, "id": f"cfg-{number}"})
    with pytest.raises(PushDenied, match="more than 2"):
        await desk.register({**CLIENT, "id": "cfg-2"})
    # In the place of one that is there, on another task, or at another backend.
    await desk.register({**CLIENT, "id": "cfg-1"})
    await desk.register({**CLIENT, "id": "cfg-2"}, task="task-8")
    await desk.relay.register(dict(CLIENT, id="cfg-2"), ANN, "crm/globex", "task-7", V1_0)


@for_each("make", [SqliteStore, Remote])
async def test_concurrent_registrations_stay_within_the_limit(make: Callable[[], Store]) -> None:
    names = Late()
    desk = Desk(make(), policy=WebhookPolicy(resolve=names), max_per_task=3)
    asked = [asyncio.ensure_future(desk.register({**CLIENT, "id": f"cfg-{number}"})) for number in range(10)]
    await asyncio.gather(*(names.asked.get() for _ in asked))
    names.known.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, PushDenied) for each in found) >= 7
    assert all(isinstance(each, Registered | PushDenied) for each in found)
    taken = sum(isinstance(each, Registered) for each in found)
    hooks = await Subscriptions(desk.store).of("crm/acme", "task-7")
    assert len(hooks) == taken <= 3


class Late:
    """A resolver that knows nothing before it is told to."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.known = asyncio.Event()

    async def __call__(self, host: str) -> tuple[str]:
        self.asked.put_nowait(host)
        await self.known.wait()
        return ("93.184.216.34",)


async def test_a_configuration_without_an_id_has_the_tasks_id_and_is_replaced_by_the_next() -> None:
    desk = Desk(max_per_task=1)
    unnamed = {"url": CLIENT["url"]}
    first = await desk.register(unnamed)
    assert first.config["id"] == "task-7"
    # A send does not say which task its configuration is of.
    assert "taskId" not in first.config
    await desk.relay.bind(first.key, "task-7")
    second = await desk.register(unnamed)
    assert await desk.post(first) == 200
    await desk.relay.bind(second.key, "task-7")
    assert await desk.post(first) == 404
    assert await desk.post(second) == 200


async def test_a_subscription_that_no_agent_has_agreed_to_is_soon_forgotten() -> None:
    desk = Desk()
    now = int(desk.wall.now)
    registered = await desk.register(task=None)
    assert (await desk.subscription(registered)).until == now + PENDING
    await desk.relay.bind(registered.key, "task-9")
    hook = await desk.subscription(registered)
    assert (hook.task, hook.until) == ("task-9", now + CONFIRMED)
    desk.wall.now += 1000
    await desk.relay.bind(registered.key, "task-9")
    assert await desk.subscription(registered) == hook


async def test_a_subscription_that_the_agent_refuses_is_let_go_and_one_that_it_has_called_is_not() -> None:
    desk = Desk()
    refused, called = await desk.register(task=None), await desk.register()
    await desk.relay.release(refused.key)
    await desk.relay.bind(refused.key, "task-7")
    assert await desk.post(refused) == 404
    assert await desk.post(called) == 200
    # The client was gone before the agent's answer came.
    await desk.relay.release(called.key)
    assert await desk.post(called) == 200


# ---- Restored --------------------------------------------------------------------------------------------------------


async def test_no_caller_sees_anothers_configuration() -> None:
    desk = Desk()
    registered = await desk.register()
    answer = told(registered)
    restore = desk.relay.restore
    assert await restore(answer, EVE, "crm/acme") is None
    assert await restore(answer, BOB, "crm/acme") is None
    assert await restore(answer, ANN, "crm/globex") is None
    assert await restore(told(registered, taskId="task-8"), ANN, "crm/acme") is None
    assert await restore({"url": "https://hooks.elsewhere/", "token": "x"}, ANN, "crm/acme") is None
    assert await restore({"url": PREFIX + "x" * 43}, ANN, "crm/acme") is None
    assert await restore({"url": PREFIX + "../x"}, ANN, "crm/acme") is None
    assert await restore({}, ANN, "crm/acme") is None
    assert not (await desk.subscription(registered)).confirmed
    assert await restore(answer, BOB, "crm/acme", by_principal=False) == CLIENT


async def test_the_agents_id_of_a_configuration_is_the_clients() -> None:
    desk = Desk()
    registered = await desk.register({"url": CLIENT["url"], "taskId": "task-7"})
    shown = await desk.relay.restore(told(registered, id="made-up"), ANN, "crm/acme")
    assert shown == {"id": "made-up", "taskId": "task-7", "url": CLIENT["url"]}
    await desk.relay.forget("crm/acme", "task-7", "task-7")
    assert await desk.post(registered) == 200
    await desk.relay.forget("crm/acme", "task-7", "made-up")
    assert await desk.post(registered) == 404
    assert await desk.relay.restore(told(registered), ANN, "crm/acme") is None


async def test_a_new_one_takes_the_place_of_an_old_one_when_the_agent_has_agreed() -> None:
    desk = Desk()
    old = await desk.register()
    await desk.relay.restore(told(old), ANN, "crm/acme")
    new = await desk.register({**CLIENT, "url": "https://hooks.example/new"})
    assert await desk.post(old) == 200
    shown = await desk.relay.restore(told(new), ANN, "crm/acme")
    assert shown is not None
    assert shown["url"] == "https://hooks.example/new"
    assert await desk.post(old) == 404


# ---- Received --------------------------------------------------------------------------------------------------------


@for_each(
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
    registered = await desk.register()
    shown = {name: value.format(registered.config["token"]) for name, value in headers.items()}
    assert await desk.call(id_of(registered), fields(shown), TASK) == 200


async def test_without_its_path_and_its_token_nothing_is_taken_and_nothing_is_told() -> None:
    desk = Desk()
    registered = await desk.register()
    token, own = registered.config["token"], id_of(registered)
    good = {b"x-a2a-notification-token": token.encode()}
    for callback_id in ("", "x", "x" * 43, own[:-1], own + "x", own[:-1] + "é", registered.key, "../" + own):
        assert await desk.call(callback_id, good, TASK) == 404
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
    assert await desk.waiting(registered) == []
    assert (desk.observed, desk.counted) == ([], [])
    # A call with the path and a wrong token is reported; other calls are not.
    unproven = (AuditEvent.NOTIFICATION_REFUSED, "it does not show the token of its callback")
    assert desk.audited == [unproven] * 27


async def test_an_agent_of_0_1_shows_no_token_but_no_wrong_one_either() -> None:
    desk = Desk()
    registered = await desk.register(asked=Version.V0_1)
    body = b'{"id":"task-7","status":{"state":"working"}}'
    assert await desk.post(registered, body, authorization="Bearer its.own.signature") == 200
    assert await desk.post(registered, body, x_a2a_notification_token="wrong") == 404
    modern = await desk.register({**CLIENT, "id": "cfg-2"}, asked=Version.V0_3)
    assert await desk.post(modern, body, authorization="Bearer its.own.signature") == 404


@for_each(
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
async def test_a_notification_of_another_task_is_refused_and_counted(body: bytes, status: int) -> None:
    desk = Desk()
    registered = await desk.register()
    assert await desk.post(registered, body) == status
    refused = status != 200
    assert desk.counted == ([("crm", "refused")] if refused else [])
    assert bool(await desk.waiting(registered)) is not refused


async def test_an_untranslatable_notification_is_refused() -> None:
    desk = Desk()
    registered = await desk.register(dialect=V0_3)
    assert await desk.post(registered, b'{"task":{"id":"task-7","status":{"state":"TASK_STATE_NO"}}}') == 400
    assert desk.counted == [("crm", "refused")]


async def test_a_task_that_is_another_s_is_not_told() -> None:
    desk = Desk()
    desk.owned = False
    bound, unbound = await desk.register(), await desk.register(task=None)
    assert await desk.post(bound) == await desk.post(unbound) == 403
    assert desk.audited == [(AuditEvent.NOTIFICATION_REFUSED, "it is of another task")] * 2
    assert await desk.waiting(bound) == await desk.waiting(unbound) == []
    assert (await desk.subscription(unbound)).task == ""


async def test_an_agent_may_be_quicker_than_its_own_answer() -> None:
    desk = Desk()
    registered = await desk.register({"url": CLIENT["url"]}, task=None)
    assert "taskId" not in registered.config
    assert "id" not in registered.config
    assert await desk.post(registered) == 200
    assert (await desk.subscription(registered)).task == "task-7"
    assert await desk.post(registered, TASK.replace(b"task-7", b"task-8")) == 403
    # The answer knows better.
    await desk.relay.bind(registered.key, "task-8")
    assert await desk.post(registered, TASK.replace(b"task-7", b"task-8")) == 200
    assert await desk.relay.restore(told(registered, taskId="task-8", id="x"), ANN, "crm/acme") is not None


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
    registered = await desk.register()
    for store.down in ("note", "keep"):
        assert await desk.post(registered) == 503
    store.down = "note"
    assert await desk.relay.challenge(id_of(registered), "validationToken=x") is None
    store.down = ""
    assert await desk.post(registered) == 200


async def test_an_agent_is_told_when_too_many_wait() -> None:
    desk = Desk()
    registered = await desk.register()
    for number in range(MOST_WAITING):
        assert await desk.post(registered, TASK.replace(b"ctx-42", b"talk-%d" % number)) == 200
    assert await desk.post(registered) == 503
    assert desk.counted == [("crm", "refused")]


async def test_a_subscription_lives_as_long_as_its_task_and_then_a_little() -> None:
    desk = Desk(linger=1000)
    registered = await desk.register()
    await desk.relay.bind(registered.key, "task-7")
    began = int(desk.wall.now)
    await desk.post(registered)
    assert (await desk.subscription(registered)).until == began + CONFIRMED
    desk.wall.now += CONFIRMED * 3 // 4
    await desk.post(registered)
    assert (await desk.subscription(registered)).until == int(desk.wall.now) + CONFIRMED
    completed = TASK.replace(b"WORKING", b"COMPLETED")
    await desk.post(registered, completed)
    ended = int(desk.wall.now)
    assert (await desk.subscription(registered)).until == ended + 1000
    desk.wall.now += 500
    await desk.post(registered, completed)
    await desk.post(registered)
    await desk.relay.restore(told(registered), ANN, "crm/acme")
    assert (await desk.subscription(registered)).until == ended + 1000


async def test_a_challenge_is_answered_by_those_that_are_there() -> None:
    desk = Desk()
    registered = await desk.register()
    there = id_of(registered)
    assert await desk.relay.challenge(there, "validationToken=6f1c-4e") == b"6f1c-4e"
    for query in ("", "x=y", "validationToken=", "validationToken=%3Cb%3E", "validationToken=" + "x" * 257, "a&" * 600):
        assert await desk.relay.challenge(there, query) is None
    for nobody in ("", "x" * 43, registered.key):
        assert await desk.relay.challenge(nobody, "validationToken=x") is None


# ---- Names and generations -------------------------------------------------------------------------------------------


@for_each("theirs", list(Version))
@for_each("ours", [V0_1, V0_3, V1_0])
async def test_a_client_of_any_generation_reads_what_an_agent_of_any_other_posts(
    theirs: Version, ours: Dialect
) -> None:
    desk = Desk()
    registered = await desk.register(dialect=ours, asked=theirs)
    assert await desk.post(registered, json.dumps(PAYLOADS["task"][theirs]).encode()) == 200
    body = await desk.body(registered)
    if theirs is not Version.V0_1:
        # Members that 0.1 cannot hold are missing in the translation.
        assert body == PAYLOADS["task"][ours.version]
    task = body["task"] if ours is V1_0 else body
    assert task["artifacts"][0]["parts"][0]["text"] == "3 x A-1, paid."
    (entry,) = await desk.waiting(registered)
    assert entry["content_type"] == ("application/a2a+json" if ours is V1_0 else "application/json")


async def test_notifications_unknown_to_a_generation_are_accepted_and_dropped() -> None:
    desk = Desk()
    registered = await desk.register(dialect=V0_1)
    assert await desk.post(registered, json.dumps(PAYLOADS["artifact_update"][Version.V1_0]).encode()) == 200
    assert await desk.waiting(registered) == []


# ---- From a real agent to a real webhook -----------------------------------------------------------------------------


@asynccontextmanager
async def callbacks(desks: list[Desk]) -> AsyncIterator[ScriptedBackend]:
    """The gateway's own listener: hands what is posted to the relay."""

    async def listen(wire: Wire) -> None:
        while True:
            request = await wire.request()
            headers = {name.lower(): value for name, value in request.headers}
            callback_id = request.target.decode().removeprefix(PATH)
            status = await desks[0].call(callback_id, headers, request.body)
            await wire.send(whole(b"", status=b"%d X" % status))

    async with ScriptedBackend(listen) as backend:
        yield backend


async def test_notifications_of_the_official_sdk_reach_another_generation() -> None:
    desks: list[Desk] = []
    async with webhook(answers(whole(b"{}"))) as hooks, callbacks(desks) as listener:
        desk = Desk(policy=local(hooks), public_url=listener.url)
        desks.append(desk)
        client = {**CLIENT, "url": url(hooks), "authentication": {"scheme": "Basic", "credentials": "dTpw"}}
        registered = await desk.register(client, dialect=V0_3)

        configs = InMemoryPushNotificationConfigStore()
        given = registered.config
        config = TaskPushNotificationConfig(id=given["id"], task_id="task-7", url=given["url"], token=given["token"])
        await configs.set_info("task-7", config, ServerCallContext())
        async with httpx.AsyncClient(trust_env=False) as http:
            sender = BasePushNotificationSender(http, configs)
            for state in (TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED):
                event = TaskStatusUpdateEvent(task_id="task-7", context_id="ctx-42", status=TaskStatus(state=state))
                await sender.send_notification("task-7", event)
        await listener.all_gone()
        assert len(listener.requests) == 2

        works = Works(desk.store, Deliverer(local(hooks), None, tls=trusting(), timeout=60.0))
        async with running(works.queue):
            assert [await works.count(), await works.count()] == ["delivered"] * 2
        bodies = [json.loads(request.body) for request in hooks.requests]
        assert [body["status"]["state"] for body in bodies] == ["working", "completed"]
        assert [(body["kind"], body["taskId"], body["final"]) for body in bodies] == [
            ("status-update", "task-7", False),
            ("status-update", "task-7", True),
        ]
        for request in hooks.requests:
            assert request.header(b"authorization") == b"Basic dTpw"
            assert request.header(b"x-a2a-notification-token") == b"tok-123"
            assert registered.config["token"].encode() not in repr(request).encode()
