"""The recipes and explanations: their files pass `check`, links lead somewhere, and pages are short."""

import re
from pathlib import Path

from gateway.config.check import examine
from tests.config.reading import HASH, TODAY
from tests.table import for_each
from tests.test_manual import leads_somewhere, links
from tests.test_manual_examples import has_its_options

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for folder in ("how-to", "explanation") for page in (ROOT / "docs" / folder).glob("*.md"))
VARIABLES = {
    "APP_SHA256": HASH,
    "ACME_SHA256": HASH,
    "GLOBEX_SHA256": "0" * 64,
    "APP_NEW_SHA256": "1" * 64,
    "REDIS_URL": "redis://127.0.0.1/0",
}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\b[^\n]*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@for_each("page", PAGES)
def test_the_files_of_a_recipe_pass_the_check(page: Path) -> None:
    for text in blocks(page, "yaml"):
        found = examine(ROOT / "gateway.yaml", VARIABLES, text=text, today=TODAY)
        assert found.errors == (), page.name


@for_each("page", PAGES)
def test_the_program_knows_each_command_of_a_recipe(page: Path) -> None:
    for words in re.findall(r"`a2a-gateway ([^`]+)`", page.read_text()):
        has_its_options(words.replace('"', ""))


@for_each("page", [*PAGES, ROOT / "docs/tutorial.md"])
def test_every_link_of_a_guide_leads_somewhere(page: Path) -> None:
    assert [link for link in links(page) if not leads_somewhere(page, link)] == []


@for_each("page", PAGES)
def test_a_guide_is_short_but_for_its_code(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(prose.splitlines()) < 120
