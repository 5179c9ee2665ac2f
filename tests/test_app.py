"""The gateway from its file to its last word: what it opens, what it tells, how it ends, and that nothing is left."""

import asyncio
import io
import json
import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import trustme

from gateway import app
from gateway.app import Gateway, run, serve, serve_examined
from gateway.config.check import Examined, examine
from gateway.listener.server import ListenFailed
from tests.doubles.gateway import CALL, JSON, RESULT, STREAM, Running, agent, card_of, fronted, request, running
from tests.doubles.scripted import WAIT, ScriptedBackend, Wire, answers, chunk, head, whole

pytestmark = pytest.mark.anyio

CARD = card_of("http://127.0.0.1/", "JSONRPC 1.0")
EVENT = b'data: {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}\n\n'  # noqa: E501 - as it goes over the wire
ANYWHERE = '{ listen: "0.0.0.0:0", admin: "127.0.0.1:0", anonymous: true, public_url: "https://gw.test" }'
HERE = '{ listen: "127.0.0.1:0", admin: "127.0.0.1:0" }'


@pytest.fixture(autouse=True)
def process_as_it_was() -> Iterator[None]:
    """What `serve` sets up for its process is taken back."""
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    level, handlers = root.level, list(root.handlers)
    disabled, propagate = access.disabled, access.propagate
    levels = {name: logging.getLogger(name).level for name in ("httpx", "httpcore", "asyncio", "uvicorn.error")}
    signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    logging.captureWarnings(capture=False)
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        sink: Any = getattr(handler, "sink", None)
        if sink is not None:
            sink.close()
    root.setLevel(level)
    root.handlers[:] = handlers
    access.disabled, access.propagate = disabled, propagate
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)
    for number, action in signals.items():
        signal.signal(number, action)


def examined(text: str, path: Path = Path("gateway.yaml")) -> Examined:
    found = examine(path, {}, text=f"version: 1\n{dedent(text)}")
    assert found.errors == (), found.errors
    return found


def assembled(text: str, path: Path = Path("gateway.yaml")) -> Gateway:
    return Gateway(examined(text, path), access_stream=io.BytesIO())


@asynccontextmanager
async def taken() -> AsyncIterator[str]:
    """An address that somebody listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield f"127.0.0.1:{other.getsockname()[1]}"


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT):
        while not true():  # noqa: ASYNC110 - the kernel and other threads tell nobody
            await asyncio.sleep(0.01)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


class Held:
    """An agent that has been asked, and answers when it is told to."""

    def __init__(self, first: bytes = b"", last: bytes = whole(RESULT)) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self._first, self._last = first, last

    async def __call__(self, wire: Wire) -> None:
        await wire.request()
        if self._first:
            await wire.send(self._first)
        self.asked.set()
        await self.go.wait()
        await wire.send(self._last)
        await wire.hang()


def streaming() -> Held:
    return Held(head(b"transfer-encoding: chunked", content_type=b"text/event-stream") + chunk(EVENT), chunk(b""))


@asynccontextmanager
async def patient(held: Held, patience: str) -> AsyncIterator[Running]:
    """A gateway that gives what is open so much time to end, in front of one agent at /echo."""
    async with ScriptedBackend(agent(held, CARD)) as backend:
        listens = HERE.replace(" }", f", drain: {patience} }}")
        async with running(f"gateway: {listens}\nagents: {{ echo: '{backend.url}' }}\n") as site:
            yield site


# ---- Start ---------------------------------------------------------------------------------------------------------


async def test_both_ports_answer_and_the_log_says_where(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gateway")
    async with running("agents: {}") as site:
        gateway = site.gateway
        assert (gateway.public_url, gateway.admin_url) == (
            f"http://127.0.0.1:{site.port}",
            f"http://127.0.0.1:{site.admin_port}",
        )
        assert f"serving {gateway.public_url}, admin on {gateway.admin_url}" in caplog.messages
        for admin in (False, True):
            assert (await site.get("/-/ready", admin=admin)).body == b"ok\n"
        assert site.metric("config_last_reload_successful") == 1
        assert site.metric("config_last_reload_success_timestamp_seconds") > 1_600_000_000
        assert site.metric("draining") == 0
        assert site.metric("log_dropped_total") == 0


async def test_the_url_of_the_file_is_the_one_that_is_told() -> None:
    async with running(f"gateway: {ANYWHERE}\nagents: {{}}") as site:
        assert site.gateway.public_url == "https://gw.test"


@pytest.mark.parametrize("which", ["public", "admin"])
async def test_an_address_that_is_taken_is_named(which: str) -> None:
    async with taken() as address:
        public, admin = (address, "127.0.0.1:0") if which == "public" else ("127.0.0.1:0", address)
        gateway = assembled(f'gateway: {{ listen: "{public}", admin: "{admin}" }}\nagents: {{}}')
        with pytest.raises(ListenFailed, match=f"cannot listen on {address}: Address already in use"):
            await gateway.start()
        assert not gateway.started


async def test_the_public_port_is_closed_if_the_admin_port_is_taken() -> None:
    async with taken() as address:
        gateway = assembled(f'gateway: {{ listen: "127.0.0.1:0", admin: "{address}" }}\nagents: {{}}')
        with pytest.raises(ListenFailed):
            await gateway.start()
        [public] = gateway._servers
        assert public._listener.fileno() == -1


async def test_a_configuration_with_errors_is_not_assembled() -> None:
    broken = examine(Path("gateway.yaml"), {}, text="version: 1\nagents: { echo: ftp://x }\n")
    with pytest.raises(ValueError, match="the configuration has problems"):
        Gateway(broken, access_stream=io.BytesIO())


async def test_before_the_start_there_is_nothing_to_serve_from() -> None:
    gateway = assembled("agents: {}")
    with pytest.raises(RuntimeError, match="not started"):
        _ = gateway.snapshot
    assert b"a2a_gateway_build_info" in gateway.metrics.render()
    gateway.access.close()


# ---- TLS -----------------------------------------------------------------------------------------------------------


def certified(folder: Path) -> trustme.CA:
    """Write `tls/chain.pem` and `tls/key.pem` into a folder."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    (folder / "tls").mkdir(parents=True)
    (folder / "tls/chain.pem").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    (folder / "tls/key.pem").write_bytes(certificate.private_key_pem.bytes())
    return authority


