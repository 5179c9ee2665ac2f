"""Durations and sizes, as operators write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.values import parse_duration, parse_size
from tests.table import for_each


@for_each(
    ("text", "seconds"),
    [("250ms", 0.25), ("3s", 3), ("10m", 600), ("1h30m", 5400), ("2d", 172800), ("0s", 0), ("1.5s", 1.5)],
)
def test_a_duration_is_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@for_each(
    "text", ["", "30", "s", "3 s", "3s ", " 3s", "-3s", "3S", "3s4", "1h 30m", "٣s", "1e3s", "inf", "9" * 400 + "s"]
)
def test_a_duration_needs_digits_and_a_unit_and_nothing_else(text: str) -> None:
    with pytest.raises(ValueError, match="unit"):
        parse_duration(text)


@for_each(
    ("text", "size"), [("512", 512), ("512B", 512), ("64KiB", 65536), ("1GB", 10**9), ("10MiB", 10 * 2**20), ("0", 0)]
)
def test_a_size_is_in_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@for_each("text", ["", "KiB", "1.5MiB", "-1", "10 MiB", "10mib", "1K", "٣", "9" * 5000])
def test_a_size_is_a_whole_number_with_or_without_a_unit(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@given(st.integers(0, 365), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_longer_texts_of_one_unit_are_longer_times(number: int, unit: str) -> None:
    assert parse_duration(f"{number}{unit}") <= parse_duration(f"{number + 1}{unit}")
