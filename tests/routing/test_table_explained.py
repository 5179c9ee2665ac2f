"""What operators are told of every rule: that it is taken, or why it is not."""

import itertools
from collections.abc import Iterable

from gateway.principal import Principal
from gateway.routing.explain import explain
from gateway.routing.route import AgentRules, Place, Reach, RoutingInput, Rule
from gateway.routing.table import Table
from tests.routing.tables import COMBINATIONS, agent, knock, resolve, rule, table


def test_every_candidate_is_explained_with_its_line() -> None:
    found = table(agent("it", rule("it", ("path", "key"), 7)), agent("other", rule("other", ("path", "tenant"), 9)))
    asked = knock(("path", "tenant"))
    verdict = explain(found, found.locate(asked.host, asked.path), asked)
    by_line = {candidate.rule.place.line: candidate for candidate in verdict.candidates}
    assert by_line[9].taken
    assert not by_line[7].taken
    assert "API key 'batch'" in by_line[7].why
    verdict = explain(found, None, knock(()), everything=True)
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
            asked = knock(shown)
            explained = explain(found, found.locate(asked.host, asked.path), asked)
            assert (explained.route, explained.fault) == (resolve(found, asked).route, resolve(found, asked).fault)
