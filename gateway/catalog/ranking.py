"""The rank of agents that have a skill. Pure: no clock, no socket.

An exact skill id comes before a tag, then the operator's `trust`, then the latency, then the name. So the order is
total, and the same in every process with the same data.

The latency is what the operator writes, or else the measured first byte time of calls that send a message. A measured
time counts in steps of a factor of two: one that lies near the border of two steps does not change the order with every
call, since a step is left only when the mean is a quarter beyond its border.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

LEAST_TRUST, USUAL_TRUST, MOST_TRUST = 1, 3, 5

KEPT = 600.0
"""Seconds after which a measured latency no longer counts: an agent that was slow once gets another call."""
_SHARE = 0.2
"""Weight of the newest time in the mean."""
_BEYOND = 1.25
"""Factor by which the mean must be beyond the border of its step."""
_LEAST = 0.001
"""Seconds below which no times are told apart."""


@dataclass(slots=True, eq=False)
class Changes:
    """Counts the changes of the index of skills; the snapshots of one process share it.

    Attributes:
        cards: Changes of any card.
        ranks: Changes of the step of any measured latency.
    """

    cards: int = 0
    ranks: int = 0

    def card(self) -> None:
        """Count the change of a card."""
        self.cards += 1


class FirstByte:
    """The measured first byte time of one backend."""

    __slots__ = ("_changes", "_mean", "_noted", "_step")

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._mean = 0.0
        self._step: int | None = None
        self._noted = -math.inf

    def note(self, seconds: float, now: float) -> None:
        """Count one call.

        Args:
            seconds: From the end of the request to the first byte of the answer.
            now: Monotonic seconds.
        """
        seconds = max(seconds, _LEAST)
        if now - self._noted > KEPT:
            self._mean = seconds
            self._enter(_step_of(seconds))
        else:
            self._mean += _SHARE * (seconds - self._mean)
            lower = self._lower
            if not lower / _BEYOND <= self._mean < 2 * lower * _BEYOND:
                self._enter(_step_of(self._mean))
        self._noted = now

    def seconds(self, now: float) -> float | None:
        """Return the lower border of the current step; None if nothing was measured in the last ten minutes."""
        return None if now - self._noted > KEPT else self._lower

    @property
    def _lower(self) -> float:
        return 2.0 ** (self._step or 0)

    def _enter(self, step: int) -> None:
        self._changes.ranks += step != self._step
        self._step = step


def _step_of(seconds: float) -> int:
    return math.floor(math.log2(seconds))


class Score(NamedTuple):
    """The parts of a rank in the order in which they count; the smaller score is the better one.

    Attributes:
        by_tag: Whether the agent has the skill as a tag of another one, and not by its id.
        distrust: 5 minus the `trust` of the operator.
        latency: Seconds; 0 if nothing was measured, so that every agent is tried.
        name: The key of the backend.
        source: `hint`, `measured`, or `not measured`.
    """

    by_tag: bool
    distrust: int
    latency: float
    name: str
    source: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        *,
        by_tag: bool,
        trust: int = USUAL_TRUST,
        hint: float | None = None,
        measured: float | None = None,
    ) -> "Score":
        """Return the score of a backend.

        Args:
            trust: From 1 to 5.
            hint: The operator's latency in seconds, or None.
            measured: The measured one in seconds, or None; it counts where there is no hint.
        """
        source = "hint" if hint is not None else "not measured" if measured is None else "measured"
        latency = hint if hint is not None else measured or 0.0
        return cls(by_tag, MOST_TRUST - trust, latency, name, source)

    @property
    def trust(self) -> int:
        """The `trust` of the operator."""
        return MOST_TRUST - self.distrust

    def parts(self) -> dict[str, object]:
        """Return the parts by name, for programs."""
        return {
            "match": "tag" if self.by_tag else "id",
            "trust": self.trust,
            "latency_s": self.latency,
            "latency": self.source,
        }

    def __str__(self) -> str:
        latency = self.source if self.source == "not measured" else f"{1000 * self.latency:g} ms ({self.source})"
        return f"{'tag' if self.by_tag else 'skill id'}, trust {self.trust}, latency {latency}"
