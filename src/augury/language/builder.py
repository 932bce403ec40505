"""Reductions of the grammar → syntax nodes, called by the LALR parser as it goes, so nothing here recurses.

Every method is named after a rule or alias of bicepl.lark and gets the span of the rule and its parts, without
punctuation and the keywords that carry no information. Mistakes a grammar cannot see (an operator with the wrong
number of operands, clauses out of order) are raised as `Misuse`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lark import Token

from augury import limits
from augury.clock import Moment, NoSuchTime, duration_us, parse_moment
from augury.diagnostics import Diagnostic, Mark, Span
from augury.language import syntax as s
from augury.language.lexer import unquote


class Misuse(Exception):
    """A statement that the grammar takes but that cannot be built; carries the diagnostic."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        """Keep the diagnostic."""
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class Part:
    """A clause on its way to its statement: what it is, what it holds and where it stands."""

    kind: str
    value: Any
    span: Span


DEPTH_MAX = limits.NESTING_MAX * 2
"""Most levels a user sees are two to the parser."""

_TELLING = frozenset(
    [
        "NAME",
        "NUMBER",
        "STRING",
        "DURATION",
        "TIME",
        "SQL",
        "TRUE",
        "FALSE",
        "NULL",
        "ANY",
        "FIRST",
        "START",
        "NOT",
        "POST",
        "ON",
        "OFF",
        "STAR",
        "BAR",
        "SLASH",
        "SLASHPLUS",
        "OR",
        "AND",
        "PLUS",
        "MINUS",
        "CONCAT",
        "PERCENT",
        "EQ",
        "NE",
        "LT",
        "LE",
        "GT",
        "GE",
        "SEQUENCE",
        "MUTABLE",
        "IMMUTABLE",
        "RELATIVE",
        "PRIOR",
        "FIRSTAFTER",
        "BEFORE",
        "HAPPENED",
        "PREFIX",
        "AT",
        "BY",
        "BETWEEN",
        "UNDERSCORE",
    ]
)
_MATCH_FUNCTIONS = {
    "RELATIVE": (s.MatchOperator.RELATIVE, 2, 2),
    "PRIOR": (s.MatchOperator.PRIOR, 1, None),
    "SEQUENCE": (s.MatchOperator.SEQUENCE, 1, None),
    "FIRSTAFTER": (s.MatchOperator.FIRST_AFTER, 3, 3),
    "BEFORE": (s.MatchOperator.BEFORE, 1, 1),
    "HAPPENED": (s.MatchOperator.HAPPENED, 1, 1),
    "PREFIX": (s.MatchOperator.PREFIX, 1, 1),
}
_MATCH_INFIX = {
    "BAR": s.MatchOperator.PIPE,
    "SLASH": s.MatchOperator.AFTER_FIRST,
    "SLASHPLUS": s.MatchOperator.BETWEEN_EACH,
    "STAR": s.MatchOperator.SERIES,
    "AND": s.MatchOperator.AND,
    "OR": s.MatchOperator.OR,
}
_FLAT = frozenset({s.MatchOperator.AND, s.MatchOperator.OR, s.CompositeOperator.OR, "AND", "OR"})
_COMPOSITE_INFIX = {"GT": s.CompositeOperator.SEQUENCE, "AND": s.CompositeOperator.AND}
_COMPARATORS = {"EQ": "=", "NE": "<>", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_ARITHMETIC = {"PLUS": "+", "MINUS": "-", "CONCAT": "||", "STAR": "*", "SLASH": "/", "SLASHPLUS": "/", "PERCENT": "%"}


def span_of(part: Any) -> Span | None:
    """Where a token or node stands; None for what stands nowhere."""
    if isinstance(part, Token):
        return Span(part.start_pos or 0, part.end_pos or 0)
    return getattr(part, "span", None)


def too_deep(span: Span) -> Diagnostic:
    """What is said of something that is nested too deep."""
    return Diagnostic(
        "E401",
        f"this is nested more than {limits.NESTING_MAX} levels deep",
        Mark(span, "too deep"),
        helps=("name parts of it with DEFINE, or with classes of their own",),
    )


class Callbacks:
    """What the parser calls: looks a rule's method up in a builder and hands it the span and the telling parts."""

    def __init__(self, builder: ExpressionBuilder) -> None:
        """Serve one builder."""
        self._builder = builder

    def __getattr__(self, rule: str) -> Callable[[list[Any]], Any]:
        """The callback of a rule; an AttributeError for anything else, as the parser generator expects."""
        method = getattr(self._builder, rule)
        builder, keep_all, keep_commas = self._builder, rule == "name", rule == "repeat"

        def called(children: list[Any]) -> Any:
            parts = []
            start = end = None
            for child in children:
                if type(child) is Token:
                    if keep_all or child.type in _TELLING or (keep_commas and child.type == "COMMA"):
                        parts.append(child)
                    first, last = child.start_pos, child.end_pos
                else:
                    parts.append(child)
                    span = getattr(child, "span", None)
                    if span is None:
                        continue
                    first, last = span.start, span.end
                start = first if start is None else start
                end = last
            whole = Span(start or 0, end or 0)
            return builder.measured(method(whole, *parts), children, whole)

        return called


