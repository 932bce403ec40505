"""Where attribute variables are bound, and whether an expression takes place only at events that carry them.

A variable all of whose places lie under one negation is bound inside it; every other one around the whole
expression, and needs a place under no negation.
"""

from __future__ import annotations

from dataclasses import replace

from augury.algebra.expression import (
    Apply,
    Equate,
    Exists,
    Expression,
    MatchOperator,
    Nth,
    Place,
    Primitive,
    Some,
    Variable,
    children,
    walk,
)
from augury.algebra.inner import undecidable_prefix
from augury.analysis.references import VariableTable
from augury.diagnostics import Findings, Mark, Span

_NEGATED_PARTS = {MatchOperator.NOT: 0, MatchOperator.SERIES: 0, MatchOperator.FIRST_AFTER: 2}
"""Which operand of an operator is negated in what it stands for."""


def bind_variables(expression: Expression, table: VariableTable, findings: Findings) -> Expression:
    """The expression with a `Some` wherever attribute variables are bound."""
    return _Binding(table, findings).scope(expression, frozenset())


def refuse_undecidable(expression: Expression, findings: Findings) -> None:
    """Note a prefix of which nobody can say whether it holds."""
    prefix = undecidable_prefix(expression)
    if prefix is not None:
        findings.error(
            "E314",
            "whether this can still take place depends on values that a negation binds, and cannot be decided",
            prefix.span,
            "cannot be decided",
            helps=["give the variable a place outside of the negation, or write `_` where any value will do"],
        )


def bound_at_the_top(expression: Expression) -> tuple[Variable, ...]:
    """The variables that have a value where the expression takes place."""
    return expression.variables if isinstance(expression, Some) else ()


class _Binding:
    def __init__(self, table: VariableTable, findings: Findings) -> None:
        self.table = table
        self.findings = findings

    def scope(self, expression: Expression, outer: frozenset[str]) -> Expression:
        """Bind what belongs to this scope (the whole, or one negated part), and then what belongs further in."""
        positive, negated = _places(expression)
        everywhere: dict[str, list[Variable]] = {}
        for region in (positive, *negated):
            for name, variable in region.items():
                everywhere.setdefault(name, []).append(variable)
        here: dict[str, Variable] = {}
        for name, places in everywhere.items():
            if name in outer:
                continue
            if name in positive:
                key = name.casefold()
                here[name] = Variable(positive[name].name, self.table.types[key], positive[name].span)
            elif len(places) > 1:
                self._unbound(places)
        inner = outer | frozenset(here)
        rebuilt = self._inside(expression, inner)
        return Some(tuple(here.values()), rebuilt, expression.span) if here else rebuilt

    def _unbound(self, places: list[Variable]) -> None:
        first, second = places[0], places[1]
        self.findings.error(
            "E302",
            f"the variable `{first.name}` stands under negations only, so nothing gives it a value",
            first.span,
            "under one negation",
            others=[Mark(second.span, "under another")],
            helps=[f"use it in a place that is not negated as well, or write `_` if any {first.name} will do"],
        )

    def _inside(self, expression: Expression, bound: frozenset[str]) -> Expression:
        """The same expression, with its negated parts as scopes of their own."""
        match expression:
            case Primitive() | Place():
                return expression
            case Apply(operator=operator, operands=operands):
                part = _NEGATED_PARTS.get(operator)
                rebuilt = tuple(
                    self.scope(operand, bound) if i == part else self._inside(operand, bound)
                    for i, operand in enumerate(operands)
                )
                return replace(expression, operands=rebuilt)
            case Nth() | Equate() | Exists() | Some():
                return replace(expression, operand=self._inside(expression.operand, bound))


def _places(expression: Expression) -> tuple[dict[str, Variable], list[dict[str, Variable]]]:
    """The variables outside negations, and those of each outermost negated part; the first place of each."""
    positive: dict[str, Variable] = {}
    negated: list[dict[str, Variable]] = []
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Primitive):
            _note(node, positive)
        part = _NEGATED_PARTS.get(node.operator) if isinstance(node, Apply) else None
        for i, child in reversed(list(enumerate(children(node)))):
            if i == part:
                region: dict[str, Variable] = {}
                for inner in walk(child):
                    if isinstance(inner, Primitive):
                        _note(inner, region)
                negated.append(region)
            else:
                stack.append(child)
    return positive, negated


def constituent_classes(expression: Expression) -> frozenset[str]:
    """The classes whose events can be constituents: those with a place outside negations and prefix."""
    found: set[str] = set()
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Primitive):
            found.add(node.event_class)
        elif isinstance(node, Apply) and node.operator is MatchOperator.PREFIX:
            continue
        part = _NEGATED_PARTS.get(node.operator) if isinstance(node, Apply) else None
        stack.extend(child for i, child in enumerate(children(node)) if i != part)
    return frozenset(found)


def _note(node: Primitive, region: dict[str, Variable]) -> None:
    for binding in node.bindings:
        if isinstance(binding, Variable):
            region.setdefault(binding.name, binding)


def warn_of_other_values(expression: Expression, span: Span, findings: Findings) -> None:
    """Warn where an expression with variables may take place at events that do not carry them."""
    variables = bound_at_the_top(expression)
    if variables and not _anchored(expression):
        names = ", ".join(f"`{v.name}`" for v in variables)
        findings.warning(
            "W302",
            f"this takes place at events of any value of {names}, not only at those of the value in question",
            span,
            "not tied to an event that carries the variable",
            helps=["end it with a class that carries the variable, e.g. … AND A(I), if that is what you mean"],
        )


def _anchored(expression: Expression) -> bool:
    """Whether it takes place only at events that a class written in it, outside negations, accounts for."""
    match expression:
        case Primitive() | Place():
            return True
        case Nth(operand=operand) | Equate(operand=operand) | Exists(operand=operand) | Some(operand=operand):
            return _anchored(operand)
        case Apply(operator=operator, operands=operands):
            match operator:
                case MatchOperator.AND | MatchOperator.PIPE:
                    return any(_anchored(operand) for operand in operands)
                case MatchOperator.OR:
                    return all(_anchored(operand) for operand in operands)
                case MatchOperator.AFTER_FIRST | MatchOperator.BETWEEN_EACH | MatchOperator.RELATIVE_PLUS:
                    return _anchored(operands[0])
                case MatchOperator.FIRST_AFTER:
                    return _anchored(operands[1])
                case MatchOperator.RELATIVE | MatchOperator.PRIOR | MatchOperator.SEQUENCE | MatchOperator.SERIES:
                    return _anchored(operands[-1])
                case MatchOperator.NULL | MatchOperator.START:
                    return True
                case _:
                    return False
