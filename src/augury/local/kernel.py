"""The kernel that this engine runs MATCH classes with: the columns of `kernels.match`, a whole history at once.

In: a program, a MATCH class and its history. Out: its occurrences, or `CannotRun` where there is no machine for it or
its history needs more room than the limits allow.
"""

from __future__ import annotations

from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan, Program
from augury.kernels.batch import Batch, Occurrences
from augury.kernels.match import REFUSALS, Shared, detector_of, initial_state, step
from augury.kernels.match.refusals import refusal
from augury.local.engine import CannotRun


class MatchKernel:
    """Runs MATCH classes; those that read the same history share what it takes to read it."""

    def __init__(self) -> None:
        """Nothing is shared yet."""
        self._history: Batch | None = None
        self._shared = Shared()

    def __call__(self, program: Program, plan: ClassPlan, history: Batch) -> Occurrences:
        """All occurrences of a MATCH class."""
        event_class, match = plan.event_class, plan.derivation
        assert isinstance(match, MatchPlan)
        if history is not self._history:
            self._history, self._shared = history, Shared()
        try:
            detector = detector_of(match)
            state = initial_state(detector, history.classes)
            chronon_us = program.settings.chronon_us
            return step(detector, state, history, event_class, chronon_us, shared=self._shared)[1]
        except tuple(REFUSALS) as error:
            raise CannotRun((refusal(type(error), plan),)) from None


def match_kernel(program: Program, plan: ClassPlan, history: Batch) -> Occurrences:
    """All occurrences of one MATCH class, sharing nothing."""
    return MatchKernel()(program, plan, history)
