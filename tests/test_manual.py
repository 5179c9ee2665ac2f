"""The pages for people: links lead somewhere, the tree of the architecture is the real one, and the safety page names
existing tests.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page
    for folder in (
        ROOT,
        ROOT / "docs",
        ROOT / "docs/decisions",
        ROOT / "benchmarks",
        ROOT / "tests",
        ROOT / "deploy",
        ROOT / "config",
    )
    for page in folder.glob("*.md")
)
_CODE = re.compile(r"```.*?```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([^"]+)"')
_NAME = re.compile(r"_?[a-z0-9]+(?:_[a-z0-9]+)*")
SAFETY = ROOT / "docs/safety.md"
_COUNTS = {"T": 17, "H": 20, "K": 10, "B": 8, "R": 26, "F": 8}
# There is no F7.
SAFETY_ROWS = [f"{group}{number}" for group, last in _COUNTS.items() for number in range(1, last + 1)]
SAFETY_ROWS.remove("F7")
UNTESTED: tuple[str, ...] = ()
"""Rows of the safety page that may say `none` in place of a test."""
_ROW = re.compile(r"^\| ([A-Z]\d+) \|.*\| ([^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"\[(\w+)\]\(([^)]+)\)")


def links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links within the project."""
    for link in _LINK.findall(_CODE.sub("", page.read_text())):
        if _SCHEME.match(link) is None:
            yield link


def anchors(page: Path) -> set[str]:
    text = page.read_text()
    headings = {re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-") for words in _HEADING.findall(text)}
    return headings | set(_ANCHOR.findall(text))


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))


def test_the_pages_are_found() -> None:
    assert {"README.md", "CHANGELOG.md", "architecture.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    assert [link for link in links(page) if not leads_somewhere(page, link)] == []


def tree() -> set[str]:
    """The words of the architecture's tree; the end of a name stands there for those that begin alike."""
    text = (ROOT / "docs/architecture.md").read_text()
    return set(_NAME.findall(text[text.index("## Packages") :].split("```")[1]))


def test_the_tree_names_every_package_and_every_module_beside_them() -> None:
    words = tree()
    top = [path for path in (ROOT / "gateway").iterdir() if not path.name.startswith("_")]
    named = [path.stem for path in top if path.suffix == ".py" or (path / "__init__.py").exists()]
    small = {"certificate", "principal", "tls_failure", "units", "version", "background"}
    assert set(named) - small - words == set()


def test_the_architecture_names_no_file_that_is_gone() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    there = [
        path.relative_to(ROOT).as_posix() for top in ("gateway", "tests", "docs") for path in (ROOT / top).rglob("*.*")
    ]
    named = re.findall(r"`([a-z0-9_/]+\.(?:py|md))`", text)
    assert named
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)] == []


def safety_rows() -> dict[str, str]:
    """Return the last cell of each row of the safety page, by its id."""
    rows = _ROW.findall(SAFETY.read_text())
    assert [name for name, _ in rows] == SAFETY_ROWS
    return dict(rows)


@cache
def functions_of(file: Path) -> frozenset[str]:
    """Return the names of the test functions of a file."""
    nodes = ast.walk(ast.parse(file.read_text()))
    names = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in names if name.startswith("test_"))


def test_every_row_of_the_safety_page_has_a_test() -> None:
    untested = [name for name, cell in safety_rows().items() if _TEST.search(cell) is None]
    assert untested == list(UNTESTED)
    assert all(safety_rows()[name] == "none" for name in UNTESTED)


def test_every_test_that_the_safety_page_names_exists() -> None:
    missing = [
        (name, test)
        for name, cell in safety_rows().items()
        for test, path in _TEST.findall(cell)
        if not (file := SAFETY.parent / path).is_file() or test not in functions_of(file)
    ]
    assert missing == []
