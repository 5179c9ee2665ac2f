"""The rows as Markdown, and the page that keeps them."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from statistics import median

from benchmarks.fairness.bench import Row, Window
from benchmarks.page import kept, machine, table

_HEADING = "## What the figures say"


def tables(rows: Sequence[Row]) -> str:
    """Return the tables of the steady tenant's results and of all assertions."""
    measured = [row for row in rows if row.beside]
    parts = []
    if measured:
        head = (
            "",
            "alone: p50, p99",
            "beside: p50, p99",
            "p99, x alone",
            "lost",
            "throughput",
            "gateway busy",
            "load late, p99",
        )
        parts.append("### The steady tenant, in ms\n\n" + table(head, [_steady(row) for row in measured]))
    parts.append("### What must hold\n\n" + table(("", "what", "asked", "found", ""), _checks(rows)))
    parts.append("### What the others do\n\n" + "".join(f"- {row.name}: {_does(row)}\n" for row in rows))
    return "\n".join(parts)


def write(page: Path, rows: Sequence[Row], shape: str, today: date) -> None:
    """Write the page anew, but for what stands in it by hand.

    Args:
        shape: The work, in a sentence.
    """
    filled = {
        "date": today.isoformat(),
        "machine": f"{machine('uvloop')}.",
        "tables": tables(rows),
        "kept": kept(page, _HEADING),
        "shape": shape,
    }
    page.write_text(_PAGE.format(**filled))


_PAGE = """\
# Fairness between tenants

What a tenant that does nothing wrong feels of others that do: it is measured alone and beside them, on one gateway, in
one run. Its calls come at a fixed pace, from a process of their own, and none waits for the one before.

Everything below but "What the figures say" is written by `python -m benchmarks.fairness --write`.

Taken on {date}, with {machine} {shape}

## Figures

{tables}
{kept}
## What is measured

One gateway, `python -m gateway serve`, with tokens, API keys, limits, metrics, access log and task ownership in a file.
Its agents are processes of our own on loopback, and so is the load: one process for the steady tenant, one for the
others. All of them share the processors with the gateway, so the bounds hold for the gateway and for what else ran
there. "gateway busy" is the part of one processor that it used, alone and beside.

A call is a JSON-RPC `SendMessage` for a new task, and lost if it is not answered with a task. "load late" is by how
much the steady tenant's calls began after they were due: a figure of the size of p99 says that the machine was busy,
and not the gateway.

## Again

```
python -m benchmarks.fairness --quick            # a few seconds for each, and rough; nothing is written
python -m benchmarks.fairness --only F2 --only F6
python -m benchmarks.fairness --write            # this page
```
"""


# ---- Tables --------------------------------------------------------------------------------------------------------


def _steady(row: Row) -> Sequence[str]:
    alone, beside = _median(row.alone, _p99), _median(row.beside, _p99)
    return (
        row.name,
        _times(row.alone),
        _times(row.beside),
        f"{beside / alone:.2f}" if alone else "-",
        f"{row.lost} of {sum(window.begun for window in row.beside):,}",
        f"{row.throughput:.1%}",
        f"{_median(row.alone, _busy):.0%}, {_median(row.beside, _busy):.0%}",
        f"{_median(row.beside, _late) * 1000:.1f}",
    )


def _times(windows: Sequence[Window]) -> str:
    p50, p99 = _median(windows, _p50) * 1000, _median(windows, _p99) * 1000
    if len(windows) == 1:
        return f"{p50:.1f}, {p99:.1f}"
    rounds = [window.p99 * 1000 for window in windows]
    return f"{p50:.1f}, {p99:.1f} ({min(rounds):.1f} … {max(rounds):.1f})"


def _checks(rows: Iterable[Row]) -> Iterable[Sequence[str]]:
    for row in rows:
        for check in row.checks:
            yield row.name, check.what, check.bound, check.found, "holds" if check.holds else "**FAILS**"


def _does(row: Row) -> str:
    became: dict[str, int] = {}
    for outcome in row.others:
        for told, times in outcome.told.items():
            became[told] = became.get(told, 0) + len(times)
        became["under way at the end"] = became.get("under way at the end", 0) + outcome.under_way
    words = ", ".join(f"{number:,} {told}" for told, number in became.items() if number)
    return f"{row.does}: {words}."


def _median(windows: Sequence[Window], figure: Callable[[Window], float]) -> float:
    return median(figure(window) for window in windows) if windows else 0.0


def _p50(window: Window) -> float:
    return window.p50


def _p99(window: Window) -> float:
    return window.p99


def _late(window: Window) -> float:
    return window.late


def _busy(window: Window) -> float:
    return window.busy
