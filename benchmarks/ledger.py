"""The cost of ownership: CPU per call and per event of a stream, by the kind of store.

    python -m benchmarks.ledger [--quick] [--only PLACE]... [--before DIR] [--write]

The same gateway runs once for each place: without a ledger, with one in memory, in a file (SQLite), and in a Redis of
our own. CPU is what the kernel books for the gateway; that of Redis is told beside it. Rounds are many, short and
interleaved, and every difference is one within a round, so that a machine that is busy for a while is so for all.
`--before` lets the gateway of another checkout take part in the same rounds, which is how one sees what a change did.

Loopback only; bounded in time and count; every process that is started is stopped, all files are temporary.
"""

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.edge import agent as streaming
from benchmarks.edge.contestant import ROOT
from benchmarks.edge.load import LoadFailed, once
from benchmarks.edge.process import NotStarted, Process, free_port, started
from benchmarks.edge.stream import Stream
from benchmarks.fairness import agent
from benchmarks.fairness.load import Load, loading
from benchmarks.fairness.plan import Plan, Source
from benchmarks.page import kept, machine, table
from benchmarks.serving import serving
from gateway.commands.key import new_key

PLACES = ("none", "memory", "sqlite", "redis")
BEFORE = ", before"
"""Stands behind a place where the gateway is that of another checkout."""
SEND, GET, EVENT = "a send, for a new task", "GetTask", "an event of a stream"
AIMS = (
    (SEND, "sqlite", 25.0),
    (SEND, "redis", 60.0),
    (GET, "sqlite", 25.0),
    (GET, "redis", 60.0),
    (EVENT, "sqlite", 1.0),
    (EVENT, "redis", 1.0),
)
"""Microseconds that it may cost more than without a ledger."""

_TENANTS = ("acme", "globex")
"""Both may call the agent, so that it is one that owners share; the first one does."""
_CALL_SIZE = 2048
_AT_A_TIME = 16
_KNOWN = 200
_NOTICE = 0.1
_PATIENCE = 10.0
_TIMEOUT = 60.0
_HEADING = "## What the figures say"


@dataclass(frozen=True, slots=True)
class Size:
    """The number of rounds and calls.

    Attributes:
        seconds: Of calls, in one round of one gateway.
        every: Seconds between two events of a stream.
    """

    rounds: int
    seconds: float
    event_rounds: int
    streams: int
    events: int
    every: float


FULL = Size(150, 0.15, 15, 20, 400, 0.005)
QUICK = Size(6, 0.3, 5, 20, 120, 0.005)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A gateway.

    Attributes:
        place: Where it remembers whose tasks are whose.
        store: The process that remembers, where that is another one.
    """

    place: str
    process: Process
    url: str
    headers: Mapping[str, str]
    store: Process | None = None


@dataclass(slots=True)
class Results:
    """Microseconds of CPU in each round, by what was done and by place.

    Attributes:
        beside: Those of the process that remembers.
        absent: Places that did not take part.
    """

    used: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    beside: dict[str, list[float]] = field(default_factory=dict)
    absent: Sequence[str] = ()

    def more(self, done: str, place: str) -> float:
        """Microseconds that it costs more than without a ledger: the median of the rounds' differences."""
        return median(one - other for one, other in self._beside_none(done, place))

    def ratio(self, done: str, place: str) -> float:
        """Return the cost as a multiple of the cost without a ledger."""
        return median(one / other for one, other in self._beside_none(done, place))

    def _beside_none(self, done: str, place: str) -> Iterable[tuple[float, float]]:
        used = self.used[done]
        return zip(used[place], used[base(place)], strict=True)


def base(place: str) -> str:
    """Return the place that a place is compared with: the same gateway without a ledger."""
    return PLACES[0] + place[len(place.removesuffix(BEFORE)) :]


# ---- What runs -----------------------------------------------------------------------------------------------------


def absent() -> Sequence[str]:
    """Places that cannot take part here."""
    return () if _redis() is not None else ("redis",)


@contextmanager
def contestants(
    folder: Path, places: Iterable[str], size: Size, before: Path | None = None
) -> Iterator[list[Contestant]]:
    """A gateway for each place, before two agents: `prompt` for calls and `paced` for streams.

    Args:
        before: Another checkout, of which the places are that are named so.
    """
    key = new_key("acme-key", _TENANTS[0])
    headers = {"X-API-Key": key.text, "Content-Type": "application/json", "A2A-Version": "1.0"}
    with ExitStack() as running:
        prompt, paced = free_port(), free_port()
        running.enter_context(agent.running(folder, ROOT, prompt))
        pace = {"together": size.streams, "events": size.events, "every": size.every}
        running.enter_context(streaming.running(folder, ROOT, paced, **pace))  # type: ignore[arg-type]  # by name
        found = []
        for place in places:
            at = folder / place.replace(", ", "-")
            at.mkdir()
            store, state = None, place.removesuffix(BEFORE)
            root = ROOT if state == place or before is None else before
            if state == "redis":
                port = free_port()
                store, state = running.enter_context(_redis_server(at, port)), f"redis://127.0.0.1:{port}"
            elif state == "sqlite":
                state = f"sqlite://{at}/state.db"
            public = free_port()
            configuration = _configuration(public, state, key.sha256, prompt=prompt, paced=paced)
            process = running.enter_context(serving(configuration, folder=at, ports=[public], tree=root))
            found.append(Contestant(place, process, f"http://127.0.0.1:{public}", headers, store))
        yield found


