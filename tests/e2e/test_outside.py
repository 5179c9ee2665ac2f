"""One gateway of two workers with settings from outside its file, several addresses, a Unix socket, and HAProxy."""

import asyncio
import io
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from gateway.app import Gateway
from gateway.asgi import ConfigurationError, create_app
from gateway.commands.health import health_url, probe
from gateway.config.check import examine
from gateway.listener.server import ListenFailed, bind, remove
from tests.e2e.agents.agent import Agent
from tests.e2e.agents.grounds import Grounds
from tests.e2e.process import GatewayProcess, Lines, write
from tests.e2e.proxy_in_front import PROGRAMS, WAIT
from tests.e2e.wire import frame, message
from tests.program import run

pytestmark = pytest.mark.anyio

PROXY = "127.0.0.2"
"""The address from which HAProxy connects."""
CALLER = "127.0.0.3"


@pytest.fixture
def agent(ground: Grounds) -> Agent:
    return ground.agent("steady")


@contextmanager
def serving(agent: Agent, folder: Path) -> Iterator[GatewayProcess]:
    """Two workers at a port and a Unix socket, with one setting from each place."""
    path = folder / "public.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        # A program that was killed has left its socket there.
        gone.bind(str(path))
    gateway = {
        "proxy_protocol": [PROXY],
        "public_url": "http://localhost/of-the-file",
        "state": f"sqlite://{folder / 'state.db'}",
        "reload": {"watch": False, "poll": "0s"},
        "drain": {"delay": "0s", "timeout": "1s"},
    }
    file = write({"gateway": gateway, "agents": {"steady": agent.url}}, folder)
    options = ("--workers", "2", "--listen", f"127.0.0.1:0,unix:{path}", "--public-url", "http://localhost:1")
    environ = {"A2A_GATEWAY_PUBLIC_URL": "http://localhost/of-the-environment", "A2A_GATEWAY_LOG_LEVEL": "debug"}
    process = GatewayProcess(file, *options, environ=environ, forked=True)
    try:
        yield process.await_serving()
    finally:
        process.close()


@contextmanager
def haproxy(port: int, folder: Path) -> Iterator[int]:
    """HAProxy in front of a port; gives its own."""
    program = PROGRAMS["haproxy"]
    assert program is not None
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    public = holder.getsockname()[1]
    holder.close()
    file = folder / "haproxy.cfg"
    file.write_text(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n"
        f"listen front\n bind 127.0.0.1:{public}\n server one 127.0.0.1:{port} source {PROXY} send-proxy-v2\n"
    )
    process = subprocess.Popen(
        [program, "-W", "-db", "-f", str(file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    log = Lines(process.stderr)
    try:
        log.find(lambda line: "Loading success" in line)
        yield public
    finally:
        process.terminate()
        process.wait(WAIT)
        log.close()


def settings(admin: str) -> dict[str, tuple[object, str]]:
    page = httpx.get(f"{admin}/-/config", trust_env=False).json()
    return {each["key"]: (each["value"], each["source"]) for each in page["settings"]}


async def test_settings_from_outside_and_every_address(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "public.sock"
    with serving(agent, tmp_path) as process:
        shown = settings(process.admin)
        listen = ["127.0.0.1:0", f"unix:{path}"]
        assert shown == {
            "gateway.listen": (listen, "flag"),
            "gateway.admin.listen": ("127.0.0.1:0", "file"),
            "gateway.listen_grpc": (None, "default"),
            "gateway.public_url": ("http://localhost:1", "flag"),
            "observe.log.level": ("debug", "environment"),
            "gateway.state": (f"sqlite://{tmp_path / 'state.db'}", "file"),
        }
        bound = process.said("listening on ").partition("listening on 127.0.0.1:")[2]
        port = int(bound.partition(",")[0])

        # Both addresses serve, and clients of the socket are this machine's.
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with pytest.raises(ListenFailed, match="in use"):
            bind(f"unix:{path}")
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers={"A2A-Version": "1.0"}) as http:
            answer = await http.post("/steady", content=frame("SendMessage", message()))
        assert answer.status_code == 200
        assert process.access(answer.headers["x-request-id"])["client_ip"] == "127.0.0.1"

        # HAProxy tells the client; what the client itself says counts for nothing.
        with haproxy(port, tmp_path) as front:
            own = httpx.AsyncHTTPTransport(local_address=CALLER)
            headers = {"A2A-Version": "1.0", "X-Forwarded-For": "192.0.2.1"}
            async with httpx.AsyncClient(transport=own, headers=headers) as http:
                url = f"http://127.0.0.1:{front}/steady"
                answer = await http.post(url, content=frame("SendMessage", message()))
        assert answer.status_code == 200
        assert process.access(answer.headers["x-request-id"])["client_ip"] == CALLER

        # They hold across a reload.
        file = tmp_path / "gateway.yaml"
        file.write_text(file.read_text().replace("of-the-file", "another") + "\n")
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            report = (await http.post(f"{process.admin}/-/reload")).json()
        assert (report["result"], report["needs_restart"]) == ("applied", [])
        assert settings(process.admin) == shown
        process.signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait) == 0
    assert not path.exists()


def test_the_asgi_application_refuses_a_wrong_variable_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write({"agents": {"echo": "http://127.0.0.1:1"}}, tmp_path)
    monkeypatch.setenv("A2A_GATEWAY_LISTN", "127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="A2A_GATEWAY_LISTN  unknown variable"):
        create_app(file)


def test_one_agent_without_a_file_takes_no_settings_of_a_file(tmp_path: Path) -> None:
    words = ("serve", "--agent", "http://127.0.0.1:1", "--port", "0", "--admin-port", "0")
    assert "--state is a setting of a file" in run(*words, "--state", "memory", cwd=tmp_path, code=2).stderr


async def test_health_asks_the_unix_socket_of_the_admin_listener(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    file = tmp_path / "gateway.yaml"
    file.write_text(f"version: 1\ngateway: {{ admin: 'unix:{path}' }}\nagents: {{ echo: http://127.0.0.1:1 }}\n")
    examined = examine(file, {"A2A_GATEWAY_LISTEN": "127.0.0.1:0"})
    gateway = Gateway(examined, access_stream=io.BytesIO())
    await gateway.start()
    await asyncio.to_thread(probe, health_url(file, {}))
    await gateway.stop(asyncio.Event())
    assert not path.exists()


def test_a_file_that_is_no_socket_is_left_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "public.sock"
    path.write_text("mine")
    with pytest.raises(ListenFailed, match="no socket"):
        bind(f"unix:{path}")
    assert path.read_text() == "mine"
    path.unlink()
    listener = bind(f"unix:{path}", 0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    remove(listener)
    listener.close()
    assert not path.exists()
