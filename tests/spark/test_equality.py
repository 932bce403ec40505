"""The law that engines are equal: in process, as a batch and as a stream they print the same lines, and keep the same.

Every case of the corpora, every example and random programs run in process, as one batch, and as streams cut at random
with a restart in between; random programs and examples by the reference as well. Where nothing waits for a tick, a
batch also goes over all events at once, as Spark does then. What it says of the corpora stands in
them, and is tested in `tests/bitemporal`, `tests/match` and `tests/composite`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from augury.algebra.program import Program
from augury.api import compile
from augury.clock import show_time
from augury.duck.selects import runnable
from augury.engine.ledger import Ledger, joined, ledger_of, lines, renumbered
from augury.engine.lines import lines as at_once_lines
from augury.engine.lines import tick_lines
from augury.engine.plan import engine_plan
from augury.engine.sharded import slots_of
from augury.engine.state import initial
from augury.engine.tick import Ports, tick_reading, ticks
from augury.history.arrivals import arrivals
from augury.history.coming import received
from augury.history.refusing import told
from augury.kernels.batch import Batch
from augury.kernels.firing import Posted, Refusal
from augury.kernels.reference.bitemporal import Raw
from augury.local.engine import detect as detect_in_process
from augury.local.kernel import match_kernel
from augury.spark.choosing import detect
from augury.spark.detect import Detected as AtOnce
from augury.spark.plan import stages_of
from augury.spark.run import Collected, collect
from augury.spark.stage import groups_of
from tests.bitemporal import corpus as bitemporal
from tests.bitemporal.generate import Generated, generate, generate_mixed
from tests.bitemporal.generate_corrections import generate_corrected
from tests.bitemporal.generate_failing import generate_failing
from tests.bitemporal.generate_keyed import generate_keyed
from tests.bitemporal.local import Known
from tests.bitemporal.test_once import in_one_step
from tests.composite import corpus as composite
from tests.match import test_reference as match
from tests.spark.packed import Case, in_batch, in_stream
from tests.spark.packed_at_once import at_once, goes_at_once
from tests.spark.printed import reference_lines
from tests.triggers import corpus as of_triggers
from tests.triggers.generate import generate as generate_triggers
from tests.triggers.test_examples import NAMES as WITH_TRIGGERS

EXAMPLES = Path(__file__).parents[2] / "examples"
SECOND = 1_000_000


# ---- what is compared --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a program did, in such a form that equal is equal."""

    lines: list[str]
    histories: dict[str, list[str]]
    rejected: list[tuple[str, ...]]
    keys: list[tuple[str, ...]]
    archive: list[str]
    firings: dict[str, list[str]]


def outcome(program: Program, ledger: Ledger, printed: Sequence[str] | None = None) -> Outcome:
    """Of a ledger; `printed` are the lines, where somebody else made them."""
    classes = {plan.event_class.name: plan.event_class for plan in program.classes}
    archive = ledger.archive.items() if program.settings.archive else ()
    return Outcome(
        list(lines(program, ledger) if printed is None else printed),
        {name: _rows(renumbered(classes[name], table)) for name, table in ledger.versions.items()},
        sorted(tuple(str(row[name]) for name in ("place", "event", "reason")) for row in ledger.rejected.to_pylist()),
        sorted(
            (str(row["tick"]), row["event"], row["action"], row["idempotency_key"])
            for row in ledger.actions.to_pylist()
            if classes[row["event"]].key or row["trigger"] is not None
        ),
        sorted(f"{name} {row}" for name, table in archive for row in _rows(_unnumbered(table))),
        {name: _rows(table) for name, table in ledger.firings.items()},
    )


def _rows(table: pa.Table) -> list[str]:
    """As text, in which a NaN is a NaN and -0.0 is not 0.0."""
    return [str(row) for row in table.to_pylist()]


def _unnumbered(table: pa.Table) -> pa.Table:
    return table.drop_columns([name for name in table.column_names if name in ("number", "event_number")])


