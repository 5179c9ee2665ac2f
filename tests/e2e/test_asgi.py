"""The gateway as an ASGI application: under the servers that people run, mounted, and called without sockets."""

import asyncio
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from gateway.asgi import ConfigurationError, create_app
from gateway.asgi import app as of_environment
from gateway.config.model import Config
from tests.e2e.process import ROOT, WAIT
from tests.e2e.sdk import saying
from tests.support.gateway import CALL, RESULT, Client, agent, card_of, request, secret
from tests.support.scripted import ScriptedBackend, Wire, answers, chunk, head, whole
from tests.table import cells

pytestmark = pytest.mark.anyio

PROMPT = 0.2
"""Seconds within which an agent must be told that its client has left."""
JSON = {"content-type": "application/json", "a2a-version": "1.0"}


def written(backend: str, folder: Path, **gateway: Any) -> dict[str, Any]:
    """A configuration in front of one agent whose card is a file."""
    (folder / "card.json").write_bytes(card_of(backend, "JSONRPC 1.0", name="echo", capabilities={"streaming": True}))
    card = str(folder / "card.json")
    return {"gateway": {"state": "memory", **gateway}, "agents": {"echo": {"backend": backend, "card": card}}}


@asynccontextmanager
async def transport(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gw.test") as client:
        yield client


async def told_by(app: Any, scope: dict[str, Any], message: dict[str, Any] | None, *, deaf: bool = False) -> list[Any]:
    """All that an application says to one message of its server; without one it waits for ever.

    Args:
        deaf: Whether what it says is never taken.
    """
    told: list[Any] = []

    async def receive() -> dict[str, Any]:
        nonlocal message
        if message is None:
            await asyncio.Event().wait()
        assert message is not None
        given, message = message, None
        return given

    async def tell(said: Any) -> None:
        if deaf:
            await asyncio.Event().wait()
        told.append(said)

    async with asyncio.timeout(WAIT):
        await app(scope, receive, tell)
    return told


def lines(log: BytesIO) -> list[Any]:
    return [json.loads(each) for each in log.getvalue().splitlines()]


# ---- Without sockets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checked", [False, True])
async def test_a_mapping_or_a_config_is_served_without_a_socket(tmp_path: Path, *, checked: bool) -> None:
    log = BytesIO()
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        mapping = written(backend.url, tmp_path, public_url="http://gw.test")
        config = Config.model_validate({"version": 1, **mapping}) if checked else mapping
        app = create_app(config, access_stream=log)
        async with app, transport(app) as client:
            answer = await client.post("/echo", content=CALL, headers=JSON)
            assert (answer.status_code, answer.json()) == (200, json.loads(RESULT))
            card = (await client.get("/echo/.well-known/agent-card.json")).json()
            assert {each["url"] for each in card["supportedInterfaces"]} == {"http://gw.test/echo"}
            assert (await client.get("/-/ready")).text == "ok\n"
            assert (await client.post("/nobody", content=CALL, headers=JSON)).status_code == 404
    assert [line["outcome"] for line in lines(log)].count("ok") == 2


async def test_without_a_lifespan_it_starts_with_the_first_request(tmp_path: Path) -> None:
    async with ScriptedBackend(answers(whole(RESULT))) as backend:
        app = create_app(written(backend.url, tmp_path), access_stream=BytesIO())
        async with transport(app) as client:
            answers_ = await asyncio.gather(*[client.post("/echo", content=CALL, headers=JSON) for _ in range(5)])
        assert {each.status_code for each in answers_} == {200}
        await app.aclose()


async def test_two_gateways_in_one_process_know_nothing_of_each_other(tmp_path: Path) -> None:
    async with ScriptedBackend(answers(whole(RESULT))) as backend:
        apps = []
        for name in ("one", "two"):
            key = {"sha256": hashlib.sha256(secret(name)).hexdigest(), "tenant": name}
            more = {"auth": {"api_keys": {name: key}}, "tenants": {name: ["echo"]}}
            apps.append(create_app({**written(backend.url, tmp_path), **more}, access_stream=BytesIO()))
        async with apps[0], apps[1], transport(apps[0]) as one, transport(apps[1]) as two:
            shown = {**JSON, "authorization": f"Bearer {secret('one').decode()}"}
            assert (await one.post("/echo", content=CALL, headers=shown)).status_code == 200
            assert (await two.post("/echo", content=CALL, headers=shown)).status_code == 401


@pytest.mark.parametrize(("framework", "public_url"), cells(("starlette", "fastapi"), ("", "http://gw.test/agents")))
async def test_the_application_is_mounted_at_a_path(tmp_path: Path, framework: str, public_url: str) -> None:
    async with ScriptedBackend(answers(whole(RESULT))) as backend:
        named = {"public_url": public_url} if public_url else {}
        app = create_app(written(backend.url, tmp_path, **named), access_stream=BytesIO())
        outer: Any
        if framework == "starlette":
            outer = Starlette(routes=[Mount("/agents", app)], lifespan=app.lifespan)
        else:
            outer = FastAPI(lifespan=app.lifespan)
            outer.mount("/agents", app)
        async with outer.router.lifespan_context(outer), transport(outer) as client:
            assert (await client.post("/agents/echo", content=CALL, headers=JSON)).json() == json.loads(RESULT)
            assert (await client.get("/agents/-/ready")).status_code == 200
            assert (await client.post("/echo", content=CALL, headers=JSON)).status_code == 404
            card = (await client.get("/agents/echo/.well-known/agent-card.json")).json()
            expected = f"{public_url or 'http://127.0.0.1:8080'}/echo"
            assert {each["url"] for each in card["supportedInterfaces"]} == {expected}


async def test_a_websocket_is_refused() -> None:
    app = create_app({"agents": {"echo": "http://127.0.0.1:9"}})
    told = await told_by(app, {"type": "websocket"}, {"type": "websocket.connect"})
    assert [each["type"] for each in told] == ["websocket.close"]


@pytest.mark.parametrize(
    ("headers", "target", "status"),
    [
        ([(b"host", b"a"), (b"host", b"b")], b"/echo", 400),
        ([], b"/echo", 400),
        ([(b"host", b"a/b")], b"/echo", 400),
        ([(b"host", b"a"), *[(b"x-%d" % number, b"") for number in range(100)]], b"/echo", 431),
        ([(b"host", b"a"), (b"x", b"." * 40_000)], b"/echo", 431),
        ([(b"host", b"a")], b"/" + b"a" * 9000, 414),
        ([(b"host", b"a")], b"/%65cho%2f", 400),
    ],
)
async def test_a_head_that_serve_refuses_is_refused(
    headers: list[tuple[bytes, bytes]], target: bytes, status: int
) -> None:
    log = BytesIO()
    scope = {"type": "http", "method": "POST", "path": "/", "raw_path": target, "query_string": b"", "headers": headers}
    app = create_app({"agents": {"echo": "http://127.0.0.1:9"}, "gateway": {"state": "memory"}}, access_stream=log)
    async with app:
        told = await told_by(app, scope, {"type": "http.request", "body": b"", "more_body": False})
    assert told[0]["status"] == status
    [line] = lines(log)
    assert (line["status"], line["outcome"], line["reason"]) == (status, "client_error", "bad_request")
    assert (b"x-request-id", line["request_id"].encode()) in told[0]["headers"]


@pytest.mark.parametrize(
    ("bounds", "statuses", "reason"),
    [
        ({"body_idle": "50ms"}, [408], "bad_request"),
        ({"write_stall": "50ms"}, [], "client_gone"),
        ({}, [200], None),
    ],
)
async def test_a_client_that_does_nothing_is_not_waited_for(
    bounds: dict[str, str], statuses: list[int], reason: str | None, tmp_path: Path
) -> None:
    """The body of one does not come, the other reads nothing; a third, of HTTP/1.0, names no host."""
    log = BytesIO()
    headers = [(b"content-type", b"application/json"), (b"a2a-version", b"1.0")]
    scope = {"type": "http", "method": "POST", "path": "/echo", "headers": headers, "http_version": "1.0"}
    body = None if "body_idle" in bounds else {"type": "http.request", "body": CALL, "more_body": False}
    async with ScriptedBackend(answers(whole(RESULT))) as backend:
        app = create_app(written(backend.url, tmp_path, http=bounds), access_stream=log)
        async with app:
            told = await told_by(app, scope, body, deaf="write_stall" in bounds)
    assert [each["status"] for each in told if "status" in each] == statuses
    [line] = lines(log)
    assert line.get("reason") == reason


async def test_a_body_in_many_parts_costs_as_much_as_one_in_few(tmp_path: Path) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(20_000):
            yield b" " * 256
        yield CALL

    async with ScriptedBackend(answers(whole(RESULT))) as backend:
        app = create_app(written(backend.url, tmp_path), access_stream=BytesIO())
        async with app, transport(app) as client, asyncio.timeout(WAIT):
            answer = await client.post("/echo", content=parts(), headers=JSON)
        assert answer.json() == json.loads(RESULT)


# ---- What it is made from, and listens to itself ---------------------------------------------------------------------

MISTAKE = "version: 1\nagents: { echo: { backnd: http://127.0.0.1:9 } }\n"


def test_a_configuration_with_a_mistake_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(MISTAKE)
    with pytest.raises(ConfigurationError, match=r"gateway\.yaml:2:19  agents\.echo\.backnd: unknown key"):
        create_app(file)
    with pytest.raises(ConfigurationError, match="there is no agent"):
        create_app({"agents": {}})


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "A2A_GATEWAY_CONFIG is not set"), (MISTAKE, "gateway.yaml:2:19  agents.echo.backnd")],
)
async def test_a_file_with_a_mistake_fails_the_start_of_its_server(
    text: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gateway.yaml"
    monkeypatch.delenv("A2A_GATEWAY_CONFIG", raising=False)
    if text is not None:
        file.write_text(text)
        monkeypatch.setenv("A2A_GATEWAY_CONFIG", str(file))
    told = await told_by(of_environment, {"type": "lifespan"}, {"type": "lifespan.startup"})
    assert [each["type"] for each in told] == ["lifespan.startup.failed"]
    assert why in told[0]["message"]


async def test_operators_and_grpc_have_addresses_only_where_the_file_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2A_GATEWAY_PUBLIC_URL", "http://outside.test")
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        async with create_app(written(backend.url, tmp_path), access_stream=BytesIO()) as app:
            gateway = app.gateway
            assert (gateway.admin_url, gateway.grpc_address, gateway.listeners.servers) == ("", "", [])
            assert gateway.public_url == "http://outside.test"
        more = {"admin": "127.0.0.1:0", "listen_grpc": "127.0.0.1:0"}
        async with create_app(written(backend.url, tmp_path, **more), access_stream=BytesIO()) as app:
            async with httpx.AsyncClient() as client:
                assert (await client.get(f"{app.gateway.admin_url}/-/agents")).status_code == 200
            assert app.gateway.grpc_address


# ---- Under servers ---------------------------------------------------------------------------------------------------

SERVERS = {
    "uvicorn": ["-m", "uvicorn", "gateway.asgi:app", "--port", "{port}", "--http", "h11", "--no-proxy-headers"],
    "hypercorn": ["-m", "hypercorn", "gateway.asgi:app", "--bind", "127.0.0.1:{port}"],
    "granian": ["-m", "granian", "--interface", "asgi", "gateway.asgi:app", "--port", "{port}"],
}


@contextmanager
def served(server: str, configuration: dict[str, Any], folder: Path) -> Iterator[str]:
    """`gateway.asgi:app` under a server; gives its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    configuration["gateway"]["public_url"] = url
    file = folder / "gateway.yaml"
    file.write_text(json.dumps({"version": 1, **configuration}))
    words = [word.format(port=port) for word in SERVERS[server]]
    process = subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env={**os.environ, "A2A_GATEWAY_CONFIG": str(file)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        with httpx.Client(transport=httpx.HTTPTransport(retries=10)) as client:
            assert client.get(f"{url}/-/ready").status_code == 200
        yield url
    finally:
        process.terminate()
        _, said = process.communicate(timeout=WAIT)
        assert b"Traceback" not in said, said.decode()


EVENT = b"data: " + RESULT + b"\n\n"
STREAM = CALL.replace(b"SendMessage", b"SendStreamingMessage")


async def talks(wire: Wire) -> None:
    """Answers a send at once; a stream has one event, and then waits for its client to leave."""
    while request := await wire.request():
        if b"SendStreamingMessage" in request.body:
            await wire.send(head(b"transfer-encoding: chunked", content_type=b"text/event-stream") + chunk(EVENT))
            if b"the end" in request.body:
                await wire.send(chunk(b""))
        else:
            await wire.send(whole(RESULT))


CARD_PATH = "/echo/.well-known/agent-card.json"


async def sends_a_body_in_its_own_way(url: str, *, asks_at_once: bool) -> None:
    """In chunks with a trailer, only when told to go on, and all of it whatever the answer is.

    Args:
        asks_at_once: Whether the server tells every client to go on.
    """

    async def connected() -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2])))

    client = await connected()
    opening = request(
        "POST", "/echo", None, [(b"transfer-encoding", b"chunked"), (b"content-type", b"application/json")]
    )
    await client.send(opening + chunk(CALL) + b"0\r\nA2A-Version: 9.9\r\n\r\n")
    assert (await client.answer()).body == RESULT
    client.leave()
    for path, begins in (
        ("/echo", b"HTTP/1.1 100 "),
        ("/nobody", b"HTTP/1.1 100 " if asks_at_once else b"HTTP/1.1 404 "),
    ):
        client = await connected()
        length = (b"content-length", b"%d" % len(CALL))
        await client.send(request("POST", path, None, [length, (b"expect", b"100-continue")]))
        async with asyncio.timeout(WAIT):
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(begins)
        client.leave()
    client = await connected()
    await client.send(request("POST", "/nobody", b"x" * 900_000))
    assert (await client.answer()).status == 404
    client.leave()


@pytest.mark.parametrize(
    ("server", "http2"),
    [
        ("uvicorn", False),
        pytest.param("hypercorn", False, marks=pytest.mark.long),
        ("hypercorn", True),
        ("granian", False),
        pytest.param("granian", True, marks=pytest.mark.long),
    ],
)
async def test_clients_notice_nothing_under_another_server(server: str, http2: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a column
    async with ScriptedBackend(talks) as backend:
        with served(server, written(backend.url, tmp_path), tmp_path) as url:
            async with httpx.AsyncClient(http1=not http2, http2=http2, timeout=WAIT) as http:
                answer = await http.post(f"{url}/echo", content=CALL, headers=JSON)
                assert (answer.status_code, answer.json()) == (200, json.loads(RESULT))
                assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
                assert answer.headers["x-request-id"]
                assert (await http.post(f"{url}/nobody", content=CALL, headers=JSON)).status_code == 404
                refused = await http.delete(f"{url}/echo")
                assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
                full, bare = await http.get(url + CARD_PATH), await http.head(url + CARD_PATH)
                assert (bare.status_code, bare.content) == (200, b"")
                assert bare.headers["content-length"] == full.headers["content-length"] == str(len(full.content))
                if not http2:
                    await sends_a_body_in_its_own_way(url, asks_at_once=server == "hypercorn")
                async with http.stream("POST", f"{url}/echo", content=STREAM, headers=JSON) as stream:
                    assert stream.headers["content-type"] == "text/event-stream"
                    # It comes although the agent says nothing more.
                    assert await anext(stream.aiter_raw()) == EVENT
                    left = asyncio.get_running_loop().time()
            await backend.all_gone()
            # A trailer is no header.
            assert {request.header(b"a2a-version") for request in backend.requests} <= {b"1.0", None}
            [wire] = [each for each in backend.wires if each.left_at is not None]
            assert wire.left_at is not None
            assert wire.left_at - left < PROMPT
            async with httpx.AsyncClient(http1=not http2, http2=http2, headers=JSON, timeout=WAIT) as http:
                client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(f"{url}/echo")
                events = [event async for event in client.send_message(saying("the end"))]
                assert [event.message.parts[0].text for event in events] == ["ho"]
