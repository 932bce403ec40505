"""MATCHes without keys in ranges of the history: what one engine in process finds, wherever the history is cut."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from augury.algebra.program import Program
from augury.api import compile
from augury.local.engine import detect as detect_in_process
from augury.local.kernel import match_kernel
from augury.local.sources import tables_of
from augury.spark.detect import Detected, detect
from augury.spark.layout import occurrences_of
from augury.spark.passing import Emit, Pass, RowsHaveMoved, Stretch
from augury.spark.plan import explain_plan, stages_of
from augury.spark.ranges import _by_ranges, _lie_well, _states, pays
from augury.spark.run import collect
from augury.spark.stage import Group, groups_of

CLASSES = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (x INT, s STRING) ID () LIFESPAN (5d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS B (x BIGINT, d DOUBLE) ID () LIFESPAN (1s);
CREATE MUTABLE SUBSCRIBED EVENT CLASS C (s STRING, since TIMESTAMP) ID () LIFESPAN (5d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS N () ID () LIFESPAN (5d);
"""

MATCHES = (
    "() ID () AS MATCH sequence(A, B)",
    "(x INT) ID () AS MATCH sequence(A, B) RETURN A.x AS x",
    "(x INT, d DOUBLE) ID () AS MATCH prior(A[x > 3], B) RETURN A.x AS x, B.d AS d",
    "(x INT, d DOUBLE) ID () AS MATCH prior(A[x > 3], B) COLLECT EARLIEST RETURN A.x AS x, B.d AS d",
    "(X INT, S STRING, D DOUBLE) ID () AS MATCH prior(A(X, _), B(_, D), C(S, _))",
    "(X INT, S STRING, D DOUBLE) ID () AS MATCH prior(A(X, _), B(_, D), C(S, _)) COLLECT EARLIEST",
    "(S STRING, w TIMESTAMP) ID () AS MATCH prior(A(7, S), C(_, w))",
    "() ID () AS MATCH EVERY <3> A",
    "(x BIGINT) ID () AS MATCH EVERY <4> (A OR B) RETURN B.x AS x",
    "() ID () AS MATCH relative(A, <3> B)",
    "() ID () AS MATCH relative(A, <3> B) COLLECT EARLIEST",
    "() ID () AS MATCH !prior(A, B) AND B",
    "() ID () AS MATCH !happened(C)",
    "() ID () AS MATCH (<5> any) AND A",
    "(x INT) ID () AS MATCH relative(C, <4> any) AND A RETURN A.x AS x",
    "(s STRING) ID () AS MATCH A /+ C RETURN C.s AS s",
    "() ID () AS MATCH (A OR N) /+ C",
    "() ID () AS MATCH sequence(A, B) OVER (A, B)",
    "() ID () AS MATCH sequence(A, B, C) OVER (A, B, C) COLLECT EARLIEST",
    "(x INT) ID () AS MATCH prior(A[10 / x > 1], N) RETURN A.x AS x",
    "(large INT) ID () AS MATCH prior(A[8 / x > 0.5], B) RETURN A.x * 1000000000 AS large",
    "() ID () AS MATCH prior(C['a' = s], A[x > 8], B[d > 0.9], N)",
    "(u TIMESTAMP) ID () AS MATCH prior(C, N, A[x = 0]) COLLECT EARLIEST RETURN C.since AS u",
    "() ID () AS MATCH relative(A, relative(B, C))",
    "() ID () AS MATCH sequence(!A, A, !A)",
    "() ID () AS MATCH before(A) AND N",
)
PLACED = tuple(match for match in MATCHES if "OVER" not in match)
"""Those whose positions in a numbered history are its numbers; others have theirs counted in one task first."""

START = datetime(2026, 1, 1, tzinfo=UTC)


def program(*matches: str) -> Program:
    made = "".join(f"CREATE COMPLEX EVENT CLASS T{i} {match};\n" for i, match in enumerate(matches))
    return compile(CLASSES + made)


