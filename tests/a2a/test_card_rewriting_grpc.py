"""gRPC on the card that the gateway serves: where it is listed, how 0.3 says a tenant, and what no card shows of it."""

import json
from pathlib import Path

from a2a.compat.v0_3 import a2a_v0_3_pb2, proto_utils
from a2a.compat.v0_3.types import AgentCard as LegacyCard
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs

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


def test_grpc_is_an_interface_of_each_generation() -> None:
    tree = rebuild(SAID, WITH_GRPC)
    assert tree["supportedInterfaces"][2] == {"url": PLACE, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    assert tree["supportedInterfaces"][5] == {"url": PLACE, "protocolBinding": "GRPC", "protocolVersion": "0.3"}
    assert tree["additionalInterfaces"][-1] == {"transport": "GRPC", "url": PLACE}
    assert "transportOptions" not in tree
    alone = rebuild(SAID, ONLY_GRPC, OLD)
    assert (alone["url"], alone["preferredTransport"]) == (PLACE, "GRPC")


@for_each("edition", WRITTEN)
def test_where_grpc_needs_a_tenant_a_card_of_0_3_names_the_scoped_service_and_no_interface_that_would_fail(
    edition: Edition,
) -> None:
    tree = rebuild(SAID, WITH_SCOPED, edition)
    assert tree["transportOptions"] == {"GRPC": {"service": "a2a.v1.ScopedA2AService", "scope": "acme", "url": PLACE}}
    assert (tree["url"], tree["preferredTransport"]) == (PUBLIC, "JSONRPC")
    assert [each["transport"] for each in tree["additionalInterfaces"]] == ["HTTP+JSON"]
    listed = {
        (each["protocolVersion"], each.get("tenant"))
        for each in tree.get("supportedInterfaces", ())
        if each["protocolBinding"] == "GRPC"
    }
    assert listed == ({("1.0", "acme")} if edition.modern else set())


@for_each("edition", WRITTEN)
def test_where_only_the_scoped_service_answers_a_card_of_0_3_is_whole_all_the_same(edition: Edition) -> None:
    tree = rebuild(SAID, ONLY_SCOPED, edition)
    legacy = LegacyCard.model_validate(tree)
    assert (legacy.url, legacy.preferred_transport, legacy.additional_interfaces) == (PLACE, "GRPC", None)
    assert tree["transportOptions"]["GRPC"]["scope"] == "acme"
    # Whoever knows the member does not take it for the plain service.
    assert [each for each in spoken(tree) if each.dialect.version is Version.V0_3] == []


@for_each("served", [WITH_GRPC, WITH_SCOPED, ONLY_GRPC, ONLY_SCOPED])
def test_over_grpc_a_card_has_the_members_of_its_message_and_no_others(served: Served) -> None:
    said = SAID | {"capabilities": {"stateTransitionHistory": True, "extendedAgentCard": True}}
    modern, legacy = (rebuild(said, served, Edition.inside(dialect)) for dialect in (MODERN, LEGACY))
    told = ParseDict(modern, AgentCard(), ignore_unknown_fields=False)
    assert [list(each.schemes) for each in told.security_requirements] == [["bearer"], ["api_key"]]
    older = ParseDict(legacy, a2a_v0_3_pb2.AgentCard(), ignore_unknown_fields=False)
    assert [list(each.schemes) for each in older.security] == [["bearer"], ["api_key"]]
    assert older.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    assert older.security_schemes["api_key"].api_key_security_scheme.name == "X-API-Key"
    assert older.supports_authenticated_extended_card
    # As the client of 0.3 makes its own card of the message.
    found = proto_utils.FromProto.agent_card(older)
    assert found.url == legacy["url"]
    assert {name: scheme.root.type for name, scheme in (found.security_schemes or {}).items()} == {
        "bearer": "http",
        "api_key": "apiKey",
    }


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
