"""The four sample agents: echo, clock, travel and flaky, served together on one loopback port."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from gateway.background import Background
from gateway.demo import wire
from gateway.demo.agent import Agent, Profile, Refused, Work
from gateway.demo.task import Answer, Chunk, Status, Step, Task

BEATS = 10
"""Events that the clock streams."""


async def echo(_task: Task, text: str) -> AsyncGenerator[Step, None]:
    """Answer with what was said: a plain message, no task."""
    yield Answer(text)


def clock(pace: float) -> Work:
    """Tell the time ten times, one event every `pace` seconds."""

    async def work(_task: Task, _text: str) -> AsyncGenerator[Step, None]:
        yield Status("working", "Watching the clock.")
        for beat in range(1, BEATS + 1):
            yield Chunk(f"{datetime.now(tz=UTC):%H:%M:%S.%f}"[:-5] + "\n", last=beat == BEATS)
            await asyncio.sleep(pace)
        yield Status("completed", f"That was {BEATS} times.")

    return work


async def travel(task: Task, text: str) -> AsyncGenerator[Step, None]:
    """Ask a question back, then book."""
    if task.state == "TASK_STATE_SUBMITTED":
        yield Status("working")
        yield Status("input-required", f"{text!r}: gladly. On which day?")
        return
    yield Status("working")
    yield Chunk(f"Booked for {text}.", last=True)
    yield Status("completed", "Have a good journey.")


def flaky() -> Work:
    """Fail every third time: with a failed task and with an error by turns."""
    calls = count(1)

    async def work(_task: Task, _text: str) -> AsyncGenerator[Step, None]:
        call = next(calls)
        if call % 6 == 0:
            raise Refused("INTERNAL_ERROR", "flaky as promised")
        yield Status("working")
        if call % 3 == 0:
            yield Status("failed", "Flaky as promised.")
        yield Chunk(f"This time it worked (call {call}).", last=True)
        yield Status("completed")

    return work


class Fleet:
    """The agents as one ASGI application under `url`, each at the path of its name.

    Args:
        pace: Seconds between two events of the clock.
        grpc: Loopback port at which they answer over gRPC, too; None for none.
    """

    def __init__(self, url: str, *, pace: float, grpc: int | None = None) -> None:
        self._url = url
        self._grpc = grpc
        self._up = threading.Event()
        self._background = Background()
        works: tuple[tuple[Profile, Work], ...] = (
            (Profile("Echo", "Says what you said.", "echo", ("text",), "Hello"), echo),
            (Profile("Clock", "Tells the time ten times.", "clock", ("time", "streaming"), "Go"), clock(pace)),
            (Profile("Travel", "Books a journey; asks for the day.", "travel", ("booking",), "To Lisbon"), travel),
            (Profile("Flaky", "Fails every third time.", "flaky", ("failure",), "Dare"), flaky()),
        )
        address = None if grpc is None else f"127.0.0.1:{grpc}"
        self._agents = {profile.skill: Agent(profile, work, self._background, address) for profile, work in works}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or follow the server's life."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        name, slash, rest = scope["path"].removeprefix("/").partition("/")
        response: Response = PlainTextResponse("no such agent\n", 404)
        if name in self._agents:
            request = Request(scope, receive)
            response = await wire.answer(self._agents[name], request, f"{self._url}/{name}", slash + rest)
        await response(scope, receive, send)

    def up(self, seconds: float) -> bool:
        """Whether it answers, over gRPC too; waits up to `seconds` for it, from any thread."""
        return self._up.wait(seconds)

    async def _live(self, receive: Receive, send: Send) -> None:
        over_grpc = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                if over_grpc is not None:
                    await over_grpc.stop(None)
                await self._background.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return
            if self._grpc is not None:
                from gateway.demo.grpc import open_server  # noqa: PLC0415 - the command line does without gRPC

                over_grpc = await open_server(self._agents, self._grpc)
            self._up.set()
            await send({"type": "lifespan.startup.complete"})


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
            fleet,
            log_config=None,
            access_log=False,
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=1,
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
