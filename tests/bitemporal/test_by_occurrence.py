"""ORDER BY OCCURRENCE on the reference: its corpus, laws that say nothing of how it works, and random programs.

The cases stand in `tests/corpus/by_occurrence/*.toml`, in the form of those of `tests/corpus/bitemporal`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from augury.algebra.scalar import Value
from augury.kernels.reference.bitemporal import Change, Raw, Run, Version, as_of_now, run
from augury.kernels.reference.bitemporal.version import ranks
from tests.bitemporal.corpus import BY_OCCURRENCE, Case, cases
from tests.bitemporal.generate import SECOND, START
from tests.bitemporal.generate_corrections import (
    ORDER,
    Plainly,
    generate_corrected,
    generate_plainly,
    in_order,
    shuffled,
)
from tests.bitemporal.test_reference import check, check_nothing_is_overwritten, reference

CASES = list(cases(BY_OCCURRENCE))
SEEDS = 80


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_program_does_what_the_contract_says(case: Case) -> None:
    check(reference, case)


def test_the_corpus_has_no_name_twice_and_is_not_small() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names))
    assert len(CASES) >= 70
    assert all(ORDER.strip() in case["program"] for case in CASES)


def test_without_the_clause_the_corpus_is_noticed() -> None:
    def passes_without(case: Case) -> bool:
        try:
            check(reference, case | {"program": re.sub(f"{ORDER}( ALLOWING \\w+)?", "", case["program"])})
        except AssertionError:
            return False
        return True

    unnoticed = [case["name"] for case in CASES if passes_without(case)]
    assert len(unnoticed) <= len(CASES) // 4, unnoticed


# ---- laws ----------------------------------------------------------------------------------------

Row = tuple[object, ...]


def view(found: Run) -> list[Row]:
    """The complex events that are there: values, time, and which events they are made of."""
    read = {version.seq: version for tick in found.ticks for version in tick.read}

    def named(seq: int) -> tuple[str, tuple[Value, ...], int | None]:
        version = read[seq]
        return version.event_class, version.values, version.occ_time

    rows: list[Row] = [
        (ranks(version.values), version.occ_time, sorted(map(repr, map(named, version.constituents))))
        for version in found.live.values()
        if version.event_class == "X"
    ]
    return sorted(rows, key=repr)


def corrected(case: Plainly, raws: Sequence[Raw]) -> list[Row]:
    return view(run(case.corrected, {}, raws, case.until, since=START))


def uncorrected(case: Plainly, raws: Sequence[Raw]) -> list[Row]:
    """What is there without the clause; of occurrences of the same constituents, which are one event, the last."""
    found = run(case.uncorrected, {}, raws, case.until, since=START)
    plan = case.corrected.class_plan("X")
    assert plan is not None
    if plan.event_class.key:
        return view(found)
    newest: dict[object, Version] = {}
    for version in found.history:
        if version.event_class == "X":
            is_all = "COLLECT ALL" in case.text
            newest[version.constituents, ranks(version.values) if is_all else ()] = version
    return view(replace(found, live={version.event: version for version in newest.values()}))


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_what_comes_in_order_is_found_as_without_the_clause(first: int) -> None:
    for seed in range(first, first + 20):
        case = generate_plainly(seed)
        assert corrected(case, case.raws) == uncorrected(case, case.raws), f"{seed}\n{case.text}"


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_in_which_order_versions_come_makes_no_difference_in_the_end(first: int) -> None:
    for seed in range(first, first + 20):
        case = generate_plainly(seed)
        assert corrected(case, shuffled(case, seed)) == uncorrected(case, case.raws), f"{seed}\n{case.text}"


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_an_event_that_is_withdrawn_leaves_nothing_behind(first: int) -> None:
    for seed in range(first, first + 20):
        case = generate_plainly(seed)
        random = Random(seed)
        gone = random.choice(case.raws)
        withdrawal = replace(gone, occ_time=None, det_time=START + random.randrange(91, 110) * SECOND)
        without = tuple(raw for raw in case.raws if raw is not gone)
        raws = (*shuffled(case, seed), withdrawal)
        assert corrected(case, raws) == uncorrected(case, without), f"{seed}\n{case.text}"


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_an_event_that_was_changed_is_as_if_it_had_always_been_so(first: int) -> None:
    for seed in range(first, first + 20):
        case = generate_plainly(seed)
        random = Random(seed)
        old = random.choice(case.raws)
        moved = START + random.randrange(1, 110) * SECOND + SECOND // 2
        changed = replace(old, values=(old.values[0], 1, 2), occ_time=moved)
        late = replace(changed, det_time=START + random.randrange(91, 110) * SECOND)
        afresh = in_order([*(raw for raw in case.raws if raw is not old), replace(changed, det_time=moved)])
        assert corrected(case, (*shuffled(case, seed), late)) == uncorrected(case, afresh), f"{seed}\n{case.text}"


def test_what_is_generated_for_the_laws_is_not_dull() -> None:
    made = [generate_plainly(seed) for seed in range(40)]
    assert sum(bool(uncorrected(case, case.raws)) for case in made) > len(made) // 3
    differs = [case for case in made if uncorrected(case, shuffled(case, 0)) != uncorrected(case, case.raws)]
    assert len(differs) > len(made) // 4
    texts = "".join(case.text for case in made)
    assert all(word in texts for word in ("MATCH", "COMPOSITE", "CLOCK", "PERIODIC", "WITHIN", "COLLECT", "PARTITION"))


# ---- random programs -----------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_programs_keep_what_every_run_keeps(first: int) -> None:
    for seed in range(first, first + 20):
        case = generate_corrected(seed)
        found = run(case.program, case.selects, case.raws, case.until)
        there: dict[object, Version] = {}
        for tick in found.ticks:
            for version in tick.published:
                before = there.get(version.event)
                if version.change is Change.WITHDRAW:
                    assert there.pop(version.event) is not None, f"{seed}: nothing was there"
                    continue
                assert (before is not None) == (version.change is Change.CHANGE), f"{seed}: {version}"
                there[version.event] = version
            for version in tick.purged:
                there.pop(version.event, None)
        purged = [version for tick in found.ticks for version in tick.purged]
        assert dict(found.live) == {e: v for e, v in as_of_now(found.history).items() if v not in purged}


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_nothing_that_was_known_is_overwritten(first: int) -> None:
    for seed in range(first, first + 10):
        check_nothing_is_overwritten(generate_corrected(seed))


def test_what_is_generated_is_not_dull() -> None:
    seen: set[tuple[str, Change, bool]] = set()
    for case in map(generate_corrected, range(60)):
        kinds = {
            plan.event_class.name: type(plan.derivation).__name__
            for plan in case.program.classes
            if getattr(plan.derivation, "by_occurrence", None) is not None
        }
        assert kinds
        found = run(case.program, case.selects, case.raws, case.until)
        seen |= {
            (kinds[version.event_class], version.change, version.seq is None)
            for tick in found.ticks
            for version in tick.published
            if version.event_class in kinds
        }
    assert seen >= {(kind, change, False) for kind in ("MatchPlan", "CompositePlan") for change in Change}
    assert ("CompositePlan", Change.ANNOUNCE, True) in seen
