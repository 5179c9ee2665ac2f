"""Dialects and the versions that name them."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.dialect import Version, parse_version


@given(st.text())
def test_no_text_does_more_than_be_unknown(text: str) -> None:
    assert parse_version(text) in (None, *Version)
