"""Measurement of scenarios: the steady tenant alone, then beside another one, in rounds.

Its calls come at a fixed pace, so none waits for the one before; what is compared are the medians of the rounds.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Self

from benchmarks.edge.contestant import ROOT
from benchmarks.fairness import agent
from benchmarks.fairness.load import Load, loading
from benchmarks.fairness.plan import Outcome, Plan, Source, quantile
from benchmarks.fairness.site import STEADY, Site, running

_NOTICE = 0.3
"""Seconds between a plan and its first call, in which processes read it."""
_PATIENCE = 10.0
_SETTLE = 1.0
_OFFERED = 0.9


@dataclass(frozen=True, slots=True)
class Size:
    """The number and length of rounds, and the rates.

    Attributes:
        seconds: Of one window.
        pace: Calls a second of the steady tenant.
        lead: Seconds for which load runs before a window opens.
    """

    seconds: float
    rounds: int
    pace: float = 100.0
    lead: float = 1.5


@dataclass(frozen=True, slots=True)
class Window:
    """The steady tenant in one window.

    Attributes:
        p50: Seconds within which half of its calls were answered.
        p99: The same for 99 of 100.
        late: Seconds by which 99 of 100 calls at most began after they were due, for want of a processor.
        busy: Part of one processor that the gateway used, its lead included.
        lag: Seconds by which the gateway's event loop was late 99 of 100 times at most, as its metrics have it.
    """

    begun: int
    answered: int
    p50: float
    p99: float
    late: float
    busy: float = 0.0
    lag: float = 0.0

    @classmethod
    def of(cls, outcome: Outcome, busy: float, lag: float) -> Self:
        """The figures of its calls, and of the gateway meanwhile."""
        times = outcome.answered
        late = quantile(outcome.late, 0.99)
        return cls(outcome.begun, len(times), quantile(times, 0.5), quantile(times, 0.99), late, busy, lag)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold: what is asked, and what was seen, in words."""

    what: str
    bound: str
    found: str
    holds: bool


@dataclass(slots=True)
class Row:
    """The result of one scenario.

    Attributes:
        does: The work of the other tenant, or of the others.
        alone: The windows of the steady tenant; none where it takes no part.
        others: Outcomes of the others' calls, window after window.
    """

    name: str
    does: str
    alone: list[Window] = field(default_factory=list)
    beside: list[Window] = field(default_factory=list)
    others: list[Outcome] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether all does that must."""
        return all(check.holds for check in self.checks)

    @property
    def lost(self) -> int:
        """Calls of the steady tenant that were not answered beside another one."""
        return sum(window.begun - window.answered for window in self.beside)

    @property
    def throughput(self) -> float:
        """Return the calls answered beside another tenant, as a share of those answered alone."""
        return sum(window.answered for window in self.beside) / max(1, sum(window.answered for window in self.alone))

    @property
    def begun(self) -> int:
        """Calls of the others."""
        return sum(outcome.begun for outcome in self.others)

    def count(self, told: str) -> int:
        """Calls of the others of which this became."""
        return sum(outcome.count(told) for outcome in self.others)

    def must(self, what: str, bound: str, found: str, *, holds: bool) -> None:
        """Write down what must hold, and whether it does."""
        self.checks.append(Check(what, bound, found, holds))

    def must_be_offered(self, size: "Size", pace: float) -> None:
        """The others did call so often a second; of less load the rest of the row would say nothing."""
        part = self.begun / (pace * size.seconds * size.rounds)
        self.must("load that was offered", "≥ 90 % of it", f"{part:.0%}", holds=part >= _OFFERED)

    def must_not_suffer(self, *, factor: float = 0.0, more: float = 0.0) -> None:
        """The steady tenant loses nothing, and waits so many times as long at most, or so many seconds longer."""
        alone, beside = typical(self.alone), typical(self.beside)
        most = max(factor * alone, alone + more if more else 0.0)
        words = " or ".join(
            filter(None, (f"{factor:g} x alone" if factor else "", f"{more * 1000:g} ms more" if more else ""))
        )
        self.must("p99", f"≤ {words}", f"{beside * 1000:.1f} ms of {most * 1000:.1f} ms", holds=beside <= most)
        self.must("lost", "0", str(self.lost), holds=self.lost == 0)


def typical(windows: Sequence[Window]) -> float:
    """The median of their p99; 0 of none."""
    return median(window.p99 for window in windows) if windows else 0.0


@dataclass(frozen=True, slots=True)
class Bench:
    """A site, and two processes for load: one for the steady tenant, one for the others."""

    site: Site
    steady: Load
    others: Load
    size: Size

    def source(self, tenant: str, name: str = "shared", **how: Any) -> Source:  # noqa: ANN401 - as they are declared
        """A tenant's calls of an agent: short sends, unless it is said otherwise.

        Args:
            how: Attributes of the source.
        """
        url, headers = f"{self.site.url}/{name}", self.site.headers(tenant)
        return replace(Source(tenant, url, headers, [agent.send().decode()], agent.ANSWERED), **how)

    def compare(
        self,
        row: Row,
        *sources: Source,
        lead: float = 0.0,
        meanwhile: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Measure the steady tenant alone and beside others, in all rounds.

        Args:
            lead: Seconds for which the others call before the window opens, where that is longer than usual.
            meanwhile: Other work while they call.
        """
        for _ in range(self.size.rounds):
            row.alone.append(self._window())
            with meanwhile():
                row.beside.append(self._window(row, sources, lead))
            # The others' connections are closed by then.
            time.sleep(_SETTLE)

    def crowd(self, row: Row, *sources: Source) -> None:
        """Have the others call, and nobody else, in all rounds."""
        for _ in range(self.size.rounds):
            lead = self.size.lead
            self.others.begin(Plan(sources, time.monotonic() + _NOTICE + lead, lead, self.size.seconds, _PATIENCE))
            row.others += self.others.end()
            time.sleep(_SETTLE)

    def _window(self, row: Row | None = None, sources: Sequence[Source] = (), lead: float = 0.0) -> Window:
        """The steady tenant in one window, beside others where there is a row for them."""
        site, size = self.site, self.size
        lead = max(size.lead, lead)
        lags, used, began = site.lags(), site.gateway.cpu(), time.monotonic()
        opens = began + _NOTICE + lead
        if row is not None:
            self.others.begin(Plan(sources, opens, lead, size.seconds, 0.0))
        self.steady.begin(Plan([self.source(STEADY, pace=size.pace)], opens, size.lead, size.seconds, _PATIENCE))
        [outcome] = self.steady.end()
        busy = (site.gateway.cpu() - used) / (time.monotonic() - began)
        if row is not None:
            row.others += self.others.end()
        return Window.of(outcome, busy, _bound(lags, site.lags()))


@contextmanager
def bench(folder: Path, size: Size) -> Iterator[Bench]:
    """Start all that scenarios need; it is over at the end of the block."""
    with running(folder) as site, loading(ROOT) as steady, loading(ROOT) as others:
        yield Bench(site, steady, others, size)


def _bound(before: Mapping[float, float], after: Mapping[float, float]) -> float:
    """The least bound of a distribution that 99 of 100 do not exceed of what was counted meanwhile."""
    counted = {bound: number - before.get(bound, 0.0) for bound, number in sorted(after.items())}
    whole = max(counted.values(), default=0.0)
    return next((bound for bound, number in counted.items() if number >= 0.99 * whole), math.inf)
