"""CPU of commands that should start at once, in milliseconds: `python -m benchmarks.startup`."""

import resource
import statistics
import subprocess
import sys

COMMANDS = (
    ("--help",), ("--version",), ("key", "new", "x"), ("health",), ("schema",), ("check", "config/minimal.yaml"),
)  # fmt: skip
_TIMES = 7


def cpu(*arguments: str) -> float:
    """Return the CPU milliseconds of one run; its exit code does not matter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "gateway", *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main() -> None:
    """Print the median and the least of some runs of each command."""
    for arguments in COMMANDS:
        cpu(*arguments)
        took = [cpu(*arguments) for _ in range(_TIMES)]
        print(f"{' '.join(arguments):30} median {statistics.median(took):5.0f} ms   least {min(took):5.0f} ms")


if __name__ == "__main__":
    main()
