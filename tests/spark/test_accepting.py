"""Events of data frames, accepted and numbered in many tasks: the same versions, refusals and events as in process."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from augury.algebra.program import Program
from augury.api import compile
from augury.engine.lines import lines
from augury.kernels.batch import WITHDRAW, Batch
from augury.local.engine import detect as detect_in_process
from augury.local.kernel import match_kernel
from augury.local.sources import tables_of
from augury.spark.detect import detect
from augury.spark.looks import Run, Summary, begins_of, in_order, ranges_of
from augury.spark.numbering import is_steady
from augury.spark.run import collect
from augury.spark.stage import NotOnSpark
from augury.spark.stored import NotStored
from tests.spark.programs import events as mixed_events
from tests.spark.programs import program

START = datetime(2026, 3, 1, tzinfo=UTC)
KEYS = {"()": [], "(k)": ["k"], "(k, s)": ["k", "s"], "(w)": ["w"]}
FOUND = (
    "CREATE COMPLEX EVENT CLASS Pair (K INT) ID () AS MATCH prior({a}(K, _, _), {b}(K, _, _));",
    "CREATE COMPLEX EVENT CLASS Next (K INT) ID () AS MATCH sequence({a}(K, _, _)[k > 1], {b}(K, _, _));",
    "CREATE COMPLEX EVENT CLASS Near (s STRING) ID () AS MATCH sequence({a}, {b}(_, s, _)) OVER ({a}, {b});",
    "CREATE COMPLEX EVENT CLASS Part (n INT) ID () AS MATCH (<3> any) AND {b} PARTITION BY k RETURN {b}.k AS n;",
    "CREATE COMPLEX EVENT CLASS Third () ID () AS MATCH EVERY <3> ({a} OR {b});",
    "CREATE COMPLEX EVENT CLASS Both (K INT) ID () AS COMPOSITE {a}(K, _, _)[k < 3] > {b}(K, _, _) CONTEXT CHRONICLE;",
    "CREATE COMPLEX EVENT CLASS Late (K INT) ID ()"
    " AS COMPOSITE {a}(K, _, _) > !{b}(K, _, _) WITHIN 4s CONTEXT CHRONICLE;",
    "CREATE COMPLEX EVENT CLASS Often (w DOUBLE) ID () AS MATCH prior({a}(_, _, w), {b}(_, _, w)[10 / k > 4]);",
)


def random_program(chance: random.Random) -> tuple[Program, list[str]]:
    """Classes of all kinds, sometimes a clock, and some complex classes over them."""
    names = [f"C{i}" for i in range(chance.randrange(2, 6))]
    texts = [
        f"CREATE {chance.choice(['MUTABLE', 'IMMUTABLE'])} SUBSCRIBED EVENT CLASS {name} (k INT, s STRING, w DOUBLE)"
        f" ID {chance.choice(list(KEYS))} LIFESPAN ({chance.choice(['5s', '1d', '-1'])});"
        for name in names
    ]
    if chance.random() < 0.3:
        texts.append("CREATE CLOCK EVENT CLASS Beat EVERY 3s;")
    for text in chance.sample(FOUND, chance.randrange(3)):
        texts.append(text.format(a=chance.choice(names), b=chance.choice(names)))
    return compile("\n".join(texts)), names


def random_rows(chance: random.Random, names: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Three in ten are duplicates, some withdraw, have ids, are refused, or come late; ties are many."""
    disorder, ids, found = chance.choice([0, 0, 30]), chance.choice([0.0, 0.0, 0.2]), list[dict[str, Any]]()
    withdrawals = chance.choice([0.0, 0.15])
    for number in range(count):
        if found and chance.random() < 0.3:
            found.append(dict(found[-1 - chance.randrange(min(3, len(found)))]))
            continue
        det_time = START + timedelta(seconds=number // 3 - chance.randrange(disorder + 1))
        row: dict[str, Any] = {
            "event": chance.choice(names),
            "event_id": f"e{chance.randrange(count)}" if chance.random() < ids else None,
            "det_time": det_time,
            "occ_time": None if chance.random() < withdrawals else det_time - timedelta(seconds=chance.randrange(3)),
            "k": chance.choice([0, 1, 2, 3, 4, None]) if chance.random() < 0.5 else chance.randrange(4),
            "s": chance.choice("ab"),
            "w": chance.choice([0.0, -0.0, 1.5, float("nan")]),
        }
        if chance.random() < 0.03:
            row |= chance.choice(
                [{"event": "Nobody"}, {"event": None}, {"k": 2**40}, {"det_time": None, "occ_time": None}]
            )
        found.append(row)
    return found


SCHEMA = pa.schema(
    [
        ("event", pa.string()),
        ("event_id", pa.string()),
        ("det_time", pa.timestamp("us", "UTC")),
        ("occ_time", pa.timestamp("us", "UTC")),
        ("k", pa.int64()),
        ("s", pa.string()),
        ("w", pa.float64()),
    ]
)


def in_pieces(spark: SparkSession, table: pa.Table, chance: random.Random) -> DataFrame:
    """The rows in their order, cut at random; some pieces are empty."""
    cuts = sorted(chance.randrange(len(table) + 1) for _ in range(chance.randrange(3)))
    bounds = [0, *cuts, len(table)]
    pieces = [table.slice(a, b - a) for a, b in pairwise(bounds)]
    return reduce(
        DataFrame.unionAll, [spark.createDataFrame(piece, from_arrow_schema(piece.schema)) for piece in pieces]
    )


def versions(batch: Batch) -> list[tuple[Any, ...]]:
    tables = [table.to_pylist() for table in batch.tables]
    return [
        (seq, batch.classes[code].name, kind, None if kind == WITHDRAW else occ, det, repr(tables[code][row : row + 1]))
        for seq, code, kind, occ, det, row in zip(
            batch.seq.tolist(),
            batch.code.tolist(),
            batch.kind.tolist(),
            batch.occ_time.tolist(),
            batch.det_time.tolist(),
            batch.row.tolist(),
            strict=True,
        )
    ]


def shown(found: Any, of: Program) -> dict[str, Any]:
    return {
        "versions": versions(found.versions),
        "rejected": list(zip(found.rejected.place, found.rejected.event, found.rejected.reason, strict=True)),
        "raw": found.rejected.raw,
        "absorbed": found.absorbed,
        "lines": list(lines(found.versions, found.occurrences, of.settings.chronon_us)),
        "counts": [(o.errors, o.dropped) for o in found.occurrences],
    }


@pytest.mark.parametrize("seed", range(24))
def test_random_histories_are_accepted_as_in_process(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    of, names = random_program(chance)
    table = pa.Table.from_pylist(random_rows(chance, names, 120), schema=SCHEMA)
    if chance.random() < 0.3:
        table = table.drop_columns(["event_id"])
    if chance.random() < 0.2:
        table = table.drop_columns(["occ_time"])
    given: Any = in_pieces(spark, table, chance)
    plain: Any = table
    if seed % 3 == 2:
        plain = {name: table.filter(pa.array([e == name for e in table["event"].to_pylist()])) for name in names}
        given = {name: in_pieces(spark, each, chance) for name, each in plain.items()}
    wanted = shown(detect_in_process(of, tables_of(plain), match_kernel), of)
    with detect(of, given, partitions=chance.choice([1, 3])) as found:
        assert shown(collect(found), of) == wanted


def test_random_histories_have_of_everything() -> None:
    """The law above says something: there are refusals of each kind, duplicates, withdrawals and events."""
    reasons, absorbed, withdrawn, found = set[str](), 0, 0, 0
    for seed in range(24):
        chance = random.Random(seed)
        of, names = random_program(chance)
        table = pa.Table.from_pylist(random_rows(chance, names, 120), schema=SCHEMA)
        here = detect_in_process(of, tables_of(table), match_kernel)
        reasons |= set(here.rejected.reason)
        absorbed += here.absorbed
        withdrawn += int((here.versions.kind == WITHDRAW).sum())
        found += sum(map(len, here.occurrences))
    for part in ("since seq", "is not there", "has no key", "belongs to the key", "no event class", "neither"):
        assert any(part in reason for reason in reasons), part
    assert min(absorbed, withdrawn, found) > 20


def test_a_frame_in_another_order_each_time_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    of = compile("CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);")
    steady = spark.range(100).selectExpr("'A' AS event", "cast(id AS int) AS x", "1 AS det_time")
    assert is_steady(steady)
    steady.write.parquet(str(tmp_path / "events"))
    assert is_steady(spark.read.parquet(str(tmp_path / "events")))
    assert is_steady(steady.where("x > 3").select("event", "x"))
    unsteady = steady.repartition(5)
    assert not is_steady(unsteady)
    assert is_steady(steady.repartition(6).persist().select("event", "x"))
    assert not is_steady(steady.unionAll(steady))
    assert not is_steady(steady.withColumn("x", f.expr("cast(rand() * 100 as int)")))
    with detect(of, unsteady.withColumn("x", f.expr("cast(rand() * 1000 as int)"))) as found:
        first, second = ([(row.seq, row["values"].A.x) for row in found.versions.collect()] for _ in range(2))
        assert sorted(first) == sorted(second)
        assert sorted(seq for seq, _ in first) == list(range(1, 101))


def test_what_the_program_does_not_name_is_not_read(spark: SparkSession) -> None:
    of = compile("CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);")
    frame = spark.createDataFrame(pa.table({"EVENT": ["A", "B"], "X": [1, 2], "det_time": [1, 2], "note": ["n", "m"]}))
    with detect(of, frame) as found:
        assert [row["values"].A.x for row in found.versions.collect()] == [1]
        assert [(row.place, row.event, row.raw) for row in found.rejected.collect()] == [
            ("events:2", "B", '{"EVENT": "B", "X": 2, "det_time": 2}')
        ]


def test_a_clock_that_ticks_too_often_is_told(spark: SparkSession) -> None:
    of = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n"
        "CREATE CLOCK EVENT CLASS Beat EVERY 1s;"
    )
    frame = spark.createDataFrame(pa.table({"event": ["A", "A"], "det_time": [1, 4_000_000_000]}))
    with detect(of, frame) as found, pytest.raises(NotOnSpark, match="`Beat` has more") as caught:
        _ = found.events
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["E405"]


# ---- stored histories ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["keyed", "partitioned", "over", "on timers", "clock"])
def test_a_stored_history_gives_the_same_events(spark: SparkSession, name: str) -> None:
    of, table = program(name), pa.Table.from_pylist(mixed_events(seed=21, count=250))
    wanted = shown(detect_in_process(of, tables_of(table), match_kernel), of)
    with detect(of, spark.createDataFrame(table)) as first, detect(of, first.versions, numbered=True) as again:
        found = shown(collect(again), of)
    assert {key: found[key] for key in ("versions", "lines", "counts")} == {
        key: wanted[key] for key in ("versions", "lines", "counts")
    }
    assert found["rejected"] == []


def test_a_stored_history_without_occ_time_is_counted_by_its_numbers(spark: SparkSession) -> None:
    of = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n"
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (x BIGINT) ID () LIFESPAN (1d);\n"
        "CREATE COMPLEX EVENT CLASS C (X BIGINT) ID () AS MATCH sequence(A(X), B(X)[x < 3]);\n"
    )
    seq = pa.array(np.arange(1, 7))
    times = pa.array(np.arange(6) * 1_000_000).view(pa.timestamp("us", "UTC"))
    table = pa.table(
        {"event": list("AbAABB"), "seq": seq, "det_time": times, "x": pa.array([1, 1, 2, 3, 2, 3], pa.int32())}
    )
    with detect(of, spark.createDataFrame(table), numbered=True) as found:
        assert [(row.seq, row.X, row.constituents) for row in found.of("C").collect()] == [(2, 1, [1, 2])]
    later = table.filter(pa.array([True, False, True, True, True, True]))
    with detect(of, spark.createDataFrame(later), numbered=True) as found:
        assert found.of("C").collect() == []
    apart = {
        name: spark.createDataFrame(table.filter(pa.array([e == name for e in table["event"].to_pylist()])))
        for name in "AB"
    }
    with detect(of, {**apart}, numbered=True) as found:
        assert found.of("C").collect() == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"event": ["A"], "det_time": pa.array([0], pa.timestamp("us", "UTC"))},
            "`seq` of type bigint; here there is none",
        ),
        ({"event": ["A"], "seq": [1], "det_time": [1]}, "`det_time` of type timestamp; here it is bigint"),
        (
            {"event": ["A"], "seq": [1], "det_time": pa.array([0], pa.timestamp("us", "UTC")), "x": [1]},
            "`x` of `A` is INT, and in the history bigint: declare it as it was",
        ),
    ],
)
def test_what_is_no_stored_history_is_told(spark: SparkSession, columns: dict[str, Any], message: str) -> None:
    of = compile("CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);")
    with pytest.raises(NotStored, match=message.replace("(", r"\(")):
        detect(of, spark.createDataFrame(pa.table(columns)), numbered=True)


