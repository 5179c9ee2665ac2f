"""Every operation of A2A 1.0 with the official client and agent, on every way to an agent, over every binding."""

from pathlib import Path

import pytest
from a2a.helpers import get_message_text
from a2a.types import AgentCard

from tests.e2e import grpc_site
from tests.e2e.agents.agent import SECRET_SKILL
from tests.e2e.every_operation import (
    answers_each,
    joins_again,
    keeps_tasks,
    keeps_webhooks,
    pages_and_histories,
    passes_refusals,
    shows_its_extended_card,
    talks,
)
from tests.e2e.sdk import BINDINGS, Caller, calling, kinds, saying, send, texts
from tests.e2e.site import HOOKS, WAYS, Site, Way
from tests.table import cells

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("way", "binding"), cells(WAYS, BINDINGS), ids=str)
async def test_on_every_way(site: Site, way: Way, binding: str) -> None:
    async with calling(site, way, binding) as caller:
        with site.only(way) as seen:
            assert texts(await send(caller.unary, saying("hello"))) == [f"{way.agent}: hello"]
        [call] = seen.calls
        assert call.headers["a2a-version"] == "1.0"
        assert call.headers["x-request-id"] == caller.answers[-1].headers["x-request-id"]
        assert call.tree.get("params", call.tree)["message"]["parts"] == [{"text": "hello"}]
        with site.only(way):
            await talks(caller, way.agent)
            await tells_every_word(caller)
            await keeps_tasks(caller, way.agent)
            await pages_and_histories(caller)
            await joins_again(caller, site.agents[way.agent].let_go)
            # The agent echoes the tenant it was given; what the client reads is the one it wrote, or none.
            assert (await keeps_webhooks(caller)).tenant in (way.tenant, "")
            await passes_refusals(caller)
            assert "text/event-stream" in {answer.headers["content-type"] for answer in caller.answers}
            assert (await rebuilds_the_extended_card(caller)).name == way.agent
        text = caller.answers[-1].text
        assert not any(port in text for port in site.ports)
        assert "upstream.example" not in text


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("over-rpc", "over-grpc") else pytest.mark.long)
        for name in grpc_site.BINDINGS
    ],
)
async def test_over_grpc_to_an_agent_of_every_binding(tmp_path: Path, name: str) -> None:
    async with (
        grpc_site.site(tmp_path, {**grpc_site.OPEN, "push": HOOKS}) as here,
        grpc_site.calling(here, name) as caller,
    ):
        listed = [
            (each.url, each.tenant)
            for each in caller.card.supported_interfaces
            if (each.protocol_binding, each.protocol_version) == ("GRPC", "1.0")
        ]
        assert listed == [(here.address, name)]
        await talks(caller, name)
        words = "long " * 100_000
        assert texts(await send(caller.unary, saying(words))) == [f"{name}: {words}"]
        await tells_every_word(caller)
        await keeps_tasks(caller, name)
        await pages_and_histories(caller)
        await joins_again(caller, here.places[name].agent.let_go)
        assert (await keeps_webhooks(caller)).tenant in (name, "")
        await passes_refusals(caller)
        backend = str(here.places[name].entry["backend"])
        card = await rebuilds_the_extended_card(caller)
        assert backend.rstrip("'}").rpartition(":")[2] not in str(card.supported_interfaces)
        await answers_each(caller, name, 50)


async def tells_every_word(caller: Caller) -> None:
    events = [event async for event in caller.streaming.send_message(saying("stream 3"))]
    assert kinds(events) == ["task", "status_update", *["artifact_update"] * 3, "status_update"]
    question = await send(caller.unary, saying("ask me"))
    assert get_message_text(question.status.message).endswith(": which one?")


async def rebuilds_the_extended_card(caller: Caller) -> AgentCard:
    assert SECRET_SKILL not in {skill.id for skill in caller.card.skills}
    card = await shows_its_extended_card(caller)
    assert card.supported_interfaces == caller.card.supported_interfaces
    return card
