"""Hundreds of programs in one job of Spark: the tasks of each, given its own rows, in the workers that Spark has.

In: cases, each a program with events. Out: a ledger a case, from a batch or from lakes that steps were committed to.
What runs in the workers are the tasks of `augury.spark`, one for each program, sent as bytes beside the rows they are
for; between the jobs the driver does what `stepping`, `keeping` and `watch` do, with their functions. Where Spark runs
the SELECTs, the engines that have some run on the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from augury.algebra.program import Program
from augury.engine.failing import united
from augury.engine.ledger import REJECTED, Ledger, joined
from augury.engine.ports import SelectsBy
from augury.engine.sharded import SLOTS_MAX, Slots, more_known, shared_ids
from augury.engine.tick import tick_at_most, tick_reading
from augury.history.arrivals import arrivals
from augury.history.json_lines import read_line
from augury.history.raw import RawRows
from augury.kernels.reference.bitemporal import Raw
from augury.lake import Lake
from augury.spark.arriving import PIECES, SPARK_PIECES, SUMMARY, Ingest, sources_of
from augury.spark.committed import ledger_in
from augury.spark.keeping import Keeper, keeper
from augury.spark.selects import SparkSelects, selects_by
from augury.spark.slots import FAILED, SPARK_RESULTS, Judge, Run, Step, done_in, ipc_table, require_run
from augury.spark.stepping import (
    NOTHING_TOLD,
    Told,
    accepted_in,
    for_slots,
    identified_in,
    looked_in,
    numbered,
    positions_of,
    slots_on_spark,
    step_of,
    told_by,
    unforeseen,
)
from augury.spark.watch import Watch

SOURCE = "events.jsonl"
PARTITIONS = 3
TASK = -9
"""The code of a row that holds a task, not a piece."""


@dataclass(frozen=True)
class Case:
    """A program, events as lines of JSON, and how far the clock goes; `chance` decides how rows are dealt and cut.

    `arrives` has the numbers of the lines of each micro-batch, where they are not cut by chance from lines in the order
    of det_time; `clock` the time at which each is read, where it is not that of the data. `raws` are the events for the
    reference, where they were made for it.
    """

    name: str
    program: Program
    lines: tuple[str, ...]
    until_us: int | None = None
    buckets: int = 2
    chance: int = 0
    arrives: tuple[tuple[int, ...], ...] | None = None
    clock: tuple[int, ...] | None = None
    raws: tuple[Raw, ...] | None = None

    @property
    def raw(self) -> RawRows:
        """The events as a reader of files has them."""
        return RawRows(SOURCE, [read_line(line.encode()) for line in self.lines], range(1, len(self.lines) + 1))

    @property
    def end_us(self) -> int | None:
        """The last tick, where somebody says how far to go."""
        return None if self.until_us is None else tick_at_most(self.until_us, self.program.settings.chronon_us)


# ---- in a task ---------------------------------------------------------------------------------------------------

LINES = pa.schema(
    [
        ("part", pa.int32()),
        ("program", pa.int32()),
        ("task", pa.binary()),
        *((name, pa.string()) for name in ("line", "source", "event", "refused")),
        ("position", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Lines:
    """Lines of many programs → what the `Ingest` of each makes of its own."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches), LINES)
        programs = table["program"].to_numpy()
        for program in np.unique(programs).tolist():
            own = table.take(pa.array(np.flatnonzero(programs == program)))
            task = pickle.loads(own["task"].drop_null()[0].as_py())
            rows = own.filter(own["position"].is_valid()).select(["line", "source", "position", "event", "refused"])
            yield from _of_program(program, task(iter(rows.to_batches())))


@dataclass(frozen=True)
class Slotted:
    """Pieces of many programs → what the `Judge` or `Run` of each makes of its own."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tasks: dict[int, Any] = {}
        held: dict[int, list[tuple[int, int, bytes]]] = {}
        for batch in batches:
            names = ("program", "slot", "code", "packed")
            for program, slot, code, content in zip(*(batch.column(n).to_pylist() for n in names), strict=True):
                if code == TASK:
                    tasks[program] = pickle.loads(content)
                else:
                    held.setdefault(program, []).append((slot, code, content))
        for program, rows in sorted(held.items()):
            columns = [
                pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), PIECES.types, strict=True)
            ]
            yield from _of_program(program, tasks[program](iter([pa.RecordBatch.from_arrays(columns, schema=PIECES)])))


def _of_program(program: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = pa.array([program] * batch.num_rows, pa.int32())
        yield pa.RecordBatch.from_arrays([numbers, *batch.columns], names=["program", *batch.schema.names])


# ---- jobs --------------------------------------------------------------------------------------------------------


@dataclass
class Came:
    """Rows of many programs on their way into one job."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in LINES.names})

    def add(self, program: int, ingest: Ingest, rows: Sequence[tuple[int, str]], random: Random) -> None:
        """Deal the lines of a program, with their numbers, to some partitions, with the task for them."""
        parts = random.sample(range(PARTITIONS), random.randint(1, PARTITIONS))
        task = pickle.dumps(ingest)
        for part in parts:
            self._row(part=part, program=program, task=task)
        for number, line in rows:
            self._row(part=random.choice(parts), program=program, line=line, source=SOURCE, position=number)

    def _row(self, **values: Any) -> None:
        for name, column in self.columns.items():
            column.append(values.get(name))

    def pieces(self, spark: SparkSession) -> DataFrame:
        """What all programs make of their lines."""
        frame = spark.createDataFrame(pa.table(self.columns, schema=LINES))
        frame = frame.repartitionById(PARTITIONS, f.col("part"))
        return frame.mapInArrow(Lines(), f"program int, {SPARK_PIECES}").persist(StorageLevel.MEMORY_ONLY)