def locally(case: Case) -> Outcome:
    """What one engine in process does."""
    program, known = case.program, Known()
    plan = engine_plan(program)
    came = arrivals(program, [case.raw], until_us=case.end_us)
    last = came.last_us()
    until = case.end_us if last is None or case.until_us is not None else tick_reading(last, plan.chronon_us)
    done = []
    for one in ticks(plan, initial(plan), came, until, Ports(runnable(program), known)):
        known.note(one)
        done.append(one)
    found = outcome(
        program, joined(program, [ledger_of(program, done)]), [line for one in done for line in tick_lines(one)]
    )
    if not done:
        refused = told(came.refusals, came.place)
        found.rejected.extend(sorted(zip(refused.place, refused.event, refused.reason, strict=True)))
    return found


def same(cases: Sequence[Case], ledgers: Iterable[Ledger]) -> None:
    """Compare with what the engine in process does."""
    for case, ledger in zip(cases, ledgers, strict=True):
        mine, theirs = local(case), outcome(case.program, ledger)
        for name in ("lines", "histories", "rejected", "keys", "archive", "firings"):
            assert getattr(theirs, name) == getattr(mine, name), f"{name} of {case.name}\n{case.program.text}"


_KNOWN: dict[str, Outcome] = {}


def local(case: Case) -> Outcome:
    """The same, worked out once for the batch and the stream."""
    if case.name not in _KNOWN:
        _KNOWN[case.name] = locally(case)
    return _KNOWN[case.name]


# ---- cases -------------------------------------------------------------------------------------------------------


def of_raws(name: str, program: Program, raws: Sequence[Raw], until: int | None, chance: int) -> Case:
    rows = [json.dumps(bitemporal.json_of(program, raw)) for raw in raws]
    return Case(name, program, tuple(rows), until, 2 + chance % 2, chance, raws=tuple(raws))


def of_generated(name: str, g: Generated, chance: int) -> Case:
    return of_raws(f"{name} {chance}", g.program, g.raws, g.until, chance)


@cache
def random_programs(block: int) -> list[Case]:
    seeds = range(5000 + block * 50, 5000 + block * 50 + 50)
    return [
        *(of_generated("generate", generate(seed), seed) for seed in seeds),
        *(of_generated("generate_mixed", generate_mixed(seed), seed) for seed in seeds),
    ]


@cache
def failing_programs() -> list[Case]:
    """Programs whose SELECTs fail for some values, in three buckets, so that most keys lie in one of their own."""
    return [replace(of_generated("failing", generate_failing(seed), seed), buckets=3) for seed in range(100, 124)]


@cache
def keyed_programs() -> list[Case]:
    found = []
    for seed in range(100):
        g = generate_keyed(seed)
        rows = tuple(json.dumps(row, ensure_ascii=False) for row in g.rows)
        found.append(Case(f"generate_keyed {seed}", g.program, rows, g.until, 2 + seed % 3, seed))
    return found


@cache
def bitemporal_corpus() -> list[Case]:
    found = []
    for number, case in enumerate(bitemporal.cases()):
        program = bitemporal.program_of(case)
        raws, until = bitemporal.raws_of(case, program), bitemporal.until_of(case)
        found.append(of_raws(f"{case['name']} {number}", program, raws, until, number))
    return [*found, *_cells()]


@cache
def by_occurrence() -> list[Case]:
    """The corpus of ORDER BY OCCURRENCE, and random programs that have it."""
    found = []
    for number, case in enumerate(bitemporal.cases(bitemporal.BY_OCCURRENCE)):
        program = bitemporal.program_of(case)
        raws, until = bitemporal.raws_of(case, program), bitemporal.until_of(case)
        found.append(of_raws(f"by occurrence {case['name']}", program, raws, until, number))
    for seed in range(20):
        g = generate_corrected(seed)
        found.append(of_raws(f"random by occurrence {seed}", g.program, g.raws, g.until, seed))
    return found


