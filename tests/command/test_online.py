"""`check --online` meets every agent as the gateway would, and tells of each."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from gateway.command.online import Visit, visit
from gateway.config.check import examine
from gateway.demo.fleet import serving
from gateway.demo.stage import free_port
from tests.doubles.answering import answering
from tests.doubles.grpc_agent import fails, grpc_agent
from tests.doubles.stdio_agent import FILE as STDIO_AGENT

pytestmark = pytest.mark.anyio

CARD = {
    "name": "A",
    "supportedInterfaces": [{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
}


async def test_every_backend_is_visited(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_bytes(msgspec.json.encode(CARD))
    with serving() as fleet, answering({"/.well-known/agent-card.json": (200, b'{"name":"A"}')}) as mute:
        text = f"""\
version: 1
agents:
  echo: {fleet}/echo
  gone: {fleet}/gone
  mute: {mute.url}
  written: {{ backend: "{fleet}/gone", card: {{ file: card.json }} }}
  older: {{ backend: {{ url: "{fleet}/gone", protocol: jsonrpc, a2a_version: "0.1" }}, card: {{ file: card.json }} }}
"""
        examined = examine(tmp_path / "gateway.yaml", {}, text=text)
        assert examined.errors == ()
        visits = {each.backend: each for each in await visit(examined)}
    assert visits["echo"] == Visit("echo", good=True, fact="JSONRPC 1.0, HTTP+JSON 1.0, JSONRPC 0.3")
    assert not visits["gone"].good
    assert "404" in visits["gone"].fact
    assert visits["mute"].as_text() == "mute: no card: its card offers no interface that the gateway speaks"
    assert visits["written"].as_json() == {"backend": "written", "ok": True, "message": "JSONRPC 1.0"}
    # What the file says overrules the card, as it does when calls are served.
    assert visits["older"].fact == "JSONRPC 0.1"


async def test_every_replica_has_to_answer(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_bytes(msgspec.json.encode(CARD))
    with serving() as fleet:
        text = f"""\
version: 1
agents:
  both: {{ backend: ["{fleet}/echo", {{ url: "{fleet}/clock", label: two }}] }}
  half: {{ backend: ["{fleet}/echo", {{ url: "http://127.0.0.1:1", label: away }}] }}
"""
        examined = examine(tmp_path / "gateway.yaml", {}, text=text)
        assert examined.errors == ()
        visits = {each.backend: each for each in await visit(examined)}
    assert visits["both"].good
    assert visits["half"].as_text() == "half: no answer from a replica: away: the agent could not be reached"


async def test_agents_behind_grpc_are_asked_wherever_their_cards_are(tmp_path: Path) -> None:
    interface = {"url": "tracker:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    (tmp_path / "card.json").write_bytes(msgspec.json.encode({"name": "A", "supportedInterfaces": [interface]}))
    port = free_port(0)
    with serving(grpc=port) as fleet:
        text = f"""\
version: 1
agents:
  clock: {{ backend: "grpc://127.0.0.1:{port}", card: "{fleet}/clock" }}
  written: {{ backend: "grpc://127.0.0.1:{port}", card: {{ file: card.json }} }}
  mute: grpc://127.0.0.1:{port}
  gone: {{ backend: "grpc://127.0.0.1:1", card: {{ file: card.json }} }}
  other: {{ backend: "{fleet.replace("http", "grpc")}", card: {{ file: card.json }} }}
"""
        examined = examine(tmp_path / "gateway.yaml", {}, text=text)
        assert examined.errors == ()
        visits = {each.backend: each for each in await visit(examined)}
    assert visits["clock"] == Visit("clock", good=True, fact="GRPC 1.0")
    assert visits["written"].good
    assert visits["mute"].as_text().startswith("mute: no card: the agent gives none when it is asked")
    assert visits["gone"].as_text().startswith("gone: no answer: the agent could not be reached: failed to connect")
    assert not visits["other"].good
    assert visits["gone"].problem(examined.marks).fact == f"no answer: {visits['gone'].fact}"


async def test_an_agent_behind_grpc_may_want_the_callers_credential(tmp_path: Path) -> None:
    interface = {"url": "tracker:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    (tmp_path / "card.json").write_bytes(msgspec.json.encode({"name": "A", "supportedInterfaces": [interface]}))
    async with grpc_agent(fails("UNAUTHENTICATED", "who are you?")) as agent:
        text = f"""\
version: 1
agents:
  own: {{ backend: "{agent.url}", card: {{ file: card.json }}, upstream_auth: {{ bearer: good }} }}
  callers: {{ backend: "{agent.url}", card: {{ file: card.json }}, forward_caller: true }}
"""
        examined = examine(tmp_path / "gateway.yaml", {}, text=text)
        assert examined.errors == ()
        visits = {each.backend: each for each in await visit(examined)}
        assert {tuple(asked.told("authorization")) for asked in agent.asked} == {("Bearer good",), ()}
    assert visits["own"].as_text() == "own: no answer: the agent does not accept the gateway"
    assert visits["callers"].good


async def test_agents_on_stdio_are_started_asked_and_ended(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    words = [sys.executable, str(STDIO_AGENT), "behaves", "--journal", str(journal)]
    text = f"""\
version: 1
agents:
  notes: {{ backend: {{ stdio: {json.dumps(words)} }} }}
  gone: {{ backend: {{ stdio: {{ command: no-such-program, start_timeout: 1s }} }} }}
"""
    examined = examine(tmp_path / "gateway.yaml", {}, text=text)
    assert examined.errors == ()
    visits = {each.backend: each for each in await visit(examined)}
    assert visits["notes"] == Visit("notes", good=True, fact="JSONRPC 1.0, JSONRPC 0.3")
    assert not visits["gone"].good
    assert "there is no such program" in visits["gone"].fact
    assert "eof" in journal.read_text()
