"""Drivers that tests start as processes of their own: one to be killed, and one for clusters.

The one to be killed watches files of pieces with the data clock: in are the folder of the files, that of the store, and
a master. It ends when all files are taken, and says `watching` on standard output when the query runs, so that whoever
kills it knows. The program and its events are here, too. The one for clusters runs examples in a session of its own.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from augury.api import Program, compile, detect
from augury.clock import show_time
from augury.engine.ledger import lines
from augury.history.raw import Raw, RawRows
from augury.lake import Lake
from augury.spark.committed import ledger_in
from augury.spark.replaying import watching, write_pieces
from augury.spark.session import session
from augury.spark.sources import json_lines
from augury.spark.stepping import slots_on_spark
from augury.spark.ticking import detect_by_ticks
from augury.spark.watch import watch

SECOND = 1_000_000
START = 1_767_258_000 * SECOND
BUCKETS = 2

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For few rows it takes longer to compile a plan than to run it."""

PROGRAM = """
SET CHRONON 5s;
SET ARCHIVE ON;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Delivery (resource VARCHAR(10), amount INT) ID (resource) LIFESPAN (60s)
  ON ANNOUNCEMENT DO announced(new.resource, new.occTime),
  ON ONTIME DO arrived(new.resource, new.amount),
  ON CHANGE AND NOT FIRED DO changed(new.resource, NOW),
  ON FIRED AND new.amount > 3 DO changed(new.resource, NOW),
  ON CANCELLATION OR REVOCATION DO gone(new.resource);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Low (resource VARCHAR(10), rest INT) ID (resource) LIFESPAN (30s)
  ON LATE(0s, 1m) DO late(new.resource);
CREATE COMPLEX EVENT CLASS Soon (resource VARCHAR(10), amount INT) ID (resource) LIFESPAN (20s)
  AS SELECT d.resource, d.amount FROM Delivery d WHERE d.occTime - NOW < 10s OCCURRING AT d.occTime
  ON ONTIME DO here(new.resource, new.amount);
CREATE COMPLEX EVENT CLASS Filled (resource VARCHAR(10), amount INT) ID (resource) LIFESPAN (30s)
  AS MATCH prior(Low(resource, _), Delivery(resource, amount))
  ON CHANGE OR RETROACTIVECHANGE DO filled(new.resource, old.amount, new.amount);
CREATE COMPLEX EVENT CLASS Missing (resource VARCHAR(10)) ID (resource) LIFESPAN (30s)
  AS COMPOSITE Low(resource, _) > !Delivery(resource, _) WITHIN 12s CONTEXT CHRONICLE
  ON ANNOUNCEMENT DO missing(new.resource);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Visit (shop INT) ID () LIFESPAN (1m);
CREATE COMPLEX EVENT CLASS Third () ID () AS MATCH EVERY <3> Visit OVER (Visit)
  ON ANNOUNCEMENT DO third(new.occTime);
"""

TRIGGERS = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Reminder (resource VARCHAR(10), times INT) ID () LIFESPAN (1m);
RULE Remind (resource VARCHAR(10), times INT) CONDITION times < 4
  ACTION remind(resource, times), POST Reminder(resource, CAST(times + 1 AS INT))
  ALTERNATIVEACTION giveUp(resource);
TRIGGER Expected (resource VARCHAR(10), amount INT) TRIGGEREVENT Soon RULESTRUC Remind(resource, amount);
TRIGGER Overdue (resource VARCHAR(10), rest INT)
  COMPOSITEEVENT Low + 7s CONTEXT CHRONICLE RULESTRUC Remind(resource, rest);
TRIGGER Again (resource VARCHAR(10), times INT) TRIGGEREVENT Reminder
  COMPOSITEEVENT Reminder(r, _) > Reminder(r, _) CONTEXT CHRONICLE RULESTRUC Remind(resource, times);
