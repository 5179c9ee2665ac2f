"""The operations of the admin listener are those of its OpenAPI document; the log level and drain among them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator

import pytest
from openapi_spec_validator import validate

from gateway.listener.admin import OPERATIONS
from tests.support.gateway import CALL, JSON, RESULT, Answer, Running, agent, running
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

TOKEN = "admin-token-0123456789abcdef"
AUTH = (b"Authorization", f"Bearer {TOKEN}".encode())
FILE = """\
gateway: {{ listen: 127.0.0.1:0, admin: {{ listen: "127.0.0.1:0", token: "{token}" }}, drain: {{ delay: 60s }} }}
agents: {{ echo: {url} }}
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def gateway(anyio_backend: str) -> AsyncIterator[Running]:
    async with (
        ScriptedBackend(agent(answers(whole(RESULT)))) as backend,
        running(FILE.format(token=TOKEN, url=backend.url)) as found,
    ):
        yield found


@pytest.fixture
def level_as_it_was() -> Iterator[None]:
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


async def put(gateway: Running, body: bytes, *headers: tuple[bytes, bytes]) -> Answer:
    return await gateway.ask("PUT", "/-/log-level", body, [JSON, *headers], admin=True)


async def test_the_document_is_openapi_and_has_every_operation(gateway: Running) -> None:
    answer = await gateway.get("/-/openapi.json", [AUTH], admin=True)
    assert answer.header("content-type") == "application/json"
    document = answer.json
    validate(document)
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert told == {(each.method, each.path) for each in OPERATIONS}
    assert document["components"]["schemas"]["LogLevel"]["properties"]["level"]["enum"][0] == "debug"


async def test_every_operation_is_served_and_only_open_ones_without_the_token(gateway: Running) -> None:
    for each in OPERATIONS:
        path = each.path.replace("{agent}", "echo")
        if each.name not in ("drain", "reload", "sign_out"):
            client = await gateway.client(admin=True)
            await client.ask(each.method, path, b"" if each.method != "GET" else None, [AUTH])
            status, _ = await client.head()
            assert status in each.answers, (path, status)
            client.leave()
        stranger = await gateway.ask(each.method, path, None if each.method == "GET" else b"", admin=True)
        assert (stranger.status == 401) is not each.is_open, path
        wrong = await gateway.ask("DELETE", path, None, [AUTH], admin=True)
        assert wrong.status == 405, path


@pytest.mark.usefixtures("level_as_it_was")
async def test_the_log_level_is_changed_while_the_gateway_runs(gateway: Running) -> None:
    for level in ("debug", "error", "info"):
        answer = await put(gateway, json.dumps({"level": level}).encode(), AUTH)
        assert (answer.status, answer.json) == (200, {"level": level, "unheard": 0})
        assert (await gateway.get("/-/log-level", [AUTH], admin=True)).json == {"level": level}
        assert logging.getLogger("gateway").isEnabledFor(logging.DEBUG) is (level == "debug")


async def test_unauthorized_requests_do_not_change_the_log_level(gateway: Running) -> None:
    before = logging.getLogger().level
    body = b'{"level": "debug"}'
    assert (await put(gateway, body)).status == 401
    assert (await put(gateway, body, AUTH, (b"Sec-Fetch-Site", b"cross-site"))).status == 403
    for wrong in (b"", b"{}", b'{"level": "trace"}', b'{"level": "debug", "x": 1}', b"[1"):
        assert (await put(gateway, wrong, AUTH)).status == 400
    assert (await put(gateway, b"x" * 100_000, AUTH)).status == 413
    assert logging.getLogger().level == before


@for_each("admin", ["token", "loopback"])
async def test_a_drained_gateway_is_not_ready_and_serves_on(admin: str) -> None:
    async with ScriptedBackend(agent(answers(whole(RESULT)))) as backend:
        text = FILE.format(token=TOKEN, url=backend.url)
        if admin == "loopback":
            text = text.replace(f', token: "{TOKEN}"', "")
        async with running(text) as gateway:
            headers = [AUTH] if admin == "token" else []
            foreign = (b"Origin", b"https://evil.example")
            assert (await gateway.ask("POST", "/-/drain", b"", [*headers, foreign], admin=True)).status == 403
            assert (await gateway.get("/-/ready")).status == 200
            for _ in range(2):
                answer = await gateway.ask("POST", "/-/drain", b"", headers, admin=True)
                assert (answer.status, answer.json) == (200, {"draining": True, "unheard": 0})
            assert [(await gateway.get("/-/ready", admin=where)).status for where in (False, True)] == [503, 503]
            assert (await gateway.get("/-/live", admin=True)).status == 200
            assert gateway.metric("draining") == 1
            answer = await gateway.post("/echo", CALL)
            assert (answer.status, answer.header("connection")) == (200, "close")
            # The latest file still decides who may call.
            await gateway.gateway.use(gateway.gateway.snapshot.examined)
            hurry = asyncio.Event()
            hurry.set()
            await gateway.gateway.stop(hurry, delay=0.0)


async def test_time_since_the_drain_counts_towards_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running("agents: { echo: 'http://127.0.0.1:1' }", settled=False) as gateway:
        assert await gateway.gateway.drain() == 0
        waited: list[float] = []

        async def within(_event: asyncio.Event, seconds: float) -> None:
            waited.append(seconds)

        monkeypatch.setattr("gateway.app.wait_within", within)
        gateway.gateway.drains_since -= 40.0
        await gateway.gateway.stop(asyncio.Event(), delay=60.0)
        assert 19.0 < waited[0] <= 20.0
