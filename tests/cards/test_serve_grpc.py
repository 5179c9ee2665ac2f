"""gRPC on the cards that are served: for whom it is listed, where it is, and which tenant picks the agent there."""

import json
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.cards.serve import GrpcPlace
from gateway.routing.route import AgentRules, Reach, Route, Rule
from gateway.routing.table import Table
from tests.cards.serving import HERE, HOSTED, LEGACY, OWN, SHARED, WILD, cards, extended
from tests.support.gateway import card_of
from tests.table import for_each

pytestmark = pytest.mark.anyio

EVERY = (Binding.JSONRPC, Binding.REST, Binding.GRPC)
GRPC_1_0, GRPC_0_3 = (Dialect(Binding.GRPC, version) for version in (Version.V1_0, Version.V0_3))
SPOKEN = ("GRPC 1.0", "JSONRPC 1.0", "GRPC 0.3")
RAW = card_of("grpc://agent.internal:50051", *SPOKEN)


def agent(*rules: Rule, by_tenant: tuple[str, ...] = (), require_tenant: bool = False) -> AgentRules:
    name = rules[0].agent
    tenants = by_tenant or (None,)
    routes = {tenant: Route(name, f"{name}/{tenant}", "http://x", tenant) for tenant in tenants}
    return AgentRules(name, rules, routes, HERE, require_tenant=require_tenant)


def table_of(*agents: AgentRules) -> Table:
    reach = {"acme": Reach(frozenset(each.name for each in agents))}
    return Table.build(agents, reach, grpc=True)


def place_in(table: Table) -> GrpcPlace:
    return GrpcPlace("gw.test:50051", table.grpc_address, table.written)


def place(*agents: AgentRules) -> GrpcPlace:
    return place_in(table_of(*agents))


