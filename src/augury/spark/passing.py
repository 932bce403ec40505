"""Tasks that go over ranges of a history side by side: once from every state, and then from the right one.

In: the rows of a partition, as a group reads them. Out: what each stretch of them does to any state (`Pass`), and, once
somebody knows the states between, occurrences (`Emit`). Nothing here knows data frames; `ranges` does.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from augury.algebra.expression import MatchPlan
from augury.kernels.batch import Batch, Integers, Occurrences, joined
from augury.kernels.match import Detector, MatchState, detector_of, step
from augury.kernels.match.chunks import Passage, passage_of
from augury.spark.layout import batch_of, integers, occurrence_table
from augury.spark.stage import Group, Stage
from augury.spark.tasks import ROWS_AT_ONCE, Batches, Read, read_by
from augury.spark.workers import imports_are_kept

_PAUSE: Final = 20
"""A step of `seq` so many times the mean one ends a stretch: rows of other partitions may be from there."""

_STRETCHES_MAX: Final = 64
"""Stretches of one partition; with more gaps only the widest end one."""

TOLD: Final = "stretch binary"
"""What `Pass` gives: a `Stretch` a row, as bytes of our own."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of a partition, by `seq` from `first` to `last`: how many, and what they do, stage by stage.

    `part` is the least `seq` of the partition.
    """

    part: int
    first: int
    last: int
    rows: int
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """The rows of a partition → its stretches."""

    group: Group

    def __call__(self, batches: Batches) -> Batches:
        """Go over each stretch from every state."""
        table = _in_order(batches)
        if table is None:
            return
        seq, detectors = integers(table, "seq"), detectors_of(self.group)
        for begin, end in _stretches(seq):
            reads = _reads(self.group, table.slice(begin, end - begin))
            passages = [
                passage_of(detector, read.batch, position=read.position, shared=read.shared)
                for detector, read in zip(detectors, reads, strict=True)
            ]
            found = Stretch(int(seq[0]), int(seq[begin]), int(seq[end - 1]), end - begin, tuple(passages))
            yield pa.RecordBatch.from_pydict({"stretch": pa.array([pickle.dumps(found)], pa.binary())})


@dataclass(frozen=True, slots=True)
class Emit:
    """The rows of a partition → the occurrences among them, and counts.

    A range of the history begins at each `seq` of `begins`; `states` has for each the states of all stages, as bytes.
    """

    group: Group
    chronon_us: int
    begins: tuple[int, ...]
    states: tuple[tuple[bytes, ...], ...]

    def __call__(self, batches: Batches) -> Batches:
        """Go over each range that is here from the state before it."""
        table = _in_order(batches)
        if table is None:
            return
        detectors = detectors_of(self.group)
        found: list[list[Occurrences]] = [[] for _ in detectors]
        for part, states in self._ranges(table):
            for i, (read, detector) in enumerate(zip(_reads(self.group, part), detectors, strict=True)):
                found[i].append(self._found(read, detector, pickle.loads(states[i])))
        yield from occurrence_table([joined(each) for each in found]).to_batches(max_chunksize=ROWS_AT_ONCE)

    def _ranges(self, table: pa.Table) -> Iterator[tuple[pa.Table, tuple[bytes, ...]]]:
        seq = integers(table, "seq")
        number = np.searchsorted(np.array(self.begins, np.int64), seq, side="right") - 1
        bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(seq)]
        for begin, end in pairwise(bounds):
            if number[begin] < 0 or self.begins[number[begin]] != seq[begin]:
                raise RowsHaveMoved(
                    f"seq {seq[begin]} was in another partition when the events were read before: "
                    "they come otherwise each time; persist the data frame, and detect over that"
                )
            yield table.slice(begin, end - begin), self.states[number[begin]]

    def _found(self, read: Read, detector: Detector, state: MatchState) -> Occurrences:
        (plan,) = read.stage.members
        options: dict[str, Any] = {"position": read.position, "shared": read.shared}
        return step(detector, state, read.batch, plan.event_class, self.chronon_us, **options)[1]


class RowsHaveMoved(RuntimeError):
    """A data frame gave other rows in a partition the second time; the message says what to do."""


def detectors_of(group: Group) -> list[Detector]:
    """The machines of the stages of a group, all of them MATCHes."""
    return [detector_of(_match(stage)) for stage in group.stages]


def _match(stage: Stage) -> MatchPlan:
    assert isinstance(stage.derivation, MatchPlan), "only the history of a MATCH is cut into ranges"
    return stage.derivation


def _in_order(batches: Batches) -> pa.Table | None:
    """The rows of a partition by `seq`; None if there are none."""
    came = [batch for batch in batches if batch.num_rows]
    if not came:
        return None
    table = pa.Table.from_batches(came)
    seq = integers(table, "seq")
    return table if (np.diff(seq) >= 0).all() else table.take(pa.array(np.argsort(seq, kind="stable")))


def _stretches(seq: Integers) -> list[tuple[int, int]]:
    """Rows in order by where no wide gap is between: from, and up to."""
    steps = np.diff(seq)
    wide = np.flatnonzero(steps > _PAUSE * max(1, int(seq[-1] - seq[0]) // len(seq)))
    if len(wide) >= _STRETCHES_MAX:
        wide = np.sort(wide[np.argsort(steps[wide])[1 - _STRETCHES_MAX :]])
    return list(pairwise([0, *(wide + 1).tolist(), len(seq)]))


def _reads(group: Group, table: pa.Table) -> Sequence[Read]:
    history = batch_of(table, group.classes, group.lanes)
    return list(read_by(group, table, _with_sent_columns(group, history)))


def _with_sent_columns(group: Group, history: Batch) -> Batch:
    """The batch without columns that were not sent, which a table without rows has: tuples go from range to range."""
    tables = []
    for code, (event_class, table) in enumerate(zip(history.classes, history.tables, strict=True)):
        sent = [a.name for i, a in enumerate(event_class.attributes) if (code, i) in group.lanes]
        tables.append(table.select(sent))
    return replace(history, tables=tuple(tables))


imports_are_kept()