def told_of(pieces: DataFrame, programs: Iterable[int]) -> dict[int, Told]:
    """What the partitions told, by program."""
    found = pieces.where(f.col("slot") == SUMMARY).select("program", "packed").toArrow()
    by_program: dict[int, list[bytes]] = {program: [] for program in programs}
    for program, content in zip(found["program"].to_pylist(), found["packed"].to_pylist(), strict=True):
        by_program[program].append(content)
    return {program: told_by(packed) for program, packed in by_program.items()}


def stepped(
    spark: SparkSession,
    pieces: DataFrame | None,
    told: Mapping[int, Told],
    steps: Mapping[int, Step],
    commits: Mapping[int, int],
    selects: Mapping[int, SparkSelects],
) -> dict[int, pa.Table]:
    """One step of all programs, as `stepping.collected` does it for one: what the engines of their slots did."""
    done: dict[int, pa.Table] = {}
    left = dict(steps)
    while left:
        numbers, left = _judged(spark, pieces, told, left, selects)
        runs = {p: Run(step, commits.get(p, 0)) for p, step in left.items()}
        done |= _run(spark, pieces, runs, numbers, SPARK_RESULTS, selects)
        again = {p: unforeseen(step, done[p]) for p, step in left.items()}
        left = {p: step for p, step in again.items() if step is not None}
    return done


def _judged(
    spark: SparkSession,
    pieces: DataFrame | None,
    told: Mapping[int, Told],
    steps: Mapping[int, Step],
    selects: Mapping[int, SparkSelects],
) -> tuple[dict[int, list[pa.RecordBatch]], dict[int, Step]]:
    """The numbers of the versions of all programs, as `stepping.judged` finds them for one, and what slots know."""
    known = dict(steps)
    numbers: dict[int, list[pa.RecordBatch]] = {program: [] for program in steps}
    open_ = {program for program, step in steps.items() if len(step.slots) > 1}
    while open_:
        judges = {p: Judge(known[p]) for p in open_}
        rows = _run(spark, pieces, judges, dict.fromkeys(open_, ()), SPARK_PIECES, selects)
        for program in sorted(open_):
            step = known[program]
            accepted, failing = accepted_in(rows[program]), united(looked_in(rows[program]).values())
            shared = shared_ids(identified_in(told[program], step.sources, rows[program]))
            more = more_known(step.slots.program, step.known, failing, shared, positions_of(accepted))
            if more is None:
                numbers[program] = numbered(accepted, step.after_seq)
                open_.remove(program)
            else:
                known[program] = replace(step, known=more)
    return numbers, known


