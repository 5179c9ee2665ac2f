import pytest

from gateway.config.scalar import Value, plain, surprise


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("False", False), ("", None), ("~", None), ("null", None), ("0", 0), ("-12", -12), ("+7", 7),
        ("1.5", 1.5), ("0.3", 0.3), ("no", "no"), ("010", "010"), ("1e3", "1e3"), ("12:30", "12:30"), ("-", "-"),
        ("2027-06-30", "2027-06-30"), ("127.0.0.1:8080", "127.0.0.1:8080"), ("9" * 19, "9" * 19), (".5", ".5"),
    ],
)  # fmt: skip
def test_a_plain_word_is_a_boolean_nothing_a_decimal_number_or_text(text: str, value: Value) -> None:
    assert plain(text) == value
    assert type(plain(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    ["no", "Yes", "ON", "off", "y", "N", "tRUE", "nULL", "010", "08", "0o17", "0x1F", "0b1", "1_000", "1e3", "1.", ".5",
     "-.5", ".inf", "-.INF", ".nan", "12:30", "1:2:3.5", "=", "9" * 19, "1.5e3"],
)  # fmt: skip
def test_a_word_that_other_tools_read_as_something_else_is_a_surprise(text: str) -> None:
    told = surprise(text)
    assert told is not None
    assert f'"{text}"' in told[1]


@pytest.mark.parametrize("text", ["9" * 19, "-1" + "0" * 18, "1" + "0" * 5000])
def test_a_number_with_too_many_digits_is_not_told_to_be_written_in_digits(text: str) -> None:
    told = surprise(text)
    assert told is not None
    assert told[1].endswith("or write a number of at most 18 digits")


@pytest.mark.parametrize(
    "text",
    ["2027-06-30", "127.0.0.1", "10.0.0.0/8", "1.0.0", "acme", "nobody", "yes-men", "10MiB", "3s", "a:b", "-", "."],
)
def test_a_word_that_all_tools_read_as_text_is_none(text: str) -> None:
    assert surprise(text) is None