"""
"""What a rule posts is numbered among all, so that with these the whole program is one slot."""


def program(*, posting: bool = False) -> Program:
    """The program, with everything in it."""
    return compile(PROGRAM + (TRIGGERS if posting else ""), "driver")


def events(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Events by det_time: keys that many share, event_ids that come again, withdrawals, and some that are wrong."""
    chance, det, found = random.Random(seed), START, list[dict[str, Any]]()
    for number in range(count):
        det += chance.choice([0, 1, 1, 2, 3, 9]) * SECOND // 2
        event = chance.choice(["Delivery", "Delivery", "Low", "Visit"])
        line: dict[str, Any] = {"event": event, "det_time": show_time(det)}
        ahead = chance.choice([-20, -3, 0, 2, 8, 15, 30]) * SECOND
        is_withdrawal = event == "Delivery" and chance.random() < 0.15
        line["occ_time"] = None if is_withdrawal else show_time(det + ahead)
        line["event_id"] = f"e{number}" if chance.random() < 0.85 else f"e{chance.randrange(number + 1)}"
        if event == "Visit":
            line["shop"] = chance.randrange(5)
        else:
            line["resource"] = "far too long for it" if chance.random() < 0.05 else chance.choice("abcdefgh")
            line["amount" if event == "Delivery" else "rest"] = chance.randrange(6)
        found.append(line)
    return found


def raw(rows: list[dict[str, Any]]) -> list[Raw]:
    """The events as a reader gives them."""
    return [RawRows("events.jsonl", rows, range(len(rows)), None, [json.dumps(row) for row in rows])]


def written(folder: Path, count: int, each: int, seed: int = 1, *, posting: bool = False) -> int:
    """Write events as files of pieces, so many in each, whatever chronons they fall into; gives how many files."""
    folder.mkdir()
    cuts, slots = range(each, count, each), slots_on_spark(program(posting=posting), BUCKETS)
    return write_pieces(folder, slots, raw(events(count, seed)), None, cuts)


def main(source: str, store: str, master: str = "local[2]", kind: str = "") -> None:
    """Watch until everything is taken; the kind is `posting` if rules post."""
    found = program(posting=kind == "posting")
    with watching(session(master, extra=QUICK), found, Path(source), store, BUCKETS) as query:
        print("watching", flush=True)
        query.finish()


def on_cluster(examples: str, shared: str, *parts: str) -> None:
    """Run examples in a session of the user's own, and write what they print to the shared folder."""
    spark = SparkSession.builder.appName("examples").getOrCreate()
    does = {"batch": groceries_in_batch, "stream": groceries_as_stream, "orders": orders}
    found = {part: does[part](spark, Path(examples), Path(shared)) for part in parts}
    found["python"] = sorted(set(spark.sparkContext.parallelize(range(4), 4).map(lambda _: sys.executable).collect()))
    Path(shared, "found.json").write_text(json.dumps(found), "utf-8")
    spark.stop()


def groceries_in_batch(spark: SparkSession, examples: Path, shared: Path) -> list[str]:
    """What groceries print, tick by tick over a frame of three partitions."""
    found = example(examples, "groceries")
    frame = json_lines(spark, str(examples / "groceries" / "events.jsonl"), streaming=False)
    with detect_by_ticks(found, frame.repartition(3)) as detected:
        return list(lines(found, detected.collect_ledger()))


def groceries_as_stream(spark: SparkSession, examples: Path, shared: Path) -> list[str]:
    """What groceries print as a stream into a lake of the shared folder."""
    found, source = example(examples, "groceries"), shared / "source"
    source.mkdir()
    shutil.copy(examples / "groceries" / "events.jsonl", source / "events.jsonl")
    with watch(found, json_lines(spark, str(source)), store=shared / "the lake", clock="data", buckets=3) as query:
        query.finish()
    lake = Lake.open(shared / "the lake")
    return list(lines(found, ledger_in(found, lake, list(lake.manifests()))))


def orders(spark: SparkSession, examples: Path, shared: Path) -> list[str]:
    """What `augury.detect` finds in orders: `seq` and constituents, of those whose values are of their types."""
    schema = "event string, event_id string, occ_time string, det_time string, I int, Q int, A int"
    frame = spark.read.schema(schema).json(str(examples / "orders" / "events.jsonl"))
    rows = detect(example(examples, "orders"), frame).of("Complete").collect()
    return sorted(str((row["seq"], row["constituents"])) for row in rows)


def example(examples: Path, name: str) -> Program:
    """The program of an example."""
    return compile((examples / name / f"{name}.bicepl").read_text("utf-8"), name)


if __name__ == "__main__":
    if sys.argv[1] == "cluster":
        on_cluster(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
