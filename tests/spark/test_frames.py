"""What frames say, of what they must be, and what is left of them in a lake: the rims of batches and streams."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import augury
from augury.algebra.program import Program
from augury.api import compile
from augury.engine.lines import lines
from augury.engine.once import waits_for_ticks
from augury.lake import Lake, LakeFailed
from augury.lake.storage import Found
from augury.lake.systems import Disk
from augury.local.engine import detect as detect_in_process
from augury.local.kernel import match_kernel
from augury.local.sources import tables_of
from augury.spark.detect import Detected, detect
from augury.spark.explained import explain_spark
from augury.spark.keeping import Keeper
from augury.spark.sheets import CODE
from augury.spark.sources import SourceError
from augury.spark.sources_schema import require_fit
from augury.spark.stepping import slots_on_spark
from augury.spark.ticking import TickDetected, detect_by_ticks
from tests.lake.made import PROGRAM, filled
from tests.spark.programs import events, program

EXPIRING = """
SET CHRONON 2s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Long (x INT, w DOUBLE) ID () LIFESPAN (30s);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Short (x INT) ID () LIFESPAN (1s);
CREATE COMPLEX EVENT CLASS Seen (x INT) ID (x) LIFESPAN (3s) AS MATCH prior(Long(x, _), Short(x));
CREATE COMPLEX EVENT CLASS Brief (w DOUBLE) ID (w) LIFESPAN (1s) AS MATCH Long(_, w);
CREATE COMPLEX EVENT CLASS Again (x INT) ID () LIFESPAN (1s) AS MATCH prior(Short(x), Short(x));
CREATE COMPLEX EVENT CLASS Due (x INT) ID (x) LIFESPAN (2s) AS COMPOSITE Short(x) + 3s CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Pairs (x INT, n INT) ID (n) LIFESPAN (4s)
  AS MATCH prior(Short(x), Short(y)) WITHIN 9s COLLECT ALL RETURN 1 AS n;
"""

LASTING = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Price (sym STRING, price INT) ID (sym) LIFESPAN (-1);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Once (x INT) ID (x) LIFESPAN (-1);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Beat () ID () LIFESPAN (-1);
CREATE COMPLEX EVENT CLASS Rise (sym STRING, price INT) ID (sym) LIFESPAN (-1)
  AS MATCH prior(Price(sym, _), Price(sym, price));
CREATE COMPLEX EVENT CLASS Begin (x INT) ID () AS MATCH Once(x);
CREATE COMPLEX EVENT CLASS Pulse () ID () AS MATCH EVERY <2> Beat;
"""


def at(second: float, event: str, **values: Any) -> dict[str, Any]:
    empty = {"occ_time": second, "x": None, "w": None, "sym": None, "price": None}
    return {"event": event, "det_time": second, **empty, **values}


