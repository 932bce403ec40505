"""The nouns: what comes in, what is kept, what is refused.

Times are microseconds since the epoch. Values stand in the order in which the class declares its attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from augury.algebra.scalar import Value
from augury.event import EventClass, key_of

Key = tuple[Value, ...]
EventId = tuple[str, Key]
"""What an event is known by: its class and the values of its key."""


class Absent(Enum):
    """The type of `ABSENT`: an occ_time that was left out, which is not the same as NULL."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class Change(StrEnum):
    """What a version does to its event."""

    ANNOUNCE = "announce"
    CHANGE = "change"
    WITHDRAW = "withdraw"


class Reason(StrEnum):
    """Why a version is refused."""

    NO_TIME = "no time"
    IMMUTABLE = "immutable"
    NOT_THERE = "not there"


@dataclass(frozen=True, slots=True)
class Raw:
    """A version as it comes in. An `occ_time` of None withdraws; a `det_time` of None was left out."""

    event_class: str
    values: tuple[Value, ...]
    occ_time: int | Absent | None
    det_time: int | None
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """An accepted or derived version; withdrawn if `occ_time` is None. `constituents` are numbers of versions.

    `seq` is None for what a SELECT derives, a timer completes, or an event of a SELECT completes; of another complex
    event it is that of the version at which it takes place.
    """

    event_class: str
    key: Key
    values: tuple[Value, ...]
    occ_time: int | None
    det_time: int
    change: Change
    seq: int | None = None
    event_id: str | None = None
    constituents: tuple[int, ...] = ()

    @property
    def event(self) -> EventId:
        """The event it is a version of."""
        return self.event_class, self.key


@dataclass(frozen=True, slots=True)
class Rejected:
    """A version that was refused, and why; `tick` is None where no time says when."""

    tick: int | None
    raw: Raw
    reason: Reason


def key_values(event_class: EventClass, values: Sequence[Value]) -> Key:
    """The values of the key attributes, in the order of the ID."""
    names = [key_of(attribute.name) for attribute in event_class.attributes]
    return tuple(values[names.index(key_of(name))] for name in event_class.key)


def rank(value: Value) -> tuple[bool, bool, object]:
    """What a value is sorted by: NULL after all others, NaN after all numbers."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None, is_nan, 0 if value is None or is_nan else value


def ranks(values: Iterable[Value]) -> tuple[tuple[bool, bool, object], ...]:
    """What several values are sorted by, the first first; equal where the values are."""
    return tuple(rank(value) for value in values)
