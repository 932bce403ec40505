"""What a tick leaves for the next.

In: an engine's plan. Out: an `EngineState`, which ticks change in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from augury.algebra.scalar import Value
from augury.engine.chronon import Chronon, QueuedPost
from augury.engine.occurrence_state import OccurrenceState, occurrence_state
from augury.engine.parts import SelectState, select_state
from augury.engine.plan import EnginePlan, SelectUnit, Unit
from augury.engine.traces import Traces
from augury.engine.trigger_plan import TriggerUnit
from augury.engine.unit_kernels import Kernel, begun, by_occurrence, held_by
from augury.event import key_of
from augury.kernels import composite
from augury.kernels.batch import Integers
from augury.kernels.bitemporal import ClassState, Expiry, class_state
from augury.kernels.composite.state import GraphState
from augury.kernels.firing import Switched

Detection = Kernel | OccurrenceState | SelectState
"""What a unit remembers."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An occurrence of a trigger's expression that no firing has used.

    `values` has the fields of its constituents that the structure names, by class and attribute, those of classes
    without a constituent left out. `last` is the class of the last constituent, with what a firing by the clock asks
    of it. A tick after `until` purges it.
    """

    det_time: int
    until: int
    constituents: tuple[int, ...]
    values: Mapping[tuple[str, str], Value]
    last: tuple[str, Mapping[str, Value]]


@dataclass(slots=True)
class TriggerState:
    """What a trigger remembers: the state of its expression, and the occurrences that wait, the oldest first."""

    detection: GraphState | None
    waiting: list[Waiting] = field(default_factory=list)


@dataclass(slots=True)
class TriggersState:
    """What triggers remember, as declared; how often each has fired, by name; what is off; what rules posted.

    `pending` are the posts that the last tick left for the next.
    """

    each: list[TriggerState] = field(default_factory=list)
    fired: dict[str, int] = field(default_factory=dict)
    off: set[tuple[Switched, str]] = field(default_factory=set)
    pending: list[QueuedPost] = field(default_factory=list)

    def is_on(self, kind: Switched, name: str) -> bool:
        """Whether a rule, group, trigger or class is enabled by itself."""
        return (kind, key_of(name)) not in self.off


@dataclass(slots=True)
class EngineState:
    """The live views, timers, expiries and detection states of a program, after the tick `tick`.

    `failing` are the units of SELECTs that failed when they were last evaluated: they are tried again at every tick.
    `chronon` is what steps have read since.
    """

    classes: list[ClassState]
    expiry: Expiry
    detection: list[Detection]
    traces: Traces = field(default_factory=Traces)
    seq: int = 0
    tick: int | None = None
    failing: set[int] = field(default_factory=set)
    triggers: TriggersState = field(default_factory=TriggersState)
    chronon: Chronon = field(default_factory=Chronon)


def forget_unheld(plan: EnginePlan, state: EngineState) -> None:
    """Forget which events versions belong to that no detector holds, and nothing that is built on others asks about."""
    held = [np.zeros(0, np.int64), *map(_held, state.detection)]
    # What a MATCH finds in SELECTed events is made of the versions below these, which no detector need have seen.
    current = [one.view.times["seq"] for one in state.classes] if plan.is_built_on_complex else None
    state.traces.keep(np.unique(np.concatenate(held)), current)


def _held(detection: Detection) -> Integers:
    match detection:
        case OccurrenceState():
            return detection.held_seqs()
        case SelectState():
            return np.zeros(0, np.int64)
        case _:
            return held_by(detection)


def initial(plan: EnginePlan, after_number: int = 0) -> EngineState:
    """Before the first tick; versions are numbered after the number given, so that engines may number differently."""
    classes = [class_state(watched) for watched in plan.watches]
    for one in classes:
        one.view.read = after_number
    return EngineState(
        classes,
        Expiry(plan.lifespans_us),
        [_initial(plan, unit) for unit in plan.units],
        triggers=TriggersState([waiting_for(plan, unit) for unit in plan.triggers]),
    )


def waiting_for(plan: EnginePlan, unit: TriggerUnit) -> TriggerState:
    """A trigger that has seen nothing."""
    if unit.detector is None:
        return TriggerState(None)
    classes = (*plan.received_classes, *(plan.classes[place].event_class for place in unit.reads))
    found = composite.initial_state(unit.detector, classes)
    assert isinstance(found, GraphState), "it goes step by step"
    return TriggerState(found)


def _initial(plan: EnginePlan, unit: Unit) -> Detection:
    if isinstance(unit, SelectUnit):
        return select_state(unit, plan.classes[unit.place].event_class)
    return begun(plan, unit) if by_occurrence(unit) is None else occurrence_state(plan, unit)
