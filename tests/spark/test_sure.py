"""Where columns alone tell which rows are versions, these are what they are when Python looks at each row."""

from __future__ import annotations

import random
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from augury.algebra.program import Program
from augury.api import compile
from augury.event import key_of
from augury.local.engine import detect as detect_in_process
from augury.local.kernel import match_kernel
from augury.local.sources import tables_of
from augury.spark.detect import detect
from augury.spark.looks import Begin
from augury.spark.numbering import number
from augury.spark.plan import stages_of
from augury.spark.run import collect
from augury.spark.sheets import Source
from augury.spark.stage import groups_of
from augury.spark.sure import _FOLDED, surely, tells_begins
from tests.spark.test_accepting import shown

START = datetime(2026, 3, 1, tzinfo=UTC)
CLASSES = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Login (k INT, s VARCHAR(3)) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Stake (k BIGINT, w DOUBLE) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Empty () ID () LIFESPAN (1d);
"""
FOUND = (
    "CREATE COMPLEX EVENT CLASS Pair (K INT) ID () AS MATCH prior(Login(K, _)[k > 0], Stake(K, _)[k < 3]);",
    "CREATE COMPLEX EVENT CLASS Next (K INT) ID () AS MATCH sequence(Login(K, _), Stake(K, _));",
    "CREATE COMPLEX EVENT CLASS Both (S STRING) ID () AS COMPOSITE Login(_, S) > Login(_, S) CONTEXT CHRONICLE;",
    "CREATE COMPLEX EVENT CLASS Third () ID () AS MATCH EVERY <3> Login;",
    "CREATE COMPLEX EVENT CLASS Near (K INT) ID () AS MATCH sequence(Login(K, _), Stake(K, _)) OVER (Login, Stake);",
)
SCHEMA = pa.schema(
    [
        ("Event", pa.string()),
        ("det_time", pa.timestamp("us", "UTC")),
        ("occTime", pa.timestamp("us", "UTC")),
        ("k", pa.int64()),
        ("s", pa.string()),
        ("w", pa.float64()),
    ]
)
NAMES = [
    "Login",
    "Login",
    "Stake",
    "Stake",
    "Empty",
    "LOGIN",
    "stake",
    "\u017fta\u212ae",
    "Logins",
    "\u00c9mpty",
    "",
    None,
]


def rows(chance: random.Random, count: int, *, times: tuple[str, ...] = ("det_time", "occTime")) -> pa.Table:
    """In order, with ties; of all that may be wrong with a row by itself a little."""
    found = []
    for at in range(count):
        det_time = START + timedelta(seconds=at // 3)
        row: dict[str, Any] = {
            "Event": chance.choice(NAMES[:5] if chance.random() < 0.8 else NAMES),
            times[0]: det_time,
            times[-1]: det_time - timedelta(seconds=chance.randrange(3) if len(times) > 1 else 0),
            "k": chance.choice([None, 0, 1, 2, 3]),
            "s": chance.choice([None, "", "a", "bcd", "\u00e9\u00e9\u00e9"]),
            "w": chance.choice([None, -0.0, 0.0, 1.5, float("nan")]),
        }
        if chance.random() < 0.1:
            row |= chance.choice([{"k": 2**40}, {"s": "long"}, {times[-1]: None}])
        found.append(row)
    return pa.Table.from_pylist(found, schema=pa.schema([one for one in SCHEMA if one.name in found[0]]))


def in_files(spark: SparkSession, table: pa.Table, folder: Path, chance: random.Random, step: int = 3) -> DataFrame:
    """Files of different sizes, so that partitions have them in another order than that of time; 3 have one time."""
    folder.mkdir()
    cuts = sorted(chance.sample(range(0, len(table), step), 4))
    for i, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(table)], strict=True)):
        pq.write_table(table.slice(begin, end - begin), folder / f"{i}.parquet", row_group_size=20)
    return spark.read.parquet(str(folder))


def is_sure(of: Program, frame: DataFrame) -> bool:
    """Whether what the first group reads gets its numbers from Spark itself."""
    groups = groups_of(stages_of(of))
    read = number(of, groups, frame, until_us=None, partitions=2).rows(groups[0])
    return "monotonically_increasing_id" in read._jdf.queryExecution().toString()


@pytest.mark.parametrize("seed", range(12))
def test_versions_are_those_of_python(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    of = compile(CLASSES + "\n".join(chance.sample(FOUND, chance.randrange(1, 4))))
    table = rows(chance, 300, times=(("det_time", "occTime"), ("det_time",), ("occTime",))[seed % 3])
    if seed == 9:
        # An occ_time that stands for a det_time is earlier than those before it: rows have to be put in order.
        table = table.set_column(1, "det_time", pa.nulls(len(table), pa.timestamp("us", "UTC")))
    table = table.append_column("note", pa.nulls(len(table), pa.string()))
    frame = in_files(spark, table, tmp_path / "events", chance, step=1 if seed > 9 else 3)
    if seed % 4 == 3:
        frame = frame.repartition(3)  # it is kept, and read from there
    until_us = int((START + timedelta(seconds=80)).timestamp()) * 1_000_000 if seed % 2 else None
    names = [name for name in table.column_names if name != "note"]
    given: Any = frame if seed % 5 else {"stake": frame}
    with detect(of, given, partitions=2, until_us=until_us) as found:
        here = shown(collect(found), of)
        came = [frame_ for frame_ in found.work.kept if set(frame_.columns) == set(names)]
        plain: Any = (came[0] if came else frame).select(*names).toArrow()
    plain = plain if seed % 5 else {"stake": plain}
    assert here == shown(detect_in_process(of, tables_of(plain), match_kernel, until_us=until_us), of)
    assert min(len(here["versions"]), len(here["rejected"])) > 10


def test_numbers_come_from_spark_where_columns_tell(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    frame = in_files(spark, rows(chance, 300), tmp_path / "events", chance)
    for found in FOUND[:4]:
        assert is_sure(compile(CLASSES + found), frame), found
    assert is_sure(compile(CLASSES + FOUND[0]), frame.repartition(1).sortWithinPartitions("det_time"))
    # Rows that are part of a plan do not tell their partitions, and Python has to count some classes apart.
    assert not is_sure(compile(CLASSES + FOUND[0]), spark.createDataFrame(frame.toArrow()))
    assert not is_sure(compile(CLASSES + FOUND[4]), frame)


@pytest.mark.parametrize(
    ("columns", "sure"),
    [
        ("Event string, det_time timestamp, k int", True),
        ("Event string, det_time timestamp, k bigint, s string, w double", True),
        ("Event string, occTime timestamp", True),
        ("det_time timestamp, k int", False),
        ("Event int, det_time timestamp", False),
        ("Event string, k int", False),
        ("Event string, det_time string", False),
        ("Event string, det_time timestamp, dettime timestamp", False),
        ("Event string, det_time timestamp, event_id string", False),
        ("Event string, det_time timestamp, k double", False),
        ("Event string, det_time timestamp, w float", False),
        ("Event string, det_time timestamp, __came int", False),
    ],
)
def test_what_columns_tell(spark: SparkSession, columns: str, sure: bool) -> None:
    of, frame = compile(CLASSES), spark.createDataFrame([], columns)
    source = Source(0, "events", None, ("Login", "Stake", "Empty") if "Event string" in columns else ())
    assert (surely(of, source, frame, None) is not None) is sure
    keyed = compile(CLASSES.replace("ID ()", "ID (k)", 1))
    assert (surely(keyed, source, frame, None) is not None) is sure


# ---- classes with a key ------------------------------------------------------------------------------------------

KEYED_SEEDS = 10
KEYS = ("ID ()", "ID (k)", "ID (k, {0})")


def keyed_classes(chance: random.Random) -> str:
    """Classes with keys, mutable and not, of which some expire soon."""
    found = [text for text in CLASSES.strip().splitlines() if "Empty" not in text]
    for i, second in enumerate("sw"):
        key = chance.choice(KEYS[1:] if i == 0 else KEYS).format(second)
        kind = chance.choice(["MUTABLE", "MUTABLE", "IMMUTABLE"])
        lasts = chance.choice(["1d", "5s", "-1"])
        found[i] = found[i].replace("ID ()", key).replace("IMMUTABLE", kind).replace("1d", lasts)
    return "\n".join([*found, CLASSES.strip().splitlines()[2]])


def keyed_rows(chance: random.Random, count: int, *, repeats: float, many: bool) -> pa.Table:
    """In order, with ties; some rows come twice within their time, next to each other or not."""
    plain = rows(chance, count).to_pylist()
    if many:
        plain = [row | {"k": chance.choice([None, *range(count)])} for row in plain]
    plain = [row for row in plain if row["occTime"] is not None]
    found = []
    for at in range(0, len(plain), 3):
        here = plain[at : at + 3]
        here = [row | {"det_time": here[0]["det_time"]} for row in here]
        here += [dict(row) for row in here if chance.random() < repeats]
        chance.shuffle(here)
        found += here
    return pa.Table.from_pylist(found, schema=SCHEMA)


def in_order_of_time(spark: SparkSession, table: pa.Table, folder: Path) -> DataFrame:
    """Files of which Spark reads the larger first, cut anywhere: rows of one time, and so duplicates, are in two."""
    folder.mkdir()
    bounds = [0, *(len(table) * part // 20 for part in (7, 12, 16, 18)), len(table)]
    for i, (begin, end) in enumerate(pairwise(bounds)):
        pq.write_table(table.slice(begin, end - begin), folder / f"{i}.parquet", compression="none")
    return spark.read.parquet(str(folder))


@pytest.mark.parametrize("seed", range(KEYED_SEEDS))
def test_versions_of_a_key_are_those_of_python(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    of = compile(keyed_classes(chance) + "\n".join(chance.sample(FOUND[:4], chance.randrange(1, 4))))
    table = keyed_rows(chance, 300, repeats=chance.choice([0, 0.05, 0.5]), many=seed % 3 == 0)
    frame = in_order_of_time(spark, table, tmp_path / "events")
    frame = frame if seed % 4 else frame.repartition(1).sortWithinPartitions("det_time", "k")
    until_us = int((START + timedelta(seconds=80)).timestamp()) * 1_000_000 if seed % 5 == 0 else None
    with detect(of, frame, partitions=2, until_us=until_us) as found:
        plain = (frame if seed % 4 else found.work.kept[0].select(*SCHEMA.names)).toArrow()
        wanted = shown(detect_in_process(of, tables_of(plain), match_kernel, until_us=until_us), of)
        # What groups read comes from Spark's own numbers, what was accepted is worked out by Python.
        assert shown(collect(found), of) == wanted
    assert is_sure(of, frame)


def test_of_keys_there_is_something_of_everything() -> None:
    """The law above says something: duplicates and refusals, many and none."""
    absorbed, refused = list[int](), list[int]()
    for seed in range(KEYED_SEEDS):
        chance = random.Random(seed)
        of = compile(keyed_classes(chance))
        chance.sample(FOUND[:4], chance.randrange(1, 4))
        table = keyed_rows(chance, 300, repeats=chance.choice([0, 0.05, 0.5]), many=seed % 3 == 0)
        found = detect_in_process(of, tables_of(table), match_kernel)
        absorbed.append(found.absorbed)
        refused.append(sum("since seq" in reason for reason in found.rejected.reason))
    assert sorted(absorbed)[0] == sorted(refused)[0] == 0
    assert min(sorted(absorbed)[-3], sorted(refused)[-3]) > 10


def test_where_rows_withdraw_python_looks_at_all_of_them(spark: SparkSession, tmp_path: Path) -> None:
    of = compile(CLASSES.replace("IMMUTABLE", "MUTABLE").replace("ID ()", "ID (k)", 2) + FOUND[0])
    chance = random.Random(3)
    table = keyed_rows(chance, 90, repeats=0.1, many=False)
    last = table.slice(len(table) - 3, 1).to_pylist()[0] | {"Event": "Login", "k": 1, "s": "a", "occTime": None}
    table = pa.concat_tables([table, pa.Table.from_pylist([last], schema=SCHEMA)])
    frame = in_order_of_time(spark, table, tmp_path / "events")
    assert not is_sure(of, frame)
    assert is_sure(of, frame.where("occTime IS NOT NULL"))
    with detect(of, frame, partitions=2) as found:
        here = shown(collect(found), of)
    assert here == shown(detect_in_process(of, tables_of(frame.toArrow()), match_kernel), of)


def test_files_that_hold_no_version_count_as_those_that_do(spark: SparkSession, tmp_path: Path) -> None:
    """Where a folder names the class, or a file the bounds of a column, Spark leaves out what a filter excludes."""
    of = compile(CLASSES + "CREATE COMPLEX EVENT CLASS Large (K INT) ID () AS MATCH Login(K, _)[k > 900];")
    names = ["Another", "Login"]
    frame = spark.range(0, 3000, 1, 3).selectExpr(
        f"element_at(array('{names[0]}', '{names[1]}'), cast(id DIV 10 % 2 AS int) + 1) AS event",
        "timestamp_seconds(id) AS det_time",
        "cast(id % 1000 AS int) AS k",
    )
    frame.write.partitionBy("event").parquet(str(tmp_path / "folders"))
    frame.sortWithinPartitions("k").write.option("parquet.block.size", 2048).parquet(str(tmp_path / "sorted"))
    for folder in ("folders", "sorted"):
        read = spark.read.parquet(str(tmp_path / folder))
        wanted = detect_in_process(of, tables_of(read.toArrow()), match_kernel)
        with detect(of, read, partitions=2) as found:
            assert sorted(row.seq for row in found.of("Large").collect()) == wanted.occurrences[0].seq.tolist()
    assert len(wanted.occurrences[0]) > 100


def test_events_that_have_changed_are_told(spark: SparkSession) -> None:
    of, frame = (
        compile(CLASSES),
        spark.range(0, 10, 1, 2).selectExpr("'Login' AS event", "timestamp_seconds(id) AS occ_time"),
    )
    sure = surely(of, Source(0, "events", None, ("Login", "Stake", "Empty")), frame, None)
    assert sure is not None
    begins = {0: (Begin(0, 0, ()), Begin(2, 7, ())), 1: (Begin(0, 2, ()),)}
    assert [row.seq for row in sure.numbered(begins, []).collect()] == [1, 2, 8, 9, 10, 3, 4, 5, 6, 7]
    with pytest.raises(PySparkException, match="the events are others than before"):
        sure.numbered({0: begins[0]}, []).collect()


def test_an_expression_tells_some_thousand_places() -> None:
    assert tells_begins({part: (Begin(0, part, ()),) for part in range(10_000)})
    assert not tells_begins({part: (Begin(0, part, ()), Begin(1, 0, ()), Begin(2, 0, ())) for part in range(10_000)})
    assert tells_begins({})


def test_letters_that_are_ascii_in_any_case_are_these() -> None:
    others = map(chr, range(0x80, sys.maxunicode + 1))
    assert "".join(c for c in others if key_of(c).isascii()) == _FOLDED


def test_a_class_may_be_named_in_any_case(spark: SparkSession) -> None:
    of = compile(CLASSES + FOUND[0])
    table = pa.table({"event": ["LOGIN", "Login", "\u017ftake", "no"], "det_time": [1, 2, 3, 4], "k": [1, 2, 2, None]})
    table = table.set_column(2, "k", table.column("k").cast(pa.int32()))
    with detect(of, spark.createDataFrame(table)) as found:
        assert [row.constituents for row in found.events.collect()] == [[2, 3]]
        assert [(row.place, row.event) for row in found.rejected.collect()] == [("events:4", "no")]
    refused = table.set_column(1, "det_time", pa.array([None, 2, 3, 4]))
    with detect(of, spark.createDataFrame(refused)) as found:
        assert '"event": "LOGIN"' in found.rejected.collect()[0].raw
