"""Which versions have to do with an event of a MATCH or COMPOSITE class, and at which it could have taken place.

In: a plan, the values asked for, the record of a run. Out: the version to ask the kernel about, or what never came. It
looks at the shape of the expression only; what failed there is the kernel's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from augury.algebra import composite as c
from augury.algebra import expression as m
from augury.algebra.composite import CompositePlan
from augury.algebra.expression import Expression, MatchPlan, Primitive, Variable
from augury.algebra.scalar import Constant, Field
from augury.event import key_of
from augury.kernels.batch import Batch
from augury.kernels.composite.inline import inline as inline_composite
from augury.kernels.match.inline import inline as inline_match
from augury.kernels.match.past import plain
from augury.trying.simulate_record import SELECTED, Record, Version

Plan = MatchPlan | CompositePlan


@dataclass(frozen=True, slots=True)
class Wanted:
    """A part that the event asked about needs: a class, values by number of the attribute, and the part as text.

    `completes`: the expression may take place at an event of it.
    """

    event_class: str
    values: Mapping[int, Constant]
    text: str
    completes: bool

    def fits(self, version: Version) -> bool:
        """Whether a version is one that it asks for, whatever its mask says."""
        if version.is_withdrawal or key_of(version.event_class.name) != key_of(self.event_class):
            return False
        columns = list(version.values.values())
        return all(columns[number].value == value.value for number, value in self.values.items())


def wanted_by(plan: Plan, wanted: Mapping[str, Constant], record: Record) -> list[Wanted]:
    """The parts that have to do with the values of some attributes of the class, and those that complete it."""
    by_variable: dict[str, Constant] = {}
    by_field: dict[tuple[str, str], Constant] = {}
    for feed in plan.feeds:
        value = next((v for name, v in wanted.items() if key_of(name) == key_of(feed.attribute)), None)
        if value is None or not isinstance(feed.value, Field):
            continue
        if feed.value.scope:
            by_field[key_of(feed.value.scope), key_of(feed.value.name)] = value
        else:
            by_variable[key_of(feed.value.name)] = value
    parts = list(_primitives(plan))
    completing = _places(plan, parts)
    found = []
    for part in parts:
        place = record.place_of(part.event_class)
        assert place is not None, "analysis has looked the class up"
        attributes = record.plan.classes[place].event_class.attributes
        values = {
            number: by_variable[key_of(binding.name)]
            for number, binding in enumerate(part.bindings)
            if isinstance(binding, Variable) and key_of(binding.name) in by_variable
        }
        for number, attribute in enumerate(attributes):
            named = key_of(part.event_class), key_of(attribute.name)
            values |= {number: by_field[named]} if named in by_field else {}
        if values or id(part) in completing or not wanted:
            found.append(Wanted(part.event_class, values, _text(plan, part), id(part) in completing))
    return found


def came(wanted: Iterable[Wanted], record: Record) -> list[tuple[Version, Wanted]]:
    """The versions that parts ask for, in the order of the history as far as `seq` tells it."""
    parts = list(wanted)
    found = [
        (version, part)
        for versions in record.versions.values()
        for version in versions
        for part in parts
        if part.fits(version)
    ]
    return sorted(found, key=lambda one: (one[0].tick, one[0].seq or SELECTED, one[0].place))


def of_key(history: Batch, wanted: Iterable[Wanted]) -> Batch:
    """The history without the versions of other values: those of a COMPOSITE's other graphs."""
    parts = list(wanted)
    kept = np.ones(len(history), np.bool_)
    for code, event_class in enumerate(history.classes):
        own = [part for part in parts if key_of(part.event_class) == key_of(event_class.name)]
        if not own or not all(part.values for part in own):
            continue
        rows, table = history.row, history.tables[code]
        for place in np.flatnonzero(history.code == code).tolist():
            row = int(rows[place])
            kept[place] = any(
                all(plain(table.column(number)[row]) == value.value for number, value in part.values.items())
                for part in own
            )
    return history.at(np.flatnonzero(kept))


def is_timed(plan: Plan) -> bool:
    """Whether the clock may complete it."""
    if not isinstance(plan, CompositePlan):
        return False
    return any(isinstance(one, c.Plus | c.AbsentFor | c.Periodic) for one in c.walk(plan.expression))


def _text(plan: Plan, part: Primitive) -> str:
    return inline_match(part) if isinstance(plan, MatchPlan) else inline_composite(part)


def _primitives(plan: Plan) -> Iterator[Primitive]:
    parts = m.walk(plan.expression) if isinstance(plan, MatchPlan) else c.walk(plan.expression)
    yield from (one for one in parts if isinstance(one, Primitive))


def _places(plan: Plan, parts: Iterable[Primitive]) -> set[int]:
    """The parts, by id, at whose events the expression can take place; all, where its shape does not tell."""
    found = _of_match(plan.expression) if isinstance(plan, MatchPlan) else _of_composite(plan.expression)
    return found or set(map(id, parts))


def _of_match(expression: Expression) -> set[int] | None:
    """None where it may be any event."""
    op = m.MatchOperator
    match expression:
        case Primitive():
            return {id(expression)}
        case m.Some(operand=operand) | m.Exists(operand=operand) | m.Equate(operand=operand) | m.Nth(operand=operand):
            return _of_match(operand)
        case m.Apply(operator=op.OR, operands=operands):
            sides = [_of_match(one) for one in operands]
            return None if None in sides else set().union(*(side for side in sides if side is not None))
        case m.Apply(operator=op.AND, operands=operands):
            found = [side for one in operands if (side := _of_match(one)) is not None]
            return set().union(*found) if found else None
        case m.Apply(operator=op.RELATIVE | op.PRIOR | op.SEQUENCE | op.PIPE | op.SERIES, operands=(*_, last)):
            return _of_match(last)
        case m.Apply(operator=op.AFTER_FIRST | op.BETWEEN_EACH | op.RELATIVE_PLUS, operands=(first, *_)):
            return _of_match(first)
        case m.Apply(operator=op.FIRST_AFTER, operands=(_, second, _)):
            return _of_match(second)
        case _:
            return None


def _of_composite(expression: c.Composite) -> set[int] | None:
    """None where it may be any event, or the clock."""
    op = c.CompositeOperator
    match expression:
        case Primitive():
            return {id(expression)}
        case c.Node(operator=op.SEQUENCE, operands=(*_, last)):
            return _of_composite(last)
        case c.Node(operator=op.NOT):
            return None
        case c.Node(operands=operands) | c.AnyOf(operands=operands):
            found = [side for one in operands if (side := _of_composite(one)) is not None]
            return set().union(*found) if found else None
        case c.Bounded(operand=operand) | c.Scoped(operand=operand) | c.Repeat(operand=operand):
            return _of_composite(operand)
        case c.NotBetween(closing=closing) | c.Aperiodic(closing=closing, gathered=True):
            return _of_composite(closing)
        case c.Aperiodic(middle=middle):
            return _of_composite(middle)
        case _:
            return None