def _configuration(public: int, state: str, sha256: str, *, prompt: int, paced: int) -> dict[str, object]:
    def speaks(port: int) -> dict[str, object]:
        return {"backend": {"url": f"http://127.0.0.1:{port}/prompt", "protocol": "jsonrpc", "a2a_version": "1.0"}}

    gateway = {"listen": f"127.0.0.1:{public}", "admin": "127.0.0.1:0"}
    return {
        "version": 1,
        "gateway": gateway if state == "none" else {**gateway, "state": state},
        "defaults": {"isolation": "none" if state == "none" else "tenant"},
        "auth": {"api_keys": {"acme-key": {"sha256": sha256, "tenant": _TENANTS[0]}}},
        "tenants": {tenant: ["prompt", "paced"] for tenant in _TENANTS},
        "agents": {"prompt": speaks(prompt), "paced": speaks(paced)},
    }


def _redis() -> str | None:
    return shutil.which("redis-server") or shutil.which("valkey-server")


@contextmanager
def _redis_server(folder: Path, port: int) -> Iterator[Process]:
    """A Redis that keeps nothing on disk."""
    place = ["--bind", "127.0.0.1", "--port", port, "--dir", folder]
    command = [_redis(), *place, "--save", "", "--appendonly", "no", "--daemonize", "no"]
    with started("redis", command, folder=folder, ports=[port]) as process:
        yield process


# ---- Measuring -----------------------------------------------------------------------------------------------------


def measure(folder: Path, size: Size, only: Sequence[str] = PLACES, before: Path | None = None) -> Results:
    """Everything, in all rounds.

    Args:
        only: Places that take part; that without a ledger always does.
        before: Another checkout that takes part too.

    Raises:
        LoadFailed: not every call was answered as it should be, or an event is missing.
    """
    missing = [place for place in absent() if place in only]
    results = Results(absent=missing)
    places = [place for place in PLACES if place not in missing and place in ("none", *only)]
    if before is not None:
        places = [each for place in places for each in (place, place + BEFORE)]
    with contestants(folder, places, size, before) as found, loading(ROOT) as load:
        known = {each.place: asyncio.run(_known(each)) for each in found}
        for number in range(size.rounds):
            for each in _mixed(found, number):
                _note(results, SEND, each, *_called(load, each, [agent.send(size=_CALL_SIZE)], size.seconds))
            for each in _mixed(found, number):
                _note(results, GET, each, *_called(load, each, known[each.place], size.seconds))
        for number in range(size.event_rounds):
            for each in _mixed(found, number):
                _note(results, EVENT, each, *uvloop.run(_relayed(each, size)))
    return results


def _mixed(found: Sequence[Contestant], number: int) -> Sequence[Contestant]:
    """All of them, in an order of the round's own: what one leaves behind, such as a busy disk, meets all others."""
    return random.Random(number).sample(found, len(found))


def _note(results: Results, done: str, each: Contestant, used: float, beside: float) -> None:
    results.used.setdefault(done, {}).setdefault(each.place, []).append(used)
    if each.place == "redis":
        results.beside.setdefault(done, []).append(beside)


async def _known(contestant: Contestant) -> Sequence[bytes]:
    """Calls for tasks that the gateway has met."""
    sent = [
        await once(f"{contestant.url}/prompt", contestant.headers, agent.send(size=_CALL_SIZE)) for _ in range(_KNOWN)
    ]
    return [agent.get(agent.task_of(told)) for told in sent]


def _called(load: Load, each: Contestant, bodies: Sequence[bytes], seconds: float) -> tuple[float, float]:
    """Microseconds of the gateway's CPU per call, and of the other process that remembers."""
    texts = [body.decode() for body in bodies]
    source = Source(each.place, f"{each.url}/prompt", each.headers, texts, agent.ANSWERED, lines=_AT_A_TIME)
    before = _cpu(each)
    load.begin(Plan([source], time.monotonic() + _NOTICE, 0.0, seconds, _PATIENCE))
    [outcome] = load.end()
    if outcome.lost or not outcome.begun:
        became = {told: len(times) for told, times in outcome.told.items()}
        raise LoadFailed(f"{each.place}: of {outcome.begun} calls {became}")
    return _per(before, _cpu(each), outcome.begun)