class ExpressionBuilder:
    """Makes syntax nodes; one instance serves one parser, one statement at a time."""

    def __init__(self) -> None:
        """Start with nothing measured."""
        self._depths: dict[int, tuple[Any, int]] = {}

    def reset(self) -> None:
        """Forget the statement before."""
        self._depths.clear()

    def measured(self, node: Any, children: list[Any], span: Span) -> Any:
        """Note how deep a node is; refuse one that is too deep."""
        depths = self._depths
        depth = 1 + max((depths[id(c)][1] for c in children if id(c) in depths), default=0)
        if id(node) in depths:  # parentheses hand on the node they hold
            depth = max(depth, depths[id(node)][1])
        elif isinstance(node, s.MatchApply | s.CompositeApply | s.Logical) and node.operator in _FLAT:
            depth = 0
            for child in [c for c in children if id(c) in depths]:
                is_operand = child is node.operands[0] or child is node.operands[-1]
                # One that is no operand was merged: forgotten here, or long lists would take space squared.
                depth = max(depth, depths[id(child)][1] + 1 if is_operand else depths.pop(id(child))[1])
        if depth > DEPTH_MAX:
            raise Misuse(too_deep(span))
        depths[id(node)] = (node, depth)
        return node

    # ---- words

    def name(self, span: Span, token: Token) -> s.Ident:
        return s.Ident(unquote(token.value), span)

    def type_ref(self, span: Span, name: s.Ident, *numbers: Token | None) -> s.TypeRef:
        return s.TypeRef(name, tuple(whole_number(n, "a length") for n in numbers if n is not None), span)

    def names_in_parens(self, span: Span, *names: s.Ident) -> Part:
        return Part("names", names, span)

    def parens(self, _span: Span, inner: Any) -> Any:
        return inner

    # ---- scalars

    def number(self, span: Span, token: Token) -> s.Literal:
        return s.Literal(_number(token), span)

    def negative_number(self, span: Span, _minus: Token, token: Token) -> s.Literal:
        return s.Literal(_negated(_number(token)), span)

    def string(self, span: Span, token: Token) -> s.Literal:
        return s.Literal(unquote(token.value), span)

    def truth(self, span: Span, token: Token) -> s.Literal:
        return s.Literal(token.type == "TRUE", span)

    def null(self, span: Span, _token: Token) -> s.Literal:
        return s.Literal(None, span)

    def duration(self, _span: Span, token: Token) -> s.DurationLiteral:
        return duration_literal(token)

    def typed_literal(self, span: Span, name: s.Ident, token: Token) -> s.TypedLiteral:
        return s.TypedLiteral(name, unquote(token.value), span)

    def now(self, span: Span) -> s.Now:
        return s.Now(span)

    def bare_name(self, span: Span, name: s.Ident) -> s.Name:
        return s.Name(None, name, span)

    def qualified_name(self, span: Span, qualifier: s.Ident, name: s.Ident) -> s.Name:
        return s.Name(qualifier, name, span)

    def scalar_not(self, span: Span, _not: Token, operand: s.Scalar) -> s.Unary:
        return s.Unary("NOT", operand, span)

    def scalar_minus(self, span: Span, _minus: Token, operand: s.Scalar) -> s.Scalar:
        is_number = isinstance(operand, s.Literal) and type(operand.value) in (int, float, Decimal)
        if is_number and not str(operand.value).startswith("-"):  # type: ignore[union-attr]
            return s.Literal(_negated(operand.value), span)  # type: ignore[union-attr, arg-type]
        return s.Unary("-", operand, span)

    def scalar_plus(self, _span: Span, _plus: Token, operand: s.Scalar) -> s.Scalar:
        return operand

    def logical(self, span: Span, left: s.Scalar, token: Token, right: s.Scalar) -> s.Logical:
        return s.Logical(token.type, _operands(token.type, left) + _operands(token.type, right), span)

    def comparator(self, _span: Span, token: Token) -> Token:
        return token

    def comparison(self, span: Span, left: s.Scalar, token: Token, right: s.Scalar) -> s.Binary:
        return s.Binary(_COMPARATORS[token.type], left, right, span)

    def arithmetic(self, span: Span, left: s.Scalar, token: Token, right: s.Scalar) -> s.Binary:
        return s.Binary(_ARITHMETIC[token.type], left, right, span)

    def is_null(self, span: Span, operand: s.Scalar, negated: Token | None, _null: Token) -> s.IsNull:
        return s.IsNull(operand, negated is not None, span)

    def in_list(self, span: Span, operand: s.Scalar, negated: Token | None, *items: s.Scalar) -> s.InList:
        return s.InList(operand, items, negated is not None, span)

    def between(
        self,
        span: Span,
        operand: s.Scalar,
        negated: Token | None,
        _word: Token,
        low: s.Scalar,
        _and: Token,
        high: s.Scalar,
    ) -> s.Between:
        return s.Between(operand, low, high, negated is not None, span)

    def like(self, span: Span, operand: s.Scalar, negated: Token | None, pattern: s.Scalar) -> s.Like:
        return s.Like(operand, pattern, negated is not None, span)

    def call(self, span: Span, function: s.Ident, *arguments: Any) -> s.Call:
        if len(arguments) == 1 and isinstance(arguments[0], Token):
            return s.Call(function, (), True, span)
        return s.Call(function, arguments, False, span)

    def cast(self, span: Span, operand: s.Scalar, type_ref: s.TypeRef) -> s.Cast:
        return s.Cast(operand, type_ref, span)

    def when(self, span: Span, condition: s.Scalar, value: s.Scalar) -> Part:
        return Part("when", (condition, value), span)

    def case(self, span: Span, *parts: Any) -> s.Case:
        branches = tuple(p.value for p in parts if isinstance(p, Part))
        default = next((p for p in parts if p is not None and not isinstance(p, Part)), None)
        return s.Case(branches, default, span)

    # ---- events

    def wildcard(self, span: Span, _token: Token) -> s.Wildcard:
        return s.Wildcard(span)

    def event_arguments(self, span: Span, *arguments: s.Argument) -> Part:
        return Part("arguments", arguments, span)

    def mask(self, span: Span, predicate: s.Scalar) -> Part:
        return Part("mask", predicate, span)

    def event_ref(self, span: Span, name: s.Ident, arguments: Part | None, mask: Part | None) -> s.EventRef:
        return s.EventRef(name, arguments.value if arguments else None, mask.value if mask else None, span)

    # ---- MATCH

    def match_word(self, span: Span, token: Token) -> s.MatchApply:
        return s.MatchApply(s.MatchOperator[token.type], (), span)

    def match_not(self, span: Span, _not: Token, operand: s.MatchExpression) -> s.MatchApply:
        return s.MatchApply(s.MatchOperator.NOT, (operand,), span)

    def match_infix(self, span: Span, left: s.MatchExpression, token: Token, right: s.MatchExpression) -> s.MatchApply:
        return s.MatchApply(_MATCH_INFIX[token.type], (left, right), span)

    def match_flat(self, span: Span, left: s.MatchExpression, token: Token, right: s.MatchExpression) -> s.MatchApply:
        operator = _MATCH_INFIX[token.type]
        return s.MatchApply(operator, _operands(operator, left) + _operands(operator, right), span)

    def equate(self, span: Span, operand: s.MatchExpression, _eq: Token, variable: s.Ident) -> s.Equate:
        return s.Equate(operand, variable, span)

    def nth(self, span: Span, _lt: Token, count: Token, _gt: Token, operand: s.MatchExpression) -> s.Nth:
        return s.Nth(_counted(count), False, operand, span)

    def every_nth(self, span: Span, _lt: Token, count: Token, _gt: Token, operand: s.MatchExpression) -> s.Nth:
        return s.Nth(_counted(count), True, operand, span)

    def exists(self, span: Span, variable: s.Ident, operand: s.MatchExpression) -> s.Exists:
        return s.Exists(variable, operand, span)

    def relative_plus(self, span: Span, _name: Token, _plus: Token, operand: s.MatchExpression) -> s.MatchApply:
        return s.MatchApply(s.MatchOperator.RELATIVE_PLUS, (operand,), span)

    def match_function(self, _span: Span, token: Token) -> Token:
        return token

    def match_call(self, span: Span, token: Token, *operands: s.MatchExpression) -> s.MatchApply:
        operator, least, most = _MATCH_FUNCTIONS[token.type]
        if len(operands) < least or (most is not None and len(operands) > most):
            wanted = f"{least}" if least == most else f"at least {least}"
            noun = "operand" if wanted == "1" else "operands"
            raise Misuse(
                Diagnostic(
                    "E109",
                    f"`{operator}` takes {wanted} {noun}, not {len(operands)}",
                    Mark(span_of(token) or span, f"{len(operands)} given"),
                    helps=(_MATCH_FORMS[operator],),
                )
            )
        return s.MatchApply(operator, operands, span)

    # ---- COMPOSITE

    def composite_then(self, _span: Span, token: Token) -> Token:
        return Token("GT", token.value, start_pos=token.start_pos, end_pos=token.end_pos)

    def composite_or(self, _span: Span, token: Token) -> Token:
        return token

    def composite_infix(
        self, span: Span, left: s.CompositeExpression, token: Token, right: s.CompositeExpression
    ) -> s.CompositeApply:
        return s.CompositeApply(_COMPOSITE_INFIX[token.type], (left, right), span)

    def composite_flat(
        self, span: Span, left: s.CompositeExpression, _token: Token, right: s.CompositeExpression
    ) -> s.CompositeApply:
        is_or = isinstance(left, s.CompositeApply) and left.operator is s.CompositeOperator.OR
        operands = (*(left.operands if is_or else (left,)), right)  # type: ignore[union-attr]
        return s.CompositeApply(s.CompositeOperator.OR, operands, span)

    def composite_not(self, span: Span, _not: Token, operand: s.CompositeExpression) -> s.CompositeApply:
        return s.CompositeApply(s.CompositeOperator.NOT, (operand,), span)

    def not_between(self, span: Span, _not: Token, *parts: s.CompositeExpression) -> s.NotBetween:
        absent, opening, closing = parts
        return s.NotBetween(absent, opening, closing, span)

    def any_of(self, span: Span, _any: Token, count: Token, *operands: s.CompositeExpression) -> s.AnyOf:
        return s.AnyOf(whole_number(count, "the number of events"), operands, span)

    def time_bound(self, span: Span, keyword: Token, *parts: Any) -> s.TimeBound:
        *times, operand = parts
        moments = [_moment(t) for t in times]
        low = None if keyword.type == "BY" else moments[0]
        return s.TimeBound(keyword.type, low, moments[-1], operand, span)

    def repeat(self, span: Span, operand: s.CompositeExpression, count: Token, comma: Token | None) -> s.Repeat:
        return s.Repeat(operand, whole_number(count, "the number of events"), comma is not None, span)

    def repeat_star(self, span: Span, operand: s.CompositeExpression, _star: Token) -> s.Repeat:
        return s.Repeat(operand, 0, True, span)

    def plus(self, span: Span, operand: s.CompositeExpression, _plus: Token, delay: Token) -> s.Plus:
        return s.Plus(operand, duration_literal(delay), span)

    def scoped(self, span: Span, operand: s.CompositeExpression, *limits_: Any) -> s.Scoped:
        within = next((duration_literal(p) for p in limits_ if isinstance(p, Token)), None)
        where = next((p for p in limits_ if p is not None and not isinstance(p, Token)), None)
        return s.Scoped(operand, within, where, span)

    def aperiodic(self, span: Span, star: Token | None, *parts: s.CompositeExpression) -> s.Aperiodic:
        opening, middle, closing = parts
        return s.Aperiodic(opening, middle, closing, star is not None, span)

    def periodic(
        self,
        span: Span,
        star: Token | None,
        opening: s.CompositeExpression,
        period: Token,
        closing: s.CompositeExpression,
    ) -> s.Periodic:
        return s.Periodic(opening, duration_literal(period), closing, star is not None, span)


