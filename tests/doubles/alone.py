"""A test in a process of its own: for what forks, and for signals to a process.

The process of the tests has threads, of servers and of libraries, also long after the tests that began them. A signal
that the main thread waits for goes to one of those then, and ends everything; and a fork copies locks that they hold.
"""

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

P = ParamSpec("P")

_ALONE = "A2A_TEST_ALONE"
_ROOT = Path(__file__).parent.parent.parent
_WAIT = 120.0


def alone(test: Callable[P, None]) -> Callable[P, None]:
    """Run a test with its fixtures in an interpreter of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        if _ALONE in os.environ:
            test(*args, **kwargs)
            return
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        found = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "", node],
            cwd=_ROOT,
            env={**os.environ, _ALONE: "1"},
            capture_output=True,
            text=True,
            timeout=_WAIT,
            check=False,
        )
        assert found.returncode == 0, found.stdout + found.stderr

    return run
