"""What the clock alone would do too often before anything comes: it is refused before it is begun.

In: a plan, a state, and how far nothing comes. Out: nothing, or `CannotRun`.
"""

from __future__ import annotations

from augury.engine.occurrence_state import OccurrenceState
from augury.engine.plan import CompositeUnit, EnginePlan, refused_for, too_many_periods
from augury.engine.state import EngineState
from augury.kernels.composite.periods import require_few_periods
from augury.kernels.composite.state import CompositeState
from augury.kernels.composite.timed import TooManyPeriods


def require_few_periods_ahead(plan: EnginePlan, state: EngineState, since: int, until: int) -> None:
    """Raise `CannotRun` where PERIODIC would take place too often up to a time before which nothing comes."""
    for unit, detection in zip(plan.units, state.detection, strict=True):
        kernel = detection.kernel if isinstance(detection, OccurrenceState) else detection
        if isinstance(unit, CompositeUnit) and isinstance(kernel, CompositeState):
            with refused_for(plan.classes[unit.places[0]]):
                require_few_periods(unit.detector.graph, kernel, since, until)
    for of, one in zip(plan.triggers, state.triggers.each, strict=True):
        if of.detector is not None and one.detection is not None:
            try:
                require_few_periods(of.detector.graph, one.detection, since, until)
            except TooManyPeriods:
                raise too_many_periods(of.trigger.name, of.trigger.span) from None
