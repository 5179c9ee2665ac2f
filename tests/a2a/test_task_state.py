"""States of tasks, as each generation spells them."""

from gateway.a2a.task_state import SPOKEN


def test_each_number_of_the_schemas_is_a_state() -> None:
    assert [SPOKEN[number] for number in (0, 1, 2, 3, 8)] == [
        "unknown", "submitted", "working", "completed", "auth-required",
    ]  # fmt: skip
