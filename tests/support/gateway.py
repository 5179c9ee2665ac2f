"""A whole gateway in the test's own loop, in front of scripted agents, and clients on raw sockets.

    async with fronted(answers(whole(RESULT))) as (gateway, backend):
        answer = await gateway.post("/echo")

Ports are picked by the system. Access log lines are collected, and can be waited for.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from textwrap import dedent
from typing import Any, BinaryIO, cast

import yaml
from prometheus_client.samples import Sample

from gateway.app import Gateway
from gateway.config.check import examine, stamped
from gateway.listener.server import HttpServer
from gateway.push.ssrf import WebhookPolicy
from gateway.push.webhooks import Webhooks
from gateway.reload import ConfigurationOrigin
from gateway.snapshot import Snapshot
from gateway.tasks.ledger import make_store
from gateway.tasks.state_url import StateUrl
from gateway.tasks.store import Store
from gateway.telemetry.metrics import GatewayMetrics
from gateway.upstream.http import HttpUpstream
from tests.e2e.agents.server import Server
from tests.edge import IS_ASGI, in_front_of
from tests.support.kept import shared
from tests.support.names import public_names
from tests.support.scripted import WAIT, Script, ScriptedBackend, Wire, whole

Pairs = Iterable[tuple[bytes, bytes]]

CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER",'
    b'"parts":[{"text":"hi"}]}}}'
)
STREAM = CALL.replace(b"SendMessage", b"SendStreamingMessage")
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m2","role":"ROLE_AGENT","parts":[{"text":"ho"}]}}}'
JSON = (b"content-type", b"application/json")


# ---- Agents --------------------------------------------------------------------------------------------------------


def agent(script: Script, card: bytes | None = None) -> Script:
    """An agent that plays `script` for calls, and answers who asks for its card; with 404 where it has none."""
    answer = whole(b"nothing", status=b"404 Not Found") if card is None else whole(card)
    asks = b"GET /.well-known/"

    async def played(wire: Wire) -> None:
        await wire.received(len(asks))
        if not wire.buffer.startswith(asks):
            await script(wire)
            return
        await wire.request()
        wire.backend.requests.pop()
        await wire.send(answer)

    return played


def card_of(url: str, *dialects: str, tenant: str | None = None, **members: object) -> bytes:
    """A card that offers dialects such as `JSONRPC 1.0` at `url`."""
    interfaces = []
    for dialect in dialects:
        binding, version = dialect.split(" ")
        interface = {"url": url, "protocolBinding": binding, "protocolVersion": version}
        interfaces.append(interface if tenant is None else {**interface, "tenant": tenant})
    card = {
        "name": "Scripted",
        "description": "Does what it is told.",
        "version": "1.0.0",
        "supportedInterfaces": interfaces,
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
        **members,
    }
    return json.dumps(card).encode()


# ---- The client's side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; `headers` with names in lower case, without the date."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for known, value in self.headers if known == name]
        assert len(found) < 2, found
        return found[0] if found else None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        found = self.header("x-request-id")
        assert found is not None
        return found

    @property
    def reasons(self) -> list[str]:
        """The reasons that an error gives, in order."""
        error = self.json["error"]
        return [each["reason"] for each in error.get("data") or error["details"]]

    @property
    def anonymous(self) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
        """All of it but for the request id."""
        headers = tuple((name, "ID" if name == "x-request-id" else value) for name, value in self.headers)
        return self.status, headers, self.body.replace(self.id.encode(), b"ID")


class Client:
    """One connection to a gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._chunked = False
        self._left: int | None = 0

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(WAIT):
            await self.writer.drain()

    async def ask(self, method: str, target: str, body: bytes | None = None, headers: Pairs = ()) -> None:
        """Send a request; it has a Content-Length if it has a body."""
        await self.send(request(method, target, body, headers))

    async def head(self) -> tuple[int, tuple[tuple[str, str], ...]]:
        """The head of the next answer, interim ones skipped."""
        async with asyncio.timeout(WAIT):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw[:-4].decode("latin-1").split("\r\n")
        status = int(first.split(" ")[1])
        if status == 100:
            return await self.head()
        fields = tuple((name.lower(), value) for name, _, value in (line.partition(": ") for line in lines))
        headers = tuple((name, value) for name, value in fields if name != "date")
        names = dict(headers)
        self._chunked = names.get("transfer-encoding") == "chunked"
        self._left = 0 if status in (204, 304) else int(names["content-length"]) if "content-length" in names else None
        return status, headers

    async def piece(self) -> bytes:
        """The next chunk of a chunked body; b"" for its clean end.

        Raises:
            asyncio.IncompleteReadError: the connection ended without one.
        """
        assert self._chunked
        async with asyncio.timeout(WAIT):
            size = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """The body to its clean end."""
        if not self._chunked:
            async with asyncio.timeout(WAIT):
                return await self.reader.readexactly(self._left) if self._left is not None else await self.reader.read()
        parts = []
        while part := await self.piece():
            parts.append(part)
        return b"".join(parts)

    async def answer(self, *, bodiless: bool = False) -> Answer:
        """The next answer, whole; `bodiless` where the request was HEAD."""
        status, headers = await self.head()
        return Answer(status, headers, b"" if bodiless else await self.rest())

    async def ended(self) -> bytes:
        """Return the bytes that arrive until the gateway closes."""
        async with asyncio.timeout(WAIT):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    def leave(self) -> None:
        """Close at once, as a client that is killed."""
        # CPython 3.11.2 cannot abort a TLS transport that was closed twice.
        with suppress(AttributeError):
            self.writer.transport.abort()


