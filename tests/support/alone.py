"""Tests in a process of their own: for what forks, and for signals to a process.

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
_NAMES: dict[str, list[str]] = {}
"""The tests that are run so, by module."""


def alone(test: Callable[P, None]) -> Callable[P, None]:
    """Run a test with its fixtures in another interpreter, one for all such tests of its file."""
    name = test.__name__
    _NAMES.setdefault(test.__module__, []).append(name)

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        if _ALONE in os.environ:
            test(*args, **kwargs)
            return
        file = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
        told = _told(file, tuple(_NAMES[test.__module__]))
        assert f"PASSED {file}::{name}\n" in told, told

    return run


@functools.cache
def _told(file: str, names: tuple[str, ...]) -> str:
    """Return what pytest says of some tests of a file."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-m", "", *(f"{file}::{name}" for name in names)],
        cwd=_ROOT,
        env={**os.environ, _ALONE: "1"},
        capture_output=True,
        text=True,
        timeout=_WAIT,
        check=False,
    )
    return f"{found.stdout}{found.stderr}\n"
