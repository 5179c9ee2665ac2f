"""The scenarios: what others do, and what it may cost a tenant that does nothing of the kind."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from statistics import median

from benchmarks.edge.process import Process
from benchmarks.fairness import agent
from benchmarks.fairness.bench import Bench, Row
from benchmarks.fairness.plan import ANSWERED, quantile
from benchmarks.fairness.site import HANGING, PLACES, RATE, SERVICE, STEADY, STREAMS, STUCK, WEIGHTS, Site

_OFFERED = 10
"""So many times its rate the eager tenant asks for."""
_DEAF = 1_000
_DEAF_LEAD = 4.0
_HEAVY = 20
_MEMBERS, _LENGTH = 10_000, 4 * 1024**2
_FORGED = 2_000
_ADDRESSES = 200
_FETCH_EVERY = 10.0
_SLOWEST_FETCH = 0.1
"""Seconds that one fetch of keys may be seen later than another."""
_OVERLOAD = 1.5
"""So many times what it can have the tenant with most weight asks for; others ask for as much."""
_WATCH_EVERY = 0.25
_RELOAD_EVERY = 1.0


def hung(bench: Bench) -> Row:
    """F1, where the agent that hangs is the other tenant's own."""
    row = Row("F1", f"has {HANGING} calls under way to an agent of its own, which hangs")
    bench.compare(row, bench.source("hung", "hangs", lines=HANGING, rest=1.0))
    row.must_not_suffer(factor=3.0, more=0.05)
    least = min(outcome.under_way for outcome in row.others)
    row.must("calls that hang", str(HANGING), str(least), holds=least == HANGING)
    return row


def stuck(bench: Bench) -> Row:
    """F1, where the agent is everybody's, and hangs for one tenant."""
    row = Row(
        "F1-shared", f"has {HANGING} clients, whose calls of the shared agent hang; {STUCK} at a time are allowed"
    )
    bench.compare(row, bench.source("stuck", lines=HANGING, rest=1.0))
    row.must_not_suffer(factor=3.0, more=0.05)
    least = min(outcome.under_way for outcome in row.others)
    row.must("calls that hang or wait", f"≥ {STUCK}", str(least), holds=least >= STUCK)
    return row


def eager(bench: Bench) -> Row:
    """F2."""
    row = Row("F2", f"asks for {_OFFERED * RATE} calls a second of the shared agent; {RATE} are allowed")
    bench.compare(row, bench.source("eager", pace=_OFFERED * RATE))
    return _held_to_its_rate(bench, row)


def reloading(bench: Bench) -> Row:
    """F8."""
    row = Row("F8", "does so while the gateway reads another file every second")
    times: list[float] = []
    bench.compare(row, bench.source("eager", pace=_OFFERED * RATE), meanwhile=lambda: _reloads(bench.site, times))
    row = _held_to_its_rate(bench, row)
    expected = bench.size.seconds * bench.size.rounds / 2
    found = f"{len(times)}, {median(times) * 1000:.0f} ms each" if times else "0"
    row.must("reloads", f"≥ {expected:.0f}", found, holds=len(times) >= expected)
    return row


def _held_to_its_rate(bench: Bench, row: Row) -> Row:
    row.must_be_offered(bench.size, _OFFERED * RATE)
    row.must_not_suffer(factor=2.0)
    row.must("throughput", "≥ 95 % of alone", f"{row.throughput:.1%}", holds=row.throughput >= 0.95)
    granted = row.count(ANSWERED) / (RATE * bench.size.seconds * bench.size.rounds)
    row.must("what it was granted", "100 ± 5 % of its rate", f"{granted:.1%}", holds=abs(granted - 1.0) <= 0.05)
    refusals = [time for outcome in row.others for time in outcome.told.get("rate_limited", ())]
    slowest = quantile(refusals, 0.99)
    row.must("p99 of its refusals", "< 5 ms", f"{slowest * 1000:.1f} ms", holds=0.0 < slowest < 0.005)
    others = row.begun - row.count(ANSWERED) - len(refusals)
    row.must("neither granted nor refused", "0", str(others), holds=others == 0)
    return row


def deaf(bench: Bench) -> Row:
    """F3."""
    row = Row("F3", f"opens {_DEAF:,} endless streams and reads none; {STREAMS} are allowed")
    body = agent.send("SendStreamingMessage").decode()
    with _growth(bench.site.gateway) as growth:
        source = bench.source("deaf", "endless", deaf=_DEAF, bodies=[body], good="text/event-stream")
        bench.compare(row, source, lead=_DEAF_LEAD)
    row.must_not_suffer(factor=2.0)
    grown = max(growth) / 1024**2
    row.must("growth of the gateway's memory", "≤ 100 MiB", f"{grown:.0f} MiB", holds=grown <= 100)
    granted = [outcome.count(ANSWERED) for outcome in row.others]
    refused = [outcome.count("streams_limited") for outcome in row.others]
    found = f"{max(granted)} open, {min(refused)} refused"
    holds = all(number == STREAMS for number in granted) and all(number == _DEAF - STREAMS for number in refused)
    row.must("streams", f"{STREAMS} open, {_DEAF - STREAMS} refused", found, holds=holds)
    return row


