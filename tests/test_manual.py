"""What is written for people: links lead somewhere, and the tree of the architecture is the one that is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page
    for folder in (ROOT, ROOT / "docs", ROOT / "benchmarks", ROOT / "tests", ROOT / "deploy", ROOT / "config")
    for page in folder.glob("*.md")
)
_CODE = re.compile(r"```.*?```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([^"]+)"')
_NAME = re.compile(r"_?[a-z0-9]+(?:_[a-z0-9]+)*")
UNNAMED = ("command", "demo", "a2a/versions")
"""Folders of which the tree says what they are for, and not every file."""


def links(page: Path) -> Iterator[str]:
    """Where a page leads within the project."""
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
    return set(_NAME.findall(text[text.index("## The tree") :].split("```")[1]))


def test_the_tree_names_every_module() -> None:
    words = tree()

    def is_named(module: Path) -> bool:
        parts = module.stem.split("_")
        ends = {"_" + "_".join(parts[start:]) for start in range(1, len(parts))}
        return not words.isdisjoint({module.stem, *ends})

    gateway = ROOT / "gateway"
    modules = [
        module
        for module in gateway.rglob("*.py")
        if not module.stem.startswith("__") and not module.relative_to(gateway).as_posix().startswith(UNNAMED)
    ]
    assert [module.relative_to(gateway).as_posix() for module in modules if not is_named(module)] == []


def test_the_architecture_names_no_file_that_is_gone() -> None:
    # Decisions may name what they did away with.
    text = (ROOT / "docs/architecture.md").read_text().partition("## Decisions")[0]
    there = [
        path.relative_to(ROOT).as_posix() for top in ("gateway", "tests", "docs") for path in (ROOT / top).rglob("*.*")
    ]
    named = re.findall(r"`([a-z0-9_/]+\.(?:py|md))`", text)
    assert named
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)] == []
