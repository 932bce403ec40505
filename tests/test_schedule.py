"""When the clock posts events: periods, cron patterns, time zones, and the two nights a year on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from augury.algebra.program import Cron, Every
from augury.history.schedule import times_due

SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


def us(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def due(schedule: Cron | Every, since: str, until: str) -> list[str]:
    found = times_due(schedule, us(since), us(until))
    return [datetime.fromtimestamp(t / SECOND, UTC).strftime("%d %H:%M") for t in found]


def test_a_period_is_counted_from_the_epoch_and_the_end_is_left_out() -> None:
    assert list(times_due(Every(5 * MINUTE), 5 * MINUTE, 20 * MINUTE)) == [5 * MINUTE, 10 * MINUTE, 15 * MINUTE]
    assert list(times_due(Every(5 * MINUTE), 5 * MINUTE + 1, 10 * MINUTE)) == []
    assert list(times_due(Every(7), -10, 8)) == [-7, 0, 7]


def test_a_cron_pattern_includes_its_beginning_and_not_its_end() -> None:
    nine = Cron("0 9 * * 1-5", "UTC")
    assert due(nine, "2026-01-01T09:00", "2026-01-06T09:00") == ["01 09:00", "02 09:00", "05 09:00"]
    assert due(nine, "2026-01-01T09:00:00.000001", "2026-01-02T09:00:00.000001") == ["02 09:00"]


def test_a_zone_moves_with_summer_time() -> None:
    vienna = Cron("0 9 * * *", "Europe/Vienna")
    assert due(vienna, "2026-03-28", "2026-03-31") == ["28 08:00", "29 07:00", "30 07:00"]
    assert due(vienna, "2026-10-24", "2026-10-27") == ["24 07:00", "25 08:00", "26 08:00"]


def test_a_time_that_is_skipped_comes_right_after() -> None:
    # On 29 March 2026 Vienna's clocks go from 2:00 to 3:00, which is 1:00 UTC.
    assert due(Cron("30 2 * * *", "Europe/Vienna"), "2026-03-28", "2026-03-31") == ["28 01:30", "29 01:00", "30 00:30"]


def test_a_time_that_comes_twice_is_due_once() -> None:
    # On 25 October 2026 they go back from 3:00 to 2:00, at 1:00 UTC.
    assert due(Cron("30 2 * * *", "Europe/Vienna"), "2026-10-25", "2026-10-26") == ["25 00:30"]


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_every_half_hour_follows_the_time_that_passes(day: str) -> None:
    found = list(times_due(Cron("*/30 * * * *", "Europe/Vienna"), us(day), us(day) + DAY))
    assert found == list(range(us(day), us(day) + DAY, 30 * MINUTE))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
@pytest.mark.parametrize("pattern", ["0 9 * * *", "30 2 * * *", "*/20 * * * *", "15 1,2,3 * * *", "0 0 29 2 *"])
def test_any_cut_gives_the_same_times(pattern: str, zone: str) -> None:
    schedule = Cron(pattern, zone)
    for since in ("2026-03-28", "2026-10-24", "2026-04-04", "2026-11-01", "2028-02-28"):
        begin, end = us(since), us(since) + 3 * DAY
        whole = list(times_due(schedule, begin, end))
        assert whole == sorted(set(whole))
        for cut in (begin + 1, begin + 25 * HOUR + 17, begin + 49 * HOUR, begin + 26 * HOUR + 30 * MINUTE):
            assert [*times_due(schedule, begin, cut), *times_due(schedule, cut, end)] == whole
