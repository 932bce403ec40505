"""One run of a program over raw events on Spark: what `augury run --engine spark` calls.

In: a program, and files in portions or raw events that the driver has read. Out: occurrences, versions and what was
refused, in memory, as every engine gives them to be printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from augury.algebra.program import Program
from augury.engine.progress import Far, Tell, counting, size_of
from augury.event import EventClass, key_of
from augury.history.raw import Raw, Rejected
from augury.kernels.batch import Batch, Occurrences
from augury.spark.detect import Detected, detect_packed
from augury.spark.layout import ABSORBED, REJECTED, REJECTED_COLUMNS, VERSION, batch_of, occurrences_of
from augury.spark.plan import refused, stages_of
from augury.spark.portions import Portion, packed_of, packed_rows
from augury.spark.session import session
from augury.spark.stage import subscribed
from augury.spark.tasks import PACKED
from augury.spark.telling import tasks_of, telling


@dataclass(frozen=True, slots=True)
class Collected:
    """What a run found, brought to the driver."""

    occurrences: tuple[Occurrences, ...]
    rejected: Rejected
    versions: Batch
    absorbed: int


def run(
    program: Program,
    events: Iterable[Raw] = (),
    *,
    portions: Sequence[Portion] | None = None,
    until_us: int | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    partitions: int | None = None,
    tell: Tell | None = None,
) -> Collected:
    """Run a program over files that tasks read, or over events; raises `NotOnSpark`, `NoSpark` and `Unreadable`.

    `tell` hears how far it is: how many rows the driver has read, and which tasks of Spark are done.
    """
    stages_of(program)  # refuse what does not run before a JVM is started
    raws = list(counting(events, tell))
    rows = None if portions is not None else sum(map(size_of, raws))
    if spark is None:
        with telling(tell, lambda: Far("starting Spark")):
            spark = session(master)
    on = spark
    with telling(tell, lambda: Far("detecting on Spark", rows, **tasks_of(on))):
        packed = on.createDataFrame(_packed(raws)) if portions is None else packed_of(on, portions)
        del raws
        try:
            with detect_packed(program, packed, until_us=until_us, partitions=partitions) as detected:
                return collect(detected)
        finally:
            packed.unpersist()


def _packed(raws: Iterable[Raw]) -> pa.Table:
    batches = (batch for source, raw in enumerate(raws) for batch in packed_rows(source, [raw]))
    return pa.Table.from_batches(batches, PACKED)


def collect(detected: Detected) -> Collected:
    """Bring everything to the driver, in the order of the contract."""
    program = detected.program
    accepted = detected.accepted.toArrow()
    rows = {what: accepted.filter(pc.equal(accepted["what"], what)) for what in (VERSION, REJECTED, ABSORBED)}
    refused = rows[REJECTED].sort_by("seq")
    rejected = Rejected(*(tuple(refused[name].to_pylist()) for name in REJECTED_COLUMNS))
    absorbed = sum(rows[ABSORBED]["seq"].to_pylist())
    classes = [p.event_class for p in program.classes if key_of(p.event_class.name) in detected.found]
    occurrences = tuple(_occurrences(detected, event_class) for event_class in classes)
    return Collected(occurrences, rejected, batch_of(rows[VERSION], subscribed(program)), absorbed)


def _occurrences(detected: Detected, event_class: EventClass) -> Occurrences:
    try:
        table = detected.found[key_of(event_class.name)].toArrow()
    except PythonException as error:
        raise _refusal(detected.program, event_class, str(error)) or error from None
    return occurrences_of(table, event_class)


def _refusal(program: Program, asked: EventClass, text: str) -> Exception | None:
    """What was raised in a task comes as text: its last line has the name of the error and what it says of a class.

    The classes of a group are found together, so that it need not be the one that was asked for.
    """
    for name, message in re.findall(r"^(?:\w+\.)*(\w+)(?:: (.*))?$", text, re.MULTILINE):
        named = (plan for plan in program.classes if f"`{plan.event_class.name}`" in message)
        plan = next(named, None) or program.class_plan(asked.name)
        if plan is not None and (refusal := refused(plan, name)) is not None:
            return refusal
    return None
