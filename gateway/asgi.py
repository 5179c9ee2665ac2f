"""The gateway as an ASGI application: for any ASGI server, for a mount in another application, for a test.

    uvicorn gateway.asgi:app --http h11               # reads the file that A2A_GATEWAY_CONFIG names
    Mount("/agents", create_app("gateway.yaml"))      # in Starlette or FastAPI
    httpx.ASGITransport(create_app({"agents": …}))    # without sockets

`a2a-gateway serve` runs the same pipeline behind the strict HTTP/1.1 server (`listener/http1.py`), which also bounds
connections and slow clients.
"""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import yaml
from starlette.types import Receive, Scope, Send

from gateway.app import Gateway, StartFailed
from gateway.config.check import examine, examine_again
from gateway.config.load import Examined
from gateway.config.model import Config
from gateway.config.problem import as_text
from gateway.listener.server import ListenFailed
from gateway.reload import ConfigurationOrigin

VARIABLE = "A2A_GATEWAY_CONFIG"
"""The environment variable that names the configuration file of `app`."""

logger = logging.getLogger("gateway")

Configuration = str | os.PathLike[str] | Mapping[str, Any] | Config


class ConfigurationError(ValueError):
    """The configuration has errors; the text has one line each: file:line:column, fact, remedy."""


def create_app(config: Configuration, *, access_stream: BinaryIO | None = None) -> "GatewayApp":
    """Return the gateway that serves a configuration, as an ASGI application.

    A file is watched and reloaded as `gateway.reload` says; a mapping and a `Config` are not. Settings of the
    environment (`A2A_GATEWAY_…`) hold for a file and a mapping, not for a `Config`.

    Args:
        config: The path of a configuration file, its content as a mapping, or a `Config`.
        access_stream: Output of the access log; standard output by default.

    Raises:
        ConfigurationError: it has errors.
    """
    examined, origin = _examined(config)
    return GatewayApp(lambda: (examined, origin), access_stream)


class GatewayApp:
    """One gateway as an ASGI 3 application. It starts and drains with the server's lifespan.

    Where no lifespan is run (a mount, `httpx.ASGITransport`), `async with app:` or `Starlette(lifespan=app.lifespan)`
    does the same; without either the gateway starts with the first request, and ends with its process.

    Args:
        read: Returns the configuration and its source for reloads.
        access_stream: Output of the access log; standard output by default.
    """

    def __init__(
        self, read: Callable[[], tuple[Examined, ConfigurationOrigin | None]], access_stream: BinaryIO | None = None
    ) -> None:
        self._read = read
        self._access_stream = access_stream
        self._gateway: Gateway | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Lock | None = None

    @property
    def gateway(self) -> Gateway:
        """Return the running gateway.

        Raises:
            RuntimeError: It was not started.
        """
        if self._gateway is None:
            raise RuntimeError("the gateway was not started")
        return self._gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan of the server; a WebSocket is refused."""
        if scope["type"] == "http":
            gateway = await self._started()
            await gateway.asgi(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def __aenter__(self) -> Self:
        await self._started()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @asynccontextmanager
    async def lifespan(self, _application: object = None) -> AsyncIterator[None]:
        """Run the gateway; the signature is that of Starlette's `lifespan`."""
        async with self:
            yield

    async def aclose(self) -> None:
        """Drain and stop: calls in progress end within `gateway.drain.timeout`."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            # The server has stopped accepting, so no delay for load balancers is needed.
            await gateway.stop(asyncio.Event(), delay=0.0)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._started()
        except (ConfigurationError, ListenFailed, StartFailed) as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _started(self) -> Gateway:
        loop = asyncio.get_running_loop()
        if self._gateway is not None and self._loop is loop:
            return self._gateway
        if self._starting is None or (self._loop is not None and self._loop.is_closed()):
            self._starting = asyncio.Lock()
        async with self._starting:
            if self._gateway is None or self._loop is not loop:
                self._gateway, self._loop = await self._start(), loop
            return self._gateway

    async def _start(self) -> Gateway:
        examined, origin = self._read()
        for problem in examined.problems:
            logger.warning("%s: %s", problem.place, problem.fact)
        stream = self._access_stream or sys.stdout.buffer
        gateway = Gateway(examined, access_stream=stream, origin=origin, over_http=False)
        await gateway.start()
        return gateway


def _examined(config: Configuration) -> tuple[Examined, ConfigurationOrigin | None]:
    origin = None
    if isinstance(config, Config):
        examined = examine_again(Examined(), config)
    elif isinstance(config, Mapping):
        text = yaml.safe_dump({"version": 1, **config}, sort_keys=False, allow_unicode=True)
        examined = examine(Path("<mapping>"), os.environ, text=text.encode())
    else:
        origin = ConfigurationOrigin(Path(config), os.environ)
        examined = origin.read()
    if examined.config is None or examined.failed:
        raise ConfigurationError(as_text((*examined.errors, *examined.failed)))
    return examined, origin


def _of_environment() -> tuple[Examined, ConfigurationOrigin | None]:
    path = os.environ.get(VARIABLE)
    if not path:
        raise ConfigurationError(f"the environment variable {VARIABLE} is not set → have it name a configuration file")
    return _examined(path)


app = GatewayApp(_of_environment)
"""The gateway of the file that `A2A_GATEWAY_CONFIG` names, which is read when the server starts."""
