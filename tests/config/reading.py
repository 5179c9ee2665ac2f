"""Configurations written in a test."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from textwrap import dedent

from gateway.config.check import examine
from gateway.config.load import Examined
from gateway.config.model import Config
from gateway.config.problem import spell

TODAY = date(2026, 1, 1)
HASH, OTHER_HASH = "a" * 64, "b" * 64
NAME = Path("gateway.yaml")


def examined(text: str, environ: Mapping[str, str] | None = None, path: Path = NAME) -> Examined:
    return examine(path, environ or {}, text=dedent(text), today=TODAY)


def good(text: str, environ: Mapping[str, str] | None = None) -> Config:
    found = examined(text, environ)
    assert found.config is not None, found.problems
    return found.config


def errors(text: str, environ: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Path and fact of every error."""
    return [(spell(problem.path), problem.fact) for problem in examined(text, environ).errors]


def warnings(text: str) -> list[tuple[str, str]]:
    """Path and fact of every warning of a text without errors."""
    found = examined(text)
    assert found.errors == ()
    return [(spell(problem.path), problem.fact) for problem in found.warnings]