SECURED = """\
gateway:
  listen: 127.0.0.1:0
  admin: 127.0.0.1:0
  tls: { cert: tls/chain.pem, key: tls/key.pem }
agents: {}
"""


async def test_clients_are_served_over_tls_with_files_beside_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    authority = certified(site)
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for path in (site / "gateway.yaml", Path("../site/gateway.yaml")):
        async with running(SECURED, path=path) as gateway:
            assert gateway.gateway.public_url == f"https://127.0.0.1:{gateway.port}"
            assert gateway.gateway.admin_url.startswith("http://")
            context = ssl.create_default_context()
            authority.configure_trust(context)
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, ssl=context)
            assert writer.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
            writer.write(request("GET", "/-/ready"))
            async with asyncio.timeout(WAIT):
                assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK")
            writer.transport.abort()
            # Who speaks plain HTTP there is not answered in it.
            plain = await gateway.client()
            await plain.ask("GET", "/-/ready")
            assert not (await plain.ended()).startswith(b"HTTP/")


async def test_a_certificate_that_cannot_be_used_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    certified(tmp_path)
    gateway = assembled(SECURED, tmp_path / "gateway.yaml")
    # After it was checked.
    (tmp_path / "tls/chain.pem").write_text("this was a certificate once\n")
    with pytest.raises(ListenFailed, match=r"cannot serve TLS with .*tls/chain\.pem and .*tls/key\.pem: "):
        await gateway.start()
    assert gateway._servers == []


