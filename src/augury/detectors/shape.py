"""Items → events in the shape of JSON Lines: names, types of what is spelled out, times.

In: an item, the class it is of, where FIELDS says its attributes are. Out: an event as a mapping, without an id of its
own. It knows neither the source nor what was seen before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from augury import types as t
from augury.algebra.json_paths import Path
from augury.algebra.program import Program
from augury.algebra.wiring import Detection
from augury.clock import show_time
from augury.detectors.paths import ABSENT, parse_field, value_at
from augury.detectors.sensor import BadDetector, Item
from augury.event import TIME_ATTRIBUTES, EventClass, key_of

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_TRUTHS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Field:
    """A name of the class: what it is called in events, its type, and by which names an item may have it."""

    name: str
    type: t.Type | None
    spellings: frozenset[str]
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """What events of a class look like. `key` holds the names of the key in events, empty where there is none."""

    event_class: str
    fields: tuple[Field, ...]
    key: tuple[str, ...]


def shape_of(program: Program, detection: Detection, *, paths: bool = True) -> Shape:
    """The shape of what a detector gives; without `paths`, FIELDS has been applied by who reads the source."""
    plan = program.class_plan(detection.event_class)
    if plan is None:
        raise BadDetector(f"detector `{detection.name}`: the program has no class `{detection.event_class}`")
    event_class = plan.event_class
    foreign = _foreign_names(program, event_class)
    said = {_own(event_class, name): parse_field(path) for name, path in detection.fields} if paths else {}
    declared = {"event_id": None, "occ_time": t.Timestamp(), "det_time": t.Timestamp()}
    types: dict[str, t.Type | None] = {**declared, **{one.name: one.type for one in event_class.attributes}}
    fields = tuple(
        Field(foreign.get(key_of(name), name), kind, _spellings(name, foreign), said.get(name))
        for name, kind in types.items()
    )
    called = {name: field.name for name, field in zip(types, fields, strict=True)}
    return Shape(event_class.name, fields, tuple(called[_own(event_class, name)] for name in event_class.key))


def event_of(shape: Shape, item: Item, det_time_us: int) -> dict[str, object] | None:
    """An item as an event that was detected at a time; None for one that says it is of another class."""
    values = {key_of(name): value for name, value in reversed(list(item.values.items()))}
    named = values.get("event")
    if item.is_event and isinstance(named, str) and key_of(named) != key_of(shape.event_class):
        return None
    event: dict[str, object] = {"event": shape.event_class}
    for field in shape.fields:
        value = _value(field, item, values)
        if value is not ABSENT:
            event[field.name] = value
    _set_times(shape, event, item, det_time_us)
    return event


def withdrawal_of(shape: Shape, key: Iterable[object], det_time_us: int) -> dict[str, object]:
    """The event that withdraws what has vanished."""
    occ_time, det_time = _times(shape)
    event: dict[str, object] = {"event": shape.event_class, **dict(zip(shape.key, key, strict=True))}
    return {**event, occ_time: None, det_time: show_time(det_time_us)}


def _times(shape: Shape) -> tuple[str, str]:
    """What the two times are called in events."""
    return shape.fields[1].name, shape.fields[2].name


def is_withdrawal(shape: Shape, event: Mapping[str, object]) -> bool:
    """Whether an event withdraws."""
    occ_time, _ = _times(shape)
    return occ_time in event and event[occ_time] is None


def values_of(shape: Shape, event: Mapping[str, object]) -> dict[str, object]:
    """What an event says, apart from when it was read."""
    _, det_time = _times(shape)
    return {name: value for name, value in event.items() if name != det_time}


def _set_times(shape: Shape, event: dict[str, object], item: Item, det_time_us: int) -> None:
    occ_time, det_time = _times(shape)
    if not item.is_event and event.get(occ_time, ABSENT) is None:
        del event[occ_time]  # a cell without a time: the thing is there all the same
    if event.get(det_time) is None:
        event[det_time] = show_time(det_time_us)
    if event.get("event_id", ABSENT) is None:
        del event["event_id"]


def _value(field: Field, item: Item, values: Mapping[str, object]) -> object:
    if field.path is not None:
        value = value_at(field.path, item.values)
    else:
        value = next((values[name] for name in field.spellings if name in values), ABSENT)
    return _typed(value, field.type) if item.is_text and isinstance(value, str) else value


def _typed(text: str, kind: t.Type | None) -> object:
    """A text as what it spells; one that spells nothing of the kind stays, and the engine says what is wrong."""
    match kind:
        case t.Int() | t.BigInt() | t.Double() | t.Decimal() | t.Timestamp():
            word = text.strip()
            if not word:
                return None
            return _number(word) if _NUMBER.fullmatch(word) else text
        case t.Boolean():
            return _TRUTHS.get(text.strip().lower(), text)
        case _:
            return text


def _number(word: str) -> int | Decimal:
    return int(word) if word.lstrip("+-").isdecimal() else Decimal(word)


def _own(event_class: EventClass, name: str) -> str:
    """A name as the class has it."""
    if key_of(name) == "event_id":
        return "event_id"
    found = event_class.attribute(name)
    if found is None:
        names = ", ".join(one.name for one in event_class.attributes)
        raise BadDetector(f"class `{event_class.name}` has no attribute `{name}`: it has {names}, occ_time, det_time")
    return found.name


def _foreign_names(program: Program, event_class: EventClass) -> dict[str, str]:
    """By attribute what SOURCE says events call it."""
    return {
        key_of(_own(event_class, own)): foreign
        for source in program.sources
        if key_of(source.event_class) == key_of(event_class.name)
        for foreign, own in source.columns
    }


def _spellings(name: str, foreign: Mapping[str, str]) -> frozenset[str]:
    """The names, as they are matched, by which an item may have an attribute."""
    if key_of(name) in foreign:
        return frozenset({key_of(foreign[key_of(name)])})
    times = {spelling for spelling, time in TIME_ATTRIBUTES.items() if time == name}
    return frozenset({key_of(name), *times})
