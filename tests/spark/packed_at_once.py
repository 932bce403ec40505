"""Hundreds of programs, each over all of its events at once, in few jobs of Spark: the tasks of each in its workers.

In: cases whose programs wait for no tick. Out: what each found, as `augury run --engine spark` collects it. What runs
in the workers are `tasks.Accept` and `tasks.Detect`, one for each program and each of its groups, sent as bytes beside
the rows they are for. One job accepts, one more detects for each layer of classes that are built on others; between
them the driver does by hand what `feeding` has Spark do.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from augury.engine.once import goes_in_one_step
from augury.event import key_of
from augury.history.coming import received
from augury.history.raw import Rejected
from augury.spark.layout import (
    ABSORBED,
    END,
    REJECTED,
    REJECTED_COLUMNS,
    VERSION,
    batch_of,
    occurrences_of,
)
from augury.spark.plan import stages_of
from augury.spark.run import Collected
from augury.spark.stage import Group, groups_of, histories_of, plain, subscribed
from augury.spark.tasks import Accept, Detect, packed_row
from tests.spark.by_hand import history, of_member, schema_of, shares
from tests.spark.packed import Case

_JOBS: Final = pa.schema([("program", pa.int32()), ("place", pa.int32()), ("task", pa.binary()), ("rows", pa.binary())])
"""A task with what it reads, of a program; `place` is the group that it is of."""

_PARTITIONS: Final = 2


def goes_at_once(case: Case) -> bool:
    """Whether `augury run --engine spark` goes over all events at once, as `local.replay` decides it."""
    return goes_in_one_step(case.program, [one.name for one in received(case.program)])


# ---- in a task ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Each:
    """Tasks of many programs with their rows → what each of them gives, as bytes."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                given = list(pickle.loads(row["task"])(iter(_table(row["rows"]).to_batches())))
                if given:
                    packed = _packed(pa.Table.from_batches(given))
                    yield pa.RecordBatch.from_pylist([{**row, "task": None, "rows": packed}], schema=_JOBS)


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _table(packed: bytes) -> pa.Table:
    return pa.ipc.open_stream(packed).read_all()


# ---- jobs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A task of a program, for one of its groups, over a table."""

    program: int
    place: int
    task: Accept | Detect
    rows: pa.Table


def _run(spark: SparkSession, jobs: Iterable[Job]) -> Iterator[tuple[int, int, pa.Table]]:
    """What tasks give, by program and group; in workers of Spark, in one job."""
    rows = [
        {"program": job.program, "place": job.place, "task": pickle.dumps(job.task), "rows": _packed(job.rows)}
        for job in jobs
    ]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=_JOBS))
    dealt = frame.repartitionById(_PARTITIONS, f.expr(f"pmod(program + place, {_PARTITIONS})"))
    schema = "program int, place int, task binary, rows binary"
    for row in dealt.mapInArrow(Each(), schema).toArrow().to_pylist():
        yield row["program"], row["place"], _table(row["rows"])


@dataclass
class Running:
    """How far a program is: what was accepted, and what its groups have found by now, class by class."""

    case: Case
    groups: tuple[Group, ...]
    accepted: pa.Table = field(default_factory=lambda: pa.table({}))
    found: dict[str, pa.Table] = field(default_factory=dict)

    def accepting(self, program: int) -> Job:
        """The task that makes versions of its events."""
        accept = Accept(plain(self.case.program), histories_of(self.groups), self.case.end_us)
        return Job(program, -1, accept, pa.Table.from_batches([packed_row(0, 0, 0, self.case.raw)]))

    def due(self) -> list[int]:
        """The groups that have not run, and read nothing that was not found."""
        return [
            place
            for place, group in enumerate(self.groups)
            if key_of(group.found[0].name) not in self.found
            and all(key_of(c.name) in self.found for stage in group.stages for c in stage.reads_complex)
        ]

    def detecting(self, program: int, place: int) -> Iterator[Job]:
        """The tasks of a group, over its rows cut by key."""
        group = self.groups[place]
        rows = history(group, self._of(VERSION), self.found)
        if group.timed:
            (end_us,) = self._of(ABSORBED)["det_time"]
            rows = rows.append_column(END, pa.repeat(end_us, len(rows)))
        for share in shares(group, rows, self.case.buckets) if group.keys else [rows]:
            yield Job(program, place, Detect(group, self.case.program.settings.chronon_us), share)

    def note(self, place: int, tables: Sequence[pa.Table]) -> None:
        """Keep what the tasks of a group found."""
        group = self.groups[place]
        made = pa.concat_tables([schema_of(group.found).empty_table(), *tables])
        self.found |= {key_of(c.name): of_member(group, member, made) for member, c in enumerate(group.found)}

    def collected(self) -> Collected:
        """All of it, as `spark.run.collect` brings it to the driver."""
        program, refused = self.case.program, self._of(REJECTED).sort_by("seq")
        classes = [plan.event_class for plan in program.classes if key_of(plan.event_class.name) in self.found]
        return Collected(
            tuple(occurrences_of(self.found[key_of(c.name)], c) for c in classes),
            Rejected(*(tuple(refused[name].to_pylist()) for name in REJECTED_COLUMNS)),
            batch_of(self._of(VERSION), subscribed(program)),
            sum(self._of(ABSORBED)["seq"].to_pylist()),
        )

    def _of(self, what: int) -> pa.Table:
        return self.accepted.filter(pc.equal(self.accepted["what"], what))


def at_once(spark: SparkSession, cases: Sequence[Case]) -> list[Collected]:
    """What each program finds over its events."""
    every = [Running(case, groups_of(stages_of(case.program))) for case in cases]
    for program, _, table in _run(spark, (one.accepting(n) for n, one in enumerate(every))):
        every[program].accepted = table
    while due := [(program, place) for program, one in enumerate(every) for place in one.due()]:
        jobs = [job for program, place in due for job in every[program].detecting(program, place)]
        given: dict[tuple[int, int], list[pa.Table]] = {pair: [] for pair in due}
        for program, place, table in _run(spark, jobs):
            given[program, place].append(table)
        for (program, place), tables in given.items():
            every[program].note(place, tables)
    return [one.collected() for one in every]