async def _relayed(each: Contestant, size: Size) -> tuple[float, float]:
    """The same per event of streams."""
    async with asyncio.timeout(_TIMEOUT + size.events * size.every):
        opening = (Stream.opened(f"{each.url}/paced", each.headers, None) for _ in range(size.streams))
        opened = await asyncio.gather(*opening)
        before = _cpu(each)
        await asyncio.gather(*(stream.ended for stream in opened))
        after = _cpu(each)
    if any(stream.events != size.events for stream in opened):
        raise LoadFailed(f"{each.place} lost events")
    return _per(before, after, size.streams * (size.events - 1))


def _cpu(each: Contestant) -> tuple[float, float]:
    return each.process.cpu(), 0.0 if each.store is None else each.store.cpu()


def _per(before: tuple[float, float], after: tuple[float, float], number: int) -> tuple[float, float]:
    gateway, store = (later - sooner for sooner, later in zip(before, after, strict=True))
    return gateway / number * 1e6, store / number * 1e6


# ---- The page ------------------------------------------------------------------------------------------------------


def tables(results: Results) -> str:
    """Return the tables of measured and allowed costs."""
    parts = ["### In short\n\n" + table(("more than without a ledger", "aim", "now", ""), _aims(results))]
    for done, used in results.used.items():
        head = ("", "µs (rounds)", "more", "x without", "Redis itself")
        rows = [
            (
                place,
                _spread(rounds),
                "-" if place == base(place) else f"{results.more(done, place):+.1f}",
                "-" if place == base(place) else f"{results.ratio(done, place):.2f}",
                f"{median(results.beside[done]):.1f}" if place == "redis" else "-",
            )
            for place, rounds in sorted(used.items(), key=_rank)
        ]
        parts.append(f"### CPU: {done}\n\n{table(head, rows)}")
    parts += [f"{place} did not take part: no redis-server here.\n" for place in results.absent]
    return "\n".join(parts)


def write(page: Path, results: Results, size: Size, today: date) -> None:
    """Write the page anew, but for what stands in it by hand."""
    shape = (
        f"Calls: {size.rounds} rounds of {size.seconds:g} s, {_AT_A_TIME} at a time. Streams: {size.event_rounds} "
        f"rounds of {size.streams} with {size.events:,} events each, one every {size.every * 1000:g} ms."
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
# Performance of the ledger

What it costs to know whose tasks are whose: CPU time as the kernel books it for the gateway, per call and per event, by
where that is remembered (`gateway.state`), beside the same gateway that remembers nothing (`isolation: none`).

Everything below but "What the figures say" is written by `python -m benchmarks.ledger --write`.

Taken on {date}, with {machine} {shape}

## Figures

Differences and ratios are medians of those within each round.

{tables}
{kept}
## What is measured

Each gateway is `python -m gateway serve`, one process, with API keys, metrics and access log, before an agent that two
tenants may call, over HTTP/1.1 on loopback. A send is a JSON-RPC `SendMessage` of 2 KB without a task or a context: the
gateway writes down the new ones before their answer leaves. `GetTask` names one of {known} tasks that it knows, and the
answer brings nothing new. Of a stream the first frame and the last are written down, and those between are nothing new.
Redis, on the same machine, keeps nothing on disk; its own CPU is told beside the gateway's and is not in it.

## Again

```
python -m benchmarks.ledger --quick     # a minute, nothing written
python -m benchmarks.ledger --write     # this page
```
""".replace("{known}", str(_KNOWN))


def _aims(results: Results) -> Iterable[Sequence[str]]:
    for done, place, most in AIMS:
        if place in results.used.get(done, ()):
            more = results.more(done, place)
            yield f"{done}, {place}", f"≤ {most:g} µs", f"{more:+.1f} µs", "holds" if more <= most else "**FAILS**"


def _rank(used: tuple[str, object]) -> tuple[int, int]:
    place = used[0]
    return PLACES.index(place.removesuffix(BEFORE)), len(place)


def _spread(rounds: Sequence[float]) -> str:
    if len(rounds) == 1:
        return f"{rounds[0]:.1f}"
    return f"{median(rounds):.1f} ({min(rounds):.1f} … {max(rounds):.1f})"


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a minute, and rough")
    parser.add_argument("--only", action="append", choices=PLACES[1:], help="a place; may be repeated")
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout whose gateway takes part too")
    parser.add_argument("--write", action="store_true", help="write docs/performance-ledger.md anew")
    chosen = parser.parse_args()
    if chosen.write and (chosen.only or chosen.before):
        parser.error("--write needs all places and one gateway: without --only and --before")
    size = QUICK if chosen.quick else FULL
    with tempfile.TemporaryDirectory(prefix="benchmark-ledger-") as folder:
        try:
            before = None if chosen.before is None else chosen.before.resolve()
            results = measure(Path(folder), size, chosen.only or PLACES, before)
        except (NotStarted, LoadFailed, EOFError, TimeoutError) as error:
            sys.stderr.write(f"{str(error) or 'not done in time'}\n")
            return 1
    sys.stdout.write(tables(results))
    if chosen.write:
        write(ROOT / "docs/performance-ledger.md", results, size, datetime.now().astimezone().date())
    return 0


if __name__ == "__main__":
    sys.exit(main())
