"""Composite expressions on one line, as they are written in a program; for sentences about them."""

from __future__ import annotations

from typing import Final, assert_never

from augury.algebra import composite as c
from augury.algebra.composite import CompositeOperator as Op
from augury.algebra.expression import Primitive
from augury.algebra.scalar import dump
from augury.automata.alphabet import condition
from augury.clock import show_duration, show_time
from augury.diagnostics import NOWHERE

# How tightly operators bind, loosest first, as the language has it; WITHIN and WHERE stand at the end of parentheses.
_CLAUSES, _SEQUENCE, _OR, _AND, _FACTOR, _POST, _PRIMARY = range(7)
_BINARY: Final = {Op.SEQUENCE: _SEQUENCE, Op.OR: _OR, Op.AND: _AND}
_SECOND: Final = 1_000_000


def inline(expression: c.Composite, source: str | None = None) -> str:
    """The expression on one line: as it stands in `source`, the text of the program, where that is at hand."""
    if source is not None and expression.span != NOWHERE:
        return " ".join(source[expression.span.start : expression.span.end].split())
    return _text(expression)[0]


def negated(expression: c.Composite, source: str | None = None) -> str:
    """The absence of an expression."""
    text = inline(expression, source)
    is_primary = _text(expression)[1] == _PRIMARY or (text.startswith("(") and text.endswith(")"))
    return f"!{text}" if is_primary else f"!({text})"


def _text(expression: c.Composite) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match expression:
        case Primitive(event_class=name):
            return name + condition(expression), _PRIMARY
        case c.Node(operator=Op.NOT, operands=(operand,)):
            return f"!{_inside(operand, _PRIMARY)}", _FACTOR
        case c.Node(operator=operator, operands=operands):
            level = _BINARY[operator]
            # All associate to the left.
            sides = [_inside(operand, level + (i > 0)) for i, operand in enumerate(operands)]
            return f" {operator.value} ".join(sides), level
        case c.AnyOf(count=count, operands=operands):
            return f"ANY{{{count}, {', '.join(_inside(one, _PRIMARY) for one in operands)}}}", _FACTOR
        case c.Bounded(operand=operand):
            return f"{_bounds(expression)} {_inside(operand, _PRIMARY)}", _FACTOR
        case c.NotBetween(absent=absent, opening=opening, closing=closing):
            return f"NOT({_inside(absent)})[{_inside(opening)}, {_inside(closing)}]", _FACTOR
        case c.AbsentFor(opening=opening, absent=absent, within_us=within):
            text = f"{_inside(opening, _SEQUENCE)} > !{_inside(absent, _PRIMARY)} WITHIN {show_duration(within)}"
            return text, _CLAUSES
        case c.Repeat(operand=operand, count=count, open=is_open):
            times = "*" if is_open and not count else f"{{{count}{',' if is_open else ''}}}"
            return f"{_inside(operand, _POST)}{times}", _POST
        case c.Plus(operand=operand, delay_us=delay):
            return f"{_inside(operand, _POST)} + {show_duration(delay)}", _POST
        case c.Scoped(operand=operand, within_us=within, where=where):
            clauses = "" if within is None else f" WITHIN {show_duration(within)}"
            clauses += "" if where is None else f" WHERE {dump(where)}"
            return (_inside(operand, _SEQUENCE) + clauses, _CLAUSES) if clauses else _text(operand)
        case c.Aperiodic(opening=opening, middle=middle, closing=closing, gathered=gathered):
            parts = ", ".join(map(_inside, (opening, middle, closing)))
            return f"APERIODIC{'*' if gathered else ''}({parts})", _PRIMARY
        case c.Periodic(opening=opening, period_us=period, closing=closing, gathered=gathered):
            parts = f"{_inside(opening)}, [{show_duration(period)}], {_inside(closing)}"
            return f"PERIODIC{'*' if gathered else ''}({parts})", _PRIMARY
        case _:
            assert_never(expression)


def _inside(expression: c.Composite, required: int = _SEQUENCE) -> str:
    text, level = _text(expression)
    return text if level >= required else f"({text})"


def _bounds(expression: c.Bounded) -> str:
    low, high = expression.low_us, expression.high_us
    if low is None:
        return f"BY [{'' if high is None else show_time(high)}]"
    if high is not None and high - low < _SECOND:
        return f"AT [{show_time(low)}]"
    return f"BETWEEN [{show_time(low)}] [{'' if high is None else show_time(high)}]"