# ---- Stop ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "drain", "asked", "delay"),
    [
        (HERE, "", None, 0.0),
        (HERE.replace("127.0.0.1:0", "localhost:0", 1), "", None, 0.0),
        (ANYWHERE, "", None, 5.0),
        (ANYWHERE, "drain: 1s", None, 5.0),
        (ANYWHERE, "drain: { delay: 7s }", None, 7.0),
        (ANYWHERE, "drain: { delay: 0s }", None, 0.0),
        (HERE, "drain: { delay: 3s }", None, 3.0),
        (ANYWHERE, "drain: { delay: 7s }", 0.0, 0.0),
    ],
)
async def test_balancers_get_time_to_notice_where_there_may_be_some(
    monkeypatch: pytest.MonkeyPatch, written: str, drain: str, asked: float | None, delay: float
) -> None:
    waited: list[float] = []

    async def within(_event: asyncio.Event, seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(app, "_within", within)
    gateway = written.replace(" }", f", {drain} }}") if drain else written
    async with running(f"gateway: {gateway}\nagents: {{}}") as site:
        await site.gateway.stop(asyncio.Event(), delay=asked)
    assert waited == ([delay] if delay else [])


async def test_while_the_delay_runs_requests_are_served_and_nobody_is_called_ready() -> None:
    async with ScriptedBackend(agent(answers(whole(RESULT)), CARD)) as backend:
        text = f"gateway: {ANYWHERE}\nagents: {{ echo: '{backend.url}' }}\n"
        async with running(text) as site, asyncio.TaskGroup() as group:
            hurry = asyncio.Event()
            stopping = group.create_task(site.gateway.stop(hurry))
            await until(lambda: site.gateway.draining)
            for admin in (False, True):
                ready = await site.get("/-/ready", admin=admin)
                assert (ready.status, ready.body) == (503, b"draining\n")
                assert (await site.get("/-/live", admin=admin)).status == 200
            answer = await site.post("/echo")
            # Clients that have a connection are told to get another one, elsewhere.
            assert (answer.json, answer.header("connection")) == (json.loads(RESULT), "close")
            assert site.metric("draining") == 1
            assert not stopping.done()
            began = asyncio.get_running_loop().time()
            hurry.set()
            await stopping
            assert asyncio.get_running_loop().time() - began < 4.0


async def test_a_call_that_ends_in_time_gets_its_answer_and_nobody_new_is_let_in() -> None:
    held = Held()
    async with fronted(held, card=CARD) as (site, _), asyncio.TaskGroup() as group:
        client = await site.client()
        await client.ask("POST", "/echo", CALL, [JSON])
        await held.asked.wait()
        port = site.port
        stopping = group.create_task(site.gateway.stop(asyncio.Event()))
        await until(lambda: site.gateway._servers[0]._listener.fileno() == -1)
        with pytest.raises(OSError):  # noqa: PT011 - refused, or reset by a queue that closes
            await (await asyncio.open_connection("127.0.0.1", port))[0].readexactly(1)
        # Who watches can see to the end that it drains.
        ready = await site.get("/-/ready", admin=True)
        assert (ready.status, ready.body) == (503, b"draining\n")
        assert not stopping.done()
        held.go.set()
        answer = await client.answer()
        assert answer.json == json.loads(RESULT)
        assert answer.header("connection") == "close"
        await stopping
        line = await site.line()
        assert (line["outcome"], line["status"]) == ("ok", 200)


async def test_a_call_that_does_not_end_in_time_is_told_to_come_back() -> None:
    held = Held()
    async with patient(held, "50ms") as site, asyncio.TaskGroup() as group:
        client = await site.client()
        await client.ask("POST", "/echo", CALL, [JSON])
        await held.asked.wait()
        stopping = group.create_task(site.gateway.stop(asyncio.Event()))
        answer = await client.answer()
        assert (answer.status, answer.json["error"]["code"]) == (503, -31503)
        assert answer.header("retry-after") == "1"
        await stopping
        assert (await site.line())["reason"] == "draining"


@pytest.mark.parametrize("way", ["timeout", "hurry"])
async def test_a_stream_gets_a_last_event_and_a_clean_end(way: str, caplog: pytest.LogCaptureFixture) -> None:
    held = streaming()
    async with patient(held, "50ms" if way == "timeout" else "25s") as site, asyncio.TaskGroup() as group:
        hurry = asyncio.Event()
        client = await site.client()
        await client.ask("POST", "/echo", STREAM, [JSON])
        assert (await client.head())[0] == 200
        assert await client.piece() == EVENT
        stopping = group.create_task(site.gateway.stop(hurry))
        if way == "hurry":
            await until(lambda: site.gateway._servers[0]._listener.fileno() == -1)
            assert not stopping.done()
            hurry.set()
        last = await client.rest()
        assert b"event: error\n" in last
        assert b"DRAINING" in last
        await stopping
        line = await site.line()
        assert (line["reason"], line["closed_by"], line["stream"]) == ("draining", "gateway", True)
        assert "ended 1 calls that were still open" in caplog.messages


async def test_a_client_that_does_not_read_cannot_keep_the_gateway() -> None:
    async def floods(wire: Wire) -> None:
        await wire.request()
        await wire.send(head(b"transfer-encoding: chunked", content_type=b"text/event-stream"))
        while True:
            await wire.send(chunk(EVENT * 100))

    async with fronted(floods, card=CARD) as (site, backend):
        client = await site.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it can read too
        await client.ask("POST", "/echo", STREAM, [JSON])
        await backend.until(lambda: any(wire.stuck for wire in backend.wires))
        hurry = asyncio.Event()
        hurry.set()
        async with asyncio.timeout(2 * WAIT):
            await site.gateway.stop(hurry)
        assert site.serving == 0


# ---- Nothing is left -----------------------------------------------------------------------------------------------


def descriptors() -> set[str]:
    """What is open, as number and target."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(f"{entry.name} {entry.readlink()}")
    return found


def threads() -> set[threading.Thread]:
    """Threads but those of the loop's own pool, which the loop ends."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


async def left_by(work: Callable[[], Coroutine[Any, Any, None]]) -> tuple[set[Any], set[str], set[threading.Thread]]:
    """The tasks, descriptors and threads that are there after some work and were not before."""
    # The loop's own pool, and what libraries open once, are not ours.
    await asyncio.to_thread(lambda: None)
    tasks, open_before, threads_before = asyncio.all_tasks(), descriptors(), threads()
    await work()
    with suppress(TimeoutError):
        await until(lambda: descriptors() <= open_before and asyncio.all_tasks() <= tasks)
    return asyncio.all_tasks() - tasks, descriptors() - open_before, threads() - threads_before


proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts descriptors in /proc")


@proc
async def test_after_the_stop_no_task_descriptor_or_thread_is_left(tmp_path: Path) -> None:
    certified(tmp_path)
    held, stream = Held(), streaming()
    started: list[Gateway] = []

    async def serve_and_stop() -> None:
        async def plays(wire: Wire) -> None:
            await (stream if wire.backend.requests else held)(wire)

        quick = ScriptedBackend(agent(answers(whole(RESULT)), CARD))
        async with quick, ScriptedBackend(agent(plays, CARD)) as backend:
            text = f"""\
            auth:
              issuers:
                corp: {{ issuer: "https://i.test", audience: a, tenant: acme, jwks: "{backend.url}/.well-known/keys" }}
            gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0", anonymous: true }}
            tenants: {{ anonymous: [echo, quick, gone], acme: [echo] }}
            defaults: {{ isolation: none }}
            agents:
              echo: "{backend.url}"
              quick: "{quick.url}"
              gone: "http://127.0.0.1:1"
              secure: "https://127.0.0.1:1"
            """
            async with running(text, settled=False) as site:
                started.append(site.gateway)
                await site.gateway.snapshot.backings["echo"].source.settled.wait()
                # Whole calls that leave a connection to rest, one that waits, a stream, a client that rests, and two in
                # the middle of their heads.
                assert (await site.get("/metrics", admin=True)).status == 200
                assert (await site.post("/gone")).json["error"]["code"] == -32603
                assert (await site.post("/quick")).status == 200
                waiting = await site.client()
                await waiting.ask("POST", "/echo", CALL, [JSON])
                await held.asked.wait()
                streamed = await site.client()
                await streamed.ask("POST", "/echo", STREAM, [JSON])
                await stream.asked.wait()
                await site.client()
                half = await site.client()
                await half.send(b"POST /echo HTT")
                await (await site.client(admin=True)).send(b"GET /-/conf")
            # At once: what rests would close by itself some seconds later.
            assert not any(each.upstream.pool._open for each in started[0].snapshot.backings.values())
            await quick.all_gone()
            await backend.all_gone()

    assert await left_by(serve_and_stop) == (set(), set(), set())
    assert started[0]._background._tasks == set()


@proc
@pytest.mark.parametrize("fails", ["public", "admin", "tls", "snapshot", "server"])
async def test_a_start_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    certified(tmp_path)
    key_file = tmp_path / "tls/key.pem"
    key_text = key_file.read_text()

    def broken(*_: object) -> None:
        raise OSError("a file is gone")

    async with taken() as address:
        text = SECURED
        if fails in ("public", "admin"):
            key = {"public": "listen", "admin": "admin"}[fails]
            text = text.replace(f"{key}: 127.0.0.1:0", f"{key}: {address}")
        if fails == "snapshot":
            monkeypatch.setattr("gateway.app.Snapshot.build", broken)
        if fails == "server":

            async def start(*_: object) -> None:
                raise OSError("no more descriptors")

            monkeypatch.setattr("gateway.app.HttpServer.start", start)
        # `agents` that would be asked for their cards.
        text = text.replace("agents: {}", 'agents: { echo: "http://127.0.0.1:1" }')

        async def try_to_start() -> None:
            key_file.write_text(key_text)
            gateway = assembled(text, tmp_path / "gateway.yaml")
            if fails == "tls":
                # After it was checked.
                key_file.write_text("nothing of the kind")
            with pytest.raises((ListenFailed, OSError)):
                await gateway.start()

        assert await left_by(try_to_start) == (set(), set(), set())


# ---- Signals -------------------------------------------------------------------------------------------------------

SLOW = ANYWHERE.replace(" }", ", drain: { delay: 60s } }")


@asynccontextmanager
async def signalled(text: str) -> AsyncIterator[tuple[Gateway, "asyncio.Task[None]"]]:
    """A gateway that runs until a signal of this process; afterwards it has ended."""
    gateway, started = assembled(text), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(gateway, on_started=started.set))
        await started.wait()
        yield gateway, task
        async with asyncio.timeout(WAIT):
            await task
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)


