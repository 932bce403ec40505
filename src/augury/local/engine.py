"""A program and events → occurrences: accept versions, then run class after class in stratified order.

In: a checked program, raw events, and a kernel that runs one MATCH class over its history. Out: the occurrences of
every complex class in order of declaration, and what was refused. What it cannot run yet it refuses before it reads
an event, with diagnostics. Classes that read the same history share what it takes to read it, and COMPOSITE classes
of equal expressions one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan, Cron, Every, Program
from augury.algebra.select import SelectPlan
from augury.diagnostics import Diagnostic, Findings, Mark
from augury.event import ClassKind, key_of
from augury.history.accept import accepted as accepted_versions
from augury.history.accept import end_of
from augury.history.coming import Came, came
from augury.history.merge import merge
from augury.history.raw import Raw, Rejected
from augury.history.schedule import TooManyDue
from augury.kernels.batch import NO_SEQ, Batch, Occurrences
from augury.kernels.composite.sharing import runs_of
from augury.kernels.match.shared import Shared
from augury.kernels.order import without_seq
from augury.local.kernel import CannotRun, composite_kernel

Kernel = Callable[[Program, ClassPlan, Batch, Shared], Occurrences]
"""Runs one MATCH class over the history that it sees, with what all that see it share."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A complex event: times in microseconds since the epoch, attributes by name, constituents by `seq`."""

    event: str
    seq: int | None
    """The version that completed it; None if a timer did."""
    occ_time: int
    det_time: int
    values: Mapping[str, Any]
    constituents: tuple[int, ...]
    history: Batch = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Detected:
    """What a run found: the occurrences of each complex class, and the versions they were found in."""

    occurrences: tuple[Occurrences, ...]
    rejected: Rejected
    versions: Batch
    absorbed: int
    histories: Mapping[str, Batch] = field(default_factory=dict, repr=False)

    def __iter__(self) -> Iterator[Occurrence]:
        """Every complex event, class by class as declared, in order of `seq`."""
        for found in self.occurrences:
            yield from self.of(found.event_class.name)

    def of(self, name: str) -> Iterator[Occurrence]:
        """The events of one complex class, in order."""
        found = self._class(name)
        rows = found.values.to_pylist() if found.values.num_columns else [{}] * len(found)
        lists = found.constituents.to_pylist()
        history = self.history_of(name)
        seqs = (seq if seq > NO_SEQ else None for seq in found.seq.tolist())
        columns = (seqs, found.occ_time.tolist(), found.det_time.tolist(), rows, lists)
        for seq, occ_time, det_time, values, constituents in zip(*columns, strict=True):
            yield Occurrence(
                found.event_class.name, seq, occ_time, det_time, MappingProxyType(values), tuple(constituents), history
            )

    def table(self, name: str) -> pa.Table:
        """The events of one complex class as an Arrow table: seq, occ_time, det_time, constituents, attributes.

        Those that a timer completed have no seq.
        """
        found = self._class(name)
        times = {n: pa.array(v).view(pa.timestamp("us", "UTC")) for n, v in _times(found)}
        columns = {"seq": pa.array(found.seq, mask=without_seq(found.seq)), **times, "constituents": found.constituents}
        return pa.table({**columns, **{n: found.values.column(n) for n in found.values.column_names}})

    def history_of(self, name: str) -> Batch:
        """What a complex class was detected over."""
        return self.histories[key_of(self._class(name).event_class.name)]

    def _class(self, name: str) -> Occurrences:
        found = next((o for o in self.occurrences if key_of(o.event_class.name) == key_of(name)), None)
        if found is None:
            raise KeyError(f"the program has no MATCH class called {name}")
        return found


def _times(found: Occurrences) -> list[tuple[str, Any]]:
    return [("occ_time", found.occ_time), ("det_time", found.det_time)]


def detect(program: Program, events: Iterable[Raw], kernel: Kernel, *, until_us: int | None = None) -> Detected:
    """Run a whole program over events; versions with det_time ≥ `until_us` are not read."""
    if refused := cannot_run(program):
        raise CannotRun(refused)
    return detect_in(program, came(program, events, until_us=until_us), kernel, until_us=until_us)


def detect_in(program: Program, rows: Came, kernel: Kernel, *, until_us: int | None = None) -> Detected:
    """The same, for rows that have been read, and a program that can be run."""
    try:
        accepted = accepted_versions(program, rows, until_us=until_us)
    except TooManyDue as error:
        clock = next(p.event_class for p in program.classes if f"`{p.event_class.name}`" in str(error))
        helps = ("look for a det_time far from all others, or let the class tick less often",)
        raise CannotRun((Diagnostic("E405", str(error), Mark(clock.span, "ticks too often"), helps=helps),)) from None
    end_us = end_of(accepted.batch, program.settings.chronon_us) if until_us is None else until_us
    found, histories = _derived(program, accepted.batch, kernel, end_us)
    declared = (key_of(plan.event_class.name) for plan in program.classes)
    occurrences = tuple(found[name] for name in declared if name in found)
    return Detected(occurrences, accepted.rejected, accepted.batch, accepted.absorbed, histories)


def _derived(
    program: Program, versions: Batch, kernel: Kernel, end_us: int
) -> tuple[dict[str, Occurrences], dict[str, Batch]]:
    """The occurrences of each complex class, and the history that it was detected over."""
    found: dict[str, Occurrences] = {}
    histories: dict[str, Batch] = {}
    read: dict[tuple[str, ...], tuple[Batch, Shared]] = {}
    runs = {key_of(name): run for run in runs_of(program) for name in run.names}
    for name in (key_of(name) for layer in program.strata for name in layer):
        plan = program.class_plan(name)
        assert plan is not None, "strata name classes of the program"
        if name in found or not isinstance(plan.derivation, MatchPlan | CompositePlan):
            continue
        names = _complex_read(program, plan)
        if names not in read:
            read[names] = merge(versions, [found[each] for each in names]), Shared()
        history, shared = read[names]
        if isinstance(plan.derivation, MatchPlan):
            made = {name: kernel(program, plan, history, shared)}
        else:
            of_run = composite_kernel(program, runs[name], history, shared, end_us)
            made = {key_of(occurrences.event_class.name): occurrences for occurrences in of_run}
        found |= made
        histories |= dict.fromkeys(made, history)
    return found, histories


def _complex_read(program: Program, plan: ClassPlan) -> tuple[str, ...]:
    """The complex classes that a class reads, in order of declaration: they say which history it has."""
    reads = {key_of(name) for name in plan.reads}
    derived = (key_of(p.event_class.name) for p in program.classes if p.event_class.kind is ClassKind.COMPLEX)
    return tuple(name for name in derived if name in reads)


def cannot_run(program: Program) -> tuple[Diagnostic, ...]:
    """What of a program this engine does not run: an error a class."""
    findings = Findings()
    for plan in program.classes:
        name, span = plan.event_class.name, plan.event_class.span
        match plan.derivation:
            case MatchPlan(by_occurrence=None) | CompositePlan(by_occurrence=None) | Cron() | Every() | None:
                pass
            case MatchPlan() | CompositePlan():
                message = f"what `{name}` says changes with late versions, and a history at once has none"
                findings.error("E313", message, span, "needs ticks", helps=[_WITH_TICKS])
            case SelectPlan():
                message = f"SELECTs wait for ticks, and a history at once has none: `{name}` is not detected so"
                findings.error("E313", message, span, "needs ticks", helps=[_WITH_TICKS])
    return findings.sorted()


_WITH_TICKS: Final = "`augury.LocalEngine`, `augury run` and, on data frames of Spark, `augury.detect` run the program"
