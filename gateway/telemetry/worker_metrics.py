"""The metrics of several worker processes as one: `/metrics` of any worker shows all of them.

Each worker writes its metrics to a file of its own once a second, and when it ends. Counters and histograms are added
up, and counts of workers that ended are kept, so that no counter goes back. At most the last second of a killed worker
is lost. Gauges are added up too, except those that describe the whole gateway (`_COMBINE`). A bucket has the exemplar
of one worker.

prometheus-client can do this with memory-mapped values; they cost a request 70 µs more than those of `counters`.
"""

import asyncio
import fcntl
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Exemplar, Metric
from prometheus_client.registry import Collector

_EVERY = 1.0
"""Seconds between two writes."""
_PREFIX = "a2a_gateway_"
_COMBINE: Mapping[str, Callable[[float, float], float]] = {
    _PREFIX + "build_info": max,
    _PREFIX + "draining": max,
    _PREFIX + "card_age_seconds": max,
    _PREFIX + "config_info": max,
    _PREFIX + "credential_expiry_timestamp_seconds": min,
    # Each worker counts the store that all of them share.
    _PREFIX + "tasks_open": max,
    _PREFIX + "push_queue": max,
    _PREFIX + "push_oldest_seconds": max,
    # Calls are refused where one worker has used up its share.
    _PREFIX + "limit_usage_ratio": max,
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
_Exemplars = dict[tuple[str, _Labels], tuple[str, float]]
"""By the name and labels of a series: the trace id of its exemplar, and the value."""
Encode = Callable[[Collector], bytes]
"""Returns the metrics in one of the formats of Prometheus."""


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
            self._write(str(os.getpid()), *_collected(registry))

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
            metrics, _ = self._read(str(pid))
            counts = {metric: series for metric, series in metrics.items() if metric[1] != "gauge"}
            self._write(_ENDED, _merged([self._read(_ENDED)[0], counts]), {})
            for left in (str(pid), f"{pid}.new"):
                (self._folder / left).unlink(missing_ok=True)

    def render(self, registry: CollectorRegistry, encode: Encode) -> bytes:
        """Return the metrics of all workers; those of this one as they are now.

        They are written first, so that the next answer of any worker includes them.
        """
        with self._writing:
            living = [_collected(registry)]
            with suppress(OSError):
                self._write(str(os.getpid()), *living[0])
        with self._locked(fcntl.LOCK_SH):
            names = {path.name for path in self._folder.iterdir() if path.name.isdigit()} - {str(os.getpid())}
            living += [self._read(name) for name in sorted(names)]
            ended, _ = self._read(_ENDED)
        metrics = [each for each, _ in living]
        exemplars = {series: exemplar for _, each in living for series, exemplar in each.items()}
        return encode(_Shown(_merged([*metrics, _of_known_agents(ended, metrics)]), exemplars))

    def _read(self, name: str) -> tuple[_Metrics, _Exemplars]:
        try:
            return _decoder.decode((self._folder / name).read_bytes())
        except FileNotFoundError:
            return {}, {}

    def _write(self, name: str, metrics: _Metrics, exemplars: _Exemplars) -> None:
        new = self._folder / f"{name}.new"
        new.write_bytes(msgspec.msgpack.encode((metrics, exemplars)))
        new.replace(self._folder / name)

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        """Lock the files, so that the counts of an ending worker are read exactly once."""
        with (self._folder / _LOCK).open("ab") as file:
            fcntl.flock(file, kind)
            yield


@dataclass(frozen=True, slots=True)
class _Shown(Collector):
    metrics: _Metrics
    exemplars: _Exemplars

    def collect(self) -> Iterable[Metric]:
        for (name, kind, words), series in self.metrics.items():
            metric = Metric(name, words, kind)
            for (sample, labels), value in series.items():
                trace = self.exemplars.get((sample, labels))
                exemplar = None if trace is None else Exemplar({"trace_id": trace[0]}, trace[1])
                metric.add_sample(sample, dict(labels), value, exemplar=exemplar)
            yield metric


def _collected(registry: CollectorRegistry) -> tuple[_Metrics, _Exemplars]:
    metrics: _Metrics = {}
    exemplars: _Exemplars = {}
    for metric in registry.collect():
        series = metrics[metric.name, metric.type, metric.documentation] = {}
        for sample in metric.samples:
            key = (sample.name, tuple(sample.labels.items()))
            series[key] = sample.value
            if sample.exemplar is not None:
                exemplars[key] = (sample.exemplar.labels["trace_id"], sample.exemplar.value)
    return metrics, exemplars


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
    """Return the counts of ended workers without agents that no worker has any more (see `GatewayMetrics.sweep`)."""
    known: set[str | None] = {None}
    for metrics in living:
        for (name, _, _), series in metrics.items():
            if name == _EACH_AGENT:
                known |= {dict(labels)["agent"] for _, labels in series}
    return {
        metric: {key: value for key, value in series.items() if dict(key[1]).get("agent") in known}
        for metric, series in ended.items()
    }


_decoder = msgspec.msgpack.Decoder(tuple[_Metrics, _Exemplars])
