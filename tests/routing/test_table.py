"""Every combination of host, path, key, claim and tenant, and their conflicts."""

import itertools
from collections.abc import Callable, Iterable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

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
from gateway.listener.request_parser import host_name
from gateway.principal import Principal
from gateway.routing.endpoint import (
    HOST,
    Condition,
    claim_condition,
    explain_conflict,
    host_named,
    patterns,
)
from gateway.routing.explain import explain
from gateway.routing.route import AgentRules, GrpcAddress, Place, Reach, Route, RoutingInput, Rule, Verdict
from gateway.routing.table import Table
from gateway.routing.token_claim import claim_values
from tests.routing.tables import COMBINATIONS, EVERYTHING, KEYS, agent, resolve, routing_input, rule, table
from tests.support.yardstick import growth
from tests.table import for_each


@for_each("keys", COMBINATIONS)
def test_an_agent_is_found_by_any_combination_and_by_nothing_less(keys: tuple[str, ...]) -> None:
    found = table(agent("it", rule("it", keys)))
    verdict = resolve(found, routing_input(keys))
    assert verdict.route is not None, verdict
    assert verdict.route.agent == "it"
    # Further credentials of the request change nothing.
    assert resolve(found, routing_input(KEYS)).route == verdict.route
    for missing in keys:
        without = tuple(key for key in keys if key != missing)
        assert resolve(found, routing_input(without)).route is None, f"found without {missing}"


