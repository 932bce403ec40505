"""Tasks that number versions where they come in order of det_time, and none has to be judged beside others.

In: Arrow batches of a data frame's columns, as Spark reads them. Out: a look at each partition (`Look`, or a `Glance`
where only times are to be looked at); and versions with their `seq`, once looks have told where the numbers of each
ascending run begin (`Give`, and `Feed` for a group).
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury.algebra.expression import Primitive
from augury.algebra.program import Program
from augury.event import EventClass, key_of
from augury.history.coming import received
from augury.history.pieces import rows_where
from augury.history.typed import Part
from augury.kernels.batch import ASSERT, Batch, Integers
from augury.kernels.columns import arrow_type
from augury.kernels.match.leaves import Rows, truth_of
from augury.spark.layout import REJECTED, REJECTED_COLUMNS, VERSION, integers
from augury.spark.looks import ALIKE, NO_PLACES, US, Begin, Places, Run, Summary
from augury.spark.sheets import Sheet, Source, joined, part_of, sheets, value_columns
from augury.spark.stage import Group
from augury.spark.tasks import ROWS_AT_ONCE, Batches, positions
from augury.spark.workers import imports_are_kept

_RUNS_MAX: Final = 20
"""Ascending runs of rows read together that are told apart; with more they count as not in order."""

_PAUSE: Final = 20
"""A step of time so many times the mean one ends a run."""

_SAMPLED: Final = 64
"""Times of some rows read together that stand for all: where ranges of det_time are cut depends on them."""


# ---- a look at a partition ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """The rows of a partition → a `Summary` of them, as bytes of our own."""

    program: Program
    source: Source
    until_us: int | None
    keyed: frozenset[int]

    def __call__(self, batches: Batches) -> Batches:
        """Read all of them, and keep counts."""
        part, count, versions, ids, there = None, 0, 0, set[int](), set[int]()
        runs: list[Run] | None = []
        sampled: list[int] = []
        for sheet, rows in sheets(self.program, self.source, batches, self.until_us, self.keyed):
            part, count = sheet.part, count + rows
            ids |= {code for code, part in sheet.parts.items() if part.event_id is not None}
            there |= {code for code, part in sheet.parts.items() if len(part)}
            if len(sheet):
                us = sheet.times("det_time")
                sampled += _some(us)
                more = _runs(us, sheet.code, versions)
                runs = None if runs is None or more is None else runs + more
                versions += len(sheet)
        told = (None if runs is None else tuple(runs), frozenset(ids), frozenset(there), tuple(sampled))
        if part is None:
            return
        found = Summary(self.source.number, part, count, *told)
        yield pa.RecordBatch.from_pydict({"summary": pa.array([pickle.dumps(found)], pa.binary())})


@dataclass(frozen=True, slots=True)
class Glance:
    """What `Sure.glanced` has of one data frame's rows → a `Summary`, as bytes of our own.

    Classes are not told apart, and none has ids: it is for what `sure` knows.
    """

    def __call__(self, batches: Batches) -> Batches:
        """Read all of them, and keep counts."""
        count, versions, withdraws = 0, 0, False
        runs: list[Run] | None = []
        sampled: list[int] = []
        alike: list[Integers] = [NO_PLACES]
        for table in joined(batches):
            count += table.num_rows
            if table.column(US).null_count:
                fine = table.column(US).is_valid()
                table, others = table.filter(fine), table.filter(pc.invert(fine))
                withdraws |= ALIKE in others.column_names and others.column(ALIKE).null_count < len(others)
            us = integers(table, US)
            if len(us):
                sampled += _some(us)
                more = _runs(us, np.zeros(len(us), np.int16), versions)
                runs = None if runs is None or more is None else runs + more
                if ALIKE in table.column_names:
                    alike.append(versions + _alike(us, table.column(ALIKE)))
                versions += len(us)
        if not count:
            return
        told = (None if runs is None else tuple(runs), frozenset[int](), frozenset[int](), tuple(sampled))
        found = Summary(0, part_of(0), count, *told, np.concatenate(alike), withdraws)
        yield pa.RecordBatch.from_pydict({"summary": pa.array([pickle.dumps(found)], pa.binary())})


def _alike(us: Integers, hashes: pa.ChunkedArray) -> Integers:
    """The rows that share time and hash with another; those of one time follow each other."""
    follows = np.zeros(len(us) + 1, np.bool_)
    np.equal(us[1:], us[:-1], out=follows[1:-1])
    rows = np.flatnonzero((follows[1:] | follows[:-1]) & hashes.is_valid().to_numpy())
    if not len(rows):
        return rows
    of_rows = hashes.take(pa.array(rows)).to_numpy()
    order = np.lexsort((of_rows, us[rows]))
    same = (np.diff(us[rows][order]) == 0) & (np.diff(of_rows[order]) == 0)
    return np.sort(rows[order][np.append(same, False) | np.append(False, same)])


def _some(us: Integers) -> list[int]:
    """Times that stand for all, the first and the last among them."""
    return [*us[:: -(-len(us) // _SAMPLED)].tolist(), int(us.min()), int(us.max())]


def _runs(us: Integers, code: npt.NDArray[np.int16], before: int) -> list[Run] | None:
    """Versions in runs, from the number `before` on; None where they come in no order.

    A run also ends where no event is for long: rows of other partitions may be from then.
    """
    steps = np.diff(us)
    ends = np.flatnonzero((steps < 0) | (steps > _PAUSE * max(1, (int(us[-1]) - int(us[0])) // len(us)))) + 1
    if len(ends) > _RUNS_MAX:
        ends = np.flatnonzero(steps < 0) + 1
    if len(ends) > _RUNS_MAX:
        return None
    bounds = [0, *ends.tolist(), len(us)]
    return [
        Run(before + begin, int(us[begin]), int(us[end - 1]), tuple(np.bincount(code[begin:end]).tolist()))
        for begin, end in itertools.pairwise(bounds)
    ]


# ---- numbers, in order -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbering:
    """Where the numbers of each partition's runs begin, and the places of its rows; by partition."""

    begins: Mapping[int, tuple[Begin, ...]]
    places: Places
    histories: Mapping[str, tuple[int, ...]]


