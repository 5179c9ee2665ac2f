"""`serve`: a file is served until a signal, or the reason is told."""

import asyncio
import io
import json
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gateway.app import Gateway
from gateway.process import run, serve, serve_examined
from gateway.reload import ConfigurationOrigin
from tests.support.assembly import ANYWHERE, HERE, assembled, examined, until
from tests.support.scripted import WAIT
from tests.table import for_each

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def process_as_it_was() -> Iterator[None]:
    """Undo the settings of the process that `serve` makes."""
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


# ---- Signals ---------------------------------------------------------------------------------------------------------

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


@for_each("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_it_and_a_second_one_of_either_kind_waits_for_nobody(second: signal.Signals) -> None:
    async with signalled(f"gateway: {SLOW}\nagents: {{}}") as (gateway, task):
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: gateway.draining)
        assert not task.done()
        signal.raise_signal(second)


async def test_a_person_at_a_terminal_does_not_wait_for_balancers() -> None:
    async with signalled(f"gateway: {SLOW}\nagents: {{}}"):
        signal.raise_signal(signal.SIGINT)


# ---- serve -----------------------------------------------------------------------------------------------------------


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


def test_a_signal_ends_serving_with_exit_code_0(capfd: pytest.CaptureFixture[str]) -> None:
    intervals = [sys.getswitchinterval()]

    def started() -> None:
        intervals.append(sys.getswitchinterval())
        signal.raise_signal(signal.SIGTERM)

    code = serve_examined(examined(f"gateway: {HERE}\nagents: {{}}"), access_stream=io.BytesIO(), on_started=started)
    assert code == 0
    # While it serves no thread keeps the interpreter for longer than calls can wait.
    before, serving_with = intervals
    assert serving_with < 0.001 < before == sys.getswitchinterval()
    for handler in logging.getLogger().handlers:
        sink: Any = getattr(handler, "sink", None)
        if sink is not None:
            sink.close()
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    said = [(line["level"], line["message"]) for line in lines]
    [warning, changed, serving, stopped] = said
    assert changed == ("info", "configuration_changed")
    assert warning == ("warning", "gateway.yaml:3: there is no agent")
    assert serving[1].startswith("serving http://127.0.0.1:")
    assert ", admin on http://127.0.0.1:" in serving[1]
    assert stopped == ("info", "stopped")


async def test_a_hangup_before_it_serves_has_the_file_read_again_once_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: socket.socket
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    file = tmp_path / "gateway.yaml"
    text = f"version: 1\ngateway: {HERE}\nagents: {{ idle: 'http://127.0.0.1:1' }}\n"
    file.write_text(text)
    origin = ConfigurationOrigin(file, {})
    gateway = Gateway(origin.read(), access_stream=io.BytesIO(), origin=origin)
    begin = gateway.start
    read = asyncio.Event()

    async def start() -> None:
        file.write_text(text.replace("idle", "late"))
        heard = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set)
        for number in (signal.SIGHUP, signal.SIGUSR1):
            signal.raise_signal(number)
        # They are heard in the order in which they came.
        await heard.wait()
        await begin()

    monkeypatch.setattr(gateway, "start", start)
    async with asyncio.TaskGroup() as group:
        group.create_task(run(gateway, on_started=read.set))
        await read.wait()
        await until(lambda: gateway.reloader is not None and gateway.reloader.last is not None)
        assert list(gateway.snapshot.config.agents) == ["late"]
        # A gateway that is told to stop before it is ready again does not report readiness.
        loop = asyncio.get_running_loop()
        told = [await asyncio.wait_for(loop.sock_recv(manager, 1000), WAIT) for _ in range(3)]
        signal.raise_signal(signal.SIGTERM)
    told.append(manager.recv(1000))
    words = [each.decode().splitlines()[0] for each in told]
    assert words == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        asyncio.get_running_loop().remove_signal_handler(number)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener
