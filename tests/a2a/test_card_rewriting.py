"""The card that the gateway serves."""

import copy
import json
import re

import msgspec
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.compat.v0_3.types import AgentCard as LegacyCard
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs

from gateway.a2a.card import MAX_CARD, CardInvalid
from gateway.a2a.card_rewriting import DUAL, OLD, Edition, Served, encode_card, etag
from gateway.a2a.json import Tree
from tests.a2a.services import (
    BOTH,
    BOTH_SHAPES,
    EDITIONS,
    LEGACY,
    LEGACY_GRPC,
    LEGACY_REST,
    MODERN,
    ONLY_SCOPED,
    PUBLIC,
    REST_ONLY,
    SHAPES,
    VECTORS,
    WHOLE,
    WITH_GRPC,
    card,
    rebuild,
)
from tests.table import for_each

# ---- The shapes, as stock clients read them ------------------------------------------------------------------------


@for_each("shape", SHAPES)
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


@for_each("shape", SHAPES)
def test_whatever_the_agent_speaks_its_card_is_the_same_but_for_what_it_says(shape: str) -> None:
    own = {"description", "capabilities", "iconUrl", "supportsAuthenticatedExtendedCard"}

    def ours(tree: Tree) -> Tree:
        return {name: value for name, value in tree.items() if name not in own}

    assert ours(rebuild(VECTORS[shape], WHOLE)) == ours(rebuild(VECTORS["v1.0"], WHOLE))
    assert ours(rebuild(VECTORS[shape], WHOLE, OLD)) == ours(rebuild(VECTORS["v1.0"], WHOLE, OLD))


@for_each("edition", [DUAL, OLD, LEGACY, LEGACY_REST])
@for_each("said", ["0.3", "0.3.1", "0.2.5", "1.0", None])
def test_which_0_3_is_spoken_is_the_gateways_to_say(said: str | None, edition: Edition) -> None:
    assert rebuild(card(url="http://a/", protocolVersion=said), WHOLE, edition)["protocolVersion"] == "0.3.0"


@for_each("edition", EDITIONS)
@for_each("served", [WHOLE, REST_ONLY, WITH_GRPC, ONLY_SCOPED, Served(())])
def test_every_required_member_is_there_however_little_the_agent_says(served: Served, edition: Edition) -> None:
    tree = rebuild({}, served, edition)
    if edition != LEGACY_GRPC:
        parse_agent_card(copy.deepcopy(tree))
    if edition.typed and served.interfaces:
        LegacyCard.model_validate(tree)
    assert (tree["name"], tree["description"], tree["version"], tree["skills"]) == ("", "", "", [])
    assert tree["defaultInputModes"] == tree["defaultOutputModes"] == ["text/plain"]


@for_each("edition", EDITIONS)
def test_where_nothing_is_known_of_how_an_agent_speaks_nothing_is_offered(edition: Edition) -> None:
    tree = rebuild(VECTORS["v0.3"], Served((), BOTH), edition)
    assert tree["supportedInterfaces"] == []
    assert not {"url", "preferredTransport", "additionalInterfaces", "protocolVersion"} & tree.keys()


# ---- Inside a dialect ----------------------------------------------------------------------------------------------


def test_over_http_json_0_3_schemes_are_spelled_for_both_kinds_of_readers() -> None:
    tree = rebuild(VECTORS[BOTH_SHAPES], WHOLE, LEGACY_REST)
    schemes = LegacyCard.model_validate(tree).security_schemes or {}
    assert {name: scheme.root.type for name, scheme in schemes.items()} == {"bearer": "http", "api_key": "apiKey"}
    # As compatibility layers of 1.x read it, which know ProtoJSON only.
    proto = ParseDict(copy.deepcopy(tree), a2a_v0_3_pb2.AgentCard(), ignore_unknown_fields=True)
    assert proto.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    assert proto.security_schemes["api_key"].api_key_security_scheme.name == "X-API-Key"
    assert proto.security_schemes["api_key"].api_key_security_scheme.location == "header"


