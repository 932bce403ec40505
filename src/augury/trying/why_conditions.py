"""Conditions for one event at one tick: what NEW, OLD and NOW were, what parts came to, and which failed first.

In: the record of a run, an event and a tick. Out: a `Look`, which reads as text. What primitives mean stands in
`kernels.bitemporal.primitives` and is asked there; here it is only put into words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import pyarrow as pa

from augury.algebra.operators import Operator
from augury.algebra.rule import ConditionAction
from augury.algebra.scalar import (
    Apply,
    Constant,
    Field,
    Leaf,
    Now,
    Previous,
    Scalar,
    Timing,
    TimingPrimitive,
    children,
    dump,
    leaves,
    walk,
)
from augury.clock import show_duration, show_time
from augury.event import key_of
from augury.kernels.bitemporal import NEVER, primitives, tick_after
from augury.kernels.bitemporal.primitives import Facts
from augury.kernels.columns import arrow_type, evaluate
from augury.kernels.match.past import plain
from augury.trying.simulate_record import EventKey, Record, Version, shown_value
from augury.types import TIMESTAMP


@dataclass(frozen=True, slots=True)
class Look:
    """An event as conditions see it at a tick: NEW, OLD if there is one, and what is true of both.

    `first_fired` has, by action, the first tick since the event was announced at which it fired. `fired_for` are the
    statements that have fired for NEW at an earlier tick.
    """

    tick: int
    new: Version
    old: Version | None
    facts: Facts
    first_fired: dict[str, int]
    fired_for: frozenset[int]


def look_at(record: Record, event: EventKey, tick: int) -> Look | None:
    """What conditions saw of an event at a tick; None if it was not there."""
    known = [one for one in record.of_event.get(event, ()) if one.tick <= tick]
    if not known:
        return None
    new = known[-1]
    is_fresh = new.tick == tick
    if not is_fresh and (new.is_withdrawal or any(new.tick <= left < tick for left in record.left.get(event, ()))):
        return None
    old = _before(record, event, known, new.tick)
    chronon_us = record.plan.chronon_us

    def times(value: int | None) -> Any:
        return np.array([0 if value is None else value], np.int64)

    facts = Facts(
        tick,
        chronon_us,
        is_fresh,
        np.array([old is not None]),
        times(None if old is None else old.occ_time),
        times(new.occ_time),
        times(new.det_time),
        np.array([new.is_withdrawal]),
    )
    since = _announced(record, event, known)
    fired = [one for one in record.fired.get(event, ()) if since <= one.tick < tick]
    first: dict[str, int] = {}
    for one in fired:
        first.setdefault(key_of(one.action), one.tick)
    return Look(tick, new, old, facts, first, frozenset(one.statement for one in fired if one.tick >= new.tick))


def _before(record: Record, event: EventKey, known: list[Version], tick: int) -> Version | None:
    """The version that was current before a tick read another; one that was withdrawn or purged was not."""
    earlier = [one for one in known if one.tick < tick]
    if not earlier or earlier[-1].is_withdrawal:
        return None
    old = earlier[-1]
    return None if any(old.tick <= left < tick for left in record.left.get(event, ())) else old


def _announced(record: Record, event: EventKey, known: list[Version]) -> int:
    """The tick at which the event was announced that is there now."""
    ticks = sorted({one.tick for one in known}, reverse=True)
    for tick in ticks:
        if _before(record, event, known, tick) is None:
            return tick
    return ticks[-1]


# ---- values ------------------------------------------------------------------------------------------------------


def values_of(look: Look, scalar: Scalar, action: str) -> dict[str, Constant]:
    """What everything that a condition or argument looks at was, by its text, in the order of reading."""
    found: dict[str, Constant] = {}
    for node in walk(scalar):
        if isinstance(node, Field | Timing | Now):
            found.setdefault(dump(node), _came_to(look, node, action))
    return found


def truth(look: Look, scalar: Scalar, action: str) -> bool | None:
    """Whether a condition holds; None for NULL."""
    value = _came_to(look, scalar, action).value
    return None if value is None else bool(value)


def _came_to(look: Look, scalar: Scalar, action: str) -> Constant:
    columns = {leaf: _column(look, leaf, action) for leaf in leaves(scalar)}
    values = evaluate(scalar, columns, look.tick, 1).values
    return Constant(plain(values[0]), scalar.type)


def _column(look: Look, leaf: Leaf, action: str) -> pa.Array:
    match leaf:
        case Timing(primitive=TimingPrimitive.FIRED):
            first = np.array([look.first_fired.get(key_of(action), NEVER)], np.int64)
            return pa.array(primitives.fired(first, look.facts))
        case Timing():
            return pa.array(primitives.holds(leaf, look.facts))
        case Field(scope="NEW", name=name):
            return _value(look.new, name)
        case Field(scope="OLD", name=name):
            return _value(look.old, name, leaf)
        case Field() | Previous():
            raise AssertionError(f"a condition does not see {leaf}")
        case _:
            assert_never(leaf)


def _value(version: Version | None, name: str, leaf: Field | None = None) -> pa.Array:
    if name in ("occ_time", "det_time"):
        kind, value = TIMESTAMP, None if version is None else getattr(version, name)
        return pa.array([value], arrow_type(kind))
    if version is None:
        assert leaf is not None, "there is always NEW"
        return pa.nulls(1, arrow_type(leaf.type))
    constant = version.values[name]
    return pa.array([constant.value], arrow_type(constant.type))


# ---- what failed -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failed:
    """The first part of a condition that did not hold, and a sentence with the values in it."""

    part: str
    sentence: str


def why_not_fired(look: Look, number: int, statement: ConditionAction, action: str) -> Failed | None:
    """What kept a statement of a class, counted from 0, from firing at a tick; None if it fired."""
    condition = statement.condition
    timed = any(isinstance(one, Timing) and one.primitive is TimingPrimitive.ONTIME for one in walk(condition))
    if not look.facts.fresh:
        read_at = f"the version was read at {show_time(look.new.tick)}, not at this tick"
        if not timed:
            return Failed(dump(condition), f"it is looked at when a version is read, and {read_at}")
        if number in look.fired_for:
            return Failed(dump(condition), "it has fired for this version at an earlier tick")
    if truth(look, condition, action):
        return None
    return _failed(look, condition, action)


def _failed(look: Look, scalar: Scalar, action: str) -> Failed:
    """The first part of a condition that is not true, as far down as AND, OR and NOT go."""
    match scalar:
        case Apply(operator=Operator.AND, operands=operands):
            return next(_failed(look, one, action) for one in operands if not truth(look, one, action))
        case Apply(operator=Operator.OR, operands=operands):
            found = [_failed(look, one, action) for one in operands]
            return Failed(dump(scalar), "; and ".join(one.sentence for one in found))
        case Apply(operator=Operator.NOT, operands=(operand,)) if truth(look, operand, action):
            seen = f"; {words}" if (words := _seen(look, operand, action)) else ""
            return Failed(dump(scalar), f"{dump(operand)} does hold{seen}")
        case Timing():
            return Failed(dump(scalar), f"{dump(scalar)} does not hold: {_not_timed(look, scalar, action)}")
        case _:
            came_to = "NULL" if truth(look, scalar, action) is None else "FALSE"
            seen = f": {words}" if (words := _seen(look, scalar, action)) else ""
            return Failed(dump(scalar), f"{dump(scalar)} is {came_to}{seen}")


def _seen(look: Look, scalar: Scalar, action: str) -> str:
    values = [
        (name, value) for name, value in values_of(look, scalar, action).items() if children(scalar) or name == "NOW"
    ]
    words = [f"{name} = {shown_value(value)}" for name, value in values]
    absent = look.old is None and any(isinstance(one, Field) and one.scope == "OLD" for one in walk(scalar))
    return ", ".join(words) + (" (there is no OLD)" if absent else "")


def _not_timed(look: Look, timing: Timing, action: str) -> str:
    """The first of what a primitive asks for that is not so."""
    if timing.primitive is TimingPrimitive.FIRED:
        return f"{action} has not fired for this event at an earlier tick since it was announced"
    if not look.facts.fresh and timing.primitive is not TimingPrimitive.ONTIME:
        return f"NEW was read at {show_time(look.new.tick)}, not at this tick"
    reason = next(_missing(look, timing), None)
    assert reason is not None, f"{timing} holds"
    return reason


def _missing(look: Look, timing: Timing) -> Iterator[str]:
    p, facts = TimingPrimitive, look.facts
    old, new, tick = look.old, look.new, look.tick
    old_at = "" if old is None or old.occ_time is None else show_time(old.occ_time)
    new_at = "" if new.occ_time is None else show_time(new.occ_time)
    if timing.primitive is p.ANNOUNCEMENT and old is not None:
        yield f"there is OLD, {old.text} at {old_at}"
    if timing.primitive in (p.CHANGE, p.CANCELLATION, p.RETROACTIVECHANGE, p.POSTPONE, p.REVOCATION) and old is None:
        yield "there is no OLD"
    if timing.primitive in (p.CHANGE, p.CANCELLATION) and facts.old_happened[0]:
        yield f"OLD has happened at {old_at}, before the tick {show_time(tick)}"
    if timing.primitive in (p.RETROACTIVECHANGE, p.POSTPONE, p.REVOCATION) and facts.old_ahead[0]:
        yield f"OLD is still ahead: it happens at {old_at}, not before the tick {show_time(tick)}"
    if timing.primitive in (p.CANCELLATION, p.REVOCATION):
        yield "NEW does not withdraw the event"
    if new.is_withdrawal:
        yield "NEW withdraws the event"
    if timing.primitive is p.RETROACTIVECHANGE:
        yield f"NEW is ahead: it happens at {new_at}, not before the tick {show_time(tick)}"
    if timing.primitive in (p.POSTPONE, p.FUTURE):
        yield f"NEW has happened at {new_at}, before the tick {show_time(tick)}"
    if timing.primitive in (p.ONTIME, p.LATE):
        yield from _not_on_time(look, timing, new_at)


def _not_on_time(look: Look, timing: Timing, new_at: str) -> Iterator[str]:
    facts, tick, chronon_us = look.facts, look.tick, look.facts.chronon_us
    on_time = show_time(int(tick_after(facts.new_occ, chronon_us)[0]))
    if facts.new_ahead[0]:
        yield f"NEW happens at {new_at}: it is on time at the tick {on_time}"
    if facts.done[0]:
        yield f"the event has been ONTIME or LATE already, with OLD at {show_time(int(facts.old_occ[0]))}"
    if timing.primitive is TimingPrimitive.ONTIME:
        yield f"NEW happened at {new_at}, before the chronon that ends at {show_time(tick)}: it would be LATE"
    if facts.new_in_chronon[0]:
        yield f"NEW happened at {new_at}, in the chronon that ends at {show_time(tick)}: it is ONTIME"
    delay_us = int(facts.new_det[0]) - int(facts.new_occ[0])
    whole = show_duration(delay_us - delay_us % chronon_us)
    yield f"NEW happened at {new_at} and was detected {whole} later, in whole chronons"
