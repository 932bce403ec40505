"""A watch over a topic in a process of its own, which a test may kill: servers, store and "finish" or "on" in argv."""

from __future__ import annotations

import sys

import augury
from augury.spark import sinks, sources
from augury.spark.session import session
from augury.spark.watch import watch
from tests.spark.broker import jars
from tests.spark.driver import QUICK

PROGRAM = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Order (account INT, n INT) ID (n) LIFESPAN (50d)
  ON ANNOUNCEMENT DO tell(new.n);
CREATE COMPLEX EVENT CLASS Seen (N INT) ID (N) LIFESPAN (50d) AS MATCH Order(_, N);
"""


def main(servers: str, store: str, until: str) -> None:
    spark = session("local[2]", jars=jars("spark.xml"), extra=QUICK)
    orders = sources.kafka(
        spark,
        servers,
        "watched",
        event={"watched": "Order"},
        columns={"key": "account INT"},
        options={"maxOffsetsPerTrigger": "30"},
    )
    carried = sinks.to_kafka(servers, "found", rejected_to="unfit")
    running = watch(augury.compile(PROGRAM), orders, store=store, clock="data", buckets=2, sinks=[carried])
    if until == "finish":
        running.finish()
    else:
        running.await_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
