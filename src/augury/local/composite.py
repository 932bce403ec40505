"""The kernel that this engine runs COMPOSITE classes with: the graphs of `kernels.composite`, a whole history at once.

In: a program, a COMPOSITE class, its history, and how far the clock goes. Out: its occurrences; those that a timer
completed have no `seq` (NO_SEQ).
"""

from __future__ import annotations

from dataclasses import replace

from augury.algebra.composite import AbsentFor, CompositePlan, Periodic, Plus, walk
from augury.algebra.program import ClassPlan, Program
from augury.diagnostics import Diagnostic, Mark
from augury.kernels.batch import Batch, Occurrences
from augury.kernels.composite import NotYet, detector_of, initial_state, step


class CannotDetect(ValueError):
    """A COMPOSITE class that the kernel does not run; the diagnostic says why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        """Keep the diagnostic."""
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def composite_occurrences(program: Program, plan: ClassPlan, history: Batch, end_us: int) -> Occurrences:
    """All occurrences of a COMPOSITE class up to a time."""
    event_class, composite = plan.event_class, plan.derivation
    assert isinstance(composite, CompositePlan)
    try:
        detector = detector_of(composite)
    except NotYet as error:
        message = f"this engine does not run {error} yet, as `{event_class.name}` needs it to"
        raise CannotDetect(Diagnostic("E313", message, Mark(event_class.span, "cannot be run"))) from None
    state = initial_state(detector, history.classes)
    state, found = step(detector, state, history, event_class, program.settings.chronon_us, end_us)
    return replace(found, dropped=state.dropped)


def has_timers(plan: ClassPlan) -> bool:
    """Whether events of a class may be completed by the clock instead of a version."""
    composite = plan.derivation
    if not isinstance(composite, CompositePlan):
        return False
    return any(isinstance(node, Plus | AbsentFor | Periodic) for node in walk(composite.expression))
