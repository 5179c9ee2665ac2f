"""Dialects and the versions that name them."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.dialect import Binding, Dialect, Version, parse_version
from tests.table import for_each


@for_each(
    ("text", "version"),
    [
        ("1.0", Version.V1_0),
        ("1.0.0", Version.V1_0),
        ("1.0.9-beta", Version.V1_0),
        (" 1.0 ", Version.V1_0),
        ("1", Version.V1_0),
        ("0.3", Version.V0_3),
        ("0.3.0", Version.V0_3),
        ("0.2.5", Version.V0_3),
        ("0.2", Version.V0_3),
        ("0.1", Version.V0_1),
        ("0.1.0", Version.V0_1),
    ],
)
def test_a_patch_number_is_nothing_and_0_2_is_read_as_0_3(text: str, version: Version) -> None:
    assert parse_version(text) is version


@for_each("text", ["", "2.0", "1.1", "0.30", "0", "v1.0", "1,0", "1.0, 0.3", "01.0", "1.00", "..", "\uff11.0"])
def test_other_versions_are_not_known(text: str) -> None:
    assert parse_version(text) is None


@given(st.text())
def test_no_text_does_more_than_be_unknown(text: str) -> None:
    assert parse_version(text) in (None, *Version)


def test_a_dialect_reads_as_a_card_spells_it() -> None:
    assert str(Dialect(Binding.REST, Version.V1_0)) == "HTTP+JSON 1.0"
    assert [binding.label for binding in Binding] == ["jsonrpc", "rest", "grpc"]
