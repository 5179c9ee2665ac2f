"""The pages of docs/reference say what the code says."""

from gateway.config.model import REMOVED
from tests.bounds import KEYS, NUMBERS_WITHOUT_BOUND, ranges
from tests.reference import FOLDER, PAGES, RELEASES, kind_of, mappings


def test_the_reference_pages_are_those_that_the_code_gives() -> None:
    written = {path.stem: path.read_text() for path in FOLDER.glob("*.md")}
    assert written == {name: page() for name, page in PAGES.items()}, "run python -m tests.reference"


def test_every_key_of_a_release_is_there_or_is_told_to_be_removed() -> None:
    now = {f"{name}.{key}" for name, _, keys in mappings() for key in keys}
    released = {each for path in RELEASES for each in path.read_text().split()}
    told = {pattern.rpartition(".")[2] for pattern in REMOVED}
    assert released
    assert [each for each in sorted(released - now) if each.rpartition(".")[2] not in told] == []


def test_every_key_that_is_a_number_is_told_with_what_comes_beyond_it() -> None:
    numbers = {
        f"{name}.{key}"
        for name, _, keys in mappings()
        for key, node in keys.items()
        if ranges(kind_of(node), name, key) is not None
    }
    assert numbers - NUMBERS_WITHOUT_BOUND == set(KEYS)
