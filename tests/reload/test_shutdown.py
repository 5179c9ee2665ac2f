"""A gateway that is told to end does so in every moment of its life, whatever else it is at."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import ROOT, WAIT, GatewayProcess, write
from tests.table import cells

SIGNALS = [signal.SIGTERM, signal.SIGINT]
OPTIONS = [(), ("--workers", "2")]


_BODY = (
    b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":'
    b'{"messageId":"1","role":"ROLE_USER","parts":[{"text":"q"}]}}}'
)
CALL = (
    b"POST /a HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


def configuration(**gateway: Any) -> dict[str, Any]:
    return {"gateway": {"drain": {"delay": "0s", "timeout": "1s"}, **gateway}, "agents": {"a": "http://127.0.0.1:1"}}


def loading(pid: int) -> None:
    """Wait until a process has begun to load its modules."""
    started = time.monotonic()
    while "lib-dynload" not in Path(f"/proc/{pid}/maps").read_text():
        assert time.monotonic() - started < WAIT
        time.sleep(0.001)


def handles(pid: int) -> None:
    """Wait until a process has a handler of its own for SIGTERM."""
    started = time.monotonic()
    while True:
        [caught] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")]
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        assert time.monotonic() - started < WAIT
        time.sleep(0.001)


@pytest.mark.parametrize(("number", "options"), cells(SIGNALS, OPTIONS))
def test_a_signal_during_the_start_ends_with_exit_code_0(
    tmp_path: Path, number: signal.Signals, options: tuple[str, ...]
) -> None:
    process = GatewayProcess(write(configuration(), tmp_path), *options)
    try:
        handles(process.pid)
        process.signal(number)
        assert process.wait() == 0
        assert "Traceback" not in process.log_text
    finally:
        process.close()


def test_a_store_that_does_not_answer_keeps_nobody_from_ending(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        state = f"redis://127.0.0.1:{mute.getsockname()[1]}/0"
        process = GatewayProcess(write(configuration(state=state), tmp_path))
        try:
            asked, _ = mute.accept()
            with asked:
                process.signal(signal.SIGTERM)
                assert process.wait() == 0
        finally:
            process.close()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare to be the first process with")
def test_the_first_process_of_a_container_ends_while_it_loads(tmp_path: Path) -> None:
    file = write(configuration(), tmp_path)
    inside = ["unshare", "-Urpf", "--mount-proc", "--kill-child"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("who runs this may not make namespaces")
    with subprocess.Popen(
        [*inside, sys.executable, "-m", "gateway", "serve", "-c", str(file)],
        cwd=ROOT,
        env={**os.environ, "STATE_DIRECTORY": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as outside:
        children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
        while not children.read_text():
            time.sleep(0.001)
        first = int(children.read_text().split()[0])
        handles(first)
        os.kill(first, signal.SIGTERM)
        assert outside.wait(WAIT) == 0


def test_commands_that_only_answer_are_ended_by_the_signal_as_any_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gateway.yaml")
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", "check", str(tmp_path / "gateway.yaml")], cwd=ROOT
    ) as check:
        loading(check.pid)
        check.send_signal(signal.SIGTERM)
        assert check.wait(WAIT) == -signal.SIGTERM


def test_files_that_do_not_answer_hold_up_neither_calls_nor_the_end(tmp_path: Path) -> None:
    file = write(configuration(reload={"watch": False, "poll": "0s"}), tmp_path)
    process = GatewayProcess(file).await_serving()
    try:
        file.unlink()
        os.mkfifo(file)
        process.signal(signal.SIGHUP)
        # Until it is there to read; it is told nothing.
        writer = os.open(file, os.O_WRONLY)
        try:
            with urllib.request.urlopen(process.admin + "/-/ready", timeout=WAIT) as answer:
                assert answer.status == 200
            process.signal(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            os.close(writer)
    finally:
        process.close()


@pytest.mark.long
def test_a_second_signal_ends_workers_that_hear_nothing_any_more(tmp_path: Path) -> None:
    process = GatewayProcess(write(configuration(), tmp_path), "--workers", "2").await_serving()
    try:
        process.said("2 workers serve")
        own = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(own[0]), signal.SIGSTOP)
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGTERM)
        process.said("stopped")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert not Path(f"/proc/{own[0]}").exists()
    finally:
        process.close()


def test_workers_end_at_once_when_their_parent_is_killed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as agent:
        backend = {"url": f"http://127.0.0.1:{agent.getsockname()[1]}", "protocol": "jsonrpc", "a2a_version": "1.0"}
        text = configuration(drain={"delay": "30s", "timeout": "60s"}) | {"agents": {"a": {"backend": backend}}}
        process = GatewayProcess(write(text, tmp_path), "--workers", "2").await_serving()
        try:
            process.said("2 workers serve")
            own = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            host, _, port = process.url.removeprefix("http://").rpartition(":")
            with socket.create_connection((host, int(port)), WAIT) as client:
                client.sendall(CALL)
                while b"SendMessage" not in _first(agent):
                    continue
                process.signal(signal.SIGKILL)
                killed = time.monotonic()
                assert client.makefile("rb").readline().split()[1] == b"503"
                while any(_runs(pid) for pid in own):
                    time.sleep(0.01)
                # Neither of the 90 s that they would have; the bound is for a machine that is busy.
                assert time.monotonic() - killed < 15
        finally:
            process.close()
        assert process.log_text.count('"stopped"') == 2


def _first(agent: socket.socket) -> bytes:
    """Return the first bytes of the next connection, which is left open: the agent never answers a call."""
    connection, _ = agent.accept()
    said = connection.recv(65536)
    if b"SendMessage" in said:
        connection.detach()
    else:
        connection.close()
    return said


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
