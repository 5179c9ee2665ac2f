"""A relay, a queue at work, webhooks on loopback, and what it takes to call them."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any

import trustme

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import StateUnavailable
from gateway.a2a.json import Tree
from gateway.a2a.progress import Progress
from gateway.a2a.push_config import PushConfig
from gateway.push.delivery import Deliverer, DeliveryResult, DeliveryRetryPolicy, Outcome, WebhookDelivery
from gateway.push.queue import ENTRY, DeliveryQueue, Enqueued
from gateway.push.relay import PATH, PushRelay, Registered
from gateway.push.ssrf import WebhookPolicy
from gateway.push.subscription import Subscription, Subscriptions
from gateway.push.webhook_pattern import read_pattern
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Owner, Store
from gateway.telemetry.audit_log import AuditEvent
from gateway.upstream.connection_pool import client_tls
from tests.a2a.sample import vector
from tests.support.scripted import WAIT, Script, ScriptedBackend

HOST = "hooks.example"
LOOPBACK = ("127.0.0.1",)
PUBLIC = ("93.184.216.34",)
AUTHORITY = trustme.CA()

PUBLIC_URL = "https://gateway.example/a2a"
PREFIX = PUBLIC_URL + PATH
ANN, BOB, EVE = Owner("acme", "ann"), Owner("acme", "bob"), Owner("globex", "ann")
V0_1, V0_3, V1_0 = (Dialect(Binding.JSONRPC, version) for version in Version)
CLIENT: Tree = {
    "id": "cfg-1",
    "taskId": "task-7",
    "url": "https://hooks.example/services/key",
    "token": "tok-123",
    "authentication": {"scheme": "Bearer", "credentials": "s3cret"},
}
TASK = b'{"task":{"id":"task-7","contextId":"ctx-42","status":{"state":"TASK_STATE_WORKING"}}}'
PAYLOADS: dict[str, dict[Version, Tree]] = {
    case["payload"]: {version: case[f"v{version}"]["body"] for version in Version if case.get(f"v{version}")}
    for case in vector("PushNotification")["cases"]
}

OK = Outcome(DeliveryResult.DELIVERED)
AGAIN = Outcome(DeliveryResult.RETRIED, "https://hooks.example answered 503")
POLICY = DeliveryRetryPolicy(attempts=3, timeout=10.0, first_pause=1.0, longest_pause=300.0, concurrency=4)
LEASE = 40.0


class Wall:
    """A clock that stands."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


# ---- Webhooks --------------------------------------------------------------------------------------------------------


class Names:
    """A resolver that answers with what comes next; the last answer is kept."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = answers or (LOOPBACK,)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        found = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if not found:
            raise OSError("no such name")
        return found


@cache
def trusting() -> ssl.SSLContext:
    """Verify the webhooks below."""
    context = client_tls()
    AUTHORITY.configure_trust(context)
    return context


@asynccontextmanager
async def webhook(script: Script, *names: str, authority: trustme.CA = AUTHORITY) -> AsyncIterator[ScriptedBackend]:
    """A webhook that has a certificate for some names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or (HOST,))).configure_cert(context)
    async with ScriptedBackend(script, tls=context) as backend:
        yield backend


def local(backend: ScriptedBackend, names: Names | None = None) -> WebhookPolicy:
    """A policy by which a webhook on loopback may be called, at any path."""
    pattern = read_pattern(f"https://{HOST}:{backend.port}")
    return WebhookPolicy([pattern], block_private=False, resolve=names or Names())


def url(backend: ScriptedBackend, path: str = "/a2a?key=secret") -> str:
    return f"https://{HOST}:{backend.port}{path}"


# ---- The queue -------------------------------------------------------------------------------------------------------


class Receiver:
    """Takes deliveries: each waits until the test has said what comes of it, unless that is always the same."""

    def __init__(self, *outcomes: Outcome, always: Outcome | None = None) -> None:
        self.begun: asyncio.Queue[WebhookDelivery] = asyncio.Queue()
        self.outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        for outcome in outcomes:
            self.outcomes.put_nowait(outcome)
        self.always = always
        self.open = 0

    async def deliver(self, delivery: WebhookDelivery) -> Outcome:
        self.begun.put_nowait(delivery)
        self.open += 1
        try:
            return self.always or await self.outcomes.get()
        finally:
            self.open -= 1

    async def next(self) -> WebhookDelivery:
        async with asyncio.timeout(WAIT):
            return await self.begun.get()


