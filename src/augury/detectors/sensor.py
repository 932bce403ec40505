"""What a detector sees: items at a position, from sources that are polled and from sources that push.

Values and protocols only. A sensor knows how its source is read; it knows neither what was seen before (`buffer`) nor
who takes the events (`sinks`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from augury.history.raw import Broken


class BadDetector(ValueError):
    """A detector that can never work as it is declared; the message says what to mend."""


class SourceFailed(Exception):
    """A source that gave no answer this time; `after_seconds` is when it wants to be asked again, if it says so."""

    def __init__(self, reason: str, after_seconds: float | None = None) -> None:
        """Keep the reason as the message."""
        super().__init__(reason)
        self.after_seconds = after_seconds


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a source shows: its values by name.

    `place` is where it stands in the source, if it has a place that stays its own. `is_text` says that values are
    spelled out, as in CSV and on pages. `is_event` says that it has the shape of an event in JSON Lines: it may name
    its class, and an `occ_time` of null withdraws.
    """

    values: Mapping[str, object]
    place: str | None = None
    is_text: bool = False
    is_event: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look gave, and the position after it.

    `whole` says that these are all items there are, so that one which is not among them has vanished. `more` says
    that there is more to see at once. `problem` is why it is only a part of what should be there.
    """

    items: tuple[Item | Broken, ...]
    position: bytes | None
    whole: bool = False
    more: bool = False
    problem: str | None = None


@runtime_checkable
class Polled(Protocol):
    """A source that is asked again and again."""

    async def poll(self, position: bytes | None) -> Seen:
        """What there is after a position, None for the beginning; raises `SourceFailed`."""
        ...


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a source pushed; `taken` tells it that it need not send it again."""

    seen: Seen
    taken: Callable[[], Awaitable[None]]


@runtime_checkable
class Pushed(Protocol):
    """A source that sends by itself, and sends again what was not told to be taken."""

    def follow(self, position: bytes | None) -> AsyncGenerator[Arrived]:
        """What arrives, as long as somebody asks for more; raises `SourceFailed`."""
        ...


Sensor = Polled | Pushed
