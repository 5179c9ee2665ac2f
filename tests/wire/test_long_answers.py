"""Long answers and events pass over every binding and through translation, up to a bound."""

from pathlib import Path

import pytest

from gateway.a2a.dialect import Binding, Dialect
from tests.support.gateway import JSON
from tests.support.grpc_agent import grpc_over
from tests.support.lengthy import AGENTS, CLIENTS, EVENTS, SEND, STREAM, V1_0, lengthy, request_of

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
        # The memory is free again: as much fits as at first.
        assert len(await site.ask(name, JSONRPC, STREAM, MIB)) == EVENTS
        assert len((await site.ask(name, JSONRPC, SEND, MIB))[0]) == MIB


async def test_unread_bytes_count_until_the_client_has_left(tmp_path: Path) -> None:
    async with lengthy(tmp_path, "jsonrpc 1.0", settings="answers_limit: 12MiB") as site:
        gateway = site.gateway
        slow = await gateway.client()
        await slow.ask("POST", *request_of("jsonrpc 1.0", JSONRPC, SEND, f"long:{8 * MIB}."), [JSON])
        await slow.head()
        assert await site.ask("jsonrpc 1.0", JSONRPC, SEND, 8 * MIB) == ["overloaded"]
        slow.leave()
        await gateway.rested()
        assert len((await site.ask("jsonrpc 1.0", JSONRPC, SEND, 8 * MIB))[0]) == 8 * MIB
