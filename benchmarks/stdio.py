"""The cost of an agent on stdio beside the same agent on HTTP: round trips, CPU per call and per event of a stream.

    python -m benchmarks.stdio [--quick] [--write]

The same gateway runs twice, once before each. CPU is what the kernel books for the gateway itself, and beside it for
the agent. Rounds are interleaved, and every ratio is one within a round.

Loopback only; bounded in time and count; every process that is started is stopped, all files are temporary.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from statistics import median, quantiles

import uvloop

from benchmarks.edge.contestant import ROOT
from benchmarks.edge.load import LoadFailed
from benchmarks.edge.process import NotStarted, Process, family, free_port, started
from benchmarks.edge.stream import Stream
from benchmarks.fairness import agent
from benchmarks.fairness.load import Load, loading
from benchmarks.fairness.plan import Plan, Source
from benchmarks.page import kept, machine, table
from benchmarks.serving import serving

WIRES = ("http", "stdio")
CALL, EVENT = "a call", "an event of a stream"
_HEADERS = {"Content-Type": "application/json", "A2A-Version": "1.0"}
_CALL_SIZE = 2048
_AT_A_TIME = 16
_NOTICE = 0.3
_PATIENCE = 10.0
_TIMEOUT = 60.0
_HEADING = "## What the figures say"


@dataclass(frozen=True, slots=True)
class Size:
    """The number of rounds, calls and events.

    Attributes:
        seconds: Of calls, in one round of one gateway.
        every: Seconds between two events of a stream.
    """

    rounds: int
    seconds: float
    streams: int
    events: int
    every: float


FULL = Size(5, 2.0, 20, 1_000, 0.005)
QUICK = Size(2, 1.0, 20, 200, 0.005)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A gateway before the agent.

    Attributes:
        other: The process of the agent, where the gateway is not who started it.
    """

    wire: str
    gateway: Process
    url: str
    other: Process | None = None

    def cpu(self) -> tuple[float, float]:
        """Seconds of CPU that the gateway and the agent have used so far."""
        own, *below = family(self.gateway.pid)
        return own, sum(below) if self.other is None else self.other.cpu()


@dataclass(slots=True)
class Results:
    """The results of each round, by wire.

    Attributes:
        trips: Seconds of each round trip, one call at a time.
        used: Microseconds of the gateway's CPU in each round, by what was done; `beside`: of the agent's.
    """

    trips: dict[str, list[float]] = field(default_factory=dict)
    used: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    beside: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def note(self, done: str, wire: str, used: tuple[float, float]) -> None:
        self.used.setdefault(done, {}).setdefault(wire, []).append(used[0])
        self.beside.setdefault(done, {}).setdefault(wire, []).append(used[1])

    def ratio(self, done: str) -> float:
        """Return the cost on stdio, as a multiple of the cost over HTTP."""
        used = self.used[done]
        return median(one / other for one, other in zip(used["stdio"], used["http"], strict=True) if other)


# ---- What runs -----------------------------------------------------------------------------------------------------


@contextmanager
def contestants(folder: Path, size: Size) -> Iterator[list[Contestant]]:
    """A gateway before the agent on each wire."""
    pace = ["--events", str(size.events), "--every", str(size.every)]
    command = [sys.executable, "-m", "benchmarks.stdio_agent"]
    with ExitStack() as running:
        found = []
        for wire in WIRES:
            at = folder / wire
            at.mkdir()
            port, other = free_port(), None
            backend: object = {"stdio": {"command": [*command, *pace], "cwd": str(ROOT), "card": "none"}}
            if wire == "http":
                inner = free_port()
                other = running.enter_context(
                    started(
                        "agent", [*command, inner, *pace], folder=at, ports=[inner], environ={"PYTHONPATH": str(ROOT)}
                    )
                )
                backend = {"url": f"http://127.0.0.1:{inner}"}
            written = {**backend, "protocol": "jsonrpc", "a2a_version": "1.0"}  # type: ignore[dict-item]  # a mapping
            gateway = {"listen": f"127.0.0.1:{port}", "admin": "127.0.0.1:0"}
            configuration = {"version": 1, "gateway": gateway, "agents": {"agent": {"backend": written}}}
            process = running.enter_context(serving(configuration, folder=at, ports=[port], tree=ROOT))
            found.append(Contestant(wire, process, f"http://127.0.0.1:{port}/agent", other))
        yield found


# ---- Measuring -----------------------------------------------------------------------------------------------------


def measure(folder: Path, size: Size) -> Results:
    """Everything, in all rounds.

    Raises:
        LoadFailed: not every call was answered as it should be, or an event is missing.
    """
    results = Results()
    with contestants(folder, size) as found, loading(ROOT) as load:
        for each in found:
            _called(load, each, 1, 0.2)
        for number in range(size.rounds):
            for each in found if number % 2 else reversed(found):
                _, trips = _called(load, each, 1, size.seconds)
                results.trips.setdefault(each.wire, []).extend(trips)
                used, _ = _called(load, each, _AT_A_TIME, size.seconds)
                results.note(CALL, each.wire, used)
                results.note(EVENT, each.wire, uvloop.run(_relayed(each, size)))
    return results


