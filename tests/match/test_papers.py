"""Every program of the Ode paper, and the examples, from raw events to lines: the kernel against the reference."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import augury
from augury import types as t
from augury.engine.lines import lines
from augury.event import ClassKind
from augury.local.engine import detect
from augury.local.kernel import match_kernel
from augury.local.sources import tables_of
from tests.match.oracle import reference_kernel

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(
    [*EXAMPLES.glob("seeds/ode_*.bicepl"), *EXAMPLES.glob("orders/*.bicepl"), *EXAMPLES.glob("discount/*.bicepl")]
)


def some_value(kind: t.Type, random: Random) -> object:
    match kind:
        case t.String():
            return random.choice("ab")
        case t.Boolean():
            return random.random() < 0.5
        case t.Double():
            return random.choice((0.5, 1.0, 2.5))
        case _:
            return random.randrange(3)


def some_events(program: augury.Program, random: Random) -> list[dict[str, Any]]:
    classes = [p.event_class for p in program.classes if p.event_class.kind is ClassKind.SUBSCRIBED]
    events = []
    for minute in range(12):
        of = random.choice(classes)
        values = {a.name: some_value(a.type, random) for a in of.attributes}
        events.append({"event": of.name, "occ_time": 60 * minute, **values})
    return events


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_kernel_prints_what_the_reference_does(path: Path) -> None:
    program = augury.compile(path.read_text("utf-8"))
    printed = []
    for seed in range(3):
        events = some_events(program, Random(seed))
        found = [detect(program, tables_of(events), kernel) for kernel in (match_kernel, reference_kernel)]
        here, there = (list(lines(f.versions, f.occurrences, program.settings.chronon_us)) for f in found)
        assert here == there
        printed += here
    assert printed
