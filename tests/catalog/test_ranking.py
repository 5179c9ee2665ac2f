"""The ranking: the order of its parts, what measured latencies do to it, and what a look-up costs."""

import time
from collections.abc import Collection
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.sanitized_card import SanitizedCard
from gateway.catalog.directory import AgentListing, Directory
from gateway.catalog.ranking import KEPT, Changes, FirstByte
from gateway.principal import Principal
from gateway.routing.endpoint import Endpoint
from gateway.routing.route import SKILL, AgentRules, Place, Reach, Route, RoutingInput, Rule
from gateway.routing.skills import choose
from gateway.routing.table import Table

WORDS = ["translate", "Translate", "sum", "code"]
HERE = ("skills", SKILL)


@dataclass
class Card:
    """The parts of a card that a directory reads."""

    sanitized: SanitizedCard | None
    version: int = 1
    stale: bool = False
    personal: bool = False
    error: str | None = None
    is_settled: bool = True


@dataclass(frozen=True)
class Made:
    """One agent of an example."""

    ids: frozenset[str]
    tags: frozenset[str]
    trust: int
    hint: float | None
    measured: float | None
    is_up: bool
    is_reached: bool


def card(ids: Collection[str], tags: Collection[str] = ()) -> Card:
    skills = tuple({"id": one, "name": one, "description": "", "tags": sorted(tags)} for one in sorted(ids))
    if tags and not ids:
        skills = ({"id": "other", "name": "other", "description": "", "tags": sorted(tags)},)
    return Card(SanitizedCard(name="x", skills=skills))


def rules(name: str) -> AgentRules:
    own = Rule(name, None, HERE, frozenset({("skill", None)}), Place("gateway.yaml", 1))
    return AgentRules(name, (own,), {None: Route(name, name, f"http://{name}")}, Place("gateway.yaml", 1))


def table_of(names: Collection[str], reached: Collection[str]) -> tuple[Table, Endpoint]:
    table = Table.build([rules(name) for name in names], {"acme": Reach(frozenset(reached))})
    endpoint = table.locate("", HERE)
    assert endpoint is not None
    return table, endpoint


def best(directory: Directory, table: Table, endpoint: Endpoint, skill: str) -> RoutingInput:
    asked = RoutingInput((), "", None, Principal("acme", method="jwt"), skill)
    return choose(table, directory, endpoint, asked)


MADE = st.builds(
    Made,
    ids=st.frozensets(st.sampled_from(WORDS), max_size=2),
    tags=st.frozensets(st.sampled_from(WORDS), max_size=2),
    trust=st.integers(1, 5),
    hint=st.none() | st.sampled_from([0.0, 0.05, 1.0]),
    measured=st.none() | st.floats(0.0005, 30),
    is_up=st.booleans(),
    is_reached=st.booleans(),
)


@given(st.lists(MADE, max_size=8), st.sampled_from(WORDS))
def test_the_best_agent_is_the_first_by_match_trust_latency_and_name(made: list[Made], skill: str) -> None:
    agents = {f"a{number}": each for number, each in enumerate(made)}
    changes, now = Changes(), 1000.0
    listings = []
    for name, each in agents.items():
        first_byte = FirstByte(changes)
        if each.measured is not None:
            first_byte.note(each.measured, now)
        why = "" if each.is_up else "down"
        listings.append(
            AgentListing(name, name, card(each.ids, each.tags), first_byte, each.trust, each.hint, lambda why=why: why)  # type: ignore[misc]
        )
    table, endpoint = (
        table_of(agents, [name for name, each in agents.items() if each.is_reached]) if agents else (None, None)
    )
    if table is None or endpoint is None:
        return
    directory = Directory(table, listings, changes, lambda: now)

    def rank(name: str) -> tuple[bool, int, float, str]:
        each = agents[name]
        lower = (
            0.0
            if each.measured is None
            else max(s for s in (2.0**n for n in range(-12, 6)) if s <= max(each.measured, 0.001))
        )
        return skill not in each.ids, -each.trust, lower if each.hint is None else each.hint, name

    having = [n for n, each in agents.items() if each.is_reached and skill in each.ids | each.tags]
    up = [name for name in having if agents[name].is_up]
    found = best(directory, table, endpoint, skill)
    assert (found.best or {}).get(skill) == (min(up, key=rank) if up else None)
    assert found.unavailable == bool(having and not up)


def test_measured_latencies_count_in_steps_that_do_not_flap() -> None:
    changes = Changes()
    measured = FirstByte(changes)
    assert measured.seconds(0) is None
    measured.note(0.100, 1)
    assert measured.seconds(1) == 0.0625
    # Around the border of two steps nothing changes.
    for number in range(200):
        measured.note(0.120 if number % 2 else 0.135, 2 + number)
    assert measured.seconds(203) == 0.0625
    assert changes.ranks == 1
    for number in range(50):
        measured.note(0.5, 300 + number)
    assert measured.seconds(351) == 0.25
    assert measured.seconds(350 + KEPT) is None


def test_a_changed_card_changes_the_index_and_no_other_card_is_read() -> None:
    table, endpoint = table_of(["a", "b"], ["a", "b"])
    changes = Changes()
    cards = {"a": card(["translate"], ["old"]), "b": card(["translate"])}
    directory = Directory(table, [AgentListing(n, n, each, FirstByte(changes)) for n, each in cards.items()], changes)
    assert (best(directory, table, endpoint, "translate").best) == {"translate": "a"}
    cards["a"].sanitized, cards["a"].version = card(["sum"]).sanitized, 2
    changes.card()
    assert (best(directory, table, endpoint, "translate").best) == {"translate": "b"}
    assert (best(directory, table, endpoint, "old").best) == {}
    assert (best(directory, table, endpoint, "sum").best) == {"sum": "a"}
    cards["a"].stale = True
    assert best(directory, table, endpoint, "sum").unavailable


@pytest.mark.parametrize("reached", [1000, 5])
def test_a_look_up_among_a_thousand_agents_costs_what_it_costs_among_ten(reached: int) -> None:
    def seconds(count: int) -> float:
        names = [f"a{number:04}" for number in range(count)]
        table, endpoint = table_of(names, names[-reached:])
        changes = Changes()
        shared = [f"s{number}" for number in range(10)]
        listings = [
            AgentListing(n, n, card([*shared, *(f"{n}-{number}" for number in range(10))]), FirstByte(changes))
            for n in names
        ]
        directory = Directory(table, listings, changes)
        assert best(directory, table, endpoint, "s3").best == {"s3": names[-reached:][0]}
        spent = []
        for _ in range(20):
            begun = time.perf_counter()
            for _ in range(20):
                best(directory, table, endpoint, "s3")
                best(directory, table, endpoint, f"{names[-1]}-7")
                best(directory, table, endpoint, "unknown")
            spent.append(time.perf_counter() - begun)
        return min(spent)

    few, many = seconds(10), seconds(1000)
    assert many < 3 * few
