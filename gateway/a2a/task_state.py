"""The states of tasks, in the spelling of every generation."""

STATES = (
    "unknown", "submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required",
)  # fmt: skip
"""The closed set of task states as 0.3, metrics and logs spell them, in the order of the schemas' numbers."""

HUB_STATES = (
    "TASK_STATE_UNSPECIFIED",
    *(f"TASK_STATE_{state.upper().replace('-', '_')}" for state in STATES[1:]),
)
"""The same in the spelling of 1.0."""

OLDER_STATES = {**dict(zip(STATES, HUB_STATES, strict=True)), "TASK_STATE_CANCELLED": "TASK_STATE_CANCELED"}
"""The state of `HUB_STATES` by every word of older generations."""

TERMINAL = frozenset({"completed", "canceled", "failed", "rejected"})
"""States that end a task (1.0 §4.1.3), as `STATES` spells them."""
INTERRUPTED = frozenset({"input-required", "auth-required"})
"""States in which a task waits for its client."""

_STATES = {
    **{state: state for state in STATES},
    **dict(zip(HUB_STATES, STATES, strict=True)),
    "TASK_STATE_UNKNOWN": "unknown",
    "TASK_STATE_CANCELLED": "canceled",
}
SPOKEN: dict[str | float, str] = {**dict(enumerate(STATES)), **dict(_STATES.items())}
"""The state of `STATES` by every word and by its number."""


def state_of(word: str) -> str:
    """Return the state of `STATES` that a word of any generation means."""
    return _STATES.get(word, "unknown")
