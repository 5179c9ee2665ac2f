"""Parts of the pages of figures: tables, the machine, and paragraphs written by hand."""

import os
import platform
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

BEGIN, END = "<!-- written by hand: begin -->", "<!-- written by hand: end -->"
"""Text between these lines survives the next run."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is words and whose others are figures."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def machine(*packages: str) -> str:
    """Return the machine that figures were taken on, with these packages; without the full stop."""
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    cpu = model[1] if model else platform.machine()
    software = [f"{platform.python_implementation()} {platform.python_version()}"]
    software += [f"{name} {version(name)}" for name in packages]
    return f"{os.cpu_count()} cores of {cpu}; {', '.join(software)}"


def kept(page: Path, heading: str) -> str:
    """The section that is written by hand, as it stands in a page, or with room for it where there is none yet."""
    if page.exists():
        text = page.read_text()
        begin, end = text.find(heading), text.find(END)
        if 0 <= begin < end:
            return text[begin : end + len(END)] + "\n"
    return f"{heading}\n\n{BEGIN}\n\nTo be written.\n\n{END}\n"
