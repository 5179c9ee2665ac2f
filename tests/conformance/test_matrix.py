"""A small part of the matrix: the two generations of a2a-sdk, each the other's client, over every binding.

Where gRPC is on one side or both, it is also the client of its own generation. Beside them stands a client that mixes
the two: it is told what a client of 1.0 is told. `tests/conformance/run` is the whole of
it. Here the client of 1.3 and its agent come from the environment of the tests, and those of 0.3 from the one that the
other tests of 0.3 use.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.comparing import Outcome, judge
from tests.conformance.matrix import DIRECT, Wanted, serving, where
from tests.conformance.report import difference
from tests.conformance.running import Told, ask_each, in_normal_form
from tests.conformance.software import (
    CLIENTS,
    EVERY_AGENT,
    GRPC,
    SDK_0_3,
    SDK_1_3,
    Environment,
    Software,
)

HERE = Environment("", "a2a-sdk")


def chosen(all_of_them: tuple[Software, ...], version: str, environment: Environment) -> tuple[Software, ...]:
    """Every binding of an SDK that speaks its own generation."""
    return tuple(each for each in all_of_them if each.version == version and each.environment == environment)


def local(software: Software) -> Software:
    """The same, run by the interpreter of the tests where that has it."""
    return replace(software, environment=HERE) if software.environment == SDK_1_3 else software


NEW_AGENTS, OLD_AGENTS = chosen(EVERY_AGENT, "1.0", SDK_1_3), chosen(EVERY_AGENT, "0.3", SDK_0_3)
NEW_CLIENTS, OLD_CLIENTS = chosen(CLIENTS, "1.0", SDK_1_3), chosen(CLIENTS, "0.3", SDK_0_3)
ACROSS = (*product(OLD_AGENTS, NEW_CLIENTS), *product(NEW_AGENTS, OLD_CLIENTS))
WITHIN = (*product(NEW_AGENTS, NEW_CLIENTS), *product(OLD_AGENTS, OLD_CLIENTS))
MIXED = tuple(product((*NEW_AGENTS, *OLD_AGENTS), (each for each in CLIENTS if each.like)))
EACH = 5
"""The check takes every fifth pair; the long run, and `tests/conformance/run`, take all of them."""
PAIRS = [
    pytest.param(agent, client, id=f"{client.key} to {agent.key}", marks=[pytest.mark.long] if number % EACH else [])
    for number, (agent, client) in enumerate(
        (*ACROSS, *(pair for pair in WITHIN if GRPC in {each.binding for each in pair}), *MIXED)
    )
]

# This server ends a subscription before or behind its last event, as it happens: with and without the gateway.
RACES = {("py-0.3 grpc", "subscribe")}

pytestmark = pytest.mark.skipif(bool(SDK_0_3.missing), reason=SDK_0_3.missing)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    agents = tuple(map(local, (*NEW_AGENTS, *OLD_AGENTS)))
    with serving(Wanted(agents, (), (), None)) as url:
        yield url


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, gateway: str) -> Iterator[Callable[[Software, Software], Told]]:
    """Return a function that gives a client's results with an agent; one process asks all agents of a generation ahead.

    Agents of two kinds are asked at a time, and none by two clients.
    """
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    pairs: list[dict[str, Any]] = [
        item.callspec.params for item in items if item.path == request.path and "told" in item.fixturenames
    ]

    def asked(client: Software, agents: list[Software]) -> dict[Software, Told]:
        told = ask_each(local(client), [where(gateway, agent, client) for agent in agents])
        return dict(zip(agents, told, strict=True))

    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        answers: dict[tuple[Software, Software], Future[dict[Software, Told]]] = {}
        for thread, generation in ((first, NEW_AGENTS), (second, OLD_AGENTS)):
            for client in dict.fromkeys(pair["client"] for pair in pairs):
                agents = [pair["agent"] for pair in pairs if pair["client"] == client and pair["agent"] in generation]
                if agents:
                    answer = thread.submit(asked, client, agents)
                    answers |= {(agent, client): answer for agent in agents}
        yield lambda agent, client: answers[agent, client].result()[agent]
        for answer in answers.values():
            answer.cancel()


def test_there_are_pairs_both_ways_and_within_a_generation() -> None:
    assert len(PAIRS) == 18 + 10 + 6


@pytest.mark.parametrize(("agent", "client"), PAIRS)
def test_a_client_of_another_dialect_is_told_what_those_of_the_agents_own_are(
    told: Callable[[Software, Software], Told], agent: Software, client: Software
) -> None:
    verdicts = judge(agent, client, in_normal_form(told(agent, client)), json.loads(DIRECT.read_text()))
    assert len(verdicts) > 30
    assert [
        (verdict.operation, *difference(verdict.got, verdict.wanted))
        for verdict in verdicts
        if verdict.outcome is Outcome.DIFFERS and (agent.key, verdict.operation) not in RACES
    ] == []


def test_results_of_direct_runs_name_no_address_and_no_task(tmp_path: Path) -> None:
    text = DIRECT.read_text()
    assert "127.0.0.1" not in text
    assert "timestamp" not in text
