"""Event expressions on one line, as they are written in a program; for sentences about them."""

from __future__ import annotations

from typing import assert_never

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
)
from augury.automata.alphabet import condition
from augury.diagnostics import NOWHERE

Op = MatchOperator

# How tightly operators bind, loosest first, as the language has it; EXISTS reaches as far right as it can.
_ANYTHING, _EQUATE, _PREFIX, _ATOM = -1, 5, 6, 7
_BINARY = {Op.PIPE: 0, Op.AFTER_FIRST: 1, Op.BETWEEN_EACH: 1, Op.OR: 2, Op.AND: 3, Op.SERIES: 4}


def inline(expression: Expression, source: str | None = None) -> str:
    """The expression on one line: as it stands in `source`, the text of the program, where that is at hand."""
    if source is not None and expression.span != NOWHERE:
        return " ".join(source[expression.span.start : expression.span.end].split())
    return _text(expression)[0]


def _text(expression: Expression) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match expression:
        case Primitive(event_class=name):
            return name + condition(expression), _ATOM
        case Place(variable=variable):
            return variable, _ATOM
        case Some(operand=operand):
            return _text(operand)
        case Nth(count=count, every=every, operand=operand):
            return f"{'EVERY ' if every else ''}<{count}> {_inside(operand, _PREFIX)}", _PREFIX
        case Equate(operand=operand, variable=variable):
            return f"{_inside(operand, _EQUATE)} = {variable}", _EQUATE
        case Exists(variable=variable, operand=operand):
            return f"EXISTS {variable} {_inside(operand, _ANYTHING)}", _ANYTHING
        case Apply(operator=operator, operands=operands):
            return _apply(operator, operands)
        case _:
            assert_never(expression)


def _apply(operator: Op, operands: tuple[Expression, ...]) -> tuple[str, int]:
    if operator in _BINARY:
        level = _BINARY[operator]
        # All associate to the left.
        sides = [_inside(operand, level + (i > 0)) for i, operand in enumerate(operands)]
        return f" {operator.value} ".join(sides), level
    if operator is Op.NOT:
        return f"!{_inside(operands[0], _PREFIX)}", _PREFIX
    if not operands:
        return operator.value, _ATOM
    return f"{operator.value}({', '.join(_inside(operand, _ANYTHING) for operand in operands)})", _ATOM


def _inside(expression: Expression, required: int) -> str:
    text, level = _text(expression)
    return text if level >= required else f"({text})"
