"""`check --online` meets every agent as the gateway would, and tells of each."""

from pathlib import Path

import msgspec
import pytest

from gateway.command.online import Visit, visit
from gateway.config.check import examine
from gateway.demo.fleet import serving
from tests.doubles.answering import answering

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
