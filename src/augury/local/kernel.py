"""The kernels that this engine runs classes with: `kernels.match` and `kernels.composite`, a whole history at once.

In: a program, a class or the classes of a run, their history, and what all that read this history share. Out: their
occurrences, or `CannotRun` where there is no machine for one or its history needs more room than the limits allow.
"""

from __future__ import annotations

from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan, Program
from augury.diagnostics import Diagnostic, Mark
from augury.kernels.batch import Batch, Occurrences
from augury.kernels.composite import NotYet
from augury.kernels.composite.sharing import Run, occurrences_in
from augury.kernels.match import REFUSALS, Shared, detector_of, initial_state, step
from augury.kernels.match.refusals import refusal


class CannotRun(ValueError):
    """A program with something that no engine runs yet; `diagnostics` says what and where."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        """Keep the diagnostics."""
        super().__init__("; ".join(diagnostic.message for diagnostic in diagnostics))
        self.diagnostics = diagnostics


def match_kernel(program: Program, plan: ClassPlan, history: Batch, shared: Shared) -> Occurrences:
    """All occurrences of a MATCH class."""
    event_class, match = plan.event_class, plan.derivation
    assert isinstance(match, MatchPlan)
    try:
        detector = detector_of(match)
        state = initial_state(detector, history.classes)
        return step(detector, state, history, event_class, program.settings.chronon_us, shared=shared)[1]
    except tuple(REFUSALS) as error:
        raise CannotRun((refusal(type(error), plan),)) from None


def composite_kernel(program: Program, run: Run, history: Batch, shared: Shared, end_us: int) -> list[Occurrences]:
    """All occurrences of the COMPOSITE classes that one run serves, up to a time."""
    try:
        return occurrences_in(run, history, program.settings.chronon_us, end_us, shared)
    except NotYet as error:
        event_class = run.members[0].event_class
        message = f"this engine does not run {error} yet, as `{event_class.name}` needs it to"
        raise CannotRun((Diagnostic("E313", message, Mark(event_class.span, "cannot be run")),)) from None
