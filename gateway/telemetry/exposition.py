"""Prometheus's text format, written by its library, by a thread that gives way to the loop (`pacing`)."""

from collections.abc import Iterable

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gateway.pacing import unhurried


def text_of(collector: Collector) -> bytes:
    """All that it collects. With a thousand agents there are some ten thousand lines, 10 µs each."""
    return generate_latest(_Unhurried(collector))


class _Unhurried(Collector):
    def __init__(self, whole: Collector) -> None:
        self._whole = whole

    def collect(self) -> Iterable[Metric]:
        for family in self._whole.collect():
            family.samples = unhurried(family.samples)  # type: ignore[assignment]  # they are gone through once
            yield family
