"""The demo's configuration, keys and commands fit each other."""

import asyncio
import io
import shlex
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from gateway.app import Gateway
from gateway.commands.send import Message, send
from gateway.config.check import examine
from gateway.config.load import load
from gateway.demo.fleet import serving
from gateway.demo.stage import TENANTS, Stage, free_port, free_ports, set_up


def test_the_configuration_has_no_problems_and_no_keys_in_it() -> None:
    stage = set_up("http://127.0.0.1:1", 2)
    text = stage.configuration()
    assert load(Path("gateway.yaml"), {}, text).problems == ()
    assert not any(key.text in text for key in stage.keys.values())
    written = yaml.safe_load(text)
    assert {name: key["tenant"] for name, key in written["auth"]["api_keys"].items()} == TENANTS
    assert set(written["agents"]) == {"echo", "clock", "travel", "flaky", "counter"}
    assert written["agents"]["clock"]["backend"] == "grpc://127.0.0.1:2"


def test_the_public_url_comes_first_and_every_command_can_be_pasted() -> None:
    stage = set_up("http://127.0.0.1:1", 2)
    title = stage.welcome("a2a-gateway").splitlines()[0]
    assert stage.url in title
    assert f"gRPC: 127.0.0.1:{stage.grpc}" in title
    found = commands(stage)
    assert len(found) == 12
    said = [words[3] for words in found if words[1] == "send"]
    assert said == ["Hello", "Go", "To Lisbon", "Dare", "count 5", "Go"]
    called, over_grpc = found[8], found[9]
    assert msgspec.json.decode(called[-1])["method"] == "SendStreamingMessage"
    assert msgspec.json.decode(over_grpc[over_grpc.index("-d") + 1])["tenant"] == "echo"
    assert over_grpc[-2:] == [f"127.0.0.1:{stage.grpc}", "lf.a2a.v1.A2AService/SendMessage"]


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The working directory, which is as empty in the end."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
@pytest.mark.usefixtures("empty_folder")
async def test_each_tenant_lists_its_own_tasks_alone_and_no_file_is_left_behind() -> None:
    over_grpc = free_port(0)
    with serving(grpc=over_grpc) as agents:
        stage = set_up(agents, over_grpc)
        public, grpc, admin = free_ports(0, 0, 0)
        stage = replace(stage, public=public, grpc=grpc, admin=admin)
        examined = examine(Path("gateway.yaml"), {}, text=stage.configuration())
        gateway = Gateway(examined, access_stream=io.BytesIO())
        await gateway.start()
        try:
            errand = Message(f"{stage.url}/a2a/travel", "To Lisbon", key=stage.keys["acme"].text)
            await asyncio.to_thread(send, errand, lambda _text: None)
            lists = [words for words in commands(stage) if words[-1] == "A2A-Version: 1.0"]
            acme, globex = [await listed(words) for words in lists]
        finally:
            await gateway.stop(asyncio.Event(), delay=0.0)
    assert [task["status"]["state"] for task in acme["tasks"]] == ["TASK_STATE_INPUT_REQUIRED"]
    assert (globex["tasks"], globex["totalSize"]) == ([], 0)


def test_a_port_that_is_taken_is_replaced_by_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port(port) not in (port, 0)
    assert free_port(port) == port


def test_a_port_that_is_not_the_usual_one_is_told() -> None:
    stage = replace(set_up("http://127.0.0.1:1", 2), public=8080, grpc=1, admin=9090)
    assert stage.moved() == "Port 8081 is taken: using 1 instead.\n"
    assert replace(stage, grpc=8081).moved() == ""


def commands(stage: Stage) -> list[list[str]]:
    """The words of each command that the demo prints."""
    programs = ("  a2a-gateway", "  curl", "  grpcurl")
    lines = stage.welcome("a2a-gateway").replace("\\\n", "").splitlines()
    return [shlex.split(line) for line in lines if line.startswith(programs)]


async def listed(words: list[str]) -> Any:
    """Return the answer to the curl of a command."""
    headers = dict(words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H")
    async with httpx.AsyncClient(trust_env=False, headers=headers) as client:
        return (await client.get(words[2])).json()
