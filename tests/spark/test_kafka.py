"""Kafka, with a real broker: records → events with places and reasons, restarts of either, results, dead letters."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import to_avro

import augury
from augury.engine.ledger import lines
from augury.lake import Lake, Manifest, NoLake
from augury.spark import sinks, sources
from augury.spark.committed import ledger_in
from augury.spark.session import session
from augury.spark.sinks import Sink
from augury.spark.sources import SourceError
from augury.spark.watch import Watch, watch
from tests.spark.broker import Broker, jars
from tests.spark.kafka.driver import PROGRAM
from tests.spark.kafka.results import commit_of
from tests.spark.test_sources import drained, example, in_order

RECORD = "topic string, partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    found = Broker(tmp_path_factory.mktemp("kafka"))
    found.start()
    yield found
    found.kill()


@pytest.fixture(scope="module")
def with_kafka(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    folder = tmp_path_factory.mktemp("a folder with spaces")
    return session(jars=[shutil.copy(jar, str(folder)) for jar in jars("spark.xml")])


@dataclass(frozen=True)
class Record:
    """A record to be sent."""

    topic: str
    value: bytes | None
    partition: int = 0
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def send(spark: SparkSession, broker: Broker, *records: Record) -> None:
    rows = [(r.topic, r.partition, r.key, r.value, list(r.headers)) for r in records]
    frame = spark.createDataFrame(rows, RECORD).coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.servers).save()


def sent(spark: SparkSession, broker: Broker, topic: str) -> list[tuple[bytes | None, bytes | None, dict[str, bytes]]]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.servers).option("subscribe", topic)
    rows = reader.option("includeHeaders", "true").load().orderBy("partition", "offset").collect()
    return [(r.key, r.value, {h.key: bytes(h.value) for h in r.headers or []}) for r in rows]


def read(spark: SparkSession, broker: Broker, topics: str | Sequence[str], **asked: Any) -> list[Row]:
    return in_order(sources.kafka(spark, broker.servers, topics, streaming=False, **asked))


# ---- records -> lines ------------------------------------------------------------------------------------------------


def test_the_place_of_a_record_is_its_partition_and_offset(with_kafka: SparkSession, broker: Broker) -> None:
    send(
        with_kafka,
        broker,
        Record("places", b'{"n": 0}', 2),
        Record("places", b'{"n": 1}', 0),
        Record("places", b"no json", 2),
        Record("places", b"\xff\xfe\x00", 2),
        Record("places", None, 1),
        Record("places", '{"n": "ä"}'.encode(), 1),
    )
    rows = read(with_kafka, broker, "places")
    assert [(r.source, r.position, r.line, r.event, r.refused) for r in rows] == [
        ("places/000000", 0, '{"n": 1}', None, None),
        ("places/000001", 0, "", None, "it has no value"),
        ("places/000001", 1, '{"n": "ä"}', None, None),
        ("places/000002", 0, '{"n": 0}', None, None),
        ("places/000002", 1, "no json", None, None),
        ("places/000002", 2, "\ufffd\ufffd\x00", None, "it is not UTF-8"),
    ]


def test_classes_by_topic_key_header_or_value(with_kafka: SparkSession, broker: Broker) -> None:
    one = Record("Order", b'{"event": "Order"}', 0, b"Payment", (("type", b"old"), ("type", b"Refund")))
    two = Record("Order", b'{"event": "Refund"}', 0, b"Refund", (("type", b"Payment"),))
    three = Record("paid", b"{}", 0, None)
    send(with_kafka, broker, one, two, three)
    by: dict[str, Any] = {
        "value": None,
        "topic": "topic",
        "key": "key",
        "header": "header:type",
        "mapping": {"paid": "Payment"},
    }
    found = {
        name: [r.event for r in read(with_kafka, broker, ["Order", "paid"], event=event)] for name, event in by.items()
    }
    # One topic may have many classes: by key, by header, or as the value says, which the engine reads.
    assert found == {
        "value": [None, None, None],
        "topic": ["Order", "Order", "paid"],
        "key": ["Payment", "Refund", None],
        "header": ["Refund", "Payment", None],
        "mapping": [None, None, "Payment"],
    }


def test_keys_headers_and_times_become_attributes(with_kafka: SparkSession, broker: Broker) -> None:
    trace = (("trace", 'ü"1'.encode()),)
    send(
        with_kafka,
        broker,
        Record("mapped", b'{"price": 1.10, "big": 12345678901234567890}', 0, b"121", trace),
        Record("mapped", b'{"ACCOUNT": 7, "det_time": "2020-01-01", "price": 1.10}', 0, b"122"),
        Record("mapped", b"{}", 0, b"many", trace),
        Record("mapped", b'["no object"]', 0, b"1"),
        Record("mapped", b"{", 0, b"1"),
        Record("mapped", b"{}", 0, b"\xff"),
    )
    begin = datetime.now(UTC)
    asked = {"columns": {"key": "account INT", "header:trace": "trace"}, "det_time": "timestamp"}
    rows = read(with_kafka, broker, "mapped", **asked)
    lines = [r.line for r in rows]
    assert lines[0].startswith(
        '{"price": 1.10, "big": 12345678901234567890, "account": 121, "trace": "ü\\"1", "det_time": "'
    )
    told = datetime.fromisoformat(json.loads(lines[0])["det_time"])
    assert abs((told - begin).total_seconds()) < 60
    second = json.loads(lines[1])
    assert (second["account"], second["price"], "ACCOUNT" in second) == (122, 1.10, False)
    assert second["det_time"] > "2026"
    # A key that is no INT stays text, which the engine refuses with its reason.
    assert json.loads(lines[2])["account"] == "many"
    assert lines[3:5] == ['["no object"]', "{"]
    assert [r.refused for r in rows] == [None] * 5 + ["its key is not UTF-8"]


SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "account", "type": "long"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
            {"name": "share", "type": "float"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "occ_time", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        ],
    }
)


def test_avro_keeps_its_values_and_tells_what_is_none(with_kafka: SparkSession, broker: Broker) -> None:
    made = with_kafka.sql(
        "SELECT 9007199254740993L AS account, CAST(1.10 AS DECIMAL(10,2)) AS price, CAST(0.1 AS FLOAT) AS share,"
        " 'a \"b\"' AS note, TIMESTAMP '2026-01-01 09:00:00.123456Z' AS occ_time"
    )
    good = made.select(to_avro(f.struct("*"), SCHEMA).alias("value")).collect()[0].value
    send(with_kafka, broker, Record("avro", bytes(good), 0, b"k"), Record("avro", b"{}", 0), Record("avro", None, 0))
    asked = {"value": "avro", "avro_schema": SCHEMA, "event": "topic"}
    fine, broken, empty = read(with_kafka, broker, "avro", **asked)
    value = json.loads(fine.line)
    assert (value["account"], value["note"], value["share"]) == (9007199254740993, 'a "b"', 0.10000000149011612)
    assert '"price":1.10' in fine.line
    assert datetime.fromisoformat(value["occ_time"]) == datetime(2026, 1, 1, 9, 0, 0, 123456, UTC)
    assert fine.event == "avro"
    assert [r.refused for r in (fine, broken, empty)] == [None, "it is not Avro of the given schema", "it has no value"]
    filled = read(with_kafka, broker, "avro", **asked, columns={"key": "trace"})
    assert json.loads(filled[0].line)["trace"] == "k"


def test_all_mistakes_are_told_at_once(with_kafka: SparkSession) -> None:
    with pytest.raises(SourceError) as caught:
        sources.kafka(
            with_kafka,
            "127.0.0.1:1",
            ["a", ""],
            value="avro",
            event="heder:x",
            columns={"value": "x", "key": "account INTEGRE", "header:h": "n VARCHAR(0)"},
            det_time="now",  # type: ignore[arg-type]
            options={"subscribe": "b"},
        )
    assert str(caught.value).splitlines() == [
        "Kafka cannot be read like this:",
        "- topics: name at least one",
        '- avro_schema goes with value="avro", and it needs one',
        '- event is "topic", "key", "header:<name>" or a mapping from topics to classes, not \'heder:x\'',
        "- det_time is \"timestamp\" or left out, not 'now'",
        "- options: `subscribe` is said by servers, topics and starting",
        '- columns: `value` is neither "key" nor "header:<name>"',
        "- columns: `key`: there is no type `INTEGRE`; say `name` or `name TYPE`",
        "- columns: `header:h`: the length of VARCHAR is at least 1",
    ]
    with pytest.raises(SourceError, match="an event is a record"):
        sources.kafka(with_kafka, "127.0.0.1:1", "a", value="avro", avro_schema='"string"')


# ---- streams ---------------------------------------------------------------------------------------------------------


def numbers(rows: Sequence[Row]) -> list[int]:
    return sorted(json.loads(row.line)["n"] for row in rows)


def numbered(topic: str, of: range) -> list[Record]:
    return [Record(topic, f'{{"n": {n}}}'.encode(), n % 3) for n in of]


def test_a_query_that_is_stopped_goes_on_where_it_was(with_kafka: SparkSession, broker: Broker, tmp_path: Path) -> None:
    send(with_kafka, broker, *numbered("stops", range(30)))

    def frame() -> DataFrame:
        return sources.kafka(with_kafka, broker.servers, "stops", options={"maxOffsetsPerTrigger": "9"})

    rows = drained(with_kafka, frame(), tmp_path / "checkpoint", "stops1")
    assert numbers(rows) == list(range(30))
    send(with_kafka, broker, *numbered("stops", range(30, 35)))
    rows = drained(with_kafka, frame(), tmp_path / "checkpoint", "stops2")
    assert numbers(rows) == list(range(30, 35))
    given = sources.kafka(with_kafka, broker.servers, "stops", starting={"stops": {0: 11, 1: 12, 2: 11}})
    assert numbers(drained(with_kafka, given, tmp_path / "other", "stops3")) == [33]


def test_a_batch_that_failed_comes_again_the_same(with_kafka: SparkSession, broker: Broker, tmp_path: Path) -> None:
    send(with_kafka, broker, *numbered("fails", range(6)))
    tries: list[list[tuple[str, int]]] = []

    def fail_once(batch: DataFrame, _: int) -> None:
        tries.append([(r.source, r.position) for r in in_order(batch)])
        if len(tries) == 1:
            raise RuntimeError("the sink is down")

    def run() -> None:
        frame = sources.kafka(with_kafka, broker.servers, "fails")
        writer = frame.writeStream.foreachBatch(fail_once).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    with pytest.raises(Exception, match="the sink is down"):
        run()
    send(with_kafka, broker, *numbered("fails", range(6, 9)))
    run()
    assert len(tries[0]) == 6
    assert tries[0] == tries[1]
    assert [len(one) for one in tries] == [6, 6, 3]


# ---- results ---------------------------------------------------------------------------------------------------------


def test_results_and_dead_letters(with_kafka: SparkSession, broker: Broker) -> None:
    send(
        with_kafka,
        broker,
        Record("origin", b"{} and more", 1),
        Record("origin", b"\xff\x00 bytes", 1, b"\xfe", (("trace", b"\x80"),)),
    )
    broker.forget("origin", 1, before=1)
    refused = [
        ("origin/000001:1", "", "it is not UTF-8", "shortened …"),
        ("origin/000001:0", "", "it is gone", "what was kept of it"),
        ("/data/Order.jsonl:3", "Order", "it is not JSON", "{"),
    ]
    sink = sinks.to_kafka(broker.servers, "results", rejected_to="dead")
    for _ in range(2):
        sink(commit_of(with_kafka, 7, refused))
    results = sent(with_kafka, broker, "results")
    assert len(results) == 8, "a commit that is told twice is sent twice"
    by_key = [(value, headers) for key, value, headers in results if key == b'Complete{"I": 1}'][:2]
    assert [json.loads(value or b"")["seq"] for value, _ in by_key] == [2, 4]
    assert by_key[0][1] == {"commit": b"7", "event": b"Complete"}
    actions = [(value, headers) for key, value, headers in results if key == b"id-1"]
    assert actions[0] == (b'{"action": "tell"}', {"commit": b"7", "action": b"tell"})
    dead = {
        headers["origin"].decode(): (key, value, headers) for key, value, headers in sent(with_kafka, broker, "dead")
    }
    key, value, headers = dead["origin/000001:1"]
    assert (key, value, headers["trace"], headers["reason"]) == (
        b"\xfe",
        b"\xff\x00 bytes",
        b"\x80",
        b"it is not UTF-8",
    )
    assert headers["commit"] == b"7"
    assert "shortened" not in headers
    assert dead["origin/000001:0"][1] == b"what was kept of it"
    assert dead["origin/000001:0"][2]["shortened"] == b"the record is gone from its topic"
    assert dead["/data/Order.jsonl:3"][:2] == (None, b"{")
    assert "shortened" not in dead["/data/Order.jsonl:3"][2]


def test_the_page_about_kafka_holds(with_kafka: SparkSession, broker: Broker, tmp_path: Path) -> None:
    send(with_kafka, broker, Record("orders", b"{}", 0, b"5"), Record("payments", b"{}", 0, b"6"))
    names: dict[str, Any] = {"spark": with_kafka, "servers": broker.servers, "folder": str(tmp_path)}
    exec(example("kafka"), names)
    rows = drained(with_kafka, names["orders"], tmp_path / "checkpoint", "page")
    assert sorted((row.event, json.loads(row.line)["account"]) for row in rows) == [("Order", 5), ("Payment", 6)]
    exec(example("sinks"), names)
    names["keep"](commit_of(with_kafka, 1))
    names["tell"](commit_of(with_kafka, 1))
    assert with_kafka.read.parquet(f"{tmp_path}/results/events").count() == 3
    assert len(sent(with_kafka, broker, "alerts")) == 4


# ---- watching --------------------------------------------------------------------------------------------------------


def watching(broker: Broker, store: Path, until: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.kafka.driver", broker.servers, str(store), until]
    with (store.parent / f"{until}.log").open("wb") as log:
        return subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=log, stderr=log)


def test_a_watch_that_is_killed_loses_and_doubles_nothing(
    with_kafka: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    good = {n: f'{{"n": {n}, "det_time": {1_767_258_000 + n}}}'.encode() for n in range(120) if n % 20}
    bad = {n: b"\xff %d" % n if n % 40 else b"{%d" % n for n in range(120) if n % 20 == 0}
    send(with_kafka, broker, *(Record("watched", v, n % 3, b"%d" % (n % 7)) for n, v in sorted((good | bad).items())))
    store = tmp_path / "lake"
    killed = watching(broker, store, "on")
    try:
        deadline = time.monotonic() + 120
        while not (store.exists() and commits(store)) and time.monotonic() < deadline:
            assert killed.poll() is None, (tmp_path / "on.log").read_text()[-2000:]
            time.sleep(0.05)
    finally:
        killed.kill()
        killed.wait()
    before = len(commits(store))
    again = watching(broker, store, "finish")
    assert again.wait(180) == 0, (tmp_path / "finish.log").read_text()[-2000:]
    assert 0 < before < len(commits(store)), "it was killed in the middle"
    kept = ledger_in(augury.compile(PROGRAM), Lake.open(str(store)), commits(store))
    assert sorted(kept.versions["Order"]["n"].to_pylist()) == sorted(good)
    assert sorted(kept.versions["Seen"]["N"].to_pylist()) == sorted(good)
    assert kept.rejected.num_rows == len(bad)
    assert kept.actions.num_rows == len(good)
    # What was carried on came at least once, and what came twice is the same.
    found = {(key, value) for key, value, headers in sent(with_kafka, broker, "found") if "event" in headers}
    assert sorted(json.loads(value or b"")["N"] for _, value in found) == sorted(good)
    told = {key for key, _, headers in sent(with_kafka, broker, "found") if "action" in headers}
    assert len(told) == len(good)
    assert {value for _, value, _ in sent(with_kafka, broker, "unfit")} == set(bad.values())


PAIRS = """
SET CHRONON 2s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Order (account INT, n INT) ID (n) LIFESPAN (50d)
  ON ANNOUNCEMENT DO tell(new.n);