async def test_a_signal_stops_it_and_a_second_one_waits_for_nobody() -> None:
    async with signalled(f"gateway: {SLOW}\nagents: {{}}") as (gateway, task):
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: gateway.draining)
        assert not task.done()
        signal.raise_signal(signal.SIGTERM)


async def test_a_second_signal_of_the_other_kind_counts_too() -> None:
    async with signalled(f"gateway: {SLOW}\nagents: {{}}") as (gateway, task):
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: gateway.draining)
        assert not task.done()
        signal.raise_signal(signal.SIGINT)


async def test_a_person_at_a_terminal_does_not_wait_for_balancers() -> None:
    async with signalled(f"gateway: {SLOW}\nagents: {{}}"):
        signal.raise_signal(signal.SIGINT)


# ---- serve ---------------------------------------------------------------------------------------------------------


def test_a_broken_file_is_not_served_and_every_problem_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("version: 1\nagents:\n  echo: { backend: ftp://x, colour: red }\n")
    assert serve(file, {}) == 1
    told = capfd.readouterr()
    assert told.out == ""
    assert f"{file}:3:" in told.err
    assert "colour" in told.err
    assert "ftp" in told.err
    assert "Traceback" not in told.err
    assert "tests" not in told.err


def test_a_file_that_is_not_there_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert serve(tmp_path / "gateway.yaml", {}) == 1
    assert "there is no such file" in capfd.readouterr().err


