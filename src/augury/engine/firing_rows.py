"""Firings of a trigger ↔ one table, as stores keep it and people see it.

In: the parameters of a trigger, firings with their ticks. Out: an Arrow table, or its rows as plain values. What rules
were called and what they did is one text of JSON a firing, with times as ISO texts: types come from the program.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.algebra.program import Program
from augury.algebra.rule import ActionCall, Rule, Trigger
from augury.algebra.scalar import Value
from augury.clock import moment_of
from augury.diagnostics import closest
from augury.engine.ticked import FiredTrigger
from augury.event import Attribute, key_of
from augury.history.raw import whole_json
from augury.kernels.columns import arrow_type
from augury.kernels.firing import Call, Done, Outcome
from augury.types import TIMESTAMP, Type

_MOMENT: Final = arrow_type(TIMESTAMP)
_BEFORE: Final = {
    "number": pa.int64(),
    "tick": _MOMENT,
    "det_time": _MOMENT,
    "now": _MOMENT,
    "event": pa.string(),
    "key": pa.string(),
    "seq": pa.int64(),
    "constituents": pa.list_(pa.int64()),
}
_AFTER: Final = {"returned": pa.string(), "calls": pa.string()}
FIRING_COLUMNS: Final = (*_BEFORE, *_AFTER)
"""The columns that are no parameters; the parameters stand before the last two."""

_JSON: Final = ("key", "returned", "calls")


@dataclass(frozen=True, slots=True)
class FiringShape:
    """The table of a trigger: its parameters, and what our own columns are called beside them, as FIRING_COLUMNS."""

    parameters: tuple[Attribute, ...]
    names: tuple[str, ...]

    def schema(self) -> pa.Schema:
        """The columns."""
        ours = dict(zip(FIRING_COLUMNS, self.names, strict=True))
        return pa.schema(
            [
                *((ours[name], kind) for name, kind in _BEFORE.items()),
                *((one.name, arrow_type(one.type)) for one in self.parameters),
                *((ours[name], kind) for name, kind in _AFTER.items()),
            ]
        )


def shape_of(parameters: Sequence[Attribute]) -> FiringShape:
    """The table for these parameters: our own names have as many `_` behind as it takes to be no parameter's."""
    taken = {key_of(one.name) for one in parameters}

    def free(name: str) -> str:
        return name if key_of(name) not in taken else free(name + "_")

    return FiringShape(tuple(parameters), tuple(map(free, FIRING_COLUMNS)))


def trigger_named(program: Program, name: str) -> Trigger:
    """The trigger of that name; raises `KeyError` with a sentence."""
    found = next((one for one in program.triggers if key_of(one.name) == key_of(name)), None)
    if found is None:
        known = [one.name for one in program.triggers]
        meant = closest(name, known)
        hint = f"did you mean `{meant}`?" if meant else f"there are {', '.join(known) or 'none'}"
        raise KeyError(f"there is no trigger `{name}`; {hint}")
    return found


def firings_schema(trigger: Trigger) -> pa.Schema:
    """The columns of the table of a trigger."""
    return shape_of(trigger.parameters).schema()


def firings_of(program: Program, trigger: Trigger, parts: Sequence[tuple[int, FiredTrigger]]) -> pa.Table:
    """The table of firings with their ticks, in the order given."""
    shape = shape_of(trigger.parameters)
    rules = {key_of(rule.name): rule for rule in program.rules}
    returns = trigger.returns[0] if trigger.returns is not None else None
    firings = [fired.firing for _, fired in parts]
    columns: list[list[Any]] = [
        [fired.number for _, fired in parts],
        [tick for tick, _ in parts],
        [firing.det_time for firing in firings],
        [firing.now for firing in firings],
        [fired.event for _, fired in parts],
        [whole_json(fired.key) for _, fired in parts],
        [firing.seq for firing in firings],
        [firing.constituents for firing in firings],
        *([firing.parameters[place] for firing in firings] for place in range(len(trigger.parameters))),
        [whole_json(_plain(firing.returned, returns)) for firing in firings],
        [
            whole_json([call_row(program, rules[key_of(call.rule)], call) for call in firing.calls])
            for firing in firings
        ],
    ]
    schema = shape.schema()
    return pa.table([pa.array(c, kind) for c, kind in zip(columns, schema.types, strict=True)], schema=schema)


def known_firings(table: pa.Table, trigger: Trigger, known_at_us: int) -> pa.Table:
    """The firings at what was known at a time."""
    name = dict(zip(FIRING_COLUMNS, shape_of(trigger.parameters).names, strict=True))["det_time"]
    return table.filter(pc.less_equal(table[name], pa.scalar(known_at_us, pa.int64()).cast(_MOMENT)))


def firing_rows(table: pa.Table, shape: FiringShape) -> list[dict[str, Any]]:
    """The rows of a table of firings as plain values: what is kept as JSON is read, and its fractions are decimals."""
    texts = [name for name, ours in zip(shape.names, FIRING_COLUMNS, strict=True) if ours in _JSON]
    rows: list[dict[str, Any]] = table.to_pylist()
    return [{**row, **{name: json.loads(row[name], parse_float=Decimal) for name in texts}} for row in rows]


def call_row(program: Program, rule: Rule, call: Call) -> dict[str, Any]:
    """What became of a rule of a structure, as JSON has it."""
    wanted = rule.actions if call.outcome is Outcome.HELD else rule.alternatives
    deeds: list[dict[str, Any]] = []
    for deed, said in zip(call.deeds, wanted, strict=False):  # after a failure the rest is not done
        if isinstance(deed, Done):
            assert isinstance(said, ActionCall), "deeds stand in the order of the rule"
            arguments = _each(deed.arguments, [argument.type for argument in said.arguments])
            deeds.append({"action": deed.name, "arguments": arguments, "value": deed.value, "failure": deed.failure})
        else:
            plan = program.class_plan(deed.event_class)
            assert plan is not None, "a rule posts events of a class of its program"
            attributes = plan.event_class.attributes
            values = _each(deed.values, [one.type for one in attributes])
            by_name = {one.name: value for one, value in zip(attributes, values, strict=True)}
            refused = None if deed.refused is None else deed.refused.value
            deeds.append({"post": deed.event_class, "values": by_name, "seq": deed.seq, "refused": refused})
    arguments = _each(call.arguments, [one.type for one in rule.parameters])
    return {
        "rule": call.rule,
        "outcome": call.outcome.value,
        "arguments": arguments,
        "deeds": deeds,
        "value": call.value,
    }


def _each(values: Sequence[Value], kinds: Sequence[Type]) -> list[Any]:
    """Values as JSON has them; a rule that did not run has none."""
    return [_plain(value, kind) for value, kind in zip(values, kinds, strict=False)]


def _plain(value: Value, kind: Type | None) -> Any:
    """A time or a duration, which are microseconds, as such."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    match kind:
        case t.Timestamp():
            return moment_of(value)
        case t.Duration():
            return timedelta(microseconds=value)
        case _:
            return value
