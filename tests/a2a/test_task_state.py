"""States of tasks, as each generation spells them."""

from gateway.a2a.task_state import SPOKEN, STATES, state_of
from tests.table import for_each


@for_each("state", STATES)
def test_each_state_is_meant_by_its_word_of_each_generation(state: str) -> None:
    assert state_of(state) == state
    if state != "unknown":
        assert state_of("TASK_STATE_" + state.upper().replace("-", "_")) == state


def test_a_word_that_is_none_is_unknown() -> None:
    assert state_of("on holiday") == state_of("TASK_STATE_UNSPECIFIED") == "unknown"
    assert state_of("TASK_STATE_CANCELLED") == "canceled"


def test_each_number_of_the_schemas_is_a_state() -> None:
    assert [SPOKEN[number] for number in (0, 1, 2, 3, 8)] == [
        "unknown", "submitted", "working", "completed", "auth-required",
    ]  # fmt: skip
