"""COMPOSITE as written → the algebra: classes and variables resolved, absences and repetitions checked for bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from augury import limits
from augury.algebra import composite as a
from augury.algebra.composite import constituent_classes
from augury.algebra.expression import Primitive, Variable
from augury.analysis.declarations import Declarations, find_class
from augury.analysis.references import VariableTable, counted, primitive
from augury.analysis.scalars import lower_condition
from augury.analysis.scopes import constituent_scope
from augury.clock import Moment, duration_us, show_duration
from augury.diagnostics import Findings, Mark, Span
from augury.event import EventClass, key_of
from augury.language import syntax as s

Op = s.CompositeOperator


@dataclass(frozen=True, slots=True)
class Lowered:
    """A composite expression, its variables and classes."""

    expression: a.Composite
    variables: VariableTable
    classes: Mapping[str, EventClass]


@dataclass(frozen=True, slots=True)
class _Place:
    """What surrounds a sub-expression: what follows it in a sequence, and how long it may take."""

    followed: bool = False
    closed: bool = False
    """Whether what follows is there, at some time, and not only absences."""
    within_us: int | None = None

    @property
    def apart(self) -> _Place:
        """That of an operand which nothing follows."""
        return _Place(within_us=self.within_us)


def lower_composite(
    expression: s.CompositeExpression,
    within: s.DurationLiteral | None,
    tables: Declarations,
    findings: Findings,
) -> Lowered | None:
    """Resolve a COMPOSITE expression, with the WITHIN of its class; None where something is wrong."""
    lowering = _Lowering(tables, findings)
    lowered = lowering.lower(expression, _Place(within_us=_us(within)))
    return None if lowered is None else Lowered(lowered, lowering.variables, lowering.classes)


def bound_variables(expression: a.Composite, table: VariableTable) -> tuple[Variable, ...]:
    """The variables that have a value where the expression takes place."""
    positive: dict[str, Variable] = {}
    _gather(expression, positive, {}, closings=False)
    return tuple(Variable(v.name, table.types[v.name.casefold()], v.span) for v in positive.values())


def graph_keys(expression: a.Composite, table: VariableTable, findings: Findings) -> tuple[Variable, ...]:
    """The variables that keep a graph per value: those that are shared, with a place that is not negated."""
    positive: dict[str, Variable] = {}
    negated: dict[str, list[Variable]] = {}
    _gather(expression, positive, negated, closings=True)
    for name, absent in negated.items():
        if name not in positive and len(absent) > 1:
            findings.error(
                "E302",
                f"the variable `{name}` stands under negations only, so nothing gives it a value",
                absent[0].span,
                "under one negation",
                others=[Mark(absent[1].span, "under another")],
                helps=["use it in a place that is not negated as well, or write `_`"],
            )
    places = Counter(
        binding.name.casefold()
        for part in a.walk(expression)
        for binding in (part.bindings if isinstance(part, Primitive) else ())
        if isinstance(binding, Variable)
    )
    shared = [v for v in positive.values() if places[v.name.casefold()] > 1]
    return tuple(Variable(v.name, table.types[v.name.casefold()], v.span) for v in shared)


def _gather(
    node: a.Composite, positive: dict[str, Variable], negated: dict[str, list[Variable]], *, closings: bool
) -> None:
    """Note the variables that are there and those that are not; the closing of a window is no constituent of it."""
    match node:
        case Primitive(bindings=bindings):
            for binding in bindings:
                if isinstance(binding, Variable):
                    positive.setdefault(binding.name, binding)
        case a.Node(operator=Op.NOT, operands=(inner,)):
            _gather_negated(inner, negated)
        case a.NotBetween(absent=absent, opening=opening, closing=closing):
            _gather_negated(absent, negated)
            _gather(opening, positive, negated, closings=closings)
            _gather(closing, positive, negated, closings=closings)
        case a.AbsentFor(opening=opening, absent=absent):
            _gather_negated(absent, negated)
            _gather(opening, positive, negated, closings=closings)
        case a.Aperiodic(gathered=False) | a.Periodic(gathered=False) if not closings:
            for child in a.children(node)[:-1]:
                _gather(child, positive, negated, closings=closings)
        case _:
            for child in a.children(node):
                _gather(child, positive, negated, closings=closings)


def _gather_negated(node: a.Composite, negated: dict[str, list[Variable]]) -> None:
    inside: dict[str, Variable] = {}
    _gather(node, inside, {}, closings=True)
    for name, variable in inside.items():
        negated.setdefault(name, []).append(variable)


def _us(duration: s.DurationLiteral | None) -> int | None:
    return None if duration is None else duration_us(duration.count, duration.unit)


class _Lowering:
    def __init__(self, tables: Declarations, findings: Findings) -> None:
        self.tables = tables
        self.findings = findings
        self.variables = VariableTable()
        self.classes: dict[str, EventClass] = {}

    def lower(self, node: s.CompositeExpression, place: _Place) -> a.Composite | None:
        span = node.span
        match node:
            case s.EventRef():
                return self._event(node)
            case s.CompositeApply(operator=Op.NOT):
                self.findings.error(
                    "E304",
                    "an absence needs something beside it that is there",
                    span,
                    "nothing says when to look for it",
                    helps=["write A & !B, A > !B > C, or NOT(B)[A, C]"],
                )
                return None
            case s.CompositeApply(operator=Op.SEQUENCE, operands=(left, right)):
                return self._sequence(left, right, span, place)
            case s.CompositeApply(operator=Op.AND):
                return self._and(node, place)
            case s.CompositeApply(operands=operands):
                return self._either(operands, span, place)
            case s.AnyOf():
                return self._any_of(node, place.apart)
            case s.TimeBound():
                return self._time_bound(node, place.apart)
            case s.NotBetween():
                return self._not_between(node, place.apart)
            case s.Repeat():
                return self._repeat(node, place)
            case s.Plus(operand=operand, delay=delay):
                inner = self.lower(operand, place.apart)
                return None if inner is None else a.Plus(inner, duration_us(delay.count, delay.unit), span)
            case s.Scoped():
                return self._scoped(node, place)
            case s.Aperiodic() | s.Periodic():
                return self._between_events(node, place.apart)
            case _:
                assert_never(node)

    def _event(self, ref: s.EventRef) -> a.Composite | None:
        definition = self.tables.definitions.get(ref.name.key)
        if definition is not None and ref.name.key not in self.tables.classes:
            self.findings.error(
                "E235",
                f"`{definition.name.text}` names a MATCH expression, which a COMPOSITE cannot take",
                ref.span,
                "a definition",
                others=[Mark(definition.name.span, "defined here")],
                helps=["make it a class of its own: CREATE COMPLEX EVENT CLASS … AS MATCH …"],
            )
            return None
        event_class = find_class(ref.name, self.tables.classes, self.findings)
        if event_class is None:
            return None
        self.classes[ref.name.key] = event_class
        return primitive(ref, event_class, _argument, self.variables, self.findings)

    def _sequence(
        self, left: s.CompositeExpression, right: s.CompositeExpression, span: Span, place: _Place
    ) -> a.Composite | None:
        if _is_absence(left) and _is_absence(right):
            return self._only_absences(span)
        first = self._operand(left, _Place(followed=True, closed=place.closed or not _is_absence(right)))
        if not _is_absence(right):
            return _joined(Op.SEQUENCE, first, self._operand(right, place), span)
        second = self._operand(right, place.apart)
        if place.followed:
            return _joined(Op.SEQUENCE, first, second, span)
        if place.within_us is None:
            self.findings.error(
                "E305",
                "nothing says how long to wait for what must not come",
                right.span,
                "an absence without an end",
                helps=["bound it: A > !B WITHIN 5m, or NOT(B)[A, A + 5m], or let something follow: A > !B > C"],
            )
            return None
        if first is None or not isinstance(second, a.Node):
            return None
        return _absent_for(first, second.operands[0], place.within_us, span)

    def _and(self, node: s.CompositeApply, place: _Place) -> a.Composite | None:
        if all(_is_absence(operand) for operand in node.operands):
            return self._only_absences(node.span)
        left, right = (self._operand(operand, place.apart) for operand in node.operands)
        return _joined(Op.AND, left, right, node.span)

    def _only_absences(self, span: Span) -> a.Composite | None:
        self.findings.error(
            "E304",
            "an absence needs something beside it that is there; here both sides are absences",
            span,
            "nothing says when to look for them",
            helps=["name what is there first: C & !A & !B, C & (!A & D)"],
        )
        return None

    def _operand(self, node: s.CompositeExpression, place: _Place) -> a.Composite | None:
        """An operand of `&` or `>`, where an absence is allowed."""
        if not (isinstance(node, s.CompositeApply) and node.operator is Op.NOT):
            return self.lower(node, place)
        inner = self.lower(node.operands[0], place.apart)
        return None if inner is None else a.Node(Op.NOT, (inner,), node.span)

    def _either(self, operands: tuple[s.CompositeExpression, ...], span: Span, place: _Place) -> a.Composite | None:
        lowered = [self.lower(operand, place.apart) for operand in operands]
        known = tuple(operand for operand in lowered if operand is not None)
        return a.Node(Op.OR, known, span) if len(known) == len(lowered) else None

    def _any_of(self, node: s.AnyOf, place: _Place) -> a.Composite | None:
        lowered = [self.lower(operand, place) for operand in node.operands]
        known = tuple(operand for operand in lowered if operand is not None)
        if node.count < 1:
            message, helps = "ANY asks for at least one event", ["write e.g. ANY{1, A, B}"]
            self.findings.error("E308", message, node.span, f"asks for {node.count}", helps=helps)
            return None
        if node.count > len(node.operands):
            self.findings.error(
                "E307",
                f"ANY asks for {node.count} of {counted(len(node.operands), 'event')}, which can never be",
                node.span,
                f"{len(node.operands)} given",
                helps=[f"ask for at most {len(node.operands)}, or for several of one class: E{{{node.count}}}"],
            )
            return None
        return a.AnyOf(node.count, known, node.span) if len(known) == len(lowered) else None

    def _time_bound(self, node: s.TimeBound, place: _Place) -> a.Composite | None:
        inner = self.lower(node.operand, place)
        low = None if node.low is None else node.low.first_us()
        high = node.high.last_us() if node.keyword == "AT" else _upper(node.high)
        if low is not None and high < low:
            self.findings.error(
                "E306",
                "the interval ends before it starts",
                node.span,
                f"from {node.low} to {node.high}",
                helps=["swap the two times"],
            )
            return None
        return None if inner is None else a.Bounded(low, high, inner, node.span)

    def _not_between(self, node: s.NotBetween, place: _Place) -> a.Composite | None:
        absent, opening = self.lower(node.absent, place), self.lower(node.opening, place)
        closing = self.lower(node.closing, place)
        if absent is None or opening is None or closing is None:
            return None
        if isinstance(closing, a.Plus) and closing.operand == opening:
            return a.AbsentFor(opening, absent, closing.delay_us, node.span)
        return a.NotBetween(absent, opening, closing, node.span)

    def _repeat(self, node: s.Repeat, place: _Place) -> a.Composite | None:
        inner = self.lower(node.operand, place.apart)
        if node.count > limits.NTH_MAX:
            self.findings.error(
                "E404",
                f"n may be at most {limits.NTH_MAX:,}",
                node.span,
                f"n is {node.count:,} here",
                helps=["aggregate in a SELECT instead"],
            )
            return None
        if node.count < 1 and not node.open:
            self.findings.error(
                "E308",
                "`E{n}` counts from 1",
                node.span,
                f"n is {node.count} here",
                helps=["write E{1} for one, E* > F for any number before an F"],
            )
            return None
        if node.open and not place.closed:
            self.findings.error(
                "E310",
                "nothing says when this repetition is over",
                node.span,
                "no event closes it",
                helps=["let an event follow: E* > C; or ask for a number: E{3}"],
            )
            return None
        return None if inner is None else a.Repeat(inner, node.count, node.open, node.span)

    def _scoped(self, node: s.Scoped, place: _Place) -> a.Composite | None:
        is_alone = node.within is None
        within_us = place.within_us if is_alone else _us(node.within)
        inner_place = _Place(place.followed and is_alone, place.closed and is_alone, within_us)
        before = dict(self.classes)
        self.classes.clear()
        inner = self.lower(node.operand, inner_place)
        inside = dict(self.classes)
        self.classes.update({**before, **inside})
        where = None
        if node.where is not None and inner is not None:
            names = {key_of(v.name): (v.name, v.type) for v in bound_variables(inner, self.variables)}
            there = {key_of(name) for name in constituent_classes(inner)}
            constituents = {key: found for key, found in inside.items() if key in there}
            scope = constituent_scope("WHERE", names, constituents, self.findings)
            where = lower_condition(node.where, scope, self.findings)
            if where is None:
                return None
        return None if inner is None else a.Scoped(inner, _us(node.within), where, node.span)

    def _between_events(self, node: s.Aperiodic | s.Periodic, place: _Place) -> a.Composite | None:
        opening, closing = self.lower(node.opening, place), self.lower(node.closing, place)
        if isinstance(node, s.Aperiodic):
            middle = self.lower(node.middle, place)
            if opening is None or middle is None or closing is None:
                return None
            return a.Aperiodic(opening, middle, closing, node.gathered, node.span)
        period_us = duration_us(node.period.count, node.period.unit)
        if period_us < 1:
            self.findings.error(
                "E308",
                "a period has to be longer than 0s",
                node.period.span,
                f"every {show_duration(period_us)}",
                helps=["write e.g. [5m]"],
            )
            return None
        if opening is None or closing is None:
            return None
        return a.Periodic(opening, period_us, closing, node.gathered, node.span)


def _joined(operator: Op, left: a.Composite | None, right: a.Composite | None, span: Span) -> a.Composite | None:
    return None if left is None or right is None else a.Node(operator, (left, right), span)


def _absent_for(opening: a.Composite, absent: a.Composite, within_us: int, span: Span) -> a.AbsentFor:
    """`A > !B > !C` within d: neither B nor C for d after A."""
    match opening:
        case a.Node(operator=Op.SEQUENCE, operands=(first, a.Node(operator=Op.NOT, operands=(other,)))):
            return _absent_for(first, a.Node(Op.OR, (other, absent), span), within_us, span)
        case _:
            return a.AbsentFor(opening, absent, within_us, span)


def _is_absence(node: s.CompositeExpression) -> bool:
    """Whether a node says only what is not there."""
    if not isinstance(node, s.CompositeApply):
        return False
    if node.operator is Op.NOT:
        return True
    return node.operator is not Op.OR and all(_is_absence(operand) for operand in node.operands)


def _argument(argument: s.Argument) -> s.Argument | tuple[str, str]:
    if isinstance(argument, s.EventRef) and argument.arguments is None and argument.mask is None:
        return argument.name.key, argument.name.text
    return argument


def _upper(moment: Moment) -> int:
    """An upper bound is included: a day to its end, a second at its start."""
    return moment.last_us() if moment.whole_day else moment.first_us()
