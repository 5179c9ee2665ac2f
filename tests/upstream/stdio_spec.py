"""Processes for tests of what keeps them: agents that misbehave, and such that are started again at once."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.upstream.stdio_child import Command
from gateway.upstream.stdio_pacing import Pace
from gateway.upstream.stdio_worker import Spec
from tests.doubles.stdio_agent import FILE

QUICK = Pace(first=0.01, longest=0.02, healthy=60.0, most=1000)


def spec(mode: str = "behaves", *arguments: str, journal: Path | None = None, **more: Any) -> Spec:
    """A process of a mode; its failures are forgotten at once."""
    noted = () if journal is None else ("--journal", str(journal))
    words = (sys.executable, "-S", str(FILE), mode, *arguments, *noted)
    made = Spec(Command(words, "/", {"PATH": os.environ["PATH"]}), stop=0.2, pace=QUICK)
    return replace(made, **more)


def processes(journal: Path) -> list[int]:
    """Those that were started so far."""
    if not journal.exists():
        return []
    return [int(line.split()[1]) for line in journal.read_text().splitlines() if line.startswith("start")]
