"""The sample agent on a2a-sdk 1.3, over one binding; over gRPC it may speak 0.3 instead.

python a2a_sdk_1_3.py JSONRPC|HTTP+JSON|GRPC 1.0|0.3
"""

import sys
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part, a2a_pb2_grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
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
    serve_grpc,
)
from starlette.applications import Starlette


class Executor(AgentExecutor):
    """The words of `serving`."""

    def __init__(self) -> None:
        self._freed = Freed()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        word, _, rest = context.get_user_input().partition(" ")
        if word in ("hello", "free"):
            if word == "free":
                self._freed.event(rest).set()
            await event_queue.enqueue_event(said(GREETING if word == "hello" else FREED, context))
            return
        answers = context.current_task is not None
        if not answers:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if answers:
            await updater.add_artifact([Part(text=f"told {word}")], name="answer")
            await updater.complete()
            return
        await getattr(self, f"_{word}")(updater, context, rest)

    async def _task(self, updater: TaskUpdater, _: RequestContext, __: str) -> None:
        parts = [
            Part(text=TEXT),
            Part(data=ParseDict(DATA, Value())),
            Part(raw=BYTES, filename=FILE[0], media_type=FILE[1]),
            Part(url=LINK, filename=LINKED[0], media_type=LINKED[1]),
        ]
        await updater.add_artifact(parts, name="result", metadata=ABOUT)
        await updater.complete()

    async def _echo(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        metadata = MessageToDict(context.message.metadata) or None
        await updater.add_artifact(list(context.message.parts), name="echo", metadata=metadata)
        await updater.complete()

    async def _stream(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.start_work(said(WORKING, context))
        for number, chunk in enumerate(CHUNKS):
            last = number + 1 == len(CHUNKS)
            await updater.add_artifact(
                [Part(text=chunk)], artifact_id="chunked", name="chunks", append=number > 0, last_chunk=last
            )
        await updater.complete()

    async def _ask(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.requires_input(said(QUESTION, context))

    async def _auth(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.requires_auth(said(LOGIN, context))

    async def _fail(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.failed(said(WRONG, context))

    async def _reject(self, updater: TaskUpdater, context: RequestContext, _: str) -> None:
        await updater.reject(said(REFUSED, context))

    async def _wait(self, updater: TaskUpdater, _: RequestContext, word: str) -> None:
        await updater.start_work()
        await self._freed.event(word).wait()
        await updater.add_artifact([Part(text=RELEASED)], name="released")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel(said(STOPPED, context))


def said(text: str, context: RequestContext) -> Message:
    """A message of the agent's."""
    return new_text_message(text, context_id=context.context_id, task_id=context.task_id)


def card_of(url: str, *skills: str) -> AgentCard:
    """The card of the agent at a URL."""
    binding, version = sys.argv[1:]
    return AgentCard(
        name="sample",
        description="The sample agent.",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version=version)],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id=skill, name=skill, description="A skill.", tags=["sample"]) for skill in skills],
    )


def handler_of(url: str) -> DefaultRequestHandler:
    """Return the request handler of an agent at a URL."""
    return DefaultRequestHandler(
        agent_executor=Executor(),
        task_store=InMemoryTaskStore(),
        agent_card=card_of(url, *SKILLS[:1]),
        push_config_store=InMemoryPushNotificationConfigStore(),
        extended_agent_card=card_of(url, *SKILLS),
    )


def application(url: str) -> Starlette:
    """The agent."""
    handler = handler_of(url + "/")
    calls = create_jsonrpc_routes(handler, "/") if sys.argv[1] == "JSONRPC" else create_rest_routes(handler)
    return Starlette(routes=[*create_agent_card_routes(card_of(url + "/", *SKILLS[:1])), *calls])


def service(address: str, server: Any) -> Starlette:
    """The agent over gRPC; gives the application that serves its card."""
    handler = handler_of(address)
    if sys.argv[2] == "0.3":
        a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), server)
    else:
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    return Starlette(routes=create_agent_card_routes(card_of(address, *SKILLS[:1])))


if __name__ == "__main__":
    if sys.argv[1] == "GRPC":
        serve_grpc(service)
    else:
        serve(application)
