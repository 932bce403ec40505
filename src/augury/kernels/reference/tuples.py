"""Which events make an expression take place: the occurrence tuples of the language contract.

In: an expression, a history and a place. Out: every tuple, as the events in it and the attribute variables they bind.

A class has its event, and so has a correlation variable by itself. A negation, `any`, `first`, prefix and `start` have
none. What a pipe uses of its left side are the events in the tuple of its right side, and the place itself; `<n> E`
uses the n events up to its place, EVERY the n of its round; `/` and `/+` the one that opens the stretch. A variable
that no event of the tuple binds has no value in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

from augury.algebra.expression import Apply, Equate, Exists, Expression, Nth, Place, Primitive, Some, Variable
from augury.algebra.expression import MatchOperator as Op
from augury.kernels.reference.definitions import definition
from augury.kernels.reference.history import START, Event, History, Places, Scope
from augury.kernels.reference.positions import after, candidates, places, stretches


@dataclass(frozen=True, slots=True)
class OccurrenceTuple:
    """The constituents by `seq`, ascending, and the values of attribute variables that they bind, by name."""

    constituents: tuple[int, ...]
    values: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """The same by places of the history; a value is in the form that `comparable` gives it."""

    events: frozenset[int] = frozenset()
    values: frozenset[tuple[str, object]] = frozenset()

    def __add__(self, other: Reason) -> Reason:
        return Reason(self.events | other.events, self.values | other.values)


Reasons = frozenset[Reason]

NONE: Reasons = frozenset()
NO_EVENT: Reasons = frozenset({Reason()})


def occurrence_tuples(expression: Expression, history: Iterable[Event], seq: int) -> frozenset[OccurrenceTuple]:
    """The tuples with which an expression takes place at the event of that `seq`, none if it does not."""
    known = History.of(history)
    at = [place for place, event in enumerate(known.events) if event.seq == seq]
    return frozenset(
        OccurrenceTuple(constituents(known, reason), tuple(sorted(reason.values, key=lambda bound: bound[0])))
        for place in at
        for reason in whole_reasons(expression, known, place)
    )


def constituents(history: History, reason: Reason) -> tuple[int, ...]:
    """The subscribed versions of a tuple: those of a complex event stand for it."""
    events = [history.events[place] for place in reason.events]
    return tuple(sorted({seq for event in events for seq in event.constituents or (event.seq,)}))


def whole_reasons(expression: Expression, history: History, place: int) -> Reasons:
    """The tuples of a whole expression: the event at which it takes place is always a constituent."""
    found = reasons(expression, history.whole, place, Scope(history))
    return frozenset(reason + Reason(frozenset({place})) for reason in found)


def reasons(expression: Expression, at_hand: Places, place: int, scope: Scope) -> Reasons:
    """The tuples with which a part takes place at a place of the history at hand."""
    if place not in places(expression, at_hand, scope):
        return NONE
    match expression:
        case Primitive(bindings=bindings):
            bound = ((b.name, scope.values[b.name][0]) for b in bindings if isinstance(b, Variable))
            return frozenset({Reason(frozenset({place}), frozenset(bound))})
        case Place():
            return frozenset({Reason(frozenset({place} - {START}))})
        case Equate(operand=operand):
            return reasons(operand, at_hand, place, scope)
        case Exists(variable=x, operand=operand):
            events = (event for event in candidates(expression, at_hand) if event <= place)
            return _either(reasons(operand, at_hand, place, scope.with_place(x, event)) for event in events)
        case Some(operand=operand):
            return _either(reasons(operand, at_hand, place, each) for each in scope.substitutions(expression))
        case Nth(count=count, operand=operand):
            upto = [found for found in sorted(places(operand, at_hand, scope)) if found <= place]
            return _each(reasons(operand, at_hand, used, scope) for used in upto[-count:])
        case Apply(operator=operator, operands=operands):
            return _apply(expression, operator, operands, at_hand, place, scope)


def _apply(
    expression: Apply, operator: Op, operands: Sequence[Expression], at_hand: Places, place: int, scope: Scope
) -> Reasons:
    match operator, operands:
        case ((Op.NULL | Op.ANY | Op.START | Op.NOT | Op.PREFIX), _):
            return NO_EVENT
        case Op.AND, _:
            return _each(reasons(e, at_hand, place, scope) for e in operands)
        case Op.OR, _:
            return _either(reasons(e, at_hand, place, scope) for e in operands)
        case Op.RELATIVE, (e, f):
            return _either(
                _each([reasons(e, at_hand, begin, scope), reasons(f, after(at_hand, begin), place, scope)])
                for begin in places(e, at_hand, scope)
            )
        case Op.RELATIVE_PLUS, (e,):
            return _either(_chains(e, at_hand, place, scope))
        case Op.PIPE, (e, f):
            piped = tuple(sorted(places(e, at_hand, scope)))
            return _either(
                _each([frozenset({later}), *(reasons(e, at_hand, used, scope) for used in {*later.events, place})])
                for later in reasons(f, piped, place, scope)
            )
        case Op.AFTER_FIRST, (f, e):
            begin = min(places(e, at_hand, scope))
            return _each([reasons(e, at_hand, begin, scope), reasons(f, after(at_hand, begin), place, scope)])
        case Op.BETWEEN_EACH, (f, e):
            return _either(
                _each([reasons(e, at_hand, begin, scope), reasons(f, stretch, place, scope)])
                for begin, stretch in stretches(e, at_hand, scope)
            )
        case _:
            return reasons(definition(expression), at_hand, place, scope)


def _chains(e: Expression, at_hand: Places, place: int, scope: Scope) -> Iterator[Reasons]:
    """One link that ends at the place, or a link followed by a chain after it: the same as a chain and then a link."""
    yield reasons(e, at_hand, place, scope)
    for begin in places(e, at_hand, scope):
        if begin < place:
            rest = _either(_chains(e, after(at_hand, begin), place, scope))
            yield _each([reasons(e, at_hand, begin, scope), rest])


def _either(parts: Iterable[Reasons]) -> Reasons:
    return NONE.union(*parts)


def _each(parts: Iterable[Reasons]) -> Reasons:
    """One tuple of each part, in every combination."""
    return frozenset(reduce(Reason.__add__, chosen, Reason()) for chosen in product(*parts))
