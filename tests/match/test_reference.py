"""The reference of MATCH: the corpus of worked cases, the laws between the operators, and the choice among tuples.

The cases stand in `tests/corpus/match/*.toml`, in groups that share `classes`, `definitions`, `attributes` and `says`;
a case may have its own. Every kernel in KERNELS runs them all.

- `history`: events separated by spaces. `A1` is an A with seq 1; a word that is a class by itself takes its place as
  seq, or the number after `@`: `s1`, `Order(121, 40)@7`. Arguments are values in the order of the attributes. Both
  times are seq seconds after the epoch, or `:occ` or `:occ/det` seconds: `A1:60/61.5`.
- `expression`, `clauses`: what stands between MATCH and `;`. `attributes`: those of the complex class.
- `takes_place_at`: the seq of each complex event, in order; `constituents` and `values`, one entry each, if given
  (`"NULL"` is NULL). `lifespans`: per class, where it matters.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import combinations, product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.algebra.expression import MatchPlan
from augury.api import compile
from augury.event import EventClass, key_of
from augury.kernels import reference
from augury.kernels.reference import Event

KERNELS: list[ModuleType] = [reference]
"""Modules with `detect(plan, history, lifespans_us) -> list[Occurrence]`; a new kernel joins here."""

CORPUS = Path(__file__).parents[1] / "corpus" / "match"
SECOND = 1_000_000
SHARED = {"classes", "definitions", "attributes", "says"}
KEYS = SHARED | {"name", "history", "expression", "clauses", "takes_place_at", "constituents", "values", "lifespans"}

Case = dict[str, Any]

# ---- the corpus ----------------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    for path in sorted(CORPUS.glob("*.toml")):
        for group in tomllib.loads(path.read_text("utf-8"))["group"]:
            shared = {key: group[key] for key in SHARED & set(group)}
            for case in group["case"]:
                yield {"attributes": "", "definitions": "", "clauses": "", **shared, **case}


CASES = list(cases())


def plan_of(case: Case) -> tuple[MatchPlan, Mapping[str, EventClass]]:
    classes = "".join(
        f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {declared} ID () LIFESPAN (-1);\n" for declared in case["classes"]
    )
    found = f"CREATE COMPLEX EVENT CLASS Found ({case['attributes']}) ID () LIFESPAN (-1)"
    program = compile(f"{classes}{case['definitions']}\n{found}\n  AS MATCH {case['expression']} {case['clauses']};")
    plan = program.class_plan("Found")
    assert plan is not None
    assert isinstance(plan.derivation, MatchPlan)
    return plan.derivation, {key_of(p.event_class.name): p.event_class for p in program.classes}


EVENT = re.compile(
    r"(?P<word>\w+) (?P<arguments>\([^)]*\))? (?:@(?P<seq>\d+))? (?::(?P<occ>[\d.]+))? (?:/(?P<det>[\d.]+))?", re.X
)


def events_of(text: str, classes: Mapping[str, EventClass]) -> list[Event]:
    """A history as the corpus writes it."""
    found: list[Event] = []
    for number, written in enumerate(re.findall(r"(?:[^\s(]|\([^)]*\))+", text), 1):
        parts = EVENT.fullmatch(written)
        assert parts is not None, f"no event: {written}"
        word, seq = parts["word"], parts["seq"] or str(number)
        if key_of(word) not in classes:
            word, seq = re.fullmatch(r"(.*?)(\d+)", word).groups()  # type: ignore[union-attr]
        event_class = classes[key_of(word)]
        given_values = [w.strip() for w in (parts["arguments"] or "()")[1:-1].split(",") if w.strip()]
        names = [attribute.name for attribute in event_class.attributes]
        occ_time = round(float(parts["occ"] or seq) * SECOND)
        det_time = round(float(parts["det"]) * SECOND) if parts["det"] else occ_time
        values = dict(zip(names, map(value_of, given_values), strict=True))
        found.append(Event(int(seq), event_class.name, values, occ_time, det_time))
    assert [event.seq for event in found] == sorted({event.seq for event in found})
    return found


def value_of(written: str) -> Any:
    words = {"NULL": None, "TRUE": True, "FALSE": False}
    return words[written] if written in words else written.strip("'") if written.startswith("'") else int(written)


def lifespans_of(case: Case) -> dict[str, int]:
    return {name: int(written.removesuffix("s")) * SECOND for name, written in case.get("lifespans", {}).items()}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__.split(".")[-1])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_expression_takes_place_where_the_definitions_say(kernel: ModuleType, case: Case) -> None:
    plan, classes = plan_of(case)
    found = kernel.detect(plan, events_of(case["history"], classes), lifespans_of(case))
    context = f"{case['says']}\n{case['expression']} {case['clauses']}\nin {case['history']}"
    assert [occurrence.seq for occurrence in found] == case["takes_place_at"], context
    if "constituents" in case:
        assert [list(occurrence.constituents) for occurrence in found] == case["constituents"], context
    if "values" in case:
        wanted = [[None if value == "NULL" else value for value in row] for row in case["values"]]
        assert [list(occurrence.values.values()) for occurrence in found] == wanted, context


def test_the_corpus_has_no_unknown_key_and_no_name_twice() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names))
    assert not [case["name"] for case in CASES if not set(case) <= KEYS or not case["says"]]
