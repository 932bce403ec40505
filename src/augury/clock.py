"""Durations, moments and chronons as values; reads no clock.

All arithmetic is in whole microseconds UTC since the epoch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

UNIT_US = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration_us(count: int, unit: str) -> int:
    """The microseconds of a duration such as 15 `m`."""
    return count * UNIT_US[unit]


def parse_duration(text: str) -> int:
    """The microseconds of a duration as it is written, `15m`; raises ValueError."""
    found = re.fullmatch(r"\s*(\d+)\s*([dhms])\s*", text)
    if found is None or not int(found[1]):
        raise ValueError(f"`{text}` is no duration: write 5d, 10h, 15m or 30s")
    return duration_us(int(found[1]), found[2])


def show_duration(microseconds: int) -> str:
    """The shortest spelling in whole units, e.g. `15m`; finer than a second as a fraction of seconds."""
    if microseconds == 0:
        return "0s"
    for unit, size in UNIT_US.items():
        if microseconds % size == 0:
            return f"{microseconds // size}{unit}"
    sign, size = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    return f"{sign}{size // 1_000_000}.{size % 1_000_000:06d}".rstrip("0") + "s"


def microseconds_of(moment: datetime) -> int:
    """Microseconds since the epoch; a moment without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def moment_of(microseconds: int) -> datetime:
    """Microseconds since the epoch as a moment in UTC."""
    return EPOCH + timedelta(microseconds=microseconds)


def show_time(microseconds: int) -> str:
    """ISO-8601 with `Z`, as all output writes times."""
    return moment_of(microseconds).replace(tzinfo=None).isoformat() + "Z"


@dataclass(frozen=True, slots=True)
class Moment:
    """A time between brackets in a COMPOSITE: UTC to the second, or a whole day."""

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    whole_day: bool = False

    def first_us(self) -> int:
        """The first microsecond it covers."""
        return microseconds_of(datetime(self.year, self.month, self.day, self.hour, self.minute, self.second))

    def last_us(self) -> int:
        """The last microsecond it covers: of its day, or of its second."""
        length = UNIT_US["d"] if self.whole_day else UNIT_US["s"]
        return self.first_us() + length - 1

    def __str__(self) -> str:
        """ISO, as `fmt` writes it."""
        date = f"{self.year:04d}-{self.month:02d}-{self.day:02d}"
        return date if self.whole_day else f"{date}T{self.hour:02d}:{self.minute:02d}:{self.second:02d}Z"


class NoSuchTime(ValueError):
    """The text between brackets is no time; the message is one sentence for the user."""


_DATE = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,4})")


def parse_moment(text: str) -> Moment:
    """Read `yyyy mm dd hh mi ss`, `mm dd yyyy hh mi ss`, `mm-dd-yyyy` or an ISO time."""
    words = text.split()
    if len(words) == 6 and all(w.isascii() and w.isdigit() and len(w) <= 4 for w in words):
        return _from_fields(words[:3], [int(w) for w in words[3:]])
    if found := _DATE.fullmatch(text.strip()):
        return _from_fields(list(found.groups()), None)
    try:
        iso = datetime.fromisoformat(text.strip())
    except ValueError:
        raise NoSuchTime(
            "a time is written [yyyy mm dd hh mi ss], [mm dd yyyy hh mi ss], [mm-dd-yyyy] or as an ISO time"
        ) from None
    if iso.microsecond:
        raise NoSuchTime("a time between brackets is exact to the second, not finer")
    try:
        utc = iso.astimezone(UTC) if iso.tzinfo else iso
    except OverflowError:
        raise NoSuchTime("the time lies outside the years 1 to 9999") from None
    return _checked(Moment(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second))


def _from_fields(date: list[str], clock: list[int] | None) -> Moment:
    year, month, day = date if len(date[0]) == 4 else (date[2], date[0], date[1])
    if len(year) != 4:
        raise NoSuchTime("the year is written with four digits, first or third")
    hour, minute, second = clock or (0, 0, 0)
    return _checked(Moment(int(year), int(month), int(day), hour, minute, second, whole_day=clock is None))


def _checked(moment: Moment) -> Moment:
    try:
        moment.first_us()
    except ValueError as error:
        raise NoSuchTime(f"there is no such time: {error}") from None
    return moment
