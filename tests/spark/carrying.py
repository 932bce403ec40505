"""A watch over files that carries on to a database; as a process of its own it is there to be killed.

In argv: the folder of the files, that of the store, the database, and a commit. When the database has that commit it
says `written` and goes no further: neither the store nor Spark's checkpoint know of it yet.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import augury
from augury.spark import sinks, sources
from augury.spark.session import session
from augury.spark.sinks import Committed, Sink
from augury.spark.watch import Watch, watch
from tests.spark.broker import jars
from tests.spark.driver import QUICK
from tests.spark.kafka.driver import PROGRAM


def into(url: str) -> Sink:
    """All three tables, in the schema `results`."""
    named = {"actions": "results.actions", "rejected": "results.rejected"}
    return sinks.to_jdbc(url, "results.events", {"user": "augury"}, **named)


def carrying(spark: SparkSession, source: str | Path, store: str | Path, *told: Sink) -> Watch:
    """A watch that takes one file at a time."""
    orders = sources.json_lines(spark, str(source), event="Order", options={"maxFilesPerTrigger": "1"})
    return watch(augury.compile(PROGRAM), orders, store=store, clock="data", buckets=2, sinks=told)


def main(source: str, store: str, url: str, last: str) -> None:
    """Watch, until a commit is written."""

    def go_no_further(committed: Committed) -> None:
        if committed.commit == int(last):
            print("written", flush=True)
            sys.stdin.read()

    spark = session("local[2]", jars=jars("spark.xml"), extra=QUICK)
    carrying(spark, source, store, into(url), go_no_further).await_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
