"""prefix(E): after which events E can still take place, by reading on from what E remembers.

In: an expression and a history at hand. Out: the events after which some events to come make it take place.

All of E that matters for what is to come is its *rest*: a value that says what its parts have seen. `read` takes a
rest over one more event, operator by operator, so that two histories with equal rests have equal futures; there are
finitely many rests, and all that events to come may lead to are tried. What may come is an event of any class that E
names, or of another one; with any values among those that E names or the history has, or new ones; and satisfying
any of the masks that E has for the class: whether masks agree with each other and with values is not asked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Any, Final

from augury.algebra.expression import (
    Apply,
    Binding,
    Equate,
    Exists,
    Expression,
    Nth,
    Place,
    Primitive,
    Some,
    Variable,
    walk,
)
from augury.algebra.expression import MatchOperator as Op
from augury.algebra.scalar import Constant
from augury.kernels.reference.definitions import definition, names_start
from augury.kernels.reference.history import START, Imagined, NoValue, Places, Scope, comparable, constants_in

NEW_VALUES: Final = 2
"""How many new values events to come may have, where a variable is bound inside E; otherwise one tells all."""

Rest = Any
"""What an expression remembers of the events read so far: a hashable value whose shape the expression decides."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An event that is read, and the correlation variables that stand for it."""

    event: int | Imagined
    variables: frozenset[str]

    def less(self, variable: str) -> Reading:
        """The same event, for whoever means another by that name."""
        return Reading(self.event, self.variables - {variable})

    def named(self, variable: str) -> Reading:
        """The same event, called so."""
        return Reading(self.event, self.variables | {variable})


def prefix_places(e: Expression, at_hand: Places, scope: Scope) -> frozenset[int]:
    """The places after which E can still take place at a later one."""
    future = Future(e, scope)
    rest = future.beginning(e, scope)
    found = set()
    for place in at_hand:
        variables = frozenset(x for x, event in scope.places.items() if event == place)
        rest, _ = future.read(e, rest, Reading(place, variables), scope)
        if place != START and future.may_take_place(e, rest, scope):
            found.add(place)
    return frozenset(found)


