"""The card that the gateway serves, whatever the agent says in its own."""

import copy
import re

from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.compat.v0_3.types import AgentCard as LegacyCard
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.card import mended, spoken
from gateway.a2a.card_rewriting import DUAL, OLD, Edition, Served, encode_card
from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import Discretion
from tests.a2a.services import (
    BOTH,
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
    rebuild,
)

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
def test_whatever_the_agent_says_stock_clients_read_the_card(
    tree: Tree, served: Served, discretion: Discretion
) -> None:
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
def test_a_card_offers_what_is_served_and_nothing_else(tree: Tree, served: Served) -> None:
    expected = {(each.dialect, each.url) for each in served.interfaces if not each.scoped}
    assert {(each.dialect, each.url) for each in spoken(rebuild(tree, served))} == expected
    older = {(dialect, url) for dialect, url in expected if dialect.version is Version.V0_3}
    assert {(each.dialect, each.url) for each in spoken(rebuild(tree, served, OLD))} == older