def heavy(bench: Bench) -> Row:
    """F4."""
    row = Row("F4", f"sends {_HEAVY} bodies a second of 4 MiB with {_MEMBERS:,} members")
    body = agent.send(size=_LENGTH, members=_MEMBERS).decode()
    bench.compare(row, bench.source("heavy", pace=_HEAVY, bodies=[body]))
    row.must_be_offered(bench.size, _HEAVY)
    row.must_not_suffer(more=0.05)
    lag = median(window.lag for window in row.beside)
    row.must("p99 of the event loop's lag", "< 50 ms", f"≤ {lag * 1000:g} ms", holds=lag <= 0.05)
    part = row.count(ANSWERED) / max(1, row.begun)
    row.must("bodies that were answered in the window", "≥ 90 %", f"{part:.0%} of {row.begun:,}", holds=part >= 0.9)
    return row


def guessing(bench: Bench) -> Row:
    """F5, from the address that the steady tenant has, too."""
    return _guess(bench, "F5", "from the steady tenant's own address", 0)


def guessing_widely(bench: Bench) -> Row:
    """F5, from so many addresses that none shows enough bad tokens to be ignored."""
    return _guess(bench, "F5-spread", f"from {_ADDRESSES} addresses", _ADDRESSES)


def sharing(bench: Bench) -> Row:
    """F6."""
    weights = ", ".join(str(weight) for weight in WEIGHTS.values())
    row = Row("F6", f"are {len(WEIGHTS)} tenants with the weights {weights}, who all ask for more than there is")
    total = sum(WEIGHTS.values())
    pace = _OVERLOAD * PLACES / SERVICE * max(WEIGHTS.values()) / total
    bench.crowd(row, *(bench.source(name, "pool", pace=pace) for name in WEIGHTS))
    row.must_be_offered(bench.size, pace * len(WEIGHTS))
    answered = dict.fromkeys(WEIGHTS, 0)
    for outcome in row.others:
        answered[outcome.name] += outcome.count(ANSWERED)
    fair = sum(answered.values()) / total
    shares = [answered[name] / (fair * weight) if fair else 0.0 for name, weight in WEIGHTS.items()]
    found = " ".join(f"{share:.2f}" for share in shares)
    row.must("shares, by weight", "1 ± 0.1", found, holds=all(abs(share - 1.0) <= 0.1 for share in shares))
    used = sum(answered.values()) * SERVICE / (PLACES * bench.size.seconds * bench.size.rounds)
    row.must("the agent is kept busy", "≥ 80 %", f"{used:.0%}", holds=used >= 0.8)
    return row


SCENARIOS: Mapping[str, Callable[[Bench], Row]] = {
    "F1": hung,
    "F1-shared": stuck,
    "F2": eager,
    "F3": deaf,
    "F4": heavy,
    "F5": guessing,
    "F5-spread": guessing_widely,
    "F6": sharing,
    "F8": reloading,
}
"""By the names of the command line."""


def _guess(bench: Bench, name: str, whence: str, addresses: int) -> Row:
    row = Row(name, f"shows {_FORGED:,} forged tokens a second {whence}, each with a key id of its own")
    token = bench.site.workload.token
    headers = {name: value for name, value in bench.site.headers(STEADY).items() if name != "Authorization"}
    source = bench.source(STEADY, headers=headers, pace=_FORGED, forged=token[:-8] + "AAAAAAAA", addresses=addresses)
    bench.compare(row, source)
    row.must_be_offered(bench.size, _FORGED)
    row.must_not_suffer(factor=2.0)
    # The first one is that of its start.
    fetches = bench.site.fetches[1:]
    closest = min((later - sooner for sooner, later in pairwise(fetches)), default=float("inf"))
    found = f"{len(fetches)} fetches" + (f", the closest {closest:.1f} s apart" if len(fetches) > 1 else "")
    holds = closest >= _FETCH_EVERY - _SLOWEST_FETCH
    row.must("reads of the key set", f"{_FETCH_EVERY:g} s apart", found, holds=holds)
    row.must("forged tokens that passed", "0", str(row.count(ANSWERED)), holds=not row.count(ANSWERED))
    return row


@contextmanager
def _growth(process: Process) -> Iterator[list[int]]:
    """Bytes by which a process has grown, seen again and again until the end of the block."""
    over = threading.Event()
    base = process.resident()
    found = [0]

    def watch() -> None:
        while not over.wait(_WATCH_EVERY):
            found.append(process.resident() - base)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield found
    finally:
        over.set()
        watching.join()


@contextmanager
def _reloads(site: Site, times: list[float]) -> Iterator[None]:
    """Another file every second until the end of the block; how long each took."""
    over = threading.Event()

    def read_again() -> None:
        while not over.wait(_RELOAD_EVERY):
            times.append(site.reload(len(times) % 100 + 1))

    reading = threading.Thread(target=read_again)
    reading.start()
    try:
        yield
    finally:
        over.set()
        reading.join()