def _keyed(classes: Sequence[EventClass]) -> frozenset[int]:
    """The classes whose rows were found to be versions beside others of their key."""
    return frozenset(code for code, event_class in enumerate(classes) if event_class.key)


@dataclass(slots=True)
class _Counter:
    """Gives the versions of a partition their numbers, and their positions in histories."""

    numbering: Numbering
    versions: int = 0
    at: int = -1
    counted: list[int] = field(default_factory=list)

    def numbers(self, sheet: Sheet) -> tuple[Integers, list[pa.Array]]:
        """The numbers of some more versions."""
        code, begins = sheet.code, self.numbering.begins.get(sheet.part, ())
        seq, begin = np.empty(len(code), np.int64), 0
        found: list[list[pa.Array]] = [[pa.array([], pa.int64())] for _ in self.numbering.histories]
        while begin < len(code):
            if self.at + 1 < len(begins) and begins[self.at + 1].version == self.versions:
                self.at += 1
                self.counted = list(begins[self.at].histories)
            following = begins[self.at + 1].version if self.at + 1 < len(begins) else None
            end = len(code) if following is None else min(len(code), begin + following - self.versions)
            run = begins[self.at]
            seq[begin:end] = np.arange(self.versions, self.versions + end - begin) - run.version + run.seq + 1
            for i, (each, history) in enumerate(zip(found, self.numbering.histories.values(), strict=True)):
                each.append(self._positions(i, history, code[begin:end]))
            self.versions += end - begin
            begin = end
        return seq, [pa.concat_arrays(each) for each in found]

    def _positions(self, at: int, codes: tuple[int, ...], code: npt.NDArray[np.int16]) -> pa.Array:
        found = positions(codes, code, np.full(len(code), ASSERT), self.counted[at])
        self.counted[at] += len(found) - found.null_count
        return found


