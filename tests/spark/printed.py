"""What the reference did, as the lines that engines print (LANGUAGE section 8).

In: a program with events, run by the slow oracle of bitemporal events. Out: the lines, written here from what it says.
It knows nothing of how engines work, but how JSON spells a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from augury import types as t
from augury.algebra.program import Program
from augury.algebra.select import SelectPlan
from augury.clock import moment_of
from augury.event import Attribute
from augury.history.arrivals import arrivals
from augury.history.coming import received
from augury.history.raw import whole_json
from augury.kernels.reference.bitemporal import Action, Raw, Run, Version
from tests.bitemporal.local import _plain as plain
from tests.bitemporal.test_reference import reference
from tests.spark.packed import Case


def reference_lines(case: Case) -> list[str]:
    """The lines of a case by the reference."""
    return list(lines(case.program, reference(case.program, raws_of(case), case.until_us)))


def raws_of(case: Case) -> Sequence[Raw]:
    """The events as the reference takes them, without those that no class could take."""
    if case.raws is not None:
        return case.raws
    found: list[tuple[int, Raw]] = []
    classes = received(case.program)
    for code, rows in arrivals(case.program, [case.raw], until_us=case.end_us).rows.items():
        part, event_class = rows.part, classes[code]
        ids = [None] * len(part) if part.event_id is None else part.event_id.to_pylist()
        gone = [False] * len(part) if part.withdrawal is None else part.withdrawal.tolist()
        columns = [column.to_pylist() for column in part.values]
        for row, position in enumerate(rows.position.tolist()):
            values = tuple(plain(c[row], a.type) for c, a in zip(columns, event_class.attributes, strict=True))
            occ_time = None if gone[row] else int(part.occ_time[row])
            found.append((position, Raw(event_class.name, values, occ_time, int(part.det_time[row]), ids[row])))
    return [raw for _, raw in sorted(found, key=lambda one: one[0])]


def lines(program: Program, run: Run) -> Iterator[str]:
    """The lines of a run: at each tick the versions of complex events, then the actions."""
    for tick in run.ticks:
        yield from (_version_line(program, version) for version in _in_order(program, tick.published))
        yield from (_action_line(program, action) for action in tick.actions)


def _in_order(program: Program, published: Sequence[Version]) -> Iterator[Version]:
    """By class as they are; those that have neither `seq` nor key by their constituents, as lines have them."""
    for name, versions in groupby(published, key=lambda version: version.event_class):
        plan = program.class_plan(name)
        assert plan is not None
        own = list(versions)
        is_plain = not plan.event_class.key and not any(version.seq for version in own)
        is_derived = not isinstance(plan.derivation, SelectPlan)
        yield from sorted(own, key=lambda version: version.constituents) if is_plain and is_derived else own


def _version_line(program: Program, version: Version) -> str:
    plan = program.class_plan(version.event_class)
    assert plan is not None
    row: dict[str, Any] = {"event": version.event_class, "change": str(version.change)}
    if version.seq is not None:
        row["seq"] = version.seq
    row["occ_time"] = _value(version.occ_time, t.TIMESTAMP)
    row["det_time"] = _value(version.det_time, t.TIMESTAMP)
    row["constituents"] = list(version.constituents)
    attributes = plan.event_class.attributes
    return whole_json(row | {a.name: _value(v, a.type) for a, v in zip(attributes, version.values, strict=True)})


def _action_line(program: Program, action: Action) -> str:
    version = action.version
    plan = program.class_plan(version.event_class)
    assert plan is not None
    call = plan.statements[action.statement - 1].actions[action.place - 1]
    arguments = [_value(v, scalar.type) for v, scalar in zip(action.arguments, call.arguments, strict=True)]
    key = {a.name: _value(v, a.type) for a, v in zip(_key(program, version), version.key, strict=False)}
    row = {"action": action.name, "args": arguments, "event": version.event_class, "key": key}
    return whole_json({**row, "tick": moment_of(action.tick)})


def _key(program: Program, version: Version) -> list[Attribute]:
    """The attributes of the key; none where events are known by their number."""
    plan = program.class_plan(version.event_class)
    assert plan is not None
    found = [plan.event_class.attribute(name) for name in plan.event_class.key]
    return [attribute for attribute in found if attribute is not None]


def _value(value: Any, kind: t.Type) -> Any:
    """A value of the reference as JSON spells it; its times and durations are numbers."""
    match kind:
        case t.Timestamp() if value is not None:
            return moment_of(value)
        case t.Duration() if value is not None:
            return timedelta(microseconds=value)
        case _:
            return value
