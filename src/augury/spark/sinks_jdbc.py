"""Results → tables of a database, by JDBC: a commit is there as a whole and once, or not at all.

In: what a commit holds. Out: rows. Spark's tasks write them to tables beside, each task in a transaction of its own;
then one transaction of the driver takes away what the commit had left there before, and moves them over.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from augury.spark.sources_lines import SourceError, deepest

if TYPE_CHECKING:
    from augury.spark.sinks import Committed, Sink

_TABLE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
_DRIVERS: Final = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "h2": "org.h2.Driver",
    "duckdb": "org.duckdb.DuckDBDriver",
}


def to_jdbc(
    url: str,
    table: str,
    properties: Mapping[str, str] | None = None,
    *,
    actions: str | None = None,
    rejected: str | None = None,
) -> Sink:
    """Append complex events to a table, and actions and refused events where tables for them are named.

    Tables that are not there are made; their column `commit` says which commit brought a row. Rows go to tables with
    `_staged` at the end of the name first. A repeated commit takes its earlier rows away in the transaction that brings
    them again: every row is there once, and nobody sees part of a commit. (On a database without transactions who reads
    in between may miss a commit.) `properties` are the driver's (`user`, `password`, `driver`, …); its jar has to
    be among Spark's.
    """
    named = {"events": table, "actions": actions, "rejected": rejected}
    tables = {kind: name for kind, name in named.items() if name is not None}
    for name in tables.values():
        if not _TABLE.fullmatch(name):
            raise SourceError(
                f"to_jdbc: `{name}` is no name of a table: letters, digits, _, and a schema before a point"
            )
    if not url.startswith("jdbc:"):
        raise SourceError(f"to_jdbc: `{url.split('@')[0]}` is no URL of JDBC: jdbc:postgresql://host/database")
    asked = dict(properties or {})
    driver = asked.setdefault("driver", _DRIVERS.get(url.split(":")[1], ""))
    if not driver:
        raise SourceError("to_jdbc: the driver of this database is not known: say its class as properties['driver']")

    def sink(committed: Committed) -> None:
        frames = {tables[kind]: _rows(getattr(committed, kind), committed.commit) for kind in tables}
        spark = committed.events.sparkSession
        connection = _connect(spark, url, asked)
        try:
            for name, frame in frames.items():
                frame.limit(0).write.jdbc(url, name, "append", asked)  # makes the table
                frame.write.jdbc(url, f"{name}_staged", "overwrite", asked)
            _move(spark, connection, url, {name: frame.columns for name, frame in frames.items()}, committed.commit)
        except (Py4JJavaError, PySparkException) as error:
            reason = deepest(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
            raise SourceError(f"to_jdbc: commit {committed.commit} was not written: {reason}") from None
        finally:
            _even_if_gone(connection.close)

    return sink


def _rows(frame: DataFrame, commit: int) -> DataFrame:
    """The rows with the number of their commit; lists as JSON, for few databases have lists."""
    lists = {name: f.to_json(name) for name, kind in frame.dtypes if kind.startswith("array")}
    return frame.withColumns(lists).select(f.lit(commit).cast("bigint").alias("commit"), "*")


def _connect(spark: SparkSession, url: str, properties: Mapping[str, str]) -> Any:
    """A connection of the driver's; Spark's class loader finds the jar, which the DriverManager of Java does not."""
    jvm: Any = spark._jvm
    given = jvm.java.util.Properties()
    for name, value in properties.items():
        if name != "driver":
            given.setProperty(name, value)
    try:
        registry = jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry
        registry.register(properties["driver"])
        connection = registry.get(properties["driver"]).connect(url, given)
    except Py4JJavaError as error:
        cause = error.java_exception
        if "ClassNotFoundException" in str(cause.getClass().getName()):
            advice = "start Spark with its jar: --packages, or session(jars=…)"
            raise SourceError(f"to_jdbc: there is no driver `{properties['driver']}`: {advice}") from None
        raise SourceError(f"to_jdbc: the database does not answer: {cause.getMessage()}") from None
    if connection is None:
        raise SourceError(f"to_jdbc: `{properties['driver']}` does not know this URL")
    return connection


def _move(spark: SparkSession, connection: Any, url: str, tables: Mapping[str, list[str]], commit: int) -> None:
    """In one transaction: what the commit left before goes, what is staged comes."""
    jvm: Any = spark._jvm
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url)
    connection.setAutoCommit(False)
    statement = connection.createStatement()
    try:
        for table, columns in tables.items():
            quoted = [dialect.quoteIdentifier(column) for column in columns]
            names = ", ".join(quoted)
            statement.executeUpdate(f"DELETE FROM {table} WHERE {quoted[0]} = {commit:d}")
            statement.executeUpdate(f"INSERT INTO {table} ({names}) SELECT {names} FROM {table}_staged")
        connection.commit()
    except Py4JJavaError:
        _even_if_gone(connection.rollback)
        raise
    finally:
        _even_if_gone(statement.close)


def _even_if_gone(end: Callable[[], object]) -> None:
    """End something of a connection; a database that has gone away has ended it, and why is told elsewhere."""
    with contextlib.suppress(Py4JJavaError):
        end()
