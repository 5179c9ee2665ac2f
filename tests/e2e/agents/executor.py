"""The agents' executor: the first word of a message picks the behaviour, and every answer has the agent's marker.

`stream N`  N artifacts, then completed      `ask`   asks back, completes with the answer to that
`wait`      works until it is let go         `talk`  answers with a message and no task
`fail`      failed                           else    one artifact with the text, completed
`remember`  as any text, and it is kept      `recall`  all that is kept in its context, completed
"""

import asyncio
from collections import defaultdict
from queue import SimpleQueue

from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part

WAITS = "wait"
ASKS = "ask"


class Executor(AgentExecutor):
    """The work of one agent.

    Attributes:
        waiting: The id of each task that has begun to wait.
    """

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._freed: dict[str, asyncio.Event] = {}
        self._remembered: defaultdict[str, list[str]] = defaultdict(list)
        self.waiting: SimpleQueue[str] = SimpleQueue()

    def let_go(self, task_id: str) -> None:
        """Let a task that waits, or will wait, complete."""
        self._freed.setdefault(task_id, asyncio.Event()).set()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        text = context.get_user_input()
        word, _, rest = text.partition(" ")
        if word == "talk":
            await event_queue.enqueue_event(self._say(text, context))
            return
        answering = context.current_task is not None
        if not answering:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if answering:
            await self._artifact(updater, f"told {text}")
        elif word == ASKS:
            await updater.requires_input(self._say("which one?", context))
            return
        elif word == WAITS:
            await updater.start_work()
            self.waiting.put(context.task_id)
            await self._freed.setdefault(context.task_id, asyncio.Event()).wait()
            await self._artifact(updater, "let go")
        elif word == "fail":
            await updater.failed(self._say("it went wrong", context))
            return
        elif word == "stream":
            await updater.start_work()
            for number in range(int(rest)):
                await self._artifact(updater, f"part {number}")
        else:
            await self._artifact(updater, self._answer(text, context.context_id))
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel(self._say("stopped", context))

    def _answer(self, text: str, context_id: str) -> str:
        word, _, rest = text.partition(" ")
        if word == "recall":
            return ", ".join(self._remembered[context_id])
        if word == "remember":
            self._remembered[context_id].append(rest)
        return text

    async def _artifact(self, updater: TaskUpdater, text: str) -> None:
        await updater.add_artifact([Part(text=f"{self._marker}: {text}")], name=self._marker)

    def _say(self, text: str, context: RequestContext) -> Message:
        return new_text_message(f"{self._marker}: {text}", context_id=context.context_id, task_id=context.task_id)
