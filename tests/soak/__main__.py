"""The long run; see the package."""

import argparse
import asyncio
import sys
import tempfile
from datetime import datetime
from pathlib import Path

import tests.soak
from tests.soak.page import PAGE, write
from tests.soak.running import Length, soak
from tests.soak.test_soak import wrong

LEAST = 20.0
"""Minutes of a page."""


def main() -> int:
    """Soak for as long as is asked for, and print the figures; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description=tests.soak.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--minutes", type=float, default=2.0, help="how long it counts, after two minutes that does not"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"write {PAGE.name} anew, if it counts for {LEAST:g} minutes"
    )
    asked = parser.parse_args()
    if asked.write and asked.minutes < LEAST:
        parser.error(f"--write needs --minutes {LEAST:g}, or more")
    length = Length(10.0, 110.0, 60 * asked.minutes, 5.0)
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(soak(length, Path(folder)))
    if asked.write:
        write(found, length, datetime.now().astimezone().date())
    faults = wrong(found)
    print(found, *(f"WRONG: {each}" for each in faults), sep="\n")  # noqa: T201 - the figures are the result
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
