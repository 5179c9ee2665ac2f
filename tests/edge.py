"""The server in front of the pipeline in tests: the strict one of `serve`, or uvicorn with the ASGI application.

`A2A_TEST_EDGE=asgi` chooses the second. As a program, it serves a file so: python -m tests.edge FILE
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
import yaml

from gateway.app import Gateway
from gateway.asgi import create_app
from gateway.telemetry import log
from tests.e2e.agents.server import Server

IS_ASGI = os.environ.get("A2A_TEST_EDGE") == "asgi"
_AS_DOCUMENTED: dict[str, Any] = {"http": "h11", "proxy_headers": False}
"""uvicorn's options in docs/asgi.md."""


@asynccontextmanager
async def in_front_of(gateway: Gateway, server: Server) -> AsyncIterator[int]:
    """Serve a gateway that runs in this process by uvicorn; gives the port."""
    async with server.serving(gateway.asgi, **_AS_DOCUMENTED):
        yield server.port


def main(file: Path) -> None:
    """Serve a file until SIGTERM or SIGINT, at a port that the system picks."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    # The gateway logs that it serves before uvicorn listens.
    listening.listen()
    written = yaml.safe_load(file.read_text())
    # So that cards have the port in them.
    written["gateway"]["listen"] = f"127.0.0.1:{listening.getsockname()[1]}"
    file.write_text(yaml.safe_dump(written, sort_keys=False))
    sink = log.configure("json", "info")
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(file),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            **_AS_DOCUMENTED,
            timeout_graceful_shutdown=5,
        )
    )
    asyncio.run(server.serve(sockets=[listening]))
    sink.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main(Path(sys.argv[1]))