@for_each("edition", [LEGACY, OLD])
def test_over_jsonrpc_0_3_schemes_have_the_one_spelling_of_its_schema(edition: Edition) -> None:
    # A client of @a2a-js/sdk 0.3 takes a scheme without `type` for another format and then finds no binding.
    assert rebuild(VECTORS[BOTH_SHAPES], WHOLE, edition)["securitySchemes"] == {
        "bearer": {"type": "http", "scheme": "Bearer"},
        "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }


def test_a_certificate_is_asked_for_in_the_words_of_each_generation() -> None:
    served = Served(WHOLE.interfaces, ("bearer", "mtls"))
    tree = rebuild(VECTORS["v1.0"], served)
    modern = parse_agent_card(copy.deepcopy(tree))
    assert modern.security_schemes["mtls"].HasField("mtls_security_scheme")
    assert [list(each.schemes) for each in modern.security_requirements] == [["bearer"], ["mtls"]]
    legacy = LegacyCard.model_validate(tree)
    assert {name: scheme.root.type for name, scheme in (legacy.security_schemes or {}).items()} == {
        "bearer": "http",
        "mtls": "mutualTLS",
    }
    for edition in (LEGACY, LEGACY_REST):
        assert rebuild(VECTORS["v1.0"], served, edition)["securitySchemes"]["mtls"]["type"] == "mutualTLS"
    over_grpc = ParseDict(rebuild(VECTORS["v1.0"], served, LEGACY_GRPC), a2a_v0_3_pb2.AgentCard())
    assert over_grpc.security_schemes["mtls"].HasField("mtls_security_scheme")


def test_readers_of_0_2_who_know_no_such_scheme_are_not_shown_it() -> None:
    tree = rebuild(VECTORS["v1.0"], Served(WHOLE.interfaces, ("bearer", "mtls")), OLD)
    assert (list(tree["securitySchemes"]), tree["security"]) == (["bearer"], [{"bearer": []}])
    assert tree["authentication"] == {"schemes": ["Bearer", "mutualTLS"]}
    tree = rebuild(VECTORS["v1.0"], Served(WHOLE.interfaces, ("mtls",)), OLD)
    assert not {"securitySchemes", "security"} & tree.keys()
    assert tree["authentication"] == {"schemes": ["mutualTLS"]}


# ---- Security and signatures ---------------------------------------------------------------------------------------


def test_the_agents_own_security_and_signatures_are_gone() -> None:
    said = VECTORS[BOTH_SHAPES] | {
        "signatures": [{"protected": "e30", "signature": "x"}],
        "securitySchemes": {"theirs": {"type": "oauth2", "flows": {}}},
        "security": [{"theirs": []}],
        "authentication": {"schemes": ["theirs"], "credentials": "secret"},
        "skills": [{"id": "s", "security": [{"theirs": []}], "securityRequirements": [{"schemes": {"theirs": {}}}]}],
        "x-internal": "secret",
    }
    for edition in EDITIONS:
        tree = rebuild(said, WHOLE, edition)
        assert "theirs" not in json.dumps(tree)
        assert "secret" not in json.dumps(tree)
        assert "signatures" not in tree
        assert tree["skills"] == [{"id": "s", "name": "s", "description": "", "tags": []}]


# ---- Capabilities --------------------------------------------------------------------------------------------------


@for_each("said", [{"supportsAuthenticatedExtendedCard": True}, {"capabilities": {"extendedAgentCard": True}}])
def test_an_extended_card_is_announced_in_both_spellings(said: Tree) -> None:
    tree = rebuild(card(**said), WHOLE)
    assert tree["supportsAuthenticatedExtendedCard"] is True
    assert tree["capabilities"] == {"extendedAgentCard": True}
    old = rebuild(card(**said), WHOLE, OLD)
    assert (old["supportsAuthenticatedExtendedCard"], old["capabilities"]) == (True, {})


def test_state_history_is_a_word_of_0_3() -> None:
    said = card(capabilities={"stateTransitionHistory": True})
    for edition in (DUAL, OLD, LEGACY, LEGACY_REST):
        assert rebuild(said, WHOLE, edition)["capabilities"] == {"stateTransitionHistory": True}
    # Its messages know no such word.
    for edition in (MODERN, LEGACY_GRPC):
        assert rebuild(said, WHOLE, edition)["capabilities"] == {}


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
    first = etag(encode_card(rebuild(VECTORS[BOTH_SHAPES], WHOLE)))
    assert re.fullmatch(r'W/"sha256-[0-9a-f]{64}"', first)
    assert first == etag(encode_card(rebuild(VECTORS[BOTH_SHAPES] | {"signatures": [{"protected": "x"}]}, WHOLE)))
    assert first != etag(encode_card(rebuild(VECTORS[BOTH_SHAPES], WHOLE, OLD)))
    assert msgspec.json.decode(encode_card(rebuild(VECTORS[BOTH_SHAPES], WHOLE))) == rebuild(
        VECTORS[BOTH_SHAPES], WHOLE
    )
