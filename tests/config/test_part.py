"""A mapping of the file is closed and does not change."""

import pytest
from pydantic import ValidationError

from gateway.config.part import Part, every_part


class Lamp(Part):
    """A lamp."""

    colour: str = "white"
    """What it shines in."""


class Lantern(Lamp):
    """A lamp that is carried."""

    handle: str = "ring"
    """What it is held by."""


def test_mappings_that_extend_others_are_known_too() -> None:
    assert {Lamp, Lantern} <= set(every_part())
    assert Part not in every_part()


def test_a_key_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValidationError, match="color"):
        Lamp.model_validate({"color": "red"})


def test_what_was_read_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Lamp(colour="red").colour = "blue"  # type: ignore[misc]  # what is tested


def test_the_words_below_a_key_are_its_manual() -> None:
    assert Lamp.model_json_schema()["properties"]["colour"]["description"] == "What it shines in."
