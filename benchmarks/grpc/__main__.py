"""The gateway over gRPC beside a bare proxy and Envoy: CPU per call and per event, memory per idle stream.

    python -m benchmarks.grpc [--quick] [--only NAME]... [--before DIR] [--write]

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

from benchmarks.edge.contestant import ROOT
from benchmarks.edge.envoy import VARIABLE
from benchmarks.edge.load import LoadFailed
from benchmarks.edge.process import NotStarted
from benchmarks.edge.workload import Workload
from benchmarks.grpc.contestant import PROXIES, Field, absent
from benchmarks.grpc.measure import idle, per_call, per_event
from benchmarks.grpc.report import Results, tables, write

SECTIONS = ("calls", "events", "idle")


@dataclass(frozen=True, slots=True)
class Size:
    """The number of rounds, calls, events and streams.

    Attributes:
        together: Calls at a time.
        seconds: Of one round of calls; whole ones.
        events: Of one stream.
        every: Seconds between two of them.
    """

    together: tuple[int, ...]
    rounds: int
    seconds: int
    streams: int
    events: int
    every: float
    event_rounds: int
    idle: int


FULL = Size((1, 16), 5, 2, 20, 500, 0.02, 3, 2_000)
QUICK = Size((16,), 2, 1, 20, 100, 0.02, 1, 300)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = _options()
    size = QUICK if chosen.quick else FULL
    sections = [name for name in SECTIONS if name in chosen.only] or list(SECTIONS)
    wanted = [name for name in PROXIES if name in chosen.only] or list(PROXIES)
    if chosen.before is None:
        wanted = [name for name in wanted if name != "before"]
    if chosen.envoy is not None:
        os.environ[VARIABLE] = str(chosen.envoy)
    missing = {name: why for name in wanted if (why := absent(name)) is not None}
    proxies = [name for name in wanted if name not in missing]
    with tempfile.TemporaryDirectory(prefix="benchmark-grpc-") as folder:
        try:
            results = _run(Path(folder), chosen.before, size, sections, proxies)
        except (NotStarted, LoadFailed, TimeoutError) as error:
            sys.stderr.write(f"{str(error) or 'not done in time'}\n")
            return 1
    results.absent = missing
    sys.stdout.write(tables(results))
    if chosen.write:
        write(ROOT / "docs/performance-grpc.md", results, datetime.now().astimezone().date())
    return 0


def _run(folder: Path, before: Path | None, size: Size, sections: list[str], proxies: list[str]) -> Results:
    results = Results()
    workload = Workload.make()

    def field(name: str) -> Field:
        place = folder / name
        place.mkdir()
        return Field(place, workload, before)

    if "calls" in sections:
        at_a_time = " and ".join(str(count) for count in size.together)
        _say(f"calls: {size.rounds} rounds of {size.seconds} s, {at_a_time} at a time")
        results.calls = per_call(field("calls"), proxies, size.together, rounds=size.rounds, seconds=size.seconds)
        results.shape["calls"] = f"Median of {size.rounds} interleaved rounds of {size.seconds} s."
    if "events" in sections:
        _say(f"events: {size.event_rounds} rounds of {size.streams} streams with {size.events:,} events")
        results.events = per_event(
            field("events"),
            proxies,
            streams=size.streams,
            count=size.events,
            every=size.every,
            rounds=size.event_rounds,
        )
        results.shape["events"] = (
            f"{size.streams} streams with {size.events:,} events each, one every {size.every * 1000:.0f} ms; "
            f"median of {size.event_rounds} interleaved rounds."
        )
    if "idle" in sections:
        _say(f"idle: {size.idle:,} streams")
        results.idle = idle(field("idle"), proxies, streams=size.idle)
        results.shape["idle"] = (
            f"Growth of the resident memory with {size.idle:,} streams that are open and silent, a hundred to a "
            "connection, divided by their number."
        )
    return results


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grpc", description=(__doc__ or "").split("\n\n")[0])
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
    parser.add_argument("--envoy", type=Path, metavar="FILE", help=f"Envoy's binary; also ${VARIABLE}")
    parser.add_argument("--write", action="store_true", help="write docs/performance-grpc.md anew")
    chosen = parser.parse_args()
    if chosen.write and (chosen.only or chosen.before):
        parser.error("--write needs the whole run: without --only and --before")
    if chosen.before is not None:
        chosen.before = chosen.before.resolve()
    return chosen


if __name__ == "__main__":
    sys.exit(main())
