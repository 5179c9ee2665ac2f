"""One replica of an agent on the official SDK, as a process of its own that can be killed: its tasks outlive it.

    python tests/e2e/agents/replica.py NAME PORT FOLDER BINDING

BINDING is JSONRPC, HTTP+JSON or GRPC. Tasks lie in FOLDER, where no other replica looks. Every execution is a line in
`FOLDER/executed`: its message's id. It says `ready` on standard output once it listens. SIGTERM ends it as servers end:
what goes on is finished.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, Task, a2a_pb2_grpc
from starlette.applications import Starlette

from gateway.upstream.grpc_library import aio

TAKES = 0.01
"""Seconds that a step takes."""
LONG = "long"
"""A message that takes many of them, and says so at each."""
STEPS = 40
GRACE = 10.0
"""Seconds for what goes on when it is to end."""


class Kept(InMemoryTaskStore):
    """Tasks in files."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        fresh = self._folder / f".{task.id}"
        fresh.write_bytes(task.SerializeToString())
        fresh.rename(self._folder / task.id)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        file = self._folder / task_id
        return Task.FromString(file.read_bytes()) if file.exists() else None


class Noting(AgentExecutor):
    """Says who it is, and notes every execution before it begins."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._notes = os.open(folder / "executed", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        os.write(self._notes, context.message.message_id.encode() + b"\n")
        task = context.current_task or new_task_from_user_message(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        for _ in range(STEPS if context.get_user_input() == LONG else 0):
            await asyncio.sleep(TAKES)
            await updater.start_work()
        await asyncio.sleep(TAKES)
        await updater.add_artifact([Part(text=self._name)], name=self._name)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def card(name: str, port: int, binding: str) -> AgentCard:
    url = f"127.0.0.1:{port}" if binding == "GRPC" else f"http://127.0.0.1:{port}/"
    return AgentCard(
        name="replicated",
        description=f"One of several; this one is {name}.",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="name", name="Name", description="Says its name.", tags=["test"])],
    )


async def main(name: str, port: int, folder: Path, binding: str) -> None:
    known = card(name, port, binding)
    handler = DefaultRequestHandler(agent_executor=Noting(name, folder), task_store=Kept(folder), agent_card=known)
    if binding == "GRPC":
        server = aio.server()
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)  # type: ignore[no-untyped-call]  # generated
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stopped.wait()
        await server.stop(GRACE)
        return

    async def ready() -> None:
        while not http.started:  # noqa: ASYNC110 - uvicorn tells nobody
            await asyncio.sleep(0.01)
        sys.stdout.write("ready\n")
        sys.stdout.flush()

    calls = create_rest_routes(handler) if binding == "HTTP+JSON" else create_jsonrpc_routes(handler, "/")
    app = Starlette(routes=[*create_agent_card_routes(known), *calls])
    # The end of a stream that its client has left takes the SDK up to half a minute, and servers wait for that.
    config = uvicorn.Config(
        app, "127.0.0.1", port,
        log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=int(GRACE),
    )  # fmt: skip
    http = uvicorn.Server(config)
    await asyncio.gather(http.serve(), ready())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
