"""Expressions → documents: scalars, MATCH and COMPOSITE, with as few parentheses as their precedence allows.

In: a node as the parser makes it, and the loosest precedence that stands there without parentheses.
Out: a document to be laid out. Nothing here knows statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import assert_never

from augury.language import syntax as s
from augury.language.layout import Break, Doc, chained, group, listed
from augury.language.lexer import RESERVED

# ---- words -------------------------------------------------------------------------------------------

_PLAIN_WORD = re.compile(r"[^\W\d]\w*")


def name_text(ident: s.Ident, *, after_as: bool = False) -> str:
    """A name, backquoted where it would not be read as one; AS WITH would begin a SELECT."""
    word = ident.text.upper()
    reserved = word in RESERVED or word == "_" or (after_as and word == "WITH")
    if reserved or not _PLAIN_WORD.fullmatch(ident.text):
        return "`" + ident.text.replace("`", "``") + "`"
    return ident.text


def names_doc(idents: Iterable[s.Ident]) -> Doc:
    """Names between parentheses."""
    return ("(", listed(name_text(ident) for ident in idents), ")")


def call_doc(function: str, arguments: Iterable[Doc]) -> Doc:
    """A word and what follows it between parentheses."""
    return (f"{function}(", listed(arguments), ")")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def duration_text(duration: s.DurationLiteral) -> str:
    """A duration as it was written."""
    return f"{duration.count}{duration.unit}"


def type_text(type_ref: s.TypeRef, *, after_as: bool = False) -> str:
    """A type with its parameters."""
    parameters = ", ".join(str(number) for number in type_ref.parameters)
    return name_text(type_ref.name, after_as=after_as) + (f"({parameters})" if parameters else "")


def literal_text(value: bool | int | Decimal | float | str | None) -> str:
    """A constant, with a point or an `e` where its type needs one."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case Decimal():
            text = f"{value:f}"
            return text if "." in text else text + "."
        case float():
            text = repr(value)
            return text if "e" in text else text + "e0"
        case str():
            return _quoted(value)
        case _:
            assert_never(value)


