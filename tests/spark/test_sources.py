"""Files, detectors and rates as frames of events: places, order, exact values, and what is refused, and why."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as s

import augury
from augury.history.coming import came
from augury.history.json_lines import read_line
from augury.history.raw import RawRows
from augury.local.sources import read_events
from augury.spark import sources
from augury.spark.session import NoSpark, session
from augury.spark.sources import SourceError

PROGRAM = augury.compile("""
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (account INT, quantity NUMERIC(10,2), note VARCHAR(8), due TIMESTAMP)
  ID (account) LIFESPAN (5d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Reading (sensor VARCHAR(10), value DOUBLE, ok BOOLEAN, day DATE)
  ID (sensor) LIFESPAN (5d);
SOURCE Reading FROM COLUMNS (probe AS sensor, seen AS occ_time);
""")


def in_order(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.source, row.position))


def drained(spark: SparkSession, frame: DataFrame, checkpoint: Path, name: str) -> list[Row]:
    """What a stream gives from its checkpoint on until there is nothing more; then it is stopped."""
    found: list[Row] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(batch.collect())

    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint)).queryName(name).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return found


def example(name: str) -> str:
    """The Python of a block in docs/sources.md, by the comment that it begins with."""
    page = (Path(__file__).parents[2] / "docs" / "sources.md").read_text()
    (found,) = [block for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) if block.startswith(f"# {name}\n")]
    return str(found)


# ---- JSON Lines ------------------------------------------------------------------------------------------------------


def test_a_line_has_its_file_and_number_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    first = b'\xef\xbb\xbf{"account": 1}\r\n\n  {"account": 2}  \n\xff\xfe broken\nno json at all\n{"account": 3}'
    (tmp_path / "Order.jsonl").write_bytes(first)
    (tmp_path / "a b.jsonl.gz").write_bytes(gzip.compress('{"account": "ä"}\n'.encode()))
    rows = in_order(sources.json_lines(spark, str(tmp_path), streaming=False))
    told = [(Path(r.source).name, r.position, r.line, r.event, r.refused) for r in rows]
    assert told == [
        ("Order.jsonl", 1, '{"account": 1}', "Order", None),
        ("Order.jsonl", 3, '{"account": 2}', "Order", None),
        ("Order.jsonl", 4, "\ufffd\ufffd broken", "Order", "it is not UTF-8"),
        ("Order.jsonl", 5, "no json at all", "Order", None),
        ("Order.jsonl", 6, '{"account": 3}', "Order", None),
        ("a b.jsonl.gz", 1, '{"account": "ä"}', "a b", None),
    ]
    assert rows[0].source == str(tmp_path / "Order.jsonl")


def test_a_line_that_is_too_long_is_refused_and_its_neighbour_kept(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "Order.jsonl").write_text('{"note": "' + "x" * 10_000_001 + '"}\n{"account": 1}\n')
    long, kept = in_order(sources.json_lines(spark, str(tmp_path), streaming=False))
    assert (len(long.line), long.refused) == (2000, "it is longer than 10,000,000 bytes")
    assert (kept.line, kept.refused) == ('{"account": 1}', None)
    assert kept.position > long.position == 1


def test_the_order_of_a_file_larger_than_a_split_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    # Short lines make the numbers of a split as dense as they can be; long ones reach over several splits.
    lines = [str(n % 10) for n in range(5_000)] + ["[" + "7" * 3_000 + "]"] * 3 + [str(n) for n in range(5_000)]
    (tmp_path / "Order.jsonl").write_text("\n".join(lines) + "\n")
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1000")
    try:
        frame = sources.json_lines(spark, str(tmp_path), streaming=False)
        rows = in_order(frame)
        assert frame.rdd.getNumPartitions() > 20
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
    assert [row.line for row in rows] == lines
    assert len({row.position for row in rows}) == len(lines)


def test_a_folder_that_grows_is_read_once_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    data.mkdir()
    frame = sources.json_lines(spark, str(data), event="Order", options={"maxFilesPerTrigger": 1})
    assert frame.isStreaming
    for n in (1, 2):
        (data / f"{n}.jsonl").write_text(f'{{"account": {n}}}\n{{"account": {n}0}}\n')
    rows = drained(spark, frame, checkpoint, "grows1")
    assert sorted(r.line for r in rows) == ['{"account": 10}', '{"account": 1}', '{"account": 20}', '{"account": 2}']
    assert {r.event for r in rows} == {"Order"}
    assert drained(spark, frame, checkpoint, "grows2") == []
    (data / "3.jsonl").write_text('{"account": 3}\n')
    again = drained(spark, sources.json_lines(spark, str(data), event="Order"), checkpoint, "grows3")
    assert [(Path(r.source).name, r.position) for r in again] == [("3.jsonl", 1)]


def test_a_folder_that_is_not_there_is_told(spark: SparkSession, tmp_path: Path) -> None:
    for streaming in (True, False):
        with pytest.raises(SourceError, match=r"there is no file or folder .*nowhere"):
            sources.json_lines(spark, str(tmp_path / "nowhere"), streaming=streaming)
    with pytest.raises(SourceError, match="there is no file or folder"):
        sources.parquet(spark, str(tmp_path / "nowhere"))


def test_a_file_that_cannot_be_read_is_named_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    of = augury.compile("CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);")
    (tmp_path / "no table.parquet").write_bytes(b"not a table")
    with pytest.raises(
        SourceError, match=r"/no table\.parquet` cannot be read: .* is not a Parquet file .*; get a whole"
    ):
        sources.parquet(spark, str(tmp_path / "no table.parquet"))
    packed = tmp_path / "A.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"x": 1, "det_time": 1}\n' * 999)[:-20])
    torn = tmp_path / "torn.parquet"
    pq.write_table(
        pa.table({"event": ["A"] * 5000, "x": pa.array(range(5000), pa.int32())}), torn, use_dictionary=False
    )
    torn.write_bytes(torn.read_bytes()[:200] + b"\xff" * 400 + torn.read_bytes()[600:])
    for frame in (sources.json_lines(spark, str(packed), streaming=False), spark.read.parquet(str(torn))):
        with (
            augury.detect(of, frame) as found,
            pytest.raises(SourceError, match=r"` cannot be read: .*; get a whole copy"),
        ):
            _ = found.versions


# ---- CSV -------------------------------------------------------------------------------------------------------------

ORDERS = """event,account,quantity,note,due,occ_time,ignored
Order,1,12.50,12,2026-01-01T09:00:00Z,2026-01-01T09:00:00.123456Z,x
order,2,0.1,"a ""b"",
c",1767258000.5,1767258000,
Order,3
Order,4,12.505,far too long,never,2026-01-01T09:00:00Z,

Order,5,,,,,
Nobody,6,1,1,,2026-01-01,
"""


def accepted(frame: DataFrame) -> tuple[list[Any], list[tuple[str, str]]]:
    """What the core makes of lines: typed rows by class, and refusals."""
    rows = in_order(frame)
    raws = [RawRows(r.source, [read_line(r.line.encode())], [r.position], r.event) for r in rows if r.refused is None]
    return _typed(came(PROGRAM, raws))


def _typed(found: Any) -> tuple[list[Any], list[tuple[str, str]]]:
    parts = [
        (code, [column.to_pylist() for column in part.values], part.occ_time.tolist(), part.withdrawal is not None)
        for some in found.some
        for code, part in some.parts.items()
        if len(part)
    ]
    return parts, sorted((refusal.event, refusal.reason) for refusal in found.refusals)


def test_cells_of_csv_are_what_their_class_says_as_in_process(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(ORDERS)
    frame = sources.csv(spark, str(path), PROGRAM, streaming=False)
    lines = {row.position: row for row in frame.collect()}
    assert sorted(lines) == [2, 3, 5, 6, 8, 9]
    assert lines[5].refused == "it has 2 cells, the header 7"
    assert lines[5].line == "Order,3"
    assert json.loads(lines[2].line, parse_float=Decimal) == {
        "event": "Order",
        "account": 1,
        "quantity": Decimal("12.50"),
        "note": "12",
        "due": "2026-01-01T09:00:00Z",
        "occ_time": "2026-01-01T09:00:00.123456Z",
        "ignored": "x",
    }
    here, reasons = accepted(frame)
    there, expected = _typed(came(PROGRAM, read_events(str(path))))
    assert [reason for reason in expected if reason[1] != "it has 2 cells, the header 7"] == reasons
    flat = [[value for _, columns, _, _ in parts for value in columns[0]] for parts in (here, there)]
    assert flat[0] == flat[1] == [1, 2, 5][: len(flat[0])]
    assert [v for _, c, _, _ in here for v in c[1]] == [v for _, c, _, _ in there for v in c[1]]
    assert [v for _, c, _, _ in here for v in c[3]] == [v for _, c, _, _ in there for v in c[3]]
    assert [t for _, _, occ, _ in here for t in occ] == [t for _, _, occ, _ in there for t in occ]


def test_csv_takes_the_class_from_the_file_and_names_from_source(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "Reading.tsv").write_text(
        "probe\tvalue\tok\tday\tseen\ns1\tNaN\ttrue\t2026-02-03\t2026-01-01T00:00:00Z\n"
    )
    (tmp_path / "other.csv").write_bytes(b"\xff\xfe,value\n1,2\n")
    (tmp_path / "empty.csv").write_text("\n\n")
    good, bad = in_order(sources.csv(spark, str(tmp_path), PROGRAM, streaming=False))
    assert (good.event, good.position) == ("Reading", 2)
    assert json.loads(good.line) == {
        "probe": "s1",
        "value": "NaN",
        "ok": True,
        "day": "2026-02-03",
        "seen": "2026-01-01T00:00:00Z",
    }
    assert (bad.position, bad.refused) == (1, "the header of the file cannot be read: it is not UTF-8")


def test_csv_streams(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    frame = sources.csv(spark, str(data), PROGRAM, event="Order")
    (data / "1.csv").write_text("account;quantity\n1;2\n")
    rows = drained(spark, frame, tmp_path / "checkpoint", "csv1")
    (data / "2.csv").write_text("quantity,account\n3,4\n")
    rows += drained(spark, frame, tmp_path / "checkpoint", "csv2")
    assert [json.loads(row.line) for row in rows] == [{"account": 1, "quantity": 2}, {"quantity": 3, "account": 4}]


# ---- Parquet and schemas ---------------------------------------------------------------------------------------------


def test_parquet_comes_typed_with_class_and_place(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, 9, 0, 0, 123456)
    table = pa.table({"account": [1, 2], "quantity": [Decimal("1.10"), None], "occ_time": [moment, None]})
    pq.write_table(table, tmp_path / "Order.parquet")
    frame = sources.parquet(spark, str(tmp_path), PROGRAM, event="Order")
    assert frame.isStreaming
    rows = drained(spark, frame, tmp_path / "checkpoint", "parquet1")
    assert [(r.event, r.account, r.quantity, r._position) for r in rows] == [
        ("Order", 1, Decimal("1.10"), 1),
        ("Order", 2, None, 2),
    ]
    assert rows[0]._source == str(tmp_path / "Order.parquet")
    named = sources.parquet(spark, str(tmp_path / "Order.parquet"), streaming=False)
    assert {row.event for row in named.collect()} == {"Order"}


def test_a_folder_without_parquet_says_what_it_needs(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no Parquet file .* or say schema="):
        sources.parquet(spark, str(tmp_path))
    given = s.StructType([s.StructField("account", s.IntegerType())])
    assert sources.parquet(spark, str(tmp_path), event="Order", schema=given).columns == [
        "account",
        "_source",
        "_position",
        "event",
    ]


def test_all_misfits_are_told_at_once(spark: SparkSession, tmp_path: Path) -> None:
    schema = s.StructType(
        [
            s.StructField("event", s.StringType()),
            s.StructField("ACCOUNT", s.StringType()),
            s.StructField("quantity", s.DoubleType()),
            s.StructField("note", s.IntegerType()),
            s.StructField("due", s.LongType()),
            s.StructField("seen", s.BooleanType()),
            s.StructField("value", s.DecimalType(10, 2)),
            s.StructField("ok", s.ArrayType(s.StringType())),
            s.StructField("day", s.TimestampNTZType()),
        ]
    )
    assert sources.misfits(PROGRAM, schema) == [
        "`Order.account` is an INT, and the column `ACCOUNT` is a STRING",
        "`Order.note` is a VARCHAR(8), and the column `note` is an INT",
        "`occ_time` is a TIMESTAMP, and the column `seen` is a BOOLEAN",
        "`Reading.sensor` belongs to the key, and there is no column of that name",
        "`Reading.ok` is a BOOLEAN, and the column `ok` is an ARRAY<STRING>",
    ]
    assert sources.misfits(PROGRAM, schema, event="Ordr") == [
        "there is no subscribed event class `Ordr`; did you mean `Order`?"
    ]
    assert len(sources.misfits(PROGRAM, s.StructType(schema.fields[1:]))) == 1
    pq.write_table(pa.table({"account": ["1"], "note": [1]}), tmp_path / "Order.parquet")
    with pytest.raises(SourceError, match=r"(?s)- `Order.account` is an INT.*- `Order.note` is a VARCHAR"):
        sources.parquet(spark, str(tmp_path), PROGRAM, event="Order")


# ---- rates and detectors ---------------------------------------------------------------------------------------------


def test_a_rate_makes_events(spark: SparkSession, tmp_path: Path) -> None:
    frame = sources.rate(spark, "Order", 20, {"account": "CAST(value % 3 AS INT)"})
    found: list[Row] = []
    query = frame.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect())).start()
    try:
        deadline = time.monotonic() + 30
        while len(found) < 20 and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        query.stop()
    made = sorted((r._position, r.account) for r in found)
    assert made[:4] == [(1, 0), (2, 1), (3, 2), (4, 0)]
    assert sources.misfits(PROGRAM, frame.schema, event="Order") == []
    with pytest.raises(SourceError, match="at least 1"):
        sources.rate(spark, "Order", 0)


def test_a_detector_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    box = tmp_path / "box"
    box.write_text("")
    asked = tmp_path / "asked"

    def poll(position: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        with asked.open("a") as notes:
            notes.write(json.dumps(position) + "\n")
        words = box.read_text().split()[position.get("read", 0) :]
        return [{"event": "Order", "account": int(w), "quantity": Decimal("0.10")} for w in words], {
            "read": position.get("read", 0) + len(words)
        }

    frame = sources.detector(spark, poll, every=0, name="box")
    box.write_text("1 2")
    checkpoint = tmp_path / "checkpoint"
    rows = drained(spark, frame, checkpoint, "box1")
    assert [(r.source, r.position) for r in rows] == [("box", 1), ("box", 2)]
    assert rows[0].line == '{"event": "Order", "account": 1, "quantity": 0.10}'
    box.write_text("1 2 3")
    rows = drained(spark, sources.detector(spark, poll, every=0, name="box"), checkpoint, "box2")
    assert [(json.loads(r.line)["account"], r.position) for r in rows] == [(3, 3)]
    assert json.loads(asked.read_text().splitlines()[0]) == {}


def test_a_batch_of_a_detector_that_failed_is_the_same_again(spark: SparkSession, tmp_path: Path) -> None:
    """What was found once may never be found again: the second time this detector finds something else."""
    count = tmp_path / "count"
    count.write_text("0")

    def poll(position: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        number = int(count.read_text()) + 1
        count.write_text(str(number))
        return ([{"account": number}], {"at": number}) if number < 3 else ([], position)

    frame = sources.detector(spark, poll, every=0)
    tries: list[list[str]] = []

    def fail_once(batch: DataFrame, _: int) -> None:
        tries.append([row.line for row in batch.collect()])
        if len(tries) == 1:
            raise RuntimeError("the sink is down")

    def start() -> Any:
        return frame.writeStream.foreachBatch(fail_once).option("checkpointLocation", str(tmp_path / "c")).start()

    query = start()
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        query.processAllAvailable()
    query = start()
    query.processAllAvailable()
    query.stop()
    assert tries[:2] == [['{"account": 1}'], ['{"account": 1}']]
    assert [line for lines in tries[1:] for line in lines] == ['{"account": 1}', '{"account": 2}']


def test_a_detector_that_fails_ends_the_query_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    def poll(position: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        raise OSError("the sensor is gone")

    frame = sources.detector(spark, poll, every=0)
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(StreamingQueryException, match="the sensor is gone"):
        query.processAllAvailable()
    with pytest.raises(SourceError, match="not negative"):
        sources.detector(spark, poll, every=-1)


def test_the_page_about_files_and_detectors_holds(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("orders", "deliveries", "readings"):
        (tmp_path / name).mkdir()
    program = augury.compile("""
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Order (account INT) ID () LIFESPAN (5d);
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Delivery (account INT) ID () LIFESPAN (5d);
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Reading (sensor VARCHAR(10), value DOUBLE) ID () LIFESPAN (5d);
    """)
    (tmp_path / "orders" / "1.jsonl").write_text('{"account": 1}\n')
    (tmp_path / "deliveries" / "1.csv").write_text("account\n2\n")
    pq.write_table(pa.table({"sensor": ["s1"], "value": [0.5]}), tmp_path / "readings" / "1.parquet")
    (tmp_path / "sensor.txt").write_text("20.5 21")
    names: dict[str, Any] = {"spark": spark, "program": program, "folder": str(tmp_path)}
    exec(example("files"), names)
    read = {name: drained(spark, names[name], tmp_path / f"c-{name}", name) for name in ("orders", "deliveries")}
    told = {name: [(row.event, row.line) for row in rows] for name, rows in read.items()}
    assert told == {"orders": [("Order", '{"account": 1}')], "deliveries": [("Delivery", '{"account": 2}')]}
    assert [row.value for row in drained(spark, names["readings"], tmp_path / "c-readings", "readings")] == [0.5]
    exec(example("detector"), names)
    found = drained(spark, names["readings"], tmp_path / "c-detector", "detector")
    assert [json.loads(row.line)["value"] for row in found] == [20.5, 21.0]


NO_CONNECTOR = """
from augury.spark import sources
from augury.spark.session import session
from tests.spark.broker import jars

try:
    sources.kafka(session("local[1]"), "127.0.0.1:1", "orders")
except sources.SourceError as error:
    print(error)

try:
    spark = session(jars=[jar for jar in jars("spark.xml") if "spark-avro" not in jar])
    sources.kafka(spark, "127.0.0.1:1", "orders", value="avro", avro_schema='{"type": "record", "name": "R"}')
except sources.SourceError as error:
    print(error)
"""


def test_without_the_connector_it_is_said_how_to_get_it() -> None:
    """In a process of its own: other tests give the session of this one the jar."""
    done = subprocess.run(
        [sys.executable, "-c", NO_CONNECTOR], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    connector, avro = done.stdout.splitlines()
    assert "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4." in connector
    assert "--packages org.apache.spark:spark-avro_2.13:4." in avro


def test_a_jar_that_is_not_there_is_told() -> None:
    with pytest.raises(NoSpark, match=r"there is no jar `nowhere\.jar`"):
        session(jars=["nowhere.jar"])