@dataclass(frozen=True, slots=True)
class Give:
    """The rows of a partition → numbered versions, and refusals, as `layout.accepted_schema` has them."""

    program: Program
    source: Source
    until_us: int | None
    numbering: Numbering

    def __call__(self, batches: Batches) -> Batches:
        """Number all of them."""
        classes, counter = received(self.program), _Counter(self.numbering)
        for sheet, _ in sheets(self.program, self.source, batches, self.until_us, _keyed(classes)):
            det_us = sheet.times("det_time")
            seq, counted = counter.numbers(sheet)
            columns = {
                "what": pa.array(np.full(len(sheet), VERSION, np.int8)),
                "code": pa.array(sheet.code),
                "kind": pa.array(sheet.kind),
                "seq": pa.array(seq),
                "occ_time": pa.array(sheet.times("occ_time")),
                "det_time": pa.array(det_us),
            }
            columns |= {name: pa.nulls(len(sheet), pa.string()) for name in REJECTED_COLUMNS}
            columns |= value_columns(sheet, classes)
            columns |= zip(self.numbering.histories, counted, strict=True)
            table = pa.table(columns)
            yield from pa.concat_tables([table, self._refused(sheet, table.schema)]).to_batches()

    def _refused(self, sheet: Sheet, schema: pa.Schema) -> pa.Table:
        places, part = self.numbering.places, sheet.part
        rows = [
            {
                "what": REJECTED,
                "seq": places.position(part, refusal.position),
                "place": places.place(part, refusal.position),
                "event": refusal.event,
                "reason": refusal.reason,
                "raw": refusal.raw,
            }
            for refusal in sheet.refusals
        ]
        return pa.Table.from_pylist(rows, schema=schema)


@dataclass(frozen=True, slots=True)
class Feed:
    """The rows of a partition → what a group reads of the versions among them, as `layout.rows_schema` has it."""

    program: Program
    source: Source
    until_us: int | None
    numbering: Numbering
    group: Group
    occ: bool

    def __call__(self, batches: Batches) -> Batches:
        """Number all, and send what matters."""
        group, names = self.group, list(self.numbering.histories)
        counter = _Counter(self.numbering)
        lanes: dict[str, list[tuple[int, int]]] = {}
        for place, name in group.lanes.items():
            lanes.setdefault(name, []).append(place)
        for sheet, _ in sheets(self.program, self.source, batches, self.until_us, _keyed(received(self.program))):
            if not len(sheet):
                continue
            det_us = sheet.times("det_time")
            seq, counted = counter.numbers(sheet)
            rows = _mattering(group, sheet)
            chosen: Any = slice(None) if rows is None else rows
            columns = {"code": pa.array(sheet.code[chosen]), "seq": pa.array(seq[chosen])}
            columns["det_time"] = pa.array(det_us[chosen])
            if self.occ:
                columns["occ_time"] = pa.array(sheet.times("occ_time")[chosen])
            for name in group.histories:
                found = counted[names.index(name)]
                columns[name] = found if rows is None else found.take(pa.array(rows))
            for name, places in lanes.items():
                code, i = places[0]
                arrays = {c: sheet.parts[c].values[i] for c, i in places if c in sheet.parts}
                columns[name] = sheet.column(arrays, arrow_type(group.classes[code].attributes[i].type), rows)
            yield from pa.table(columns).to_batches(max_chunksize=ROWS_AT_ONCE)


def _mattering(group: Group, sheet: Sheet) -> Integers | None:
    """The rows that a group reads, and some leaf may be true of; None if that is all."""
    kept = np.zeros(len(sheet), np.bool_)
    for code in group.own:
        if code in sheet.parts:
            of_class = None if group.leaves is None else _true_of(group.leaves, group.classes[code], sheet.parts[code])
            kept[sheet.where(code)] = True if of_class is None else of_class
    return rows_where(kept)


def _true_of(leaves: Sequence[Primitive], event_class: EventClass, part: Part) -> npt.NDArray[np.bool_] | None:
    """The rows of a class that some leaf is true of, up to its variables; None for all: also where a mask errs."""
    count = len(part)
    table = pa.table(dict(zip((a.name for a in event_class.attributes), part.values, strict=True)))
    every, zeros = np.arange(count), np.zeros(count, np.uint8)
    columns = (zeros.astype(np.int16), every, every, part.occ_time, part.det_time, zeros)
    rows = Rows(Batch((event_class,), *columns, (table,), (None,)), every, np.zeros(0, np.int64))
    found = np.zeros(count, np.bool_)
    for leaf in leaves:
        if key_of(leaf.event_class) == key_of(event_class.name):
            truth = truth_of(leaf, rows, {})
            if truth.errors or len(truth.rows) == count:
                return None
            found[truth.rows] = True
    return found


imports_are_kept()
