"""gRPC on the card that the gateway serves: where it is listed, how 0.3 says a tenant, and what no card shows of it."""

import json
from pathlib import Path

from a2a.compat.v0_3.types import AgentCard as LegacyCard

from gateway.a2a.card import spoken
from gateway.a2a.card_rewriting import DUAL, OLD, Edition, Served, ServedInterface, encode_card
from gateway.a2a.card_rewriting import rebuild as rebuild_from
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import Discretion, sanitize
from tests.table import for_each

VECTORS: Tree = json.loads((Path(__file__).parent.parent / "vectors" / "AgentCard.json").read_text())
SAID: Tree = VECTORS["dual (one document read by 0.3 and 1.0 clients)"]

PUBLIC = "https://gateway.example/agents/orders"
PLACE = "gateway.example:50051"

MODERN, LEGACY = (Dialect(Binding.GRPC, version) for version in (Version.V1_0, Version.V0_3))
HTTP = tuple(
    ServedInterface(PUBLIC, Dialect(binding, version))
    for version in (Version.V1_0, Version.V0_3)
    for binding in (Binding.JSONRPC, Binding.REST)
)
PLAIN = (ServedInterface(PLACE, MODERN), ServedInterface(PLACE, LEGACY))
# Picked by a tenant, which 0.3 can say to the scoped service only.
TENANTED = (ServedInterface(PLACE, MODERN, "acme"), ServedInterface(PLACE, LEGACY, "acme"))

WITH_GRPC, WITH_SCOPED, ONLY_GRPC, ONLY_SCOPED = (
    Served(interfaces, ("bearer", "api_key")) for interfaces in ((*HTTP, *PLAIN), (*HTTP, *TENANTED), PLAIN, TENANTED)
)

# What is JSON on the wire, of 0.3.
WRITTEN = (DUAL, OLD, *(Edition.inside(each.dialect) for each in HTTP[2:]))
EDITIONS = (*WRITTEN, Edition.inside(MODERN), Edition.inside(LEGACY))


def rebuild(said: Tree, served: Served, edition: Edition = DUAL) -> Tree:
    return rebuild_from(sanitize(said, Discretion(own=("gateway.example", PLACE))), served, edition)


@for_each("edition", WRITTEN)
def test_where_only_the_scoped_service_answers_a_card_of_0_3_is_whole_all_the_same(edition: Edition) -> None:
    tree = rebuild(SAID, ONLY_SCOPED, edition)
    legacy = LegacyCard.model_validate(tree)
    assert (legacy.url, legacy.preferred_transport, legacy.additional_interfaces) == (PLACE, "GRPC", None)
    assert tree["transportOptions"]["GRPC"]["scope"] == "acme"
    # Whoever knows the member does not take it for the plain service.
    assert [each for each in spoken(tree) if each.dialect.version is Version.V0_3] == []


NAMED = {
    "grpc://10.9.8.7:50051": "10.9.8.7",
    "grpcs://10.9.8.7": "10.9.8.7",
    "10.9.8.7:50051": "10.9.8.7",
    "dns:///deep.agent.internal:50051": "deep.agent.internal",
    "agent.internal": "agent.internal",
    "[fd00::7]:50051": "[fd00::7]",
    "orders-v9:50051": "orders-v9:50051",
}
"""Where an agent's card says that its gRPC is, and what of it no card may show."""


@for_each("edition", EDITIONS)
@for_each("url", NAMED)
def test_where_the_agents_own_grpc_is_no_card_shows(url: str, edition: Edition) -> None:
    text = f"See {url} or grpc://{url.rpartition('/')[2]}/x, or call {NAMED[url]} itself."
    says = {"description": text, "skills": [{"id": "s", "description": text, "tags": [url]}], "documentationUrl": url}
    for said in (
        {"supportedInterfaces": [{"url": url, "protocolBinding": "GRPC", "protocolVersion": "1.0"}]},
        {"url": url, "preferredTransport": "GRPC", "protocolVersion": "0.3.0"},
        {"url": PUBLIC, "additionalInterfaces": [{"url": url, "transport": "GRPC"}]},
    ):
        for served in (WITH_GRPC, WITH_SCOPED, ONLY_SCOPED):
            assert NAMED[url] not in encode_card(rebuild({**said, **says}, served, edition)).decode()