def test_a_file_that_fails_its_own_tests_is_not_served(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        dedent(f"""\
        version: 1
        gateway: {HERE}
        agents: {{ echo: http://127.0.0.1:1 }}
        tests:
          - {{ name: echo is reached, request: /echo, expect: echo }}
          - {{ name: nobody is at home, request: /nobody, expect: echo }}
        """)
    )
    assert serve(file, {}) == 1
    told = capfd.readouterr().err
    assert f"{file}:6:" in told
    assert "the test 'nobody is at home' fails: expected echo, got no_route" in told
    assert told.endswith("\nnot started: the configuration fails its own routing tests\n")
    assert "echo is reached" not in told


def test_a_certificate_that_cannot_be_served_is_told_with_its_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway.yaml"
    certified(tmp_path)
    (tmp_path / "tls/key.pem").write_text("this was a key once\n")
    file.write_text("version: 1\n" + SECURED)
    assert serve(file, {}) == 1
    told = capfd.readouterr().err
    assert f"{file}:5:" in told
    assert "gateway.tls.key: 'tls/key.pem' has no private key" in told
    assert "Traceback" not in told


def test_an_address_that_cannot_be_listened_on_is_told_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway.yaml"
    certified(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        text = "version: 1\n" + SECURED.replace("agents: {}", 'agents: { echo: "http://127.0.0.1:1" }')
        text = text.replace("listen: 127.0.0.1:0", f"listen: {address}")
        file.write_text(text)
        assert serve(file, {}) == 1
    told = capfd.readouterr().err
    [line] = [line for line in told.splitlines() if line.startswith("cannot")]
    assert line.startswith(f"cannot listen on {address}: ")
    assert "Traceback" not in told


def test_what_is_served_ends_with_a_signal_and_exit_code_0(capfd: pytest.CaptureFixture[str]) -> None:
    code = serve_examined(
        examined(f"gateway: {HERE}\nagents: {{}}"),
        access_stream=io.BytesIO(),
        on_started=lambda: signal.raise_signal(signal.SIGTERM),
    )
    assert code == 0
    for handler in logging.getLogger().handlers:
        sink: Any = getattr(handler, "sink", None)
        if sink is not None:
            sink.close()
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    said = [(line["level"], line["message"]) for line in lines]
    [warning, serving, stopped] = said
    assert warning == ("warning", "gateway.yaml:3: there is no agent")
    assert serving[1].startswith("serving http://127.0.0.1:")
    assert ", admin on http://127.0.0.1:" in serving[1]
    assert stopped == ("info", "stopped")


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert app.package_version()
    monkeypatch.setattr(app, "version", _raise_not_found)
    assert app.package_version() == "0+source"


def _raise_not_found(name: str) -> str:
    raise PackageNotFoundError(name)
