"""Reading an agent's card, and where its interfaces may be called."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.card import (
    CardInterface,
    CardInvalid,
    authorities,
    dial_path,
    is_callable,
    is_clean_path,
    mended,
    merge,
    parse_card,
    spoken,
)
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.json import Tree
from tests.table import for_each

VECTORS: Tree = json.loads((Path(__file__).parent.parent / "vectors" / "AgentCard.json").read_text())
DUAL = "dual (one document read by 0.3 and 1.0 clients)"

JSONRPC_1_0 = Dialect(Binding.JSONRPC, Version.V1_0)
JSONRPC_0_3 = Dialect(Binding.JSONRPC, Version.V0_3)
JSONRPC_0_1 = Dialect(Binding.JSONRPC, Version.V0_1)
REST_1_0 = Dialect(Binding.REST, Version.V1_0)
REST_0_3 = Dialect(Binding.REST, Version.V0_3)
GRPC_1_0 = Dialect(Binding.GRPC, Version.V1_0)
GRPC_0_3 = Dialect(Binding.GRPC, Version.V0_3)

MODERN = (
    CardInterface(JSONRPC_1_0, "https://gw.example.net/rpc", "acme"),
    CardInterface(REST_1_0, "https://gw.example.net/rest", "acme"),
    CardInterface(GRPC_1_0, "gw.example.net:443", "acme"),
)
LEGACY = (
    CardInterface(JSONRPC_0_3, "https://gw.example.net/acme/rpc"),
    CardInterface(REST_0_3, "https://gw.example.net/acme/rest"),
)


def card(**members: object) -> Tree:
    return {"name": "Echo", "version": "1", "skills": [], "capabilities": {}, **members}


def refused(tree: object) -> str:
    with pytest.raises(CardInvalid) as refusal:
        parse_card(json.dumps(tree).encode())
    return str(refusal.value)


# ---- Which dialects an agent speaks --------------------------------------------------------------------------------


@for_each(
    "later",
    [
        {"protocolVersion": "0.2.5"},
        {"securitySchemes": {}},
        {"preferredTransport": "JSONRPC"},
        {"supportsAuthenticatedExtendedCard": False},
    ],
)
def test_a_card_is_0_1_only_without_anything_that_came_later(later: Tree) -> None:
    ancient = card(url="http://a/", authentication={"schemes": ["Bearer"]})
    assert spoken(ancient)[0].dialect == JSONRPC_0_1
    assert spoken({**ancient, "protocolVersion": None, "security": None})[0].dialect == JSONRPC_0_1
    assert spoken({**ancient, **later})[0].dialect == JSONRPC_0_3
    assert spoken(card(url="http://a/"))[0].dialect == JSONRPC_0_3


@for_each("url", ["grpc://a:50051", "a:50051", "dns:///a:50051", "http://a:50051"])
def test_grpc_is_read_in_every_shape_whatever_its_clients_dial(url: str) -> None:
    def listed(**more: str) -> Tree:
        return card(supportedInterfaces=[{"url": url, **more}])

    modern, legacy = (CardInterface(dialect, url) for dialect in (GRPC_1_0, GRPC_0_3))
    assert spoken(listed(protocolBinding="GRPC", protocolVersion="1.0")) == (modern,)
    assert spoken(listed(protocolBinding="grpc")) == (modern,)
    assert spoken(listed(transport="GRPC", protocolVersion="0.3.0")) == (legacy,)
    tenanted = listed(protocolBinding="GRPC", protocolVersion="1.0", tenant="acme")
    assert spoken(tenanted) == (CardInterface(GRPC_1_0, url, "acme"),)
    assert spoken(card(url=url, preferredTransport="GRPC", protocolVersion="0.3.0")) == (legacy,)
    beside = card(url="http://a/", additionalInterfaces=[{"url": url, "transport": "GRPC"}])
    assert spoken(beside) == (CardInterface(JSONRPC_0_3, "http://a/"), legacy)


def test_the_service_and_the_scope_of_grpc_in_0_3_are_those_of_the_transport_options() -> None:
    tree = card(url="http://a/", additionalInterfaces=[{"url": "a:1", "transport": "GRPC"}])
    http, grpc = CardInterface(JSONRPC_0_3, "http://a/"), CardInterface(GRPC_0_3, "a:1")
    scoped = "a2a.v1.ScopedA2AService"
    told: list[tuple[object, object, str | None, str | None]] = [
        (scoped, "orgs/42", "orgs/42", scoped),
        (scoped, None, None, scoped),
        (scoped, "a\nb", None, scoped),
        (scoped, ["acme"], None, scoped),
        (None, "acme", "acme", scoped),
        ("", "acme", "acme", scoped),
        (7, "acme", "acme", scoped),
        ("a2a.v1.A2AService", "acme", None, None),
        (None, None, None, None),
        ("x" * 1000, "acme", "acme", "x" * 256),
    ]
    for service, scope, tenant, found in told:
        options = {"GRPC": {"service": service, "scope": scope}}
        expected = (http, CardInterface(GRPC_0_3, "a:1", tenant, found))
        assert spoken({**tree, "transportOptions": options}, services=True) == expected
        # To most readers a service that they do not know is none.
        assert spoken({**tree, "transportOptions": options}) == (expected if found is None else (http,))
    unread: tuple[object, ...] = (None, [], "GRPC", {"GRPC": None}, {"GRPC": ["x"]}, {"HTTP+JSON": {"scope": "x"}})
    for junk in unread:
        assert spoken({**tree, "transportOptions": junk}, services=True) == (http, grpc)
    # 1.0 says it in the interface.
    modern = [{"url": "a:1", "protocolBinding": "GRPC", "tenant": "acme"}]
    said = card(supportedInterfaces=modern, transportOptions={"GRPC": {"service": "a2a.v1.ScopedA2AService"}})
    assert spoken(said) == (CardInterface(GRPC_1_0, "a:1", "acme"),)


def test_bindings_and_versions_that_nobody_knows_are_left_out() -> None:
    tree = card(
        supportedInterfaces=[
            {"url": "http://a/", "protocolBinding": "https://example.org/bindings/mqtt"},
            {"url": "http://a/", "protocolBinding": "JSONRPC", "protocolVersion": "2.0"},
            {"url": "", "protocolBinding": "JSONRPC"},
            {"protocolBinding": "JSONRPC"},
            {"url": "http://a/" + "x" * 3000, "protocolBinding": "JSONRPC"},
            {"url": "http://a/", "protocolBinding": "JSONRPC", "tenant": "a\r\nb"},
            {"url": "http://a/ok", "protocolBinding": "jsonrpc"},
        ],
        url="http://a/",
        protocolVersion="7",
    )
    assert spoken(tree) == (CardInterface(JSONRPC_1_0, "http://a/ok"),)


trees = st.dictionaries(
    st.sampled_from(
        [
            "url",
            "supportedInterfaces",
            "additionalInterfaces",
            "protocolVersion",
            "preferredTransport",
            "authentication",
            "transportOptions",
        ]
    ),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from(["JSONRPC", "GRPC", "http://a/", "a:1", "0.3", "1.0", ""]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["url", "protocolBinding", "transport", "protocolVersion", "tenant", "GRPC"]),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    ),
)


@given(trees)
def test_no_tree_makes_reading_its_interfaces_fail(tree: Tree) -> None:
    for interface in spoken(tree):
        assert interface.url
    assert all(authorities(tree))
    assert is_callable(tree) or not spoken(tree)


# ---- What is refused -----------------------------------------------------------------------------------------------


@for_each(
    ("members", "why", "left"),
    [
        ({"name": 5}, "name is no string", {"name": None}),
        ({"name": None}, "name is missing", {"name": None}),
        ({"description": []}, "description is no string", {"description": None}),
        ({"version": 2}, "version is no string", {"version": None}),
        ({"skills": {"id": "x"}}, "skills is no list", {"skills": None}),
        ({"skills": ["x", {"id": "a"}]}, "skills[0] is no object", {"skills": [{"id": "a"}]}),
        ({"skills": [{"name": "x"}]}, "skills[0].id is missing", {"skills": []}),
        ({"skills": [{"id": "x", "name": 1}]}, "skills[0].name is no string", {"skills": [{"id": "x"}]}),
        (
            {"skills": [{"id": "x", "tags": ["a", 1]}]}, "skills[0].tags[1] is no string",
            {"skills": [{"id": "x", "tags": ["a"]}]},
        ),
        (
            {"defaultInputModes": ["text/plain", 1]}, "defaultInputModes[1] is no string",
            {"defaultInputModes": ["text/plain"]},
        ),
        ({"capabilities": []}, "capabilities is no object", {"capabilities": None}),
        ({"capabilities": {"streaming": "yes"}}, "capabilities.streaming is no boolean", {"capabilities": {}}),
        (
            {"capabilities": {"extensions": [7, {"uri": "u", "params": []}, {}]}},
            "capabilities.extensions[0] is no object", {"capabilities": {"extensions": [{"uri": "u"}]}},
        ),
        ({"provider": "Example"}, "provider is no object", {"provider": None}),
        ({"securitySchemes": {"a": 1, "b": {}}}, "securitySchemes[0] is no object", {"securitySchemes": {"b": {}}}),
        ({"security": [[]]}, "security[0] is no object", {"security": []}),
        ({"signatures": ["x"]}, "signatures[0] is no object", {"signatures": []}),
        ({"supportedInterfaces": {}}, "supportedInterfaces is no list", {"supportedInterfaces": None}),
        ({"supportedInterfaces": ["http://a"]}, "supportedInterfaces[0] is no object", {"supportedInterfaces": []}),
        ({"supportedInterfaces": [{"url": 1}]}, "supportedInterfaces[0].url is no string", {"supportedInterfaces": []}),
        # Without its tenant, or its transport, it would be another interface.
        (
            {"supportedInterfaces": [{"url": "http://a", "tenant": ["a"]}, {"url": "http://b"}]},
            "supportedInterfaces[0].tenant is no string", {"supportedInterfaces": [{"url": "http://b"}]},
        ),
        (
            {"additionalInterfaces": [{"url": "http://a", "transport": 1}]},
            "additionalInterfaces[0].transport is no string", {"additionalInterfaces": []},
        ),
    ],
)  # fmt: skip
def test_a_member_of_a_wrong_type_is_left_out_with_its_place(members: Tree, why: str, left: Tree) -> None:
    wrong: list[str] = []
    read = parse_card(json.dumps(card(url="http://a", **members)).encode(), wrong=wrong)
    assert why == wrong[0]
    assert {name: read.get(name) for name in left} == left
    assert spoken(read)[-1].url == "http://a"
    assert mended(read)[1] == tuple(each for each in ("name is missing",) if read.get("name") is None)


def test_omitted_members_are_reported_within_bounds() -> None:
    wrong: list[str] = []
    parse_card(json.dumps(card(skills=[7] * 1000)).encode(), wrong=wrong)
    assert (len(wrong), wrong[-1]) == (21, "980 more")


@given(trees)
def test_any_tree_can_be_mended_and_nothing_is_left_to_mend(tree: Tree) -> None:
    once, _ = mended(tree)
    again, wrong = mended(once)
    assert again == once
    assert set(wrong) <= {"name is missing"}


@for_each("tree", [{}, {"detail": "not found"}, {"name": 5, "url": 7}])
def test_a_card_needs_a_name_or_an_interface(tree: Tree) -> None:
    assert "neither a name nor an interface" in refused(tree)


# ---- Two answers, one card -----------------------------------------------------------------------------------------


def test_two_shapes_of_one_agent_make_a_dual_card() -> None:
    modern = {name: value for name, value in VECTORS["v1.0"].items() if name != "supportedInterfaces"}
    modern["supportedInterfaces"] = VECTORS["v1.0"]["supportedInterfaces"][:3]
    merged = merge(modern, {**VECTORS["v0.3"], "name": "another"})
    assert spoken(merged) == MODERN + LEGACY
    assert merged["name"] == "Order Agent"
    assert merged["supportsAuthenticatedExtendedCard"] is True


def test_a_dual_card_is_not_merged_again() -> None:
    assert merge(VECTORS[DUAL], VECTORS["v0.3"]) == VECTORS[DUAL]
    assert merge(VECTORS["v1.0"], VECTORS["v1.0"]) == VECTORS["v1.0"]


# ---- Where it says that it is --------------------------------------------------------------------------------------


@for_each(
    ("url", "place"),
    [
        ("http://Agent.test:8000/x", "agent.test:8000"),
        ("https://user:word@agent.test/x", "agent.test"),
        ("grpc://10.1.2.3:50051", "10.1.2.3:50051"),
        ("grpcs://agent.test", "agent.test"),
        ("grpc:///10.1.2.3:50051", "10.1.2.3:50051"),
        ("10.1.2.3:50051", "10.1.2.3:50051"),
        ("[::1]:50051", "[::1]:50051"),
        ("agent.test:443/x", "agent.test:443"),
    ],
)
def test_the_authority_of_an_interface_is_that_of_its_url(url: str, place: str) -> None:
    assert authorities(card(url=url)) == (place,)
    assert authorities(card(additionalInterfaces=[{"url": url, "transport": "GRPC"}])) == (place,)
    assert authorities(card(supportedInterfaces=[{"url": url, "protocolBinding": "GRPC"}])) == (place,)


@for_each(
    ("target", "place"),
    [
        ("agent.test", "agent.test"),
        ("agent", "agent"),
        ("[::1]", "[::1]"),
        ("dns:agent.test:50051", "agent.test:50051"),
        ("dns:///agent.test:50051", "agent.test:50051"),
        ("DNS:///agent.test", "agent.test"),
        ("dns://10.0.0.53/agent.test:50051", "agent.test:50051"),
        ("dns://agent.test:50051/", "agent.test:50051"),
        ("ipv4:10.1.2.3:50051", "10.1.2.3:50051"),
        ("ipv6:[fd00::7]:50051", "[fd00::7]:50051"),
        ("passthrough:///agent.test:50051", "agent.test:50051"),
    ],
)
def test_grpc_targets_may_lack_a_port_or_name_a_resolver(target: str, place: str) -> None:
    assert authorities(card(url=target, preferredTransport="GRPC")) == (place,)
    assert authorities(card(supportedInterfaces=[{"url": target, "transport": "grpc"}])) == (place,)


@for_each("url", ["", "agent.test", "/rpc", "mailto:ops", "?x"])
def test_an_undialable_url_has_no_authority(url: str) -> None:
    assert authorities(card(url=url)) == ()


# ---- Where an interface is called ----------------------------------------------------------------------------------


@for_each(
    ("interface", "path"),
    [
        ("http://backend:8000/base/jsonrpc", "/base/jsonrpc"),
        ("HTTP://BACKEND:8000/base/jsonrpc/", "/base/jsonrpc/"),
        ("http://backend:8000/base", "/base"),
        ("http://0.0.0.0:9999/base/v1/message:stream", "/base/v1/message:stream"),
        # Not below the path that the backend has of its own: it may be a neighbour's.
        ("http://backend:8000/neighbour", "/base/"),
        ("http://backend:8000/basement", "/base/"),
        ("http://backend:8000/BASE/x", "/base/"),
        ("http://backend:8000", "/base/"),
        ("HTTP://BACKEND:8000/", "/base/"),
        ("http://0.0.0.0:9999/a2a/v1/message:stream", "/base/"),
        ("https://elsewhere.example/", "/base/"),
        ("https://elsewhere.example/basement", "/base/"),
        # Unusable, so the backend's own path.
        ("", "/base/"),
        ("backend:8000", "/base/"),
        ("file:///etc/passwd", "/base/"),
        ("http://user:pw@backend/x", "/base/"),
        ("http://backend/base/x?y=1", "/base/"),
        ("http://backend/base/x#y", "/base/"),
        ("http://backend/base//x", "/base/"),
        ("http://backend/base/../x", "/base/"),
        ("http://backend/base/a/./x", "/base/"),
        ("http://backend/base/%2e%2e/x", "/base/"),
        ("http://backend/base/a%2fb", "/base/"),
        ("http://backend/base/a%5Cb", "/base/"),
        ("http://backend/base/a%00b", "/base/"),
        ("http://backend/base/a%250a", "/base/"),
        ("http://backend/base/a%c0%af", "/base/"),
        ("http://backend/base/a;b", "/base/"),
        ("http://backend/a\\b", "/base/"),
        ("http://backend/a b", "/base/"),
        ("http://backend/a\n", "/base/"),
        ("http://backend/\r\nHost: x", "/base/"),
        ("http://back\tend/x", "/base/"),
        ("http://\u212aelvin/x", "/base/"),
        # The gateway's, so the backend's own path.
        ("https://gw.example/agents/echo", "/base/"),
        ("https://GW.example:443/anything", "/base/"),
    ],
)
def test_only_the_path_of_an_interface_counts(interface: str, path: str) -> None:
    assert dial_path(interface, "http://backend:8000/base/", "https://gw.example/agents") == path


@for_each(
    ("interface", "path"),
    [
        ("http://0.0.0.0:9999/a2a/v1/message:stream", "/a2a/v1/message:stream"),
        ("https://elsewhere.example/deep/er", "/deep/er"),
        ("http://[::1]:80/x", "/x"),
        ("http://h/caf%C3%A9", "/caf%C3%A9"),
        # As stock servers of several generations have it: the card at the root, an endpoint for each generation.
        ("http://backend:8000/jsonrpc", "/jsonrpc"),
        ("http://backend:8000/", "/"),
        ("http://backend:8000/a2a/jsonrpc", "/a2a/jsonrpc"),
    ],
)
def test_an_agent_that_has_its_origin_to_itself_may_name_any_path(interface: str, path: str) -> None:
    assert dial_path(interface, "http://backend:8000", "https://gw.example/agents") == path


def test_an_agent_on_the_gateways_own_origin_is_told_apart_by_the_path() -> None:
    backend, public = "https://site.example/internal/echo", "https://site.example/agents"
    assert dial_path("https://site.example/internal/echo/rpc", backend, public) == "/internal/echo/rpc"
    assert dial_path("https://site.example/agents/echo", backend, public) == "/internal/echo"
    assert dial_path("https://site.example/agentsx", backend, public) == "/internal/echo"
    assert dial_path("https://site.example/agentsx", "https://site.example", public) == "/agentsx"
    assert dial_path("https://site.example/agents/x", "https://site.example", public) == "/"


@given(st.text(max_size=40) | st.text(max_size=40).map("http://h/".__add__))
def test_the_path_of_an_interface_is_always_clean(interface: str) -> None:
    path = dial_path(interface, "http://backend/base", None)
    assert is_clean_path(path)
    assert path.startswith("/")