class Future:
    """One question about an expression, and the values that are thought of in it."""

    def __init__(self, e: Expression, scope: Scope) -> None:
        self.values = _values(e, scope)
        self.answers: dict[Hashable, bool] = {}

    def may_take_place(self, e: Expression, rest: Rest, scope: Scope) -> bool:
        """Whether some events to come make it take place at the last of them."""
        # A prefix inside a prefix asks again and again.
        question = e, rest, frozenset(scope.values.items())
        if question not in self.answers:
            self.answers[question] = self._may_take_place(e, rest, scope)
        return self.answers[question]

    def _may_take_place(self, e: Expression, rest: Rest, scope: Scope) -> bool:
        events = list(_events(e, self.values, scope))
        met = {rest}
        waiting = [rest]
        while waiting:
            before = waiting.pop(0)
            for event in events:
                rest, holds = self.read(e, before, Reading(event, frozenset()), scope)
                if holds:
                    return True
                if rest not in met:
                    met.add(rest)
                    waiting.append(rest)
        return False

    def beginning(self, e: Expression, scope: Scope) -> Rest:
        """The rest before any event."""
        match e:
            case Primitive() | Place():
                return None
            case Equate(operand=operand):
                return self.beginning(operand, scope)
            case Exists(operand=operand):
                return self.beginning(operand, scope), frozenset[Hashable]()
            case Some(operand=operand):
                return tuple(self.beginning(operand, each) for each in scope.substitutions(e, self.values))
            case Nth(operand=operand):
                return self.beginning(operand, scope), 0
            case Apply(operator=Op.NULL | Op.ANY | Op.START):
                return None
            case Apply(operator=Op.AND | Op.OR | Op.NOT | Op.PIPE | Op.PREFIX, operands=operands):
                return tuple(self.beginning(operand, scope) for operand in operands)
            case Apply(operator=Op.RELATIVE, operands=(first, _)):
                return self.beginning(first, scope), frozenset[Hashable]()
            case Apply(operator=Op.RELATIVE_PLUS, operands=(link,)):
                return frozenset({self.beginning(link, scope)})
            case Apply(operator=Op.AFTER_FIRST | Op.BETWEEN_EACH, operands=(_, opening)):
                return self.beginning(opening, scope), None
            case Apply():
                return self.beginning(definition(e), scope)

    def read(self, e: Expression, rest: Rest, reading: Reading, scope: Scope) -> tuple[Rest, bool]:
        """The rest after one more event, and whether the expression takes place at it."""
        match e:
            case Primitive():
                return None, scope.fits(e, reading.event)
            case Place(variable=x):
                return None, x in reading.variables
            case Equate(operand=operand, variable=x):
                rest, holds = self.read(operand, rest, reading, scope)
                return rest, holds and x in reading.variables
            case Exists():
                return self._exists(e, rest, reading, scope)
            case Some(operand=operand):
                each = scope.substitutions(e, self.values)
                read = [self.read(operand, r, reading, s) for r, s in zip(rest, each, strict=True)]
                return tuple(r for r, _ in read), any(holds for _, holds in read)
            case Nth(count=count, every=every, operand=operand):
                before, seen = rest
                before, holds = self.read(operand, before, reading, scope)
                if not holds:
                    return (before, seen), False
                seen = seen % count + 1 if every else min(seen, count) + 1
                return (before, seen), seen == count
            case Apply(operator=operator, operands=operands):
                return self._apply(e, operator, operands, rest, reading, scope)

    def _exists(self, e: Exists, rest: Rest, reading: Reading, scope: Scope) -> tuple[Rest, bool]:
        """The variable stands for no event yet, or for one of those read: each makes a rest of its own."""
        unnamed, named = rest
        read = [self.read(e.operand, each, reading.less(e.variable), scope) for each in named]
        if reading.event != START or names_start(e):
            read.append(self.read(e.operand, unnamed, reading.named(e.variable), scope))
        unnamed, _ = self.read(e.operand, unnamed, reading.less(e.variable), scope)
        return (unnamed, frozenset(r for r, _ in read)), any(holds for _, holds in read)

    def _apply(
        self, e: Apply, operator: Op, operands: Sequence[Expression], rest: Rest, reading: Reading, scope: Scope
    ) -> tuple[Rest, bool]:
        is_event = reading.event != START
        match operator, operands:
            case Op.NULL, ():
                return None, False
            case Op.ANY, ():
                return None, is_event
            case Op.START, ():
                return None, not is_event
            case Op.AND | Op.OR, _:
                read = [self.read(o, r, reading, scope) for o, r in zip(operands, rest, strict=True)]
                holds = [h for _, h in read]
                return tuple(r for r, _ in read), all(holds) if operator is Op.AND else any(holds)
            case Op.NOT, (operand,):
                rest, inside = self.read(operand, rest[0], reading, scope)
                return (rest,), is_event and not inside
            case Op.PREFIX, (operand,):
                rest, _ = self.read(operand, rest[0], reading, scope)
                return (rest,), is_event and self.may_take_place(operand, rest, scope)
            case Op.RELATIVE, (first, second):
                before, begun = rest
                read = [self.read(second, each, reading, scope) for each in begun]
                before, opens = self.read(first, before, reading, scope)
                rests = {r for r, _ in read} | ({self.beginning(second, scope)} if opens else set())
                return (before, frozenset(rests)), any(h for _, h in read)
            case Op.RELATIVE_PLUS, (link,):
                read = [self.read(link, each, reading, scope) for each in rest]
                holds_here = any(h for _, h in read)
                rests = {r for r, _ in read} | ({self.beginning(link, scope)} if holds_here else set())
                return frozenset(rests), holds_here
            case Op.PIPE, (first, second):
                before, behind = rest
                before, passes = self.read(first, before, reading, scope)
                if not passes:
                    return (before, behind), False
                behind, inside = self.read(second, behind, reading, scope)
                return (before, behind), inside
            case Op.AFTER_FIRST | Op.BETWEEN_EACH, (wanted, opening):
                return self._opened(operator, wanted, opening, rest, reading, scope)
            case _:
                return self.read(definition(e), rest, reading, scope)

    def _opened(
        self, operator: Op, wanted: Expression, opening: Expression, rest: Rest, reading: Reading, scope: Scope
    ) -> tuple[Rest, bool]:
        before, inside = rest
        if inside is not None and operator is Op.AFTER_FIRST:
            after, holds = self.read(wanted, inside[0], reading, scope)
            return (before, (after,)), holds
        before, opens = self.read(opening, before, reading, scope)
        if opens:
            return (before, (self.beginning(wanted, scope),)), False
        if inside is None:
            return (before, None), False
        after, holds = self.read(wanted, inside[0], reading, scope)
        return (before, (after,)), holds


# ---- what may come -------------------------------------------------------------------------------


def _values(e: Expression, scope: Scope) -> tuple[object, ...]:
    """The values that may tell events apart: constants, those of variables, those met, and new ones."""
    inner = [(v, node) for node in walk(e) if isinstance(node, Some) for v in node.variables]
    met = [value for variable, node in inner for value in scope.values_for(variable, node.operand)]
    new = [NoValue(-1 - number) for number in range(NEW_VALUES if inner else 1)]
    return tuple(dict.fromkeys([*constants_in(e), *(value for value, _ in scope.values.values()), *met, *new]))


def _events(e: Expression, values: Sequence[object], scope: Scope) -> Iterator[Imagined]:
    """One event of each kind that E can tell apart."""
    primitives: dict[str, list[Primitive]] = {}
    for node in walk(e):
        if isinstance(node, Primitive):
            primitives.setdefault(node.event_class, []).append(node)
    for event_class, nodes in primitives.items():
        arguments = [
            _told_apart(bindings, values, scope)
            for bindings in zip(*(node.bindings for node in nodes if node.bindings), strict=True)
        ]
        masks = list(dict.fromkeys(node.mask for node in nodes if node.mask is not None))
        subsets = chain.from_iterable(combinations(masks, size) for size in range(len(masks) + 1))
        for satisfied, chosen in product(list(subsets), product(*arguments)):
            yield Imagined(event_class, chosen, frozenset(satisfied))
    yield Imagined("", (), frozenset())


def _told_apart(bindings: Sequence[Binding], values: Sequence[object], scope: Scope) -> list[object]:
    """The values of an attribute between which these arguments make a difference, and one beside them."""
    named: list[object] = []
    for binding in bindings:
        match binding:
            case Constant(value=value, type=kind):
                named.append(comparable(value, kind))
            case Variable(name=name):
                named += [scope.values[name][0]] if name in scope.values else values
            case _:
                pass
    return list(dict.fromkeys([*named, values[-1]]))