def _run(
    spark: SparkSession,
    pieces: DataFrame | None,
    tasks: Mapping[int, Judge | Run],
    further: Mapping[int, Iterable[pa.RecordBatch]],
    schema: str,
    selects: Mapping[int, SparkSelects],
) -> dict[int, pa.Table]:
    """Run the task of each program over its pieces, with slots dealt to two partitions, or on the driver."""
    here = {p: task.step.slots.selecting() if p in selects else () for p, task in tasks.items()}
    tables = []
    for program, task in tasks.items():
        content, slots = pickle.dumps(task), task.step.slots
        sent = [(slot, TASK, content) for slot in range(min(2, len(slots)))]
        columns = [pa.array(column, kind) for column, kind in zip(zip(*sent, strict=True), PIECES.types, strict=True)]
        there = [slot for slot in range(len(slots)) if slot not in here[program]]
        rows = pa.concat_tables([pa.table(columns, schema=PIECES), for_slots(there, further[program])])
        tables.append(rows.add_column(0, "program", pa.array([program] * rows.num_rows, pa.int32())))
    frame = spark.createDataFrame(pa.concat_tables(tables))
    on_driver = _is_among((program, slot) for program, slots in here.items() for slot in slots)
    if pieces is not None:
        frame = pieces.where((f.col("slot") >= 0) & f.col("program").isin(list(tasks)) & ~on_driver).unionAll(frame)
    # Slots 0, 2, … of a program go to one worker, 1, 3, … to another.
    found = frame.repartitionById(2, f.expr("pmod(program + slot, 2)"))
    table = found.mapInArrow(Slotted(), f"program int, {schema}").toArrow()
    programs = table["program"].to_numpy()
    rest = table.drop_columns(["program"])
    done = {program: rest.take(pa.array(np.flatnonzero(programs == program))) for program in tasks}
    came = None if pieces is None or not any(here.values()) else pieces.where(on_driver).toArrow()
    for program, task in tasks.items():
        if here[program]:
            rows = [for_slots(here[program], further[program])]
            if came is not None:
                rows.append(came.filter(pc.equal(came["program"], program)).drop_columns(["program"]).cast(PIECES))
            batches = list(replace(task, selects=selects[program])(iter(pa.concat_tables(rows).to_batches())))
            done[program] = pa.concat_tables([done[program], *map(pa.Table.from_batches, ([one] for one in batches))])
    return done


def _is_among(slots: Iterable[tuple[int, int]]) -> Column:
    """Whether a piece is for one of these slots, given with their programs."""
    return (f.col("program").cast("bigint") * SLOTS_MAX + f.col("slot")).isin([p * SLOTS_MAX + s for p, s in slots])


# ---- a batch -----------------------------------------------------------------------------------------------------


def in_batch(spark: SparkSession, cases: Sequence[Case], by: SelectsBy = "duckdb") -> list[Ledger]:
    """What each program does over its events, in one batch."""
    made = {n: _selects(spark, case, by) for n, case in enumerate(cases)}
    selects = {n: one for n, one in made.items() if one is not None}
    slots = [slots_on_spark(case.program, case.buckets, selects.get(n)) for n, case in enumerate(cases)]
    came = Came()
    for number, case in enumerate(cases):
        ingest = Ingest(slots[number], 0, SOURCE, None, is_lines=True, until_us=case.end_us)
        came.add(number, ingest, list(enumerate(case.lines, 1)), Random(f"dealt {case.chance}"))
    pieces = came.pieces(spark)
    try:
        told = told_of(pieces, range(len(cases)))
        steps = {n: _whole_step(case, slots[n], told[n]) for n, case in enumerate(cases)}
        done = stepped(spark, pieces, told, steps, {}, selects)
    finally:
        pieces.unpersist()
    return [_ledger(case, told[n], done[n]) for n, case in enumerate(cases)]


def _selects(spark: SparkSession, case: Case, by: SelectsBy) -> SparkSelects | None:
    return None if by == "duckdb" else selects_by(by, spark, case.program)


def _whole_step(case: Case, slots: Slots, told: Told) -> Step:
    chronon_us = case.program.settings.chronon_us
    first = None if told.first_us is None else tick_reading(told.first_us, chronon_us)
    last = 0 if told.last_us is None else tick_reading(told.last_us, chronon_us)
    return step_of(slots, told, last if case.end_us is None else case.end_us, first)


def _ledger(case: Case, told: Told, table: pa.Table) -> Ledger:
    require_run(table)
    table = table.filter(pc.not_equal(table["kind"], FAILED))
    found = []
    for kind, name, content in zip(*(table[c].to_pylist() for c in ("kind", "event_class", "packed")), strict=True):
        rows = ipc_table(content)
        found.append(Ledger(**{kind: {name: rows} if kind in ("versions", "archive", "firings") else rows}))
    sources = sources_of(told.rows)
    refused = [
        {"place": sources.place(sources.position(source, number)), "event": event, "reason": reason, "raw": raw}
        for source, number, event, reason, raw in told.refused
    ]
    return joined(case.program, [*found, Ledger(rejected=pa.Table.from_pylist(refused, schema=REJECTED))])


# ---- a stream ----------------------------------------------------------------------------------------------------


