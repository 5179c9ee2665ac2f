"""Agents behind gRPC are asked for their card, and tell by that which generations they speak."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from a2a.utils.errors import ExtendedAgentCardNotConfiguredError
from google.protobuf.any_pb2 import Any as AnyMessage  # type: ignore[import-untyped]  # it brings no types
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # it brings no types

from gateway.a2a.dialect import Version
from gateway.cards.fetch import NO_CARD, CardPlace, CardReport, CardSource, CardWatch, open_client
from gateway.cards.fetch_grpc import GrpcCards
from gateway.upstream.grpc_channel import GrpcBounds, GrpcChannel
from tests.support.grpc_agent import Answer, GrpcAgent, by_path, fails, grpc_agent, hangs, says
from tests.support.scripted import WAIT
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]

NEW = "/lf.a2a.v1.A2AService/GetExtendedAgentCard"
OLD = "/a2a.v1.A2AService/GetAgentCard"
CARD_1_0 = a2a_pb2.AgentCard(name="Newer", description="d", version="1").SerializeToString()
CARD_0_3 = a2a_v0_3_pb2.AgentCard(
    name="Older",
    description="d",
    version="1",
    url="10.1.2.3:50051",
    preferred_transport="GRPC",
    protocol_version="0.3.0",
).SerializeToString()


def not_configured() -> Answer:
    """As a2a-sdk says it."""
    info = error_details_pb2.ErrorInfo(reason="EXTENDED_AGENT_CARD_NOT_CONFIGURED", domain="a2a-protocol.org")
    packed = AnyMessage()
    packed.Pack(info)
    words = ExtendedAgentCardNotConfiguredError().message
    details = status_pb2.Status(code=9, message=words, details=[packed]).SerializeToString()
    return fails("FAILED_PRECONDITION", words, details)


@asynccontextmanager
async def source(
    answer: Answer,
    version: Version | None = None,
    deadline: float = 5,
    longest: int = 2**20,
    *,
    place: Mapping[str, Any] | None = None,
    watch: CardWatch | None = None,
    tenant: str | None = None,
) -> AsyncIterator[tuple[CardSource, GrpcAgent]]:
    async with grpc_agent(answer) as agent, open_client() as client:
        channel = GrpcChannel(agent.url, GrpcBounds(answer=longest), connect=5)
        cards = GrpcCards(channel, f"127.0.0.1:{agent.port}", {"X-Agent-Key": "k"}, version, tenant=tenant)
        where = CardPlace(agent.url, deadline=deadline, **(place or {}))
        try:
            yield CardSource(where, client, watch or CardWatch(), asker=cards), agent
        finally:
            await channel.aclose()


def spoken(read: CardSource) -> list[str]:
    return [str(each.dialect) for each in read.spoken]


READ, REFUSED = CardReport.READ, CardReport.REFUSED


@for_each(
    ("answers", "version", "report", "name", "dialects", "paths"),
    [
        ({NEW: says(CARD_1_0)}, None, READ, "Newer", ["GRPC 1.0"], [NEW]),
        ({OLD: says(CARD_0_3)}, None, READ, "Older", ["GRPC 0.3"], [NEW, OLD]),
        ({NEW: not_configured()}, None, REFUSED, None, ["GRPC 1.0"], [NEW, OLD]),
        ({NEW: not_configured(), OLD: says(CARD_0_3)}, None, READ, "Older", ["GRPC 0.3", "GRPC 1.0"], [NEW, OLD]),
        # A generation that the file writes is the only one asked.
        ({NEW: says(CARD_1_0), OLD: says(CARD_0_3)}, Version.V0_3, READ, "Older", ["GRPC 0.3"], [OLD]),
        # An agent that fails in a method has it.
        *(
            ({OLD: fails(code, "broken")}, None, REFUSED, None, ["GRPC 0.3"], [NEW, OLD])
            for code in ("INTERNAL", "UNKNOWN", "NOT_FOUND", "FAILED_PRECONDITION")
        ),
    ],
)
async def test_answered_methods_tell_the_card_and_the_dialects(
    answers: dict[str, Answer],
    version: Version | None,
    report: CardReport,
    name: str | None,
    *,
    dialects: list[str],
    paths: list[str],
) -> None:
    async with source(by_path(answers), version) as (read, agent):
        assert await read.refresh() is report
        assert (None if read.card is None else read.card["name"]) == name
        assert sorted(spoken(read)) == dialects
        assert [asked.path for asked in agent.asked] == paths
        assert all(asked.told("x-agent-key") == ["k"] for asked in agent.asked)
        assert all(asked.told("a2a-version") == ["1.0"] for asked in agent.asked if asked.path == NEW)


@for_each("code", ["UNIMPLEMENTED", "PERMISSION_DENIED", "UNAVAILABLE", "RESOURCE_EXHAUSTED"])
async def test_statuses_of_proxies_reveal_no_dialect(code: str) -> None:
    async with source(by_path({NEW: fails(code, "no"), OLD: fails(code, "no")})) as (read, _):
        await read.refresh()
        assert spoken(read) == []


async def test_an_agent_that_has_no_card_twice_has_not_changed() -> None:
    async with source(by_path({NEW: not_configured()})) as (read, _):
        versions = []
        for _ in range(2):
            assert await read.refresh() is REFUSED
            versions.append((read.error, read.version))
        assert versions == [(NO_CARD, versions[0][1])] * 2


async def test_an_agent_that_changes_its_generation_is_read_anew() -> None:
    answers = {OLD: fails("INTERNAL", "broken")}
    changes: list[int] = []
    async with source(by_path(answers), watch=CardWatch(on_change=lambda: changes.append(1))) as (read, _):
        await read.refresh()
        answers.clear()
        await read.refresh()
        assert spoken(read) == ["GRPC 0.3"]
        answers[NEW] = not_configured()
        await read.refresh()
        assert spoken(read) == ["GRPC 1.0"]
        assert (read.version, changes) == (2, [1, 1])


async def test_the_tenant_that_an_agent_is_told_in_every_call_is_told_here_too() -> None:
    scoped = "/a2a.v1.ScopedA2AService/GetAgentCard"
    async with source(by_path({NEW: not_configured(), scoped: says(CARD_0_3)}), tenant="inside") as (read, agent):
        assert await read.refresh() is CardReport.READ
        newer, older = agent.asked
        assert a2a_pb2.GetExtendedAgentCardRequest.FromString(newer.message).tenant == "inside"
        assert (older.path, older.message) == (scoped, b"\xa2\x06\x06inside")


async def test_a_card_that_is_too_long_is_not_read() -> None:
    card = a2a_pb2.AgentCard(name="n", description="d" * 3000).SerializeToString()
    async with source(by_path({NEW: says(card)}), place={"longest": 3000}) as (read, _):
        assert await read.refresh() is CardReport.REFUSED
        assert read.error == "the agent's card is too long"
    async with source(by_path({NEW: says(card)}), place={"longest": 4000}) as (read, _):
        assert await read.refresh() is CardReport.READ


async def test_a_card_that_is_gone_is_kept() -> None:
    answers = {NEW: says(CARD_1_0)}
    async with source(by_path(answers)) as (read, _):
        await read.refresh()
        answers[NEW] = fails("INTERNAL", "at 10.1.2.3:4 it broke")
        assert await read.refresh() is CardReport.REFUSED
        assert read.card is not None
        assert "10.1.2.3" not in str(read.error)


@for_each(
    ("answer", "report"),
    [
        (says(b"\xff\xff\xff"), CardReport.REFUSED),
        (fails("PERMISSION_DENIED", "not you"), CardReport.REFUSED),
        (fails("UNAUTHENTICATED", "who are you"), CardReport.REFUSED),
        (says(a2a_pb2.AgentCard(name="n" * 300_000).SerializeToString()), CardReport.REFUSED),
        (hangs(), CardReport.UNREACHABLE),
    ],
)
async def test_a_malformed_card_is_a_failed_attempt(answer: Answer, report: CardReport) -> None:
    deadline = 0.5 if report is CardReport.UNREACHABLE else WAIT
    async with source(by_path({NEW: answer}), deadline=deadline, longest=200_000) as (read, _):
        assert await read.refresh() is report
        assert read.card is None
        assert read.error
        assert read.settled.is_set()


async def test_an_unreachable_agent_has_no_card() -> None:
    async with source(says()) as (read, agent):
        await agent.server.stop(0)
        assert await read.refresh() is CardReport.UNREACHABLE
        assert str(agent.port) not in str(read.error)


async def test_an_extended_card_is_personal_and_a_public_one_of_0_3_with_a_credential_too() -> None:
    async with source(by_path({NEW: says(CARD_1_0)})) as (read, _):
        await read.refresh()
        assert read.personal
    async with source(by_path({OLD: says(CARD_0_3)})) as (read, _):
        await read.refresh()
        # It was asked for with a credential, and nobody knows what it would be without.
        assert read.personal
