"""The metrics of several processes that are one gateway: each puts its own up, and whoever is asked reads them all.

Each process writes what it counts to a file of its own, once a second and when it ends; of itself it knows better. What
a process had counted that is gone is kept, so no counter ever goes back: at most the last second of one that was killed
is lost. Counters and histograms are added up; gauges too, but for those that say of the whole what one process knows
of it (`_MOST`, `_LEAST`).
"""

import asyncio
import fcntl
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

EVERY = 1.0
"""Seconds between two writings."""

_MOST = frozenset({"build_info", "draining", "card_age_seconds", "config_last_reload_success_timestamp_seconds"})
_LEAST = frozenset({"backend_up", "config_last_reload_successful", "jwks_last_success_timestamp_seconds"})
_PREFIX = "a2a_gateway_"
_EACH_AGENT = _PREFIX + "requests_in_flight"
"""It has a series for each agent, whether it was ever called or not."""
_GONE = "gone"
_NEW = ".new"


class _Family(msgspec.Struct):
    """One metric with its series."""

    name: str
    type: str
    help: str
    series: list[tuple[str, dict[str, str], float]]


class Board:
    """Where the processes of one gateway put up what they count.

    Args:
        folder: Theirs alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = folder / "lock"
        self._numbers = count(1)
        self._posted = 0
        self._posting = threading.Lock()

    def post(self, registry: CollectorRegistry) -> None:
        """Put up what this process has counted, unless somebody began later and has done so already."""
        number, families = next(self._numbers), _families(registry.collect())
        with self._posting:
            if number > self._posted:
                self._posted = number
                self._write(str(os.getpid()), families)

    async def keep_posting(self, registry: CollectorRegistry) -> None:
        """Put it up again and again, and once more at the end."""
        try:
            while True:
                await asyncio.to_thread(self.post, registry)
                await asyncio.sleep(EVERY)
        finally:
            # Of the last second; whoever cannot write it ends all the same.
            with suppress(OSError):
                self.post(registry)

    def bury(self, pid: int) -> None:
        """Keep what a process has counted that is gone."""
        with self._locked(fcntl.LOCK_EX):
            last = self._read(str(pid))
            counts = [family for family in last if family.type != "gauge"]
            self._write(_GONE, _sum([self._read(_GONE), counts]))
            (self._folder / str(pid)).unlink(missing_ok=True)
            for unfinished in self._folder.glob(f"{pid}.*{_NEW}"):
                unfinished.unlink(missing_ok=True)

    def render(self, registry: CollectorRegistry) -> bytes:
        """What all of them have counted, in the text format; of this process as it is now."""
        own = _families(registry.collect())
        with self._locked(fcntl.LOCK_SH):
            names = {path.name for path in self._folder.iterdir()} - {self._lock.name, str(os.getpid())}
            others = [self._read(name) for name in sorted(names - {_GONE}) if not name.endswith(_NEW)]
            gone = self._read(_GONE)
        together = CollectorRegistry()
        together.register(_Told(_sum([own, *others, _left(gone, [own, *others])])))
        return generate_latest(together)

    def _read(self, name: str) -> list[_Family]:
        try:
            return _decoder.decode((self._folder / name).read_bytes())
        except FileNotFoundError:
            return []

    def _write(self, name: str, families: list[_Family]) -> None:
        # A name for each writing: who was killed in the middle of one has left its own.
        number, new = tempfile.mkstemp(suffix=_NEW, prefix=f"{name}.", dir=self._folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(msgspec.msgpack.encode(families))
            Path(new).replace(self._folder / name)
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        # Opened each time: what a fork has inherited is the lock of both.
        with self._lock.open("ab") as file:
            fcntl.flock(file, kind)
            yield

    def close(self) -> None:
        """Take it down."""
        for path in self._folder.iterdir():
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self._folder.rmdir()


class _Told(Collector):
    def __init__(self, families: list[_Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        for family in self._families:
            metric = Metric(family.name, family.help, family.type)
            for name, labels, value in family.series:
                metric.add_sample(name, labels, value)
            yield metric


def _families(metrics: Iterable[Metric]) -> list[_Family]:
    return [
        _Family(
            metric.name,
            metric.type,
            metric.documentation,
            [(sample.name, dict(sample.labels), sample.value) for sample in metric.samples],
        )
        for metric in metrics
    ]


def _left(gone: list[_Family], boards: Iterable[list[_Family]]) -> list[_Family]:
    """What those have counted that are gone, but for agents that are in nobody's file any more (`Metrics.sweep`)."""
    agents = {
        labels["agent"]
        for families in boards
        for family in families
        if family.name == _EACH_AGENT
        for _, labels, _ in family.series
    }
    if not agents:
        return gone
    return [
        _Family(
            family.name,
            family.type,
            family.help,
            [each for each in family.series if "agent" not in each[1] or each[1]["agent"] in agents],
        )
        for family in gone
    ]


def _sum(boards: Iterable[list[_Family]]) -> list[_Family]:
    """All of them as one: series by series."""
    found: dict[str, _Family] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for families in boards:
        for family in families:
            found.setdefault(family.name, family)
            series = values.setdefault(family.name, {})
            bare = family.name.removeprefix(_PREFIX)
            for name, labels, value in family.series:
                key = (name, tuple(labels.items()))
                before = series.get(key)
                if before is None:
                    series[key] = value
                elif bare in _MOST:
                    series[key] = max(before, value)
                elif bare in _LEAST:
                    series[key] = min(before, value)
                else:
                    series[key] = before + value
    return [
        _Family(name, family.type, family.help, [(key[0], dict(key[1]), value) for key, value in values[name].items()])
        for name, family in found.items()
    ]


_decoder = msgspec.msgpack.Decoder(list[_Family])
