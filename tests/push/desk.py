"""A relay, its store, and an agent's end of its callbacks."""

import json
import time
from collections.abc import Mapping
from typing import Any

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import StateUnavailable
from gateway.a2a.progress import Progress
from gateway.a2a.tree import Tree
from gateway.push.delivery import Delivery, Outcome, Result
from gateway.push.hook import Hook, Hooks
from gateway.push.outbox import SLIP, Outbox
from gateway.push.relay import PATH, Adopted, PushRelay
from gateway.push.webhook import WebhookPolicy
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Owner, Store
from gateway.telemetry.audit import Event
from tests.a2a.sample import vector
from tests.push.receiving import Names

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


class Wall:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class Desk:
    """A relay with its store, and what it was asked to count and to meet."""

    def __init__(self, store: Store | None = None, policy: WebhookPolicy | None = None, **more: Any) -> None:
        self.wall = Wall()
        self.store: Store = SqliteStore(None) if store is None else store
        self.counted: list[tuple[str, str]] = []
        self.audited: list[tuple[Event, str]] = []
        self.met: list[tuple[Hook, Progress]] = []
        self.owned = True
        self.outbox = Outbox(self.store, nowhere, wall=self.wall)
        judge = policy or WebhookPolicy(resolve=Names(("93.184.216.34",)))
        self.relay = PushRelay(
            self.store, judge, more.pop("public_url", PUBLIC_URL), self.outbox, meet=self.meet,
            count=lambda agent, result: self.counted.append((agent, result)),
            audit=lambda event, _hook, words: self.audited.append((event, words)), wall=self.wall, **more,
        )  # fmt: skip

    async def meet(self, hook: Hook, told: Progress) -> bool:
        self.met.append((hook, told))
        return self.owned

    async def adopt(self, config: Tree | None = None, task: str | None = "task-7", **more: Any) -> Adopted:
        owner, dialect = more.pop("owner", ANN), more.pop("dialect", V1_0)
        return await self.relay.adopt(
            dict(CLIENT if config is None else config), owner, "crm/acme", task, dialect, **more
        )

    async def hook(self, adopted: Adopted) -> Hook:
        found = await Hooks(self.store).find(adopted.hook_id)
        assert found is not None
        return found

    async def post(self, adopted: Adopted, body: bytes = TASK, **headers: str) -> int:
        shown = headers or {"x-a2a-notification-token": adopted.config["token"]}
        return await self.call(id_of(adopted), fields(shown), body)

    async def show(self, adopted: Adopted, headers: Mapping[str, str]) -> int:
        """Post with these headers."""
        return await self.call(id_of(adopted), fields(headers), TASK)

    async def call(self, hook_id: str, headers: Mapping[bytes, bytes], body: bytes) -> int:
        """The status of a POST to a callback."""
        try:
            hook = await self.relay.proven(hook_id, headers)
            return 404 if hook is None else await self.relay.receive(hook, body)
        except StateUnavailable:
            return 503

    async def waiting(self, adopted: Adopted) -> list[dict[str, Any]]:
        """The slips of a hook."""
        notes = await self.store.group(SLIP, adopted.hook_id, 1000)
        return [json.loads(value) for _, value in notes]


async def nowhere(_: Delivery) -> Outcome:
    return Outcome(Result.DEAD)


def id_of(adopted: Adopted) -> str:
    assert adopted.config["url"].startswith(PREFIX) or PATH in adopted.config["url"]
    return str(adopted.config["url"].rpartition("/")[2])


def fields(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    return {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}


def told(adopted: Adopted, **changes: Any) -> Tree:
    """What an agent answers that was given this."""
    return {**adopted.config, "taskId": "task-7", **changes}


async def body_of(desk: Desk, adopted: Adopted) -> Any:
    """The body that waits for a hook's webhook."""
    ((key, _),) = await desk.store.group(SLIP, adopted.hook_id, 2)
    found = await desk.store.note("body", key)
    assert found is not None
    return json.loads(found)
