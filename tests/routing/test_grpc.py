"""Routing without paths: what stands in their stead, who gives way to whom, and that nobody is taken for another."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import (
    AuthMissing,
    BadParams,
    HiddenConflict,
    NoEndpoint,
    NoRoute,
    RouteConflict,
    TenantDenied,
    TenantDeniedEndpoint,
)
from gateway.principal import Principal
from gateway.routing.endpoint import Condition
from gateway.routing.explain import explain
from gateway.routing.route import AgentRules, GrpcAddress, Place, Reach, Route, RoutingInput, Rule, Verdict
from gateway.routing.table import Table
from tests.support.yardstick import growth
from tests.table import for_each

KEY, OTHER_KEY = ("key", "batch"), ("key", "other")
NAMES = ("acme", "billing", "crm", "status")
ALL = Reach(frozenset(NAMES), None)


def match(
    agent: str, path: str = "", *conditions: Condition, tenant: str = "", host: str | None = None, line: int = 1
) -> Rule:
    """A match of the file; without `path` it has none, and `/` is the root."""
    asked = frozenset((*conditions, ("tenant", tenant)) if tenant else conditions)
    segments = tuple(part for part in path.split("/") if part)
    return Rule(agent, host, segments, asked, Place("gateway.yaml", line))


def agent(*rules: Rule, by_tenant: Sequence[str] = (), **more: Any) -> AgentRules:
    name = rules[0].agent
    routes: dict[str | None, Route] = {None: Route(name, name, f"http://{name}")}
    if by_tenant:
        routes = {tenant: Route(name, f"{name}/{tenant}", f"http://{name}-{tenant}", tenant) for tenant in by_tenant}
    return AgentRules(name, rules, routes, rules[0].place, **more)


def table(*agents: AgentRules, **reach: Reach) -> Table:
    return Table.build(agents, reach or {"acme": ALL}, grpc=True)


def asked(found: Table, tenant: str | None = None, *, key: str | None = None, caller: str = "acme") -> Verdict:
    principal = Principal(caller, method="jwt" if key is None else "api_key", key=key)
    return found.resolve(found.grpc_endpoint, RoutingInput((), "", tenant, principal))


def answers(found: Table, tenant: str | None = None, **more: str) -> str | None:
    """The backend that answers, or the reason why none does."""
    verdict = asked(found, tenant, **more)
    return verdict.reason if verdict.route is None else verdict.route.backend


def test_without_clients_of_grpc_there_is_nothing_for_them() -> None:
    it = match("status", "/status")
    found = Table.build([agent(it)], {"acme": ALL})
    assert not found.grpc
    assert found.grpc_endpoint is None
    assert found.grpc_address(it) is None
    assert found.written(it) is it


def test_the_name_of_an_agent_stands_for_its_path_and_is_marked_as_that() -> None:
    it = match("status", "/teams/ops/status", line=7)
    found = table(agent(it), agent(match("billing", "/billing")))
    verdict = asked(found, "status")
    assert verdict.rule is not None
    assert (verdict.rule.agent, verdict.rule.addressed, verdict.rule.path) == ("status", True, ())
    assert verdict.rule.place is it.place
    assert found.written(verdict.rule) is it
    assert found.grpc_address(it) == found.grpc_address(verdict.rule) == GrpcAddress("status")
    assert answers(found) == answers(found, "nobody") == "no_route"


def test_a_match_without_a_path_asks_for_what_it_asked_for() -> None:
    root = match("status", "/")
    found = table(agent(root), agent(match("billing", tenant="invoices")))
    assert answers(found) == "status"
    assert answers(found, "invoices") == "billing"
    verdict = asked(found)
    assert verdict.rule is root
    assert found.grpc_address(root) == GrpcAddress(None)


def test_a_credential_picks_its_agent_with_and_without_its_name() -> None:
    it = match("billing", "/a2a", KEY)
    found = table(agent(it), agent(match("status", "/status")))
    assert answers(found, key="batch") == answers(found, "billing", key="batch") == "billing"
    assert answers(found) == answers(found, "billing") == "no_route"
    named, alone = asked(found, "billing", key="batch"), asked(found, key="batch")
    assert named.rule is not None
    assert alone.rule is not None
    assert (named.rule.addressed, alone.rule.addressed) == (True, False)
    assert found.grpc_address(it) == GrpcAddress(None)


def test_a_credential_that_picks_one_agent_and_a_name_that_picks_another_are_refused_not_ranked() -> None:
    found = table(agent(match("billing", "", KEY)), agent(match("status", "/status")))
    assert asked(found, "status", key="batch").fault is RouteConflict
    assert asked(found, "nobody", key="batch").fault is NoRoute
    found = table(agent(match("billing", "/a2a", KEY)), agent(match("status", "", KEY)))
    assert asked(found, key="batch").fault is RouteConflict
    assert answers(found, "billing", key="batch") == "billing"


def test_a_credential_at_a_path_picks_its_agent_only_where_no_tenant_is_named() -> None:
    billing, crm = match("billing", "/a2a", KEY), match("crm", "/a2a", tenant="invoices")
    found = table(agent(billing), agent(match("status", "/status")), agent(crm))
    assert answers(found, key="batch") == answers(found, "billing", key="batch") == "billing"
    assert answers(found, "status", key="batch") == "status"
    assert answers(found, "invoices", key="batch") == "crm"
    assert asked(found, "nobody", key="batch").fault is NoRoute
    asks = RoutingInput((), "", "status", Principal("acme", method="api_key", key="batch"))
    told = explain(found, found.grpc_endpoint, asks, grpc=True).candidates
    whys = [each.why for each in told if each.rule.untenanted]
    assert whys == ["is picked by its credential where no tenant is named, the request has 'status'"]


def test_an_agent_split_by_tenant_keeps_the_credential_of_its_path() -> None:
    it = match("crm", "/crm", KEY)
    for crm in (agent(it, by_tenant=("acme", "status")), agent(it, require_tenant=True), agent(it, tenanted=True)):
        found = table(crm, agent(match("status", "/status")))
        assert asked(found, "status", key="batch").fault is RouteConflict
        assert asked(found, "acme", key="batch").rule is not None


def test_a_caller_that_is_answered_without_a_tenant_never_needs_one() -> None:
    # So the card that the plain service of 0.3 gives never has to name a scope.
    billing = (match("billing", "/a", KEY), match("billing", "/b"), match("billing", "/c", KEY, tenant="t"))
    others = (
        agent(match("status", "/status")),
        agent(match("status", "", OTHER_KEY), match("status", "/a", KEY)),
        agent(match("crm", "/crm", OTHER_KEY), by_tenant=("acme", "x")),
        agent(match("crm", "/"), by_tenant=("acme", "x")),
        agent(match("crm", host="crm.example"), require_tenant=True),
    )
    for rules in itertools.permutations(billing):
        for other in others:
            found = table(agent(*rules), other)
            for key in (None, "batch", "other"):
                verdict = asked(found, key=key)
                if verdict.route is not None and verdict.rule is not None:
                    address = found.grpc_address(verdict.rule)
                    assert address is None or address.tenant is None


def test_a_credential_that_two_paths_told_apart_needs_the_name() -> None:
    one, other = match("billing", "/a", KEY), match("status", "/b", KEY)
    found = table(agent(one), agent(other))
    assert asked(found, key="batch").fault is RouteConflict
    assert answers(found, "billing", key="batch") == "billing"
    assert found.grpc_address(one) == GrpcAddress("billing")
    assert found.grpc_address(other) == GrpcAddress("status")


def test_a_tenant_that_the_file_writes_goes_before_a_name() -> None:
    named, written = match("billing", "/billing", line=2), match("status", "/a2a", tenant="billing", line=9)
    for agents in itertools.permutations((agent(named), agent(written))):
        found = table(*agents)
        assert answers(found, "billing") == "status"
        assert found.grpc_address(written) == GrpcAddress("billing")
        assert found.grpc_address(named) is None


def test_a_tenant_that_the_file_gives_to_two_agents_is_neithers() -> None:
    one, other = match("billing", "/a", tenant="shared"), match("status", "/b", tenant="shared")
    for agents in itertools.permutations((agent(one), agent(other), agent(match("crm", "/")))):
        found = table(*agents)
        # Not the general agent's either: one of the two was meant.
        assert asked(found, "shared").fault is RouteConflict
        assert found.grpc_address(one) is found.grpc_address(other) is None
    hidden = table(agent(one), agent(other), acme=Reach(frozenset({"billing"})))
    assert asked(hidden, "shared").fault is HiddenConflict


def test_a_name_that_two_agents_have_as_their_tenant_picks_neither() -> None:
    agents = (
        agent(match("billing", "/billing")),
        agent(match("status", "/a", tenant="billing")),
        agent(match("crm", "/b", tenant="billing")),
    )
    for order in itertools.permutations(agents):
        assert asked(table(*order), "billing").fault is RouteConflict


def test_the_matches_of_one_agent_are_one_where_they_ask_for_the_same() -> None:
    one, other, third = match("billing", "/a", line=3), match("billing", "/b", line=4), match("billing", "/c", KEY)
    found = table(agent(other, one, third))
    endpoint = found.grpc_endpoint
    assert endpoint is not None
    assert len(endpoint.rules) == 3
    verdict = asked(found, "billing")
    assert verdict.rule is not None
    assert verdict.rule.place.line == 3
    assert found.grpc_address(one) == found.grpc_address(other) == GrpcAddress("billing")


@for_each("own", ["by_tenant", "require_tenant"])
def test_no_name_stands_for_the_path_of_an_agent_with_tenants_of_its_own(own: str) -> None:
    def crm(*rules: Rule) -> AgentRules:
        return agent(*rules, by_tenant=["acme"]) if own == "by_tenant" else agent(*rules, require_tenant=True)

    path = match("crm", "/crm")
    assert table(crm(path)).grpc_address(path) is None
    assert table(crm(path)).grpc_endpoint is None
    assert table(crm(match("crm", host="crm.example"))).grpc_endpoint is None
    for reached in (match("crm", "/crm", KEY), match("crm", "/crm", tenant="acme")):
        found = table(crm(path, reached))
        assert found.grpc_address(reached) == GrpcAddress(reached.tenant)
        assert answers(found, "acme", key="batch") in ("crm", "crm/acme")
        assert all(not rule.addressed for rule in found.grpc_endpoint.rules)  # type: ignore[union-attr] # there is one


def test_a_tenant_field_that_is_required_is_required() -> None:
    found = table(agent(match("crm", "/"), require_tenant=True))
    assert asked(found).fault is BadParams
    assert answers(found, "whoever") == "crm"


def test_a_tenant_of_a_by_tenant_agent_goes_before_a_name_where_that_agent_is_found() -> None:
    crm = agent(match("crm", "/"), by_tenant=["acme", "globex"])
    named = match("acme", "/elsewhere")
    for agents in itertools.permutations((crm, agent(named))):
        found = table(*agents)
        assert answers(found, "acme") == "crm/acme"
        assert found.grpc_address(named) is None
    only_by_path = agent(match("crm", "/crm"), by_tenant=["acme"])
    assert answers(table(only_by_path, agent(match("acme", "/acme"))), "acme") == "acme"


def test_a_tenant_of_a_by_tenant_agent_that_another_match_asks_for_is_neithers() -> None:
    crm = agent(match("crm", "/"), by_tenant=["acme", "globex"])
    other = match("status", "/status", tenant="acme")
    found = table(crm, agent(other))
    assert asked(found, "acme").fault is RouteConflict
    assert answers(found, "globex") == "crm/globex"
    assert found.grpc_address(other) is None
    assert found.grpc_address(crm.rules[0]) == GrpcAddress(None)


def test_a_customer_names_only_itself() -> None:
    crm = agent(match("crm", "/"), by_tenant=["acme", "globex"])
    found = table(crm, acme=Reach(frozenset({"crm"})))
    assert answers(found) == answers(found, "acme") == "crm/acme"
    assert answers(found, "globex") == "no_route"


def test_a_host_is_lost_as_a_path_is_and_the_name_of_the_agent_stands_for_it() -> None:
    alone, wild = match("acme", host="a.example.com"), match("billing", "/billing", host="*.example.com")
    keyed, named = match("crm", "", KEY, host="c.example.com"), match("status", tenant="t", host="s.example.com")
    found = table(agent(alone), agent(wild), agent(keyed), agent(named))
    assert answers(found) == "no_route"
    assert [answers(found, tenant) for tenant in ("acme", "billing", "t")] == ["acme", "billing", "status"]
    assert answers(found, key="batch") == "crm"
    addresses = [found.grpc_address(rule) for rule in (alone, wild, keyed, named)]
    assert addresses == [GrpcAddress("acme"), GrpcAddress("billing"), GrpcAddress(None), GrpcAddress("t")]


def test_an_unknown_name_does_not_pick_the_general_agent() -> None:
    agents = (agent(match("crm", "/")), agent(match("status", "/status")))
    found = table(*agents, acme=Reach(frozenset({"crm"})))
    assert answers(found) == answers(found, "crm") == "crm"
    unknown, hidden = asked(found, "nobody"), asked(found, "status")
    assert (unknown.fault, hidden.fault) == (NoRoute, TenantDenied)
    tenants = table(agent(match("crm", "/"), tenanted=True), agent(match("status", "/status")))
    assert answers(tenants, "whoever") == "crm"


def test_a_caller_without_grpc_agents_is_turned_away() -> None:
    found = table(agent(match("status", "/status")), acme=Reach(frozenset({"billing"})))
    assert asked(found, "status").fault is TenantDeniedEndpoint
    assert asked(found, "nobody").fault is NoEndpoint
    assert found.turns_away(found.grpc_endpoint, Principal("acme")) is TenantDeniedEndpoint
    assert found.resolve(found.grpc_endpoint, RoutingInput(())).fault is AuthMissing


# ---- whatever the file says ----------------------------------------------------------------------------------------

PATHS = ("", "/", "/a", "/b")
HOSTS = (None, "h.example", "*.example")


@st.composite
def agents(draw: st.DrawFn) -> tuple[AgentRules, ...]:
    """Agents as a file may have them: no two matches are the same."""
    made, taken, line = [], set(), 0
    for name in NAMES:
        rules = []
        for _ in range(draw(st.integers(1, 2))):
            line += 1
            rule = match(
                name,
                draw(st.sampled_from(PATHS)),
                *draw(st.sampled_from([(), (KEY,), (OTHER_KEY,)])),
                tenant=draw(st.sampled_from(["", "", "acme", "billing", "t"])),
                host=draw(st.sampled_from(HOSTS)),
                line=line,
            )
            if (rule.host, rule.path, rule.conditions) not in taken:
                taken.add((rule.host, rule.path, rule.conditions))
                rules.append(rule)
        if rules:
            own = draw(st.sampled_from(["none", "none", "by_tenant", "require_tenant", "tenanted"]))
            if own == "by_tenant":
                made.append(agent(*rules, by_tenant=["acme", "t"]))
            else:
                made.append(agent(*rules, require_tenant=own == "require_tenant", tenanted=own == "tenanted"))
    return tuple(made)


def shown(rule: Rule) -> str | None:
    """The key that a rule asks for."""
    return next((str(condition[1]) for condition in rule.conditions if condition[0] == "key"), None)


@given(agents())
def test_an_address_leads_to_its_agent(found: tuple[AgentRules, ...]) -> None:
    made = table(*found)
    for each in found:
        for rule in each.rules:
            address = made.grpc_address(rule)
            if address is None:
                continue
            tenant = "its-own" if each.require_tenant and address.tenant is None else address.tenant
            verdict = asked(made, tenant, key=shown(rule))
            if not each.by_tenant:
                assert verdict.route is not None, (rule, verdict)
                assert verdict.route.agent == each.name
            elif rule.tenant in (None, *each.routes):
                backend = None if verdict.route is None else verdict.route.backend
                # Where it is told no tenant, it is the caller's own.
                assert backend == f"{each.name}/{rule.tenant or 'acme'}"


@given(agents())
def test_a_customer_of_a_by_tenant_agent_never_lands_at_another_agent(found: tuple[AgentRules, ...]) -> None:
    made = table(*found)
    for each in found:
        for rule in each.rules if each.by_tenant else ():
            address = made.grpc_address(rule)
            if address is None or address.tenant is not None:
                continue
            for tenant in each.routes:
                verdict = asked(made, tenant, key=shown(rule))
                assert verdict.route is None or verdict.route.backend == f"{each.name}/{tenant}"


@given(agents(), st.randoms(use_true_random=False))
def test_order_in_the_file_never_matters(found: tuple[AgentRules, ...], random: object) -> None:
    turned = [replace(each, rules=each.rules[::-1]) for each in found]
    random.shuffle(turned)  # type: ignore[attr-defined] # of hypothesis's own class
    one, other = table(*found), table(*turned)
    for key, tenant in itertools.product((None, "batch", "other"), (None, "acme", "billing", "t", "nobody")):
        first, second = (asked(each, tenant, key=key) for each in (one, other))
        assert (first.route, first.fault, first.rule) == (second.route, second.fault, second.rule)
    for each in found:
        assert [one.grpc_address(rule) for rule in each.rules] == [other.grpc_address(rule) for rule in each.rules]


@given(agents())
def test_explanations_agree_with_routing_and_cover_every_rule(found: tuple[AgentRules, ...]) -> None:
    made = table(*found)
    for key, tenant in itertools.product((None, "batch"), (None, "acme", "nobody")):
        endpoint = made.grpc_endpoint
        given = RoutingInput((), "", tenant, Principal("acme", method="jwt" if key is None else "api_key", key=key))
        verdict, told = made.resolve(endpoint, given), explain(made, endpoint, given, everything=True, grpc=True)
        assert (verdict.route, verdict.fault) == (told.route, told.fault)
        assert {one.rule.agent for one in told.candidates} == {each.name for each in found}
        assert [one.rule for one in told.candidates if one.taken] == ([] if verdict.route is None else [verdict.rule])
        assert all(one.why for one in told.candidates)


# ---- in words ------------------------------------------------------------------------------------------------------


def whys(found: Table, tenant: str | None = None) -> dict[tuple[str, int], str]:
    given = RoutingInput((), "", tenant, Principal("acme"))
    told = explain(found, found.grpc_endpoint, given, everything=True, grpc=True)
    return {(one.rule.agent, one.rule.place.line): one.why for one in told.candidates}


def test_operators_are_told_what_stands_for_a_path_and_what_is_in_the_way() -> None:
    found = table(
        agent(match("status", "/teams/status", line=2)),
        agent(match("billing", "/billing", line=4)),
        agent(match("acme", "/a2a", tenant="billing", line=6)),
        agent(match("crm", "/crm", line=8), by_tenant=["acme"]),
    )
    assert whys(found, "billing") == {
        ("status", 2): "asks for tenant 'status', its name, which stands for the path /teams/status, "
        "the request has 'billing'",
        ("billing", 4): "cannot be reached over gRPC: its name 'billing', which would stand for its path, "
        "is a tenant of 'acme' (gateway.yaml:6)",
        ("acme", 6): "all it asks for holds",
        ("crm", 8): "cannot be reached over gRPC: only its path picks it, and the `tenant` that could stand for a path "
        "is for tenants of its own",
    }


def test_operators_are_told_of_agents_that_only_their_paths_and_hosts_tell_apart() -> None:
    found = table(
        agent(match("status", "/a", tenant="t", line=2)),
        agent(match("billing", "/b", tenant="t", line=4)),
        agent(match("crm", line=6, host="h.example"), by_tenant=["t"]),
        agent(match("acme", host="h.example", line=8)),
    )
    said = whys(found, "t")
    assert said["status", 2] == "holds, but 'billing' asks for the same where there are no paths"
    assert said["crm", 6].startswith("cannot be reached over gRPC: only its host picks it")
    assert said["acme", 8] == "asks for tenant 'acme', its name, which stands for h.example/, the request has 't'"


def test_agents_are_compiled_in_a_time_that_grows_with_their_number_alone() -> None:
    def compiling(count: int) -> Callable[[], object]:
        made = [agent(match(f"a{number}", f"/{number}", host=f"h{number % 7}.example")) for number in range(count)]
        return lambda: table(*made)

    # Sixteen times as many; what grows with the square would take 256 times as long.
    assert growth(compiling(250), compiling(4_000)) < 80
