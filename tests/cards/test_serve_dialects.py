"""The bindings and versions that served cards offer, and the capabilities that they promise."""

import json
from typing import Any

import pytest

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.cards.serve import offered
from tests.cards.serving import LEGACY, cards, extended
from tests.support.gateway import card_of
from tests.table import for_each

pytestmark = pytest.mark.anyio

JSONRPC_0_1, JSONRPC_0_3, JSONRPC_1_0 = (Dialect(Binding.JSONRPC, version) for version in Version)
REST_0_3, REST_1_0 = Dialect(Binding.REST, Version.V0_3), Dialect(Binding.REST, Version.V1_0)
GRPC_0_3, GRPC_1_0 = Dialect(Binding.GRPC, Version.V0_3), Dialect(Binding.GRPC, Version.V1_0)
BOTH = (Binding.JSONRPC, Binding.REST)


@for_each(
    ("spoken", "exposed", "listed"),
    [
        ((JSONRPC_1_0,), BOTH, (JSONRPC_1_0, REST_1_0, JSONRPC_0_3, REST_0_3)),
        ((JSONRPC_0_1,), BOTH, (JSONRPC_1_0, REST_1_0, JSONRPC_0_3, REST_0_3)),
        ((REST_0_3,), BOTH, (REST_1_0, JSONRPC_1_0, REST_0_3, JSONRPC_0_3)),
        ((REST_1_0, JSONRPC_1_0), BOTH, (REST_1_0, JSONRPC_1_0, REST_0_3, JSONRPC_0_3)),
        # A dialect without translation precedes the agent's preferred one of another version.
        ((REST_1_0, JSONRPC_0_3), BOTH, (REST_1_0, JSONRPC_1_0, JSONRPC_0_3, REST_0_3)),
        ((GRPC_1_0,), BOTH, (JSONRPC_1_0, REST_1_0, JSONRPC_0_3, REST_0_3)),
        # A dialect that only some clients reach is last, even if the agent speaks it itself.
        ((GRPC_1_0,), (Binding.GRPC, Binding.REST), (REST_1_0, GRPC_1_0, REST_0_3, GRPC_0_3)),
        (
            (GRPC_0_3, REST_0_3),
            (*BOTH, Binding.GRPC),
            (
                REST_1_0,
                JSONRPC_1_0,
                GRPC_1_0,
                REST_0_3,
                JSONRPC_0_3,
                GRPC_0_3,
            ),
        ),
        ((GRPC_0_3,), (Binding.GRPC,), (GRPC_1_0, GRPC_0_3)),
        ((JSONRPC_1_0,), (Binding.GRPC,), (GRPC_1_0, GRPC_0_3)),
        ((JSONRPC_1_0, REST_1_0), (Binding.REST,), (REST_1_0, REST_0_3)),
        ((JSONRPC_0_1,), (Binding.REST,), (REST_1_0, REST_0_3)),
        ((), BOTH, ()),
    ],
)
def test_both_generations_are_offered_over_every_exposed_binding_the_agents_own_first(
    spoken: tuple[Dialect, ...], exposed: tuple[Binding, ...], listed: tuple[Dialect, ...]
) -> None:
    assert offered(spoken, exposed) == listed


SPEAKS: dict[str, dict[str, Any]] = {
    "1.0": {"raw": card_of("http://agent.internal/", "JSONRPC 1.0")},
    "0.3": {"raw": card_of("http://agent.internal/", "HTTP+JSON 0.3")},
    "0.1": {"raw": card_of("http://agent.internal/"), "binding": Binding.JSONRPC, "version": Version.V0_1},
}


async def test_a_binding_that_is_not_exposed_is_on_no_card() -> None:
    raw = card_of("http://agent.internal/", "JSONRPC 1.0")
    async with cards(raw=raw, exposed=(Binding.REST,)) as made:
        for found in (made.shown(), made.shown(old=True), json.loads(await extended(made, raw, dialect=LEGACY))):
            assert "JSONRPC" not in json.dumps(found)
            assert found["preferredTransport"] == "HTTP+JSON"


async def test_only_an_agent_that_has_an_extended_card_is_said_to_have_one() -> None:
    for agent, has in (("1.0", True), ("0.3", True), ("0.1", False)):
        async with cards(**SPEAKS[agent]) as made:
            assert made.shown()["capabilities"].get("extendedAgentCard", False) is has
            assert made.shown(old=True).get("supportsAuthenticatedExtendedCard", False) is has
            assert made.shown()["capabilities"]["streaming"] is True


async def test_a_card_that_says_nothing_of_how_to_call_the_agent_offers_nothing() -> None:
    async with cards(raw=card_of("http://agent.internal/")) as made:
        assert made.shown()["supportedInterfaces"] == made.shown(old=True)["supportedInterfaces"] == []
