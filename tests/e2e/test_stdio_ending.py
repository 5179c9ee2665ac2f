"""However the gateway ends, no agent on stdio is left behind, nor anything that one has started."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.e2e.process import WAIT, GatewayProcess, write
from tests.stdio.test_stdio_misbehaving import call, left
from tests.support.stdio_agent import FILE

MODES = ("behaves", "ignores-eof", "ignores-term", "wraps", "wraps-away", "forks-stubborn")


def until(true: Callable[[], bool], seconds: float = WAIT) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def serves(gateway: GatewayProcess) -> bool:
    try:
        return httpx.get(gateway.admin + "/-/ready", trust_env=False).is_success
    except httpx.TransportError:
        return False


def started(
    folder: Path, modes: tuple[str, ...] = MODES, *, stop: str = "300ms", before: tuple[str, ...] = ()
) -> GatewayProcess:
    """A gateway with an agent of every mode, each of which has been called."""
    agents = {
        mode: {
            "backend": {
                "stdio": {
                    "command": [*before, sys.executable, str(FILE), mode, "--journal", str(folder / "journal")],
                    "stop_timeout": stop,
                }
            },
            "timeouts": {"connect": "30s"},
        }
        for mode in modes
    }
    gateway = GatewayProcess(write({"agents": agents}, folder), forked=True)
    gateway.await_serving()
    with httpx.Client(trust_env=False, timeout=WAIT) as http:
        for mode in modes:
            answer = http.post(
                f"{gateway.url}/{mode}", content=call("now"), headers={"Content-Type": "application/json"}
            )
            assert "error" not in answer.json()
    assert len(left(folder)) >= len(modes) + 1
    return gateway


def test_a_gateway_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    # The kernel kills the agent and ends its input. Nobody is left to kill a child of the agent that ignores both.
    gateway = started(tmp_path, tuple(mode for mode in MODES if mode != "forks-stubborn"))
    try:
        os.kill(gateway.pid, signal.SIGKILL)
        gateway.wait()
        until(lambda: left(tmp_path) == [], 20)
    finally:
        gateway.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_that_is_told_to_go_ends_them_before_it_goes(number: signal.Signals, tmp_path: Path) -> None:
    gateway = started(tmp_path)
    try:
        gateway.signal(number)
        assert gateway.wait() == 0
        assert left(tmp_path) == []
        journal = (tmp_path / "journal").read_text()
        assert "eof" in journal
        assert "term" in journal
        assert "Traceback" not in gateway.log_text
    finally:
        gateway.close()


def test_a_second_signal_leaves_no_process_behind_either(tmp_path: Path) -> None:
    # The gateway does not wait for an agent that takes its time, and kills the child that ignores everything, too.
    script = 'sleep 1000 & echo "child $!" >> "$4"; "$0" "$@"; wait'
    gateway = started(tmp_path, ("behaves",), stop="30s", before=("sh", "-c", script))
    try:
        gateway.signal(signal.SIGTERM)
        until(lambda: not serves(gateway))
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
        until(lambda: left(tmp_path) == [], 5)
    finally:
        gateway.close()


def test_an_agents_stderr_is_in_the_gateways_log(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo 'no model found' >&2; exit 3"]
    gateway = GatewayProcess(
        write({"agents": {"notes": {"backend": {"stdio": {"command": command}}}}}, tmp_path), forked=True
    )
    try:
        gateway.await_serving()
        line = json.loads(gateway.said("no model found"))
        assert (line["level"], line["message"]) == ("info", "notes: no model found")
        assert "it exited with code 3" in gateway.said("it exited with code 3")
    finally:
        gateway.close()
