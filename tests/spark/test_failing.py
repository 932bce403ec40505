"""SELECTs that fail in one slot, where no engine was asked before: batches, histories, changed programs."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import augury
from augury.api import compile
from augury.clock import show_time
from augury.engine.ledger import lines
from augury.history.raw import RawRows
from augury.lake import Lake
from augury.spark.keeping import keeper
from augury.spark.replaying import by_ticks, replay
from augury.spark.ticking import TickDetected
from tests.bitemporal.sharded import in_one
from tests.bitemporal.test_failing import a, at

ROWS = """
SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, v INT) ID () LIFESPAN (40s);
"""
PART = """
CREATE COMPLEX EVENT CLASS Part (k INT, v INT) ID (k, v) LIFESPAN (1d)
  AS SELECT k, CAST(60 / v AS INT) AS v FROM A OCCURRING AT A.occTime;
"""
RAWS = [a(1, 1, 5), a(11, 2, 0), a(12, 3, 6), a(21, 1, 4), a(22, 1, 5), a(61, 2, 3), a(71, 3, 2)]
UNTIL = at(100)


def events() -> list[RawRows]:
    rows = []
    for raw in RAWS:
        k, v = raw.values
        assert isinstance(raw.occ_time, int)
        rows.append({"event": "A", "occ_time": show_time(raw.occ_time), "k": k, "v": v})
    return [RawRows("events", rows, range(1, len(rows) + 1))]


def test_rows_of_all_keys_wait_also_where_every_row_is_surely_accepted(spark: SparkSession, tmp_path: Path) -> None:
    program, store = compile(ROWS + PART), tmp_path / "lake"
    one = list(lines(program, in_one(program, RAWS, UNTIL)))
    assert len(one) > 3
    with by_ticks(spark, program, events(), until_us=UNTIL, buckets=3) as batch:
        assert list(lines(program, batch.collect_ledger())) == one
    stream = replay(spark, program, events(), until_us=UNTIL, store=str(store), cuts=[4], buckets=3)
    assert list(lines(program, stream)) == one
    with augury.detect(program, augury.history(store)) as again:
        assert isinstance(again, TickDetected)
        assert list(lines(program, again.collect_ledger())) == one


def test_a_class_that_is_new_is_derived_from_the_history_with_what_failed(spark: SparkSession, tmp_path: Path) -> None:
    before, after, store = compile(ROWS), compile(ROWS + PART), tmp_path / "lake"
    replay(spark, before, events(), until_us=UNTIL, store=str(store), buckets=3)
    keeper(spark, after, Lake.open(store))
    found = augury.history(store).table("Part").to_pylist()
    told = in_one(after, RAWS, UNTIL).versions["Part"].to_pylist()
    assert [(row["tick"], row["change"], row["k"], row["v"]) for row in found] == [
        (row["tick"], row["change"], row["k"], row["v"]) for row in told
    ]
