"""The lines that `augury run` is to print of a program with triggers, by the slow reference and written here.

In: a program and a file of JSON Lines. Out: firings, and the lines of LANGUAGE section 8 at each tick: events, what
statements did, then what rules did, in the order of firing. Values are texts, whole numbers and decimals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from augury import types as t
from augury.algebra.program import Program
from augury.algebra.scalar import Value
from augury.clock import moment_of
from augury.event import EventClass
from augury.history.raw import whole_json
from augury.kernels.firing import Done, Firing
from augury.kernels.reference.bitemporal import Raw, Version
from augury.kernels.reference.triggers import Triggered, triggered
from tests.bitemporal.duck import selects_of


def told(program: Program, events: Path) -> Triggered:
    """What the reference says."""
    read = [json.loads(line, parse_float=Decimal) for line in events.read_text("utf-8").splitlines()]
    return triggered(program, selects_of(program), [_raw(program, event) for event in read])


def _raw(program: Program, event: dict[str, Any]) -> Raw:
    event_class = _class(program, event["event"])
    values = tuple(_value(event.get(one.name), one.type) for one in event_class.attributes)
    occ_time = _time(event["occ_time"])
    det_time = _time(event.get("det_time"))
    return Raw(event_class.name, values, occ_time, occ_time if det_time is None else det_time, event.get("event_id"))


def _class(program: Program, name: str) -> EventClass:
    plan = program.class_plan(name)
    assert plan is not None
    return plan.event_class


def _value(value: Any, of: t.Type) -> Value:
    if isinstance(of, t.Decimal) and value is not None:
        value = Decimal(value).quantize(Decimal(1).scaleb(-of.scale))
    assert value is None or isinstance(value, bool | int | str | Decimal)
    return value


def _time(text: str | None) -> int | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp()) * 1_000_000


def lines(program: Program, found: Triggered) -> Iterator[str]:
    """The lines of a run, in order."""
    for tick in found.run.ticks:
        yield from (_version_line(program, version) for version in tick.published)
        for action in tick.actions:
            yield _action_line(program, action.name, action.arguments, action.version, {"tick": moment_of(tick.tick)})
        for firing in found.firings:
            if firing.now == tick.tick:
                yield from _firing_lines(program, found, firing)


def _version_line(program: Program, version: Version) -> str:
    row: dict[str, Any] = {"event": version.event_class, "change": str(version.change)}
    if version.seq is not None:
        row["seq"] = version.seq
    row["occ_time"] = None if version.occ_time is None else moment_of(version.occ_time)
    row |= {"det_time": moment_of(version.det_time), "constituents": list(version.constituents)}
    names = [attribute.name for attribute in _class(program, version.event_class).attributes]
    return whole_json(row | dict(zip(names, version.values, strict=True)))


def _firing_lines(program: Program, found: Triggered, firing: Firing) -> Iterator[str]:
    """What its rules did; the event is the triggering one, or by the clock the last constituent."""
    seq = firing.constituents[-1] if firing.event_class is None else firing.seq
    name = firing.event_class
    versions = [v for one in found.run.ticks for v in (*one.read, *one.published) if v.seq == seq]
    version = next(v for v in versions if name is None or v.event_class == name)
    for call in firing.calls:
        by = {"trigger": firing.trigger, "rule": call.rule, "tick": moment_of(firing.now)}
        for deed in call.deeds:
            if isinstance(deed, Done):
                yield _action_line(program, deed.name, deed.arguments, version, by)


def _action_line(
    program: Program, name: str, arguments: tuple[Value, ...], version: Version, more: dict[str, Any]
) -> str:
    key = dict(zip(_class(program, version.event_class).key, version.key, strict=False))
    row = {"action": name, "args": list(arguments), "event": version.event_class, "key": key}
    return whole_json(row | more)
