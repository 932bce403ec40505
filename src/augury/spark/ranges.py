"""A group of MATCHes without keys over ranges of the history, side by side: which jobs run, and over what.

In: a group and its rows as a data frame. Out: a lazy data frame of occurrences. A first job goes over all rows where
they lie, and tells what each stretch of them does to any state; the driver puts these one after the other, and so knows
the state before each. Where partitions overlap by `seq`, or are too large, rows are first brought into ranges.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from augury.kernels.match import MatchState
from augury.kernels.match.chunks import states_before
from augury.spark.layout import occurrence_schema
from augury.spark.numbering import is_steady
from augury.spark.passing import TOLD, Emit, Pass, Stretch, detectors_of
from augury.spark.stage import Group

ROWS_OF_A_RANGE: Final = 500_000
"""Rows of a range where nobody has said how many there are to be."""

_ROWS_IN_PLACE_MAX: Final = 4 * ROWS_OF_A_RANGE
"""Rows of a partition that are left where they lie; more are brought into ranges."""


@dataclass(frozen=True, slots=True)
class Ranged:
    """What a group finds, as its tasks give it, and what is kept for it."""

    made: DataFrame
    kept: tuple[DataFrame, ...]


def pays(rows: DataFrame, partitions: int | None) -> bool:
    """Whether rows are to be cut into ranges: as many partitions as are asked for, or more than Spark reads in one.

    To go over them twice costs as much again; by then a second core has paid for it.
    """
    if partitions is not None:
        return partitions > 1
    java = getattr(rows, "_jdf", None)
    if java is None:
        return True
    # An estimate from the sizes of files, or of what is kept; no job runs for it.
    size = int(str(java.queryExecution().optimizedPlan().stats().sizeInBytes()))
    most = str(rows.sparkSession._jsparkSession.sessionState().conf().filesMaxPartitionBytes())
    return size > int(most)


def in_ranges(group: Group, rows: DataFrame, chronon_us: int, partitions: int | None) -> Ranged:
    """Detect in ranges of the history; runs a job right away. Where they do not lie well there are `partitions`."""
    kept: tuple[DataFrame, ...] = ()
    if not is_steady(rows):
        # They are read more than once, and what Python made of them costs more than to keep it.
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        kept = (rows,)
    stretches = _passed(group, rows)
    if not _lie_well(stretches, partitions):
        ranged = _by_ranges(rows, stretches, partitions).persist(StorageLevel.MEMORY_AND_DISK)
        stretches = _passed(group, ranged)
        for frame in kept:
            frame.unpersist()
        rows, kept = ranged, (ranged,)
    begins, states = _states(group, stretches)
    emit = Emit(group, chronon_us, begins, states)
    return Ranged(rows.mapInArrow(emit, occurrence_schema(group.found)), kept)


def _passed(group: Group, rows: DataFrame) -> list[Stretch]:
    told = rows.mapInArrow(Pass(group), TOLD).collect()
    found: list[Stretch] = [pickle.loads(row.stretch) for row in told]
    return sorted(found, key=lambda stretch: stretch.first)


def _lie_well(stretches: Sequence[Stretch], partitions: int | None) -> bool:
    """Whether stretches of different partitions do not overlap, and none has too many rows, or there are enough."""
    if any(after.first <= before.last for before, after in pairwise(stretches)):
        return False
    rows = Counter[int]()
    for stretch in stretches:
        rows[stretch.part] += stretch.rows
    return (partitions is not None and len(rows) >= partitions) or max(rows.values(), default=0) <= _ROWS_IN_PLACE_MAX


def _by_ranges(rows: DataFrame, stretches: Sequence[Stretch], partitions: int | None) -> DataFrame:
    """The rows in partitions by `seq`, each of about as many numbers."""
    first, last = stretches[0].first, max(stretch.last for stretch in stretches)
    if partitions is None:
        most = int(str(rows.sparkSession.conf.get("spark.sql.shuffle.partitions")))
        count = min(most, -(-sum(stretch.rows for stretch in stretches) // ROWS_OF_A_RANGE))
    else:
        count = partitions
    number = f.floor((f.col("seq") - f.lit(first)) * f.lit(count) / f.lit(last - first + 1)).cast("int")
    placed = rows.withColumn("range", f.least(number, f.lit(count - 1)))
    return placed.repartitionById(count, "range").drop("range")


def _states(group: Group, stretches: Sequence[Stretch]) -> tuple[tuple[int, ...], tuple[tuple[bytes, ...], ...]]:
    """Where ranges begin that are in one partition each, and the states of all stages before them, as bytes."""
    begins = [
        number for number, stretch in enumerate(stretches) if number == 0 or stretches[number - 1].part != stretch.part
    ]
    columns: list[list[bytes]] = []
    for i, (stage, detector) in enumerate(zip(group.stages, detectors_of(group), strict=True)):
        between = states_before(detector, stage.classes, (stretch.passages[i] for stretch in stretches))
        columns.append(_saved(between, set(begins)))
    return tuple(stretches[number].first for number in begins), tuple(zip(*columns, strict=True))


def _saved(states: Iterator[MatchState], wanted: set[int]) -> list[bytes]:
    # They go from our driver to our workers and nowhere else, so pickle may read them.
    return [pickle.dumps(state) for number, state in enumerate(states) if number in wanted]
