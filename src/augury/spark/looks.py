"""What looks at the partitions of data frames tell: whether their events are in order, and where numbers begin.

In: a summary for each partition. Out: plain data for the tasks that number versions. It reads no event, and starts no
Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from augury.algebra.program import Cron, Every, Program
from augury.diagnostics import Diagnostic, Mark
from augury.event import EventClass
from augury.history.schedule import TooManyDue, due_at_most
from augury.kernels.batch import Integers
from augury.spark.stage import NotOnSpark, subscribed

_RUNS_MAX: Final = 200_000
"""Ascending runs that are put in order by the driver."""


@dataclass(frozen=True, slots=True)
class Run:
    """Versions of a partition from one number on, whose det_times never fall; `counts` by class."""

    begin: int
    first_us: int
    last_us: int
    counts: tuple[int, ...]


US: Final = "us"
"""The column of a glance that has the det_time of a version, NULL for a row that is none."""

ALIKE: Final = "alike"
"""Its column that duplicates share, of classes with a key; a row that is no version has one if it withdraws."""

NO_PLACES: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a partition holds: rows as they came, versions in runs (None: too many), classes with ids, some times.

    A glance also tells which versions look like others of their det_time, and whether rows of a key withdraw.
    """

    source: int
    part: int
    rows: int
    runs: tuple[Run, ...] | None
    ids: frozenset[int]
    there: frozenset[int]
    sampled_us: tuple[int, ...]
    alike: Integers = field(default_factory=lambda: NO_PLACES, compare=False)
    withdraws: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """From a version of a partition on: how many come before it, in all and in each of some histories."""

    version: int
    seq: int
    histories: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """What rows came before those of a partition: in its source, and in all."""

    names: Mapping[int, str]
    in_source: Mapping[int, int]
    in_all: Mapping[int, int]

    def place(self, part: int, row: int) -> str:
        """The source, and the number of the row there."""
        return f"{self.names[part]}:{self.in_source[part] + row + 1}"

    def position(self, part: int, row: int) -> int:
        """The number of the row among all that came."""
        return self.in_all[part] + row + 1


@dataclass(frozen=True, slots=True)
class Ranges:
    """Stretches of det_time, cut at ascending times: what has one det_time is in one of them."""

    cuts_us: tuple[int, ...]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.cuts_us) + 1

    def of(self, us: Integers) -> npt.NDArray[np.int32]:
        """The range of each time."""
        return np.searchsorted(np.array(self.cuts_us, np.int64), us, side="right").astype(np.int32)


def judged_codes(classes: Sequence[EventClass], summaries: Sequence[Summary]) -> frozenset[int]:
    """The classes whose rows are judged beside others: those with a key, and those whose events have ids."""
    there = {code for one in summaries for code in one.there}
    ids = with_ids(summaries)
    return frozenset(code for code in there if classes[code].key or code in ids)


def with_ids(summaries: Sequence[Summary]) -> set[int]:
    """The classes of which some event has an id."""
    return {code for one in summaries for code in one.ids}


def clocks_due(
    program: Program, summaries: Sequence[Summary], until_us: int | None
) -> tuple[tuple[int, Sequence[int]], ...]:
    """The classes of the clock, and when their events are due."""
    # The first and the last are among those that were sampled.
    sampled = [us for one in summaries for us in one.sampled_us]
    if not sampled:
        return ()
    chronon_us = program.settings.chronon_us
    from_us, to_us = min(sampled) // chronon_us * chronon_us, until_us
    if to_us is None:
        to_us = (max(sampled) // chronon_us + 1) * chronon_us
    found = []
    for code, event_class in enumerate(subscribed(program)):
        plan = program.class_plan(event_class.name)
        assert plan is not None, "it is a class of the program"
        if isinstance(plan.derivation, Cron | Every):
            try:
                found.append((code, due_at_most(event_class.name, plan.derivation, from_us, to_us)))
            except TooManyDue as error:
                helps = ("look for a det_time far from all others, or let the class tick less often",)
                mark = Mark(event_class.span, "ticks too often")
                raise NotOnSpark(Diagnostic("E405", str(error), mark, helps=helps)) from None
    return tuple(found)


Placed = tuple[int, int, Run]
"""A run, with its partition and its number there."""


def in_order(summaries: Sequence[Summary]) -> list[Placed] | None:
    """The runs of all partitions one after the other; None where they overlap."""
    runs = [(one.part, i, run) for one in summaries for i, run in enumerate(one.runs or ())]
    if len(runs) > _RUNS_MAX or any(one.runs is None for one in summaries):
        return None
    runs.sort(key=lambda placed: (placed[2].first_us, placed[2].last_us, placed[0], placed[1]))
    for (part, i, before), (next_part, j, after) in pairwise(runs):
        if after.first_us < before.last_us:
            return None
        if after.first_us == before.last_us and (next_part, j) < (part, i):
            return None
    return runs


def met_us(order: Sequence[Placed]) -> tuple[int, ...]:
    """The times at which one run ends and the next begins: versions of different runs may be alike there."""
    return tuple(sorted({after.first_us for (_, _, before), (_, _, after) in pairwise(order) if _meet(before, after)}))


def _meet(before: Run, after: Run) -> bool:
    return after.first_us == before.last_us


def without(summary: Summary, places: Integers) -> Summary:
    """A partition without some of its versions, of which there are as many less; `places` ascend."""
    left = []
    for run in summary.runs or ():
        begin, end = np.searchsorted(places, [run.begin, run.begin + sum(run.counts)]).tolist()
        if count := sum(run.counts) - (end - begin):
            left.append(replace(run, begin=run.begin - begin, counts=(count,)))
    return replace(summary, runs=tuple(left))


def begins_of(order: Sequence[Placed], histories: Mapping[str, tuple[int, ...]]) -> dict[int, tuple[Begin, ...]]:
    """Where numbers begin, by part; runs that follow each other there and in the history go on."""
    found: dict[int, list[Begin]] = {}
    seq, counted = 0, (0,) * len(histories)
    last: tuple[int, int] | None = None
    for part, i, run in order:
        if last != (part, i - 1):
            found.setdefault(part, []).append(Begin(run.begin, seq, counted))
        last = part, i
        seq += sum(run.counts)
        inside = (sum(n for code, n in enumerate(run.counts) if code in codes) for codes in histories.values())
        counted = tuple(n + more for n, more in zip(counted, inside, strict=True))
    return {part: tuple(sorted(begins, key=lambda begin: begin.version)) for part, begins in found.items()}


def places_of(summaries: Sequence[Summary], names: Mapping[int, str]) -> Places:
    """Where the rows of each part came, given the names of sources."""
    in_source: dict[int, int] = {}
    of_source: dict[int, int] = {}
    for one in summaries:
        in_source[one.part] = of_source.get(one.source, 0)
        of_source[one.source] = in_source[one.part] + one.rows
    before = accumulate((one.rows for one in summaries), initial=0)
    in_all = {one.part: rows for one, rows in zip(summaries, before, strict=False)}
    return Places({one.part: names[one.source] for one in summaries}, in_source, in_all)


def ranges_of(summaries: Sequence[Summary], count: int) -> Ranges:
    """Stretches of time with about as many rows each."""
    sampled = np.sort(np.array([us for one in summaries for us in one.sampled_us], np.int64))
    if not len(sampled):
        return Ranges(())
    places = (np.arange(1, count) * len(sampled)) // count
    return Ranges(tuple(np.unique(sampled[places]).tolist()))
