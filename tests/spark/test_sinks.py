"""Results as Parquet and in a database: a commit is there once, however often it is told, and whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import augury
from augury.engine.ledger import lines
from augury.lake import Lake
from augury.spark import sinks
from augury.spark.committed import ledger_in
from augury.spark.session import session
from augury.spark.sinks import SourceError
from tests.bitemporal.conftest import away, own_server, postgres_server
from tests.spark.broker import jars
from tests.spark.carrying import carrying, into
from tests.spark.kafka.driver import PROGRAM
from tests.spark.kafka.results import Commit, commit_of
from tests.spark.test_live import until

__all__ = ["postgres_server"]

REFUSED = [("orders/000001:1", "Order", "it is not JSON", "{")]


def test_parquet_has_a_commit_once(spark: SparkSession, tmp_path: Path) -> None:
    sink = sinks.to_parquet(f"{tmp_path}/out/")
    for number in (1, 2, 2):
        sink(commit_of(spark, number, REFUSED))
    events = spark.read.parquet(f"{tmp_path}/out/events").orderBy("commit", "seq").collect()
    assert [(row.commit, row.seq) for row in events] == [(1, 2), (1, 3), (1, 4), (2, 2), (2, 3), (2, 4)]
    assert (events[0].constituents, events[0].line) == ([1, 2], '{"event": "Complete", "seq": 2}')
    assert spark.read.parquet(f"{tmp_path}/out/actions").count() == 2
    assert [row.reason for row in spark.read.parquet(f"{tmp_path}/out/rejected").collect()] == ["it is not JSON"] * 2
    assert sorted(p.name for p in (tmp_path / "out/events").iterdir()) == ["commit=000000000001", "commit=000000000002"]


def test_a_commit_without_anything_still_says_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    whole = commit_of(spark, 1)
    nothing = Commit(1, (0, 0), whole.events.limit(0), whole.actions.limit(0), whole.rejected)
    sinks.to_parquet(str(tmp_path))(nothing)
    assert spark.read.parquet(f"{tmp_path}/events").columns == [*whole.events.columns, "commit"]


@pytest.fixture
def database(postgres_server: str) -> Iterator[tuple[psycopg.Connection[tuple[object, ...]], str]]:
    """A connection, and the same database as JDBC names it; in a schema of its own."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS results CASCADE")
        connection.execute("CREATE SCHEMA results")
        info = connection.info
        yield connection, f"jdbc:postgresql://{info.host}:{info.port}/{info.dbname}"
        connection.execute("DROP SCHEMA results CASCADE")


USER = {"user": "augury"}


def test_a_database_has_a_commit_once_and_as_a_whole(
    spark: SparkSession, database: tuple[psycopg.Connection[tuple[object, ...]], str]
) -> None:
    connection, url = database
    session(jars=jars("spark.xml"))
    sink = sinks.to_jdbc(url, "results.events", USER, actions="results.actions", rejected="results.rejected")
    for number in (1, 2, 2):
        sink(commit_of(spark, number, REFUSED))
    rows = connection.execute('SELECT "commit", seq, constituents, "key" FROM results.events ORDER BY 1, 2').fetchall()
    assert [(row[0], row[1]) for row in rows] == [(1, 2), (1, 3), (1, 4), (2, 2), (2, 3), (2, 4)]
    assert rows[0][2:] == ("[1,2]", '{"I": 1}')
    assert connection.execute("SELECT count(*) FROM results.rejected").fetchall() == [(2,)]
    # The third table refuses: what the others got of the commit has to go, too.
    connection.execute('ALTER TABLE results.rejected ADD CONSTRAINT few CHECK ("commit" < 3)')
    with pytest.raises(SourceError, match=r"(?s)commit 3 was not written: .*violates check constraint"):
        sink(commit_of(spark, 3, REFUSED))
    assert connection.execute('SELECT count(*) FROM results.events WHERE "commit" = 3').fetchall() == [(0,)]
    connection.execute("ALTER TABLE results.rejected DROP CONSTRAINT few")
    sink(commit_of(spark, 3, REFUSED))
    counts = connection.execute('SELECT "commit", count(*) FROM results.events GROUP BY 1 ORDER BY 1').fetchall()
    assert counts == [(1, 3), (2, 3), (3, 3)]


def test_what_a_database_lacks_is_told(
    spark: SparkSession, database: tuple[psycopg.Connection[tuple[object, ...]], str]
) -> None:
    _, url = database
    session(jars=jars("spark.xml"))
    with pytest.raises(SourceError, match="is no name of a table"):
        sinks.to_jdbc(url, "events; DROP TABLE x", USER)
    with pytest.raises(SourceError, match="is no URL of JDBC"):
        sinks.to_jdbc("postgresql://augury:secret@127.0.0.1/x", "events")
    with pytest.raises(SourceError, match=r"say its class as properties\['driver'\]"):
        sinks.to_jdbc("jdbc:nosuch:x", "events")
    with pytest.raises(SourceError, match=r"there is no driver `com\.mysql\.cj\.jdbc\.Driver`"):
        sinks.to_jdbc("jdbc:mysql://127.0.0.1/x", "events")(commit_of(spark, 1))
    with pytest.raises(SourceError, match="the database does not answer"):
        sinks.to_jdbc("jdbc:postgresql://127.0.0.1:1/x", "events", USER)(commit_of(spark, 1))


