"""An agent on the last a2a-sdk 0.3: run by the interpreter that has it, never imported.

    python agent.py MARKER

Writes lines of JSON: first `{"url": ..., "grpc": ...}`, then one for every request. What it does with a message is in
`Executor`.
"""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio
import uvicorn
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.apps.rest.rest_adapter import RESTAdapter
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    InternalError,
    Part,
    TaskState,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task
from a2a.utils.errors import ServerError
from starlette.applications import Starlette
from starlette.routing import Mount, Route

TICK = 0.05


class Executor(AgentExecutor):
    """`stream N`, `ask`, `fail` and `talk` as in the agents of 1.0.

    `wait` ticks, an artifact each time, until it is cancelled or somebody says `free` and its id.
    """

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._freed: dict[str, asyncio.Event] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        if context.message is None:
            raise ServerError(InternalError(message="there is no message"))
        text = context.get_user_input()
        if text.startswith("talk"):
            await event_queue.enqueue_event(new_agent_text_message(f"{self._marker}: {text}"))
            return
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if context.current_task is not None:
            await self._artifact(updater, f"told {text}")
            await updater.complete()
        elif text == "ask":
            await updater.update_status(TaskState.input_required, new_agent_text_message("which one?"), final=True)
        elif text == "fail":
            await updater.failed()
        else:
            await self._work(updater, task.id, text)
            await updater.complete()

    async def _work(self, updater: TaskUpdater, task_id: str, text: str) -> None:
        word, _, rest = text.partition(" ")
        if word == "wait":
            await self._wait(updater, task_id)
        elif word == "stream":
            await updater.start_work()
            for number in range(int(rest)):
                await self._artifact(updater, f"part {number}")
        else:
            if word == "free":
                self._freed[rest].set()
            await self._artifact(updater, text)

    async def _wait(self, updater: TaskUpdater, task_id: str) -> None:
        freed = self._freed.setdefault(task_id, asyncio.Event())
        await updater.start_work()
        while not freed.is_set():
            await self._artifact(updater, "tick")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(freed.wait(), TICK)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        if task is None:
            raise ServerError(InternalError(message="there is no task"))
        await TaskUpdater(event_queue, task.id, task.context_id).cancel()

    async def _artifact(self, updater: TaskUpdater, text: str) -> None:
        await updater.add_artifact([Part(root=TextPart(text=f"{self._marker}: {text}"))], name=self._marker)


def card_of(marker: str, url: str, *skills: str) -> AgentCard:
    """The card, full of the agent's own address."""
    return AgentCard(
        name=marker,
        description=f"The agent {marker}, which runs at {url}.",
        version="1.0.0",
        url=f"{url}/rpc",
        preferred_transport="JSONRPC",
        additional_interfaces=[
            AgentInterface(url=f"{url}/rpc", transport="JSONRPC"),
            AgentInterface(url=f"{url}/rest", transport="HTTP+JSON"),
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        supports_authenticated_extended_card=True,
        skills=[AgentSkill(id=skill, name=skill, description=f"At {url}.", tags=["test"]) for skill in skills],
    )


def application(marker: str, url: str, handler: DefaultRequestHandler) -> Starlette:
    """The agent as an ASGI application: JSON-RPC below /rpc, HTTP+JSON below /rest."""
    card, extended = card_of(marker, url, "echo"), card_of(marker, url, "echo", "secret-skill")
    rpc = A2AStarletteApplication(agent_card=card, http_handler=handler, extended_agent_card=extended)
    rest = RESTAdapter(agent_card=card, http_handler=handler, extended_agent_card=extended)
    rest_routes = [Route(path, endpoint, methods=[method]) for (path, method), endpoint in rest.routes().items()]
    return Starlette(routes=[*rpc.routes(rpc_url="/rpc"), Mount("/rest", routes=rest_routes)])


def said(line: dict[str, Any]) -> None:
    """Tell the test."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def recording(app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The application, with each request told before it is answered."""

    async def recorder(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["raw_path"].decode("ascii")
        said({"method": scope["method"], "path": path, "headers": headers, "body": body.decode()})
        given = False

        async def again() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await app(scope, again, send)

    return recorder


class Recording(grpc.aio.ServerInterceptor):
    """Tells each request over gRPC before it is answered."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        found = await continuation(details)

        def told(request: Any) -> None:
            headers = {name: value for name, value in details.invocation_metadata if isinstance(value, str)}
            said({"method": "GRPC", "path": details.method, "headers": headers, "body": str(request)})

        async def whole(request: Any, context: Any) -> Any:
            told(request)
            return await found.unary_unary(request, context)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            told(request)
            async for event in found.unary_stream(request, context):
                yield event

        if found.response_streaming:
            return grpc.unary_stream_rpc_method_handler(stream, found.request_deserializer, found.response_serializer)
        return grpc.unary_unary_rpc_method_handler(whole, found.request_deserializer, found.response_serializer)


async def serve(marker: str) -> None:
    """Serve until the process is ended: over HTTP, and the same tasks over gRPC, which is on no card."""
    # With the protocol written out: asyncio sets TCP_NODELAY for no other socket.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    handler = DefaultRequestHandler(
        agent_executor=Executor(marker),
        task_store=InMemoryTaskStore(),
        push_config_store=InMemoryPushNotificationConfigStore(),
    )
    server = grpc.aio.server(interceptors=[Recording()])
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card_of(marker, url, "echo"), handler), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    said({"url": url, "grpc": f"127.0.0.1:{port}"})
    config = uvicorn.Config(
        recording(application(marker, url, handler)),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    await uvicorn.Server(config).serve(sockets=[listener])
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
