"""Moments as the hub writes them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.versions.timestamp import to_utc

ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-02-03T04:05:06.789Z", "2026-02-03T04:05:06.789Z"),
        ("2026-02-03T04:05:06Z", "2026-02-03T04:05:06Z"),
        ("2026-02-03T04:05:06.249570Z", "2026-02-03T04:05:06.249570Z"),
        ("2026-02-03T04:05:06.123456789Z", "2026-02-03T04:05:06.123456789Z"),
        ("2026-02-03T04:05:06.1234567899Z", "2026-02-03T04:05:06.123456789Z"),
        ("2026-02-03T04:05:06", "2026-02-03T04:05:06Z"),
        ("2026-02-03 04:05:06.5", "2026-02-03T04:05:06.5Z"),
        ("2026-02-03t04:05z", "2026-02-03T04:05:00Z"),
        ("2026-02-03T04:05:06+00:00", "2026-02-03T04:05:06Z"),
        ("2026-02-03T04:05:06.7+02:00", "2026-02-03T02:05:06.7Z"),
        ("2026-01-01T00:30:00+0130", "2025-12-31T23:00:00Z"),
        ("2025-12-31T23:30:00-01:00", "2026-01-01T00:30:00Z"),
    ],
)
def test_a_moment_is_written_in_utc(said: str, meant: str) -> None:
    assert to_utc(said) == meant


@pytest.mark.parametrize(
    "said",
    [
        "", "now", "2026-02-03", "2026-13-03T04:05:06Z", "2026-02-30T04:05:06Z", "2026-02-03T24:05:06Z",
        "2026-02-03T04:05:06+24:00", "2026-02-03T04:05:06+01:60", "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00", "2026-02-03T04:05:06Z\n", "\uff12026-02-03T04:05:06Z", "2026-02-03T04:05:06.Z",
        "1770091506",
    ],
)  # fmt: skip
def test_what_names_no_moment_is_none(said: str) -> None:
    assert to_utc(said) is None


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=ZONES))  # noqa: DTZ001 - bounds of what is drawn, which has a zone
def test_the_moment_stays_the_same(moment: datetime) -> None:
    written = to_utc(moment.isoformat())
    assert written is not None
    assert written.endswith("Z")
    assert datetime.fromisoformat(written) == moment.astimezone(UTC)
    assert to_utc(written) == written


@given(st.text())
def test_no_text_does_harm(text: str) -> None:
    to_utc(text)
