"""The sample agent on the last a2a-sdk 0.3, over one binding, or on the last a2a-sdk 0.2, which has JSON-RPC alone.

python a2a_sdk_0_3.py JSONRPC|HTTP+JSON|GRPC VERSION
"""

import asyncio
import base64
import contextlib
import sys
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Message,
    Part,
    TaskState,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task
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
    TICK,
    WORKING,
    WRONG,
    Freed,
    serve,
    serve_grpc,
)
from starlette.applications import Starlette
from starlette.routing import Route


class Executor(AgentExecutor):
    """The words of `serving`; a task that waits ticks, for this SDK shows nothing to one who joins it."""

    def __init__(self) -> None:
        self._freed = Freed()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word, _, rest = context.get_user_input().partition(" ")
        if word in ("hello", "free"):
            if word == "free":
                self._freed.event(rest).set()
            await event_queue.enqueue_event(said(GREETING if word == "hello" else FREED, context))
            return
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if context.current_task is not None:
            await updater.add_artifact([text_part(f"told {word}")], name="answer")
            await updater.complete()
            return
        await getattr(self, f"_{word}")(updater, context, rest)

    async def _task(self, updater: TaskUpdater, _: RequestContext, __: str) -> None:
        file = FileWithBytes(bytes=base64.b64encode(BYTES).decode(), name=FILE[0], mime_type=FILE[1])
        link = FileWithUri(uri=LINK, name=LINKED[0], mime_type=LINKED[1])
        parts = [
            text_part(TEXT),
            Part(root=DataPart(data=DATA)),
            Part(root=FilePart(file=file)),
            Part(root=FilePart(file=link)),
        ]
        await updater.add_artifact(parts, name="result", metadata=ABOUT)
        await updater.complete()

    async def _echo(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.add_artifact(list(context.message.parts), name="echo", metadata=context.message.metadata)
        await updater.complete()

    async def _stream(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.start_work(said(WORKING, context))
        for number, chunk in enumerate(CHUNKS):
            last = number + 1 == len(CHUNKS)
            await updater.add_artifact(
                [text_part(chunk)], artifact_id="chunked", name="chunks", append=number > 0, last_chunk=last
            )
        await updater.complete()

    async def _ask(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.update_status(TaskState.input_required, said(QUESTION, context), final=True)

    async def _auth(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.update_status(TaskState.auth_required, said(LOGIN, context), final=True)

    async def _fail(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.failed(said(WRONG, context))

    async def _reject(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.reject(said(REFUSED, context))

    async def _wait(self, updater: TaskUpdater, _: RequestContext, word: str) -> None:
        freed = self._freed.event(word)
        while not freed.is_set():
            await updater.start_work()
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(freed.wait(), TICK)
        await updater.add_artifact([text_part(RELEASED)], name="released")
        await all_have_heard(updater.event_queue)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.update_status(TaskState.canceled, said(STOPPED, context), final=True)


async def all_have_heard(queue: EventQueue) -> None:
    """Wait until whoever joined the task waits for its next event, or for a second.

    Who makes the task takes its last event, and then throws away what those that joined it have not fetched yet.
    """
    for _ in range(100):
        # It tells nobody who waits.
        if all(child.queue._getters for child in getattr(queue, "_children", ())):
            return
        await asyncio.sleep(0.01)


def text_part(text: str) -> Part:
    """A part that is a text."""
    return Part(root=TextPart(text=text))


def said(text: str, context: RequestContext) -> Message:
    """A message of the agent's."""
    return new_agent_text_message(text, context.context_id, context.task_id)


def card_of(url: str, *skills: str) -> AgentCard:
    """The card of the agent at a URL."""
    return AgentCard(
        name="sample",
        description="The sample agent.",
        version="1.0.0",
        url=url,
        preferred_transport=sys.argv[1],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        supports_authenticated_extended_card=True,
        skills=[AgentSkill(id=skill, name=skill, description="A skill.", tags=["sample"]) for skill in skills],
    )


def handler_of() -> DefaultRequestHandler:
    """Return the request handler of the agent."""
    return DefaultRequestHandler(
        agent_executor=Executor(),
        task_store=InMemoryTaskStore(),
        push_config_store=InMemoryPushNotificationConfigStore(),
    )


def found(card: AgentCard, handler: DefaultRequestHandler) -> list[Route]:
    """The routes of the card alone."""
    routes = A2AStarletteApplication(agent_card=card, http_handler=handler).routes()
    return [route for route in routes if "well-known" in route.path]


def application(url: str) -> Starlette:
    """The agent."""
    card, extended = card_of(url + "/", *SKILLS[:1]), card_of(url + "/", *SKILLS)
    handler = handler_of()
    if sys.argv[1] == "HTTP+JSON":
        from a2a.server.apps.rest.rest_adapter import RESTAdapter  # noqa: PLC0415 - a2a-sdk 0.2 has none of it

        adapter = RESTAdapter(agent_card=card, http_handler=handler, extended_agent_card=extended)
        routes = [Route(path, endpoint, methods=[method]) for (path, method), endpoint in adapter.routes().items()]
        return Starlette(routes=[*routes, *found(card, handler)])
    rpc = A2AStarletteApplication(agent_card=card, http_handler=handler, extended_agent_card=extended)
    return Starlette(routes=rpc.routes())


def service(address: str, server: Any) -> Starlette:
    """The agent over gRPC; gives the application that serves its card."""
    from a2a.grpc import a2a_pb2_grpc  # noqa: PLC0415 - not every environment has it
    from a2a.server.request_handlers import GrpcHandler  # noqa: PLC0415 - as above

    handler = handler_of()
    # Clients over gRPC get this card; other clients get it as the extended one.
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card_of(address, *SKILLS), handler), server)
    return Starlette(routes=found(card_of(address, *SKILLS[:1]), handler))


if __name__ == "__main__":
    if sys.argv[1] == "GRPC":
        serve_grpc(service)
    else:
        serve(application)