@dataclass
class Kept:
    """A program at work on a lake, which is taken up anew before some of the steps."""

    case: Case
    batches: list[list[tuple[int, str]]]
    restarts: frozenset[int]
    keeper: Keeper

    def restart(self) -> None:
        """Forget everything, and take over what is in the lake."""
        again = Lake.open(self.keeper.lake.path)
        self.keeper = keeper(self.keeper.spark, self.case.program, again, selects=self.keeper.selects)

    def ingest(self, batch: int) -> Ingest:
        """As a watch over a replay reads a micro-batch."""
        last, end = self.keeper.last_tick, self.case.end_us
        now = None if self.case.clock is None else self.case.clock[batch]
        return Ingest(
            self.keeper.slots, 0, "stream", None, True, batch + 1, until_us=end, read_us=now, not_before_us=last
        )

    def until(self, told: Told, batch: int) -> int:
        """How far a watch goes."""
        clock = None if self.case.clock is None else partial(self.case.clock.__getitem__, batch)
        return Watch._until(_Watching(self.keeper, clock), told.last_us)  # type: ignore[arg-type]  # what it looks at

    def end(self) -> int | None:
        """How far a replay goes at its end, as `Watch.finish` has it; None if there is nothing to do."""
        last, chronon_us = self.keeper.noted.get("last_us"), self.case.program.settings.chronon_us
        until = tick_reading(last, chronon_us) if self.case.end_us is None and last is not None else self.case.end_us
        if until is None or (not self.keeper.noted.get("waiting") and self.keeper.next_due > until):
            return None
        return until


@dataclass
class _Watching:
    """A watch, as far as `Watch._until` looks at it."""

    keeper: Keeper
    _clock: Callable[[], int] | None


def in_stream(
    spark: SparkSession, cases: Sequence[Case], root: Path, cuts: int = 3, by: SelectsBy = "duckdb"
) -> list[Ledger]:
    """What each program does over its events, cut into micro-batches, each committed to a lake of the program."""
    every = [_kept(spark, case, root / f"{number:04d}", cuts, by) for number, case in enumerate(cases)]
    for batch in range(max(len(kept.batches) for kept in every)):
        at_work = {n: kept for n, kept in enumerate(every) if batch < len(kept.batches)}
        came = Came()
        for number, kept in at_work.items():
            if batch in kept.restarts:
                kept.restart()
            came.add(number, kept.ingest(batch), kept.batches[batch], Random(f"dealt {kept.case.chance} {batch}"))
        pieces = came.pieces(spark)
        try:
            told = told_of(pieces, at_work)
            _keep(spark, pieces, at_work, told, {n: kept.until(told[n], batch) for n, kept in at_work.items()}, batch)
        finally:
            pieces.unpersist()
    ends = {n: until for n, kept in enumerate(every) if (until := kept.end()) is not None}
    _keep(spark, None, {n: every[n] for n in ends}, dict.fromkeys(ends, NOTHING_TOLD), ends, None)
    return [ledger_in(k.case.program, k.keeper.lake, list(k.keeper.lake.manifests())) for k in every]


def _keep(
    spark: SparkSession,
    pieces: DataFrame | None,
    at_work: Mapping[int, Kept],
    told: Mapping[int, Told],
    until: Mapping[int, int],
    batch: int | None,
) -> None:
    """One step of all these programs, committed."""
    if not at_work:
        return
    steps = {n: kept.keeper.step(told[n], until[n]) for n, kept in at_work.items()}
    selects = {n: kept.keeper.selects for n, kept in at_work.items() if kept.keeper.selects is not None}
    commits = {n: kept.keeper.writer.next_commit for n, kept in at_work.items()}
    done = stepped(spark, pieces, told, steps, commits, selects)
    query = None if batch is None else "query"
    for number, kept in at_work.items():
        kept.keeper.settle(steps[number], told[number], done_in(done[number]), query=query, batch=batch)


def _kept(spark: SparkSession, case: Case, path: Path, cuts: int, by: SelectsBy) -> Kept:
    program, random = case.program, Random(f"cut {case.chance}")
    chronon_us = program.settings.chronon_us
    lake = Lake.create(path, program_text=program.text, chronon_us=chronon_us, buckets=case.buckets)
    if case.arrives is None:
        rows = by_det_time(case, random)
        bounds = [0, *sorted(random.randint(0, len(rows)) for _ in range(random.randint(1, cuts))), len(rows)]
        batches = [rows[begin:end] for begin, end in pairwise(bounds)]
    else:
        batches = [[(number, case.lines[number - 1]) for number in some] for some in case.arrives]
    # Before the first there is nothing to be taken up.
    restarts = frozenset(random.randrange(1, max(2, len(batches))) for _ in range(2))
    return Kept(case, batches, restarts, keeper(spark, program, lake, selects=_selects(spark, case, by)))


def by_det_time(case: Case, random: Random) -> list[tuple[int, str]]:
    """The lines with their numbers in the order in which they were detected; those without a time come anywhere."""
    times: dict[int, float] = {}
    for rows in arrivals(case.program, [case.raw]).rows.values():
        times.update(zip((rows.position + 1).tolist(), rows.part.det_time.tolist(), strict=True))
    known = sorted(times.values()) or [0]
    numbered = list(enumerate(case.lines, 1))
    at = {number: times.get(number, random.uniform(known[0], known[-1])) for number, _ in numbered}
    return sorted(numbered, key=lambda row: at[row[0]])
