"""The reference of bitemporal events: the corpus of worked cases, the table of primitives, and laws of every run.

The cases stand in `tests/corpus/bitemporal/*.toml`; `tests/bitemporal/corpus.py` says how to read them. Every engine in
ENGINES runs them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from random import Random

import pytest

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import Cron, Every, Program
from augury.algebra.scalar import Timing, TimingPrimitive, walk
from augury.algebra.select import SelectPlan
from augury.clock import microseconds_of
from augury.history.schedule import due_at_most
from augury.kernels.reference.bitemporal import (
    ABSENT,
    Change,
    EventId,
    Raw,
    Reason,
    Run,
    Tick,
    Version,
    as_known_at,
    as_of_now,
    expiries,
    run,
)
from augury.kernels.reference.bitemporal.deciding import mentions_ontime
from augury.kernels.reference.bitemporal.posting import due
from augury.kernels.reference.bitemporal.resolution import arrived
from augury.kernels.reference.bitemporal.ticks import tick_of
from tests.bitemporal.corpus import (
    ALWAYS,
    EXPECTED,
    Case,
    Writer,
    cases,
    cells,
    json_of,
    program_of,
    raws_of,
    until_of,
)
from tests.bitemporal.duck import selects_of
from tests.bitemporal.generate import Generated, generate, generate_mixed

Engine = Callable[[Program, Sequence[Raw], int | None], Run]


def reference(program: Program, raws: Sequence[Raw], until: int | None) -> Run:
    return run(program, selects_of(program), raws, until)


ENGINES: list[Engine] = [reference]
CASES = list(cases())
CELLS = list(cells())
engines = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)


def check(engine: Engine, case: Case) -> None:
    program = program_of(case)
    found = engine(program, raws_of(case, program), until_of(case))
    writer = Writer(program, case["month"])
    wanted = ALWAYS | {key: case[key] for key in EXPECTED & set(case)}
    assert {key: writer.shown(found, key, case) for key in wanted} == wanted, f"{case['says']}\n{case['program']}"


# ---- the corpus ----------------------------------------------------------------------------------


@engines
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_program_does_what_the_contract_says(engine: Engine, case: Case) -> None:
    check(engine, case)


@engines
@pytest.mark.parametrize("case", CELLS, ids=lambda case: case["name"])
def test_a_primitive_holds_where_the_table_says(engine: Engine, case: Case) -> None:
    check(engine, case)


def test_the_corpus_has_no_name_twice_and_is_not_small() -> None:
    names = [case["name"] for case in [*CASES, *CELLS]]
    assert len(names) == len(set(names))
    assert len(CASES) >= 120
    assert len(CELLS) >= 20 * 13


def test_an_engine_that_does_nothing_is_noticed() -> None:
    def idle(program: Program, raws: Sequence[Raw], until: int | None) -> Run:
        return run(program, selects_of(program), [], until)

    def passes(case: Case) -> bool:
        try:
            check(idle, case)
        except AssertionError:
            return False
        return True

    quiet = {case["name"] for case in CASES if passes(case)}
    assert all(not any(case.get(key) for key in EXPECTED) for case in CASES if case["name"] in quiet)


def test_an_event_of_the_corpus_can_be_written_as_a_line_of_json() -> None:
    case = next(case for case in CASES if case["name"] == "all-types")
    program = program_of(case)
    assert json_of(program, raws_of(case, program)[0]) == {
        "event": "A",
        "occ_time": "2026-01-01T09:01:00Z",
        "det_time": "2026-01-01T09:01:00Z",
        "k": 1,
        "b": True,
        "d": 0.5,
        "n": 2.25,
        "s": "apple",
        "t": "2026-01-01T08:00:00Z",
        "day": "2026-01-05",
    }
    withdrawn = Raw("A", (1, *[None] * 6), None, 0, "x")
    assert json_of(program, withdrawn)["occ_time"] is None
    assert "occ_time" not in json_of(program, replace(withdrawn, occ_time=ABSENT))


# ---- small pieces --------------------------------------------------------------------------------


def test_a_live_version_that_claims_a_time_before_the_last_tick_gets_that_tick() -> None:
    assert arrived(5, None) == (5, None)
    assert arrived(10, 10) == (10, None)
    assert arrived(9, 10) == (10, 9)


def test_chronons_are_half_open_and_aligned_to_the_epoch() -> None:
    assert [tick_of(moment, 10) for moment in (-11, -10, -1, 0, 9, 10)] == [-10, 0, 0, 10, 10, 20]


@pytest.mark.parametrize(
    "schedule",
    [
        *(Every(7_000_000), Every(3_600_000_000), Cron("*/10 * * * *", "UTC"), Cron("30 2 * * *", "Europe/Vienna")),
        *(Cron("0 9 * * 1-5", "Europe/Vienna"), Cron("0 * * * *", "Europe/Vienna"), Cron("5 4 29 2 *", "UTC")),
    ],
    ids=str,
)
def test_the_clock_posts_when_its_schedule_says(schedule: Cron | Every) -> None:
    # Clocks change in Vienna at 01:00 UTC on 2026-03-29 and on 2026-10-25.
    for day in (
        datetime(2026, 3, 28, tzinfo=UTC),
        datetime(2026, 10, 24, tzinfo=UTC),
        datetime(2028, 2, 28, tzinfo=UTC),
    ):
        since = microseconds_of(day)
        for start, end in ((since, since + 2 * 86_400_000_000), (since + 90_000_000_001, since + 93_600_000_000)):
            assert list(due(schedule, start, end)) == list(due_at_most("T", schedule, start, end))


def test_expiry_goes_up_and_down_the_graph() -> None:
    def event(name: str, key: int, occ_time: int) -> Version:
        return Version(name, (key,), (key,), occ_time, 0, Change.ANNOUNCE)

    versions = [event("A", 1, 0), event("A", 2, 0), event("B", 1, 50), event("X", 1, 10), event("Y", 1, 0)]
    live = {version.event: version for version in versions}
    made_of: dict[EventId, frozenset[EventId]] = {
        ("X", (1,)): frozenset({("A", (1,)), ("B", (1,))}),
        ("Y", (1,)): frozenset({("X", (1,)), ("A", (2,))}),
    }
    found = expiries(live, made_of, {"A": 20, "B": 5, "X": 30, "Y": 60}, ["A", "B", "X", "Y"])
    # X: max(40, 20, 55) = 55; Y: max(60, 55, 20) = 60, and then everything below it.
    assert set(found.values()) == {60}
    found = expiries(live, made_of, {"A": 20, "B": 5, "X": 30, "Y": 1}, ["A", "B", "X", "Y"])
    assert found == dict.fromkeys(live, 55)
    found = expiries(live, {}, {"A": 20, "B": None, "X": 30, "Y": 1}, ["A", "B", "X", "Y"])
    assert list(found.values()).count(20) == 2
    assert found["B", (1,)] is None


@pytest.mark.parametrize("seed", range(50))
def test_a_constituent_never_goes_before_what_uses_it(seed: int) -> None:
    random = Random(seed)
    strata = ["A", "B", "X", "Y"]
    versions = [
        Version(name, (key,), (key,), random.randrange(50), 0, Change.ANNOUNCE) for name in strata for key in (1, 2, 3)
    ]
    live = {version.event: version for version in versions}
    below = {"X": [e for e in live if e[0] in "AB"], "Y": [e for e in live if e[0] in "ABX"]}
    made_of: dict[EventId, frozenset[EventId]] = {
        event: frozenset(random.sample(below[event[0]], random.randrange(4))) for event in live if event[0] in below
    }
    lifespans = {name: random.choice([None, 5, 10, 20, 60]) for name in strata}

    def rank(time: int | None) -> float:
        return inf if time is None else time

    found = expiries(live, made_of, lifespans, strata)
    own = expiries(live, {}, lifespans, strata)
    assert all(rank(found[event]) >= rank(own[event]) for event in live)
    assert all(rank(found[lower]) >= rank(found[upper]) for upper in made_of for lower in made_of[upper])
    assert set(found.values()) <= set(own.values())


# ---- laws of every run ---------------------------------------------------------------------------

SEEDS = 200


def check_laws(case: Generated) -> None:
    whole = run(case.program, case.selects, case.raws, case.until)
    uses_now = {
        plan.event_class.name
        for plan in case.program.classes
        if isinstance(plan.derivation, SelectPlan) and plan.derivation.uses_now
    }
    has_timers = any(isinstance(plan.derivation, CompositePlan) for plan in case.program.classes)
    for tick in whole.ticks:
        busy = {version.event for version in [*tick.read, *tick.published]}
        for action in tick.actions:
            plan = case.program.class_plan(action.version.event_class)
            assert plan is not None
            is_due_now = action.version.occ_time is not None and tick_of_version(case, action.version) == tick.tick
            is_timed = is_due_now and mentions_ontime(plan.statements[action.statement - 1])
            assert action.version.event in busy or is_timed
        if not tick.read:
            assert not tick.published or uses_now or has_timers
        check_detected(case, tick)
    fired = [(a.statement, a.place, id(a.version)) for tick in whole.ticks for a in tick.actions]
    assert len(fired) == len(set(fired))
    read = [version for tick in whole.ticks for version in tick.read]
    assert [version.seq for version in read] == list(range(1, len(read) + 1))
    purged = [version for tick in whole.ticks for version in tick.purged]
    there = {event: version for event, version in as_of_now(whole.history).items() if version not in purged}
    assert dict(whole.live) == there
    assert whole.archive == (tuple(purged) if case.program.settings.archive else ())


def check_detected(case: Generated, tick: Tick) -> None:
    """What a MATCH or COMPOSITE finds is of the chronon, and the version at which it takes place is a constituent."""
    plans = {plan.event_class.name: plan for plan in case.program.classes}
    chronon_us = case.program.settings.chronon_us
    numbers = {version.seq for version in tick.read if version.occ_time is not None}
    for version in tick.published:
        if isinstance(plans[version.event_class].derivation, MatchPlan | CompositePlan):
            assert tick.tick - chronon_us <= version.det_time <= tick.tick
            assert version.change is not Change.WITHDRAW
            assert version.seq is None or version.seq in numbers.intersection(version.constituents)
            assert list(version.constituents) == sorted(set(version.constituents))


def check_nothing_is_overwritten(case: Generated) -> None:
    """A shorter run, or one that knows fewer versions, says the same of the time that both cover."""
    whole = run(case.program, case.selects, case.raws, case.until)
    ticks = [tick.tick for tick in whole.ticks]
    for cut in ticks[:: max(1, len(ticks) // 3)]:
        earlier = [raw for raw in case.raws if (raw.det_time or 0) < cut]
        for part in (run(case.program, case.selects, raws, cut) for raws in (case.raws, earlier)):
            assert part.ticks == whole.ticks[: len(part.ticks)]
            assert part.history == whole.history[: len(part.history)]
            # At the tick itself the next chronon begins, of which nothing is known yet.
            for moment in (cut - 1, cut - case.program.settings.chronon_us, cut - 7_000_000):
                known = as_known_at(part.history, moment)
                assert known == as_known_at(whole.history, moment)


def tick_of_version(case: Generated, version: Version) -> int:
    assert version.occ_time is not None
    return tick_of(version.occ_time, case.program.settings.chronon_us)


@pytest.mark.parametrize("first", range(0, SEEDS, 25))
def test_every_run_keeps_the_laws(first: int) -> None:
    for seed in range(first, first + 25):
        check_laws(generate(seed))


@pytest.mark.parametrize("first", range(0, SEEDS, 25))
def test_nothing_that_was_known_is_overwritten(first: int) -> None:
    for seed in range(first, first + 25):
        check_nothing_is_overwritten(generate(seed))


def test_what_is_generated_is_not_dull() -> None:
    runs = [(case, run(case.program, case.selects, case.raws, case.until)) for case in map(generate, range(SEEDS))]
    ticks = [tick for _, found in runs for tick in found.ticks]
    primitives = {
        node.primitive
        for case, _ in runs
        for plan in case.program.classes
        for statement in plan.statements
        for node in walk(statement.condition)
        if isinstance(node, Timing)
    }
    assert primitives == set(TimingPrimitive)
    assert {version.change for tick in ticks for version in tick.published} == set(Change)
    assert {one.reason for tick in ticks for one in tick.rejected} == {Reason.IMMUTABLE, Reason.NOT_THERE}
    for seen in ("actions", "absorbed", "purged", "warnings"):
        assert sum(bool(getattr(tick, seen)) for tick in ticks) > 50, seen


@pytest.mark.parametrize("first", range(0, SEEDS, 25))
def test_every_run_of_mixed_classes_keeps_the_laws(first: int) -> None:
    for seed in range(first, first + 25):
        check_laws(generate_mixed(seed))


@pytest.mark.parametrize("first", range(SEEDS, SEEDS + 40, 10))
def test_nothing_that_was_known_of_mixed_classes_is_overwritten(first: int) -> None:
    for seed in range(first, first + 10):
        check_nothing_is_overwritten(generate_mixed(seed))


def test_what_is_generated_of_mixed_classes_is_not_dull() -> None:
    seen: set[tuple[str, Change, bool]] = set()
    texts = ""
    for case in map(generate_mixed, range(60)):
        kinds = {plan.event_class.name: type(plan.derivation).__name__ for plan in case.program.classes}
        found = run(case.program, case.selects, case.raws, case.until)
        published = [version for tick in found.ticks for version in tick.published]
        seen |= {(kinds[version.event_class], version.change, version.seq is None) for version in published}
        texts += case.text
    detected = {
        (kind, change, is_late)
        for kind in ("MatchPlan", "CompositePlan")
        for change in (Change.ANNOUNCE, Change.CHANGE)
        for is_late in (False, True)
    }
    assert seen >= detected | {("SelectPlan", change, True) for change in Change}
    assert all(word in texts for word in ("CLOCK", "OVER", "WITHIN", "PARTITION", "PERIODIC", "+ 5s", "UNRESTRICTED"))


@pytest.mark.parametrize("seed", range(0, SEEDS, 8))
@pytest.mark.parametrize("generated", [generate, generate_mixed], ids=["selects", "mixed"])
def test_the_sql_of_a_generated_select_says_what_its_function_says(
    generated: Callable[[int], Generated], seed: int
) -> None:
    case = generated(seed)
    by_hand = run(case.program, case.selects, case.raws, case.until)
    by_sql = run(case.program, selects_of(case.program), case.raws, case.until)
    assert by_hand == by_sql