# ---- a watch into a database -----------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]


def orders(folder: Path, files: int) -> Path:
    """Files of four orders each, of which the last is none; in the order in which they are read."""
    folder.mkdir()
    for number in range(files):
        told = [
            json.dumps({"account": 1, "n": n, "det_time": 1_767_258_000 + n}) for n in range(4 * number, 4 * number + 3)
        ]
        path = folder / f"{number}.jsonl"
        path.write_text("\n".join([*told, f"{{{number}"]))
        os.utime(path, (1_767_258_000 + number,) * 2)
    return folder


def in_database(connection: psycopg.Connection[Any]) -> dict[str, list[Any]]:
    """What everybody sees: every row with its commit."""
    columns = {"events": "line", "actions": "idempotency_key", "rejected": "raw"}
    asked = {name: f'SELECT "commit", {column} FROM results.{name}' for name, column in columns.items()}
    return {name: sorted(connection.execute(select).fetchall()) for name, select in asked.items()}


def in_lake(store: Path) -> dict[str, list[Any]]:
    """What a database that was never disturbed would have: every row of every commit once."""
    lake, program = Lake.open(store), augury.compile(PROGRAM)
    found: dict[str, list[Any]] = {"events": [], "actions": [], "rejected": []}
    for manifest in lake.manifests():
        ledger = ledger_in(program, lake, [manifest])
        found["events"] += [(manifest.commit, line) for line in lines(program, ledger) if '"event": "Seen"' in line]
        found["actions"] += [(manifest.commit, key) for key in ledger.actions["idempotency_key"].to_pylist()]
        found["rejected"] += [(manifest.commit, raw) for raw in ledger.rejected["raw"].to_pylist()]
    return {name: sorted(rows) for name, rows in found.items()}


def test_a_watch_that_is_killed_before_its_checkpoint_doubles_nothing_in_a_database(
    spark: SparkSession, database: tuple[psycopg.Connection[tuple[object, ...]], str], tmp_path: Path
) -> None:
    connection, url = database
    source, store = orders(tmp_path / "source", 4), tmp_path / "lake"
    command = [sys.executable, "-m", "tests.spark.carrying", str(source), str(store), url, "2"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (tmp_path / "log").open("wb") as log:
        driver = subprocess.Popen(command, cwd=ROOT, stderr=log, start_new_session=True, **pipes)
    with driver:
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline() == b"written\n", (tmp_path / "log").read_text()[-2000:]
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
    written = in_database(connection)
    assert {commit for commit, _ in written["events"]} == {1, 2}, "it is committed"
    noted = [{int(p.name) for p in (store / "checkpoint" / kind).glob("[0-9]")} for kind in ("offsets", "commits")]
    assert noted == [{0, 1}, {0}], "Spark does not know that the batch is done"
    session(jars=jars("spark.xml"))
    with carrying(spark, source, store, into(url)) as running:
        running.finish()
    found = in_database(connection)
    assert found == in_lake(store)
    assert [len(found[name]) for name in ("events", "actions", "rejected")] == [12, 12, 4]
    assert all(set(written[name]) <= set(found[name]) for name in written)


def test_a_database_that_goes_away_is_told_and_lacks_nothing_when_it_is_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, store = orders(tmp_path / "source", 3), tmp_path / "lake"
    session(jars=jars("spark.xml"))
    with own_server(tmp_path) as server:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA results")
            port = connection.info.port
        url = f"jdbc:postgresql://127.0.0.1:{port}/postgres"

        def lock(committed: sinks.Committed) -> None:
            if committed.commit == 2:
                reader.execute("LOCK TABLE results.rejected IN SHARE MODE")

        with (
            contextlib.closing(psycopg.connect(server)) as reader,
            contextlib.closing(psycopg.connect(server, autocommit=True)) as other,
            carrying(spark, source, store, lock, into(url)) as running,
        ):
            # It crashes within the transaction of the second commit, which waits for a table that somebody holds.
            until(lambda: waits(other), 60)
            with away(tmp_path):
                with pytest.raises(SourceError, match=r"^to_jdbc: commit 2 was not written: .*I/O error"):
                    running.await_termination(60)
                with pytest.raises(SourceError, match=r"^to_jdbc: the database does not answer: .* refused"):
                    carrying(spark, source, store, into(url))
        with psycopg.connect(server, autocommit=True) as connection:
            assert {commit for commit, _ in in_database(connection)["events"]} == {1}, "no part of a commit is seen"
            with carrying(spark, source, store, into(url)) as running:
                running.finish()
            assert in_database(connection) == in_lake(store)


def waits(connection: psycopg.Connection[Any]) -> bool:
    select = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE%'"
    return connection.execute(select).fetchall() == [(1,)]
