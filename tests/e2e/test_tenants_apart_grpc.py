"""Two tenants share agents that tell anybody of any task, and nothing leaks: clients over gRPC, agents of all kinds."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import grpc_site
from tests.e2e.conversing import check_two_conversations
from tests.e2e.foreign import check_apart
from tests.e2e.grpc_site import BINDINGS
from tests.e2e.listing import check_lists
from tests.e2e.previous import PreviousAgent, previous_agent
from tests.e2e.shared_site import ACME, GLOBEX, Party, Speech, Witness, party, tenancy

pytestmark = pytest.mark.anyio

CARD = "/.well-known/agent-card.json"
OLD = {"old-grpc": "GRPC", "old-rpc": "JSONRPC", "old-rest": "HTTP+JSON"}
"""Ways to the agent of 0.3."""
every_agent_and_version = pytest.mark.parametrize(
    ("agent", "version"),
    [
        # The check takes each agent in one version, the long run in both.
        pytest.param(agent, version, marks=[] if (place + number) % 2 == 0 else pytest.mark.long)
        for place, agent in enumerate([*BINDINGS, *OLD])
        for number, version in enumerate(["1.0", "0.3"])
    ],
)


@pytest.fixture(scope="module")
def old() -> Iterator[PreviousAgent]:
    with previous_agent("old") as found:
        yield found


@asynccontextmanager
async def both(
    folder: Path, old: PreviousAgent, agent: str, version: str
) -> AsyncIterator[tuple[Party, Party, Witness]]:
    """Clients of acme and globex, and the agent."""
    backends = {
        "old-grpc": {"url": f"grpc://{old.grpc}"},
        "old-rpc": {"url": old.url + "/rpc", "protocol": "jsonrpc"},
        "old-rest": {"url": old.url + "/rest", "protocol": "rest"},
    }
    root = agent if version == "0.3" else ""
    others = {
        name: {
            "backend": {**backend, "a2a_version": "0.3"},
            "card": old.url + CARD,
            **found_at(name, root),
        }
        for name, backend in backends.items()
    }
    entries = {name: found_at(name, root) for name in BINDINGS}
    speech = Speech(version, "GRPC")
    async with (
        grpc_site.site(folder, tenancy(), entries, others=others) as here,
        party(here.url, agent, ACME, speech, here.address) as acme,
        party(here.url, agent, GLOBEX, speech, here.address) as globex,
    ):
        yield acme, globex, old if agent in OLD else here.places[agent]


def found_at(agent: str, root: str) -> dict[str, Any]:
    """How clients of either generation find an agent over gRPC; those of 0.3 only at the root."""
    return {
        "match": [{"path": f"/{agent}"}, *([{"path": "/"}] if agent == root else [])],
        "expose": ["jsonrpc", "rest", "grpc"],
    }


def asked_in(agent: str) -> Speech:
    """What the gateway asks an agent in."""
    return Speech("0.3", OLD[agent]) if agent in OLD else Speech("1.0", BINDINGS[agent])


@every_agent_and_version
async def test_to_another_tenant_a_task_is_none_and_one_word_for_a_context_is_two_conversations(
    tmp_path: Path, old: PreviousAgent, agent: str, version: str
) -> None:
    async with both(tmp_path, old, agent, version) as (acme, globex, witness):
        await check_apart(acme, globex, witness, asked_in(agent))
        await check_two_conversations(acme, globex, witness, asked_in(agent))


@pytest.mark.parametrize("agent", BINDINGS)
async def test_everybody_lists_their_own_tasks_and_counts_no_others(
    tmp_path: Path, old: PreviousAgent, agent: str
) -> None:
    async with both(tmp_path, old, agent, "1.0") as (acme, globex, _):
        await check_lists(acme, globex)