# ---- looks ---------------------------------------------------------------------------------------------------------


def summary(part: int, *runs: tuple[int, int, int]) -> Summary:
    """A partition whose runs have these numbers of versions, first and last times."""
    begins = np.cumsum([0, *(count for count, _, _ in runs)]).tolist()
    made = tuple(Run(begin, a, b, (count,)) for begin, (count, a, b) in zip(begins, runs, strict=False))
    times = tuple(time for _, a, b in runs for time in (a, b))
    return Summary(0, part, begins[-1], made, frozenset(), frozenset({0}), times)


def test_runs_that_follow_each_other_are_numbered_by_counts() -> None:
    # Files as Spark packs them: the first partition has what comes first and third.
    order = in_order([summary(0, (2, 1, 5), (3, 9, 11)), summary(1, (4, 5, 8), (1, 11, 12))])
    assert order is not None
    begins = begins_of(order, {"p0": (0,)})
    assert [(begin.version, begin.seq, begin.histories) for begin in begins[0]] == [(0, 0, (0,)), (2, 6, (6,))]
    assert [(begin.version, begin.seq) for begin in begins[1]] == [(0, 2), (4, 9)]


@pytest.mark.parametrize(
    "summaries",
    [
        [summary(0, (2, 1, 5)), summary(1, (2, 4, 8))],
        # What has one det_time goes by where it came: here the second would have to come first.
        [summary(0, (2, 5, 9)), summary(1, (2, 1, 5))],
        [Summary(0, 0, 3, None, frozenset(), frozenset({0}), (1, 2))],
    ],
)
def test_runs_that_overlap_are_not_in_order(summaries: list[Summary]) -> None:
    assert in_order(summaries) is None


def test_ranges_have_about_as_many_rows_and_never_part_a_time() -> None:
    ranges = ranges_of([summary(0, *((1, i, i) for i in range(100)))], 4)
    assert np.bincount(ranges.of(np.arange(100))).tolist() == [25, 25, 25, 25]
    tied = ranges_of([summary(0, *((1, 7, 7) for _ in range(100)))], 4)
    assert len(set(tied.of(np.full(100, 7)).tolist())) == 1