def _called(load: Load, each: Contestant, lines: int, seconds: float) -> tuple[tuple[float, float], Sequence[float]]:
    """Microseconds of CPU per call, of the gateway and of the agent, and the seconds that each call took."""
    body = agent.send(size=_CALL_SIZE).decode()
    source = Source(each.wire, each.url, _HEADERS, [body], agent.ANSWERED, lines=lines)
    before = each.cpu()
    load.begin(Plan([source], time.monotonic() + _NOTICE, 0.0, seconds, _PATIENCE))
    [outcome] = load.end()
    if outcome.lost or not outcome.begun:
        became = {told: len(times) for told, times in outcome.told.items()}
        raise LoadFailed(f"{each.wire}: of {outcome.begun} calls {became}")
    return _per(before, each.cpu(), outcome.begun), outcome.answered


async def _relayed(each: Contestant, size: Size) -> tuple[float, float]:
    """The same per event of streams."""
    async with asyncio.timeout(_TIMEOUT + size.events * size.every):
        before = each.cpu()
        opening = (Stream.opened(each.url, _HEADERS, None) for _ in range(size.streams))
        opened = await asyncio.gather(*opening)
        await asyncio.gather(*(stream.ended for stream in opened))
        after = each.cpu()
    if any(stream.events != size.events for stream in opened):
        raise LoadFailed(f"{each.wire} lost events")
    return _per(before, after, size.streams * size.events)


def _per(before: tuple[float, float], after: tuple[float, float], number: int) -> tuple[float, float]:
    gateway, beside = (later - sooner for sooner, later in zip(before, after, strict=True))
    return gateway / number * 1e6, beside / number * 1e6


# ---- The page ------------------------------------------------------------------------------------------------------


def tables(results: Results) -> str:
    """Return the tables of the results."""
    rows = [
        (wire, str(len(trips)), *(f"{at * 1e3:.2f}" for at in _parts(trips))) for wire, trips in results.trips.items()
    ]
    parts = ["### Round trip, one call at a time\n\n" + table(("", "calls", "p50 ms", "p90 ms", "p99 ms"), rows)]
    for done, used in results.used.items():
        costs = [
            (wire, f"{median(rounds):.0f}", f"{median(results.beside[done][wire]):.0f}")
            for wire, rounds in used.items()
        ]
        text = table(("", "gateway µs", "agent µs"), costs)
        parts.append(f"### CPU: {done}\n\n{text}\nstdio ÷ HTTP, the gateway: {results.ratio(done):.2f}\n")
    return "\n".join(parts)


def write(page: Path, results: Results, size: Size, today: date) -> None:
    """Write the page anew, but for what stands in it by hand."""
    shape = (
        f"{size.rounds} rounds: {size.seconds:g} s of calls of 2 KB one at a time, as long {_AT_A_TIME} at a time, and "
        f"{size.streams} streams of {size.events:,} events each, one every {size.every * 1000:g} ms."
    )
    filled = {
        "date": today.isoformat(),
        "machine": f"{machine('uvloop')}.",
        "shape": shape,
        "tables": tables(results),
        "kept": kept(page, _HEADING),
    }
    page.write_text(_PAGE.format(**filled))


_PAGE = """\
# Performance of agents on stdio

What an agent on stdio costs beside the same agent on HTTP. Everything below but "What the figures say" is written by
`python -m benchmarks.stdio --write`.

Taken on {date}, with {machine} {shape}

## Figures

{tables}
{kept}
## What is measured

Each gateway is `python -m gateway serve`, one process, with metrics and access log; its clients are on HTTP/1.1 over
loopback. The agent (`benchmarks/stdio_agent.py`) is one program, on HTTP/1.1 over loopback or on pipes, and does the
same for each call. CPU is what the kernel books for the gateway without its children, and for the agent.

## Again

```
python -m benchmarks.stdio --quick     # under a minute, nothing written
python -m benchmarks.stdio --write     # this page
```
"""


def _parts(trips: Sequence[float]) -> tuple[float, float, float]:
    cuts = quantiles(trips, n=100)
    return cuts[49], cuts[89], cuts[98]


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stdio", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="under a minute, and rough")
    parser.add_argument("--write", action="store_true", help="write docs/performance-stdio.md anew")
    chosen = parser.parse_args()
    size = QUICK if chosen.quick else FULL
    with tempfile.TemporaryDirectory(prefix="benchmark-stdio-") as folder:
        try:
            results = measure(Path(folder), size)
        except (NotStarted, LoadFailed, EOFError, TimeoutError) as error:
            sys.stderr.write(f"{str(error) or 'not done in time'}\n")
            return 1
    sys.stdout.write(tables(results))
    if chosen.write:
        write(ROOT / "docs/performance-stdio.md", results, size, datetime.now().astimezone().date())
    return 0


if __name__ == "__main__":
    sys.exit(main())
