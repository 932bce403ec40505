"""Results as Parquet and in a database: a commit is there once, however often it is told, and whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from augury.spark import sinks
from augury.spark.session import session
from augury.spark.sinks import SourceError
from tests.bitemporal.conftest import postgres_server
from tests.spark.broker import jars
from tests.spark.kafka.results import Commit, commit_of

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
