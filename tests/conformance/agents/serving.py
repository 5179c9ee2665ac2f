"""Shared by all sample agents in Python: their words, and how they serve.

Imported by scripts that different interpreters run, so it knows no version of any SDK. What an agent does with a
message is said by the message's first word, and is the same in every agent:

`hello`     answers with a message and no task         `ask`      asks back; completes with the answer to that
`task`      one artifact with a part of every kind     `auth`     asks for a login, and rests
`echo`      one artifact with the parts it was given   `fail`     fails, with a reason
`stream`    works, one artifact in two chunks          `reject`   rejects, with a reason
`wait W`    works until `free W` or a cancellation     `free W`   lets `wait W` complete; answers with a message
"""

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn

GREETING = "hello to you"
QUESTION = "which one?"
LOGIN = "who are you?"
WORKING = "working on it"
WRONG = "it went wrong"
REFUSED = "not for me"
STOPPED = "stopped"
RELEASED = "released"
FREED = "freed"
CHUNKS = ("one ", "two")
TEXT = "plain words"
DATA = {"count": 3, "ratio": 0.5, "names": ["Ä", "b"], "deep": {"yes": True}}
BYTES = b"\x00\x01\xfe\xff and words"
FILE = ("small.bin", "application/octet-stream")
LINK = "https://files.example.com/report.pdf"
LINKED = ("report.pdf", "application/pdf")
ABOUT = {"kind": "sample"}
SKILLS = ("echo", "secret")
"""The second one is on the extended card alone."""

TICK = 0.05
"""Seconds between two signs of life of a task that waits, where the SDK shows nothing to one who joins it."""


class Freed:
    """The events that wait for a word, by word."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def event(self, word: str) -> asyncio.Event:
        """Return the event that is set once the word has been said."""
        return self._events.setdefault(word, asyncio.Event())


def serve(application: Callable[[str], Any], *, lifespan: str = "off") -> None:
    """Serve what `application` makes of the agent's own URL, until the process is ended."""
    listener, url = listening()
    config = configured(application(url), lifespan)
    told(url=url)
    uvicorn.Server(config).run(sockets=[listener])


def serve_grpc(service: Callable[[str, Any], Any]) -> None:
    """Serve an agent over gRPC, and its card over HTTP, until the process is ended.

    Args:
        service: Adds the agent to a server of gRPC, given its address; gives the application that serves the card.
    """
    asyncio.run(_serving_grpc(service))


async def _serving_grpc(service: Callable[[str, Any], Any]) -> None:
    import grpc.aio  # noqa: PLC0415 - not every environment has it

    listener, url = listening()
    server = grpc.aio.server()
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    config = configured(service(address, server), "off")
    await server.start()
    told(url=url, grpc=address)
    try:
        await uvicorn.Server(config).serve(sockets=[listener])
    finally:
        await server.stop(None)


def listening() -> tuple[socket.socket, str]:
    """A listener on a port that the system picks, and its URL."""
    # With the protocol written out: asyncio sets TCP_NODELAY for no other socket, and each answer would take 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


def configured(application: Any, lifespan: str) -> uvicorn.Config:
    """Return the configuration with which uvicorn serves an application."""
    return uvicorn.Config(
        application, log_config=None, access_log=False, lifespan=lifespan, timeout_graceful_shutdown=1
    )


def told(**where: str) -> None:
    """Say where the agent is: `url`, and `grpc` where it is called over that."""
    sys.stdout.write(json.dumps(where) + "\n")
    sys.stdout.flush()
