"""The timing primitives, row by row as the table in LANGUAGE.md section 5.

In: a primitive and the moment at which a condition is looked at. Out: whether it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from augury.algebra.scalar import Timing, TimingPrimitive
from augury.kernels.reference.bitemporal.version import Version


@dataclass(frozen=True, slots=True)
class Moment:
    """A tick, the two versions of an event that conditions see, and what they have to remember of it.

    `is_read`: the tick has read NEW. `is_settled`: the event was ONTIME or LATE at an earlier tick since it was last
    announced or postponed. `fired`: the actions, by name, that fired for it at earlier ticks since it was announced.
    """

    tick: int
    chronon_us: int
    old: Version | None
    new: Version
    is_read: bool
    is_settled: bool = False
    fired: frozenset[str] = frozenset()


def holds(timing: Timing, at: Moment, action: str = "") -> bool:
    """Whether a primitive holds; `action` is the name, casefolded, that FIRED asks for."""
    old_is_ahead, old_has_happened = _is_ahead(at.old, at.tick), _has_happened(at.old, at.tick)
    new_is_ahead, new_has_happened = _is_ahead(at.new, at.tick), _has_happened(at.new, at.tick)
    is_withdrawn = at.new.occ_time is None
    match timing.primitive:
        case TimingPrimitive.ANNOUNCEMENT:
            return at.is_read and (at.old is None or at.old.occ_time is None) and not is_withdrawn
        case TimingPrimitive.CHANGE:
            return at.is_read and old_is_ahead and not is_withdrawn
        case TimingPrimitive.CANCELLATION:
            return at.is_read and old_is_ahead and is_withdrawn
        case TimingPrimitive.RETROACTIVECHANGE:
            return at.is_read and old_has_happened and new_has_happened
        case TimingPrimitive.POSTPONE:
            return at.is_read and old_has_happened and new_is_ahead
        case TimingPrimitive.REVOCATION:
            return at.is_read and old_has_happened and is_withdrawn
        case TimingPrimitive.FUTURE:
            return at.is_read and new_is_ahead
        case TimingPrimitive.ONTIME:
            return is_due(at.new, at.tick, at.chronon_us) and not at.is_settled
        case TimingPrimitive.LATE:
            return at.is_read and not at.is_settled and _is_late(timing, at)
        case TimingPrimitive.FIRED:
            return action in at.fired
        case _:
            assert_never(timing.primitive)


def is_due(version: Version, tick: int, chronon_us: int) -> bool:
    """Whether a version happens in the chronon that a tick ends."""
    return version.occ_time is not None and tick - chronon_us <= version.occ_time < tick


def is_settled_now(at: Moment) -> bool:
    """Whether the event is ONTIME or LATE, whatever the bounds, at this tick."""
    return holds(Timing(TimingPrimitive.ONTIME), at) or holds(Timing(TimingPrimitive.LATE), at)


def _is_late(timing: Timing, at: Moment) -> bool:
    if at.new.occ_time is None or at.new.occ_time >= at.tick - at.chronon_us:
        return False
    delay = at.new.det_time - at.new.occ_time
    whole = delay - delay % at.chronon_us
    return (timing.minimum_us is None or timing.minimum_us <= whole) and (
        timing.maximum_us is None or whole <= timing.maximum_us
    )


def _is_ahead(version: Version | None, tick: int) -> bool:
    return version is not None and version.occ_time is not None and version.occ_time >= tick


def _has_happened(version: Version | None, tick: int) -> bool:
    return version is not None and version.occ_time is not None and version.occ_time < tick
