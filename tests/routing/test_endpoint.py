"""One place where clients knock: which rules are looked at there, and which of them wins."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.listener.request_parser import host_name
from gateway.routing.endpoint import (
    HOST,
    Condition,
    claim_condition,
    explain_conflict,
    host_named,
    patterns,
)
from gateway.routing.route import Place, Rule
from gateway.routing.token_claim import claim_values
from tests.table import for_each


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
        # What both ask for picks neither.
        ((TENANT, TEAM), (TENANT, ROLE), "two agents, one by the claim 'role' and one by the claim 'team'"),
        ((TEAM, ROLE), (TENANT,), "two agents, one by the claim 'role' and the claim 'team' and one by its tenant"),
        ((TENANT,), (TENANT,), "two agents that only their paths tell apart, and gRPC has no paths"),
    ],
)
def test_the_sources_are_those_that_differ(
    one: tuple[Condition, ...], other: tuple[Condition, ...], words: str
) -> None:
    assert explain_conflict((contender("one", *one), contender("other", *other))) == f"the request names {words}"


def test_of_several_the_one_of_another_agent_that_asks_for_most_is_told() -> None:
    contenders = (
        contender("one", TEAM, ROLE),
        contender("one", KEY),
        contender("other", KEY),
        contender("third", TENANT, KEY),
    )
    told = explain_conflict(contenders)
    assert told.endswith("one by its API key and its tenant and one by the claim 'role' and the claim 'team'")
