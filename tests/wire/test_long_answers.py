"""Long answers and events pass over every binding and through translation, up to a bound; so does memory."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from gateway.a2a.dialect import Binding, Dialect
from tests.e2e.process import GatewayProcess, gateway_process
from tests.support.gateway import JSON, agent
from tests.support.grpc_agent import grpc_over
from tests.support.lengthy import AGENTS, CLIENTS, EVENTS, SEND, STREAM, V0_3, V1_0, envelope, lengthy, request_of, tree
from tests.support.scripted import ScriptedBackend, Wire, whole
from tests.wire.test_hostile_memory import RETURNS, Memory, connected

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
__all__ = ("grpc_over",)

MIB = 1 << 20
JSONRPC = Dialect(Binding.JSONRPC, V1_0)


SOME_AGENTS = [name if name == "grpc 0.3" else pytest.param(name, marks=pytest.mark.long) for name in AGENTS]
"""The agent that needs most to be translated in the check; the other versions and bindings in the long run."""


@pytest.mark.parametrize("name", SOME_AGENTS)
async def test_a_long_answer_passes_from_every_agent_to_every_client(name: str, tmp_path: Path) -> None:
    async with lengthy(tmp_path, name) as site:
        for client in CLIENTS:
            for operation, count in ((SEND, 1), (STREAM, EVENTS)):
                texts = await site.ask(name, client, operation, 2 * MIB)
                assert [len(text) for text in texts] == [2 * MIB] * count, (client, operation, texts[0][:100])


@pytest.mark.parametrize(
    "binding", [Binding.JSONRPC, *(pytest.param(each, marks=pytest.mark.long) for each in (Binding.REST, Binding.GRPC))]
)
async def test_answers_pass_up_to_32_mib_and_events_up_to_16(binding: Binding, tmp_path: Path) -> None:
    name, client = {
        Binding.JSONRPC: ("jsonrpc 1.0", JSONRPC),
        Binding.REST: ("rest 1.0", Dialect(Binding.REST, V1_0)),
        Binding.GRPC: ("grpc 1.0", Dialect(Binding.GRPC, V1_0)),
    }[binding]
    async with lengthy(tmp_path, name) as site:
        for operation, most, count in ((SEND, 32 * MIB, 1), (STREAM, 16 * MIB, EVENTS)):
            texts = await site.ask(name, client, operation, most, exactly=True)
            assert [len(text) > most - 1000 for text in texts] == [True] * count, texts[0][:100]
            assert await site.ask(name, client, operation, most + 1, exactly=True) == ["upstream_protocol"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("jsonrpc 1.0", Dialect(Binding.REST, V0_3)),
        ("jsonrpc 0.3", Dialect(Binding.GRPC, V1_0)),
        ("grpc 1.0", JSONRPC),
        ("stdio 1.0", Dialect(Binding.REST, V1_0)),
    ],
)
async def test_an_answer_of_30_mib_is_translated(name: str, client: Dialect, tmp_path: Path) -> None:
    async with lengthy(tmp_path, name) as site:
        assert [len(text) for text in await site.ask(name, client, SEND, 30 * MIB)] == [30 * MIB]


# ---- The bound on all of them ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOME_AGENTS)
async def test_beyond_what_the_process_may_hold_a_call_is_refused_as_overloaded(name: str, tmp_path: Path) -> None:
    async with lengthy(tmp_path, name, settings="answers_limit: 3MiB") as site:
        for client in CLIENTS:
            for operation in (SEND, STREAM):
                lines = len(site.gateway.lines)
                told = await site.ask(name, client, operation, 4 * MIB)
                assert told == ["overloaded"] or (told == ["cut"] and operation is STREAM), (client, operation)
                line = await site.gateway.line(of=lines + 1)
                assert (line["reason"], line["binding"]) == ("overloaded", client.binding.label)
        # What was held has been let go: as much fits as at first.
        assert len(await site.ask(name, JSONRPC, STREAM, MIB)) == EVENTS
        assert len((await site.ask(name, JSONRPC, SEND, MIB))[0]) == MIB


async def test_what_a_client_does_not_read_counts_until_it_has_left(tmp_path: Path) -> None:
    async with lengthy(tmp_path, "jsonrpc 1.0", settings="answers_limit: 12MiB") as site:
        gateway = site.gateway
        slow = await gateway.client()
        await slow.ask("POST", *request_of("jsonrpc 1.0", JSONRPC, SEND, f"long:{8 * MIB}."), [JSON])
        await slow.head()
        assert await site.ask("jsonrpc 1.0", JSONRPC, SEND, 8 * MIB) == ["overloaded"]
        slow.leave()
        await gateway.rested()
        assert len((await site.ask("jsonrpc 1.0", JSONRPC, SEND, 8 * MIB))[0]) == 8 * MIB


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read from Linux's /proc")
@pytest.mark.parametrize(
    "client", [pytest.param(JSONRPC, id="relayed"), pytest.param(Dialect(Binding.REST, V0_3), id="translated")]
)
@pytest.mark.long
async def test_twenty_long_answers_take_no_more_than_the_bound(client: Dialect, tmp_path: Path) -> None:
    bound, size = 64 * MIB, 15 * MIB
    opening, _, closing = envelope({"task": tree(V1_0, "jsonrpc", "x" * size)}, "ID").partition(b'"ID"')

    async def script(wire: Wire) -> None:
        identity = json.dumps(json.loads((await wire.request()).body)["id"]).encode()
        await wire.send(whole(opening + identity + closing))

    async with ScriptedBackend(agent(script)) as backend:
        echo = {"backend": {"url": backend.url, "protocol": "jsonrpc", "a2a_version": "1.0"}}
        config = {"gateway": {"answers_limit": bound}, "agents": {"jsonrpc-1-0": echo}}
        with gateway_process(config, tmp_path, environ=RETURNS) as process:
            target, body = request_of("jsonrpc 1.0", client, SEND, f"long:{size}.")
            memory = Memory(process.pid)
            answers = await asyncio.gather(*(posted(process, target, body) for _ in range(20)))
            growth = memory.ever
    good = [answer for answer in answers if len(answer) > size]
    sys.stdout.write(f"{len(good)} of 20 passed, {growth / MIB:.0f} MiB held at most, for {bound / MIB:.0f}\n")
    # Four fit at a time, and one that is done makes room for another.
    assert len(good) >= 4
    assert all(b"OVERLOADED" in answer for answer in answers if len(answer) <= size)
    # Beside what is held: one that is worked on in several forms, and the gateway's own.
    assert growth < bound + 7 * size, growth / MIB


async def posted(process: GatewayProcess, target: str, body: bytes) -> bytes:
    """Return all that is answered, however long that takes."""
    client = await connected(process)
    try:
        await client.ask("POST", target, body, [JSON, (b"Connection", b"close")])
        return await client.reader.read()
    finally:
        client.writer.close()
