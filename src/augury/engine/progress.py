"""How far a run is, as a value, and the port by which engines tell it to whoever wants to know.

In: counts and times of the data. Out: `Far`, and the words for it. It draws nothing, reads no clock and starts no
thread: who runs a program passes a function, or none, and then nobody counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from augury.clock import show_time
from augury.history.raw import Raw, RawTable

_SECOND_US: Final = 1_000_000
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class Far:
    """How far a run is; what is not known is None.

    `rows` were taken of `rows_all`; `tick` is how far the clock has gone, in microseconds, which is the `ticks`-th tick
    of the run, and `lag_us` how far that lies behind the newest row; `tasks` were done of `tasks_all`, whatever it is
    that they are called.
    """

    doing: str
    rows: int | None = None
    rows_all: int | None = None
    ticks: int | None = None
    tick: int | None = None
    lag_us: int | None = None
    tasks: int | None = None
    tasks_all: int | None = None
    tasks_called: str = "tasks"

    @property
    def share(self) -> float | None:
        """What part of it is done, from 0 to 1, where that can be known."""
        if self.rows is not None and self.rows_all:
            return min(self.rows / self.rows_all, 1.0)
        if self.tasks is not None and self.tasks_all:
            return min(self.tasks / self.tasks_all, 1.0)
        return None


Tell = Callable[[Far], None]
"""Is told how far a run is, as often as the run likes, and from any thread."""


def at_tick(
    doing: str, tick: int | None, first_tick: int | None, newest_us: int | None, chronon_us: int, **known: Any
) -> Far:
    """How far a run is whose clock has come to a tick; every chronon since the first tick counts, idle or not."""
    if tick is None:
        return Far(doing, **known)
    ticks = None if first_tick is None else max((tick - first_tick) // chronon_us + 1, 0)
    lag_us = None if newest_us is None else max(newest_us - tick, 0)
    return Far(doing, ticks=ticks, tick=tick, lag_us=lag_us, **known)


def in_words(far: Far) -> str:
    """What a person reads: rows, ticks, lag, tasks, as far as they are known."""
    parts = []
    if far.rows is not None:
        of = "" if far.rows_all is None else f" of {far.rows_all:,}"
        parts.append(f"{far.rows:,}{of} rows")
    if far.tick is not None:
        parts.append(f"at {show_time(far.tick)}" if far.ticks is None else f"tick {far.ticks:,}, {show_time(far.tick)}")
    if far.lag_us is not None:
        parts.append(f"{_roughly(far.lag_us)} behind")
    if far.tasks is not None and far.tasks_all:
        parts.append(f"{far.tasks:,} of {far.tasks_all:,} {far.tasks_called}")
    return " · ".join(parts)


def _roughly(lag_us: int) -> str:
    """A duration in its two largest units: it changes many times a second, and is there to be glanced at."""
    rest = lag_us // _SECOND_US
    parts: list[str] = []
    for unit, size in _UNITS:
        if rest >= size or parts:
            parts.append(f"{rest // size}{unit}")
            rest %= size
    return " ".join(parts[:2]) or "0s"


def counting(events: Iterable[Raw], tell: Tell | None, doing: str = "reading") -> Iterator[Raw]:
    """The events as they are, telling how many rows have been read."""
    rows = 0
    for raw in events:
        yield raw
        if tell is not None:
            rows += size_of(raw)
            tell(Far(doing, rows))


def size_of(raw: Raw) -> int:
    """How many rows there are."""
    return raw.table.num_rows if isinstance(raw, RawTable) else len(raw.rows)