@for_each(("one", "other"), list(itertools.combinations(COMBINATIONS, 2)))
def test_the_more_exact_of_two_agents_wins_or_none(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    for first, second in (("it", "other"), ("other", "it")):
        found = table(agent(first, rule(first, one)), agent(second, rule(second, other)))
        verdict = resolve(found, routing_input(KEYS))
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
    assert resolve(found, routing_input(("path", "key", "tenant"))).fault is RouteConflict
    assert resolve(found, routing_input(("path", "key"))).route == found.agents["it"].routes[None]
    assert resolve(found, routing_input(("path", "tenant"))).route == found.agents["other"].routes[None]


def test_a_tenant_that_picks_no_agent_conflicts_with_any_credential() -> None:
    found = table(agent("it", rule("it", ("path", "key"))), agent("other", rule("other", ("path", "tenant"))))
    for tenant in ("nobody", "Acme", "it"):
        asked = msgspec.structs.replace(routing_input(("path", "key")), tenant=tenant)
        verdict = resolve(found, asked)
        assert (verdict.route, verdict.fault) == (None, NoRoute)
        told = explain(found, found.locate("", asked.path), asked)
        assert f"the tenant {tenant!r} does not pick it" in told.candidates[0].why
    takes_any = agent("it", rule("it", ("path", "key")), tenanted=True)
    found = table(takes_any, agent("other", rule("other", ("path", "tenant"))))
    assert resolve(found, msgspec.structs.replace(routing_input(("path", "key")), tenant="nobody")).route is not None
    general = agent("it", rule("it", ("path",)))
    found = table(general, agent("other", rule("other", ("path", "tenant"))))
    assert resolve(found, msgspec.structs.replace(routing_input(("path",)), tenant="nobody")).route is not None


def test_a_conflict_of_one_agent_with_itself_is_none() -> None:
    found = table(agent("it", rule("it", ("path", "key")), rule("it", ("path", "tenant"))))
    assert resolve(found, routing_input(KEYS[1:])).route == found.agents["it"].routes[None]


def test_a_conflict_is_settled_by_a_rule_that_includes_both() -> None:
    found = table(
        agent("it", rule("it", ("path", "key"))),
        agent("other", rule("other", ("path", "tenant"))),
        agent("third", rule("third", ("path", "key", "tenant"))),
    )
    verdict = resolve(found, routing_input(("path", "key", "tenant")))
    assert verdict.route == found.agents["third"].routes[None]


def test_order_in_the_file_never_matters() -> None:
    agents = [
        agent(name, rule(name, keys)) for name, keys in zip(("it", "other", "third"), COMBINATIONS[5:8], strict=True)
    ]
    answers = {str(resolve(table(*order), routing_input(KEYS))) for order in itertools.permutations(agents)}
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


def test_forbidden_agents_look_like_missing_ones() -> None:
    found = table(
        agent("it", rule("it", ("path", "tenant"))),
        agent("other", rule("other", ("path", "key"))),
        acme=Reach(frozenset({"it"})),
        globex=Reach(frozenset({"other"})),
        umbrella=Reach(frozenset({"third"})),
    )
    # globex knows an agent here, so the endpoint exists for it; `it` does not.
    hidden = resolve(found, routing_input(("path", "tenant"), "globex")).fault
    missing = resolve(found, routing_input(("path",), "globex")).fault
    assert hidden is TenantDenied
    assert missing is NoRoute
    assert (hidden.rpc_code, hidden.rpc_status, hidden.http_status) == (
        missing.rpc_code, missing.rpc_status, missing.http_status,
    )  # fmt: skip
    # umbrella knows nobody here, so nothing is here.
    nothing = resolve(found, routing_input(("path", "tenant"), "umbrella")).fault
    assert nothing is TenantDeniedEndpoint
    assert resolve(found, routing_input(("path",), "umbrella")).fault is NoEndpoint
    assert resolve(found, routing_input((), "umbrella")).fault is NoEndpoint
    assert resolve(found, routing_input((), "nobody")).fault is NotAdmitted


def test_a_conflict_with_an_agent_one_may_not_know_looks_like_no_route() -> None:
    rules = (agent("it", rule("it", ("path", "tenant"))), agent("other", rule("other", ("path", "key"))))
    found = table(*rules, acme=Reach(frozenset({"it"})))
    assert resolve(found, routing_input(("path", "tenant", "key"))).fault is HiddenConflict
    found = table(*rules, acme=Reach(frozenset({"third"})))
    assert resolve(found, routing_input(("path", "tenant", "key"))).fault is NoEndpoint


def test_a_key_reaches_no_more_than_it_is_narrowed_to() -> None:
    found = table(agent("it", rule("it", ("path",))))
    wide, narrow = Principal("acme", narrowed=frozenset({"it"})), Principal("acme", narrowed=frozenset({"other"}))
    assert resolve(found, RoutingInput(("a2a",), "", None, wide)).route is not None
    assert resolve(found, RoutingInput(("a2a",), "", None, narrow)).fault is TenantDeniedEndpoint


def test_a_stranger_is_asked_for_a_credential_at_every_path() -> None:
    found = table(agent("it", rule("it", ("path",))))
    for path in (("a2a",), ("nothing",)):
        assert resolve(found, RoutingInput(path)).fault is AuthMissing


def test_a_guarded_gateway_asks_every_stranger_for_a_credential() -> None:
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
    # An anonymous caller gets the agents in its reach, and known callers are told more.
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
    shown = routing_input(("key",))
    verdict = found.resolve(endpoint, msgspec.structs.replace(shown, tenant="it"))
    assert verdict.rule is not None
    assert (verdict.route, verdict.rule.addressed) == (found.agents["it"].routes[None], True)
    assert found.written(verdict.rule) is at_path
    assert (found.grpc_address(at_path), found.grpc_address(at_host)) == (GrpcAddress(None), GrpcAddress("other"))
    assert found.resolve(endpoint, shown).route == verdict.route
    assert found.resolve(endpoint, routing_input(("host",))).route is None
    without = table(*agents)
    assert (without.grpc, without.grpc_endpoint, without.grpc_address(at_path)) == (False, None, None)


# ---- What operators are told of every rule: that it is taken, or why it is not ---------------------------------------


def test_every_candidate_is_explained_with_its_line() -> None:
    found = table(agent("it", rule("it", ("path", "key"), 7)), agent("other", rule("other", ("path", "tenant"), 9)))
    asked = routing_input(("path", "tenant"))
    verdict = explain(found, found.locate(asked.host, asked.path), asked)
    by_line = {candidate.rule.place.line: candidate for candidate in verdict.candidates}
    assert by_line[9].taken
    assert not by_line[7].taken
    assert "API key 'batch'" in by_line[7].why
    verdict = explain(found, None, routing_input(()), everything=True)
    assert {candidate.rule.agent for candidate in verdict.candidates} == {"it", "other"}
    assert all("is at /a2a" in candidate.why for candidate in verdict.candidates)


def explained(found: Table, asked: RoutingInput) -> dict[str, str]:
    verdict = explain(found, found.locate(asked.host, asked.path), asked, everything=True)
    return {candidate.rule.agent: candidate.why for candidate in verdict.candidates}


def at(name: str, host: str | None, *path: str, conditions: Iterable[tuple[object, ...]] = ()) -> AgentRules:
    return agent(name, Rule(name, host, path, frozenset(conditions), Place("f", 1)))


def test_a_rule_elsewhere_is_told_with_what_is_true_of_it() -> None:
    found = table(
        at("root", None),
        at("short", None, "a"),
        at("long", None, "a", "b"),
        at("exact", "h.example", "a"),
        at("pattern", "*.example", "a"),
    )
    assert explained(found, RoutingInput(("a", "b"), "", None, Principal("acme"))) == {
        "root": "is at /, but /a/b is a longer path",
        "short": "is at /a, but /a/b is a longer path",
        "long": "all it asks for holds",
        "exact": "is at h.example/a, and the request names no host",
        "pattern": "is at *.example/a, and the request names no host",
    }
    assert explained(found, RoutingInput(("a", "b"), "h.example", None, Principal("acme"))) == {
        "root": "is at /, but h.example/a has a more exact host",
        "short": "is at /a, but h.example/a has a more exact host",
        "long": "is at /a/b, but h.example/a has a more exact host",
        "exact": "all it asks for holds",
        "pattern": "is at *.example/a, but h.example/a has a more exact host",
    }
    assert explained(found, RoutingInput(("x",), "other.test", None, Principal("acme"))) == {
        "root": "all it asks for holds",
        "short": "is at /a",
        "long": "is at /a/b",
        "exact": "is at h.example/a",
        "pattern": "is at *.example/a",
    }


def test_a_rule_that_holds_and_does_not_win_is_told_why() -> None:
    key, tenant = ("key", "batch"), ("tenant", "t")
    found = table(
        at("general", None, "a"),
        at("keyed", None, "a", conditions=[key]),
        at("named", None, "a", conditions=[tenant]),
        at("own", None, "own"),
        acme=Reach(frozenset({"general", "keyed", "named"})),
    )
    both = explained(found, RoutingInput(("a",), "", "t", Principal("acme", key="batch")))
    assert both["general"].endswith("asks for all of it and more")
    assert both["keyed"] == "holds, but so does what 'named' asks for, and neither asks for all that the other does"
    assert explained(found, RoutingInput(("a",), "", "t", Principal("acme")))["general"] == (
        "holds, but 'named' asks for all of it and more"
    )
    assert explained(found, RoutingInput(("a",), "", None, None))["general"] == (
        "holds, but a stranger may call nothing: it shows no credential"
    )
    assert explained(found, RoutingInput(("a",), "", None, Principal("nobody", method="jwt")))["general"] == (
        "holds, but the tenant 'nobody' is not admitted"
    )
    assert explained(found, RoutingInput(("own",), "", None, Principal("acme")))["own"] == (
        "all it asks for holds, but 'acme' may not call it"
    )
    narrowed = Principal("acme", key="batch", narrowed=frozenset({"keyed"}))
    assert explained(found, RoutingInput(("a",), "", "t", narrowed))["named"].startswith("holds")
    narrowed = Principal("acme", key="other", narrowed=frozenset({"keyed"}))
    assert explained(found, RoutingInput(("a",), "", "t", narrowed))["named"] == (
        "all it asks for holds, but the key 'other' may not call it"
    )


def test_a_private_card_is_explained_to_operators_as_it_is() -> None:
    rule = Rule("own", None, ("own",), frozenset(), Place("f", 1))
    found, hidden = table(agent("own", rule)), table(agent("own", rule, public=False))
    asked = RoutingInput(("own",))
    [candidate] = explain(hidden, hidden.locate("", ("own",)), asked, card=True).candidates
    assert (candidate.taken, candidate.why) == (False, "all it asks for holds, but a stranger may not call it")
    [candidate] = explain(found, found.locate("", ("own",)), asked, card=True).candidates
    assert candidate.taken


def test_the_explained_verdict_is_the_one_that_traffic_gets() -> None:
    for one, other in itertools.combinations(COMBINATIONS, 2):
        found = table(agent("it", rule("it", one)), agent("other", rule("other", other)))
        for shown in COMBINATIONS:
            asked = routing_input(shown)
            explained = explain(found, found.locate(asked.host, asked.path), asked)
            assert (explained.route, explained.fault) == (resolve(found, asked).route, resolve(found, asked).fault)


# ---- One path that clients call: which rules are looked at there, and which of them wins -----------------------------


def test_a_host_is_looked_for_from_the_most_exact_pattern_on() -> None:
    assert list(patterns("a.b.example")) == ["a.b.example", "*.b.example", "*.example"]
    assert list(patterns("localhost")) == ["localhost"]


@given(st.text(st.characters(max_codepoint=255)) | st.from_regex(r"[A-Za-z0-9._\[\]:-]{0,30}", fullmatch=True))
def test_a_host_that_is_named_is_the_one_that_traffic_reads(text: str) -> None:
    read = host_name(text.encode("latin-1"))
    expected = read if read is not None and HOST.fullmatch(read) is not None else None
    assert host_named(text) == ("" if not text else expected)


def test_true_is_not_one() -> None:
    assert claim_condition("x", True) != claim_condition("x", 1)
    assert claim_values({"x": True}, "x") == (claim_condition("x", True)[2],)


KEY: Condition = ("key", "batch")
TENANT: Condition = ("tenant", "billing")
TEAM, ROLE, OTHER_ROLE = claim_condition("team", "red"), claim_condition("role", "a"), claim_condition("role", "b")


def contender(agent: str, *conditions: Condition) -> Rule:
    return Rule(agent, None, ("a2a",), frozenset(conditions), Place("gateway.yaml", 1))


@for_each(
    ("one", "other", "words"),
    [
        ((KEY,), (TENANT,), "two agents, one by its API key and one by its tenant"),
        ((TENANT,), (KEY,), "two agents, one by its API key and one by its tenant"),
        ((TEAM,), (TENANT,), "two agents, one by the claim 'team' and one by its tenant"),
        ((TEAM,), (ROLE,), "two agents, one by the claim 'role' and one by the claim 'team'"),
        ((ROLE,), (OTHER_ROLE,), "two agents, both by the claim 'role'"),
        # Conditions of both pick neither.
        ((TENANT, TEAM), (TENANT, ROLE), "two agents, one by the claim 'role' and one by the claim 'team'"),
        ((TEAM, ROLE), (TENANT,), "two agents, one by the claim 'role' and the claim 'team' and one by its tenant"),
        ((TENANT,), (TENANT,), "two agents that only their paths tell apart, and gRPC has no paths"),
    ],
)
def test_the_sources_are_those_that_differ(
    one: tuple[Condition, ...], other: tuple[Condition, ...], words: str
) -> None:
    assert explain_conflict((contender("one", *one), contender("other", *other))) == f"the request names {words}"


def test_a_conflict_names_the_most_exact_rule_of_another_agent() -> None:
    contenders = (
        contender("one", TEAM, ROLE),
        contender("one", KEY),
        contender("other", KEY),
        contender("third", TENANT, KEY),
    )
    told = explain_conflict(contenders)
    assert told.endswith("one by its API key and its tenant and one by the claim 'role' and the claim 'team'")
