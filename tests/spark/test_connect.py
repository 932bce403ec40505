"""Batches over Spark Connect: a client without a JVM finds what is found in process; a stream is refused in words.

The server runs beside the session of the other tests, the client (this very file) in a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import augury
from augury.engine.lines import lines
from augury.local.engine import detect as detect_in_process
from augury.local.kernel import match_kernel
from augury.local.sources import tables_of
from augury.spark.detect import Detected
from augury.spark.session import NoSpark
from augury.spark.sources import SourceError
from tests.lake.made import NOON, SECOND, filled
from tests.spark.programs import events

ROOT: Final = Path(__file__).parents[2]
NEEDED: Final = ("grpc", "grpc_status", "google.protobuf", "zstandard")

AT_ONCE: Final = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (I INT, Q INT) ID () LIFESPAN (5d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Perform (I BIGINT, A INT) ID () LIFESPAN (40s);
CREATE COMPLEX EVENT CLASS Complete (I INT, asked INT) ID (I) LIFESPAN (30s)
  AS MATCH prior(Order(I, Q), Perform(I, A)) WHERE A >= Q RETURN Q AS asked;
CREATE COMPLEX EVENT CLASS Late (I INT) ID () AS COMPOSITE Order(I, _) > !Perform(I, _) WITHIN 4s CONTEXT CHRONICLE;
"""

BY_TICKS: Final = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Low (item STRING) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Wanted (item STRING) ID (item) LIFESPAN (1d)
  AS SELECT Low.item FROM Low OCCURRING AT Low.occTime
  ON ANNOUNCEMENT DO order(new.item);
"""


def table() -> pa.Table:
    return pa.Table.from_pylist(events(seed=31, count=160))


def printed() -> list[list[Any]]:
    """What is found in process, as far as all classes have it."""
    of = augury.compile(AT_ONCE)
    found = detect_in_process(of, tables_of(table()), match_kernel)
    texts = [json.loads(line) for line in lines(found.versions, found.occurrences, of.settings.chronon_us)]
    return sorted([one["event"], one["change"], one.get("seq") or 0, one["constituents"]] for one in texts)


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[str]:
    """Spark's own server in the JVM of the tests, on loopback."""
    jvm: Any = spark._jvm
    service = getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")
    context: Any = spark._jsc.sc()
    for name, value in (("port", "0"), ("address", "127.0.0.1")):
        context.conf().set(f"spark.connect.grpc.binding.{name}", value)
    service.start(context)
    yield f"sc://127.0.0.1:{service.localPort()}"
    service.stop(jvm.scala.Option.empty(), jvm.scala.Option.empty())


@pytest.fixture(scope="module")
def told(server: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client says of all that it tried."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name.partition(".")[0]) is None]
    assert not missing, f"Spark Connect needs {', '.join(missing)}: install `augury[dev]`"
    folder = tmp_path_factory.mktemp("connect")
    filled(folder / "lake", 4)
    (folder / "low").mkdir()
    rows = [{"event": "Low", "item": item, "det_time": second} for second, item in enumerate(["tea", "milk"])]
    (folder / "low" / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rows").mkdir()
    pq.write_table(pa.table({"item": ["ham"], "det_time": [7]}), folder / "rows" / "Low.parquet")
    command = [sys.executable, "-m", "tests.spark.test_connect", server, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_client_has_no_jvm(told: dict[str, Any]) -> None:
    assert told["session"] == "pyspark.sql.connect.session"
    assert told["jvm"] is False


def test_a_batch_at_once_finds_the_same(told: dict[str, Any]) -> None:
    wanted = printed()
    assert len({change for _, change, _, _ in wanted}) == 2
    assert told["events"] == wanted
    assert told["refused"] > 0


def test_a_batch_by_ticks_fires_the_same_actions(told: dict[str, Any]) -> None:
    assert told["lines"] == {"items": ["milk", "tea"], "actions": 2, "as known": 1}
    assert told["parquet"] == ["ham"]
    assert told["by spark"] == ["milk", "tea"]


def test_what_does_not_fit_is_told_over_connect_too(told: dict[str, Any]) -> None:
    assert told["misfit"].splitlines()[1] == "- `Low.item` is a STRING, and the column `item` is an INT"
    assert told["no path"].startswith("there is no file or folder `")


def test_views_of_a_lake_are_there(told: dict[str, Any]) -> None:
    assert told["views"] == {"rows": 12, "now": 12, "known": 6, "names": ["Order", "Order_now", "Beat", "Beat_now"]}


def test_a_stream_is_refused_in_words(told: dict[str, Any]) -> None:
    assert told["watch"] == "a watch does not run over Spark Connect"


# ---- the client --------------------------------------------------------------------------------------------------


def _client(spark: SparkSession, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"session": type(spark).__module__}
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with augury.detect(augury.compile(AT_ONCE), spark.createDataFrame(table())) as batch:
        assert isinstance(batch, Detected)
        rows = batch.events.select("event", "change", "seq", "constituents").collect()
        found["events"] = sorted([row.event, row.change, row.seq or 0, row.constituents] for row in rows)
        found["refused"] = batch.rejected.count()
    low = augury.compile(BY_TICKS)
    read = augury.sources.json_lines(spark, str(folder / "low"), streaming=False)
    with augury.detect(low, read) as ticked, augury.detect(low, read, as_known_at="1970-01-01T00:00:01Z") as then:
        items = sorted(row.item for row in ticked.of("Wanted").collect())
        found["lines"] = {"items": items, "actions": ticked.actions.count(), "as known": then.actions.count()}
    typed = augury.sources.parquet(spark, str(folder / "rows"), low, streaming=False)
    with augury.detect(low, typed) as of_columns:
        found["parquet"] = [row.item for row in of_columns.of("Wanted").collect()]
    with augury.detect(low, read, selects="spark") as by_spark:
        found["by spark"] = sorted(row.item for row in by_spark.of("Wanted").collect())
    found["misfit"] = _told(lambda: augury.detect(low, spark.createDataFrame([("Low", 1)], "event string, item int")))
    found["no path"] = _told(lambda: augury.sources.json_lines(spark, str(folder / "none"), streaming=False))
    found["watch"] = _told(lambda: augury.watch(low, read, store=folder / "new"))
    found["views"] = _views(spark, folder)
    from pyspark import SparkContext

    return found | {"jvm": SparkContext._gateway is not None}


def _views(spark: SparkSession, folder: Path) -> dict[str, Any]:
    history = augury.history(folder / "lake")
    names = history.createViews(spark)
    history.known_at(NOON + 2 * SECOND).createViews(spark, prefix="then_")
    counts = {"rows": "Order", "now": "Order_now", "known": "then_Order"}
    made = {name: spark.sql(f"SELECT count(*) FROM {view}").collect()[0][0] for name, view in counts.items()}
    return {**made, "names": names[:4]}


def _told(doing: Any) -> str:
    try:
        doing()
    except (SourceError, NoSpark) as error:
        return str(error)
    return "nothing"


if __name__ == "__main__":
    remote = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    print(json.dumps(_client(remote, Path(sys.argv[2]))))
    remote.stop()
