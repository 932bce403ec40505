"""What a unit with ORDER BY OCCURRENCE remembers, and what of it can be let go.

In: a plan and a unit of it. Out: an `OccurrenceState`, which `engine.by_occurrence` moves on.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from augury.algebra.composite import AbsentFor, CompositePlan, Periodic, Plus, walk
from augury.algebra.expression import Choice, MatchPlan
from augury.algebra.program import ClassPlan
from augury.algebra.scalar import Field, Previous
from augury.engine.corrected import Corrected, codes_wanted, corrected
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit, SelectUnit
from augury.engine.standing import Standing
from augury.engine.unit_kernels import (
    Detecting,
    Kernel,
    begun,
    by_occurrence,
    held_by,
    history_classes,
    next_due,
    places_of,
    read_kernel,
)
from augury.kernels.batch import Integers
from augury.kernels.match.detector import aggregates

LONG_AGO: Final = -(1 << 62)
TOO_OLD: Final = -1
"""The rank of a version whose place is gone, for nothing can change it any more."""
_SPARE: Final = 1024


@dataclass(frozen=True, slots=True)
class Saved:
    """A state of the kernel after so many versions, and how many occurrences were found by then; None: the first."""

    end: int
    found: int
    content: bytes | None


@dataclass(slots=True)
class OccurrenceState:
    """What a unit with ORDER BY OCCURRENCE remembers.

    `ahead` is how far the clock of the kernel has gone, `clock` how far that of the engine, and `greatest` the newest
    occ_time that was ever in the history. `settled` is how many versions there were when some were last let go.
    `happened` has the occ_time of versions that complex events of the history may be made of.
    """

    history: Corrected
    kernel: Kernel
    standing: Standing = field(default_factory=Standing)
    saved: list[Saved] = field(default_factory=lambda: [Saved(0, 0, None)])
    ahead: int = LONG_AGO
    clock: int = LONG_AGO
    greatest: int = LONG_AGO
    settled: int = 0
    happened: dict[int, int] = field(default_factory=dict)

    def next_due(self) -> int:
        """When a timer is due next."""
        return next_due(self.kernel)

    def held_seqs(self) -> Integers:
        """The `seq` of every version that something may still be made of."""
        told = [np.array(one.told[1], np.int64) for stack in self.standing.events.values() for one in stack]
        return np.concatenate([self.history.all_seqs(), *told])

    def is_full(self) -> bool:
        """Whether it is time to look which versions can no longer change."""
        return self.history.count > 2 * self.settled + _SPARE


def occurrence_state(plan: EnginePlan, unit: Detecting) -> OccurrenceState:
    """Before the first version."""
    classes = history_classes(plan, unit)
    history = corrected(classes, len(plan.received), asks_detected=asks_detected(plan, unit))
    return OccurrenceState(history, begun(plan, unit))


def asks_detected(plan: EnginePlan, unit: Detecting) -> bool:
    """Whether a mask, WHERE, RETURN or COLLECT of a unit reads detTime."""
    return _reads_det_time(tuple(plan.classes[place].derivation for place in places_of(unit)))


def _reads_det_time(part: object) -> bool:
    if isinstance(part, tuple):
        return any(map(_reads_det_time, part))
    if isinstance(part, Field | Previous):
        return part.name == "det_time"
    return is_dataclass(part) and any(_reads_det_time(getattr(part, one.name)) for one in fields(part))


def has_timers(unit: Detecting) -> bool:
    """Whether the clock may complete events."""
    if isinstance(unit, MatchUnit):
        return False
    return any(isinstance(node, Plus | AbsentFor | Periodic) for node in walk(unit.detector.plan.expression))


def wanted(plan: EnginePlan, unit: Detecting) -> npt.NDArray[np.bool_]:
    """Which classes are in the history, by code."""
    names = unit.detector.plan.over
    if names is None and isinstance(unit, CompositeUnit):
        names = tuple(leaf.event_class for leaf in unit.detector.leaves)
    return codes_wanted(history_classes(plan, unit), names)


def is_by_occurrence(plan: ClassPlan) -> bool:
    """Whether a class has ORDER BY OCCURRENCE."""
    derivation = plan.derivation
    return isinstance(derivation, MatchPlan | CompositePlan) and derivation.by_occurrence is not None


def tells_values(plan: MatchPlan | CompositePlan) -> bool:
    """Whether events without a key are told apart by their attributes, too."""
    return isinstance(plan, MatchPlan) and plan.choice is Choice.ALL and not aggregates(plan)


def purged_from(plan: EnginePlan, remembered: Sequence[object], place: int, keys: Sequence[Any]) -> None:
    """Events of a class have left: a later version with such a key is another event, and takes the place of none."""
    for unit, state in zip(plan.units, remembered, strict=True):
        places = (*plan.received, *unit.reads)
        if isinstance(state, OccurrenceState) and place in places:
            for key in keys:
                state.history.at.pop((places.index(place), () if key is None else key), None)


def settle_all(plan: EnginePlan, remembered: Sequence[object], live: Sequence[Container[Any]]) -> None:
    """Let go of what can no longer change, where that has become much; `live` are the keys of events by place."""
    for unit, state in zip(plan.units, remembered, strict=True):
        if isinstance(state, OccurrenceState) and state.is_full():
            assert not isinstance(unit, SelectUnit)
            _settle(plan, unit, state, live)


def _settle(plan: EnginePlan, unit: Detecting, state: OccurrenceState, live: Sequence[Container[Any]]) -> None:
    """Let go of what can no longer change: what is older than is allowed for, or expired."""

    def is_there(identity: tuple[int, Hashable]) -> bool:
        place, name = identity
        return name in live[place]

    order, history = by_occurrence(unit), state.history
    assert order is not None
    allowed = LONG_AGO if order.allowing_us is None else state.greatest - order.allowing_us
    lifespans = [one.lifespan_us for one, taken in zip(history.classes, wanted(plan, unit), strict=True) if taken]
    spans = [one for one in lifespans if one is not None]
    expired = LONG_AGO if len(spans) < len(lifespans) or not spans else state.clock - max(spans)
    before = history.base + int(np.searchsorted(history.occ_time, max(allowed, expired)))
    if expired > allowed:
        waiting = (where for where in history.at.values() if allowed <= where[0] < expired and where[2] != TOO_OLD)
        before = min([before, *(history.place_of(where) for where in waiting)])
    state.settled = history.count
    while len(state.saved) > 1 and state.saved[1].end <= before:
        del state.saved[0]
    first = state.saved[0]
    if first.content is None or first.end == history.base:
        return
    held = held_by(read_kernel(plan, unit, first.content))
    for name, where in list(history.at.items()):
        if where[2] != TOO_OLD and history.place_of(where) < first.end:
            history.at[name] = where[0], 0, TOO_OLD
    history.forget(first.end, held)
    state.standing.settle(first.found, is_there)
    state.settled = history.count
    if state.happened:
        made_of = set(state.held_seqs().tolist())
        state.happened = {seq: occ for seq, occ in state.happened.items() if seq in made_of}