def _cells() -> Iterator[Case]:
    """The cells of `table.toml`, all primitives of a cell in one program: a class for each."""
    cells: dict[str, list[bitemporal.Case]] = {}
    for case in bitemporal.cells():
        cells.setdefault(case["name"].rpartition("-")[0], []).append(case)
    for number, (name, cases) in enumerate(cells.items()):
        head, bodies = "SET CHRONON 10m;", []
        rows = []
        for place, case in enumerate(cases):
            text = case["program"].removeprefix(head).strip()
            assert text.startswith("CREATE MUTABLE SUBSCRIBED EVENT CLASS E ("), text
            bodies.append(text.replace("CLASS E (", f"CLASS E{place} (", 1))
            program = bitemporal.program_of(case)
            for raw in bitemporal.raws_of(case, program):
                rows.append((raw.det_time or 0, json.dumps({**bitemporal.json_of(program, raw), "event": f"E{place}"})))
        rows.sort(key=lambda row: row[0])
        until = bitemporal.until_of(cases[0])
        text = head + "\n".join(bodies)
        yield Case(f"cell {name}", compile(text), tuple(row for _, row in rows), until, 2, number)


def _together(program: str, number: int, name: str, history: str, until: int | None) -> Case:
    compiled = compile(program)
    classes = {plan.event_class.name.casefold(): plan.event_class for plan in compiled.classes}
    rows = []
    for event in match.events_of(history, classes):
        assert event.occ_time is not None
        row = {"event": event.event_class, "occ_time": show_time(event.occ_time), "det_time": show_time(event.det_time)}
        rows.append(json.dumps({**row, **event.values}))
    return Case(name, compiled, tuple(rows), until, 2, number)


