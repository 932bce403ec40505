"""The kernels that this engine runs classes with: `kernels.match` and `kernels.composite`, a whole history at once.

In: a program, a class or the classes of a run, their history, and what all that read this history share. Out: their
occurrences, or `CannotRun` where there is no machine for one or its history needs more room than the limits allow.
"""

from __future__ import annotations

from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan, Program
from augury.engine.plan import CannotRun, refused_for
from augury.kernels.batch import Batch, Occurrences
from augury.kernels.composite.sharing import Run, occurrences_in
from augury.kernels.match import Shared, detector_of, initial_state, step

__all__ = ["CannotRun", "composite_kernel", "match_kernel"]


def match_kernel(program: Program, plan: ClassPlan, history: Batch, shared: Shared) -> Occurrences:
    """All occurrences of a MATCH class."""
    event_class, match = plan.event_class, plan.derivation
    assert isinstance(match, MatchPlan)
    with refused_for(plan):
        detector = detector_of(match)
        state = initial_state(detector, history.classes)
        return step(detector, state, history, event_class, program.settings.chronon_us, shared=shared)[1]


def composite_kernel(program: Program, run: Run, history: Batch, shared: Shared, end_us: int) -> list[Occurrences]:
    """All occurrences of the COMPOSITE classes that one run serves, up to a time."""
    with refused_for(run.members[0]):
        return occurrences_in(run, history, program.settings.chronon_us, end_us, shared)
