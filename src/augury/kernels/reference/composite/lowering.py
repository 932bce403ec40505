"""From the algebra's expression to the form that the contexts evaluate.

In: a plan. Out: a form. Leaves are numbered in the order in which `augury.algebra.composite.walk` meets them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from augury.algebra import composite as a
from augury.algebra.expression import Primitive, Variable
from augury.algebra.scalar import Scalar
from augury.kernels.reference.composite.forms import (
    Absent,
    All,
    Beside,
    Bounds,
    Chain,
    Either,
    Elapsed,
    Form,
    Later,
    Leaf,
    Middle,
    Pulse,
    Terms,
    Tested,
    Times,
    Together,
    Unless,
    Window,
)

Op = a.CompositeOperator


def form_of(plan: a.CompositePlan) -> Form:
    """The form of a plan's expression within its own WITHIN and WHERE."""
    whole = a.Scoped(plan.expression, plan.within_us, plan.where)
    return _Lowering().lower(whole, Terms())


class _Lowering:
    """Leaves are numbered in the order in which `walk` meets them."""

    def __init__(self) -> None:
        self.leaves = 0

    def lower(self, node: a.Composite, terms: Terms) -> Form:
        inside = replace(terms, tests=())
        match node:
            case Primitive():
                self.leaves += 1
                return _tested(Leaf(self.leaves - 1, inside), terms)
            case a.Node(operator=Op.SEQUENCE):
                return self._chain(node, terms)
            case a.Node(operator=Op.AND, operands=(left, right)):
                return self._and(left, right, terms)
            case a.Node(operator=Op.OR, operands=operands):
                return Either(tuple(self.lower(operand, terms) for operand in operands))
            case a.Node():
                raise AssertionError("`!` stands beside a positive operand of & or >")
            case a.AnyOf(count=count, operands=operands):
                return Together(count, tuple(self.lower(operand, inside) for operand in operands), terms)
            case a.Bounded(low_us=low, high_us=high, operand=operand):
                return _tested(Bounds(low, high, self.lower(operand, inside)), terms)
            case a.NotBetween(absent=absent, opening=opening, closing=closing):
                middle = Absent(self._absent(absent, inside))
                return Chain(self.lower(opening, inside), (middle,), self.lower(closing, inside), terms)
            case a.AbsentFor(opening=opening, absent=absent, within_us=delay):
                opened = self.lower(opening, inside)
                # The absence lasts as long as the timer, whatever WITHIN stands around it.
                never = self._absent(absent, replace(inside, within_us=None))
                return _tested(Unless(opened, never, delay, terms.agree), terms)
            case a.Repeat(operand=operand, count=count, open=False):
                return Times(count, self.lower(operand, inside), terms)
            case a.Repeat():
                raise AssertionError("an open repetition is closed by what follows it in a sequence")
            case a.Plus(operand=operand, delay_us=delay):
                return _tested(Later(self.lower(operand, inside), delay), terms)
            case a.Scoped(operand=operand, within_us=within, where=where):
                return self.lower(operand, _narrowed(terms, within, where))
            case a.Aperiodic():
                return self._aperiodic(node, terms)
            case a.Periodic(opening=opening, period_us=period, closing=closing, gathered=gathered):
                opened, closed = self.lower(opening, inside), self.lower(closing, inside)
                if gathered:
                    return Chain(opened, (Elapsed(period),), closed, terms, closes=True)
                return _tested(Pulse(opened, period, closed, terms.agree), terms)
            case _:
                assert_never(node)

    def _aperiodic(self, node: a.Aperiodic, terms: Terms) -> Form:
        inside = replace(terms, tests=())
        opening, middle, closing = (self.lower(e, inside) for e in (node.opening, node.middle, node.closing))
        if node.gathered:
            return Chain(opening, (All(middle, 1),), closing, terms, closes=True)
        return Window(opening, middle, closing, terms)

    def _and(self, left: a.Composite, right: a.Composite, terms: Terms) -> Form:
        inside = replace(terms, tests=())
        if _is_absence(left):
            absent = self._absent(_negated(left), inside)
            return Beside(self.lower(right, terms), absent, inside)
        if _is_absence(right):
            operand = self.lower(left, terms)
            return Beside(operand, self._absent(_negated(right), inside), inside)
        return Together(2, (self.lower(left, inside), self.lower(right, inside)), terms)

    def _absent(self, node: a.Composite, terms: Terms) -> Form:
        """A variable that stands several times under one negation, and not as a key, is bound inside it."""
        places: dict[str, int] = {}
        for leaf in a.walk(node):
            if isinstance(leaf, Primitive):
                for binding in leaf.bindings:
                    if isinstance(binding, Variable):
                        places[binding.name] = places.get(binding.name, 0) + 1
        several = frozenset(name for name, count in places.items() if count > 1)
        return self.lower(node, replace(terms, tests=(), agree=terms.agree | several))

    def _chain(self, node: a.Node, terms: Terms) -> Form:
        items, tests = _flattened(node)
        terms = replace(terms, tests=(*terms.tests, *tests))
        inside = replace(terms, tests=())
        made: Form | None = None
        middles: list[Middle] = []
        positive = [index for index, item in enumerate(items) if not _ends_open(item)]
        for index, item in enumerate(items):
            if _ends_open(item):
                middles.append(self._middle(item, inside))
            elif made is None and not middles:
                made = self.lower(item, inside)
            else:
                here = terms if index == positive[-1] else inside
                made = Chain(made, tuple(middles), self.lower(item, inside), here)
                middles = []
        if made is None or middles:
            raise ValueError("a repetition that nothing closes")
        return made

    def _middle(self, item: a.Composite, terms: Terms) -> Middle:
        match item:
            case a.Node(operator=Op.NOT, operands=(operand,)):
                return Absent(self._absent(operand, terms))
            case a.Repeat(operand=operand, count=count):
                return All(self.lower(operand, terms), count)
            case _:
                raise AssertionError("between lies an absence or an open repetition")


