"""Processes for tests of what keeps them: agents that misbehave, and that are started again at once."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.upstream.stdio.agent import Pace, Spec
from gateway.upstream.stdio.process import Command
from tests.support.stdio_agent import FILE

QUICK = Pace(first=0.01, longest=0.02, healthy=60.0, most=1000)


def spec(mode: str = "behaves", *arguments: str, journal: Path | None = None, **more: Any) -> Spec:
    """A process of a mode; its failures are forgotten at once."""
    noted = () if journal is None else ("--journal", str(journal))
    words = (sys.executable, "-S", str(FILE), mode, *arguments, *noted)
    made = Spec(Command(words, "/", {"PATH": os.environ["PATH"]}), stop=0.2, pace=QUICK)
    return replace(made, **more)
