"""Tests of what the strict server of `serve` promises, and an ASGI server does not: they are skipped behind one."""

import re
from pathlib import Path

import pytest

from tests.edge import IS_ASGI

_PAGE = Path(__file__).parents[2] / "docs/asgi.md"
_ROWS = re.findall(r"^\| ([^|]+) \|", _PAGE.read_text(), re.MULTILINE)


def strict_server_only(row: str) -> pytest.MarkDecorator:
    """Mark a test, with a row of the table in docs/asgi.md as its reason.

    Args:
        row: The first words of the row.
    """
    return pytest.mark.skipif(IS_ASGI, reason=_reason(row))


def skip_behind_asgi(row: str) -> None:
    """As `strict_server_only`, for what several tests set up."""
    if IS_ASGI:
        pytest.skip(_reason(row))


def _reason(row: str) -> str:
    [found] = [each for each in _ROWS if each.startswith(row)]
    return f"only the strict server: {found} (docs/asgi.md)"
