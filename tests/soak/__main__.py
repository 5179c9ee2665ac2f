"""The long run; see the package."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import tests.soak
from tests.soak.running import Length, soak
from tests.soak.test_soak import wrong


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
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(soak(Length(10.0, 110.0, 60 * asked.minutes, 5.0), Path(folder)))
    faults = wrong(found)
    print(found, *(f"WRONG: {each}" for each in faults), sep="\n")  # noqa: T201 - the figures are the result
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
