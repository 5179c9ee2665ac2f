"""The card that the gateway serves."""

import copy
import json

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.compat.v0_3.types import AgentCard as LegacyCard
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs

from gateway.a2a.card import MAX_CARD, CardInvalid
from gateway.a2a.card_rewriting import OLD, Edition, Served, encode_card
from tests.a2a.services import (
    BOTH_SHAPES,
    EDITIONS,
    LEGACY,
    LEGACY_GRPC,
    LEGACY_REST,
    ONLY_SCOPED,
    REST_ONLY,
    VECTORS,
    WHOLE,
    WITH_GRPC,
    card,
    rebuild,
)
from tests.table import for_each

# ---- The shapes, as stock clients read them ------------------------------------------------------------------------


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


# ---- Inside a dialect ----------------------------------------------------------------------------------------------


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
