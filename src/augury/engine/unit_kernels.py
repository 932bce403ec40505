"""The kernel of a MATCH or COMPOSITE unit, whichever it is: begin, step, save, load.

In: a plan, a unit of it, and what the kernel reads. Out: states and occurrences by place of the class. It knows no
tick.
"""

from __future__ import annotations

from augury.algebra.expression import ByOccurrence
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit, refused_for
from augury.event import EventClass
from augury.kernels import composite, match
from augury.kernels.batch import Batch, Integers, Occurrences
from augury.kernels.bitemporal import NEVER
from augury.kernels.composite import saved as composite_saved
from augury.kernels.composite.step import step_into
from augury.kernels.match import Shared
from augury.kernels.match import saved as match_saved

Detecting = MatchUnit | CompositeUnit
Kernel = match.MatchState | composite.CompositeState
"""What a kernel remembers."""


def places_of(unit: Detecting) -> tuple[int, ...]:
    """The classes that a unit makes."""
    return unit.places if isinstance(unit, CompositeUnit) else (unit.place,)


def by_occurrence(unit: Detecting) -> ByOccurrence | None:
    """Whether, and how, a unit goes by ORDER BY OCCURRENCE."""
    return unit.detector.plan.by_occurrence


def history_classes(plan: EnginePlan, unit: Detecting) -> tuple[EventClass, ...]:
    """The classes of the history that a unit reads."""
    return (*plan.received_classes, *(plan.classes[place].event_class for place in unit.reads))


def begun(plan: EnginePlan, unit: Detecting) -> Kernel:
    """A kernel that has read nothing."""
    classes = history_classes(plan, unit)
    if isinstance(unit, MatchUnit):
        return match.initial_state(unit.detector, classes)
    return composite.initial_state(unit.detector, classes)


def stepped(
    plan: EnginePlan, unit: Detecting, state: Kernel, history: Batch, until: int, shared: Shared | None = None
) -> tuple[Kernel, dict[int, Occurrences]]:
    """Read a batch and let the clock go on; the state given is used up."""
    places = places_of(unit)
    with refused_for(plan.classes[places[0]]):
        if isinstance(unit, MatchUnit):
            assert isinstance(state, match.MatchState)
            event_class = plan.classes[unit.place].event_class
            after, found = match.step(
                unit.detector, state, history, event_class, plan.chronon_us, until_us=until, shared=shared
            )
            return after, {unit.place: found}
        assert isinstance(state, composite.CompositeState)
        moved, several = step_into(unit.detector, state, history, unit.into, plan.chronon_us, until, shared=shared)
        return moved, dict(zip(places, several, strict=True))


def next_due(state: Kernel) -> int:
    """When a timer is due next, NEVER if none is."""
    return NEVER if isinstance(state, match.MatchState) else state.next_due()


def held_by(state: Kernel) -> Integers:
    """The `seq` of every version that some occurrence may still be made of."""
    return match.held_seqs(state) if isinstance(state, match.MatchState) else composite.held_seqs(state)


def kernel_bytes(plan: EnginePlan, unit: Detecting, state: Kernel) -> bytes:
    """The state of a kernel as bytes."""
    classes = history_classes(plan, unit)
    if isinstance(unit, MatchUnit):
        assert isinstance(state, match.MatchState)
        return match_saved.saved(state, unit.detector, classes)
    assert isinstance(state, composite.CompositeState)
    return composite_saved.saved(state, unit.detector, classes)


def read_kernel(plan: EnginePlan, unit: Detecting, content: bytes) -> Kernel:
    """The state again; raises `UnfitState`."""
    classes = history_classes(plan, unit)
    if isinstance(unit, MatchUnit):
        return match_saved.loaded(content, unit.detector, classes)
    return composite_saved.loaded(content, unit.detector, classes)
