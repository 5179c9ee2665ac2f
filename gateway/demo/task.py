"""A task: its state after each step of an agent's work, and its watchers.

    submitted → working → completed | failed | rejected | canceled
                        → input-required → (the next message) → working …

A task that is completed, failed, rejected or canceled never changes again.
"""

import asyncio
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Tree = dict[str, Any]
"""JSON as the 1.0 objects spell it."""

TERMINAL = frozenset({"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A plain message instead of a task; only as the first and only step."""

    text: str


@dataclass(frozen=True, slots=True)
class Status:
    """The task is in another state now: `working`, `input-required`, `completed`, `failed` and so on."""

    state: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the task's result; the first piece starts the artifact."""

    text: str
    last: bool = False


Step = Answer | Status | Chunk


class Task:
    """One piece of work, as A2A shows it (1.0 §4.1.1)."""

    def __init__(self, context_id: str) -> None:
        self.id = str(uuid.uuid4())
        self.tree: Tree = {
            "id": self.id,
            "contextId": context_id,
            "status": {"state": "TASK_STATE_SUBMITTED", "timestamp": _now()},
            "artifacts": [],
            "history": [],
        }
        self.running: asyncio.Task[None] | None = None
        self._watchers: set[asyncio.Queue[Tree | Exception | None]] = set()

    @property
    def state(self) -> str:
        """The state, in the spelling of 1.0."""
        return str(self.tree["status"]["state"])

    @property
    def context_id(self) -> str:
        """The conversation that the task belongs to."""
        return str(self.tree["contextId"])

    def snapshot(self, history_length: int | None = None, *, artifacts: bool = True) -> Tree:
        """The task as of now, with the last `history_length` messages, or all of them."""
        history = self.tree["history"]
        if history_length is not None:
            history = history[-history_length:] if history_length else []
        tree = {**self.tree, "history": list(history), "artifacts": [dict(item) for item in self.tree["artifacts"]]}
        left_out = {name for name in ("history", "artifacts") if not tree[name]}
        return {
            name: value for name, value in tree.items() if name not in left_out and (artifacts or name != "artifacts")
        }

    def hear(self, message: Tree) -> None:
        """Take in a message of the user; the question it answers, if any, is history then."""
        self._file_status_message()
        self.tree["history"].append({**message, "taskId": self.id, "contextId": self.context_id})

    def take(self, step: Status | Chunk) -> Tree:
        """Change by one step; the event that tells watchers of it (1.0 §4.2)."""
        about = {"taskId": self.id, "contextId": self.context_id}
        if isinstance(step, Status):
            self._file_status_message()
            status: Tree = {"state": "TASK_STATE_" + step.state.upper().replace("-", "_"), "timestamp": _now()}
            if step.text is not None:
                status["message"] = say(step.text, **about)
            self.tree["status"] = status
            return {"statusUpdate": {**about, "status": status}}
        append = bool(self.tree["artifacts"])
        artifact: Tree = {"artifactId": "result", "name": "result", "parts": [{"text": step.text}]}
        if append:
            before = self.tree["artifacts"][0]
            self.tree["artifacts"] = [{**before, "parts": [*before["parts"], *artifact["parts"]]}]
        else:
            self.tree["artifacts"] = [artifact]
        return {"artifactUpdate": {**about, "artifact": artifact, "append": append, "lastChunk": step.last}}

    def watch(self) -> asyncio.Queue[Tree | Exception | None]:
        """A queue of all events from now on; None ends a turn, an exception is the answer to the turn."""
        queue: asyncio.Queue[Tree | Exception | None] = asyncio.Queue()
        self._watchers.add(queue)
        return queue

    def unwatch(self, queue: asyncio.Queue[Tree | Exception | None]) -> None:
        """Stop filling a queue that `watch` gave."""
        self._watchers.discard(queue)

    def tell(self, event: Tree | Exception | None) -> None:
        """Put an event into every watcher's queue."""
        for queue in self._watchers:
            queue.put_nowait(event)

    def _file_status_message(self) -> None:
        status = self.tree["status"]
        if "message" in status:
            self.tree["history"].append(status["message"])
            self.tree["status"] = {name: value for name, value in status.items() if name != "message"}


def say(text: str, **about: str) -> Tree:
    """A message of the agent."""
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_AGENT", "parts": [{"text": text}], **about}


def _now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