class Works:
    """A queue at work.

    Attributes:
        counted: The results as they come.
    """

    def __init__(
        self,
        store: Store,
        receiver: Receiver | Deliverer,
        wall: Wall | None = None,
        policy: DeliveryRetryPolicy = POLICY,
        **more: Any,
    ) -> None:
        self.counted: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.store, self.wall = store, wall or Wall()
        self.receiver = receiver if isinstance(receiver, Receiver) else Receiver()
        self.queue = DeliveryQueue(
            store,
            receiver.deliver,
            policy=policy,
            count=lambda agent, result: self.counted.put_nowait((agent, result)),
            wall=self.wall,
            chance=lambda: 0.5,
            **more,
        )

    async def try_put(self, subscription: Subscription, body: bytes) -> Enqueued:
        return await self.queue.enqueue(subscription, body, task="task-7", content_type="application/json")

    async def put(self, subscription: Subscription, *bodies: bytes) -> None:
        for body in bodies:
            assert await self.try_put(subscription, body) is Enqueued.TAKEN

    async def count(self) -> str:
        async with asyncio.timeout(WAIT):
            agent, result = await self.counted.get()
        assert agent == "crm"
        return result

    def later(self, seconds: float) -> None:
        self.wall.now += seconds
        self.queue.wake()

    async def left(self, subscription: Subscription) -> int:
        """Return how many notifications of a subscription are in the store."""
        return len(await self.store.group(ENTRY, subscription.key, 1000))

    async def turn(self) -> None:
        """Let the queue look once more."""
        self.queue.wake()
        for _ in range(20):
            await asyncio.sleep(0)


class Remote:
    """A store that answers when others have had their turn, as one does over a network."""

    def __init__(self) -> None:
        self._store = SqliteStore(None)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        async def later(*values: Any) -> Any:
            await asyncio.sleep(0)
            result = await found(*values)
            await asyncio.sleep(0)
            return result

        return later


@asynccontextmanager
async def running(queue: DeliveryQueue) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(queue.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def subscription(name: str = "a", *, tenant: str = "acme", to: str = "https://hooks.example/key") -> Subscription:
    return Subscription(
        (name * 64)[-64:], "", "crm/acme", Owner(tenant), PushConfig(to, task_id="task-7"), Version.V1_0
    )


async def keep(store: Store, *subscriptions: Subscription) -> None:
    for each in subscriptions:
        await Subscriptions(store).write(each)


# ---- The relay -------------------------------------------------------------------------------------------------------


class Desk:
    """A relay with its store, and what it was asked to count and to observe."""

    def __init__(self, store: Store | None = None, policy: WebhookPolicy | None = None, **more: Any) -> None:
        self.wall = Wall()
        self.store: Store = SqliteStore(None) if store is None else store
        self.counted: list[tuple[str, str]] = []
        self.audited: list[tuple[AuditEvent, str]] = []
        self.observed: list[tuple[Subscription, Progress]] = []
        self.owned = True
        self.queue = DeliveryQueue(self.store, Receiver(always=OK).deliver, wall=self.wall)
        self.relay = PushRelay(
            self.store, policy or WebhookPolicy(resolve=Names(PUBLIC)), more.pop("public_url", PUBLIC_URL), self.queue,
            observe=self.observe, count=lambda agent, result: self.counted.append((agent, result)),
            audit=lambda event, _, why: self.audited.append((event, why)), wall=self.wall, **more,
        )  # fmt: skip

    async def observe(self, subscription: Subscription, told: Progress) -> bool:
        self.observed.append((subscription, told))
        return self.owned

    async def register(self, config: Tree | None = None, task: str | None = "task-7", **more: Any) -> Registered:
        owner, dialect = more.pop("owner", ANN), more.pop("dialect", V1_0)
        return await self.relay.register(
            dict(CLIENT if config is None else config), owner, "crm/acme", task, dialect, **more
        )

    async def subscription(self, registered: Registered) -> Subscription:
        found = await Subscriptions(self.store).find(registered.key)
        assert found is not None
        return found

    async def post(self, registered: Registered, body: bytes = TASK, **headers: str) -> int:
        shown = headers or {"x-a2a-notification-token": registered.config["token"]}
        return await self.call(id_of(registered), fields(shown), body)

    async def call(self, callback_id: str, headers: Mapping[bytes, bytes], body: bytes) -> int:
        """The status of a POST to a callback."""
        try:
            found = await self.relay.authenticate(callback_id, headers)
            return 404 if found is None else await self.relay.receive(found, body)
        except StateUnavailable:
            return 503

    async def waiting(self, registered: Registered) -> list[dict[str, Any]]:
        """The entries of a subscription."""
        return [json.loads(value) for _, value in await self.store.group(ENTRY, registered.key, 1000)]

    async def body(self, registered: Registered) -> Any:
        """The body that waits for a webhook."""
        ((key, _),) = await self.store.group(ENTRY, registered.key, 2)
        found = await self.store.note("body", key)
        assert found is not None
        return json.loads(found)


def id_of(registered: Registered) -> str:
    assert PATH in registered.config["url"]
    return str(registered.config["url"].rpartition("/")[2])


def fields(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    return {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}


def told(registered: Registered, **changes: Any) -> Tree:
    """Return the agent's answer for a registered webhook."""
    return {**registered.config, "taskId": "task-7", **changes}
