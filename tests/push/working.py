"""An outbox at work, and a webhook that does as it is told."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from gateway.a2a.dialect import Version
from gateway.a2a.push_config import PushConfig
from gateway.push.delivery import Deliverer, Delivery, Outcome, Result
from gateway.push.hook import Hook, Hooks
from gateway.push.outbox import SLIP, Outbox, Queued, Terms
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Owner, Store
from tests.doubles.scripted import WAIT

OK = Outcome(Result.DELIVERED)
AGAIN = Outcome(Result.RETRIED, "https://hooks.example answered 503")
TERMS = Terms(attempts=3, timeout=10.0, first_pause=1.0, longest_pause=300.0, concurrency=4)
LEASE = 40.0


class Wall:
    """A clock that stands."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class Receiver:
    """Takes deliveries: each waits until the test has said what comes of it, unless that is always the same."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.begun: asyncio.Queue[Delivery] = asyncio.Queue()
        self.outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        for outcome in outcomes:
            self.outcomes.put_nowait(outcome)
        self.always: Outcome | None = None
        self.open = 0

    async def deliver(self, delivery: Delivery) -> Outcome:
        self.begun.put_nowait(delivery)
        self.open += 1
        try:
            return self.always or await self.outcomes.get()
        finally:
            self.open -= 1

    async def next(self) -> Delivery:
        async with asyncio.timeout(WAIT):
            return await self.begun.get()


class Works:
    """An outbox at work.

    Attributes:
        counted: What was counted, as it comes.
    """

    def __init__(self, store: Store, receiver: Receiver | Deliverer, wall: Wall, terms: Terms = TERMS) -> None:
        self.counted: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.store, self.wall = store, wall
        self.receiver = receiver if isinstance(receiver, Receiver) else Receiver()
        self.outbox = Outbox(
            store,
            receiver.deliver,
            terms=terms,
            count=lambda agent, result: self.counted.put_nowait((agent, result)),
            wall=wall,
            chance=lambda: 0.5,
        )

    async def put(self, hook: Hook, *bodies: bytes) -> None:
        for body in bodies:
            assert await self.outbox.enqueue(hook, body, task="task-7", content_type="application/json") is Queued.TAKEN

    async def count(self) -> str:
        async with asyncio.timeout(WAIT):
            agent, result = await self.counted.get()
        assert agent == "crm"
        return result

    def later(self, seconds: float) -> None:
        self.wall.now += seconds
        self.outbox.wake()

    async def left(self, hook: Hook) -> int:
        """How many notifications of a hook are in the store."""
        return len(await self.store.group(SLIP, hook.key, 1000))

    async def turn(self) -> None:
        """Let the worker look once more."""
        self.outbox.wake()
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
async def running(outbox: Outbox) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(outbox.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def hook(name: str = "a", *, tenant: str = "acme", to: str = "https://hooks.example/key") -> Hook:
    return Hook((name * 64)[-64:], "", "crm/acme", Owner(tenant), PushConfig(to, task_id="task-7"), Version.V1_0)


async def keep(store: Store, *hooks: Hook) -> None:
    for each in hooks:
        await Hooks(store).write(each)
