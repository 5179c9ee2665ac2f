"""The demo's configuration, keys and commands fit each other."""

import shlex
import socket
from pathlib import Path

import msgspec
import yaml

from gateway.config.load import load
from gateway.demo.stage import TENANTS, free_port, set_up


def test_the_configuration_has_no_problems_and_no_keys_in_it() -> None:
    stage = set_up("http://127.0.0.1:1", 2)
    text = stage.configuration()
    assert load(Path("gateway.yaml"), {}, text).problems == ()
    assert not any(key.text in text for key in stage.keys.values())
    written = yaml.safe_load(text)
    assert {name: key["tenant"] for name, key in written["auth"]["api_keys"].items()} == TENANTS
    assert set(written["agents"]) == {"echo", "clock", "travel", "flaky"}
    assert written["agents"]["clock"]["backend"] == "grpc://127.0.0.1:2"


def test_the_public_url_comes_first_and_every_command_can_be_pasted() -> None:
    stage = set_up("http://127.0.0.1:1", 2)
    welcome = stage.welcome("a2a-gateway")
    assert stage.url in welcome.splitlines()[0]
    assert f"gRPC: 127.0.0.1:{stage.grpc}" in welcome.splitlines()[0]
    programs = ("  a2a-gateway", "  curl", "  grpcurl")
    commands = [line for line in welcome.replace("\\\n", "").splitlines() if line.startswith(programs)]
    assert len(commands) == 9
    words = [shlex.split(command) for command in commands]
    assert [word[3] for word in words[:5]] == ["Hello", "Go", "To Lisbon", "Dare", "Go"]
    assert msgspec.json.decode(words[5][-1])["method"] == "SendStreamingMessage"
    assert msgspec.json.decode(words[6][words[6].index("-d") + 1])["tenant"] == "echo"
    assert words[6][-2:] == [f"127.0.0.1:{stage.grpc}", "lf.a2a.v1.A2AService/SendMessage"]


def test_a_port_that_is_taken_is_replaced_by_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port(port) not in (port, 0)
    assert free_port(port) == port
