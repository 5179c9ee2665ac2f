"""The states of tasks, and how the generations spell them."""

STATES = (
    "submitted", "working", "input-required", "auth-required", "completed", "canceled", "failed", "rejected", "unknown",
)  # fmt: skip
"""The closed set of task states, as metrics and logs spell them."""

_STATES = {f"TASK_STATE_{state.upper().replace('-', '_')}": state for state in STATES} | {
    state: state for state in STATES
}
_STATES["TASK_STATE_CANCELLED"] = "canceled"
_STATES["TASK_STATE_UNSPECIFIED"] = "unknown"
# The numbers that the schemas of 0.3 and 1.0 give them.
_BY_NUMBER = (
    "unknown", "submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required",
)  # fmt: skip
SPOKEN: dict[str | float, str] = {**dict(enumerate(_BY_NUMBER)), **dict(_STATES.items())}
"""The state of `STATES` by every word, and by the number, that a generation has for it."""


def state_of(word: str) -> str:
    """The state of `STATES` that a word of any generation means."""
    return _STATES.get(word, "unknown")
