"""Disorder and duplicates: what comes twice, or in another order within a chronon, changes nothing; what is late waits.

Versions have distinct det_times here, so that these alone say in which order they are processed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from augury.algebra.program import Program
from augury.clock import show_time
from augury.engine.ledger import PLACE, Ledger, lines, renumbered
from augury.engine.lines import tick_lines
from augury.engine.tick import tick_reading
from augury.history.values import moment_us
from augury.local.running import LocalEngine
from tests.bitemporal.generate_keyed import Keyed, generate_keyed
from tests.spark.packed import Case, in_batch, in_stream
from tests.spark.test_equality import locally

SEEDS = range(1000, 1040)
SECOND = 1_000_000


def told_apart(g: Keyed) -> list[dict[str, Any]]:
    """The rows of a program that are fine by themselves, each with times, of which no two det_times are alike."""
    found = []
    for number, row in enumerate(g.rows):
        event_class = g.program.class_plan(row["event"] or "")
        if event_class is None or row["v"] == "many" or row["det_time"] == "soon":
            continue
        at = show_time(moment_us(row["det_time"]) + number)
        found.append({**row, "det_time": at, "occ_time": row.get("occ_time", at)})
    return found


def twice(program: Program, rows: Sequence[dict[str, Any]], random: Random) -> list[dict[str, Any]]:
    """The rows, of which 30 % come twice: such as are known again, by event_id or by their key."""
    again = [row for row in rows if "event_id" in row or _is_keyed(program, row)]
    return [*rows, *random.sample(again, min(len(again), round(len(rows) * 0.3)))]


def _is_keyed(program: Program, row: dict[str, Any]) -> bool:
    plan = program.class_plan(row["event"])
    return plan is not None and bool(plan.event_class.key)


def chronon_of(program: Program, row: dict[str, Any]) -> int:
    return tick_reading(moment_us(row["det_time"]), program.settings.chronon_us)


@cache
def pairs() -> list[tuple[Case, Case]]:
    """Events in order, each once, and the same with duplicates, in any order; a stream keeps chronons in order."""
    found = []
    for seed in SEEDS:
        g, random = generate_keyed(seed), Random(f"disorder {seed}")
        rows = told_apart(g)
        case = Case(f"keyed {seed}", g.program, tuple(map(json.dumps, rows)), g.until, 3, seed)
        several = twice(g.program, rows, random)
        random.shuffle(several)
        order = sorted(range(1, len(several) + 1), key=lambda number: chronon_of(g.program, several[number - 1]))
        cut = random.randrange(len(order) + 1)
        arrives = (tuple(order[:cut]), (), tuple(order[cut:]))
        found.append((case, replace(case, lines=tuple(map(json.dumps, several)), arrives=arrives)))
    return found


def history(program: Program, ledger: Ledger) -> dict[str, list[str]]:
    classes = {plan.event_class.name: plan.event_class for plan in program.classes}
    return {name: [str(r) for r in renumbered(classes[name], t).to_pylist()] for name, t in ledger.versions.items()}


def same(ledgers: Sequence[Ledger]) -> None:
    for (case, _), ledger in zip(pairs(), ledgers, strict=True):
        wanted = locally(case)
        assert list(lines(case.program, ledger)) == wanted.lines, case.name
        assert history(case.program, ledger) == wanted.histories, case.name


def test_duplicates_and_any_order_change_nothing_in_a_batch(spark: SparkSession) -> None:
    assert sum(len(other.lines) - len(case.lines) for case, other in pairs()) > 100
    same(in_batch(spark, [other for _, other in pairs()]))


def test_nor_in_a_stream_as_long_as_chronons_come_in_order(spark: SparkSession, tmp_path: Path) -> None:
    same(in_stream(spark, [other for _, other in pairs()], tmp_path))


# ---- late --------------------------------------------------------------------------------------------------------


@cache
def late_cases() -> list[Case]:
    """Events that are read some time after they were detected, by a clock that goes on from batch to batch."""
    found = []
    for seed in SEEDS:
        g, random = generate_keyed(seed), Random(f"late {seed}")
        rows = told_apart(g)
        start = moment_us(rows[0]["det_time"])
        last = moment_us(rows[-1]["det_time"])
        # When each is read: at once or late. The first is read in the first batch, so that there is a tick.
        read = [moment_us(row["det_time"]) + random.choice([0, 0, 4, 15, 30]) * SECOND for row in rows]
        later = [random.randint(start, last) for _ in range(3)]
        clock = sorted({start + g.program.settings.chronon_us, *later, last + 40 * SECOND})
        clock = [now for now in clock if now >= start + g.program.settings.chronon_us]
        read[0] = start
        batches = [
            [n for n, at in enumerate(read) if before < at <= now]
            for before, now in zip([0, *clock], clock, strict=False)
        ]
        order = [n for some in batches for n in some]
        number = {n: at for at, n in enumerate(order, 1)}
        arrives = tuple(tuple(number[n] for n in some) for some in batches)
        texts = tuple(json.dumps(rows[n]) for n in order)
        found.append(Case(f"late {seed}", g.program, texts, None, 3, seed, arrives, tuple(clock)))
    return found


def posted(case: Case) -> tuple[list[str], dict[str, list[str]]]:
    """What an engine in process does, to which the same is posted at the same times."""
    assert case.arrives is not None
    assert case.clock is not None
    printed = []
    with LocalEngine(case.program) as engine:
        for numbers, now in zip(case.arrives, case.clock, strict=True):
            for number in numbers:
                engine.post(case.lines[number - 1], wait=False)
            printed += [line for ticked in engine.advance_to(now) for line in tick_lines(ticked)]
        names = [plan.event_class.name for plan in case.program.classes]
        tables = {name: engine.history(name).to_pylist() for name in names}
    return printed, {name: [str(row) for row in rows] for name, rows in tables.items() if rows}


def test_what_is_late_gets_the_time_of_the_last_tick(spark: SparkSession, tmp_path: Path) -> None:
    late = 0
    for case, ledger in zip(late_cases(), in_stream(spark, late_cases(), tmp_path), strict=True):
        printed, histories = posted(case)
        assert list(lines(case.program, ledger)) == printed, case.name
        tables = {name: table.drop_columns([PLACE]) for name, table in ledger.versions.items()}
        assert history(case.program, replace(ledger, versions=tables)) == histories, case.name
        for table in tables.values():
            claimed = [row for row in table.to_pylist() if row["source_time"] is not None]
            late += len(claimed)
            assert all(row["source_time"] < row["det_time"] for row in claimed)
    assert late > 30
