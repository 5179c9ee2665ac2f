"""The card that the gateway serves."""

import copy
import json
import re
from pathlib import Path

import msgspec
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.compat.v0_3.types import AgentCard as LegacyCard
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.card import MAX_CARD, CardInvalid, check_card, spoken
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.portrait import Discretion, paint
from gateway.a2a.served_card import Scheme, Served, ServedInterface, encode_card, etag
from gateway.a2a.served_card import rebuild as rebuild_from
from gateway.a2a.tree import Tree

VECTORS: Tree = json.loads((Path(__file__).parent.parent / "vectors" / "AgentCard.json").read_text())
EXTENDED: Tree = json.loads((Path(__file__).parent.parent / "vectors" / "GetExtendedAgentCard.json").read_text())
DUAL = "dual (one document read by 0.3 and 1.0 clients)"
SHAPES = ("v0.1", "v0.3", "v1.0", DUAL)

PUBLIC = "https://gateway.example/agents/orders"
UPSTREAM = ("orders.svc.cluster.local", "orders.svc.cluster.local:8000", "10.1.2.3", "orders-v2")

JSONRPC_1_0 = ServedInterface(PUBLIC, Dialect(Binding.JSONRPC, Version.V1_0))
REST_1_0 = ServedInterface(PUBLIC, Dialect(Binding.REST, Version.V1_0))
JSONRPC_0_3 = ServedInterface(PUBLIC, Dialect(Binding.JSONRPC, Version.V0_3))
REST_0_3 = ServedInterface(PUBLIC, Dialect(Binding.REST, Version.V0_3))
JSONRPC_0_1 = ServedInterface(PUBLIC, Dialect(Binding.JSONRPC, Version.V0_1))

OWN = ("gateway.example",)
BOTH: tuple[Scheme, ...] = ("bearer", "api_key")
MODERN = Served((JSONRPC_1_0, REST_1_0), BOTH)
LEGACY = Served((JSONRPC_0_3, REST_0_3), BOTH)
WHOLE = Served((JSONRPC_0_3, JSONRPC_1_0, REST_0_3, REST_1_0), BOTH)
ANCIENT = Served((JSONRPC_0_1,), BOTH)


def card(**members: object) -> Tree:
    return {"name": "Echo", "version": "1", "skills": [], "capabilities": {}, **members}


def rebuild(said: Tree, served: Served, *, inside: Dialect | None = None, discretion: Discretion | None = None) -> Tree:
    return rebuild_from(paint(said, discretion or Discretion(own=OWN)), served, inside=inside)


