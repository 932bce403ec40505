"""The worked cases of COMPOSITE as data: `tests/corpus/composite/*.toml`, for every kernel that claims to run them.

Groups share `classes`, `attributes`, `clauses` and `says`; a case may have its own.

- `history`: as in the corpus of MATCH: `A1`, `K(1, 2)@3`, `A1:60/61.5` (occ_time and det_time in seconds).
- `expression`, `clauses`: what stands after COMPOSITE, without the CONTEXT. `attributes`: those of the complex class.
- RECENT, CHRONICLE, CONTINUOUS, CUMULATIVE, UNRESTRICTED, or ALL of them: the occurrences, in order, each as its
  constituents. It takes place at the last of them, or at a timer: `1 3 @6` at 6 s; `1 @6/9` is detected at 9 s.
- `until`: the clock at the end, in seconds; a second after the last version if not given.
- `values`: of each occurrence, if given (`"NULL"` is NULL). `lifespans`: per class, where it matters.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from augury.algebra.composite import CompositePlan, Context
from augury.api import compile
from augury.event import EventClass, key_of
from augury.kernels.reference import Event
from augury.kernels.reference.composite import CompositeOccurrence
from tests.match.test_reference import events_of

CORPUS = Path(__file__).parents[1] / "corpus" / "composite"
SECOND = 1_000_000
SHARED = {"classes", "attributes", "clauses", "says"}
KEYS = SHARED | {"name", "history", "expression", "until", "values", "lifespans", "ALL", *Context}

Case = dict[str, Any]


def cases() -> Iterator[Case]:
    """Every case once for each of its contexts, as `context` and `found`."""
    for path in sorted(CORPUS.glob("*.toml")):
        for group in tomllib.loads(path.read_text("utf-8"))["group"]:
            shared = {key: group[key] for key in SHARED & set(group)}
            for written in group["case"]:
                case = {"attributes": "", "clauses": "", "classes": CLASSES, **shared, **written}
                assert set(case) <= KEYS, f"unknown key in {case['name']}: {set(case) - KEYS}"
                assert case.get("says"), f"no sentence says why: {case['name']}"
                assert {"ALL", *Context} & set(case), f"nothing is expected of {case['name']}"
                for context in Context:
                    found = case.get(context, case.get("ALL"))
                    if found is not None:
                        yield {**case, "name": f"{case['name']}-{context.lower()}", "context": context, "found": found}


CLASSES = ["A ()", "B ()", "C ()", "D ()", "K (k INT, v INT)", "L (k INT, v INT)"]


def plan_of(case: Case) -> tuple[CompositePlan, Mapping[str, EventClass]]:
    """The plan of a case, as the parser and the analysis make it, and the classes."""
    classes = "".join(f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {c} ID () LIFESPAN (-1);\n" for c in case["classes"])
    found = f"CREATE COMPLEX EVENT CLASS Found ({case['attributes']}) ID () LIFESPAN (-1)"
    before, _, returned = case["clauses"].partition("RETURN")
    clauses = f"{before} CONTEXT {case['context']} {'RETURN' + returned if returned else ''}"
    program = compile(f"{classes}\n{found}\n  AS COMPOSITE {case['expression']} {clauses};")
    plan = program.class_plan("Found")
    assert plan is not None
    assert isinstance(plan.derivation, CompositePlan)
    return plan.derivation, {key_of(p.event_class.name): p.event_class for p in program.classes}


def history_of(case: Case, classes: Mapping[str, EventClass]) -> tuple[list[Event], int]:
    """The history of a case, and how far the clock goes, in microseconds."""
    events = events_of(case["history"], classes)
    last = max((event.det_time for event in events), default=0)
    return events, round(case["until"] * SECOND) if "until" in case else last + SECOND


def lifespans_of(case: Case) -> dict[str, int]:
    """In microseconds."""
    return {name: int(written.removesuffix("s")) * SECOND for name, written in case.get("lifespans", {}).items()}


def shown(found: Sequence[CompositeOccurrence]) -> list[str]:
    """Occurrences as the corpus writes them; one that takes place elsewhere than at its last constituent shows it."""
    lines = []
    for one in found:
        line = " ".join(map(str, one.constituents))
        if one.seq is None:
            line += f" @{one.occ_time / SECOND:g}"
            line += f"/{one.det_time / SECOND:g}" if one.det_time != one.occ_time else ""
        elif one.seq != one.constituents[-1]:
            line += f" at {one.seq}"
        lines.append(line)
    return lines
