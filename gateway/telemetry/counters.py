"""Counters, gauges and histograms that are cheap per request, and are rendered by Prometheus's library.

The library's own children take a lock and several calls for each addition: 23 µs for the ten additions of one request,
which are 3 µs here. All additions here are made by the thread of the event loop; rendering, in another one, copies a
dictionary in one step of the interpreter.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

Labels = tuple[str, ...]
Gone = Callable[[Labels], bool]
"""Returns whether a series with these values is to be dropped."""


class Counter(Collector):
    """A counter, or a gauge, for each combination of its labels' values.

    Args:
        name: Whole name; that of a counter ends in `_total`.
        labels: Names of the labels; `add` and `set` take their values in this order.
    """

    def __init__(self, name: str, words: str, labels: Sequence[str] = ()) -> None:
        self._name = name
        self._words = words
        self._labels = tuple(labels)
        self._values: dict[Labels, float] = {}
        self._shares: dict[Labels, defaultdict[str, float]] = {}

    def share(self, values: Labels) -> defaultdict[str, float]:
        """Return the series of all labels but the last, by the value of that one, for hot paths.

        Ask once, keep it, and add to it.
        """
        return self._shares.setdefault(values, defaultdict(int))

    def add(self, values: Labels, amount: float = 1) -> None:
        """Count `amount` more."""
        self._values[values] = self._values.get(values, 0) + amount

    def set(self, values: Labels, amount: float) -> None:
        """Set a value."""
        self._values[values] = amount

    @property
    def labels(self) -> Labels:
        """Return the names of the labels."""
        return self._labels

    def drop(self, is_gone: Gone) -> None:
        """Drop these series; a `share` of them must not be used afterwards."""
        for values in [values for values in self._values if is_gone(values)]:
            del self._values[values]
        for last in [last for last in self._shares.get((), ()) if is_gone((last,))]:
            del self._shares[()][last]
        # Of the others the last label is one of a closed set.
        for values in [values for values in self._shares if values and is_gone((*values, ""))]:
            del self._shares[values]

    def collect(self) -> Iterable[Metric]:
        """Yield all series."""
        make = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        family = make(self._name, self._words, labels=self._labels)
        for values, amount in self._values.copy().items():
            family.add_metric(values, amount)
        for values, share in self._shares.copy().items():
            for last, amount in share.copy().items():
                family.add_metric((*values, last), amount)
        yield family


@dataclass(slots=True)
class HistogramSeries:
    """The buckets of one series of a histogram.

    Attributes:
        bounds: Upper bounds, ascending, without infinity.
        counts: Values in each bucket alone, the one beyond the last bound included.
        exemplars: By the place of the bucket: the trace id and the value of the last observation with a trace.
    """

    bounds: Sequence[float]
    counts: list[int]
    sum: float = 0.0
    exemplars: dict[int, tuple[str, float]] = field(default_factory=dict)

    def observe(self, value: float, trace_id: str | None = None) -> None:
        """Observe one value."""
        # A bound belongs to its bucket: `le` is "less than or equal".
        place = bisect_left(self.bounds, value)
        self.counts[place] += 1
        self.sum += value
        if trace_id is not None:
            self.exemplars[place] = (trace_id, value)


class Histogram(Collector):
    """A histogram for each combination of its labels' values.

    Args:
        bounds: Upper bounds of the buckets, ascending, without infinity.
    """

    def __init__(self, name: str, words: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name = name
        self._words = words
        self._labels = tuple(labels)
        self._bounds = tuple(float(bound) for bound in bounds)
        self._buckets: dict[Labels, HistogramSeries] = {}

    def of(self, values: Labels) -> HistogramSeries:
        """Return the series of these label values, to be kept by the caller."""
        buckets = self._buckets.get(values)
        if buckets is None:
            buckets = self._buckets[values] = HistogramSeries(self._bounds, [0] * (len(self._bounds) + 1))
        return buckets

    @property
    def labels(self) -> Labels:
        """Return the names of the labels."""
        return self._labels

    def drop(self, is_gone: Gone) -> None:
        """Drop series; as `Counter.drop`."""
        for values in [values for values in self._buckets if is_gone(values)]:
            del self._buckets[values]

    def collect(self) -> Iterable[Metric]:
        """Yield all series."""
        family = HistogramMetricFamily(self._name, self._words, labels=self._labels)
        names = [*map(str, self._bounds), "+Inf"]
        for values, buckets in self._buckets.copy().items():
            # A copy first: with concurrent additions the sum of the buckets would differ from the count.
            exemplars = {
                place: Exemplar({"trace_id": trace}, value)
                for place, (trace, value) in buckets.exemplars.copy().items()
            }
            total, cumulative = 0, list[tuple[str, float] | tuple[str, float, Exemplar]]()
            for place, (name, count) in enumerate(zip(names, buckets.counts.copy(), strict=True)):
                total += count
                exemplar = exemplars.get(place)
                cumulative.append((name, float(total)) if exemplar is None else (name, float(total), exemplar))
            family.add_metric(values, cumulative, buckets.sum)
        yield family
