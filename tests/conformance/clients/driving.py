"""Shared by the drivers of Python clients: the operations in one order, and the report on them.

Imported by scripts that different interpreters run, so it knows no version of any SDK. A driver is started with one
argument of JSON, the members of `Asked`, and prints one document, by operation: `{"items": [...]}`, or
`{"failed": {...}}`, or `{"absent": WHY}` where the SDK has no such call. Each item is
`{"spelling": "1.0" | "0.3" | "0.1", "kind": KIND, "value": …}`, as the SDK gave it; `normal.py` makes sense of them.

The same operations, word for word, are in `../javascript/driving.mjs`.
"""

import asyncio
import base64
import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

LIMIT = 10.0
"""Seconds for one operation."""
POLL = 0.02
"""Seconds between two looks at a task that does not rest yet."""
PATIENCE = 2.0
"""Seconds for an answer that should not wait for the task."""

RESTING = {"completed", "canceled", "failed", "rejected", "input-required", "auth-required"}
HOOK = {"id": "hook", "url": "https://localhost:9/a", "token": "secret-word"}
BYTES = b"\x00\xff\xfe of the client"
"""No base64 itself, so that what is encoded once too often or too seldom is seen."""

Item = dict[str, Any]
Task = tuple[str, str]
"""The id of a task, and of its context."""


class Absent(Exception):  # noqa: N818 - what is so
    """The SDK has no such call."""


@dataclass(frozen=True, slots=True)
class Said:
    """The members that go with the parts of a message.

    Attributes:
        task, context: The ids that it is sent to; empty for none.
        hook: Whether a push configuration goes along.
        history: The number of messages to ask for.
    """

    task: str = ""
    context: str = ""
    hook: bool = False
    history: int | None = None


NOTHING = Said()


