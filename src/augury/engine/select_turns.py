"""When rows of a SELECT come and go by the passing of time alone.

In: a checked plan and the classes it reads. Out: `Turns`, the times at which a comparison with NOW may change, row by
row; or `Whole`, if NOW is more to it than that. It reads no clock, and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from augury import types as t
from augury.algebra.select import SelectPlan, Turn, Turns, Whole
from augury.clock import UNIT_US
from augury.engine.select_tree import TOO_DEEP, Beyond, Resolved, Value, origins_of, resolved, shown, type_of
from augury.event import EventClass

_UNITS_US: Final = {"DAY": UNIT_US["d"], "HOUR": UNIT_US["h"], "MINUTE": UNIT_US["m"], "SECOND": UNIT_US["s"]}
_COMPARISONS: Final = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.Between)
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Paren)


def turns_of(plan: SelectPlan, classes: Iterable[EventClass]) -> Turns | Whole:
    """When the rows of a SELECT may change without news; `classes` are those of the program."""
    if not plan.uses_now:
        return Turns(())
    try:
        tree = resolved(plan, classes)
        found = [turn for one, other in _comparisons(tree.root) for turn in _turns(tree, one, other)]
    except Beyond as reason:
        return Whole(str(reason))
    except RecursionError:
        return Whole(TOO_DEEP)
    return Turns(tuple(dict.fromkeys(found)))


def _comparisons(root: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """The two sides of all comparisons in which NOW stands; it may stand nowhere else."""
    seen: set[int] = set()
    for now in root.find_all(exp.Placeholder):
        node = now.parent
        while isinstance(node, _ARITHMETIC):
            node = node.parent
        if not isinstance(node, _COMPARISONS):
            raise Beyond(f"NOW is used in {shown(node or now)}, not compared with a time")
        if id(node) in seen:
            continue
        seen.add(id(node))
        sides = (node.args["low"], node.args["high"]) if isinstance(node, exp.Between) else (node.expression,)
        yield from ((node.this, side) for side in sides if any(n.find(exp.Placeholder) for n in (node.this, side)))


@dataclass(frozen=True, slots=True)
class _Linear:
    """So many times NOW, plus each value so many times, plus microseconds."""

    now: int = 0
    values: dict[Value, int] = field(default_factory=dict)
    offset_us: int = 0

    def plus(self, other: _Linear, sign: int) -> _Linear:
        sums = dict(self.values)
        for value, count in other.values.items():
            sums[value] = sums.get(value, 0) + sign * count
        values = {value: count for value, count in sums.items() if count}
        return _Linear(self.now + sign * other.now, values, self.offset_us + sign * other.offset_us)


def _turns(tree: Resolved, one: exp.Expr, other: exp.Expr) -> Iterator[Turn]:
    """One side less the other is ±(NOW − column − offset): the comparison turns where that is 0."""
    less = _linear(tree, one).plus(_linear(tree, other), -1)
    if less.now == 0 and not less.values:
        return
    counts = list(less.values.values())
    if not counts:
        raise Beyond(f"NOW is compared with no column in {shown(one.parent or one)}")
    if len(counts) > 1:
        raise Beyond(f"NOW is compared with two columns in {shown(one.parent or one)}")
    if abs(less.now) != 1 or counts[0] != -less.now:
        raise Beyond(f"NOW is not compared with one time in {shown(one.parent or one)}")
    for event_class, column in sorted(origins_of(next(iter(less.values)))):
        yield Turn(event_class, column, -less.now * less.offset_us)


def _linear(tree: Resolved, node: exp.Expr) -> _Linear:
    match node:
        case exp.Paren():
            return _linear(tree, node.this)
        case exp.Placeholder():
            return _Linear(now=1)
        case exp.Add() | exp.Sub():
            sign = 1 if isinstance(node, exp.Add) else -1
            return _linear(tree, node.this).plus(_linear(tree, node.expression), sign)
        case exp.Interval() | exp.Mul() | exp.Neg():
            return _Linear(offset_us=_duration_us(node))
        case _:
            value = tree.value(node)
            if value is None or not origins_of(value):
                raise Beyond(f"NOW is compared with {shown(node)}, which is no column of a view")
            if type_of(value) != t.TIMESTAMP:
                raise Beyond(f"NOW is compared with {shown(node)}, which is no TIMESTAMP")
            return _Linear(values={value: 1})


def _duration_us(node: exp.Expr) -> int:
    """A duration as written, perhaps so many times."""
    match node:
        case exp.Paren():
            return _duration_us(node.this)
        case exp.Neg():
            return -_duration_us(node.this)
        case exp.Mul():
            operands = node.this.unnest(), node.expression.unnest()
            counts = [int(one.name) for one in operands if isinstance(one, exp.Literal) and _is_whole(one.name)]
            lengths = [one for one in operands if not isinstance(one, exp.Literal)]
            if len(counts) == len(lengths) == 1:
                return counts[0] * _duration_us(lengths[0])
        case exp.Interval(this=exp.Literal() as count, unit=exp.Var() as unit):
            if _is_whole(count.name) and unit.name.upper() in _UNITS_US:
                return int(count.name) * _UNITS_US[unit.name.upper()]
        case _:
            pass
    raise Beyond(f"NOW is compared with {shown(node)}, which is no duration in days, hours, minutes, seconds")


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal()
