"""Durations, times and moments as values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury.clock import (
    UNIT_US,
    Moment,
    NoSuchTime,
    duration_us,
    microseconds_of,
    parse_moment,
    show_duration,
    show_time,
)


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (0, "0s"),
        (1, "0.000001s"),
        (-1_500_000, "-1.5s"),
        (90_000_000, "90s"),
        (120_000_000, "2m"),
        (86_400_000_000, "1d"),
        (-3_600_000_000, "-1h"),
        (2**63 - 1, "9223372036854.775807s"),
    ],
)
def test_a_duration_is_shown_in_the_largest_whole_unit_and_exactly(microseconds: int, shown: str) -> None:
    assert show_duration(microseconds) == shown


@given(st.integers(0, 10_000), st.sampled_from(sorted(UNIT_US)))
def test_a_shown_duration_reads_back(count: int, unit: str) -> None:
    shown = show_duration(duration_us(count, unit))
    assert duration_us(int(shown[:-1]), shown[-1]) == duration_us(count, unit)


def test_times_are_utc_to_the_microsecond() -> None:
    assert show_time(0) == "1970-01-01T00:00:00Z"
    assert show_time(-1) == "1969-12-31T23:59:59.999999Z"
    assert microseconds_of(datetime(2026, 1, 1, 9, tzinfo=UTC)) == microseconds_of(datetime(2026, 1, 1, 9))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1999 06 06 9 20 0", Moment(1999, 6, 6, 9, 20, 0)),
        ("06 06 1999 9 20 0", Moment(1999, 6, 6, 9, 20, 0)),
        ("07-14-1999", Moment(1999, 7, 14, whole_day=True)),
        ("1999-07-14", Moment(1999, 7, 14, whole_day=True)),
        ("1999-07-14T08:00:00Z", Moment(1999, 7, 14, 8)),
        ("1999-07-14T08:00:00+02:00", Moment(1999, 7, 14, 6)),
        ("1999-07-14 08:00", Moment(1999, 7, 14, 8)),
    ],
)
def test_the_forms_of_a_time_between_brackets(text: str, moment: Moment) -> None:
    assert parse_moment(text) == moment
    assert parse_moment(str(moment)) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "02-30-1999",
        "1999 13 01 0 0 0",
        "06 06 99 9 20 0",
        "9 20",
        "1999-06-06T25:00:00Z",
        "1999-06-06T09:20:00.5Z",
        "0001-01-01T00:00:00+14:00",
        "yesterday",
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(NoSuchTime):
        parse_moment(text)
