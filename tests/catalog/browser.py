"""Debian's Chromium, driven through the catalog page, and the gateway that it looks at."""

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import uvicorn
import yaml
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from gateway.commands.key import NewKey, new_key
from gateway.demo.fleet import serving
from tests.e2e.process import GatewayProcess, gateway_process

CHROMIUM = shutil.which("chromium")
"""Where Debian's package puts it; None where it is not installed."""
TOKEN = "admin-token-0123456789abcdef"
ATTACK = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
"""A text of an agent that must stay a text."""

FILE = """\
version: 1
gateway:
  listen: 127.0.0.1:0
  admin: {{ listen: 127.0.0.1:0{token} }}
  state: memory
auth:
  api_keys:
    acme: {{ sha256: {acme}, tenant: acme }}
    globex: {{ sha256: {globex}, tenant: globex }}
tenants:
  acme:
    agents: [echo, clock, travel, hostile, away]
    limits: {{ requests: 6000/min, concurrency: 20 }}
  globex: [echo, flaky]
agents:
  echo:
    backend: {agents}/echo
    limits: {{ concurrency: 5 }}
  clock: {agents}/clock
  travel:
    match: {{ path: /a2a, tenant: travel }}
    backend: {agents}/travel
  flaky:
    match: {{ path: /a2a, key: globex }}
    backend: {agents}/flaky
  hostile:
    backend: http://127.0.0.1:1
    card: {{ file: hostile.json }}
  away: http://127.0.0.1:1
"""

HOSTILE = {
    "name": f"Hostile {ATTACK}",
    "description": f"\u202egnirts {ATTACK}",
    "version": ATTACK,
    "provider": {"organization": ATTACK, "url": "javascript:document.title='owned'"},
    "documentationUrl": "javascript:document.title='owned'",
    "iconUrl": "https://icons.example/icon.png",
    "supportedInterfaces": [{"url": "http://127.0.0.1:1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [
        {"id": '"><b>', "name": ATTACK, "description": ATTACK, "tags": ["'\"><i>"], "examples": ["'; rm -rf / #"]}
    ],
}


@dataclass
class Site:
    """A gateway in front of the demo agents.

    Attributes:
        keys: API keys, by tenant.
    """

    process: GatewayProcess
    keys: dict[str, NewKey]

    @property
    def admin(self) -> str:
        """URL of the admin listener, without a slash at its end."""
        return self.process.admin

    @property
    def url(self) -> str:
        """Where clients find the gateway."""
        return self.process.url


@contextmanager
def open_site(folder: Path, *, token: str | None = None, pace: float = 0.1) -> Iterator[Site]:
    """Serve the demo agents, a hostile card and an agent that is away.

    Args:
        token: The admin token.
        pace: Seconds between two events of the clock.
    """
    keys = {tenant: new_key(tenant, tenant) for tenant in ("acme", "globex")}
    (folder / "hostile.json").write_text(json.dumps(HOSTILE))
    with serving(pace=pace) as agents:
        written = FILE.format(
            agents=agents,
            token="" if token is None else f", token: {token}",
            **{tenant: key.sha256 for tenant, key in keys.items()},
        )
        with gateway_process(yaml.safe_load(written), folder) as process:
            yield Site(process, keys)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium."""
    with sync_playwright() as playwright:
        # Without its sandbox, because tests run as root in containers.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """One page in a browser that has seen nothing before, and what its console said."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self.page.context.close()
        if kind is None:
            assert self.complaints == []

    def _said(self, message: ConsoleMessage) -> None:
        # A status that the page asked for is no fault of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)


@contextmanager
def below_prefix(target: str, prefix: str) -> Iterator[str]:
    """Serve a site below a path, as a reverse proxy does that takes the path off; gives the URL of the site there."""

    async def forward(request: Request) -> StreamingResponse:
        headers = [(name, value) for name, value in request.headers.raw if name != b"connection"]
        url = httpx.URL(target + "/" + request.path_params["rest"], query=request.url.query.encode())
        sent = http.build_request(request.method, url, headers=headers, content=await request.body())
        answer = await http.send(sent, stream=True)
        passed = StreamingResponse(answer.aiter_raw(), answer.status_code)
        passed.raw_headers = [pair for pair in answer.headers.raw if pair[0].lower() != b"transfer-encoding"]
        return passed

    http = httpx.AsyncClient(trust_env=False, timeout=60)
    app = Starlette(routes=[Route(prefix + "/{rest:path}", forward, methods=["GET", "POST"])])
    config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{prefix}"
        server.should_exit = True
        thread.join(10)
