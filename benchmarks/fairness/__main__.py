"""Effects on a tenant of others that misbehave: hanging agents, floods, unread streams, heavy bodies, forged tokens.

    python -m benchmarks.fairness [--quick] [--only NAME]... [--rounds N] [--write]

Loopback only; bounded in time and count; every process that is started is stopped, all files are temporary. Exits
with 1 where something does not hold.
"""

import argparse
import signal
import sys
import tempfile
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from benchmarks.edge.contestant import ROOT
from benchmarks.edge.process import NotStarted, open_files
from benchmarks.fairness.bench import Row, Size, bench
from benchmarks.fairness.report import tables, write
from benchmarks.fairness.scenario import SCENARIOS

FULL = Size(30.0, 3)
QUICK = Size(4.0, 1)
_FILES = 8_000


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = _options()
    size = QUICK if chosen.quick else FULL
    if chosen.rounds:
        size = replace(size, rounds=chosen.rounds)
    open_files(_FILES)
    try:
        rows = [_run(name, size) for name in SCENARIOS if not chosen.only or name in chosen.only]
    except (NotStarted, EOFError, TimeoutError) as error:
        sys.stderr.write(f"{str(error) or 'not done in time'}\n")
        return 1
    sys.stdout.write(tables(rows))
    if chosen.write:
        windows = f"{size.rounds} windows" if size.rounds > 1 else "one window"
        shape = (
            f"Medians of {windows} of {size.seconds:g} s each, alone and beside by turns; {size.pace:g} calls a second."
        )
        write(ROOT / "docs/performance-fairness.md", rows, shape, datetime.now().astimezone().date())
    return 0 if all(row.holds for row in rows) else 1


def _run(name: str, size: Size) -> Row:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {name}: {size.rounds} x {size.seconds:g} s\n")
    # A gateway of its own for each: nothing that one leaves behind is the next one's.
    with tempfile.TemporaryDirectory(prefix="benchmark-fairness-") as folder, bench(Path(folder), size) as found:
        return SCENARIOS[name](found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="some seconds for each, and rough")
    parser.add_argument(
        "--only", action="append", default=[], choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS)
    )
    parser.add_argument("--rounds", type=int, help="windows alone and beside; more are less noisy")
    parser.add_argument("--write", action="store_true", help="write docs/performance-fairness.md anew")
    chosen = parser.parse_args()
    if chosen.write and chosen.only:
        parser.error("--write needs the whole run: without --only")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