def table(seed: int, count: int) -> pa.Table:
    """Events by det_time, numbered, with ties."""
    random = Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        event = random.choice(("A", "A", "B", "B", "C", "N", "N"))
        rows.append(
            {
                "event": event,
                "seq": number + 1,
                "det_time": START + timedelta(milliseconds=300 * (number // 2)),
                "x": random.choice((*range(10), None)),
                "s": random.choice(("a", "b", None)),
                "d": random.choice((0.25, 0.5, 0.95)),
                "since": START + timedelta(microseconds=random.randrange(10**12)),
            }
        )
    time = pa.timestamp("us", "UTC")
    kinds = {"event": pa.string(), "seq": pa.int64(), "det_time": time}
    kinds |= {"x": pa.int32(), "s": pa.string(), "d": pa.float64(), "since": time}
    schema = pa.schema(list(kinds.items()))
    return pa.Table.from_pylist(rows, schema)


def told(found: Any) -> list[object]:
    """Every column of every class, and what was counted."""
    columns = ("seq", "occ_time", "det_time", "kind")
    return [
        (
            of.event_class.name,
            [getattr(of, name).tolist() for name in columns],
            of.constituents.to_pylist(),
            of.values.to_pylist() if of.values.num_columns else [],
            of.errors,
        )
        for of in found.occurrences
    ]


def in_process(of: Program, events: pa.Table) -> list[object]:
    return told(detect_in_process(of, tables_of(events.drop_columns(["seq"])), match_kernel))


def in_parts(spark: SparkSession, events: pa.Table, cuts: list[int]) -> DataFrame:
    """A data frame whose partitions are the rows between cuts, also none."""
    part = np.searchsorted(np.array(cuts), np.arange(events.num_rows), side="right").astype(np.int32)
    frame = spark.createDataFrame(events.append_column("part", pa.array(part)))
    return frame.repartitionById(len(cuts) + 1, "part").drop("part")


def groups(of: Program) -> list[Group]:
    return [group for group in groups_of(stages_of(of)) if group.ranged]


def parts_made(detected: Detected) -> int:
    ((_, made),) = detected.work.made
    return made.rdd.getNumPartitions()


def test_all_of_them_go_over_ranges_in_one_group() -> None:
    (group,) = groups_of(stages_of(program(*MATCHES)))
    assert group.ranged
    assert len(group.stages) == len(MATCHES) == 26


@pytest.mark.parametrize("numbered", [True, False])
def test_rows_that_lie_in_ranges_stay_there(spark: SparkSession, numbered: bool) -> None:
    of, events = program(*(PLACED if numbered else MATCHES)), table(1, 400)
    frame = in_parts(spark, events, [150, 151, 151, 390])
    with detect(of, frame if numbered else frame.drop("seq"), numbered=numbered, partitions=2) as found:
        assert told(collect(found)) == in_process(of, events)
        assert found.events.count() > 1_000
        assert parts_made(found) == 5


def test_rows_that_lie_anywhere_are_brought_into_ranges(spark: SparkSession) -> None:
    of, events = program(*PLACED), table(2, 400)
    wanted = in_process(of, events)
    shuffled = Random(3).sample(range(400), 400)
    frame = in_parts(spark, events.take(shuffled), [100, 200, 300])
    for partitions in (3, 7):
        with detect(of, frame, numbered=True, partitions=partitions) as found:
            assert parts_made(found) == partitions
            assert told(collect(found)) == wanted


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_few_rows_and_empty_partitions(spark: SparkSession, count: int) -> None:
    of = program(*MATCHES[:14])
    events = table(4, count)
    shuffled = in_parts(spark, events.take(pa.array(range(count)[::-1], pa.int64())), [count // 2, count // 2])
    with detect(of, shuffled, numbered=True, partitions=4) as found:
        assert told(collect(found)) == in_process(of, events)


def test_others_read_what_ranges_find(spark: SparkSession) -> None:
    keyed = "(X INT) ID () AS MATCH prior(A(X, _), B(X, _))"
    above = "() ID () AS MATCH EVERY <2> T2"
    within = "() ID () AS MATCH prior(A, B) WITHIN 1s"
    of, events = program(*MATCHES[:3], keyed, above, within), table(5, 300)
    assert [len(group.stages) for group in groups(of)] == [3]
    with detect(of, in_parts(spark, events, [100, 200]), numbered=True, partitions=3) as found:
        assert told(collect(found)) == in_process(of, events)


def test_one_partition_is_one_and_little_is_not_cut_by_default(spark: SparkSession) -> None:
    of, events = program(MATCHES[0]), table(6, 50)
    frame = in_parts(spark, events, [20])
    assert (pays(frame, None), pays(frame, 1), pays(frame, 2)) == (False, False, True)
    with detect(of, frame, numbered=True, partitions=1) as found:
        assert parts_made(found) == 1
        assert told(collect(found)) == in_process(of, events)
    # Eight gigabytes by its own estimate; nothing is read to know that.
    assert pays(spark.range(10**9), None)


def rows_of(events: pa.Table) -> list[pa.RecordBatch]:
    """What the one group of the first expression reads of versions: those of A and B, with positions."""
    codes = pa.array(["AB".find(name) for name in events["event"].to_pylist()], pa.int16())
    micros = events["det_time"].cast(pa.int64())
    rows = pa.table({"code": codes, "seq": events["seq"], "det_time": micros, "p0_1_2_3": events["seq"]})
    batches: list[pa.RecordBatch] = rows.filter(pc.greater_equal(rows["code"], 0)).to_batches(max_chunksize=7)
    return batches


def stretches(group: Group, batches: list[pa.RecordBatch]) -> list[Stretch]:
    return [pickle.loads(told["stretch"][0].as_py()) for told in Pass(group)(iter(batches))]


def test_a_partition_of_several_files_has_a_stretch_for_each() -> None:
    of, events = program(MATCHES[0]), table(7, 6_000)
    (group,) = groups(of)
    even, odd = (
        rows_of(pa.concat_tables([events.slice(begin, 1_000) for begin in range(start, 6_000, 2_000)]))
        for start in (0, 1_000)
    )
    found = sorted(stretches(group, odd[::-1]) + stretches(group, even), key=lambda one: one.first)
    assert [one.first // 1_000 for one in found] == list(range(6))
    assert _lie_well(found, None)
    begins, states = _states(group, found)
    emitted = [pa.Table.from_batches(Emit(group, 1_000_000, begins, states)(iter(part))) for part in (even, odd)]
    both = pa.concat_tables(emitted)
    (wanted,) = in_process(of, events)
    assert occurrences_of(both, group.found[0]).constituents.to_pylist() == wanted[2]  # type: ignore[index]


def test_rows_that_come_otherwise_the_second_time_are_an_error() -> None:
    (group,) = groups(program(MATCHES[0]))
    one, other = rows_of(table(8, 100)), rows_of(table(8, 200).slice(50))
    begins, states = _states(group, stretches(group, one))
    with pytest.raises(RowsHaveMoved, match="persist the data frame"):
        list(Emit(group, 1_000_000, begins, states)(iter(other[3:])))


def test_partitions_that_overlap_do_not_lie_well(spark: SparkSession) -> None:
    (group,) = groups(program(MATCHES[0]))
    batches = rows_of(table(9, 300))
    one, other = stretches(group, batches[::2]), stretches(group, batches[1::2])
    assert not _lie_well(sorted(one + other, key=lambda stretch: stretch.first), None)
    rows = spark.range(1, 301).withColumnRenamed("id", "seq")
    parts = [[row.seq for row in part] for part in _by_ranges(rows, [*one, *other], 3).rdd.glom().collect()]
    assert len(parts) == 3
    assert sorted(parts, key=min) == parts
    assert all(part == list(range(min(part), max(part) + 1)) for part in map(sorted, parts))


def test_the_plan_says_ranges_or_why_not() -> None:
    text = explain_plan(program(MATCHES[2], MATCHES[7], "() ID () AS MATCH prior(A, B) WITHIN 2s"))
    assert text.splitlines()[2:] == [
        "T0: in ranges of the history, gone over twice",
        "  reads A, B; columns A.x, B.d",
        "T1: in ranges of the history, gone over twice, those of T0",
        "  reads A; columns none",
        "T2: one partition, because no variable joins its events, and there is no PARTITION BY; "
        "nor in ranges of the history, because WITHIN looks at every tuple",
        "  reads A, B; columns none",
    ]