def over_grpc(card: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Every entry for gRPC among the interfaces: URL, version and tenant."""
    modern = card.get("supportedInterfaces", ())
    listed = [each for each in modern if each["protocolBinding"] == "GRPC"]
    return [(each["url"], each["protocolVersion"], each.get("tenant")) for each in listed]


def plainly(card: dict[str, Any]) -> list[str]:
    """Return the URLs at which a client of 0.3 finds the service without a tenant."""
    entries = [{"transport": card["preferredTransport"], "url": card["url"]}, *card.get("additionalInterfaces", ())]
    return [each["url"] for each in entries if each["transport"] == "GRPC"]


def scoped(tenant: str, at: str = "gw.test:50051") -> dict[str, Any]:
    return {"GRPC": {"service": "a2a.v1.ScopedA2AService", "scope": tenant, "url": at}}


# ---- Whether it is listed ------------------------------------------------------------------------------------------


async def test_grpc_is_on_a_card_only_where_it_is_exposed_and_served_and_can_be_addressed() -> None:
    shop = Rule("shop", None, ("shop",), frozenset(), HERE)
    everywhere = place(agent(OWN), agent(shop, by_tenant=("acme",)))
    for rule, more, listed in (
        (OWN, {"exposed": EVERY, "grpc": everywhere}, True),
        (OWN, {"exposed": EVERY, "grpc": None}, False),
        (OWN, {"grpc": everywhere}, False),
        # A path is all that picks it, and the tenant is its customers'.
        (shop, {"exposed": EVERY, "grpc": everywhere}, False),
        (OWN, {"exposed": EVERY, "grpc": GrpcPlace("gw.test:1", Table.build([], {}).grpc_address, lambda r: r)}, False),
    ):
        async with cards(raw=RAW, **more) as made:
            for old in (False, True):
                found = made.shown(rule, "acme" if rule is shop else None, old=old)
                assert ("GRPC" in json.dumps(found)) is listed
                assert found["preferredTransport"] == "JSONRPC"


async def test_grpc_is_last_of_each_generation_even_where_the_agent_speaks_nothing_else() -> None:
    root = Rule("echo", None, (), frozenset(), HERE)
    rooted = place(agent(root))
    spoken = {"binding": Binding.GRPC, "version": Version.V1_0}
    async with cards(raw=RAW, exposed=(Binding.GRPC, Binding.REST), grpc=rooted, **spoken) as made:
        card = made.shown(root)
        assert [(each["protocolBinding"], each["protocolVersion"]) for each in card["supportedInterfaces"]] == [
            ("HTTP+JSON", "1.0"), ("GRPC", "1.0"), ("HTTP+JSON", "0.3"), ("GRPC", "0.3"),
        ]  # fmt: skip
        assert card["preferredTransport"] == "HTTP+JSON"
        assert plainly(card) == plainly(made.shown(root, old=True)) == ["gw.test:50051"]
    async with cards(raw=RAW, exposed=(Binding.GRPC,), grpc=rooted, **spoken) as made:
        card = made.shown(root)
        assert (card["url"], card["preferredTransport"]) == ("gw.test:50051", "GRPC")
        assert {each["protocolBinding"] for each in card["supportedInterfaces"]} == {"GRPC"}


# ---- Where it is, and for which tenant -----------------------------------------------------------------------------


SHOP = Rule("shop", None, (), frozenset(), HERE)
STRICT = Rule("strict", None, (), frozenset(), HERE)
AT = "gw.test:50051"


@for_each(
    ("made_of", "rule", "shown", "listed", "plain", "scope"),
    [
        # The name of an agent stands for its path, a tenant that picks it for itself; a host picks nobody.
        (agent(OWN), OWN, {}, [(AT, "1.0", "echo")], [], "echo"),
        (agent(OWN), OWN, {"old": True}, [], [], "echo"),
        (agent(SHARED), SHARED, {"tenant": "billing"}, [(AT, "1.0", "billing")], [], "billing"),
        (agent(HOSTED), HOSTED, {"host": "agents.test"}, [(AT, "1.0", "hosted")], [], "hosted"),
        (agent(WILD), WILD, {"host": "a.agents.test"}, [(AT, "1.0", "wild")], [], "wild"),
        # A customer is shown its own tenant, a stranger none.
        (agent(SHOP, by_tenant=("acme",)), SHOP, {"tenant": "acme"}, [(AT, "1.0", "acme")], [], "acme"),
        (agent(SHOP, by_tenant=("acme",)), SHOP, {}, [(AT, "1.0", None), (AT, "0.3", None)], [AT], None),
        # The service that knows no tenant is not for an agent that refuses calls without one.
        (agent(STRICT, require_tenant=True), STRICT, {}, [(AT, "1.0", None)], [], None),
    ],
)
async def test_the_tenant_that_picks_an_agent_over_grpc_is_on_its_card(
    made_of: AgentRules,
    rule: Rule,
    shown: dict[str, Any],
    *,
    listed: list[tuple[str, str, str | None]],
    plain: list[str],
    scope: str | None,
) -> None:
    async with cards(exposed=EVERY, grpc=place(made_of), require_tenant=rule is STRICT) as made:
        card = made.shown(rule, **shown)
    assert (over_grpc(card), plainly(card)) == (listed, plain)
    assert card.get("transportOptions") == (None if scope is None else scoped(scope))
    if rule is OWN:
        others = [each for each in card.get("supportedInterfaces", ()) if each["protocolBinding"] != "GRPC"]
        assert {each["url"] for each in (card, *others)} == {"https://gw.test/agents/echo"}
        assert not any("tenant" in each for each in others)


# ---- Extended cards ------------------------------------------------------------------------------------------------


@for_each("exposed", [EVERY, EVERY[:2]])
async def test_an_extended_card_that_was_asked_for_over_grpc_has_the_urls_of_the_file(
    exposed: tuple[Binding, ...],
) -> None:
    table = table_of(agent(OWN), agent(SHARED))
    endpoint = table.grpc_endpoint
    assert endpoint is not None
    for written, tenant in ((OWN, "echo"), (SHARED, "billing")):
        found = [rule for rule in endpoint.rules if rule.agent == written.agent and rule.tenant == tenant]
        async with cards(exposed=exposed, grpc=place_in(table)) as made:
            over = await extended(made, RAW, found[0], tenant=tenant, dialect=GRPC_1_0)
            http = await extended(made, RAW, written, tenant=written.tenant)
        assert json.loads(over) == json.loads(http)
        assert b"agent.internal" not in over
        urls = {each["url"] for each in json.loads(over)["supportedInterfaces"] if each["protocolBinding"] != "GRPC"}
        below = "/".join(written.path)
        assert urls == {f"https://gw.test/agents/{below}"} | (
            set() if written is OWN else {f"https://gw.test/agents/{below}/{tenant}"}
        )


async def test_an_extended_card_over_grpc_is_the_message_of_its_generation() -> None:
    schemes: Any = ("bearer", "api_key")
    async with cards(exposed=EVERY, grpc=place(agent(OWN)), schemes=schemes) as made:
        modern, legacy = [json.loads(await extended(made, RAW, dialect=dialect)) for dialect in (GRPC_1_0, GRPC_0_3)]
        over_http = json.loads(await extended(made, RAW, dialect=LEGACY))
    told = ParseDict(modern, AgentCard(), ignore_unknown_fields=False)
    assert [each.tenant for each in told.supported_interfaces] == ["", "", "echo", "", ""]
    older = ParseDict(legacy, a2a_v0_3_pb2.AgentCard(), ignore_unknown_fields=False)
    assert (older.url, older.preferred_transport) == ("https://gw.test/agents/echo", "JSONRPC")
    assert [list(each.schemes) for each in older.security] == [["bearer"], ["api_key"]]
    assert over_http["transportOptions"] == scoped("echo")


async def test_an_extended_card_that_could_list_no_way_at_all_is_refused() -> None:
    shop = Rule("shop", None, ("shop",), frozenset(), HERE)
    served = place(agent(shop, by_tenant=("acme",)))
    async with cards(exposed=(Binding.GRPC,), grpc=served) as made:
        with pytest.raises(UpstreamProtocol) as raised:
            await extended(made, RAW, shop)
        assert "expose" in (raised.value.detail or "")


# ---- What may be seen ----------------------------------------------------------------------------------------------
