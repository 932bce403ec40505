"""What a trigger remembers as bytes, and back: the state of its expression, and the occurrences that wait.

In: a plan and a state. Out: JSON with the bytes of the expression's state. How often it has fired is kept elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from typing import Any

from augury.engine.firing import read_value, written_value
from augury.engine.plan import EnginePlan
from augury.engine.state import EngineState, TriggerState, Waiting
from augury.engine.trigger_plan import TriggerUnit
from augury.event import EventClass
from augury.kernels.composite import saved as composite_saved
from augury.kernels.composite.state import GraphState


def trigger_fingerprint(unit: TriggerUnit) -> str:
    """The same for triggers whose states fit each other: of one name, with the same events and expression."""
    expression = "" if unit.detector is None else unit.detector.fingerprint()
    events = sorted(unit.triggering)
    return hashlib.sha256(repr((unit.name, unit.by_clock, events, expression)).encode()).hexdigest()


def saved_trigger(plan: EnginePlan, number: int, state: EngineState) -> bytes:
    """What a trigger remembers."""
    unit, one = plan.triggers[number], state.triggers.each[number]
    content = None
    if unit.detector is not None:
        assert one.detection is not None
        found = composite_saved.saved(one.detection, unit.detector, _classes(plan, unit))
        content = b64encode(found).decode()
    return json.dumps([content, [_written(waiting) for waiting in one.waiting]]).encode()


def loaded_trigger(plan: EnginePlan, number: int, data: bytes) -> TriggerState:
    """The same again."""
    unit = plan.triggers[number]
    content, waiting = json.loads(data)
    detection = None
    if unit.detector is not None:
        found = composite_saved.loaded(b64decode(content), unit.detector, _classes(plan, unit))
        assert isinstance(found, GraphState), "it goes step by step"
        detection = found
    return TriggerState(detection, [_read(one) for one in waiting])


def _classes(plan: EnginePlan, unit: TriggerUnit) -> tuple[EventClass, ...]:
    return (*plan.received_classes, *(plan.classes[place].event_class for place in unit.reads))


def _written(one: Waiting) -> Any:
    values = [[scope, name, written_value(value)] for (scope, name), value in one.values.items()]
    last = {name: written_value(value) for name, value in one.last[1].items()}
    return [one.det_time, one.until, one.constituents, values, one.last[0], last]


def _read(written: Any) -> Waiting:
    det_time, until, constituents, values, name, last = written
    return Waiting(
        det_time,
        until,
        tuple(constituents),
        {(scope, attribute): read_value(value) for scope, attribute, value in values},
        (name, {attribute: read_value(value) for attribute, value in last.items()}),
    )
