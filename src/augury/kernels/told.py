"""What `why` and `why_not` answer, for MATCH and COMPOSITE alike: plain values that read as text.

In: nothing; the modules called `why` and `why_not` make them. They know no kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from augury.algebra.scalar import Constant, dump
from augury.clock import show_duration, show_time
from augury.diagnostics import Span
from augury.types import STRING, Duration, Timestamp


class NotAnOccurrence(LookupError):
    """The expression does not take place there, or not with these constituents; `why_not` says why."""


@dataclass(frozen=True, slots=True)
class Constituent:
    """An event of an occurrence tuple, and the parts that it satisfies; of a complex event the versions `made_of`."""

    seq: int
    event_class: str
    event: str
    occ_time: int
    parts: tuple[str, ...]
    made_of: tuple[int, ...]

    def dump(self, width: int = 0) -> str:
        """One line; the event takes up so many characters."""
        place = f"seq {self.seq}" if self.seq > 0 else "by the clock"
        return f"{place}  {self.event:<{width}} at {show_time(self.occ_time)}  as {', '.join(self.parts)}"


@dataclass(frozen=True, slots=True)
class Timer:
    """The clock in the place of an event: the time that it stands for, and when it was due."""

    part: str
    occ_time: int
    det_time: int

    def dump(self) -> str:
        """One line."""
        late = "" if self.occ_time == self.det_time else f", noticed at {show_time(self.det_time)}"
        return f"the clock at {show_time(self.occ_time)}{late}  as {self.part}"


@dataclass(frozen=True, slots=True)
class Instant:
    """A place in the order of all that happens: a version by its `seq`, or the clock at a time."""

    seq: int | None
    time: int

    def __str__(self) -> str:
        """As a sentence names it."""
        return show_time(self.time) if self.seq is None else f"seq {self.seq}"


@dataclass(frozen=True, slots=True)
class Absence:
    """A negated part that stayed away: after one place, if there is one, and before another, or up to it.

    So many as `uncounted` came all the same, but had expired, or were older than WITHIN looks back.
    """

    part: str
    after: Instant | None
    end: Instant
    including: bool
    uncounted: int = 0

    def dump(self) -> str:
        """One line."""
        since = "" if self.after is None else f"after {self.after} and "
        but = f" ({self.uncounted} came, but no longer counted)" if self.uncounted else ""
        return f"no {self.part} {since}{'up to' if self.including else 'before'} {self.end}{but}"


@dataclass(frozen=True, slots=True)
class Why:
    """An occurrence: its tuple, earliest first, the variables that it binds, the clock's part in it, what stayed away.

    It takes place at the event `seq`; where that is None the clock completed it, as the last of `timers` says, or it is
    a row of a SELECT, which `tick` gave.
    """

    seq: int | None
    events: tuple[Constituent, ...]
    values: tuple[tuple[str, Constant], ...]
    timers: tuple[Timer, ...] = ()
    absences: tuple[Absence, ...] = ()
    tick: int | None = None

    @property
    def constituents(self) -> list[int]:
        """The subscribed versions, ascending, as an occurrence lists them."""
        return sorted({seq for one in self.events for seq in one.made_of})

    def dump(self) -> str:
        """A title, and a line a constituent, timer and absence."""
        bound = ", ".join(f"{name} = {value_text(value)}" for name, value in self.values)
        width = max(len(one.event) for one in self.events)
        place = self._place()
        lines = [
            *(one.dump(width) for one in self.events),
            *(one.dump() for one in self.timers),
            *(one.dump() for one in self.absences),
        ]
        return "\n".join([f"takes place {place}{f' with {bound}' if bound else ''}", *(f"  {line}" for line in lines)])

    def _place(self) -> str:
        if self.seq is not None:
            return f"at {self.seq}"
        if self.tick is not None:
            return f"at the tick {show_time(self.tick)}"
        # What an event of the clock completes that is a class of its own has no timer here.
        last = self.timers[-1].occ_time if self.timers else self.events[-1].occ_time
        return f"by the clock at {show_time(last)}"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """What failed at the event `seq`: a part, where it stands in the program, and one sentence.

    Where `seq` is None the clock was asked about, at `time`.
    """

    seq: int | None
    took_place: bool
    part: str
    span: Span
    sentence: str
    time: int | None = None

    def dump(self) -> str:
        """One line, or two with the part."""
        if self.took_place:
            return self.sentence
        place = self.seq if self.time is None else show_time(self.time)
        return f"does not take place at {place}: {self.sentence}\n  because of {self.part}"


def value_text(constant: Constant) -> str:
    """A value as people read it, whatever its type."""
    match constant.value, constant.type:
        case None, _:
            return "NULL"
        case int(microseconds), Timestamp():
            return show_time(microseconds)
        case int(microseconds), Duration():
            return show_duration(microseconds)
        case str(text), _:
            return dump(Constant(text, STRING))
        case bool(flag), _:
            return str(flag).upper()
        case value, _:
            return str(value)


def with_article(name: str) -> str:
    """A class with its article."""
    return f"{'an' if name[:1].upper() in 'AEIOU' else 'a'} {name}"
