"""Benchmarks run seldom; each still fits the gateway that it measures."""

import importlib
from pathlib import Path

from tests.table import for_each

FOLDER = Path(__file__).parents[2] / "benchmarks"
MODULES = [
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    for path in sorted(FOLDER.rglob("*.py"))
    if path.name != "__init__.py"
]


@for_each("name", MODULES)
def test_every_module_of_the_benchmarks_can_be_imported(name: str) -> None:
    importlib.import_module(name)
