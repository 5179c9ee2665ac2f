import pytest
import yaml

from gateway.config.syntax import explain


def explained(text: str) -> tuple[int, int, str, str]:
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        list(yaml.parse(text, Loader=yaml.CSafeLoader))
    return explain(caught.value, text.split("\n"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c", (1, 5, "a ': ' stands where no key can")),
        ("a:\n\tb: 1", (2, 1, "the line is indented with a tab")),
        ("a: `x`", (1, 4, "a plain value cannot start with '`'")),
        ("a: 'x\nb: 1\n", (1, 4, "the quote that opens here never closes")),
        ("a: [1\nb: 2", (2, 2, "the [ of this list has no ]")),
        ("- a\nb: 1", (2, 1, "a list ends here in the middle")),
        ('a: "\\q"', (1, 5, "this backslash escape does not exist")),
        ("a: }", (1, 4, "a value is missing here")),
        ("a: - b", (1, 4, "a list cannot start here")),
    ],
)
def test_what_the_parser_says_is_told_in_the_operators_words(text: str, expected: tuple[int, int, str]) -> None:
    *place_and_fact, remedy = explained(text)
    assert tuple(place_and_fact) == expected
    assert remedy


def test_a_reference_that_braces_tore_apart_is_recognised() -> None:
    assert explained("a: { b: ${C} }")[3] == 'inside { } and [ ] a reference needs quotes: "${VAR}"'


def test_what_nobody_foresaw_has_a_place_too() -> None:
    error = yaml.MarkedYAMLError(problem="something new")
    assert explain(error, ())[:3] == (1, 1, "this is no YAML")
