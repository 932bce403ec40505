"""The timing primitives of conditions, one function each, over columns.

In: what is known of each event that a condition looks at: NEW, OLD, and whether it has been on time or late. Out: where
the primitive holds; never NULL. The words are those of the table in the language contract. It knows no attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from augury.algebra.scalar import Timing, TimingPrimitive
from augury.kernels.batch import Integers
from augury.kernels.columns.column import Mask


@dataclass(frozen=True, slots=True)
class Facts:
    """What the primitives look at, a row an event, at the tick that ends the chronon [tick − chronon, tick).

    `has_old` says that a version was current before NEW was read: one that was withdrawn was not. `old_occ` has no
    meaning without it, and `new_occ` none where `withdrawn` says that NEW withdraws the event. `fresh`: this tick read
    NEW; if not, an earlier one did.
    """

    tick: int
    chronon_us: int
    fresh: bool
    has_old: Mask
    old_occ: Integers
    new_occ: Integers
    new_det: Integers
    withdrawn: Mask

    @property
    def done(self) -> Mask:
        """The event has been ONTIME or LATE at an earlier tick since it was last announced or postponed.

        That takes no memory. An OLD before this chronon was on time at the tick after it or late when it was read, if
        nothing had been before it; and it was no postponement since. An OLD that is not was ahead when it was read, so
        announced, postponed, or changed while it was ahead. Where an earlier tick read NEW, NEW can only be on time,
        and so was ahead then.
        """
        done: Mask = self.has_old & (self.old_occ < self.tick - self.chronon_us) & self.fresh
        return done

    @property
    def old_ahead(self) -> Mask:
        """There is OLD, and it is ahead."""
        ahead: Mask = self.has_old & (self.old_occ >= self.tick)
        return ahead

    @property
    def old_happened(self) -> Mask:
        """There is OLD, and it has happened."""
        happened: Mask = self.has_old & (self.old_occ < self.tick)
        return happened

    @property
    def new_ahead(self) -> Mask:
        """NEW is not withdrawn, and ahead."""
        ahead: Mask = ~self.withdrawn & (self.new_occ >= self.tick)
        return ahead

    @property
    def new_happened(self) -> Mask:
        """NEW is not withdrawn, and has happened."""
        happened: Mask = ~self.withdrawn & (self.new_occ < self.tick)
        return happened

    @property
    def new_in_chronon(self) -> Mask:
        """NEW is not withdrawn, and happened in the chronon that ends at this tick."""
        inside: Mask = self.new_happened & (self.new_occ >= self.tick - self.chronon_us)
        return inside


def announcement(facts: Facts) -> Mask:
    """There is no OLD (or it was withdrawn), and NEW is not withdrawn."""
    return ~facts.has_old & ~facts.withdrawn & facts.fresh


def change(facts: Facts) -> Mask:
    """OLD is ahead, NEW is not withdrawn."""
    return facts.old_ahead & ~facts.withdrawn & facts.fresh


def cancellation(facts: Facts) -> Mask:
    """OLD is ahead, NEW is withdrawn."""
    return facts.old_ahead & facts.withdrawn & facts.fresh


def retroactive_change(facts: Facts) -> Mask:
    """OLD has happened, NEW has happened."""
    return facts.old_happened & facts.new_happened & facts.fresh


def postpone(facts: Facts) -> Mask:
    """OLD has happened, NEW is ahead."""
    return facts.old_happened & facts.new_ahead & facts.fresh


def revocation(facts: Facts) -> Mask:
    """OLD has happened, NEW is withdrawn."""
    return facts.old_happened & facts.withdrawn & facts.fresh


def future(facts: Facts) -> Mask:
    """NEW is ahead."""
    return facts.new_ahead & facts.fresh


def on_time(facts: Facts) -> Mask:
    """NEW lies in the chronon that ends at this tick, unless the event has been on time or late."""
    return facts.new_in_chronon & ~facts.done


def late(facts: Facts, minimum_us: int | None = None, maximum_us: int | None = None) -> Mask:
    """NEW lies before that chronon, unless …; the delay in whole chronons lies within the bounds, both included."""
    found: Mask = facts.new_happened & ~facts.new_in_chronon & ~facts.done & facts.fresh
    if minimum_us is None and maximum_us is None:
        return found
    delay = np.where(found, facts.new_det - facts.new_occ, 0)
    whole = delay - delay % facts.chronon_us
    if minimum_us is not None:
        found &= whole >= minimum_us
    if maximum_us is not None:
        found &= whole <= maximum_us
    return found


_PLAIN: Mapping[TimingPrimitive, Callable[[Facts], Mask]] = MappingProxyType(
    {
        TimingPrimitive.ANNOUNCEMENT: announcement,
        TimingPrimitive.CHANGE: change,
        TimingPrimitive.CANCELLATION: cancellation,
        TimingPrimitive.RETROACTIVECHANGE: retroactive_change,
        TimingPrimitive.POSTPONE: postpone,
        TimingPrimitive.REVOCATION: revocation,
        TimingPrimitive.FUTURE: future,
        TimingPrimitive.ONTIME: on_time,
    }
)


def fired(first_tick: Integers, facts: Facts) -> Mask:
    """The action fired at an earlier tick, the first of them given, since the event was announced."""
    return first_tick < facts.tick


def holds(timing: Timing, facts: Facts) -> Mask:
    """Where a primitive holds, FIRED apart: that one is about an action."""
    if timing.primitive is TimingPrimitive.LATE:
        return late(facts, timing.minimum_us, timing.maximum_us)
    return _PLAIN[timing.primitive](facts)
