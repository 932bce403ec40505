"""Which types each operator takes and gives, from the tables of docs/expressions.md; NULL literals apart."""

from __future__ import annotations

from collections.abc import Sequence

from augury import types as t
from augury.algebra.operators import Operator

NUMBERS = (t.Int, t.BigInt, t.Decimal, t.Double)
INTEGERS = (t.Int, t.BigInt)
TIMES = (t.Timestamp, t.Date)

COMPARISONS = {Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE}
PARTS = {Operator.YEAR, Operator.MONTH, Operator.DAY, Operator.HOUR, Operator.MINUTE, Operator.SECOND}
TEXT_TESTS = {Operator.LIKE, Operator.STARTSWITH, Operator.ENDSWITH, Operator.CONTAINS}


def alike(types: Sequence[t.Type]) -> bool:
    groups = (NUMBERS, (t.String,), TIMES, (t.Duration,), (t.Boolean,))
    return any(all(isinstance(kind, group) for kind in types) for group in groups)


def promoted(types: Sequence[t.Type]) -> t.Type:
    if any(isinstance(kind, t.Double) for kind in types):
        return t.DOUBLE
    if any(isinstance(kind, t.Decimal) for kind in types):
        sizes = [(k.precision - k.scale, k.scale) if isinstance(k, t.Decimal) else _digits(k) for k in types]
        scale = max(scale for _, scale in sizes)
        return t.Decimal(min(38, max(whole for whole, _ in sizes) + scale), scale)
    if all(isinstance(kind, t.String) for kind in types):
        lengths = [kind.max_length for kind in types if isinstance(kind, t.String)]
        return t.String(None if None in lengths else max(n for n in lengths if n))
    if len(set(types)) == 1:
        return types[0]
    return t.TIMESTAMP if isinstance(types[0], TIMES) else t.BIGINT


def _digits(kind: t.Type) -> tuple[int, int]:
    return (10 if isinstance(kind, t.Int) else 19), 0


def given(operator: Operator, types: Sequence[t.Type]) -> t.Type | None:
    """The type of the result, None where the operator does not take these types."""
    count = len(types)
    first = types[0]
    if operator in COMPARISONS:
        return t.BOOLEAN if count == 2 and alike(types) else None
    if operator in PARTS:
        return t.INT if count == 1 and isinstance(first, TIMES) else None
    if operator in TEXT_TESTS:
        return t.BOOLEAN if count == 2 and _strings(types) else None
    match operator:
        case Operator.AND | Operator.OR:
            return t.BOOLEAN if count >= 2 and all(isinstance(k, t.Boolean) for k in types) else None
        case Operator.NOT:
            return t.BOOLEAN if count == 1 and isinstance(first, t.Boolean) else None
        case Operator.IS_NULL:
            return t.BOOLEAN if count == 1 else None
        case Operator.IN:
            return t.BOOLEAN if count >= 2 and alike(types) else None
        case Operator.ADD | Operator.SUBTRACT | Operator.MULTIPLY | Operator.DIVIDE | Operator.MODULO:
            return _arithmetic(operator, types[0], types[1]) if count == 2 else None
        case Operator.NEGATE | Operator.ABS:
            return first if count == 1 and isinstance(first, (*NUMBERS, t.Duration)) else None
        case Operator.CEIL | Operator.FLOOR:
            return _whole(first) if count == 1 else None
        case Operator.COALESCE:
            return promoted(types) if alike(types) else None
        case Operator.NULLIF:
            return first if count == 2 and alike(types) else None
        case Operator.IF:
            fits = count == 3 and isinstance(first, t.Boolean) and alike(types[1:])
            return promoted(types[1:]) if fits else None
        case Operator.GREATEST | Operator.LEAST:
            return promoted(types) if count >= 2 and alike(types) else None
        case Operator.LENGTH:
            return t.INT if count == 1 and _strings(types) else None
        case Operator.LOWER | Operator.UPPER | Operator.TRIM:
            return first if count == 1 and _strings(types) else None
        case Operator.SUBSTRING:
            integers = all(isinstance(kind, INTEGERS) for kind in types[1:])
            return first if count in (2, 3) and _strings(types[:1]) and integers else None
        case Operator.CONCAT:
            return t.STRING if _strings(types) else None
        case _:
            pass
    raise AssertionError(operator)


def _strings(types: Sequence[t.Type]) -> bool:
    return all(isinstance(kind, t.String) for kind in types)


def _whole(kind: t.Type) -> t.Type | None:
    match kind:
        case t.Int() | t.BigInt():
            return kind
        case t.Decimal(precision, scale):
            return t.Decimal(min(38, precision - scale + 1), 0)
        case t.Double():
            return t.BIGINT
        case _:
            pass
    return None


def _arithmetic(operator: Operator, a: t.Type, b: t.Type) -> t.Type | None:
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        return _number(operator, a, b)
    a_time, b_time = isinstance(a, TIMES), isinstance(b, TIMES)
    a_length, b_length = isinstance(a, t.Duration), isinstance(b, t.Duration)
    match operator:
        case Operator.ADD if a_length and b_length:
            return t.DURATION
        case Operator.ADD if (a_length and b_time) or (a_time and b_length):
            return t.TIMESTAMP
        case Operator.SUBTRACT if (a_time and b_time) or (a_length and b_length):
            return t.DURATION
        case Operator.SUBTRACT if a_time and b_length:
            return t.TIMESTAMP
        case Operator.MULTIPLY if (a_length and isinstance(b, INTEGERS)) or (b_length and isinstance(a, INTEGERS)):
            return t.DURATION
        case Operator.DIVIDE if a_length and isinstance(b, INTEGERS):
            return t.DURATION
        case Operator.DIVIDE if a_length and b_length:
            return t.DOUBLE
    return None


def _number(operator: Operator, a: t.Type, b: t.Type) -> t.Type:
    if t.DOUBLE in (a, b):
        return t.DOUBLE
    if isinstance(a, t.Decimal) or isinstance(b, t.Decimal):
        s1, s2 = (kind.scale if isinstance(kind, t.Decimal) else 0 for kind in (a, b))
        scale = {Operator.MULTIPLY: min(s1 + s2, 18), Operator.DIVIDE: max(6, s1, s2)}.get(operator, max(s1, s2))
        return t.Decimal(38, scale)
    if operator is Operator.DIVIDE:
        return t.DOUBLE
    return t.INT if a == b == t.INT else t.BIGINT


def castable(source: t.Type, target: t.Type) -> bool:
    """The dashes of the table of casts."""
    match source:
        case t.Boolean():
            return isinstance(target, (*NUMBERS, t.Boolean, t.String))
        case t.Int() | t.BigInt() | t.Decimal() | t.Double():
            return isinstance(target, (*NUMBERS, t.Boolean, t.String, t.Timestamp))
        case t.String():
            return not isinstance(target, t.Duration)
        case t.Timestamp():
            return isinstance(target, (*NUMBERS, *TIMES, t.String))
        case t.Date():
            return isinstance(target, (*TIMES, t.String))
        case _:
            pass
    return isinstance(target, t.Duration)
