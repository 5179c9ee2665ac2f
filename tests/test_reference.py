"""The pages of docs/reference say what the code says."""

from tests.reference import FOLDER, PAGES


def test_the_reference_pages_are_those_that_the_code_gives() -> None:
    written = {path.stem: path.read_text() for path in FOLDER.glob("*.md")}
    assert written == {name: page() for name, page in PAGES.items()}, "run python -m tests.reference"