def _tested(form: Form, terms: Terms) -> Form:
    return Tested(form, terms.tests) if terms.tests else form


def _narrowed(terms: Terms, within_us: int | None, where: Scalar | None) -> Terms:
    shortest = min((d for d in (terms.within_us, within_us) if d is not None), default=None)
    return replace(terms, within_us=shortest, tests=terms.tests if where is None else (*terms.tests, where))


def _is_absence(node: a.Composite) -> bool:
    return isinstance(node, a.Node) and node.operator is Op.NOT


def _negated(node: a.Composite) -> a.Composite:
    assert isinstance(node, a.Node)
    return node.operands[0]


def _ends_open(node: a.Composite) -> bool:
    """Whether something has to follow before the expression can take place."""
    match node:
        case a.Node(operator=Op.NOT) | a.Repeat(open=True):
            return True
        case a.Node(operator=Op.SEQUENCE, operands=(_, right)):
            return _ends_open(right)
        case a.Scoped(operand=operand, within_us=None):
            return _ends_open(operand)
        case _:
            return False


def _flattened(node: a.Composite) -> tuple[list[a.Composite], list[Scalar]]:
    """A sequence as the list of its items, absences and open repetitions among them, and the WHERE inside it."""
    match node:
        case a.Node(operator=Op.SEQUENCE, operands=operands):
            parts: Iterable[tuple[list[a.Composite], list[Scalar]]] = [
                _flattened(operand) if _ends_open(operand) else ([operand], []) for operand in operands
            ]
            return [item for items, _ in parts for item in items], [test for _, tests in parts for test in tests]
        case a.Scoped(operand=operand, where=where) if _ends_open(node):
            items, tests = _flattened(operand)
            return items, tests if where is None else [*tests, where]
        case _:
            return [node], []
