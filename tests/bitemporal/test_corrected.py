"""ORDER BY OCCURRENCE in the engine: the corpus and random programs against the reference, however ticks are cut.

States are saved and loaded between ticks, kernels' states are saved often, and what can no longer change is let go as
soon as possible, so that no way through the histories is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pytest

from augury.algebra.program import Program
from augury.api import compile
from augury.duck.selects import runnable
from augury.engine import by_occurrence, occurrence_state
from augury.engine.lines import tick_lines
from augury.engine.occurrence_state import OccurrenceState
from augury.engine.plan import EnginePlan, engine_plan
from augury.engine.sharded import slots_of
from augury.engine.snapshot import loaded_state, saved_state
from augury.engine.state import EngineState, initial
from augury.engine.tick import Ports, next_tick, step, tick, tick_at_most, ticks
from augury.engine.ticked import Ticked
from augury.history.arrivals import Arrivals, arrivals
from augury.history.raw import RawRows
from augury.kernels.reference.bitemporal import Raw, Run
from augury.kernels.sealed import UnfitState
from tests.bitemporal.corpus import BY_OCCURRENCE, Case, cases, program_of, raws_of, until_of
from tests.bitemporal.generate import Generated
from tests.bitemporal.generate_corrections import generate_corrected
from tests.bitemporal.local import Known, local, raw_rows, run_of
from tests.bitemporal.test_reference import check, reference
from tests.bitemporal.test_shards import same
from tests.bitemporal.told import difference

CASES = list(cases(BY_OCCURRENCE))


def generated(seeds: range) -> Iterator[tuple[int, Generated]]:
    return ((seed, generate_corrected(seed)) for seed in seeds)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the state of a kernel after every second version, and let go of whatever can be."""
    monkeypatch.setattr(by_occurrence, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(occurrence_state, "_SPARE", -1 << 40)


def cut(program: Program, raws: Sequence[Raw], until: int | None, seed: int = 0) -> Run:
    """The engine with steps within ticks, at random, its state saved and loaded after every tick."""
    plan, known, random = engine_plan(program), Known(), Random(seed)
    state, found = initial(plan), list[Ticked]()
    waiting = list(arrivals(program, [raw_rows(program, raws)]).by_tick(plan.chronon_us))
    ports = Ports(runnable(program), known)
    while waiting or until is not None:
        due = next_tick(plan, state)
        time, rows = waiting.pop(0) if waiting and waiting[0][0] <= due else (due, Arrivals())
        if until is not None and time > until:
            last = tick_at_most(until, plan.chronon_us)
            if state.tick is None or last <= state.tick:
                break
            time, rows, until = last, Arrivals(), None
        state = _ticked(plan, state, rows, time, ports, random, found)
        known.note(found[-1])
    return run_of(program, plan, state, found, lambda place: raws[int(place.rsplit(":", 1)[1])])


def _ticked(
    plan: EnginePlan, state: EngineState, rows: Arrivals, time: int, ports: Ports, random: Random, found: list[Ticked]
) -> EngineState:
    times = sorted({int(at) for one in rows.rows.values() for at in one.part.det_time})
    for at in times:
        if random.random() < 0.7 and at < time:
            step(plan, state, _some(rows, at, is_later=False), at, ports)
            rows = _some(rows, at, is_later=True)
    found.append(tick(plan, state, rows, time, ports))
    return loaded_state(plan, saved_state(plan, state))


def _some(rows: Arrivals, at: int, *, is_later: bool) -> Arrivals:
    parts = {code: one.at(np.flatnonzero((one.part.det_time > at) == is_later)) for code, one in rows.rows.items()}
    return Arrivals(
        {code: one for code, one in parts.items() if len(one)}, rows.refusals if is_later else (), rows.place
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_program_does_what_the_contract_says(case: Case) -> None:
    check(local, case)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_it_does_so_however_ticks_are_cut(case: Case) -> None:
    check(cut, case)


@pytest.mark.parametrize("block", range(4))
def test_random_programs(block: int) -> None:
    for seed, g in generated(range(block * 30, block * 30 + 30)):
        assert not difference(reference(g.program, g.raws, g.until), local(g.program, g.raws, g.until)), seed


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("block", range(4, 8))
def test_random_programs_however_ticks_are_cut(block: int) -> None:
    for seed, g in generated(range(block * 30, block * 30 + 30)):
        assert not difference(reference(g.program, g.raws, g.until), cut(g.program, g.raws, g.until, seed)), seed


KEYED = (
    "MATCH prior(A(n, k), B(n, k)) ORDER BY OCCURRENCE",
    "COMPOSITE A(n, k) > B(n, k) ORDER BY OCCURRENCE CONTEXT CHRONICLE",
    "MATCH sequence(A, B) PARTITION BY n ORDER BY OCCURRENCE RETURN A.n AS n",
)


@pytest.mark.parametrize("derivation", KEYED)
def test_what_falls_apart_by_a_key_does_so_by_occurrence_unless_the_newest_of_all_matters(derivation: str) -> None:
    def slots(text: str) -> int:
        head = HEAD.format(life="-1")
        return len(slots_of(compile(f"{head}CREATE COMPLEX EVENT CLASS C (n INT) ID (n) AS {text};"), 3))

    assert slots(derivation) == 3
    assert slots(derivation.replace("OCCURRENCE", "OCCURRENCE ALLOWING 5s")) == 1


def test_engines_of_slots_do_together_what_one_does_over_the_corpus() -> None:
    for number, case in enumerate(CASES):
        program = program_of(case)
        raws = tuple(raws_of(case, program))
        until = until_of(case) or max(raw.det_time or 0 for raw in raws) + program.settings.chronon_us
        same(Generated(case["program"], program, {}, raws, until), number)


@pytest.mark.parametrize("block", range(2))
def test_engines_of_slots_do_together_what_one_does(block: int) -> None:
    for seed, g in generated(range(block * 30, block * 30 + 30)):
        same(g, seed)


# ---- long histories ------------------------------------------------------------------------------

HEAD = """SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (n INT, k INT) ID (n) LIFESPAN ({life});
CREATE MUTABLE SUBSCRIBED EVENT CLASS B (n INT, k INT) ID (n) LIFESPAN ({life});
"""
LONG = (
    "MATCH prior(A(_, k), B(_, k)) ORDER BY OCCURRENCE",
    "COMPOSITE A(_, k) > B(_, k) ORDER BY OCCURRENCE CONTEXT CHRONICLE",
    "COMPOSITE A(_, k) > !B(_, k) ORDER BY OCCURRENCE ALLOWING 40s WITHIN 5s",
    "MATCH prior(A(_, k), B(_, k)) ORDER BY OCCURRENCE WHERE A.detTime > B.detTime",
    "MATCH prior(A(_, k)[detTime > PREV(detTime, 2)], B(_, k)) ORDER BY OCCURRENCE",
    "COMPOSITE A(_, k) > B(_, k) ORDER BY OCCURRENCE WHERE A.detTime <= B.detTime CONTEXT CHRONICLE",
    "COMPOSITE (A(_, k) > B(_, k) WHERE B.detTime <= B.occTime) + 3s ORDER BY OCCURRENCE CONTEXT CONTINUOUS",
)


def long_rows(seed: int, count: int) -> list[dict[str, object]]:
    """In order but for one in ten, which is late, changes an event or withdraws it."""
    random, rows = Random(seed), list[dict[str, object]]()
    for number in range(count):
        event, late = random.choice("AB"), random.random() < 0.1
        occ_time: float | None = number - (random.randrange(30) if late else 0)
        n = random.randrange(max(1, number - 20), number + 1) if late else number
        if late and random.random() < 0.3:
            occ_time = None
        rows.append({"event": event, "n": n, "k": random.randrange(5), "occ_time": occ_time, "det_time": number})
    return rows


def lines_of(text: str, rows: Sequence[dict[str, object]]) -> tuple[list[str], EngineState]:
    program = compile(text)
    plan = engine_plan(program)
    state = initial(plan)
    came = arrivals(program, [RawRows("rows", list(rows), range(len(rows)))])
    found = ticks(plan, state, came, None, Ports(runnable(program)))
    return [line for one in found for line in tick_lines(one)], state


@pytest.mark.parametrize("derivation", LONG)
def test_states_that_are_saved_in_between_make_no_difference(derivation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD.format(life="1m") + f"CREATE COMPLEX EVENT CLASS C (k INT) ID (k) AS {derivation};"
    rows = long_rows(1, 600)
    monkeypatch.setattr(by_occurrence, "_ROWS_AT_ONCE", 1 << 40)
    monkeypatch.setattr(occurrence_state, "_SPARE", 1 << 40)
    afresh, _ = lines_of(text, rows)
    assert afresh != lines_of(re.sub(" ORDER BY OCCURRENCE( ALLOWING 40s)?", "", text), rows)[0], "it matters"
    monkeypatch.setattr(by_occurrence, "_ROWS_AT_ONCE", 16)
    monkeypatch.setattr(by_occurrence, "_BYTES_A_ROW", 1 << 40)
    monkeypatch.setattr(occurrence_state, "_SPARE", 32)
    found, state = lines_of(text, rows)
    assert found == afresh
    (remembered,) = (one for one in state.detection if isinstance(one, OccurrenceState))
    assert remembered.history.base > 300, "what can no longer change is forgotten"
    assert remembered.history.count < 300
    assert len(remembered.saved) <= 25


def test_a_state_fits_no_other_order() -> None:
    text = HEAD.format(life="-1") + "CREATE COMPLEX EVENT CLASS C (k INT) ID (k) AS MATCH prior(A(_, k), B(_, k));"
    ordered = text.replace("B(_, k));", "B(_, k)) ORDER BY OCCURRENCE;")
    allowing = text.replace("B(_, k));", "B(_, k)) ORDER BY OCCURRENCE ALLOWING 1m;")
    plans = [engine_plan(compile(one)) for one in (text, ordered, allowing)]
    for one in plans:
        content = saved_state(one, initial(one))
        loaded_state(one, content)
        for other in plans:
            if other is not one:
                with pytest.raises(UnfitState):
                    loaded_state(other, content)


ASKING = (
    "MATCH A(_, k)[occTime < detTime]",
    "MATCH prior(A(_, k)[k > 1 OR PREV(detTime) > occTime], B)",
    "MATCH prior(A(_, k), B) {} WHERE k = 1 AND A.detTime > B.occTime",
    "MATCH prior(A(_, k), B) {} RETURN SECOND(B.detTime) AS k",
    "MATCH prior(A(_, k), B) {} COLLECT MAX(SECOND(B.detTime)) AS k",
    "COMPOSITE A(_, k) > !B[occTime < detTime] > B",
    "COMPOSITE (A(_, k) > B WHERE A.detTime < B.occTime) & B",
    "COMPOSITE A(_, k) > B {} CONTEXT RECENT RETURN SECOND(A.detTime) AS k",
)


@pytest.mark.parametrize("derivation", ASKING)
def test_when_versions_were_detected_is_kept_for_who_asks(derivation: str) -> None:
    def asks(text: str) -> bool:
        ordered = (text if "{}" in text else f"{text} {{}}").format("ORDER BY OCCURRENCE")
        statement = "ON ANNOUNCEMENT AND NEW.detTime > NEW.occTime DO a(NEW.detTime)"
        derived = f"CREATE COMPLEX EVENT CLASS C (k INT) ID (k) AS {ordered} {statement};"
        plan = engine_plan(compile(HEAD.format(life="-1") + derived))
        (remembered,) = initial(plan).detection
        assert isinstance(remembered, OccurrenceState)
        return remembered.history.asks_detected

    assert asks(derivation)
    assert not asks(derivation.replace("detTime", "occTime"))
