"""The four sample agents: echo, clock, travel and flaky, served together on one loopback port over JSON-RPC 1.0.

They are made as the agent on stdio is (`stdio_agent.py`): one function does the work of each. The gateway translates
for clients of other versions and bindings.
"""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

import msgspec
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.a2a.framing.sse import encode
from gateway.demo.stdio_agent import Agent, Refused, Task, Tree, Work, decoded, failed, understood

BEATS = 10
"""Events that the clock streams."""

_WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_STREAMING = frozenset({"SendStreamingMessage", "SubscribeToTask"})


async def echo(_task: Task, text: str) -> str:
    """Answer with what was said: a plain message, no task."""
    return text


def clock(pace: float) -> Work:
    """Tell the time ten times, one event every `pace` seconds."""

    async def work(task: Task, _text: str) -> None:
        task.say("working", "Watching the clock.")
        for beat in range(1, BEATS + 1):
            task.add(f"{datetime.now(tz=UTC):%H:%M:%S.%f}"[:-5] + "\n", last=beat == BEATS)
            await asyncio.sleep(pace)
        task.say("completed", f"That was {BEATS} times.")

    return work


async def travel(task: Task, text: str) -> None:
    """Ask a question back, then book."""
    task.say("working")
    if task.waits:
        task.add(f"Booked for {text}.", last=True)
        task.say("completed", "Have a good journey.")
    else:
        task.say("input-required", f"{text!r}: gladly. On which day?")


def flaky() -> Work:
    """Fail every third time: with a failed task and with an error by turns."""
    calls = count(1)

    async def work(task: Task, _text: str) -> None:
        call = next(calls)
        if call % 6 == 0:
            raise Refused("INTERNAL_ERROR", "flaky as promised")
        task.say("working")
        if call % 3 == 0:
            task.say("failed", "Flaky as promised.")
            return
        task.add(f"This time it worked (call {call}).", last=True)
        task.say("completed")

    return work


@dataclass
class Fleet:
    """The agents as one ASGI application under `url`, each at the path of its name.

    Attributes:
        pace: Seconds between two events of the clock.
        grpc: Loopback port at which they answer over gRPC, too; None for none.
    """

    url: str
    pace: float
    grpc: int | None = None

    def __post_init__(self) -> None:
        self._up = threading.Event()
        self._agents: Mapping[str, Agent] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or follow the server's life."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        name, slash, rest = scope["path"].removeprefix("/").partition("/")
        agent, request = self._agents.get(name), Request(scope, receive)
        response: Response = PlainTextResponse("no such agent\n", 404)
        if agent is not None and slash + rest in _WELL_KNOWN:
            response = JSONResponse(agent.card, headers={"Cache-Control": "max-age=60"})
        elif agent is not None and not rest and request.method == "POST":
            response = await _answer(agent, request)
        await response(scope, receive, send)

    def up(self, seconds: float) -> bool:
        """Return whether it answers, over gRPC too; waits up to `seconds` for it, from any thread."""
        return self._up.wait(seconds)

    async def _live(self, receive: Receive, send: Send) -> None:
        over_grpc = None
        await receive()
        async with asyncio.TaskGroup() as works:
            self._agents = {
                name: Agent(work, works, self._card(name, description, tag, example))
                for name, description, tag, example, work in (
                    ("echo", "Says what you said.", "text", "Hello", echo),
                    ("clock", "Tells the time ten times.", "streaming", "Go", clock(self.pace)),
                    ("travel", "Books a journey; asks for the day.", "booking", "To Lisbon", travel),
                    ("flaky", "Fails every third time.", "failure", "Dare", flaky()),
                )
            }
            if self.grpc is not None:
                from gateway.demo.grpc import open_server  # noqa: PLC0415 - the command line does without gRPC

                over_grpc = await open_server(self._agents, self.grpc)
            self._up.set()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            if over_grpc is not None:
                await over_grpc.stop(None)
            for agent in self._agents.values():
                agent.stop()
        await send({"type": "lifespan.shutdown.complete"})

    def _card(self, skill: str, description: str, tag: str, example: str) -> Tree:
        interfaces = [{"url": f"{self.url}/{skill}", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
        if self.grpc is not None:
            place = {"url": f"127.0.0.1:{self.grpc}", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
            interfaces.append({**place, "tenant": skill})
        about = {"name": skill.capitalize(), "description": description}
        return {
            **about,
            "version": "1.0.0",
            "supportedInterfaces": interfaces,
            "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": skill, **about, "tags": [tag], "examples": [example]}],
        }


async def _answer(agent: Agent, request: Request) -> Response:
    """Answer one JSON-RPC request; an error, too, comes with HTTP 200."""
    call_id = None
    try:
        frame = decoded(await request.body())
        call_id = frame.get("id")
        operation, params = understood(frame, request.headers)
        answers = agent.answers(operation, params)
        # An error before the first event is an ordinary answer, so a stream starts only when there is one.
        first = _wrapped(call_id, await anext(answers))
    except Refused as refusal:
        return JSONResponse(failed(call_id, refusal))
    if operation not in _STREAMING:
        await answers.aclose()
        return JSONResponse(first)
    return StreamingResponse(_server_sent(first, answers, call_id), media_type="text/event-stream")


async def _server_sent(
    first: Tree, answers: AsyncGenerator[Tree, None], call_id: object
) -> AsyncGenerator[bytes, None]:
    async with aclosing(answers):
        yield encode(msgspec.json.encode(first))
        try:
            async for answer in answers:
                yield encode(msgspec.json.encode(_wrapped(call_id, answer)))
        except Refused as refusal:
            yield encode(msgspec.json.encode(failed(call_id, refusal)))


def _wrapped(call_id: object, answer: Tree) -> Tree:
    return {"jsonrpc": "2.0", "id": call_id, "result": answer}


@contextmanager
def serving(*, pace: float = 0.3, grpc: int | None = None) -> Iterator[str]:
    """Serve a fleet on a loopback port that the system picks, from a thread of its own; gives its URL.

    The agents stand for other machines, so they do not share the gateway's event loop.

    Args:
        pace: Seconds between two events of the clock.
        grpc: As `Fleet`.

    Raises:
        RuntimeError: They do not start: the port for gRPC is taken.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        fleet = Fleet(url, pace=pace, grpc=grpc)
        config = uvicorn.Config(
            fleet, log_config=None, access_log=False, lifespan="on", ws="none", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="demo agents", daemon=True)
        thread.start()
        try:
            # The socket for HTTP listens already, with a backlog; the one for gRPC would refuse early clients.
            while not fleet.up(0.05):
                if not thread.is_alive():
                    raise RuntimeError("the demo agents do not start")
            yield url
        finally:
            server.should_exit = True
            thread.join(timeout=5)
