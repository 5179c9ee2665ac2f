"""Plans of loads and their outcomes: values that cross the border between two processes.

A plan has a *window*, which is what is measured. Load begins `lead` seconds before it, so that connections are open,
buckets are empty and queues are full when it opens; calls that are due within it count, and no others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ANSWERED = "answered"
"""The outcome of a call that was answered as it should be."""
BROKEN = "broken"
"""The connection ended, or never began."""
OTHER = "other"
"""An answer that nobody expects; others have the word by which the gateway refuses, such as `rate_limited`."""


@dataclass(frozen=True, slots=True)
class Source:
    """One who calls, in one of three ways.

    Attributes:
        name: For the outcome.
        headers: Of each call.
        bodies: Of the calls, in turns.
        good: Stands in every good answer and in no other.
        pace: So many calls a second, whether those before are answered or not.
        lines: So many calls at a time; who is answered calls again.
        rest: Seconds until a line calls again, on the average.
        deaf: So many streams at a time, of which nothing is read.
        forged: A token of which each call shows another version, with a key id that was never seen.
        addresses: Of the loopback interface, from which it calls in turns; 0 for the usual one.
    """

    name: str
    url: str
    headers: Mapping[str, str]
    bodies: Sequence[str]
    good: str
    pace: float = 0.0
    lines: int = 0
    rest: float = 0.0
    deaf: int = 0
    forged: str = ""
    addresses: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one load.

    Attributes:
        opens: When the window does, in monotonic seconds, which all processes of a machine count alike.
        lead: Seconds before that at which load begins.
        seconds: Of the window.
        patience: Seconds after its end for which answers are waited for.
    """

    sources: Sequence[Source]
    opens: float
    lead: float
    seconds: float
    patience: float

    @property
    def closes(self) -> float:
        """Return the end of the window."""
        return self.opens + self.seconds


@dataclass(slots=True)
class Outcome:
    """The outcome of one source: of its calls that were due in the window.

    Attributes:
        begun: The number of calls.
        told: Seconds that each took, by what became of it.
        late: Seconds by which each began after it was due, of those with a pace.
        under_way: Calls without an answer at the end, those of before the window among them.
    """

    name: str
    begun: int = 0
    told: dict[str, list[float]] = field(default_factory=dict)
    late: list[float] = field(default_factory=list)
    under_way: int = 0

    @property
    def answered(self) -> Sequence[float]:
        """Seconds that each good answer took."""
        return self.told.get(ANSWERED, ())

    @property
    def lost(self) -> int:
        """Calls without a good answer."""
        return self.begun - len(self.answered)

    @property
    def unanswered(self) -> int:
        """Calls without any."""
        return self.begun - sum(len(times) for times in self.told.values())

    def count(self, told: str) -> int:
        """Calls of which this became."""
        return len(self.told.get(told, ()))


def quantile(values: Sequence[float], part: float) -> float:
    """The least of them that so large a part of them does not exceed; 0 of none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(len(values) * part) - 1)]