def _declared(case: dict[str, Any]) -> str:
    spans = {name.casefold(): written for name, written in case.get("lifespans", {}).items()}
    found = []
    for declared in case["classes"]:
        lifespan = spans.get(declared.split()[0].casefold(), "-1")
        found.append(f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {declared} ID () LIFESPAN ({lifespan});\n")
    return "".join(found)


@cache
def match_corpus() -> list[Case]:
    """Cases over the same classes and history are one program, with a complex class each."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for case in match.CASES:
        groups.setdefault((_declared(case) + case["definitions"] + "\n", case["history"]), []).append(case)
    found = []
    for number, ((head, history), cases) in enumerate(groups.items()):
        made = (
            f"CREATE COMPLEX EVENT CLASS Found{n} ({case['attributes']}) ID () LIFESPAN (-1)\n"
            f"  AS MATCH {case['expression']} {case['clauses']};\n"
            for n, case in enumerate(cases)
        )
        found.append(_together(head + "".join(made), number, f"match {cases[0]['name']}", history, None))
    return found


@cache
def composite_corpus() -> list[Case]:
    """Cases over the same classes and history, in all contexts, are one program."""
    groups: dict[tuple[str, str, float | None], list[dict[str, Any]]] = {}
    for case in composite.cases():
        groups.setdefault((_declared(case), case["history"], case.get("until")), []).append(case)
    found = []
    for number, ((head, history, until), cases) in enumerate(groups.items()):
        made = []
        for n, case in enumerate(cases):
            before, _, returned = case["clauses"].partition("RETURN")
            clauses = f"{before} CONTEXT {case['context']} {'RETURN' + returned if returned else ''}"
            complex_class = f"CREATE COMPLEX EVENT CLASS Found{n} ({case['attributes']}) ID () LIFESPAN (-1)"
            made.append(f"{complex_class}\n  AS COMPOSITE {case['expression']} {clauses};\n")
        end = None if until is None else round(until * SECOND)
        found.append(_together(head + "".join(made), number, f"composite {cases[0]['name']}", history, end))
    return found


def examples() -> list[Case]:
    found: list[Case] = []
    for path in sorted(EXAMPLES.glob("*/events.jsonl")):
        program = compile((path.parent / f"{path.parent.name}.bicepl").read_text("utf-8"))
        rows = tuple(path.read_text("utf-8").splitlines())
        found.append(Case(path.parent.name, program, rows, None, 3, len(found)))
    return found


@cache
def triggers() -> list[Case]:
    """The corpus of triggers, and random programs; what nobody could change or call while it runs is left to others.

    A chain of posts goes as deep as it may anywhere, so those are left out that a test ends earlier.
    """
    found = []
    for number, case in enumerate(of_triggers.cases()):
        if not {"turns", "revisions", "depth"} & case.keys():
            program = of_triggers.program_of(case)
            raws = of_triggers.raws_of(case, program)
            found.append(of_raws(f"triggers {case['name']}", program, raws, of_triggers.until_of(case), number))
    for seed in range(40):
        made = generate_triggers(seed, turns=False)
        alone = replace(made, functions={}).run()
        deeds = (deed for firing in alone.firings for call in firing.calls for deed in call.deeds)
        if not any(isinstance(deed, Posted) and deed.refused is Refusal.TOO_DEEP for deed in deeds):
            found.append(of_raws(f"random triggers {seed}", made.program, made.raws, made.until, seed))
    return found


GROUPS: dict[str, Callable[[], list[Case]]] = {
    "bitemporal corpus": bitemporal_corpus,
    "MATCH corpus": match_corpus,
    "COMPOSITE corpus": composite_corpus,
    "keyed programs, examples": lambda: [*keyed_programs(), *examples()],
    "triggers, corpus and random": triggers,
    "by occurrence, corpus and random": by_occurrence,
    "random SELECTs that fail": failing_programs,
    "random programs 1": lambda: random_programs(0),
    "random programs 2": lambda: random_programs(1),
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_batch_does_what_the_engine_in_process_does(spark: SparkSession, name: str) -> None:
    cases = GROUPS[name]()
    same(cases, in_batch(spark, cases))


# ---- all at once -------------------------------------------------------------------------------------------------

AT_ONCE = {
    "bitemporal corpus": 39,
    "MATCH corpus": 171,
    "COMPOSITE corpus": 274,
    "keyed programs, examples": 14,
    "random programs 1": 17,
    "random programs 2": 14,
}
"""How many cases go so at least: none is left out unnoticed. Triggers fire version by version, and never do."""


@pytest.mark.parametrize("name", AT_ONCE)
def test_all_events_at_once_give_what_ticks_give(spark: SparkSession, name: str) -> None:
    cases = without_ticks(GROUPS[name]())
    assert len(cases) >= AT_ONCE[name]
    for case, found in zip(cases, at_once(spark, cases), strict=True):
        same_at_once(case, found)


def without_ticks(cases: Sequence[Case]) -> list[Case]:
    """Those that wait for no tick, and of random ones what does not without statements and keys of what comes."""
    found = [case for case in cases if goes_at_once(case)]
    for case in cases:
        if case.name.startswith("generate") and case not in found and "SELECT" not in case.program.text:
            made = replace(case, name=f"{case.name} at once", program=compile(in_one_step(case.program.text)))
            found += [made] if goes_at_once(made) else []
    return found


def same_at_once(case: Case, found: Collected) -> None:
    """Compare with ticks in process; and what is not told by these, with all at once in process."""
    program, ticks, told = case.program, local(case), f"{case.name}\n{case.program.text}"
    assert list(at_once_lines(found.versions, found.occurrences, program.settings.chronon_us)) == ticks.lines, told
    refused = (found.rejected.place, map(str, found.rejected.event), found.rejected.reason)
    assert sorted(zip(*refused, strict=True)) == ticks.rejected, told
    here = detect_in_process(program, [case.raw], match_kernel, until_us=case.end_us)
    assert (found.rejected, found.absorbed) == (here.rejected, here.absorbed), told
    assert version_rows(found.versions) == version_rows(here.versions), told
    counts = [[(one.errors, one.dropped) for one in of.occurrences] for of in (found, here)]
    assert counts[0] == counts[1], told


def version_rows(versions: Batch) -> list[str]:
    """Accepted versions as text."""
    values = [_rows(table) or [""] * len(versions) for table in versions.tables]
    heads = (versions.code, versions.row, versions.seq, versions.occ_time, versions.det_time, versions.kind)
    rows = zip(*(column.tolist() for column in heads), strict=True)
    return [f"{versions.classes[code].name} {head} {values[code][row]}" for code, row, *head in rows]


@pytest.mark.parametrize("name", ["MATCH corpus", "COMPOSITE corpus"])
def test_some_of_them_do_so_as_data_frames(spark: SparkSession, name: str) -> None:
    """With versions numbered, rows left out and keys brought together by Spark itself: each of these costs jobs."""
    cases = [case for case in GROUPS[name]() if len(case.lines) > 1 and local(case).lines]
    # Some of them have a class that is brought together by key.
    keyed = [case for case in cases if any(group.keys for group in groups_of(stages_of(case.program)))]
    random = Random("as data frames")
    for case in (*random.sample(keyed, 2), *random.sample(cases, 3)):
        with detect(case.program, typed_frame(spark, case), until_us=case.end_us) as found:
            assert isinstance(found, AtOnce)
            same_at_once(case, collect(found))


def typed_frame(spark: SparkSession, case: Case) -> DataFrame:
    """The events of a case as columns of their types, in their order."""
    tables = []
    for code, rows in arrivals(case.program, [case.raw]).rows.items():
        event_class = received(case.program)[code]
        times = {name: getattr(rows.part, name) for name in ("occ_time", "det_time")}
        columns = {name: pa.array(us).view(pa.timestamp("us", "UTC")) for name, us in times.items()}
        columns |= {"event": pa.array([event_class.name] * len(rows)), "at": pa.array(rows.position)}
        columns |= {a.name: values for a, values in zip(event_class.attributes, rows.part.values, strict=True)}
        tables.append(pa.table(columns))
    every = pa.concat_tables(tables, promote_options="permissive").sort_by("at")
    return spark.createDataFrame(every.drop_columns(["at"]))


# ---- references --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count"), [("random programs 1", 100), ("random programs 2", 100), ("random SELECTs that fail", 24)]
)
def test_they_print_what_the_reference_prints(name: str, count: int) -> None:
    """Of the very programs that run as batches and streams here, and do there what the engine in process does."""
    cases = GROUPS[name]()
    assert len(cases) == count
    for case in cases:
        assert local(case).lines == reference_lines(case), f"{case.name}\n{case.program.text}"


# The reference lists every tuple, and of some examples only the beginning is short enough for it. Those that have
# triggers are compared with the reference of triggers by `triggers/test_examples.py`.
LINES_OF_EXAMPLES: dict[str, int | None] = {
    "card": None,
    "discount": 12,
    "groceries": None,
    "orders": 10,
    "parcels": None,
}


@pytest.mark.parametrize("name", LINES_OF_EXAMPLES)
def test_an_example_prints_what_the_reference_prints(name: str) -> None:
    case = as_far_as(name, LINES_OF_EXAMPLES[name])
    wanted = reference_lines(case)
    assert wanted
    assert locally(case).lines == wanted


@pytest.mark.soak
def test_all_of_an_example_prints_what_the_reference_prints() -> None:
    case = as_far_as("discount", None)
    assert locally(case).lines == reference_lines(case)


def as_far_as(name: str, lines: int | None) -> Case:
    (case,) = [case for case in examples() if case.name == name]
    return replace(case, lines=case.lines[:lines])


def test_every_example_is_compared_with_a_reference() -> None:
    assert {case.name for case in examples()} == {*LINES_OF_EXAMPLES, *WITH_TRIGGERS}


# Of a corpus every sixth case runs as a stream each time, and all of them in `make soak`: each is a batch as well, and
# what streams add to it is how they are cut.
SHARE = 6


@pytest.mark.parametrize("name", GROUPS)
def test_a_stream_does_so_however_it_is_cut(spark: SparkSession, tmp_path: Path, name: str) -> None:
    stream(spark, tmp_path, name, GROUPS[name]()[:: SHARE if "corpus" in name else 1])


@pytest.mark.soak
@pytest.mark.parametrize("name", GROUPS)
def test_every_stream_does_so(spark: SparkSession, tmp_path: Path, name: str) -> None:
    stream(spark, tmp_path, name, GROUPS[name]())


def stream(spark: SparkSession, tmp_path: Path, name: str, cases: Sequence[Case]) -> None:
    # Every cut costs a commit a program: those made to be cut have more of them.
    same(cases, in_stream(spark, cases, tmp_path, 3 if "keyed" in name else 2 if "random" in name else 1))


def test_most_programs_with_a_key_fall_apart() -> None:
    assert sum(len(slots_of(case.program, 2)) > 1 for case in keyed_programs()) >= 50
