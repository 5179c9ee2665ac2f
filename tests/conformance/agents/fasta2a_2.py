"""The sample agent on fasta2a 2, over JSON-RPC; the SDK always answers with a task, and knows no push and no list.

python fasta2a_2.py
"""

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message, Part, Skill, TaskIdParams, TaskSendParams
from fasta2a.storage import InMemoryStorage
from serving import (
    ABOUT,
    BYTES,
    CHUNKS,
    DATA,
    FILE,
    FREED,
    GREETING,
    LINK,
    LINKED,
    LOGIN,
    QUESTION,
    REFUSED,
    RELEASED,
    SKILLS,
    STOPPED,
    TEXT,
    WORKING,
    WRONG,
    Freed,
    serve,
)

RESTS = {
    "hello": ("completed", GREETING),
    "free": ("completed", FREED),
    "ask": ("input-required", QUESTION),
    "auth": ("auth-required", LOGIN),
    "fail": ("failed", WRONG),
    "reject": ("rejected", REFUSED),
}
"""The state and last words of a task without an artifact."""


class SampleWorker(Worker[Any]):
    """The words of `serving`; it handles one operation at a time, so a task that waits does it elsewhere."""

    def __init__(self, broker: InMemoryBroker, storage: InMemoryStorage[Any]) -> None:
        super().__init__(broker=broker, storage=storage)
        self._freed = Freed()
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def run_task(self, params: TaskSendParams) -> None:
        task, context = params["id"], params["context_id"]
        word, _, rest = params["message"]["parts"][0].get("text", "").partition(" ")
        if word == "free":
            self._freed.event(rest).set()
        if word in RESTS:
            state, text = RESTS[word]
            await self.storage.update_task(task, state=state, new_messages=[said(text)])
            return
        if word == "wait":
            await self.storage.update_task(task, state="working")
            self._waiting[task] = asyncio.get_running_loop().create_task(self._wait(task, context, rest))
            return
        if word == "stream":
            await self.publish_status(task, context, "working", said(WORKING))
        for number, artifact in enumerate(made := self._made(word, params)):
            more, last = number > 0, number + 1 == len(made)
            await self.publish_artifact(task, context, artifact, append=more, last_chunk=last)
        whole = Artifact(**{**made[0], "parts": [part for artifact in made for part in artifact["parts"]]})
        await self.storage.update_task(task, state="completed", new_artifacts=[whole])

    async def cancel_task(self, params: TaskIdParams) -> None:
        task = params["id"]
        waiting = self._waiting.pop(task, None)
        if waiting is not None:
            waiting.cancel()
            await self.storage.update_task(task, state="canceled", new_messages=[said(STOPPED)])

    def build_message_history(self, history: list[Message]) -> list[Any]:
        raise NotImplementedError

    def build_artifacts(self, result: Any) -> list[Artifact]:
        raise NotImplementedError

    def _made(self, word: str, params: TaskSendParams) -> list[Artifact]:
        if word == "task":
            file = Part(raw=base64.b64encode(BYTES).decode(), filename=FILE[0], media_type=FILE[1])
            link = Part(url=LINK, filename=LINKED[0], media_type=LINKED[1])
            parts = [Part(text=TEXT), Part(data=DATA), file, link]
            return [Artifact(artifact_id=str(uuid.uuid4()), name="result", parts=parts, metadata=ABOUT)]
        if word == "stream":
            return [Artifact(artifact_id="chunked", name="chunks", parts=[Part(text=chunk)]) for chunk in CHUNKS]
        artifact = Artifact(artifact_id=str(uuid.uuid4()), name="echo", parts=params["message"]["parts"])
        if params["message"].get("metadata"):
            artifact["metadata"] = params["message"]["metadata"]
        return [artifact]

    async def _wait(self, task: str, context: str, word: str) -> None:
        await self._freed.event(word).wait()
        artifact = Artifact(artifact_id=str(uuid.uuid4()), name="released", parts=[Part(text=RELEASED)])
        await self.publish_artifact(task, context, artifact)
        await self.storage.update_task(task, state="completed", new_artifacts=[artifact])
        await self._publish_final_state(task)


def said(text: str) -> Message:
    """A message of the agent's."""
    return Message(role="agent", kind="message", message_id=str(uuid.uuid4()), parts=[Part(text=text)])


def application(url: str) -> FastA2A:
    """The agent."""
    broker, storage = InMemoryBroker(), InMemoryStorage[Any]()
    worker = SampleWorker(broker, storage)

    @asynccontextmanager
    async def lifespan(app: FastA2A) -> AsyncIterator[None]:
        async with app.task_manager, worker.run():
            yield

    skills = [Skill(id=skill, name=skill, description="A skill.", tags=["sample"]) for skill in SKILLS[:1]]
    modes = ["text/plain"]
    return FastA2A(
        storage=storage,
        broker=broker,
        name="sample",
        description="The sample agent.",
        url=url + "/",
        skills=skills,
        default_input_modes=modes,
        default_output_modes=modes,
        lifespan=lifespan,
    )


if __name__ == "__main__":
    serve(application, lifespan="on")