# ---- scalar expressions ----------------------------------------------------------------------------------

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _OPERAND = range(1, 9)
_ARITHMETIC = {"+": _SUM, "-": _SUM, "||": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def _scalar_level(node: s.Scalar) -> int:
    match node:
        case s.Logical(operator=operator):
            return _OR if operator == "OR" else _AND
        case s.Unary(operator=operator):
            return _NOT if operator == "NOT" else _SIGN
        case s.Binary(operator=operator):
            return _ARITHMETIC.get(operator, _COMPARISON)
        case s.IsNull() | s.InList() | s.Between() | s.Like():
            return _COMPARISON
        case s.Literal(value=value):
            return _SIGN if literal_text(value).startswith("-") else _OPERAND
        case s.TypedLiteral() | s.DurationLiteral() | s.Now() | s.Name() | s.Call() | s.Cast() | s.Case():
            return _OPERAND
        case _:
            assert_never(node)


def scalar_doc(node: s.Scalar, floor: int = 0) -> Doc:
    """A scalar where nothing looser than `floor` stands without parentheses."""
    level = _scalar_level(node)
    if level < floor:
        return ("(", scalar_doc(node), ")")
    match node:
        case s.Literal(value=value):
            return literal_text(value)
        case s.TypedLiteral(type_name=type_name, text=text):
            return f"{name_text(type_name)} {_quoted(text)}"
        case s.DurationLiteral():
            return duration_text(node)
        case s.Now():
            return "NOW"
        case s.Name(qualifier=qualifier, name=name):
            return (f"{name_text(qualifier)}." if qualifier else "") + name_text(name)
        case s.Unary(operator=operator, operand=operand):
            # Two minus signs without a space would begin a comment.
            space = operator == "NOT" or _scalar_level(operand) == _SIGN
            return (operator, " " if space else "", scalar_doc(operand, level))
        case s.Logical(operator=operator, operands=operands):
            first, *rest = (scalar_doc(operand, level + 1) for operand in operands)
            return chained(first, ((operator, operand) for operand in rest))
        case s.Binary(operator=operator, left=left, right=right):
            if level == _COMPARISON:
                return chained(scalar_doc(left, _SUM), [(operator, scalar_doc(right, _SUM))])
            return _sum_or_product(node, level)
        case s.Call(function=function, arguments=arguments, star=star):
            return call_doc(name_text(function), ["*"] if star else [scalar_doc(a) for a in arguments])
        case s.Cast(operand=operand, type=type_ref):
            return ("CAST(", scalar_doc(operand), f" AS {type_text(type_ref, after_as=True)})")
        case s.Case():
            return _case(node)
        case s.IsNull() | s.InList() | s.Between() | s.Like():
            return _test(node)
        case _:
            assert_never(node)


def _sum_or_product(node: s.Binary, level: int) -> Doc:
    """A chain such as `a + b - c`, which is nested to the left, as one."""
    rest: list[tuple[str, Doc]] = []
    left: s.Scalar = node
    while isinstance(left, s.Binary) and _scalar_level(left) == level:
        rest.append((left.operator, scalar_doc(left.right, level + 1)))
        left = left.left
    return chained(scalar_doc(left, level + 1), reversed(rest))


def _test(node: s.IsNull | s.InList | s.Between | s.Like) -> Doc:
    negation = "NOT " if node.negated else ""
    match node:
        case s.IsNull():
            test: Doc = f"IS {negation}NULL"
        case s.InList(items=items):
            test = (negation, call_doc("IN ", [scalar_doc(item) for item in items]))
        case s.Between(low=low, high=high):
            test = (f"{negation}BETWEEN ", scalar_doc(low, _SUM), " AND ", scalar_doc(high, _SUM))
        case s.Like(pattern=pattern):
            test = (f"{negation}LIKE ", scalar_doc(pattern, _SUM))
        case _:
            assert_never(node)
    return group(scalar_doc(node.operand, _SUM), Break(), test)


def _case(node: s.Case) -> Doc:
    parts: list[Doc] = []
    for condition, value in node.branches:
        parts += ["WHEN ", scalar_doc(condition), " THEN ", scalar_doc(value), Break()]
    if node.default is not None:
        parts += ["ELSE ", scalar_doc(node.default), Break()]
    return ("CASE ", group(*parts, "END"))


# ---- MATCH ---------------------------------------------------------------------------------------------

_INFIX = {
    s.MatchOperator.PIPE: 1,
    s.MatchOperator.AFTER_FIRST: 2,
    s.MatchOperator.BETWEEN_EACH: 2,
    s.MatchOperator.OR: 3,
    s.MatchOperator.AND: 4,
    s.MatchOperator.SERIES: 5,
}
_EQUATE, _PREFIX, _PRIMARY = 6, 7, 8


def _match_level(node: s.MatchExpression, last: bool) -> int:
    match node:
        case s.EventRef():
            return _PRIMARY
        case s.MatchApply(operator=operator):
            return _PREFIX if operator is s.MatchOperator.NOT else _INFIX.get(operator, _PRIMARY)
        case s.Equate():
            return _EQUATE
        case s.Nth():
            return _PREFIX
        case s.Exists():
            return _PREFIX if last else 0
        case _:
            assert_never(node)


def match_doc(node: s.MatchExpression, floor: int = 0, last: bool = True) -> Doc:
    """An event expression where nothing looser than `floor` stands without parentheses.

    `last` says that no operator follows: EXISTS reaches as far right as it can and needs parentheses elsewhere.
    """
    level = _match_level(node, last)
    if level < floor:
        return ("(", match_doc(node), ")")
    match node:
        case s.EventRef():
            return _event(node)
        case s.Exists(variable=variable, operand=operand):
            return (f"EXISTS {name_text(variable)} ", match_doc(operand))
        case s.Nth(count=count, every=every, operand=operand):
            return (f"{'EVERY ' if every else ''}<{count}> ", match_doc(operand, _PREFIX, last))
        case s.Equate(operand=operand, variable=variable):
            return (match_doc(operand, _EQUATE, False), f" = {name_text(variable)}")
        case s.MatchApply(operator=s.MatchOperator.NOT, operands=operands):
            return ("!", match_doc(operands[0], _PREFIX, last))
        case s.MatchApply(operator=operator, operands=operands):
            if operator in _INFIX:
                return _match_infix(node, level, last)
            if not operands:
                return operator.value
            return call_doc(operator.value, [match_doc(operand) for operand in operands])
        case _:
            assert_never(node)


def _match_infix(node: s.MatchApply, level: int, last: bool) -> Doc:
    """AND and OR are flat; a chain of the others, which is nested to the left, is printed as one."""
    rest: list[tuple[str, Doc]] = []
    left: s.MatchExpression = node
    while isinstance(left, s.MatchApply) and _INFIX.get(left.operator) == level:
        first, *others = left.operands
        for operand in reversed(others):
            rest.append((left.operator.value, match_doc(operand, level + 1, last and not rest)))
        is_flat = left.operator in (s.MatchOperator.AND, s.MatchOperator.OR)
        left = first
        if is_flat:
            break
    return chained(match_doc(left, level + 1, False), reversed(rest))


def _event(node: s.EventRef) -> Doc:
    name: Doc = name_text(node.name)
    if node.arguments is not None:
        name = call_doc(name_text(node.name), [_argument(argument) for argument in node.arguments])
    return name if node.mask is None else (name, "[", scalar_doc(node.mask), "]")


def _argument(argument: s.Argument) -> Doc:
    match argument:
        case s.Wildcard():
            return "_"
        case s.Literal() | s.TypedLiteral():
            return scalar_doc(argument)
        case _:
            return match_doc(argument)


# ---- COMPOSITE -----------------------------------------------------------------------------------------

_COMPOSITE_INFIX = {s.CompositeOperator.SEQUENCE: 1, s.CompositeOperator.OR: 2, s.CompositeOperator.AND: 3}
_FACTOR, _POST, _COMPOSITE_PRIMARY = 4, 5, 6


def _composite_level(node: s.CompositeExpression) -> int:
    match node:
        case s.CompositeApply(operator=operator):
            return _COMPOSITE_INFIX.get(operator, _FACTOR)
        case s.AnyOf() | s.TimeBound() | s.NotBetween():
            return _FACTOR
        case s.Repeat() | s.Plus():
            return _POST
        case s.EventRef() | s.Scoped() | s.Aperiodic() | s.Periodic():
            return _COMPOSITE_PRIMARY
        case _:
            assert_never(node)


def composite_doc(node: s.CompositeExpression, floor: int = 0) -> Doc:
    """A composite expression where nothing looser than `floor` stands without parentheses."""
    level = _composite_level(node)
    if level < floor:
        return ("(", composite_doc(node), ")")
    match node:
        case s.EventRef():
            return _event(node)
        case s.CompositeApply(operator=s.CompositeOperator.NOT, operands=operands):
            return ("!", composite_doc(operands[0], _COMPOSITE_PRIMARY))
        case s.CompositeApply():
            return _composite_infix(node, level)
        case s.AnyOf(count=count, operands=operands):
            operands_of_any = [composite_doc(operand, _POST) for operand in operands]
            return ("ANY{", listed([str(count), *operands_of_any]), "}")
        case s.TimeBound(keyword=keyword, low=low, high=high, operand=operand):
            times = f"[{low}] [{high}]" if keyword == "BETWEEN" else f"[{high}]"
            return (f"{keyword} {times} ", composite_doc(operand, _COMPOSITE_PRIMARY))
        case s.NotBetween(absent=absent, opening=opening, closing=closing):
            bounds = listed([composite_doc(opening), composite_doc(closing)])
            return ("NOT(", composite_doc(absent), ")[", bounds, "]")
        case s.Repeat(operand=operand, count=count, open=is_open):
            times = "*" if is_open and count == 0 else f"{{{count}{',' if is_open else ''}}}"
            return (composite_doc(operand, _POST), times)
        case s.Plus(operand=operand, delay=delay):
            return (composite_doc(operand, _POST), f" + {duration_text(delay)}")
        case s.Scoped(operand=operand, within=within, where=where):
            parts: list[Doc] = [composite_doc(operand)]
            parts += [] if within is None else [Break(), f"WITHIN {duration_text(within)}"]
            parts += [] if where is None else [Break(), "WHERE ", scalar_doc(where)]
            return ("(", group(*parts), ")")
        case s.Aperiodic(opening=opening, middle=middle, closing=closing, gathered=gathered):
            operands = (opening, middle, closing)
            return call_doc("APERIODIC*" if gathered else "APERIODIC", [composite_doc(e) for e in operands])
        case s.Periodic(opening=opening, period=period, closing=closing, gathered=gathered):
            arguments = [composite_doc(opening), f"[{duration_text(period)}]", composite_doc(closing)]
            return call_doc("PERIODIC*" if gathered else "PERIODIC", arguments)
        case _:
            assert_never(node)


def _composite_infix(node: s.CompositeApply, level: int) -> Doc:
    """`|` is flat; a chain of `>` or of `&`, which is nested to the left, is printed as one."""
    rest: list[tuple[str, Doc]] = []
    left: s.CompositeExpression = node
    while isinstance(left, s.CompositeApply) and _COMPOSITE_INFIX.get(left.operator) == level:
        first, *others = left.operands
        rest += [(left.operator.value, composite_doc(operand, level + 1)) for operand in reversed(others)]
        is_flat = left.operator is s.CompositeOperator.OR
        left = first
        if is_flat:
            break
    return chained(composite_doc(left, level + 1), reversed(rest))
