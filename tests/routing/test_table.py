"""Every combination of host, path, key, claim and tenant, and their conflicts."""

import itertools
from collections.abc import Callable

import msgspec

from gateway.a2a.fault import (
    AuthMissing,
    BadParams,
    HiddenConflict,
    NoEndpoint,
    NoRoute,
    NotAdmitted,
    RouteConflict,
    TenantDenied,
    TenantDeniedEndpoint,
)
from gateway.principal import Principal
from gateway.routing.endpoint import claim_condition
from gateway.routing.explain import explain
from gateway.routing.route import AgentRules, GrpcAddress, Place, Reach, Route, RoutingInput, Rule, Verdict
from gateway.routing.table import Table
from tests.routing.tables import COMBINATIONS, EVERYTHING, KEYS, agent, knock, resolve, rule, table
from tests.support.yardstick import growth
from tests.table import for_each


@for_each("keys", COMBINATIONS)
def test_an_agent_is_found_by_any_combination_and_by_nothing_less(keys: tuple[str, ...]) -> None:
    found = table(agent("it", rule("it", keys)))
    verdict = resolve(found, knock(keys))
    assert verdict.route is not None, verdict
    assert verdict.route.agent == "it"
    # What the request shows besides changes nothing.
    assert resolve(found, knock(KEYS)).route == verdict.route
    for missing in keys:
        without = tuple(key for key in keys if key != missing)
        assert resolve(found, knock(without)).route is None, f"found without {missing}"


