"""Served cards as the SDKs of JavaScript read them, on the wire.

They come from `tests/javascript`, where `tests/check` installs them if there is a node; without, these tests are
skipped.
"""

import asyncio
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import card_of, keys, running, secret
from tests.support.scripted import ScriptedBackend, Wire, whole

FOLDER = Path(__file__).parents[1] / "javascript"
WAIT = 60.0
"""Seconds for one run of node, on a machine that is busy with other tests."""


@cache
def node_version() -> int:
    """The major version of node, 0 where there is none."""
    if shutil.which("node") is None:
        return 0
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=WAIT, check=True).stdout
    return int(said.strip().removeprefix("v").split(".")[0])


pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not (FOLDER / "node_modules").exists(), reason="tests/check installs the SDKs of JavaScript"),
    pytest.mark.skipif(node_version() < 18, reason="there is no node of 18 or newer"),
]

_NEW = pytest.mark.skipif(node_version() < 20, reason="needs node 20")
GENERATIONS = [
    pytest.param("a2a-0.3", "0.3", id="0.3"),
    pytest.param("a2a-1.3", "0.3", id="1.3 to 0.3", marks=_NEW),
    pytest.param("a2a-1.3", "1.0", id="1.3", marks=_NEW),
]
"""An SDK, and the version that the agent speaks."""


async def read(sdk: str, url: str, binding: str, version: str) -> Any:
    """Return the cards that the SDK reads: the public one, and the extended one over a binding."""
    headers = {"X-API-Key": secret("acme").decode()}
    asked = {"sdk": sdk, "url": url, "binding": binding, "legacy": version == "0.3", "headers": headers}
    process = await asyncio.create_subprocess_exec(
        "node", str(FOLDER / "client.mjs"), json.dumps(asked), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(WAIT):
            said, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    return json.loads(said)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize(("sdk", "version"), GENERATIONS)
async def test_a_client_reads_how_to_show_its_credential_on_the_public_card_and_on_the_extended_one(
    sdk: str, version: str, binding: str
) -> None:
    public = card_of("http://agent.test/", f"JSONRPC {version}", f"HTTP+JSON {version}")
    extended = json.dumps({**json.loads(public), "name": "Extended"}).encode()

    async def plays(wire: Wire) -> None:
        while True:
            received = await wire.request()
            if received.method == b"POST":
                call = json.loads(received.body)
                identity = json.dumps(call["id"]).encode()
                await wire.send(whole(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (identity, extended)))
            elif b"/.well-known/" in received.target:
                await wire.send(whole(public))
            else:
                assert received.target in (b"/v1/card", b"/extendedAgentCard")
                await wire.send(whole(extended))

    async with ScriptedBackend(plays) as backend:
        text = f"{keys(acme='acme')}tenants: {{ acme: [echo] }}\nagents: {{ echo: {backend.url} }}\n"
        async with running(text) as gateway:
            found = await read(sdk, f"http://127.0.0.1:{gateway.port}/echo/", binding, version)
    assert backend.requests[-1].method == (b"POST" if binding == "JSONRPC" else b"GET")
    assert (found["card"]["name"], found["extended"]["name"]) == ("Scripted", "Extended")
    for card in (found["card"], found["extended"]):
        # As the SDK passes it on: by the JSON schema, by ProtoJSON, or as the message that it parsed it into.
        spelled = json.dumps(card["securitySchemes"])
        assert list(card["securitySchemes"]) == ["api_key"]
        assert all(f'"{word}"' in spelled for word in ("X-API-Key", "header")), spelled
        assert '"apiKey"' in spelled or '"apiKeySecurityScheme"' in spelled, spelled
