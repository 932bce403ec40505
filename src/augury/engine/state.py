"""What a tick leaves for the next.

In: an engine's plan. Out: an `EngineState`, which ticks change in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from augury.engine.parts import SelectState, select_state
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit, SelectUnit, Unit
from augury.engine.traces import Traces
from augury.event import EventClass
from augury.kernels import composite, match
from augury.kernels.batch import Integers
from augury.kernels.bitemporal import ClassState, Expiry, class_state

Detection = match.MatchState | composite.CompositeState | SelectState
"""What a unit remembers."""


@dataclass(slots=True)
class EngineState:
    """The live views, timers, expiries and detection states of a program, after the tick `tick`.

    `failing` are the units of SELECTs that failed when they were last evaluated: they are tried again at every tick.
    """

    classes: list[ClassState]
    expiry: Expiry
    detection: list[Detection]
    traces: Traces = field(default_factory=Traces)
    seq: int = 0
    tick: int | None = None
    failing: set[int] = field(default_factory=set)


def forget_unheld(plan: EnginePlan, state: EngineState) -> None:
    """Forget which events versions belong to that no detector holds, and nothing that is built on others asks about."""
    held = [np.zeros(0, np.int64), *map(_held, state.detection)]
    # What a MATCH finds in SELECTed events is made of the versions below these, which no detector need have seen.
    current = [one.view.times["seq"] for one in state.classes] if plan.is_built_on_complex else None
    state.traces.keep(np.unique(np.concatenate(held)), current)


def _held(detection: Detection) -> Integers:
    match detection:
        case match.MatchState():
            return match.held_seqs(detection)
        case SelectState():
            return np.zeros(0, np.int64)
        case _:
            return composite.held_seqs(detection)


def history_classes(plan: EnginePlan, unit: MatchUnit | CompositeUnit) -> tuple[EventClass, ...]:
    """The classes of the history that a unit reads."""
    return (*plan.received_classes, *(plan.classes[place].event_class for place in unit.reads))


def initial(plan: EnginePlan, after_number: int = 0) -> EngineState:
    """Before the first tick; versions are numbered after the number given, so that engines may number differently."""
    classes = [class_state(watched) for watched in plan.watches]
    for one in classes:
        one.view.read = after_number
    return EngineState(
        classes,
        Expiry(plan.lifespans_us),
        [_initial(plan, unit) for unit in plan.units],
    )


def _initial(plan: EnginePlan, unit: Unit) -> Detection:
    match unit:
        case MatchUnit():
            return match.initial_state(unit.detector, history_classes(plan, unit))
        case CompositeUnit():
            return composite.initial_state(unit.detector, history_classes(plan, unit))
        case SelectUnit():
            return select_state(unit, plan.classes[unit.place].event_class)
