"""A conflict is told by the two sources that pick two agents, whichever they are."""

import pytest

from gateway.routing.conflict import explain_conflict
from gateway.routing.endpoint import Condition
from gateway.routing.route import Place, Rule
from gateway.routing.table import claim_condition

KEY: Condition = ("key", "batch")
TENANT: Condition = ("tenant", "billing")
TEAM, ROLE, OTHER_ROLE = claim_condition("team", "red"), claim_condition("role", "a"), claim_condition("role", "b")


def rule(agent: str, *conditions: Condition) -> Rule:
    return Rule(agent, None, ("a2a",), frozenset(conditions), Place("gateway.yaml", 1))


@pytest.mark.parametrize(
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
    assert explain_conflict((rule("one", *one), rule("other", *other))) == f"the request names {words}"


def test_of_several_the_one_of_another_agent_that_asks_for_most_is_told() -> None:
    contenders = (rule("one", TEAM, ROLE), rule("one", KEY), rule("other", KEY), rule("third", TENANT, KEY))
    told = explain_conflict(contenders)
    assert told.endswith("one by its API key and its tenant and one by the claim 'role' and the claim 'team'")
