from pathlib import Path

from gateway.config.reader import read
from gateway.config.secrets import Interpolation
from gateway.config.source import Marks


def marked(text: str) -> Marks:
    return read(Path("gateway.yaml"), Interpolation({}), text).marks


def test_a_key_and_its_value_have_places_of_their_own() -> None:
    marks = marked("agents:\n  a: http://x\n")
    assert (str(marks.key(("agents", "a"))), str(marks.place(("agents", "a")))) == ("gateway.yaml:2", "gateway.yaml:2")
    assert (marks.key(("agents", "a")).column, marks.place(("agents", "a")).column) == (3, 6)


def test_what_a_short_form_leaves_out_is_found_at_the_nearest_that_is_written() -> None:
    marks = marked("agents: { a: http://x, b: { match: { path: / } } }\n")
    assert marks.find(("agents", "a", "backend", "url")) == ("agents", "a")
    assert marks.find(("agents", "b", "match", 0, "path")) == ("agents", "b", "match", "path")
    assert marks.find(("agents", "b", "match", 1, "path")) == ("agents", "b", "match")
    assert marks.find(("tenants", "x")) == ()


def test_what_is_written_nowhere_has_a_place_too() -> None:
    assert str(Marks().place(("agents", "a"))) == "<built in>:1"
