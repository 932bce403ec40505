"""A state of a changed program, put together of the one before and of what the history that is left gives.

Where nothing is left, classes that stay go on as if nothing had happened; where all is left, so do the new ones.
"""

from __future__ import annotations

import re
from random import Random

import pytest

from augury.algebra.program import ClassPlan, Program
from augury.api import ProgramError, compile
from augury.duck.selects import runnable
from augury.engine.grafting import Grown, grafted, kept_of
from augury.engine.ledger import joined, ledger_of, lines
from augury.engine.plan import EnginePlan, engine_plan
from augury.engine.replacing import meaning_of
from augury.engine.sharded import parted
from augury.engine.snapshot import loaded_state, saved_state
from augury.engine.state import EngineState, initial
from augury.engine.tick import Ports, ticks
from augury.event import ClassKind, key_of
from augury.history.arrivals import Arrivals, arrivals
from augury.kernels.reference.bitemporal import Raw
from tests.bitemporal.generate import Generated, generate, generate_mixed
from tests.bitemporal.generate_corrections import generate_corrected
from tests.bitemporal.local import raw_rows

ZED = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Zed (z INT) ID (z) LIFESPAN (1d) ON ANNOUNCEMENT DO zed(new.z);
CREATE COMPLEX EVENT CLASS Zeds (z INT) ID (z) LIFESPAN (1d) AS MATCH Zed(z) OVER (Zed);
"""


def came_in(program: Program, raws: tuple[Raw, ...]) -> Arrivals:
    return arrivals(program, [raw_rows(program, raws)])


def ran(plan: EnginePlan, state: EngineState, came: Arrivals, until: int) -> list[str]:
    """What is said up to a time, as lines."""
    done = list(ticks(plan, state, came, until, Ports(runnable(plan.program))))
    return list(lines(plan.program, joined(plan.program, [ledger_of(plan.program, done)])))


def same_in(old: Program, new: Program) -> set[str]:
    """The classes that mean the same in both, by the names they are matched by."""
    had = {key_of(plan.event_class.name): meaning_of(plan) for plan in old.classes}
    return {name for plan in new.classes if had.get(name := key_of(plan.event_class.name)) == meaning_of(plan)}


def middle(case: Generated) -> int:
    """A tick between the versions of a case."""
    times = sorted(raw.det_time for raw in case.raws if raw.det_time is not None)
    chronon_us = case.program.settings.chronon_us
    return (times[len(times) // 2] // chronon_us + 1) * chronon_us


def again(plan: EnginePlan, state: EngineState) -> EngineState:
    return loaded_state(plan, saved_state(plan, state))


GENERATORS = {"selects": generate, "mixed": generate_mixed, "corrected": generate_corrected}


@pytest.mark.parametrize("kind", GENERATORS)
def test_classes_that_stay_go_on_though_nothing_of_the_history_is_left(kind: str) -> None:
    compared = 0
    for seed in range(25):
        case = GENERATORS[kind](seed)
        begun, at = case.text.index("CREATE"), middle(case)
        text = case.text[:begun] + ZED + case.text[begun:]
        if kind == "corrected":
            # The history of a MATCH by occurrence has all classes, so that it would be another with more of them.
            text = case.text
        old, new = engine_plan(case.program), engine_plan(compile(text))
        read, waits = parted(came_in(case.program, case.raws), at)
        state = initial(old)
        ran(old, state, read, at)
        kept = kept_of([old], new, same_in(old.program, new.program))
        assert kept == same_in(old.program, new.program), seed
        found = grafted(new, initial(new), [Grown(old, again(old, state))], kept)
        undisturbed = ran(old, state, waits, case.until)
        _, later = parted(came_in(new.program, case.raws), at)
        assert ran(new, again(new, found), later, case.until) == undisturbed, seed
        compared += bool(undisturbed)
    assert compared >= 8


def without_some(case: Generated, seed: int) -> Program | None:
    """The program of a case without some of its complex classes; None if nothing can be left out."""
    random = Random(f"without {seed}")
    statements = re.split(r"(?<=;\n)", case.text)
    derived = [one for one in statements if "COMPLEX EVENT CLASS" in one]
    random.shuffle(derived)
    gone: list[str] = []
    for one in derived[: random.choice([1, 1, 2])]:
        try:
            compile("".join(s for s in statements if s not in (*gone, one)))
        except ProgramError:
            continue
        gone.append(one)
    return compile("".join(s for s in statements if s not in gone)) if gone else None


@pytest.mark.parametrize("kind", GENERATORS)
def test_new_classes_go_on_as_they_were_worked_out(kind: str) -> None:
    compared = 0
    for seed in range(60):
        case = GENERATORS[kind](seed)
        before = without_some(case, seed)
        if before is None:
            continue
        old, new, at = engine_plan(before), engine_plan(case.program), middle(case)
        read, waits = parted(came_in(case.program, case.raws), at)
        less, state, whole = came_in(before, case.raws), initial(old), initial(new)
        names = {plan.event_class.name for plan in before.classes}
        first, second = parted(less, at)
        said = [ran(old, state, first, at), [one for one in ran(new, whole, read, at) if of(one) in names]]
        known, grown = again(new, whole), Grown(old, again(old, state))
        wanted = ran(new, whole, waits, case.until)
        was = live(old, grown.state), live(new, known)
        said += [ran(old, state, second, case.until), [one for one in wanted if of(one) in names]]
        if said[0] != said[1] or said[2] != said[3] or not was[0] <= was[1] or names_in(was[1] - was[0]) & names:
            continue  # what is new makes events live longer that it is made of
        kept = kept_of([old], new, same_in(before, case.program))
        assert kept >= {key_of(one.event_class.name) for one in case.program.classes if is_received(one)}
        assert ran(new, again(new, grafted(new, known, [grown], kept)), waits, case.until) == wanted, seed
        compared += bool(wanted)
    assert compared >= 8


def live(plan: EnginePlan, state: EngineState) -> set[tuple[str, str]]:
    """The events that are there, by class and key."""
    views = zip(plan.classes, state.classes, strict=True)
    return {(one.event_class.name, str(key)) for one, of_class in views for key in of_class.view.slots}


def names_in(events: set[tuple[str, str]]) -> set[str]:
    return {name for name, _ in events}


def of(line: str) -> str:
    found = re.search(r'"event": "(\w+)"', line)
    assert found is not None
    return found[1]


def is_received(plan: ClassPlan) -> bool:
    return plan.event_class.kind is not ClassKind.COMPLEX