_MATCH_FORMS = {
    s.MatchOperator.RELATIVE: "write relative(E, F)",
    s.MatchOperator.PRIOR: "write prior(E, F) or prior(E1, …, En)",
    s.MatchOperator.SEQUENCE: "write sequence(E, F) or sequence(E1, …, En)",
    s.MatchOperator.FIRST_AFTER: "write firstAfter(E1, E2, F): E2 after E1, with no F between",
    s.MatchOperator.BEFORE: "write before(E)",
    s.MatchOperator.HAPPENED: "write happened(E)",
    s.MatchOperator.PREFIX: "write prefix(E)",
}


def refuse(code: str, message: str, span: Span, label: str = "", *helps: str) -> Misuse:
    """A Misuse to raise."""
    return Misuse(Diagnostic(code, message, Mark(span, label), helps=helps))


def _operands(operator: str, part: Any) -> tuple[Any, ...]:
    """What a part gives to a flat node: itself, or its operands if it is one of the same operator."""
    is_same = isinstance(part, s.MatchApply | s.Logical) and part.operator == operator
    return part.operands if is_same else (part,)


def _number(token: Token) -> int | Decimal | float:
    text = str(token.value)
    if "e" in text.lower():
        value = float(text)
        if math.isinf(value):
            span = span_of(token) or Span(0, 0)
            raise refuse("E110", f"the number {text} is too large", span, "a DOUBLE ends at about 1.8e308")
        return value
    digits = text.lstrip("0")
    if len(digits) > 80:
        raise refuse("E110", "the number is too long", span_of(token) or Span(0, 0), f"{len(digits)} digits")
    return Decimal(text) if "." in text else int(digits or "0")


