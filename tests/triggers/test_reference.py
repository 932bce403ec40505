"""The reference of triggers and rules: the corpus of worked cases, random programs, and laws of every run.

The cases stand in `tests/corpus/triggers/*.toml`; `tests/triggers/corpus.py` says how to read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from augury.kernels.reference.triggers import DEPTH_MAX, Triggered, triggered
from tests.bitemporal.duck import selects_of
from tests.triggers.corpus import (
    FUNCTIONS,
    Case,
    Writer,
    cases,
    program_of,
    raws_of,
    turns_of,
    until_of,
)

CASES = list(cases())
READINGS = Path(__file__).parents[2] / "docs" / "triggers.md"

Engine = Callable[[Case], Triggered]


def reference(case: Case) -> Triggered:
    program = program_of(case)
    return triggered(
        program,
        selects_of(program),
        raws_of(case, program),
        until_of(case),
        functions=FUNCTIONS,
        turns=turns_of(case),
        depth_max=case.get("depth", DEPTH_MAX),
    )


def check(engine: Engine, case: Case) -> None:
    writer = Writer(program_of(case), case["month"], turns_of(case))
    found = engine(case)
    wanted = {key: case[key] for key in ("firings", "versions") if key in case}
    assert {key: writer.shown(found, key) for key in wanted} == wanted, f"{case['title']}\n{case['says']}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_triggers_do_what_the_contract_says(case: Case) -> None:
    check(reference, case)


def test_the_corpus_has_no_name_twice_and_is_not_small() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names))
    assert len(CASES) >= 120
    assert sum(not case["firings"] for case in CASES) < len(CASES) / 5


def test_every_reading_of_the_page_is_pinned_by_a_case() -> None:
    numbers = {int(n) for n in re.findall(r"^(\d+)\. \*\*", READINGS.read_text("utf-8"), re.MULTILINE)}
    pinned = {int(n) for case in CASES for n in re.findall(r"Reading (\d+)", case["says"])}
    assert numbers == set(range(1, len(numbers) + 1))
    assert sorted(numbers - pinned) == []
    assert sorted(pinned - numbers) == []


def test_an_engine_that_does_nothing_is_noticed() -> None:
    def idle(case: Case) -> Triggered:
        program = program_of(case)
        return triggered(program, selects_of(program), [], until_of(case))

    for case in CASES:
        if case["firings"]:
            with pytest.raises(AssertionError):
                check(idle, case)