def request(method: str, target: str, body: bytes | None = None, headers: Pairs = ()) -> bytes:
    """A request as bytes, with Host and, if it has a body, Content-Length."""
    lines = [f"{method} {target} HTTP/1.1".encode(), b"Host: 127.0.0.1"]
    lines += [name + b": " + value for name, value in headers]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


# ---- The gateway ---------------------------------------------------------------------------------------------------


class _Lines(RawIOBase):
    """The stream of the access log, written to from a thread of its own."""

    def __init__(self, arrived: Callable[[bytes], None]) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._arrived = arrived

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raw = bytes(data)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrived, raw)
        return len(raw)


class Running:
    """A gateway that runs, and what it said."""

    def __init__(self, gateway: Gateway, lines: list[dict[str, Any]]) -> None:
        self.gateway = gateway
        self.lines = lines
        self.news = asyncio.Event()
        self.port = 0
        self.admin_port = 0
        self.clients: list[Client] = []
        self.asgi_server: Server | None = None
        self._counted: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}

    async def forget(self) -> None:
        """Let clients leave, wait until nothing is served, and begin to count and to collect lines anew."""
        for client in self.clients:
            client.leave()
        self.clients.clear()
        await self.until(lambda: self.serving == 0)
        # The line of this one comes behind those of all others.
        await self.get("/-/behind")
        await self.until(lambda: any(line["path"] == "/-/behind" for line in self.lines))
        self.lines.clear()
        # Looked at once, as a rule, for that takes longer than most requests.
        async with asyncio.timeout(WAIT):
            while _under_way(samples := list(self._samples())):  # noqa: ASYNC110 - they tell nobody
                await asyncio.sleep(0.005)
        self._counted = {
            (sample.name.removeprefix("a2a_gateway_"), frozenset(sample.labels.items())): sample.value
            for sample in samples
            if sample.name.endswith(("_total", "_count", "_sum", "_bucket"))
        }

    async def client(self, *, admin: bool = False) -> Client:
        """A new connection."""
        port = self.admin_port if admin else self.port
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
        self.clients.append(client)
        return client

    async def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Pairs = (), *, admin: bool = False
    ) -> Answer:
        """One request on a connection of its own."""
        client = await self.client(admin=admin)
        try:
            await client.ask(method, target, body, headers)
            return await client.answer(bodiless=method == "HEAD")
        finally:
            client.writer.close()

    async def post(self, target: str, body: bytes = CALL, headers: Pairs = ()) -> Answer:
        """One POST of JSON on a connection of its own."""
        return await self.ask("POST", target, body, (JSON, *headers))

    async def get(self, target: str, headers: Pairs = (), *, admin: bool = False) -> Answer:
        """One GET on a connection of its own."""
        return await self.ask("GET", target, None, headers, admin=admin)

    async def line(self, number: int = -1, *, of: int = 1) -> dict[str, Any]:
        """A line of the access log, once there are `of` of them."""
        await self.until(lambda: len(self.lines) >= of)
        assert len(self.lines) == of, self.lines
        return self.lines[number]

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something holds; asked again after every line of the access log and a few times a second."""
        async with asyncio.timeout(WAIT):
            while not true():
                self.news.clear()
                try:
                    async with asyncio.timeout(0.02):
                        await self.news.wait()
                except TimeoutError:
                    continue

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels; the prefix is added."""
        return sum(value for found, value in self.series(name) if labels.items() <= found.items())

    def series(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Every series of a metric."""
        found = [(dict(each.labels), each.value) for each in self._samples() if each.name == f"a2a_gateway_{name}"]
        if not self._counted:
            return found
        counted = {(name, frozenset(labels.items())): value for labels, value in found}
        fresh = [(dict(key[1]), value - self._counted.get(key, 0.0)) for key, value in counted.items()]
        return [
            (labels, value)
            for labels, value in fresh
            if value or (name, frozenset(labels.items())) not in self._counted
        ]

    def _samples(self) -> Iterator[Sample]:
        """Everything that is shown, without its text: that takes longer than most requests."""
        return (sample for family in self.gateway.metrics.registry.collect() for sample in family.samples)

    @property
    def serving(self) -> int:
        """Requests that are being served, by the tasks of the servers."""
        behind_asgi = 0 if self.asgi_server is None else self.asgi_server.requests
        return behind_asgi + sum(len(server.state.tasks) for server in self.gateway.listeners.servers)

    async def rested(self) -> None:
        """Wait until nothing is being served, and no connection to an agent is in use."""
        upstreams = [backend.upstream for backend in self.gateway.snapshot.backends.values()]
        waiting = [upstream.pool for upstream in upstreams if isinstance(upstream, HttpUpstream)]
        await self.until(lambda: self.serving == 0 and not any(each.active for each in upstreams))
        assert not any(pool.waiting for pool in waiting)
        assert not _under_way(self._samples())


def _under_way(samples: Iterable[Sample]) -> list[Sample]:
    """The figures of what is not over."""
    names = ("a2a_gateway_requests_in_flight", "a2a_gateway_streams_open")
    return [each for each in samples if each.name in names and each.value]


@asynccontextmanager
async def compiled(
    text: str, public_url: str = "https://gw.test", path: Path = Path("gateway.yaml")
) -> AsyncIterator[Snapshot]:
    """A configuration ready to serve, that nobody serves."""
    examined = examine(path, {}, text=f"version: 1\n{dedent(text)}")
    assert examined.errors == (), examined.errors
    webhooks = Webhooks(WebhookPolicy(resolve=public_names()))
    snapshot = Snapshot.build(examined, GatewayMetrics("test"), public_url, webhooks=webhooks)
    try:
        yield snapshot
    finally:
        await snapshot.aclose()


@asynccontextmanager
async def running(
    text: str,
    *,
    environ: dict[str, str] | None = None,
    path: Path = Path("gateway.yaml"),
    settled: bool = True,
    written: bool = False,
    store: Store | None = None,
) -> AsyncIterator[Running]:
    """Start a gateway from what a file says, its version and addresses aside, and stop it in the end.

    Args:
        text: YAML from `agents:` on; a `gateway:` of its own must name the addresses itself.
        settled: Wait until each agent was asked for its card once.
        written: Whether it is written to `path` first, so that it can be read again.
        store: The store of owners; by default one in memory.
    """
    whole = whole_file(text)
    server = Server() if IS_ASGI else None
    if server is not None:
        whole = whole.replace('listen: "127.0.0.1:0"', f'listen: "127.0.0.1:{server.port}"')
    if written:
        path.write_text(whole)  # noqa: ASYNC240 - a few bytes, before anything runs
    examined = stamped(examine(path, environ or {}, text=whole))
    assert examined.errors == (), examined.errors
    lines: list[dict[str, Any]] = []
    found: list[Running] = []

    def arrived(raw: bytes) -> None:
        lines.extend(json.loads(line) for line in raw.splitlines())
        found[0].news.set()

    gateway = Gateway(
        examined,
        access_stream=cast("BinaryIO", _Lines(arrived)),  # written to, and nothing else
        state=StateUrl("memory"),
        resolver=public_names(),
        origin=ConfigurationOrigin(path, environ or {}) if written else None,
        over_http=server is None,
        open_store=make_store if store is None else lambda _state: store,
    )
    running = Running(gateway, lines)
    found.append(running)
    stack = AsyncExitStack()
    try:
        await gateway.start()
        if server is None:
            running.port, running.admin_port = map(_port, gateway.listeners.servers[:2])
        else:
            running.asgi_server = server
            running.admin_port = _port(gateway.listeners.servers[0])
            running.port = await stack.enter_async_context(in_front_of(gateway, server))
        if settled:
            async with asyncio.timeout(WAIT):
                # Nothing of the configuration is to be kept from here.
                for source in [backend.source for backend in gateway.snapshot.backends.values()]:
                    await source.settled.wait()
        yield running
    finally:
        for client in running.clients:
            client.leave()
        await stack.aclose()
        if not gateway.draining:
            hurry = asyncio.Event()
            hurry.set()
            await gateway.stop(hurry, delay=0.0)


def whole_file(text: str) -> str:
    """A file whose version and addresses were left out."""
    text = dedent(text)
    return f"version: 1\n{text}" if "\ngateway:" in "\n" + text else f"version: 1\n{LISTENS}\n{text}"


LISTENS = 'gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0" }'
"""Addresses for a `gateway:` that a test writes itself."""


@asynccontextmanager
async def fronted(
    script: Script, more: str = "", *, card: bytes | None = None, settings: str = ""
) -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    """A gateway in front of one agent that anybody may call at /echo.

    Args:
        more: Further settings of the agent, as lines of YAML.
        settings: Further settings of `gateway:`, as YAML in one line.
    """

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Running, ScriptedBackend]]:
        async with ScriptedBackend(agent(script, card)) as backend:
            lines = "".join(f"\n    {line}" for line in dedent(more).strip().splitlines())
            listens = LISTENS.replace(" }", f", {settings} }}") if settings else LISTENS
            async with running(f"{listens}\nagents:\n  echo:\n    backend: {backend.url}{lines}\n") as gateway:
                yield gateway, backend

    async with shared(("fronted", more, card, settings), opened) as ((gateway, backend), used):
        if used:
            await gateway.forget()
            await backend.plays(agent(script, card))
        yield gateway, backend


@dataclass
class Scripted:
    """A gateway in front of one scripted agent, as clients see it by its URL."""

    running: Running
    backend: ScriptedBackend

    @property
    def gateway(self) -> Gateway:
        return self.running.gateway

    @property
    def port(self) -> int:
        return self.running.port

    @property
    def url(self) -> str:
        """Return the URL of the only agent."""
        return f"http://127.0.0.1:{self.port}/agent"

    @property
    def access(self) -> list[dict[str, Any]]:
        """The lines of the access log; complete once the gateway has stopped."""
        return self.running.lines

    async def stop(self) -> None:
        """Stop it now, with the last words that open calls get."""
        hurry = asyncio.Event()
        hurry.set()
        await self.gateway.stop(hurry)


@asynccontextmanager
async def scripted(
    script: Script,
    folder: Path,
    *,
    url: str | None = None,
    below: str = "",
    speaks: tuple[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Scripted]:
    """A gateway in front of one scripted agent that speaks 1.0 and 0.3 over both bindings; its card is a file.

    Args:
        folder: Where that file is, and those that `settings` name.
        url: Where the agent is, instead of where the script is played.
        below: Path of the agent there.
        speaks: The only protocol and version that it speaks, instead.
        settings: More members of the agent in the file.
    """
    async with ScriptedBackend(script) as backend:
        at = (url or backend.url) + below
        dialects = [f"{binding} {version}" for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON")]
        (folder / "card.json").write_bytes(card_of(at, *dialects, capabilities={"streaming": True}))
        protocol = {} if speaks is None else {"protocol": speaks[0], "a2a_version": speaks[1]}
        member = {"backend": {"url": at, **protocol}, "card": "card.json", **settings}
        text = yaml.safe_dump({"agents": {"agent": member}})
        async with running(text, path=folder / "gateway.yaml") as gateway:
            yield Scripted(gateway, backend)


def _port(server: HttpServer) -> int:
    return server.port


# ---- Credentials ---------------------------------------------------------------------------------------------------


def secret(name: str) -> bytes:
    """The API key called `name`."""
    return f"{name}-0123456789abcdef0123456789abcdef".encode()


def keys(**tenants: str) -> str:
    """`auth:` with one API key for each name, of the tenant it is given."""
    entries = "\n".join(
        f"    {name}: {{ sha256: {hashlib.sha256(secret(name)).hexdigest()}, tenant: {tenant} }}"
        for name, tenant in tenants.items()
    )
    return f"auth:\n  api_keys:\n{entries}\n"


def bearer(name: str) -> tuple[bytes, bytes]:
    """The header that shows a key."""
    return b"Authorization", b"Bearer " + secret(name)
