"""The card that the gateway serves."""

import copy
import json
import re

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.compat.v0_3.types import AgentCard as LegacyCard
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.card import MAX_CARD, CardInvalid, mended, spoken
from gateway.a2a.card_rewriting import DUAL, OLD, Edition, Served, encode_card
from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import Discretion
from tests.a2a.services import (
    BOTH,
    BOTH_SHAPES,
    EDITIONS,
    GRPC_PLACE,
    JSONRPC_0_3,
    JSONRPC_1_0,
    LEGACY,
    LEGACY_GRPC,
    LEGACY_REST,
    MODERN,
    ONLY_GRPC,
    ONLY_SCOPED,
    OWN,
    REST_FIRST,
    REST_ONLY,
    SHAPES,
    UPSTREAM,
    VECTORS,
    WHOLE,
    WITH_GRPC,
    WITH_SCOPED,
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


# ---- The scoped service of gRPC ------------------------------------------------------------------------------------


@for_each("edition", [DUAL, OLD, LEGACY, LEGACY_REST])
def test_a_0_3_card_is_whole_with_the_scoped_service_alone(edition: Edition) -> None:
    tree = rebuild(VECTORS[BOTH_SHAPES], ONLY_SCOPED, edition)
    legacy = LegacyCard.model_validate(tree)
    assert (legacy.url, legacy.preferred_transport, legacy.additional_interfaces) == (GRPC_PLACE, "GRPC", None)
    assert tree["transportOptions"]["GRPC"]["scope"] == "acme"
    # Clients that know the member do not take it for the plain service.
    assert [each for each in spoken(tree) if each.dialect.version is Version.V0_3] == []


# ---- Size, bytes, tags ---------------------------------------------------------------------------------------------


def test_a_card_that_grew_too_long_is_not_served() -> None:
    grown = rebuild(card(skills=[{"id": ""}] * 20_000), WHOLE)
    with pytest.raises(CardInvalid, match="longer than"):
        encode_card(grown)
    assert len(encode_card(grown, longest=4 * MAX_CARD)) > MAX_CARD
    assert len(encode_card(rebuild(card(description="x" * 200_000), WHOLE))) <= MAX_CARD


def test_a_card_that_json_cannot_hold_is_refused() -> None:
    extension = {"uri": "https://e.example/", "params": {"x": "\ud800"}}
    with pytest.raises(CardInvalid):
        encode_card(rebuild(card(capabilities={"extensions": [extension]}), WHOLE))


# ---- The card that the gateway serves, whatever the agent says in its own --------------------------------------------

schemes = [
    "", "http://", "https://", "HTTP://u:p@", "grpc://", "dns:///", "see ", "x", "//",
    "https://d.example/?u=http%3A%2F%2F",
]  # fmt: skip
hosts = [*UPSTREAM, "ORDERS.svc.Cluster.local", "orders-v2:8000", "10.1.2.3.", "gateway.example", GRPC_PLACE]
addresses = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(schemes),
    st.sampled_from(hosts),
    st.sampled_from(["", ":8000", ":50051", ":1"]),
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
            "transportOptions",
            "GRPC",
            "service",
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
ways = [
    WHOLE, REST_FIRST, REST_ONLY, WITH_GRPC, WITH_SCOPED, ONLY_GRPC, ONLY_SCOPED, Served((JSONRPC_1_0, JSONRPC_0_3)),
    Served(()),
]  # fmt: skip
services = st.builds(
    Served,
    st.sampled_from(ways).map(lambda served: served.interfaces),
    st.sampled_from([(), ("bearer",), ("api_key",), BOTH]),
    streaming=st.booleans(),
    extended=st.booleans(),
)
discretions = st.builds(
    Discretion, st.dictionaries(members, values, max_size=2), secrets=st.just(UPSTREAM), own=st.just(OWN)
)
editions = st.sampled_from(EDITIONS)
LEAK = re.compile(
    r"orders\.svc\.cluster\.local|10\.1\.2\.3|//orders-v2(?![\w.-])|(?<![\w.-])orders-v2:\d"
    # Alone: behind one of these names it is found by that, behind others it is not the agent's (`Redaction`).
    r"|(?<![^\s\"\]]/)internal/rpc",
    re.IGNORECASE,
)


@given(trees, services, discretions, editions)
def test_no_upstream_host_port_or_path_in_any_card_in_any_shape(
    tree: Tree, served: Served, discretion: Discretion, edition: Edition
) -> None:
    written = encode_card(rebuild(tree, served, edition, discretion=discretion)).decode()
    assert LEAK.search(written) is None


@given(trees, services, discretions, editions)
def test_rebuilding_a_rebuilt_card_changes_nothing(
    tree: Tree, served: Served, discretion: Discretion, edition: Edition
) -> None:
    once = rebuild(tree, served, edition, discretion=discretion)
    again = rebuild(once, served, edition, discretion=discretion)
    assert again == once
    assert encode_card(again) == encode_card(once)


@given(trees, services, discretions)
def test_a_gateway_in_front_of_another_shows_the_same_from_either_card(
    tree: Tree, served: Served, discretion: Discretion
) -> None:
    dual, old = (rebuild(tree, served, edition, discretion=discretion) for edition in (DUAL, OLD))
    for edition in EDITIONS:
        assert rebuild(dual, served, edition) == rebuild(old, served, edition)


@given(trees, services, discretions)
def test_stock_clients_read_every_served_card(tree: Tree, served: Served, discretion: Discretion) -> None:
    whole, old, modern, legacy, rest, grpc = (
        rebuild(tree, served, edition, discretion=discretion)
        for edition in (DUAL, OLD, MODERN, LEGACY, LEGACY_REST, LEGACY_GRPC)
    )
    ParseDict(modern, AgentCard(), ignore_unknown_fields=False)
    if served.interfaces:
        ParseDict(grpc, a2a_v0_3_pb2.AgentCard(), ignore_unknown_fields=False)
    ParseDict(rest, a2a_v0_3_pb2.AgentCard(), ignore_unknown_fields=True)
    assert mended(grpc)[1] == ()
    for each in (whole, old, modern, legacy, rest):
        assert mended(each)[1] == ()
        parse_agent_card(copy.deepcopy(each))
    if served.interfaces:
        for each in (whole, old, legacy, rest):
            LegacyCard.model_validate(each)


@given(trees, services)
def test_a_card_offers_exactly_the_served_interfaces(tree: Tree, served: Served) -> None:
    expected = {(each.dialect, each.url) for each in served.interfaces if not each.scoped}
    assert {(each.dialect, each.url) for each in spoken(rebuild(tree, served))} == expected
    older = {(dialect, url) for dialect, url in expected if dialect.version is Version.V0_3}
    assert {(each.dialect, each.url) for each in spoken(rebuild(tree, served, OLD))} == older
