"""What to tell somebody whose MATCH class the kernels cannot run, or whose history needs more room than there is.

In: the error that `detector_of` or `step` raised, and the class. Out: a diagnostic that names the class, the limit and
what to do; every engine says the same.
"""

from __future__ import annotations

from augury import limits
from augury.algebra.expression import Choice, MatchPlan
from augury.algebra.program import ClassPlan
from augury.clock import show_duration
from augury.diagnostics import Diagnostic, Mark
from augury.kernels.match import REFUSALS, TooManyStreams, TooManyTuples
from augury.kernels.match.detector import aggregates


def refusal(kind: type[Exception], plan: ClassPlan, engine: str = "this engine") -> Diagnostic:
    """The diagnostic for one of the errors in REFUSALS, raised for this class; `engine` is who cannot run it."""
    name, match = plan.event_class.name, plan.derivation
    assert isinstance(match, MatchPlan), "only MATCH classes are run by these kernels"
    helps: tuple[str, ...] = ("write the expression with fewer variables, or narrow it with WITHIN",)
    if issubclass(kind, TooManyTuples):
        most = f"at most {limits.TUPLES_MAX:,} occurrence tuples of one history open at a time"
        message = f"{engine} keeps {most}, and `{name}` has more"
        helps = _fewer_tuples(match)
    elif issubclass(kind, TooManyStreams):
        most = f"at most {limits.STREAMS_JOINED_MAX:,} combinations of values of variables"
        message = f"{engine} tells {most} apart, and `{name}` has more"
        helps = ("write the expression with fewer variables that stand in different places",)
    else:
        message = f"{engine} does not run {REFUSALS[kind]} yet, as `{name}` needs it to"
    return Diagnostic("E313", message, Mark(plan.event_class.span, "cannot be run"), helps=helps)


def _fewer_tuples(match: MatchPlan) -> tuple[str, ...]:
    """What keeps tuples from adding up: only clauses that are not there yet."""
    helps = []
    if match.within_us is None:
        helps.append("let go of old tuples: add WITHIN, with the longest time that one may take")
    else:
        helps.append(f"let go of tuples earlier: WITHIN {show_duration(match.within_us)} is long for so many events")
    if not match.partition_by:
        helps.append("cut the history by what its events share: with PARTITION BY each part may have as many")
    if match.where is not None:
        helps.append("ask of an event by itself in a mask: WHERE needs every tuple, whatever COLLECT says")
    elif match.choice is Choice.ALL or aggregates(match):
        helps.append("keep the most recent tuple only: COLLECT RECENT")
    return tuple(helps)