@for_each(("one", "other"), list(itertools.combinations(COMBINATIONS, 2)))
def test_of_two_agents_the_more_exact_wins_or_nobody(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    for first, second in (("it", "other"), ("other", "it")):
        found = table(agent(first, rule(first, one)), agent(second, rule(second, other)))
        verdict = resolve(found, knock(KEYS))
        endpoints = [("host" in keys, "path" in keys) for keys in (one, other)]
        if endpoints[0] != endpoints[1]:
            # Host before path, and both before everything else.
            assert verdict.route is not None
            assert verdict.route.agent == (first if endpoints[0] > endpoints[1] else second)
        elif set(one) > set(other) or set(other) > set(one):
            assert verdict.route is not None
            assert verdict.route.agent == (first if set(one) > set(other) else second)
        else:
            assert verdict.fault is RouteConflict


def test_a_key_that_picks_one_agent_and_a_tenant_that_picks_another_is_refused_not_ranked() -> None:
    found = table(agent("it", rule("it", ("path", "key"))), agent("other", rule("other", ("path", "tenant"))))
    assert resolve(found, knock(("path", "key", "tenant"))).fault is RouteConflict
    assert resolve(found, knock(("path", "key"))).route == found.agents["it"].routes[None]
    assert resolve(found, knock(("path", "tenant"))).route == found.agents["other"].routes[None]


def test_where_tenants_pick_agents_a_tenant_that_picks_none_agrees_with_no_credential() -> None:
    found = table(agent("it", rule("it", ("path", "key"))), agent("other", rule("other", ("path", "tenant"))))
    for tenant in ("nobody", "Acme", "it"):
        asked = msgspec.structs.replace(knock(("path", "key")), tenant=tenant)
        verdict = resolve(found, asked)
        assert (verdict.route, verdict.fault) == (None, NoRoute)
        told = explain(found, found.locate("", asked.path), asked)
        assert f"the tenant {tenant!r} does not pick it" in told.candidates[0].why
    takes_any = agent("it", rule("it", ("path", "key")), tenanted=True)
    found = table(takes_any, agent("other", rule("other", ("path", "tenant"))))
    assert resolve(found, msgspec.structs.replace(knock(("path", "key")), tenant="nobody")).route is not None
    general = agent("it", rule("it", ("path",)))
    found = table(general, agent("other", rule("other", ("path", "tenant"))))
    assert resolve(found, msgspec.structs.replace(knock(("path",)), tenant="nobody")).route is not None


def test_a_conflict_of_one_agent_with_itself_is_none() -> None:
    found = table(agent("it", rule("it", ("path", "key")), rule("it", ("path", "tenant"))))
    assert resolve(found, knock(KEYS[1:])).route == found.agents["it"].routes[None]


def test_a_conflict_is_settled_by_a_rule_that_includes_both() -> None:
    found = table(
        agent("it", rule("it", ("path", "key"))),
        agent("other", rule("other", ("path", "tenant"))),
        agent("third", rule("third", ("path", "key", "tenant"))),
    )
    verdict = resolve(found, knock(("path", "key", "tenant")))
    assert verdict.route == found.agents["third"].routes[None]


def test_order_in_the_file_never_matters() -> None:
    agents = [
        agent(name, rule(name, keys)) for name, keys in zip(("it", "other", "third"), COMBINATIONS[5:8], strict=True)
    ]
    answers = {str(resolve(table(*order), knock(KEYS))) for order in itertools.permutations(agents)}
    assert len(answers) == 1


def test_the_exact_host_comes_before_the_wildcard_and_the_longer_suffix_before_the_shorter() -> None:
    def at(name: str, host: str | None) -> AgentRules:
        return agent(name, Rule(name, host, (), frozenset(), Place("f", 1)))

    found = table(at("it", "a.b.example"), at("other", "*.b.example"), at("third", "*.example"))
    for host, name in (
        ("a.b.example", "it"),
        ("x.b.example", "other"),
        ("y.x.b.example", "other"),
        ("c.example", "third"),
    ):
        verdict = resolve(found, RoutingInput((), host, None, Principal("acme")))
        assert verdict.route is not None
        assert verdict.route.agent == name
    assert resolve(found, RoutingInput((), "example", None, Principal("acme"))).fault is NoEndpoint


def test_the_longest_path_wins_in_whole_segments() -> None:
    def at(name: str, *path: str) -> AgentRules:
        return agent(name, Rule(name, None, path, frozenset(), Place("f", 1)))

    found = table(at("it", "a"), at("other", "a", "b"))
    for path, name in ((("a",), "it"), (("a", "b"), "other"), (("a", "b", "c"), "other"), (("a", "bc"), "it")):
        verdict = resolve(found, RoutingInput(path, "", None, Principal("acme")))
        assert verdict.route is not None
        assert verdict.route.agent == name
    assert resolve(found, RoutingInput(("ab",), "", None, Principal("acme"))).fault is NoEndpoint


@for_each(
    ("claims", "wanted", "holds"),
    [
        ({"aud": "agents"}, ("aud", "agents"), True),
        ({"aud": ["x", "agents"]}, ("aud", "agents"), True),
        ({"aud": ["x", "agents2"]}, ("aud", "agents"), False),
        ({"scope": "read write"}, ("scope", "write"), True),
        ({"scope": "rewrite"}, ("scope", "write"), False),
        ({"team": "red blue"}, ("team", "blue"), False),
        ({"level": 3}, ("level", 3), True),
        ({"level": "3"}, ("level", 3), False),
        ({"admin": True}, ("admin", True), True),
        ({"admin": 1}, ("admin", True), False),
        ({"admin": True}, ("admin", 1), False),
        ({"team": {"name": "red"}}, ("team", "red"), False),
        ({"team": None}, ("team", "red"), False),
        ({"team": [["red"]]}, ("team", "red"), False),
    ],
)
def test_a_claim_is_equal_or_holds_as_a_member(
    claims: dict[str, object],
    wanted: tuple[str, str | int | bool],
    holds: bool,  # noqa: FBT001
) -> None:
    it = Rule("it", None, (), frozenset({claim_condition(*wanted)}), Place("f", 1))
    verdict = resolve(
        table(agent("it", it)), RoutingInput((), "", None, Principal("acme", method="jwt", claims=claims))
    )
    assert (verdict.route is not None) is holds


def test_what_a_tenant_may_not_reach_looks_like_what_does_not_exist() -> None:
    found = table(
        agent("it", rule("it", ("path", "tenant"))),
        agent("other", rule("other", ("path", "key"))),
        acme=Reach(frozenset({"it"})),
        globex=Reach(frozenset({"other"})),
        umbrella=Reach(frozenset({"third"})),
    )
    # globex knows an agent here, so the endpoint exists for it; `it` does not.
    hidden = resolve(found, knock(("path", "tenant"), "globex")).fault
    missing = resolve(found, knock(("path",), "globex")).fault
    assert hidden is TenantDenied
    assert missing is NoRoute
    assert (hidden.rpc_code, hidden.rpc_status, hidden.http_status) == (
        missing.rpc_code, missing.rpc_status, missing.http_status,
    )  # fmt: skip
    # umbrella knows nobody here, so nothing is here.
    nothing = resolve(found, knock(("path", "tenant"), "umbrella")).fault
    assert nothing is TenantDeniedEndpoint
    assert resolve(found, knock(("path",), "umbrella")).fault is NoEndpoint
    assert resolve(found, knock((), "umbrella")).fault is NoEndpoint
    assert resolve(found, knock((), "nobody")).fault is NotAdmitted


def test_a_conflict_with_an_agent_one_may_not_know_looks_like_no_route() -> None:
    rules = (agent("it", rule("it", ("path", "tenant"))), agent("other", rule("other", ("path", "key"))))
    found = table(*rules, acme=Reach(frozenset({"it"})))
    assert resolve(found, knock(("path", "tenant", "key"))).fault is HiddenConflict
    found = table(*rules, acme=Reach(frozenset({"third"})))
    assert resolve(found, knock(("path", "tenant", "key"))).fault is NoEndpoint


def test_a_key_reaches_no_more_than_it_is_narrowed_to() -> None:
    found = table(agent("it", rule("it", ("path",))))
    wide, narrow = Principal("acme", narrowed=frozenset({"it"})), Principal("acme", narrowed=frozenset({"other"}))
    assert resolve(found, RoutingInput(("a2a",), "", None, wide)).route is not None
    assert resolve(found, RoutingInput(("a2a",), "", None, narrow)).fault is TenantDeniedEndpoint


def test_a_stranger_is_asked_who_it_is_whether_the_path_exists_or_not() -> None:
    found = table(agent("it", rule("it", ("path",))))
    for path in (("a2a",), ("nothing",)):
        assert resolve(found, RoutingInput(path)).fault is AuthMissing


def test_where_callers_can_prove_who_they_are_a_stranger_is_asked_to_whether_there_is_something_or_not() -> None:
    rules = (
        agent("it", rule("it", ("path", "tenant"))),
        agent("other", rule("other", ("path", "key")), public=False),
        agent("secret", Rule("secret", None, ("secret",), frozenset(), Place("f", 1)), public=False),
    )
    reach = {"anonymous": Reach(frozenset({"it"})), "acme": Reach(frozenset({"it"}))}
    guarded, open_ = Table.build(rules, reach, guarded=True), Table.build(rules, reach)
    anonymous = Principal("anonymous")
    for principal in (None, anonymous):
        for path in (("nothing",), ("secret",), ("a2a",)):
            asked = RoutingInput(path, "", None, principal)
            endpoint = guarded.locate("", path)
            assert guarded.resolve(endpoint, asked).fault is AuthMissing
            assert guarded.resolve_card(endpoint, asked).fault is AuthMissing
        assert guarded.turns_away(None, principal) is AuthMissing
    # What an anonymous caller may reach it gets, and who is known is told more.
    assert resolve(guarded, RoutingInput(("a2a",), "", "billing", anonymous)).route is not None
    assert resolve(guarded, RoutingInput(("nothing",), "", None, Principal("acme", method="jwt"))).fault is NoEndpoint
    assert resolve(open_, RoutingInput(("nothing",), "", None, anonymous)).fault is NoEndpoint


def test_an_unnamed_tenant_has_the_reach_of_the_star_and_an_anonymous_caller_has_not() -> None:
    found = table(agent("it", rule("it", ("path",))), **{"*": Reach(frozenset({"it"}))})
    assert resolve(found, RoutingInput(("a2a",), "", None, Principal("whoever", method="jwt"))).route is not None
    assert resolve(found, RoutingInput(("a2a",), "", None, Principal("anonymous"))).fault is NotAdmitted


def by_tenant(**more: object) -> AgentRules:
    routes = {name: Route("crm", f"crm/{name}", f"http://crm-{name}:8000", name) for name in ("acme", "globex")}
    return AgentRules("crm", (Rule("crm", None, ("crm",), frozenset(), Place("f", 1)),), routes, Place("f", 1), **more)  # type: ignore[arg-type]


def test_by_tenant_a_caller_names_only_itself_unless_it_may_act_for_others() -> None:
    crm = frozenset({"crm"})
    found = table(
        by_tenant(), acme=Reach(crm), globex=Reach(crm), internal=Reach(crm, frozenset({"acme"})), open=Reach(crm, None)
    )

    def asked(caller: str, named: str | None) -> str | None:
        verdict = resolve(found, RoutingInput(("crm",), "", named, Principal(caller)))
        return verdict.reason if verdict.route is None else verdict.route.backend

    assert asked("acme", None) == "crm/acme"
    assert asked("acme", "acme") == "crm/acme"
    assert asked("acme", "globex") == "no_route"
    assert asked("acme", "nobody") == "no_route"
    assert asked("internal", "acme") == "crm/acme"
    assert asked("internal", "globex") == "no_route"
    assert asked("internal", None) == "no_route"
    assert asked("open", "globex") == "crm/globex"


def test_an_agent_can_require_a_tenant() -> None:
    found = table(by_tenant(require_tenant=True), acme=Reach(frozenset({"crm"})))
    assert resolve(found, RoutingInput(("crm",), "", None, Principal("acme"))).fault is BadParams
    assert resolve(found, RoutingInput(("crm",), "", "acme", Principal("acme"))).route is not None


def test_a_public_card_is_anyones_and_a_private_one_for_those_who_may_call() -> None:
    found = table(
        agent("it", rule("it", ("path",))),
        agent("other", Rule("other", None, ("secret",), frozenset(), Place("f", 1)), public=False),
        acme=Reach(frozenset({"other"})),
        globex=Reach(frozenset()),
    )

    def card(path: str, caller: str | None) -> Verdict:
        asked = RoutingInput((path,), "", None, None if caller is None else Principal(caller))
        return found.resolve_card(found.locate("", (path,)), asked)

    assert card("a2a", None).route is not None
    assert card("a2a", "globex").route is not None
    assert card("secret", "acme").route is not None
    assert card("secret", "globex").fault is TenantDeniedEndpoint
    assert card("secret", None).fault is TenantDeniedEndpoint


def _looking_up(count: int) -> Callable[[], None]:
    shared = [
        agent(f"a{n}", Rule(f"a{n}", None, ("a2a",), frozenset({("tenant", f"t{n}")}), Place("f", n)))
        for n in range(count)
    ]
    own = [agent(f"b{n}", Rule(f"b{n}", None, (f"b{n}",), frozenset(), Place("f", n))) for n in range(count)]
    names = frozenset(each.name for each in (*shared, *own))
    found = table(*shared, *own, acme=Reach(names))
    asked = [
        RoutingInput(("a2a",), "h", f"t{count - 1}", Principal("acme")),
        RoutingInput((f"b{count - 1}",), "h", None, Principal("acme")),
    ]

    def look_up() -> None:
        for _ in range(500):
            for each in asked:
                assert resolve(found, each).route is not None

    return look_up


def test_a_look_up_does_not_slow_down_with_the_number_of_agents() -> None:
    # Two hundred times as many; were they looked at one by one, it would take about as many times as long.
    assert growth(_looking_up(10), _looking_up(2000)) < 3


def test_over_grpc_there_is_one_endpoint_and_it_is_resolved_as_any_other() -> None:
    at_path, at_host = rule("it", ("path", "key"), 3), rule("other", ("host",), 5)
    agents = (agent("it", at_path), agent("other", at_host))
    found = Table.build(agents, {"acme": EVERYTHING}, grpc=True)
    assert found.grpc
    endpoint = found.grpc_endpoint
    shown = knock(("key",))
    verdict = found.resolve(endpoint, msgspec.structs.replace(shown, tenant="it"))
    assert verdict.rule is not None
    assert (verdict.route, verdict.rule.addressed) == (found.agents["it"].routes[None], True)
    assert found.written(verdict.rule) is at_path
    assert (found.grpc_address(at_path), found.grpc_address(at_host)) == (GrpcAddress(None), GrpcAddress("other"))
    assert found.resolve(endpoint, shown).route == verdict.route
    assert found.resolve(endpoint, knock(("host",))).route is None
    without = table(*agents)
    assert (without.grpc, without.grpc_endpoint, without.grpc_address(at_path)) == (False, None, None)
