"""The names of a task between a client and an agent, one of them of 0.1."""

from typing import Any

from gateway.a2a.naming import Alias, Naming
from tests.table import for_each

Decision = list[tuple[str, Alias]]


def naming(alias: Alias | None = None, *, newer: bool = False) -> tuple[Naming, Decision]:
    met: Decision = []
    return Naming(alias, lambda name, found: met.append((name, found)), newer=newer), met


def task(name: str, state: str = "WORKING", **more: Any) -> dict[str, Any]:
    return {"task": {"id": name, "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}, **more}}


def test_tasks_of_later_generations_keep_the_agents_name() -> None:
    names, met = naming(newer=True)
    message = {"taskId": "t-0", "contextId": "c"}
    names.for_send(message)
    assert message == {"taskId": "t-0", "contextId": "c"}
    names.localise(task("t-1"))
    assert met == [("t-1", Alias("t-1", "c", newer=True))]
    params = {"id": "t-1"}
    naming(Alias("t-1", newer=True))[0].for_task(params, "id")
    assert params == {"id": "t-1"}


def test_an_agents_id_that_is_too_long_is_not_remembered() -> None:
    names, met = naming()
    names.for_send({"taskId": "mine"})
    names.localise(task("x" * 513))
    assert met == []


@for_each("odd", [{"task": 7}, {"task": {"id": 7, "contextId": []}}, {"x": None}, {"task": {"id": ""}}])
def test_malformed_names_are_left_unchanged(odd: dict[str, Any]) -> None:
    names, met = naming()
    names.for_send({"taskId": "mine", "contextId": "s"})
    before = repr(odd)
    names.localise(odd)
    assert (repr(odd), met) == (before, [])