def expiring_events() -> list[dict[str, Any]]:
    """Keys that come again before, at and after the end of events, of what they are made of, and of chronons."""
    found = []
    for step in range(240):
        second = step * 0.75 + 5 * (step // 9)
        x, w = (step * 7) % 5, [0.0, -0.0, float("nan"), None, 1.5][step % 5]
        ahead = (0, 0, -2, 6, 40)[(step * 3) % 5]
        event = ("Long", "Short", "Short")[step % 3]
        found.append(at(second, event, x=x, w=w if event == "Long" else None, occ_time=second + ahead))
    return found


def lasting_events() -> list[dict[str, Any]]:
    prices = [("a", 1), ("a", 2), ("b", 1), ("a", None), ("a", 4), ("b", 6), ("a", 7), ("b", None)]
    found = [
        at(second, "Price", sym=sym, price=price, occ_time=None if price is None else second)
        for second, (sym, price) in enumerate(prices)
    ]
    found += [at(second + 0.5, "Once", x=second % 3) for second in range(5)]
    found += [at(second + 0.25, "Beat") for second in range(4)]
    return sorted([*found, at(3.0, "Bet")], key=lambda row: row["det_time"])


def printed(of: Program, table: pa.Table) -> Counter[tuple[Any, ...]]:
    """The lines in process, as far as all classes have it."""
    found = detect_in_process(of, tables_of(table), match_kernel)
    names = ("event", "change", "det_time", "constituents")
    texts = [json.loads(line) for line in lines(found.versions, found.occurrences, of.settings.chronon_us)]
    return Counter((line.get("seq"), *(str(line[name]) for name in names)) for line in texts)


def shown(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    """The same of a frame."""
    moment = f.date_format("det_time", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'").alias("det_time")
    rows = frame.select("seq", "event", "change", moment, f.to_json("constituents").alias("constituents")).collect()
    return Counter((row[0], row[1], row[2], row[3].replace(".000000Z", "Z"), row[4].replace(",", ", ")) for row in rows)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("name", ["expiring", "on timers"])
def test_change_is_that_of_the_printed_lines(spark: SparkSession, name: str) -> None:
    of: Program = compile(EXPIRING) if name == "expiring" else program(name)
    table = table_of(expiring_events() if name == "expiring" else events(seed=21, count=300, faults=False))
    wanted = printed(of, table)
    assert {change for _, _, change, _, _ in wanted} == {"announce", "change"}
    with detect(of, spark.createDataFrame(table), partitions=2) as found:
        assert shown(found.events) == wanted
        for one in ("Seen", "Again") if name == "expiring" else ("Twice",):
            assert shown(found.of(one)) == Counter({row: n for row, n in wanted.items() if row[1] == one})


@pytest.mark.parametrize("lifespan", ["(30s)", "(4s)"])
def test_these_events_tell_lifespans_apart(lifespan: str) -> None:
    """Whoever took events to last as long as they do by themselves, or constituents not to last, would be found out."""
    table = table_of(expiring_events())
    other = compile(EXPIRING.replace(f"LIFESPAN {lifespan}", "LIFESPAN (1s)"))
    assert printed(other, table) != printed(compile(EXPIRING), table)


def test_both_ways_of_running_give_the_same_frames(spark: SparkSession) -> None:
    of, table = compile(LASTING), table_of(lasting_events())
    assert waits_for_ticks(of, ["Price"]) == ""
    frame = spark.createDataFrame(table)
    spark.sparkContext.setJobGroup("both ways", "")
    with detect(of, frame, partitions=2) as once, detect_by_ticks(of, frame, partitions=2) as ticked:
        assert jobs_of(spark, "both ways") == 0, "nothing runs before a frame is asked for"
        pairs = {
            "events": (once.events, ticked.events),
            "Rise": (once.of("Rise"), ticked.of("rise")),
            "Pulse": (once.of("Pulse"), ticked.of("Pulse")),
            "versions": (once.versions, ticked.versions),
            "rejected": (once.rejected.drop("tick"), ticked.rejected.drop("tick")),
        }
        for name, (at_once, by_ticks) in pairs.items():
            rows = [Counter(map(str, side.collect())) for side in (at_once, by_ticks)]
            assert rows[0] == rows[1], name
            assert rows[0].total() > 0, name
        pairs |= {"all refused": (once.rejected, ticked.rejected), "actions": (once.actions, ticked.actions)}
        for name, (at_once, by_ticks) in pairs.items():
            assert at_once.dtypes == by_ticks.dtypes, name
        words = {row.change for row in once.versions.collect()}
    assert jobs_of(spark, "both ways") > 0
    spark.sparkContext.setJobGroup("the others", "")
    assert words == {"announce", "change", "withdraw"}


MUTABLE_CARDS = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Login (card INT) ID (card) LIFESPAN (20s);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Fail (card INT) ID (card) LIFESPAN (20s);
CREATE COMPLEX EVENT CLASS Guessed (C INT) ID () LIFESPAN (1m) AS MATCH prior(Fail(C), Login(C));
"""


def test_where_nothing_can_withdraw_a_batch_need_not_go_tick_by_tick(spark: SparkSession) -> None:
    of = compile(MUTABLE_CARDS)
    assert "if rows may withdraw events" in explain_spark(of)
    seconds = "timestamp_seconds(id % 3 + id)"
    frame = spark.range(60).selectExpr(
        "element_at(array('Login', 'Fail'), cast(id % 2 AS int) + 1) AS event",
        f"{seconds} AS det_time",
        "cast(id % 5 AS int) AS card",
    )
    both = frame.withColumn("occ_time", f.col("det_time"))
    sure = spark.createDataFrame(
        both.collect(), "event string, det_time timestamp, card int, occ_time timestamp NOT NULL"
    )
    with augury.detect(of, frame) as once, augury.detect(of, sure) as again, augury.detect(of, both) as ticked:
        assert [type(one) for one in (once, again, ticked)] == [Detected, Detected, TickDetected]
        found = [Counter(map(str, one.events.collect())) for one in (once, again, ticked)]
    assert found[0] == found[1] == found[2]
    assert found[0].total() > 10


def jobs_of(spark: SparkSession, group: str) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def test_without_complex_classes_both_have_the_same_columns(spark: SparkSession) -> None:
    of = compile("CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n")
    frame = spark.createDataFrame(pa.table({"event": ["A"], "x": [1], "det_time": [1]}))
    with detect(of, frame) as once, detect_by_ticks(of, frame) as ticked:
        assert once.events.dtypes == ticked.events.dtypes
        assert once.versions.dtypes == ticked.versions.dtypes


def test_who_does_not_select_change_does_not_pay_for_it(spark: SparkSession) -> None:
    of = compile(EXPIRING)
    with detect(of, spark.createDataFrame(table_of(expiring_events())), partitions=2) as found:
        for frame in (found.events, found.of("Seen")):
            asked = plan_of(frame)
            assert "Window" in asked
            assert "Join" in asked
            spared = plan_of(frame.drop("change"))
            assert "Window" not in spared
            assert "Join" not in spared.replace("CrossJoin", "")


def test_what_no_class_has_does_not_come_to_python(spark: SparkSession) -> None:
    """Neither in a batch at once nor tick by tick; a column that SOURCE maps does, and so does where a row is from."""
    of = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\nSOURCE A FROM COLUMNS (why AS x);"
    )
    columns = {
        "Event": ["A"],
        "why": [1],
        "dettime": [1],
        "Note": ["n"],
        "seq": [9],
        "_source": ["s"],
        "_position": [7],
    }
    frame = spark.createDataFrame(pa.table(columns))
    assert columns_read(detect(of, frame).accepted) == {"Event", "why", "dettime"}
    with detect_by_ticks(of, frame) as ticked:
        assert columns_read(ticked.frames(slots_on_spark(of, 2))) == {"Event", "why", "dettime", "_source", "_position"}
        assert [(row.seq, row["values"].A.x) for row in ticked.versions.collect()] == [(1, 1)]


def test_masks_are_expressions_of_spark_below_the_one_shuffle_of_a_key(spark: SparkSession) -> None:
    of = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (k INT, n INT, s TEXT) ID () LIFESPAN (1d);\n"
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (k INT, n INT, s TEXT) ID () LIFESPAN (1d);\n"
        "CREATE COMPLEX EVENT CLASS C (K INT) ID () AS MATCH prior(A(K, _, _)[n > 9], B(K, _, _)[n > 11]);\n"
        "CREATE COMPLEX EVENT CLASS D (X INT) ID () AS MATCH prior(B(X, _, _)[n > 7], A(X, _, _)[n > 5]);\n"
    )
    columns = "event string, seq bigint, det_time timestamp, k int, n int, s string"
    with detect(of, spark.createDataFrame([], columns), numbered=True) as found:
        ((_, made),) = found.work.made
        plan = plan_of(made)
    python, shuffle, *rest = (line.strip() for line in plan.splitlines()[1:])
    given = re.search(r"MapInArrow Detect\((.*?)\)", python)
    assert given is not None
    assert re.sub(r"#\w+", "", given[1]) == "code, seq, det_time, int_0, int_1", "the key, and n; not s"
    assert "Exchange hashpartitioning(int_0#" in shuffle
    assert plan.count("Exchange") == plan.count("MapInArrow") == 1
    (masks,) = (line for line in rest if "Filter" in line)
    assert [int(number) for number in re.findall(r"\(n#\d+ > (\d+)\)", masks)] == [9, 5, 11, 7]


def columns_read(frame: DataFrame) -> set[str]:
    """The columns of the events that a plan reads."""
    (found,) = {line for line in plan_of(frame).splitlines() if "LocalRelation" in line or "LogicalRDD" in line}
    return set(re.findall(r"(\w+)#\d+", found)) - {CODE}


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


# ---- what can never fit ----------------------------------------------------------------------------------------------

TYPED = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (x INT, note STRING, since DATE) ID (x) LIFESPAN (-1);
CREATE MUTABLE SUBSCRIBED EVENT CLASS B (y INT, note INT) ID (y) LIFESPAN (-1);
CREATE MUTABLE SUBSCRIBED EVENT CLASS C () ID () LIFESPAN (-1);
CREATE CLOCK EVENT CLASS Tick EVERY 1h;
SOURCE B FROM COLUMNS (why AS y, ts AS det_time);
CREATE COMPLEX EVENT CLASS Both () ID () AS MATCH prior(A, B);
"""

FRAMES: dict[str, tuple[str, list[str]]] = {
    "no class": ("x int, det_time timestamp", ["no column `event` says of which class a row is: add one, or"]),
    "no text": ("event int, det_time timestamp", ["the column `event` names a class, and is no STRING"]),
    "times": (
        "event string, det_time boolean, occTime array<int>, x int",
        [
            "`occ_time` is a TIMESTAMP, and the column `occTime` is an ARRAY<INT>",
            "`det_time` is a TIMESTAMP, and the column `det_time` is a BOOLEAN",
            "`B.y` belongs to the key, and there is no column of that name",
        ],
    ),
    "a column that fits nowhere": (
        "event string, det_time double, note map<string,int>, since int, x int",
        [
            "`A.note` is a STRING, and the column `note` is a MAP<STRING,INT>",
            "`A.since` is a DATE, and the column `since` is an INT",
            "`B.note` is an INT, and the column `note` is a MAP<STRING,INT>",
        ],
    ),
    # Rows of `C` need none of it, those of `A` are told one by one, and `note` is as `A` or as `B` has it.
    "other classes": ("event string, det_time string", []),
    "a text": ("event string, det_time timestamp_ntz, note string", []),
    "a number": ("event string, det_time date, note bigint, x void", []),
    "lines": ("line string, source string, position bigint, x boolean", []),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_that_can_never_fit_is_told_all_of_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    schema, wanted = FRAMES[name]
    frame = spark.createDataFrame([], schema)
    if not wanted:
        require_fit(compile(TYPED), frame)
        return
    with pytest.raises(SourceError) as told:
        augury.detect(compile(TYPED), frame)
    first, *rest = str(told.value).splitlines()
    assert first == "the events do not fit the program:"
    assert len(rest) == len(wanted)
    assert all(line.startswith(f"- {one}") for line, one in zip(rest, wanted, strict=True))
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    with pytest.raises(SourceError) as told_of_a_stream:
        augury.watch(compile(TYPED), stream, store=tmp_path / "lake")
    assert str(told_of_a_stream.value) == str(told.value)
    assert not (tmp_path / "lake").exists()


def test_frames_of_classes_are_told_together(spark: SparkSession) -> None:
    schemas = {
        "a": "x string, det_time timestamp",
        "B": "why int, ts boolean, note string",
        "Bee": "y int",
        "Tick": "det_time timestamp",
        "C": "det_time timestamp, other array<int>",
    }
    frames = {name: spark.createDataFrame([], schema) for name, schema in schemas.items()}
    with pytest.raises(SourceError) as told:
        augury.detect(compile(TYPED), frames)
    assert str(told.value).splitlines()[1:] == [
        "- the frame `a`: `A.x` is an INT, and the column `x` is a STRING",
        "- the frame `B`: `det_time` is a TIMESTAMP, and the column `ts` is a BOOLEAN",
        "- the frame `B`: `B.note` is an INT, and the column `note` is a STRING",
        "- the frame `Bee`: there is no subscribed event class `Bee`",
        "- the frame `Tick`: there is no subscribed event class `Tick`",
    ]
    fine = {
        "a": spark.createDataFrame([], "x bigint, det_time date"),
        "B": spark.createDataFrame([], "why int, ts int"),
    }
    require_fit(compile(TYPED), fine)
    # Rows that name their classes need no class for the others.
    require_fit(compile(TYPED), {"feed": spark.createDataFrame([], "event string, x int, det_time int")})


def test_of_what_can_never_fit_no_row_was_ever_accepted() -> None:
    """What the look rests on: without it such rows are refused one by one."""
    table = table_of([{"event": event, "x": 1, "y": 1, "det_time": True} for event in "ABC"])
    found = detect_in_process(compile(TYPED), tables_of(table), match_kernel)
    assert (len(found.versions), len(found.rejected)) == (0, 3)


# ---- what is left behind in a lake -----------------------------------------------------------------------------------

DAYS_AGO = time.time() - 2 * 86_400


def left_behind(lake: Lake, *, old: bool) -> str:
    """A state that somebody wrote for the last commit and never committed."""
    path = lake.files.write_bytes("state", f"{lake.last_commit():012d}-00000", b"left")
    if old:
        os.utime(lake.storage.full(path), (DAYS_AGO, DAYS_AGO))
    return path


def test_a_watch_removes_what_others_left_behind(spark: SparkSession, tmp_path: Path) -> None:
    of = compile("CREATE MUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.jsonl").write_text('{"event": "A", "x": 1, "det_time": 1}\n')

    def run() -> None:
        stream = augury.sources.json_lines(spark, str(tmp_path / "in"))
        with augury.watch(of, stream, store=tmp_path / "lake", clock="data", buckets=1) as running:
            running.finish()

    run()
    lake = Lake.open(tmp_path / "lake")
    for one in lake.storage.walk("manifests"):
        os.utime(lake.storage.full(one.path), (DAYS_AGO, DAYS_AGO))
    old, young = left_behind(lake, old=True), left_behind(lake, old=False)
    (tmp_path / "in" / "2.jsonl").write_text('{"event": "A", "x": 2, "det_time": 2}\n')
    run()
    assert not lake.storage.exists(old)
    assert lake.storage.exists(young)
    assert augury.history(tmp_path / "lake").table("A")["x"].to_pylist() == [1, 2]


@dataclass(frozen=True, slots=True)
class Stubborn(Disk):
    """A disk that lets nothing go, or nothing be looked at."""

    blind: bool = False

    def remove(self, path: str) -> None:
        raise LakeFailed(f"the lake failed to remove `{path}`: Operation not permitted")

    def walk(self, folder: str = "") -> Iterator[Found]:
        if self.blind:
            raise PermissionError(f"no look at {folder}")
        return Disk.walk(self, folder)


@pytest.mark.parametrize("blind", [False, True])
def test_what_cannot_be_removed_is_a_warning(
    spark: SparkSession, tmp_path: Path, blind: bool, caplog: pytest.LogCaptureFixture
) -> None:
    lake = filled(tmp_path / "lake", 1)
    stubborn = Lake(Stubborn(lake.path, blind=blind), lake.about)
    slots = slots_on_spark(PROGRAM, 1)
    keeper = Keeper(spark, PROGRAM, stubborn, lake.writer(), slots, "name", None)
    os.utime(lake.storage.full("manifests/00000000000000000001.json"), (DAYS_AGO, DAYS_AGO))
    path = left_behind(lake, old=True)
    keeper.sweep()
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.endswith("no look at " if blind else f"failed to remove `{path}`: Operation not permitted")
    keeper.sweep()
    assert len(caplog.records) == 1  # not again within the hour
    assert lake.storage.exists(path)
