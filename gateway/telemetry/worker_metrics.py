"""The metrics of several worker processes as one: `/metrics` of any worker shows all of them.

Each worker writes its metrics to a file of its own once a second, and when it ends. Counters and histograms are added
up, and counts of workers that ended are kept, so that no counter goes back. At most the last second of a killed worker
is lost. Gauges are added up too, but for those that describe the whole gateway (`_COMBINE`).

prometheus-client can do this with memory-mapped values; they cost a request 70 µs more than those of `counters`.
"""

import asyncio
import fcntl
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

_EVERY = 1.0
"""Seconds between two writes."""
_PREFIX = "a2a_gateway_"
_COMBINE: Mapping[str, Callable[[float, float], float]] = {
    _PREFIX + "build_info": max,
    _PREFIX + "draining": max,
    _PREFIX + "card_age_seconds": max,
    _PREFIX + "config_last_reload_success_timestamp_seconds": max,
    _PREFIX + "config_last_reload_successful": min,
    _PREFIX + "backend_up": min,
    _PREFIX + "jwks_last_success_timestamp_seconds": min,
    "process_start_time_seconds": min,
    "process_max_fds": min,
    "python_info": max,
}
_EACH_AGENT = _PREFIX + "requests_in_flight"
"""A metric with a series for each agent of the configuration, called or not."""
_ENDED, _LOCK = "ended", "lock"

_Labels = tuple[tuple[str, str], ...]
_Metrics = dict[tuple[str, str, str], dict[tuple[str, _Labels], float]]
"""By name, type and help: the value of each series, by its name and labels."""


class WorkerMetrics:
    """The files of all workers.

    Args:
        folder: Nothing else is in it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writing = threading.Lock()

    def write(self, registry: CollectorRegistry) -> None:
        """Write the metrics of this process."""
        with self._writing:
            self._write(str(os.getpid()), _collected(registry))

    async def keep_writing(self, registry: CollectorRegistry) -> None:
        """Write them once a second until cancelled, and once more then."""
        try:
            while True:
                await asyncio.to_thread(self.write, registry)
                await asyncio.sleep(_EVERY)
        finally:
            with suppress(OSError):
                self.write(registry)

    def bury(self, pid: int) -> None:
        """Keep the counts of a worker that has ended.

        Raises:
            OSError: they are lost.
        """
        with self._locked(fcntl.LOCK_EX):
            counts = {metric: series for metric, series in self._read(str(pid)).items() if metric[1] != "gauge"}
            self._write(_ENDED, _merged([self._read(_ENDED), counts]))
            for left in (str(pid), f"{pid}.new"):
                (self._folder / left).unlink(missing_ok=True)

    def render(self, registry: CollectorRegistry) -> bytes:
        """Return the metrics of all workers in the text format; those of this one as they are now.

        They are written first: what one answer has shown, the next one has too, whichever worker gives it.
        """
        with self._writing:
            living = [_collected(registry)]
            with suppress(OSError):
                self._write(str(os.getpid()), living[0])
        with self._locked(fcntl.LOCK_SH):
            names = {path.name for path in self._folder.iterdir() if path.name.isdigit()} - {str(os.getpid())}
            living += [self._read(name) for name in sorted(names)]
            ended = self._read(_ENDED)
        return generate_latest(_Shown(_merged([*living, _of_known_agents(ended, living)])))

    def _read(self, name: str) -> _Metrics:
        try:
            return _decoder.decode((self._folder / name).read_bytes())
        except FileNotFoundError:
            return {}

    def _write(self, name: str, metrics: _Metrics) -> None:
        new = self._folder / f"{name}.new"
        new.write_bytes(msgspec.msgpack.encode(metrics))
        new.replace(self._folder / name)

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        """Keep counts from being read both from the file of a worker and among those that ended, or from neither."""
        with (self._folder / _LOCK).open("ab") as file:
            fcntl.flock(file, kind)
            yield


class _Shown(Collector):
    def __init__(self, metrics: _Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        for (name, kind, words), series in self._metrics.items():
            metric = Metric(name, words, kind)
            for (sample, labels), value in series.items():
                metric.add_sample(sample, dict(labels), value)
            yield metric


def _collected(registry: CollectorRegistry) -> _Metrics:
    return {
        (metric.name, metric.type, metric.documentation): {
            (sample.name, tuple(sample.labels.items())): sample.value for sample in metric.samples
        }
        for metric in registry.collect()
    }


def _merged(workers: Iterable[_Metrics]) -> _Metrics:
    merged: _Metrics = {}
    for metrics in workers:
        for metric, series in metrics.items():
            combine: Callable[[float, float], float] = _COMBINE.get(metric[0], operator.add)
            values = merged.setdefault(metric, {})
            for key, value in series.items():
                values[key] = combine(values[key], value) if key in values else value
    return merged


def _of_known_agents(ended: _Metrics, living: Iterable[_Metrics]) -> _Metrics:
    """Return the counts of ended workers without agents that no worker has any more (see `Metrics.sweep`)."""
    known: set[str | None] = {None}
    for metrics in living:
        for (name, _, _), series in metrics.items():
            if name == _EACH_AGENT:
                known |= {dict(labels)["agent"] for _, labels in series}
    return {
        metric: {key: value for key, value in series.items() if dict(key[1]).get("agent") in known}
        for metric, series in ended.items()
    }


_decoder = msgspec.msgpack.Decoder(_Metrics)
