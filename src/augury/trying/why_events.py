"""Why a version of an event is there: the constituents of a complex event, with the part that each satisfies.

In: the record of a run, and a version. Out: a `Why`, or a sentence where parts cannot be told. MATCH and COMPOSITE are
asked of their kernels; what a SELECT joined is in its constituents, what it gathered is asked of it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan, Cron, Every
from augury.algebra.select import SelectPlan
from augury.automata.runs import TooManyRuns
from augury.clock import show_time
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit
from augury.kernels import composite
from augury.kernels.composite.why import why as why_composite
from augury.kernels.match import REFUSALS
from augury.kernels.match.past import TooManyValues
from augury.kernels.match.why import why as why_match
from augury.kernels.told import Absence, Constituent, Instant, NotAnOccurrence, Why
from augury.trying.simulate_record import SELECTED, Record, Version
from augury.trying.why_corrected import why_corrected

WHY_VERSIONS_MAX: Final = 500
"""A history of more versions is not read again for each event that was found in it."""

A_ROW: Final = "a row of FROM"

WENT_IN: Final = "a row that went in"
"""Of an aggregate, DISTINCT, a window or the like."""

UNTOLD: Final[tuple[type[Exception], ...]] = (NotAnOccurrence, TooManyValues, TooManyRuns, composite.NotYet, *REFUSALS)
"""What asking again may raise; the constituents are known all the same."""


def why_of(record: Record, version: Version, versions_max: int | None = WHY_VERSIONS_MAX) -> tuple[Why | None, str]:
    """Why a version is there, and a note where there is more or less to say than constituents with their parts."""
    plan = record.plan.classes[version.place]
    match plan.derivation:
        case MatchPlan() | CompositePlan():
            return _detected(record, plan, version, versions_max)
        case SelectPlan() as select:
            return _selected(record, select, version, versions_max)
        case Cron() | Every():
            return None, f"the clock posted it at {show_time(version.det_time)}"
        case None:
            return None, f"it came in, detected at {show_time(version.det_time)}"


def reads_of(plan: EnginePlan, place: int) -> tuple[int, ...]:
    """The complex classes that stand in the history of a MATCH or COMPOSITE class."""
    for unit in plan.units:
        if (isinstance(unit, MatchUnit) and unit.place == place) or (
            isinstance(unit, CompositeUnit) and place in unit.places
        ):
            return unit.reads
    raise AssertionError("every MATCH and COMPOSITE class has a unit")


def _detected(record: Record, plan: ClassPlan, version: Version, versions_max: int | None) -> tuple[Why | None, str]:
    constituents = version.constituents or ()
    if versions_max is not None and len(record.received) > versions_max:
        note = f"parts are told of histories of at most {versions_max:,} versions; `augury why` tells them of any"
        return _plainly(record, version, constituents, "a constituent"), note
    if getattr(plan.derivation, "by_occurrence", None) is not None:
        return _by_occurrence(record, version, constituents)
    for seq in _places(record, version):
        try:
            found = _asked(record, plan, version, seq, constituents)
        except UNTOLD:
            continue
        events = tuple(_as_recorded(record, one) for one in found.events)
        return replace(found, events=events, absences=tuple(map(_by_time, found.absences))), ""
    return _plainly(record, version, constituents, "a constituent"), "which part each satisfies cannot be told"


def _by_occurrence(record: Record, version: Version, constituents: tuple[int, ...]) -> tuple[Why | None, str]:
    plain = _plainly(record, version, constituents, "a constituent")
    if version.is_withdrawal:
        return plain, "it is withdrawn: what is known of what happened no longer makes it take place"
    found = None if reads_of(record.plan, version.place) else why_corrected(record, version, UNTOLD)
    if found is not None:
        return found, ""
    return plain, "of what is ordered by occurrence, which part each stands for cannot be told here"


def _as_recorded(record: Record, one: Constituent) -> Constituent:
    """A constituent as all others name it."""
    known = record.received.get(one.seq)
    return one if known is None or one.made_of != (one.seq,) else replace(one, event=known.text)


def _by_time(absence: Absence) -> Absence:
    """What stayed away, between times where events have no `seq` that anybody else knows."""

    def known(at: Instant) -> Instant:
        return at if at.seq is None or at.seq < SELECTED else Instant(None, at.time)

    return replace(absence, after=None if absence.after is None else known(absence.after), end=known(absence.end))


def _asked(record: Record, plan: ClassPlan, version: Version, seq: int | None, constituents: tuple[int, ...]) -> Why:
    history = record.history(reads_of(record.plan, version.place))
    chronon_us = record.plan.chronon_us
    values = {name: value.value for name, value in version.values.items()}
    if isinstance(plan.derivation, CompositePlan):
        assert version.occ_time is not None, "what is detected is not withdrawn by it"
        return why_composite(
            plan.derivation,
            history,
            seq,
            constituents,
            values,
            occ_time=version.occ_time,
            det_time=version.det_time,
            chronon_us=chronon_us,
        )
    assert isinstance(plan.derivation, MatchPlan)
    return why_match(
        plan.derivation,
        history,
        seq,
        constituents,
        values,
        clock_us=version.det_time,
        chronon_us=chronon_us,
    )


def _places(record: Record, version: Version) -> list[int | None]:
    """Where it may have taken place: at its version, by the clock, or at an event of a SELECT class of its tick."""
    if version.seq is not None:
        return [version.seq]
    history = record.history(reads_of(record.plan, version.place))
    rows = zip(history.seq.tolist(), history.det_time.tolist(), strict=True)
    return [None, *(seq for seq, det_time in rows if seq >= SELECTED and det_time == version.det_time)]


def _selected(record: Record, select: SelectPlan, version: Version, versions_max: int | None) -> tuple[Why | None, str]:
    if version.is_withdrawal:
        return None, "the SELECT no longer gives its row"
    from augury.trying.why_gathered import gathered, is_gathered  # only now: it loads DuckDB

    if not is_gathered(record, select):
        return _plainly(record, version, version.constituents or (), A_ROW), ""
    origin = f"its row comes of an aggregate, DISTINCT, window or the like over {', '.join(select.reads)}"
    if versions_max is not None and len(record.received) > versions_max:
        return None, f"{origin}; `augury why` tells what went in"
    seqs = gathered(record, version)
    if seqs is None:
        return None, f"{origin}, and what went in cannot be told"
    return _plainly(record, version, seqs, WENT_IN), ""


def _plainly(record: Record, version: Version, seqs: Sequence[int], part: str) -> Why | None:
    """Constituents alone."""
    known = [record.received[seq] for seq in seqs if seq in record.received]
    found = tuple(
        Constituent(one.seq or 0, one.event_class.name, one.text, one.occ_time or 0, (part,), (one.seq or 0,))
        for one in known
    )
    return Why(version.seq, found, (), tick=version.tick if version.seq is None else None) if found else None