def _negated(value: int | Decimal | float) -> int | Decimal | float:
    """The unary minus of a Decimal would round it to the precision of the current context."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def whole_number(token: Token, what: str) -> int:
    """The value of a number that must not have a fraction."""
    value = _number(token)
    if not isinstance(value, int):
        span, whole = span_of(token) or Span(0, 0), int(value)
        raise refuse("E110", f"{what} is a whole number, not {token.value}", span, "not whole", f"write e.g. {whole}")
    return value


def _counted(token: Token) -> int:
    return whole_number(token, "the n of `<n> E`")


def duration_literal(token: Token) -> s.DurationLiteral:
    """The syntax of a duration token."""
    span = span_of(token) or Span(0, 0)
    digits, unit = token.value[:-1], token.value[-1].lower()
    if len(digits) > 20 or duration_us(int(digits), unit) > limits.DURATION_US_MAX:
        raise refuse("E110", f"the duration {token.value[:30]} is too long", span, "beyond 10,000 years")
    return s.DurationLiteral(int(digits), unit, span)


def _moment(token: Token) -> Moment:
    span = span_of(token) or Span(0, 0)
    try:
        return parse_moment(token.value[1:-1])
    except NoSuchTime as error:
        why = "such a day or hour does not exist" if "such time" in str(error) else str(error)
        raise refuse("E108", f"`{token.value}` is not a time", span, "no such time", why) from None
