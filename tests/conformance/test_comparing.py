"""Results that count as a difference, and results that do not."""

import pytest

from tests.conformance.comparing import Outcome, judge, name_of
from tests.conformance.normal import Tree
from tests.conformance.report import difference, report
from tests.conformance.running import Told
from tests.conformance.software import CLIENTS, EVERY_AGENT, Software

CARD: Tree = {"events": [{"card": {"streaming": True, "push": True}}]}
GOOD: Tree = {"events": [{"task": {"state": "completed"}}], "tasks": 1, "contexts": 1}
BAD: Tree = {"events": [{"task": {"state": "failed"}}], "tasks": 1, "contexts": 1}


def agent(key: str) -> Software:
    return next(each for each in EVERY_AGENT if each.key == key)


def client(key: str) -> Software:
    return next(each for each in CLIENTS if each.key == key)


NEW, OLD = agent("py-1.3 rpc"), agent("py-0.3 rpc")
NEW_CLIENT, OLD_CLIENT = client("py-1.3 rpc"), client("py-0.3 rpc")


def direct(told: Told) -> dict[str, Told]:
    """Both generations came to the same with their own."""
    return {
        name_of(NEW, NEW_CLIENT): {"card": CARD, **told},
        name_of(OLD, OLD_CLIENT): {"card": CARD, **told},
    }


def outcome(of: Software, by: Software, operation: str, got: Tree, measure: dict[str, Told]) -> Outcome:
    [verdict] = judge(of, by, {operation: got}, measure)
    return verdict.outcome


def test_results_of_either_generation_are_right() -> None:
    assert outcome(OLD, NEW_CLIENT, "send_task", GOOD, direct({"send_task": GOOD})) is Outcome.OK


@pytest.mark.parametrize("got", [BAD, {"error": "Internal"}, {**GOOD, "tasks": 2}])
def test_anything_else_differs(got: Tree) -> None:
    assert outcome(OLD, NEW_CLIENT, "send_task", got, direct({"send_task": GOOD})) is Outcome.DIFFERS


def test_a_pair_of_one_dialect_gets_its_direct_result() -> None:
    assert outcome(NEW, NEW_CLIENT, "send_task", BAD, direct({"send_task": BAD})) is Outcome.OK
    assert outcome(NEW, NEW_CLIENT, "send_task", GOOD, direct({"send_task": BAD})) is Outcome.DIFFERS


def test_failures_of_direct_runs_do_not_count() -> None:
    fails = direct({"send_task": {"error": "the SDK's own TypeError"}})
    assert outcome(OLD, NEW_CLIENT, "send_task", {"error": "Internal"}, fails) is Outcome.FAILS_DIRECTLY


def test_operations_that_the_agents_generation_lacks_get_the_right_error() -> None:
    measure = direct({})
    measure[name_of(NEW, NEW_CLIENT)]["list_tasks"] = GOOD
    assert outcome(OLD, NEW_CLIENT, "list_tasks", {"error": "UnsupportedOperation"}, measure) is Outcome.IMPOSSIBLE
    assert outcome(OLD, NEW_CLIENT, "list_tasks", {"error": "VersionNotSupported"}, measure) is not Outcome.IMPOSSIBLE
    assert outcome(OLD, NEW_CLIENT, "send_task", {"error": "UnsupportedOperation"}, direct({"send_task": GOOD})) is (
        Outcome.DIFFERS
    )


def test_an_error_must_be_the_same_one() -> None:
    measure = direct({"error_get_unknown": {"error": "TaskNotFound"}})
    assert outcome(OLD, NEW_CLIENT, "error_get_unknown", {"error": "TaskNotFound"}, measure) is Outcome.OK
    assert outcome(OLD, NEW_CLIENT, "error_get_unknown", {"error": "Internal"}, measure) is Outcome.DIFFERS
    assert outcome(OLD, NEW_CLIENT, "error_get_unknown", GOOD, measure) is Outcome.DIFFERS


def test_a_client_of_1_0_must_be_told_which_error_it_is_over_grpc_too() -> None:
    told: Told = {"error_get_unknown": {"error": "TaskNotFound"}}
    new, old = client("py-1.3 grpc"), client("js-0.3 grpc")
    measure = direct(told)
    for of, by in ((agent("py-1.3 grpc"), new), (agent("js-0.3 grpc"), old)):
        measure[name_of(of, by)] = {"card": CARD, **told}
    bare: Tree = {"error": "gRPC NOT_FOUND"}
    assert outcome(OLD, new, "error_get_unknown", bare, measure) is Outcome.DIFFERS
    assert outcome(NEW, old, "error_get_unknown", bare, measure) is Outcome.OK


def test_a_difference_is_told_by_its_first_place() -> None:
    assert difference(BAD, GOOD) == ("events[0].task.state: failed", "completed")
    assert difference({"error": "Internal"}, GOOD) == ("Internal", "an answer")


def test_the_report_tells_each_difference_and_its_pair() -> None:
    told: Told = {"card": CARD, "send_task": BAD}
    page = report({(OLD.key, NEW_CLIENT.key): judge(OLD, NEW_CLIENT, told, direct({"send_task": GOOD}))})
    assert "| send_task | events[0].task.state: failed | completed | py-0.3 rpc < py-1.3 rpc |" in page
    assert "| **py-0.3 rpc** | 1 | not run |" in page


def test_a_task_that_is_said_first_for_an_old_agent_is_no_difference_but_nothing_else_may_be_amiss() -> None:
    written: Tree = {"artifact": {"name": "a", "parts": []}}
    first: Tree = {"task": {"state": "working"}}
    measure = direct({"subscribe": {"events": [written]}})
    assert outcome(OLD, NEW_CLIENT, "subscribe", {"events": [first, written]}, measure) is Outcome.OK
    assert outcome(OLD, NEW_CLIENT, "subscribe", {"events": [first, first, written]}, measure) is Outcome.DIFFERS
    assert outcome(OLD, NEW_CLIENT, "subscribe", {"events": [first]}, measure) is Outcome.DIFFERS
    assert outcome(NEW, OLD_CLIENT, "subscribe", {"events": [first, written]}, measure) is Outcome.DIFFERS
