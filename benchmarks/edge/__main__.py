"""The whole gateway beside its peers: CPU per call and per event, memory per idle stream, a call in a crowd.

    python -m benchmarks.edge [--quick] [--only NAME]... [--before DIR] [--write]

Loopback only; bounded in time and count; every process that is started is stopped, all files are temporary.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.edge import envoy
from benchmarks.edge.contestant import PROXIES, ROOT, Field, absent
from benchmarks.edge.load import LoadFailed
from benchmarks.edge.measure import idle, per_call, per_event
from benchmarks.edge.process import NotStarted, open_files
from benchmarks.edge.report import Results, tables, write
from benchmarks.edge.workload import Workload

SECTIONS = ("calls", "events", "idle")
_SPARE_FILES = 500


@dataclass(frozen=True, slots=True)
class Size:
    """The number of rounds, calls, events and streams.

    Attributes:
        seconds: Of one round of calls; whole ones.
        events: Of one stream.
        every: Seconds between two of them.
        rested: Connections that rest beside idle streams.
    """

    connections: tuple[int, ...]
    rounds: int
    seconds: int
    streams: int
    events: int
    every: float
    event_rounds: int
    idle: int
    rested: int


FULL = Size((1, 32), 5, 2, 20, 1_000, 0.005, 7, 5_000, 2_000)
QUICK = Size((32,), 2, 1, 20, 500, 0.005, 1, 1_000, 400)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = _options()
    size = QUICK if chosen.quick else FULL
    sections = [name for name in SECTIONS if name in chosen.only] or list(SECTIONS)
    wanted = [name for name in PROXIES if name in chosen.only] or list(PROXIES)
    if chosen.before is None:
        wanted = [name for name in wanted if name != "before"]
    if chosen.envoy is not None:
        os.environ[envoy.VARIABLE] = str(chosen.envoy)
    missing = {name: why for name in wanted if (why := absent(name)) is not None}
    proxies = [name for name in wanted if name not in missing]
    with tempfile.TemporaryDirectory(prefix="benchmark-edge-") as folder:
        try:
            results = _run(Path(folder), chosen.before, size, sections, proxies)
        except (NotStarted, LoadFailed, TimeoutError) as error:
            sys.stderr.write(f"{str(error) or 'not done in time'}\n")
            return 1
    results.absent = missing
    sys.stdout.write(tables(results))
    if chosen.write:
        write(ROOT / "docs/performance.md", results, datetime.now().astimezone().date())
    return 0


def _run(folder: Path, before: Path | None, size: Size, sections: list[str], proxies: list[str]) -> Results:
    results = Results()
    workload = Workload.make()
    relaying = [name for name in proxies if name != "naive"]

    def field(name: str, connections: int = 100) -> Field:
        place = folder / name
        place.mkdir()
        return Field(place, workload, before, connections)

    if "calls" in sections:
        _say(f"calls: {size.rounds} rounds of {size.seconds} s at {size.connections} connections")
        results.calls = per_call(field("calls"), proxies, size.connections, rounds=size.rounds, seconds=size.seconds)
        results.shape["calls"] = f"Median of {size.rounds} interleaved rounds of {size.seconds} s."
    if "events" in sections:
        _say(f"events: {size.event_rounds} rounds of {size.streams} streams with {size.events:,} events")
        results.events, results.together = per_event(
            field("events"),
            relaying,
            streams=size.streams,
            events=size.events,
            every=size.every,
            rounds=size.event_rounds,
        )
        results.shape["events"] = (
            f"{size.streams} streams with {size.events:,} events each, one every {size.every * 1000:.0f} ms in a write "
            f"of its own; median of {size.event_rounds} interleaved rounds."
        )
    if "idle" in sections:
        # A proxy holds two files a stream.
        granted = open_files(2 * size.idle + size.rested + _SPARE_FILES)
        streams = min(size.idle, (granted - size.rested - _SPARE_FILES) // 2)
        _say(f"idle: {streams:,} streams, then {size.rested:,} connections beside them")
        results.idle, results.crowd = idle(
            field("idle", streams + _SPARE_FILES), relaying, streams=streams, connections=size.rested
        )
        results.shape["idle"] = (
            f"Growth of the resident memory with {streams:,} streams that are open and silent, divided by their number."
        )
    return results


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.edge", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="under a minute, and rough")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[*SECTIONS, *PROXIES],
        metavar="NAME",
        help=f"sections ({', '.join(SECTIONS)}) and proxies ({', '.join(PROXIES)}) that take part; may be repeated",
    )
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout whose gateway takes part too")
    parser.add_argument("--envoy", type=Path, metavar="FILE", help=f"Envoy's binary; also ${envoy.VARIABLE}")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md anew")
    chosen = parser.parse_args()
    if chosen.write and (chosen.only or chosen.before):
        parser.error("--write needs the whole run: without --only and --before")
    if chosen.before is not None:
        chosen.before = chosen.before.resolve()
    return chosen


if __name__ == "__main__":
    sys.exit(main())
