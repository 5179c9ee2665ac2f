"""The sample agent on fasta2a 0.2, which speaks A2A 0.1: no streams, no push, and tasks that are polled.

python fasta2a_0_2.py
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, DataPart, FilePart, Message, Skill, TaskIdParams, TaskSendParams, TextPart
from fasta2a.storage import InMemoryStorage
from serving import (
    ABOUT,
    BYTES,
    CHUNKS,
    DATA,
    FILE,
    FREED,
    GREETING,
    QUESTION,
    RELEASED,
    SKILLS,
    STOPPED,
    TEXT,
    WRONG,
    Freed,
    serve,
)

RESTS = {
    "hello": ("completed", GREETING),
    "free": ("completed", FREED),
    "ask": ("input-required", QUESTION),
    "fail": ("failed", WRONG),
    "reject": ("failed", WRONG),
    "auth": ("input-required", QUESTION),
}
"""The state and last words of a task without an artifact."""


class SampleWorker(Worker):
    """The words of `serving`; it handles one operation at a time, so a task that waits does it elsewhere."""

    def __init__(self, broker: InMemoryBroker, storage: InMemoryStorage) -> None:
        super().__init__(broker=broker, storage=storage)
        self._freed = Freed()
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def run_task(self, params: TaskSendParams) -> None:
        task = params["id"]
        word, _, rest = params["message"]["parts"][0].get("text", "").partition(" ")
        known = await self.storage.load_task(task)
        if known["status"]["state"] == "input-required":
            await self.storage.update_task(task, state="completed", artifacts=[made("answer", [text(f"told {word}")])])
        elif word == "wait":
            await self.storage.update_task(task, state="working")
            self._waiting[task] = asyncio.get_running_loop().create_task(self._wait(task, rest))
        elif word in RESTS:
            if word == "free":
                self._freed.event(rest).set()
            state, words = RESTS[word]
            await self.storage.update_task(task, state=state, message=Message(role="agent", parts=[text(words)]))
        else:
            await self.storage.update_task(task, state="completed", artifacts=[self._made(word, params)])

    async def cancel_task(self, params: TaskIdParams) -> None:
        waiting = self._waiting.pop(params["id"], None)
        if waiting is not None:
            waiting.cancel()
            message = Message(role="agent", parts=[text(STOPPED)])
            await self.storage.update_task(params["id"], state="canceled", message=message)

    def build_message_history(self, task_history: list[Message]) -> list[Any]:
        raise NotImplementedError

    def build_artifacts(self, result: Any) -> list[Artifact]:
        raise NotImplementedError

    def _made(self, word: str, params: TaskSendParams) -> Artifact:
        if word == "task":
            # The SDK calls the bytes `data`, and refuses `bytes`: as its agents write it.
            file = {"name": FILE[0], "mime_type": FILE[1], "data": base64.b64encode(BYTES).decode()}
            parts = [text(TEXT), DataPart(type="data", data=DATA), FilePart(type="file", file=file)]
            return made("result", parts, metadata=ABOUT)
        if word == "stream":
            return made("chunks", [text(chunk) for chunk in CHUNKS])
        return made("echo", params["message"]["parts"])

    async def _wait(self, task: str, word: str) -> None:
        await self._freed.event(word).wait()
        await self.storage.update_task(task, state="completed", artifacts=[made("released", [text(RELEASED)])])


def text(words: str) -> TextPart:
    """A part that is a text."""
    return TextPart(type="text", text=words)


def made(name: str, parts: list[Any], **more: Any) -> Artifact:
    """The only artifact of a task."""
    return Artifact(name=name, parts=parts, index=0, **more)


def application(url: str) -> FastA2A:
    """The agent."""
    broker, storage = InMemoryBroker(), InMemoryStorage()
    worker = SampleWorker(broker, storage)

    @asynccontextmanager
    async def lifespan(app: FastA2A) -> AsyncIterator[None]:
        async with app.task_manager, worker.run():
            yield

    skills = [
        Skill(id=skill, name=skill, description="A skill.", tags=["sample"], input_modes=[], output_modes=[])
        for skill in SKILLS[:1]
    ]
    return FastA2A(
        storage=storage,
        broker=broker,
        name="sample",
        description="The sample agent.",
        url=url + "/",
        skills=skills,
        lifespan=lifespan,
    )


if __name__ == "__main__":
    serve(application, lifespan="on")