CREATE COMPLEX EVENT CLASS Next (account INT, n INT) ID (n) LIFESPAN (50d)
  AS MATCH prior(Order(account, _), Order(account, n));
"""


def pairing(spark: SparkSession, broker: Broker, store: Path, *told: Sink, **options: str) -> Watch:
    """A watch over one partition, whose history is the same whatever comes in one batch."""
    asked: dict[str, Any] = {"columns": {"key": "account INT"}, "options": options}
    orders = sources.kafka(spark, broker.servers, "paired", event={"paired": "Order"}, **asked)
    return watch(augury.compile(PAIRS), orders, store=store, clock="data", buckets=2, sinks=told)


def kept(store: Path) -> dict[str, Any]:
    """All that a lake holds, whichever commit brought it."""
    program = augury.compile(PAIRS)
    ledger = ledger_in(program, Lake.open(str(store)), commits(store))
    tables = {"actions": ledger.actions, "rejected": ledger.rejected.drop_columns(["tick"]), **ledger.versions}
    return {"lines": list(lines(program, ledger))} | {name: table.to_pylist() for name, table in tables.items()}


def paired(of: range) -> list[Record]:
    """Orders by turns of four accounts; every tenth is no text."""
    told = {n: b'{"n": %d, "det_time": %d}' % (n, 1_767_258_000 + n) for n in of}
    return [Record("paired", b"\xff%d" % n if n % 10 == 7 else told[n], 0, b"%d" % (n % 4)) for n in of]


IMPATIENT = {
    "kafka.default.api.timeout.ms": "600",
    "kafka.request.timeout.ms": "500",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "10",
}


def test_a_watch_survives_its_broker_or_is_taken_up_again(
    with_kafka: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    back: list[threading.Timer] = []

    def restart() -> None:
        broker.kill()
        back.append(threading.Timer(1, broker.start))
        back[-1].start()

    def restart_once(committed: sinks.Committed) -> None:
        if committed.commit == 2:
            restart()

    store, carried = tmp_path / "lake", sinks.to_kafka(broker.servers, "pairs", rejected_to="unpaired")
    send(with_kafka, broker, *paired(range(20)))
    with pairing(with_kafka, broker, store, restart_once, carried, maxOffsetsPerTrigger="8") as running:
        # It dies between a commit and the way of that to Kafka, with more to be read.
        running.query.processAllAvailable()
        back[0].join()
        # It dies while nothing comes, and who sends waits for it, too.
        restart()
        send(with_kafka, broker, *paired(range(20, 30)))
        running.query.processAllAvailable()
        back[1].join()
    # Kafka's producer knows what it had sent before: as the watch went on, even this is there once.
    assert not [one for one, times in Counter(records(with_kafka, broker, "pairs")).items() if times > 1]
    broker.kill()
    # It is away for longer than it may be.
    with (
        pairing(with_kafka, broker, store, **IMPATIENT) as running,
        pytest.raises(StreamingQueryException, match=r"errors\.TimeoutException"),
    ):
        running.await_termination(60)
    broker.start()
    send(with_kafka, broker, *paired(range(30, 40)))
    with pairing(with_kafka, broker, store, carried) as running:
        running.finish()
    as_if = tmp_path / "undisturbed"
    with pairing(with_kafka, broker, as_if) as running:
        running.finish()
    found = kept(store)
    assert found == kept(as_if)
    assert [row["n"] for row in found["Order"]] == [n for n in range(40) if n % 10 != 7]
    assert len(found["Next"]) > 25
    # A watch that is started sends the last commit again, and nothing else.
    told = Counter(records(with_kafka, broker, "pairs"))
    assert sorted(value for value, _ in told) == sorted(line.encode() for line in found["lines"])
    assert len({commit for (_, commit), times in told.items() if times > 1}) == 1
    assert {value for value, _ in records(with_kafka, broker, "unpaired")} == {
        b"\xff7",
        b"\xff17",
        b"\xff27",
        b"\xff37",
    }


def records(spark: SparkSession, broker: Broker, topic: str) -> list[tuple[bytes, bytes]]:
    """The values of a topic, each with the commit that it is of."""
    return [(value or b"", headers["commit"]) for _, value, headers in sent(spark, broker, topic)]


def commits(store: Path) -> list[Manifest]:
    try:
        return list(Lake.open(str(store)).manifests())
    except NoLake:
        return []


def test_a_broker_that_does_not_answer_fails_the_sink(with_kafka: SparkSession) -> None:
    quick: Mapping[str, str] = {
        "kafka.max.block.ms": "500",
        "kafka.request.timeout.ms": "400",
        "kafka.delivery.timeout.ms": "500",
    }
    with pytest.raises(SourceError, match=r"commit 1 was not sent to 127\.0\.0\.1:1: "):
        sinks.to_kafka("127.0.0.1:1", "nowhere", options=quick)(commit_of(with_kafka, 1))
