"""Where an expression takes place: the table of the language contract, row by row.

In: an expression and a history. Out: the events of the history at which it takes place.

`start` stands before the first event. `any`, classes, `!` and prefix do not take place at it, whatever they name; only
`start` does, and what is made of it without them. A sub-history that begins after an event has no `start`; a pipe
passes it on if its left side takes place there. EXISTS ranges over it only where its expression names it. It has no
`seq`: it is never a place of the whole expression, nor a constituent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from augury.algebra.expression import Apply, Equate, Exists, Expression, Nth, Place, Primitive, Some
from augury.algebra.expression import MatchOperator as Op
from augury.kernels.reference.definitions import definition, names_start
from augury.kernels.reference.history import START, Event, History, Places, Scope
from augury.kernels.reference.prefix import prefix_places

Found = frozenset[int]


def positions(expression: Expression, history: Iterable[Event]) -> tuple[int, ...]:
    """The `seq` of every event at which the expression takes place, in order."""
    known = History.of(history)
    found = places(expression, known.whole, Scope(known))
    return tuple(known.events[place].seq for place in sorted(found) if place != START)


def places(expression: Expression, at_hand: Places, scope: Scope) -> Found:
    """The places of the history at hand at which the expression takes place."""
    match expression:
        case Primitive():
            return frozenset(place for place in at_hand if scope.fits(expression, place))
        case Place(variable=x):
            return frozenset(place for place in at_hand if place == scope.places[x])
        case Equate(operand=operand, variable=x):
            return frozenset(place for place in places(operand, at_hand, scope) if place == scope.places[x])
        case Exists(variable=x, operand=operand):
            return frozenset(
                place
                for event in candidates(expression, at_hand)
                for place in places(operand, at_hand, scope.with_place(x, event))
                if event <= place
            )
        case Some(operand=operand):
            return _union(places(operand, at_hand, each) for each in scope.substitutions(expression))
        case Nth(count=count, every=every, operand=operand):
            found = sorted(places(operand, at_hand, scope))
            return frozenset(found[count - 1 :: count] if every else found[count - 1 : count])
        case Apply(operator=operator, operands=operands):
            return _apply(expression, operator, operands, at_hand, scope)


def _apply(expression: Apply, operator: Op, operands: Sequence[Expression], at_hand: Places, scope: Scope) -> Found:
    events = frozenset(at_hand) - {START}
    match operator, operands:
        case Op.NULL, ():
            return frozenset()
        case Op.ANY, ():
            return events
        case Op.START, ():
            return frozenset(at_hand) - events
        case Op.AND, _:
            return frozenset.intersection(*(places(e, at_hand, scope) for e in operands))
        case Op.OR, _:
            return _union(places(e, at_hand, scope) for e in operands)
        case Op.NOT, (e,):
            return events - places(e, at_hand, scope)
        case Op.RELATIVE, (e, f):
            return _union(places(f, after(at_hand, place), scope) for place in places(e, at_hand, scope))
        case Op.RELATIVE_PLUS, (e,):
            return _relative_plus(e, at_hand, scope)
        case Op.PIPE, (e, f):
            return places(f, tuple(sorted(places(e, at_hand, scope))), scope)
        case Op.AFTER_FIRST, (f, e):
            opening = sorted(places(e, at_hand, scope))[:1]
            return _union(places(f, after(at_hand, place), scope) for place in opening)
        case Op.BETWEEN_EACH, (f, e):
            return _union(places(f, stretch, scope) for _, stretch in stretches(e, at_hand, scope))
        case Op.PREFIX, (e,):
            return prefix_places(e, at_hand, scope)
        case _:
            return places(definition(expression), at_hand, scope)


def candidates(expression: Exists, at_hand: Places) -> Places:
    """The events that a variable may stand for."""
    return tuple(place for place in at_hand if place != START or names_start(expression))


def after(at_hand: Places, place: int) -> Places:
    """The history that starts right after a place."""
    return tuple(later for later in at_hand if later > place)


def stretches(e: Expression, at_hand: Places, scope: Scope) -> list[tuple[int, Places]]:
    """The histories strictly between one E and the next, and after the last, each with the E that opens it."""
    opening = sorted(places(e, at_hand, scope))
    closing = [*opening[1:], len(scope.history.events)]
    return [
        (begin, tuple(place for place in at_hand if begin < place < end))
        for begin, end in zip(opening, closing, strict=False)
    ]


def _relative_plus(e: Expression, at_hand: Places, scope: Scope) -> Found:
    """The first link, then what one more link reaches, until nothing is reached: each lies after the one before."""
    reached = found = places(e, at_hand, scope)
    while reached:
        reached = _union(places(e, after(at_hand, place), scope) for place in reached)
        found |= reached
    return found


def _union(parts: Iterable[Found]) -> Found:
    return frozenset[int]().union(*parts)