@dataclass(frozen=True, slots=True)
class Asked:
    """The order that a driver carries out.

    Attributes:
        url: Where the card is looked for.
        binding, version: Which of the interfaces that it lists is to be called.
        card_path: Where below the URL the card is, if not where the SDK looks for it.
        key: An API key, which the card is asked for with, and which calls over gRPC have in their metadata.
        operations: Which of them; every one where none is named.
    """

    url: str
    binding: str
    version: str
    card_path: str | None = None
    key: str | None = None
    operations: Sequence[str] = ()

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of requests over HTTP, above all for the card."""
        return {"x-api-key": self.key} if self.key else {}


class Driver:
    """One client; the methods are what SDKs can do, in the words of 1.0. Each gives items."""

    spelling: str

    async def open(self, asked: Asked) -> Item:
        """Find the card by the SDK's own resolver, and make clients of it."""
        raise NotImplementedError

    def send(self, parts: list[Any], how: str, said: Said = NOTHING) -> AsyncIterator[Item]:
        """Send a message: `unary`, `streaming`, or `polling`, which does not wait."""
        raise NotImplementedError

    async def get(self, task: str, history: int | None = None) -> Item:
        raise NotImplementedError

    async def list_tasks(self, context: str, size: int, token: str = "") -> Item:
        raise Absent("there is no ListTasks in this generation")

    async def cancel(self, task: str) -> Item:
        raise NotImplementedError

    def subscribe(self, task: str) -> AsyncIterator[Item]:
        raise NotImplementedError

    async def push_set(self, task: str) -> Item:
        raise Absent("the SDK cannot")

    async def push_get(self, task: str) -> Item:
        raise Absent("the SDK cannot")

    async def push_list(self, task: str) -> Item:
        raise Absent("the SDK cannot")

    async def push_delete(self, task: str) -> Item:
        raise Absent("the SDK cannot")

    async def extended(self) -> Item:
        raise Absent("the SDK cannot")

    def text(self, text: str) -> Any:
        """A part that is a text."""
        raise NotImplementedError

    def data(self, data: dict[str, Any]) -> Any:
        raise NotImplementedError

    def file(self, raw: bytes, name: str, media_type: str) -> Any:
        raise NotImplementedError

    def failure(self, error: BaseException) -> dict[str, Any]:
        """Return the report on an error of the SDK."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    def item(self, kind: str, value: Any) -> Item:
        return {"spelling": self.spelling, "kind": kind, "value": value}


class Operations:
    """Every operation, by its name; what they need of a task that was made before is made again."""

    def __init__(self, driver: Driver, card: Item) -> None:
        self._driver = driver
        self._card = card
        self._beside: list[asyncio.Task[None]] = []

    # ---- Cards ---------------------------------------------------------------------------------------------------

    async def card(self) -> list[Item]:
        return [self._card]

    async def extended_card(self) -> list[Item]:
        return [await self._driver.extended()]

    # ---- Messages ------------------------------------------------------------------------------------------------

    async def send_message(self) -> list[Item]:
        return await self._said("hello")

    async def stream_message(self) -> list[Item]:
        return await self._streamed("hello")

    async def send_task(self) -> list[Item]:
        return await self._said("task")

    async def send_every_part(self) -> list[Item]:
        driver = self._driver
        parts = [
            driver.text("echo"),
            driver.data({"nested": {"list": [1, 2.5, "three", None, False]}}),
            driver.file(BYTES, "mine.bin", "image/png"),
        ]
        return await self._settled([item async for item in driver.send(parts, "unary")])

    async def stream_task(self) -> list[Item]:
        return await self._streamed("stream")

    async def stream_every_part(self) -> list[Item]:
        return await self._streamed("task")

    async def stream_question(self) -> list[Item]:
        return await self._streamed("ask")

    async def stream_failure(self) -> list[Item]:
        return await self._streamed("fail")

    async def send_failure(self) -> list[Item]:
        return await self._said("fail")

    async def send_rejection(self) -> list[Item]:
        return await self._said("reject")

    async def send_login(self) -> list[Item]:
        return await self._said("auth")

    async def turns(self) -> list[Item]:
        asked = await self._said("ask")
        task, context = ids(asked[-1])
        return [*asked, *await self._said("blue", task=task, context=context)]

    async def stream_second_turn(self) -> list[Item]:
        asked = await self._said("ask")
        task, context = ids(asked[-1])
        return [*asked, *await self._streamed("blue", task=task, context=context)]

    async def two_tasks_of_a_context(self) -> list[Item]:
        first = await self._said("task")
        return [*first, *await self._said("stream", context=ids(first[-1])[1])]

    # ---- Tasks ---------------------------------------------------------------------------------------------------

    async def get(self) -> list[Item]:
        made = await self._said("stream")
        return [*made, await self._driver.get(ids(made[-1])[0])]

    async def get_history(self) -> list[Item]:
        made = await self.turns()
        return [await self._driver.get(ids(made[-1])[0], history=1)]

    async def send_history(self) -> list[Item]:
        return await self._said("task", history=1)

    async def list_tasks(self) -> list[Item]:
        first = await self._said("task")
        context = ids(first[-1])[1]
        await self._said("stream", context=context)
        page = await self._driver.list_tasks(context, 1)
        return [page, await self._driver.list_tasks(context, 1, page["value"].get("nextPageToken", ""))]

    async def send_without_waiting(self) -> list[Item]:
        if self._driver.spelling == "0.1":
            raise Absent("0.1 leaves it to the agent whether a send waits")
        word = uuid.uuid4().hex
        made = [item async for item in self._driver.send([self._driver.text(f"wait {word}")], "polling")]
        await self._said(f"free {word}")
        return await self._settled(made)

    async def cancel(self) -> list[Item]:
        made = await self._started("cancel")
        return [*await self._settled([await self._driver.cancel(ids(made)[0])])]

    async def subscribe(self) -> list[Item]:
        word = uuid.uuid4().hex
        made = await self._started(word)
        task, _ = ids(made)
        events: list[Item] = []
        async for event in self._driver.subscribe(task):
            if not events:
                await self._said(f"free {word}")
            events.append(event)
        return events

    # ---- Push notifications --------------------------------------------------------------------------------------

    async def push_set(self) -> list[Item]:
        task = ids((await self._said("task"))[-1])[0]
        return [await self._driver.push_set(task)]

    async def push_get(self) -> list[Item]:
        task = ids((await self._said("task"))[-1])[0]
        await self._driver.push_set(task)
        return [await self._driver.push_get(task)]

    async def push_list(self) -> list[Item]:
        task = ids((await self._said("task"))[-1])[0]
        await self._driver.push_set(task)
        return [await self._driver.push_list(task)]

    async def push_delete(self) -> list[Item]:
        task = ids((await self._said("task"))[-1])[0]
        await self._driver.push_set(task)
        return [await self._driver.push_delete(task), await self._driver.push_list(task)]

    async def push_in_send(self) -> list[Item]:
        made = await self._said("task", hook=True)
        return [await self._driver.push_get(ids(made[-1])[0])]

    # ---- Errors --------------------------------------------------------------------------------------------------

    async def error_get_unknown(self) -> list[Item]:
        return [await self._driver.get(unknown())]

    async def error_cancel_unknown(self) -> list[Item]:
        return [await self._driver.cancel(unknown())]

    async def error_cancel_completed(self) -> list[Item]:
        task = ids((await self._said("task"))[-1])[0]
        return [await self._driver.cancel(task)]

    async def error_subscribe_unknown(self) -> list[Item]:
        return [event async for event in self._driver.subscribe(unknown())]

    async def error_subscribe_completed(self) -> list[Item]:
        task = ids((await self._said("task"))[-1])[0]
        return [event async for event in self._driver.subscribe(task)]

    async def error_send_to_unknown(self) -> list[Item]:
        return await self._said("task", task=unknown())

    async def error_stream_to_unknown(self) -> list[Item]:
        return await self._streamed("task", task=unknown())

    async def error_send_to_completed(self) -> list[Item]:
        task, context = ids((await self._said("task"))[-1])
        return await self._said("task", task=task, context=context)

    async def error_push_of_unknown(self) -> list[Item]:
        return [await self._driver.push_get(unknown())]

    # ---- How -----------------------------------------------------------------------------------------------------

    async def _said(self, text: str, **more: Any) -> list[Item]:
        parts = [self._driver.text(text)]
        return await self._settled([item async for item in self._driver.send(parts, "unary", Said(**more))])

    async def _streamed(self, text: str, **more: Any) -> list[Item]:
        return [item async for item in self._driver.send([self._driver.text(text)], "streaming", Said(**more))]

    async def _started(self, word: str) -> Item:
        """A task that works until it is freed, seen at work."""
        parts = [self._driver.text(f"wait {word}")]
        try:
            async with asyncio.timeout(PATIENCE):
                [made] = [item async for item in self._driver.send(parts, "polling")]
        except TimeoutError:
            # a2a-sdk 0.2 always waits, and ends a task whose stream is left; 0.1 cannot ask for it. Begun as a stream
            # that goes on beside.
            begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            self._beside.append(asyncio.create_task(self._stream_beside(parts, begun)))
            made = await self._driver.get(await begun)
        while state_of(made) == "submitted":
            await asyncio.sleep(POLL)
            made = await self._driver.get(ids(made)[0])
        return made

    async def _stream_beside(self, parts: list[Any], begun: "asyncio.Future[str]") -> None:
        async for item in self._driver.send(parts, "streaming"):
            if not begun.done():
                begun.set_result(item["value"].get("taskId") or item["value"]["id"])

    async def _settled(self, items: list[Item]) -> list[Item]:
        """The items, with the last one looked at again until it rests: some agents always answer at once."""
        while items[-1]["kind"] == "task" and state_of(items[-1]) not in RESTING:
            await asyncio.sleep(POLL)
            items[-1] = await self._driver.get(ids(items[-1])[0])
        return items


def unknown() -> str:
    """The id of no task; another each time, for in 0.1 a message makes it one."""
    return f"none-{uuid.uuid4()}"


def ids(item: Item) -> Task:
    """The ids of a task and its context."""
    assert item["kind"] == "task", f"a task was wanted, and it is a {item['kind']}"
    value = item["value"]
    return value["id"], value.get("contextId") or value.get("sessionId") or ""


def state_of(item: Item) -> str:
    """The state of a task, as 0.3 spells it."""
    state: str = item["value"]["status"]["state"]
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def encoded(raw: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(raw).decode()


async def _tried(driver: Driver, operation: Callable[[], Awaitable[list[Item]]]) -> dict[str, Any]:
    try:
        async with asyncio.timeout(LIMIT):
            return {"items": await operation()}
    except (Absent, NotImplementedError) as absent:
        return {"absent": str(absent)}
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what is compared
        return {"failed": _failed(driver, error)}


def _failed(driver: Driver, error: Exception) -> dict[str, Any]:
    told = {"spelling": driver.spelling, "type": type(error).__name__, "text": str(error)}
    return {**told, **driver.failure(error)}


def drive(driver: Driver) -> None:
    """Do every operation, and print what came of each: a line, or one for each agent where a list is asked."""

    async def run(asked: Asked) -> dict[str, Any]:
        names = [name for name in vars(Operations) if not name.startswith("_")]
        wanted = [name for name in names if name in (asked.operations or names)]
        try:
            card = await driver.open(asked)
        except Exception as error:  # noqa: BLE001 - as above
            failed = _failed(driver, error)
            return {name: {"failed": failed} for name in wanted}
        operations = Operations(driver, card)
        found = {name: await _tried(driver, getattr(operations, name)) for name in wanted}
        await driver.close()
        return found

    async def run_each() -> None:
        asked = json.loads(sys.argv[1])
        for each in asked if isinstance(asked, list) else [asked]:
            sys.stdout.write(json.dumps(await run(Asked(**each))) + "\n")

    asyncio.run(run_each())
