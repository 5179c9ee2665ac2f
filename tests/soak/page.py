"""The page that keeps the figures of a long soak."""

import textwrap
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from benchmarks.page import kept, machine, table
from tests.soak.running import CALLERS, LOAD, MIB, REMEMBERED, Length, Soaked, grown

PAGE = Path(__file__).parents[2] / "docs/soak.md"
_HEADING = "## What the figures say"


def write(found: Soaked, length: Length, today: date, page: Path = PAGE) -> None:
    """Write the page anew, but for what stands in it by hand."""
    kinds = ", ".join(f"{number:,} `{name}`" for name, number in sorted(found.findings.done.items()))
    filled = {
        "date": today.isoformat(),
        "machine": machine("uvloop"),
        "warm": f"{length.full + length.warm:.0f}",
        "counted": f"{length.counted / 60:g}",
        "reload": f"{length.reload:g}",
        "callers": CALLERS,
        "load": f"{LOAD:.0%}",
        "remembered": f"{REMEMBERED:,}",
        "kinds": textwrap.fill(f"Calls by what they are (`tests/soak/load.py`): {kinds}.", 120),
        "figures": table(("", "asked", "found"), _figures(found)),
        "course": table(("minute", "resident, MiB", "private, MiB", "descriptors"), _course(found)),
        "kept": kept(page, _HEADING),
    }
    page.write_text(_PAGE.format(**filled))


def _figures(found: Soaked) -> Iterator[tuple[str, str, str]]:
    findings = found.findings
    left = findings.done["leave_stream"] + findings.done["leave_call"]
    held = [each.descriptors for each in found.looks]
    done = findings.done.total()
    yield "calls", "", f"{done:,}, {found.rate:.0f} a second; {left / done:.1%} of them left"
    yield (
        "load",
        f"{LOAD:.0%}",
        f"{found.rate / found.full:.0%} of {found.full:.0f} a second, {found.busy:.0%} of a core",
    )
    yield "files read", "", f"{found.reloads[200]:,} good ones, {found.reloads[422]:,} broken ones"
    yield "replies that were mixed up", "0", f"{findings.mixed}"
    yield "calls that failed otherwise", "0", f"{findings.failed}"
    yield "memory", "< 1 MiB in 10 min", grown(found.resident)
    yield "of it private", "", grown(found.private)
    yield "descriptors", "flat", f"{min(held)} to {max(held)}; {found.descriptors.slope * 600:+.1f} in 10 min"
    yield (
        "descriptors when all is quiet",
        "no more",
        f"{found.before.descriptors} before, {found.after.descriptors} after",
    )
    yield "left open", "0", f"{sum(found.left.values()):.0f}"


def _course(found: Soaked) -> Iterator[tuple[str, str, str, str]]:
    """The mean of each minute."""
    began, minutes = found.looks[0].at, round(found.counted / 60)
    for minute in range(minutes):
        looks = [each for each in found.looks if minute <= (each.at - began) / 60 < minute + 1]
        if looks:
            resident, private, held = (
                sum(value) / len(looks)
                for value in zip(*((each.resident, each.private, each.descriptors) for each in looks), strict=True)
            )
            yield f"{minute + 1}", f"{resident / MIB:.2f}", f"{private / MIB:.2f}", f"{held:.0f}"


_PAGE = """\
# Soak

What one gateway process holds after a long time under steady load, with clients that leave and a file that keeps
changing. Taken on {date}, {machine}.

{callers} callers of two tenants call the same paths, each with its own texts, over JSON-RPC and HTTP+JSON, at {load} of
the rate that they reach at full load: short calls, complete streams, and calls about earlier tasks. One call in a
hundred is aborted; half of these are streams. The file is changed every {reload} s: other agents, other connections,
other limits; every other time it is broken. {warm} s of load come before the measurement, in which the ledger fills up:
it keeps {remembered} tasks and contexts of a tenant here, so that it is full by then and evicts as many entries as it
adds. Then it measures for {counted} minutes; memory is sampled twice a second, from outside.

```
python -m tests.soak                          # two minutes that count
python -m tests.soak --minutes 20 --write     # this page
```

{figures}
Growth is a slope by least squares through all samples, ± 1.96 standard errors, which are those of the means of twenty
segments. Private memory belongs to no file.

{kinds}

## Minute by minute

{course}
{kept}"""
