"""Debian's Chromium, driven through the catalog page, and the gateway that it looks at."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import yaml
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from gateway.commands.key import NewKey, new_key
from gateway.demo.fleet import serving
from tests.e2e.process import WAIT, GatewayProcess, gateway_process

CHROMIUM = shutil.which("chromium")
"""The path of Debian's package; None if it is not installed."""
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
        """Return the public URL of the gateway."""
        return self.process.url


@contextmanager
def open_site(folder: Path, *, token: str | None = None, hostile: bool = True, public: bool = False) -> Iterator[Site]:
    """Serve the demo agents, an agent that is away, and one with a hostile card.

    Args:
        token: The admin token.
        hostile: Whether there is the last one.
        public: Whether the public port has the page, too; then two agents are not for strangers.
    """
    keys = {tenant: new_key(tenant, tenant) for tenant in ("acme", "globex")}
    (folder / "hostile.json").write_text(json.dumps(HOSTILE))
    with serving(pace=0.1) as agents:
        text = FILE.format(
            agents=agents,
            token="" if token is None else f", token: {token}",
            **{tenant: key.sha256 for tenant, key in keys.items()},
        )
        written = yaml.safe_load(text)
        if not hostile:
            del written["agents"]["hostile"]
            written["tenants"]["acme"]["agents"].remove("hostile")
        if public:
            written["catalog"] = {"page": "public"}
            for visibility in ("private", "unlisted"):
                written["agents"][visibility] = {"backend": f"{agents}/flaky", "visibility": visibility}
                written["tenants"]["acme"]["agents"].append(visibility)
        with gateway_process(written, folder) as process:
            _await_cards(process.admin, token)
            yield Site(process, keys)


def _await_cards(admin: str, token: str | None) -> None:
    """Wait until the cards of the demo agents were read: the gateway serves before."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    deadline = time.monotonic() + WAIT
    with httpx.Client(base_url=admin, headers=headers, trust_env=False) as http:
        unread = ["?"]
        while unread and time.monotonic() < deadline:
            agents = http.get("/-/agents").json()["agents"]
            unread = [each["agent"] for each in agents if not each["card"]["read"] and each["agent"] != "away"]
            time.sleep(0.02)
    assert not unread, unread


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium."""
    with sync_playwright() as playwright:
        # Without its sandbox, because tests run as root in containers; with one process for all pages, and none that
        # draws as a graphics card would: together a fifth of what Chromium takes.
        options = ["--no-sandbox", "--renderer-process-limit=1", "--disable-gpu", "--disable-software-rasterizer"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@dataclass
class Visit:
    """One page, and what its console said."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self.page.close()
        if kind is None:
            assert self.complaints == []

    def _said(self, message: ConsoleMessage) -> None:
        # A status that the page asked for is no fault of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)


@contextmanager
def below_prefix(target: str, prefix: str) -> Iterator[str]:
    """Serve a site below a path, as a reverse proxy does that takes the path off; gives the URL of the site there."""

    class Proxy(BaseHTTPRequestHandler):
        """One request; the end of the connection is the end of the answer."""

        def do_GET(self) -> None:
            if not self.path.startswith(prefix + "/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = [(name, value) for name, value in self.headers.items() if name.lower() != "connection"]
            url = target + self.path.removeprefix(prefix)
            with (
                httpx.Client(trust_env=False, timeout=60) as http,
                http.stream(self.command, url, headers=headers, content=body) as answer,
                suppress(OSError),
            ):
                self.send_response(answer.status_code)
                for name, value in answer.headers.multi_items():
                    if name not in ("transfer-encoding", "connection", "date"):
                        self.send_header(name, value)
                self.end_headers()
                for chunk in answer.iter_raw():
                    self.wfile.write(chunk)
                    self.wfile.flush()

        do_POST = do_GET  # noqa: N815 - its name there

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{prefix}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