# ---- The shapes, as stock clients read them ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_a_dual_card_is_read_by_both_generations(shape: str) -> None:
    tree = rebuild(VECTORS[shape], WHOLE)

    modern = parse_agent_card(copy.deepcopy(tree))
    assert [(each.protocol_binding, each.protocol_version, each.url) for each in modern.supported_interfaces] == [
        ("JSONRPC", "1.0", PUBLIC),
        ("HTTP+JSON", "1.0", PUBLIC),
        ("JSONRPC", "0.3", PUBLIC),
        ("HTTP+JSON", "0.3", PUBLIC),
    ]
    assert modern.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    assert modern.security_schemes["api_key"].api_key_security_scheme.name == "X-API-Key"
    assert [list(each.schemes) for each in modern.security_requirements] == [["bearer"], ["api_key"]]
    assert modern.skills[0].tags == ["orders"]

    legacy = LegacyCard.model_validate(tree)
    assert (legacy.url, legacy.preferred_transport, legacy.name) == (PUBLIC, "JSONRPC", "Order Agent")
    assert [(each.transport, each.url) for each in legacy.additional_interfaces or ()] == [("HTTP+JSON", PUBLIC)]
    assert legacy.security == [{"bearer": []}, {"api_key": []}]
    assert {name: scheme.root.type for name, scheme in (legacy.security_schemes or {}).items()} == {
        "bearer": "http",
        "api_key": "apiKey",
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_a_1_0_card_holds_nothing_that_a_strict_1_0_parser_refuses(shape: str) -> None:
    parsed = ParseDict(rebuild(VECTORS[shape], MODERN), AgentCard(), ignore_unknown_fields=False)
    assert [each.protocol_version for each in parsed.supported_interfaces] == ["1.0", "1.0"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_0_3_card_holds_the_0_3_spelling_only(shape: str) -> None:
    tree = rebuild(VECTORS[shape], LEGACY)
    LegacyCard.model_validate(tree)
    assert not {"supportedInterfaces", "securityRequirements", "authentication", "signatures"} & tree.keys()
    # A client of @a2a-js/sdk 0.3 takes a scheme without `type` for another format and then finds no binding.
    assert tree["securitySchemes"] == {
        "bearer": {"type": "http", "scheme": "Bearer"},
        "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    assert [each.protocol_version for each in parse_agent_card(tree).supported_interfaces] == [tree_version(shape)] * 2


def tree_version(shape: str) -> str:
    return "0.3" if shape in {"v0.3", DUAL} else "0.3.0"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_0_1_agent_has_a_0_1_card(shape: str) -> None:
    tree = rebuild(VECTORS[shape], ANCIENT)
    assert tree["url"] == PUBLIC
    assert tree["authentication"] == {"schemes": ["Bearer", "ApiKey"]}
    assert set(tree["capabilities"]) <= {"streaming", "pushNotifications", "stateTransitionHistory"}
    assert [each.dialect for each in spoken(tree)] == [JSONRPC_0_1.dialect]
    assert rebuild(VECTORS[shape], Served((JSONRPC_0_1,)))["authentication"] == {"schemes": []}


def test_0_1_is_listed_only_when_nothing_else_is() -> None:
    assert rebuild(VECTORS["v0.1"], Served((JSONRPC_0_1, JSONRPC_0_3)))["protocolVersion"] == "0.3.0"


def test_1_0_interfaces_come_first_and_carry_the_tenant() -> None:
    served = Served((JSONRPC_0_3, ServedInterface(PUBLIC, JSONRPC_1_0.dialect, "acme")))
    tree = rebuild(VECTORS[DUAL], served)
    assert tree["supportedInterfaces"] == [
        {"url": PUBLIC, "protocolBinding": "JSONRPC", "tenant": "acme", "protocolVersion": "1.0"},
        {"url": PUBLIC, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
    ]


@pytest.mark.parametrize(
    ("said", "written"), [("0.3.0", "0.3.0"), ("0.3", "0.3"), ("0.2.5", "0.3.0"), ("1.0", "0.3.0"), (None, "0.3.0")]
)
def test_what_is_spoken_as_0_3_is_called_0_3(said: str | None, written: str) -> None:
    assert rebuild(card(url="http://a/", protocolVersion=said), LEGACY)["protocolVersion"] == written


@pytest.mark.parametrize("served", [MODERN, LEGACY, WHOLE, ANCIENT, Served(())])
def test_every_required_member_is_there_however_little_the_agent_says(served: Served) -> None:
    tree = rebuild({}, served)
    parse_agent_card(copy.deepcopy(tree))
    if served in (LEGACY, WHOLE):
        LegacyCard.model_validate(tree)
    assert (tree["name"], tree["description"], tree["version"], tree["skills"]) == ("", "", "", [])
    assert tree["defaultInputModes"] == tree["defaultOutputModes"] == ["text/plain"]


# ---- Inside a dialect ----------------------------------------------------------------------------------------------


def test_an_extended_card_is_answered_in_the_dialect_of_the_call() -> None:
    said = EXTENDED["response"]["v1.0-jsonrpc"]["http"]["body"]["result"]
    modern = rebuild(said, WHOLE, inside=JSONRPC_1_0.dialect)
    parsed = ParseDict(modern, AgentCard(), ignore_unknown_fields=False)
    assert len(parsed.supported_interfaces) == 4
    assert parsed.capabilities.extended_agent_card

    legacy = rebuild(EXTENDED["response"]["v0.3-rest"]["http"]["body"], WHOLE, inside=REST_0_3.dialect)
    assert "supportedInterfaces" not in legacy
    assert LegacyCard.model_validate(legacy).supports_authenticated_extended_card


def test_over_http_json_0_3_schemes_are_spelled_for_both_kinds_of_readers() -> None:
    tree = rebuild(VECTORS[DUAL], WHOLE, inside=REST_0_3.dialect)
    schemes = LegacyCard.model_validate(tree).security_schemes or {}
    assert {name: scheme.root.type for name, scheme in schemes.items()} == {"bearer": "http", "api_key": "apiKey"}
    # As compatibility layers of 1.x read it, which know ProtoJSON only.
    proto = ParseDict(copy.deepcopy(tree), a2a_v0_3_pb2.AgentCard(), ignore_unknown_fields=True)
    assert proto.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    assert proto.security_schemes["api_key"].api_key_security_scheme.name == "X-API-Key"
    assert proto.security_schemes["api_key"].api_key_security_scheme.location == "header"


def test_over_jsonrpc_0_3_schemes_have_the_one_spelling_of_its_schema() -> None:
    tree = rebuild(VECTORS[DUAL], WHOLE, inside=JSONRPC_0_3.dialect)
    assert tree["securitySchemes"] == {
        "bearer": {"type": "http", "scheme": "Bearer"},
        "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }


def test_a_dialect_that_is_not_served_gets_what_is() -> None:
    assert rebuild(VECTORS[DUAL], MODERN, inside=JSONRPC_0_3.dialect) == rebuild(VECTORS[DUAL], MODERN)


# ---- Security and signatures ---------------------------------------------------------------------------------------


def test_the_agents_own_security_and_signatures_are_gone() -> None:
    said = VECTORS[DUAL] | {
        "signatures": [{"protected": "e30", "signature": "x"}],
        "securitySchemes": {"theirs": {"type": "oauth2", "flows": {}}},
        "security": [{"theirs": []}],
        "authentication": {"schemes": ["theirs"], "credentials": "secret"},
        "skills": [{"id": "s", "security": [{"theirs": []}], "securityRequirements": [{"schemes": {"theirs": {}}}]}],
        "x-internal": "secret",
    }
    tree = rebuild(said, WHOLE)
    assert "theirs" not in json.dumps(tree)
    assert "secret" not in json.dumps(tree)
    assert "signatures" not in tree
    assert tree["skills"] == [{"id": "s", "name": "s", "description": "", "tags": []}]


def test_a_gateway_that_asks_for_nothing_declares_nothing() -> None:
    tree = rebuild(VECTORS[DUAL], Served((JSONRPC_1_0, JSONRPC_0_3)))
    assert not {"securitySchemes", "securityRequirements", "security"} & tree.keys()


# ---- Capabilities --------------------------------------------------------------------------------------------------


def test_capabilities_are_what_the_agent_has_and_the_gateway_relays() -> None:
    said = card(
        capabilities={"streaming": True, "pushNotifications": True, "extendedAgentCard": True, "x": True},
        supportsAuthenticatedExtendedCard=True,
    )
    tree = rebuild(said, Served(WHOLE.interfaces, streaming=False, push=False, extended=False))
    assert tree["capabilities"] == {"streaming": False, "pushNotifications": False}
    assert "supportsAuthenticatedExtendedCard" not in tree
    assert rebuild(card(), WHOLE)["capabilities"] == {}


@pytest.mark.parametrize(
    "said", [{"supportsAuthenticatedExtendedCard": True}, {"capabilities": {"extendedAgentCard": True}}]
)
def test_an_extended_card_is_announced_in_both_spellings(said: Tree) -> None:
    tree = rebuild(card(**said), WHOLE)
    assert tree["supportsAuthenticatedExtendedCard"] is True
    assert tree["capabilities"] == {"extendedAgentCard": True}


def test_state_history_is_a_word_of_0_3() -> None:
    said = card(capabilities={"stateTransitionHistory": True})
    assert rebuild(said, WHOLE)["capabilities"] == {"stateTransitionHistory": True}
    assert rebuild(said, MODERN)["capabilities"] == {}
    assert rebuild(said, WHOLE, inside=JSONRPC_1_0.dialect)["capabilities"] == {}


# ---- Nothing of the upstream ---------------------------------------------------------------------------------------


addresses = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(
        ["", "http://", "https://", "HTTP://u:p@", "grpc://", "see ", "x", "//", "https://d.example/?u=http%3A%2F%2F"]
    ),
    st.sampled_from([*UPSTREAM, "ORDERS.svc.Cluster.local", "orders-v2:8000", "10.1.2.3.", "gateway.example"]),
    st.sampled_from(["", ":8000", ":1"]),
    st.sampled_from(["", "/internal/rpc", "/?q=1#f", ", and", "%20"]),
)
strings = (
    addresses | st.text(max_size=12) | st.sampled_from(["JSONRPC", "HTTP+JSON", "GRPC", "0.3", "0.2.5", "1.0", "acme"])
)
members = st.sampled_from(
    sorted(
        {name for shape in SHAPES for name in VECTORS[shape]}
        | {
            "signatures",
            "uri",
            "params",
            "description",
            "required",
            "organization",
            "id",
            "tags",
            "examples",
            "transport",
        }
        | {"extensions", "streaming", "extendedAgentCard", "inputModes", "schemes", "tenant", "protocolBinding", "type"}
    )
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members | strings, inner, max_size=4),
    max_leaves=25,
)
trees = st.dictionaries(members, values, max_size=10).flatmap(
    lambda tree: st.sampled_from([{**VECTORS[shape], **tree} for shape in SHAPES] + [tree])
)
services = st.builds(
    Served,
    st.lists(st.sampled_from([JSONRPC_1_0, REST_1_0, JSONRPC_0_3, REST_0_3, JSONRPC_0_1]), unique=True, max_size=5).map(
        tuple
    ),
    st.sampled_from([(), ("bearer",), ("api_key",), BOTH]),
    streaming=st.booleans(),
    extended=st.booleans(),
)
discretions = st.builds(
    Discretion, st.dictionaries(members, values, max_size=2), secrets=st.just(UPSTREAM), own=st.just(OWN)
)
dialects = st.none() | st.sampled_from([each.dialect for each in (*WHOLE.interfaces, JSONRPC_0_1)])
LEAK = re.compile(
    r"orders\.svc\.cluster\.local|10\.1\.2\.3|//orders-v2(?![\w.-])|(?<![\w.-])orders-v2:\d|internal/rpc", re.IGNORECASE
)


@given(trees, services, discretions, dialects)
def test_no_upstream_host_port_or_path_in_any_card_in_any_shape(
    tree: Tree, served: Served, discretion: Discretion, inside: Dialect | None
) -> None:
    written = encode_card(rebuild(tree, served, inside=inside, discretion=discretion)).decode()
    assert LEAK.search(written) is None


@given(trees, services, discretions, dialects)
def test_rebuilding_a_rebuilt_card_changes_nothing(
    tree: Tree, served: Served, discretion: Discretion, inside: Dialect | None
) -> None:
    once = rebuild(tree, served, inside=inside, discretion=discretion)
    again = rebuild(once, served, inside=inside, discretion=discretion)
    assert again == once
    assert encode_card(again) == encode_card(once)


@given(trees, services, discretions)
def test_whatever_the_agent_says_stock_clients_read_the_card(
    tree: Tree, served: Served, discretion: Discretion
) -> None:
    rebuilt = rebuild(tree, served, discretion=discretion)
    versions = {each.dialect.version for each in served.interfaces}
    check_card(rebuilt)
    if Version.V0_3 in versions:
        LegacyCard.model_validate(rebuilt)
        inside = rebuild(tree, served, inside=REST_0_3.dialect, discretion=discretion)
        LegacyCard.model_validate(inside)
        ParseDict(inside, a2a_v0_3_pb2.AgentCard(), ignore_unknown_fields=True)
    parse_agent_card(copy.deepcopy(rebuilt))
    if Version.V1_0 in versions:
        modern = rebuild(tree, served, inside=JSONRPC_1_0.dialect, discretion=discretion)
        ParseDict(modern, AgentCard(), ignore_unknown_fields=False)


@given(trees, services)
def test_a_card_offers_what_is_served_and_nothing_else(tree: Tree, served: Served) -> None:
    offered = {(each.dialect, each.url) for each in spoken(rebuild(tree, served))}
    expected = {(each.dialect, each.url) for each in served.interfaces}
    if any(dialect.version is not Version.V0_1 for dialect, _ in expected):
        expected = {(dialect, url) for dialect, url in expected if dialect.version is not Version.V0_1}
    assert offered == expected


# ---- Size, bytes, tags ---------------------------------------------------------------------------------------------


def test_a_card_that_grew_too_long_is_not_served() -> None:
    grown = rebuild(card(skills=[{"id": ""}] * 20_000), WHOLE)
    with pytest.raises(CardInvalid, match="longer than"):
        encode_card(grown)
    assert len(encode_card(grown, longest=4 * MAX_CARD)) > MAX_CARD
    assert len(encode_card(rebuild(card(description="x" * 200_000), WHOLE))) <= MAX_CARD


def test_what_json_cannot_hold_is_refused() -> None:
    extension = {"uri": "https://e.example/", "params": {"x": "\ud800"}}
    with pytest.raises(CardInvalid):
        encode_card(rebuild(card(capabilities={"extensions": [extension]}), WHOLE))


def test_the_entity_tag_is_weak_and_follows_the_bytes() -> None:
    first = etag(encode_card(rebuild(VECTORS[DUAL], WHOLE)))
    assert re.fullmatch(r'W/"sha256-[0-9a-f]{64}"', first)
    assert first == etag(encode_card(rebuild(VECTORS[DUAL] | {"signatures": [{"protected": "x"}]}, WHOLE)))
    assert first != etag(encode_card(rebuild(VECTORS[DUAL], MODERN)))
    assert msgspec.json.decode(encode_card(rebuild(VECTORS[DUAL], WHOLE))) == rebuild(VECTORS[DUAL], WHOLE)
