"""The slow oracle of expressions: one row at a time, in Python's own exact numbers.

Written from docs/expressions.md, heading by heading, and from nothing else: it shares no code with an evaluator,
only the expression nodes. It is never optimised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from augury import types as t
from augury.algebra import scalar as s
from augury.algebra.operators import Operator
from augury.algebra.scalar import Reason

Value = Any
"""None, bool, int, float, Decimal, str, datetime (naive, UTC), date or timedelta."""

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Failed(Exception):
    """The row is in error."""

    reason: Reason


OVERFLOW = Failed(Reason.OVERFLOW)
DIVISION_BY_ZERO = Failed(Reason.DIVISION_BY_ZERO)
INVALID_CAST = Failed(Reason.INVALID_CAST)

Outcome = Value | Failed


def outcome(expression: s.Scalar, row: Mapping[s.Leaf, Value], now: datetime | None = None) -> Outcome:
    """What an expression gives for a row: a value or the failure."""
    try:
        return value_of(expression, row, now)
    except Failed as failed:
        return Failed(failed.reason)


def value_of(expression: s.Scalar, row: Mapping[s.Leaf, Value], now: datetime | None = None) -> Value:
    def look(operand: s.Scalar) -> Value:
        return value_of(operand, row, now)

    match expression:
        case s.Constant(value=value, type=kind):
            return _constant(value, kind)
        case s.Field() | s.Previous() | s.Timing():
            return row[expression]
        case s.Now():
            return now
        case s.Cast(operand=operand, type=target):
            return cast(look(operand), operand.type, target)
        case s.Case(branches=branches, default=default, type=kind):
            for condition, chosen in branches:
                if look(condition) is True:
                    return cast(look(chosen), chosen.type, kind)
            return cast(look(default), default.type, kind)
        case s.Apply(operator=operator, operands=operands, type=kind):
            return _apply(operator, operands, kind, look)


def _constant(value: Any, kind: t.Type) -> Value:
    if value is None:
        return None
    match kind:
        case t.Timestamp():
            return EPOCH + value * MICROSECOND
        case t.Duration():
            return value * MICROSECOND
        case _:
            pass
    return value


# ---- NULL, errors and truth ------------------------------------------------------------------------


def _apply(operator: Operator, operands: Sequence[s.Scalar], kind: t.Type, look: Any) -> Value:
    match operator:
        case Operator.AND:
            return _decide((look(o) for o in operands), stop=False)
        case Operator.OR:
            return _decide((look(o) for o in operands), stop=True)
        case Operator.IN:
            x = look(operands[0])
            tests = (compare(Operator.EQ, x, operands[0].type, look(item), item.type) for item in operands[1:])
            return _decide(tests, stop=True)
        case Operator.COALESCE:
            for operand in operands:
                if (value := look(operand)) is not None:
                    return cast(value, operand.type, kind)
            return None
        case Operator.IF:
            chosen = operands[1] if look(operands[0]) is True else operands[2]
            return cast(look(chosen), chosen.type, kind)
        case _:
            pass
    values = [look(operand) for operand in operands]
    types = [operand.type for operand in operands]
    match operator:
        case Operator.IS_NULL:
            return values[0] is None
        case Operator.NULLIF:
            same = compare(Operator.EQ, values[0], types[0], values[1], types[1])
            return None if same is True else values[0]
        case Operator.GREATEST | Operator.LEAST:
            return _extreme(operator, values, types, kind)
        case _:
            pass
    if None in values:
        return None
    return _strict(operator, values, types, kind)


def _decide(values: Iterable[bool | None], stop: bool) -> bool | None:
    seen_null = False
    for value in values:
        if value is stop:
            return stop
        seen_null = seen_null or value is None
    return None if seen_null else not stop


def _extreme(operator: Operator, values: Sequence[Value], types: Sequence[t.Type], kind: t.Type) -> Value:
    promoted = [cast(value, source, kind) for value, source in zip(values, types, strict=True)]
    best = None
    wanted = Operator.GT if operator is Operator.GREATEST else Operator.LT
    for value in promoted:
        if value is not None and (best is None or compare(wanted, value, kind, best, kind)):
            best = value
    return best


def _strict(operator: Operator, values: Sequence[Value], types: Sequence[t.Type], kind: t.Type) -> Value:
    match operator:
        case Operator.NOT:
            return not values[0]
        case Operator.EQ | Operator.NE | Operator.LT | Operator.LE | Operator.GT | Operator.GE:
            return compare(operator, values[0], types[0], values[1], types[1])
        case Operator.ADD | Operator.SUBTRACT | Operator.MULTIPLY | Operator.DIVIDE | Operator.MODULO:
            return arithmetic(operator, values[0], types[0], values[1], types[1], kind)
        case Operator.NEGATE:
            return -values[0] if isinstance(kind, t.Double) else fit(-exact(values[0]), kind)
        case Operator.ABS:
            return abs(values[0]) if isinstance(kind, t.Double) else fit(abs(exact(values[0])), kind)
        case Operator.CEIL | Operator.FLOOR:
            if isinstance(values[0], float) and not math.isfinite(values[0]):
                raise OVERFLOW
            whole = math.ceil if operator is Operator.CEIL else math.floor
            return fit(Fraction(whole(Fraction(values[0]))), kind)
        case Operator.YEAR | Operator.MONTH | Operator.DAY:
            return getattr(values[0], operator.value.lower())
        case Operator.HOUR | Operator.MINUTE | Operator.SECOND:
            return getattr(moment(values[0]), operator.value.lower())
        case _:
            pass
    return text_function(operator, values)


# ---- comparisons -----------------------------------------------------------------------------------


def compare(operator: Operator, a: Value, a_type: t.Type, b: Value, b_type: t.Type) -> bool | None:
    if a is None or b is None:
        return None
    if isinstance(a_type, t.Double) or isinstance(b_type, t.Double):
        less, same = _float_order(float(a), float(b))
    elif isinstance(a, str):
        less, same = a.encode() < b.encode(), a == b
    elif isinstance(a, date):
        less, same = moment(a) < moment(b), moment(a) == moment(b)
    else:
        less, same = exact(a) < exact(b), exact(a) == exact(b)
    return {
        Operator.EQ: same,
        Operator.NE: not same,
        Operator.LT: less,
        Operator.LE: less or same,
        Operator.GT: not (less or same),
        Operator.GE: not less,
    }[operator]


def _float_order(a: float, b: float) -> tuple[bool, bool]:
    if math.isnan(a) or math.isnan(b):
        return not math.isnan(a), math.isnan(a) and math.isnan(b)
    return a < b, a == b


# ---- arithmetic ------------------------------------------------------------------------------------


def exact(value: Value) -> Fraction:
    """A number, a truth value, or a time or duration in microseconds, without loss."""
    if isinstance(value, date):
        return Fraction((moment(value) - EPOCH) // MICROSECOND)
    if isinstance(value, timedelta):
        return Fraction(value // MICROSECOND)
    return Fraction(value)


def moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def half_up(number: Fraction, scale: int) -> Fraction:
    size = math.floor(abs(number) * 10**scale + Fraction(1, 2))
    return Fraction(-size if number < 0 else size, 10**scale)


def truncated(number: Fraction) -> Fraction:
    return Fraction(math.trunc(number))


def as_decimal(number: Fraction, scale: int) -> Decimal:
    unscaled = number * 10**scale
    assert unscaled.denominator == 1
    digits = tuple(map(int, str(abs(unscaled.numerator))))
    return Decimal((int(number < 0), digits, -scale))


def fit(number: Fraction, kind: t.Type) -> Value:
    """The number (of microseconds, for times) as a value of an exact type, which it has to fit."""
    match kind:
        case t.Int() | t.BigInt() | t.Duration():
            bits = 32 if isinstance(kind, t.Int) else 64
            if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
                raise OVERFLOW
            assert number.denominator == 1
            return number.numerator * MICROSECOND if isinstance(kind, t.Duration) else number.numerator
        case t.Decimal(precision, scale):
            rounded = half_up(number, scale)
            if abs(rounded) * 10**scale >= 10**precision:
                raise OVERFLOW
            return as_decimal(rounded, scale)
        case t.Timestamp():
            assert number.denominator == 1
            try:
                return EPOCH + number.numerator * MICROSECOND
            except OverflowError:
                raise OVERFLOW from None
        case _:
            pass
    raise AssertionError(kind)


def arithmetic(op: Operator, a: Value, a_type: t.Type, b: Value, b_type: t.Type, kind: t.Type) -> Value:
    if isinstance(kind, t.Double):
        x, y = (exact(v) if isinstance(v, timedelta) else v for v in (a, b))
        return _floating(op, float(x), float(y))
    m, n = exact(a), exact(b)
    if op in (Operator.DIVIDE, Operator.MODULO) and n == 0:
        raise DIVISION_BY_ZERO
    match op:
        case Operator.ADD:
            return fit(m + n, kind)
        case Operator.SUBTRACT:
            return fit(m - n, kind)
        case Operator.MULTIPLY:
            return fit(m * n, kind)
        case Operator.DIVIDE:
            return fit(m / n if isinstance(kind, t.Decimal) else truncated(m / n), kind)
        case _:
            pass
    return fit(m - n * truncated(m / n), kind)


def _floating(op: Operator, a: float, b: float) -> float:
    if op in (Operator.DIVIDE, Operator.MODULO) and b == 0:
        raise DIVISION_BY_ZERO
    match op:
        case Operator.ADD:
            return a + b
        case Operator.SUBTRACT:
            return a - b
        case Operator.MULTIPLY:
            return a * b
        case Operator.DIVIDE:
            return a / b
        case _:
            pass
    return math.nan if math.isinf(a) or math.isnan(a) or math.isnan(b) else math.fmod(a, b)


# ---- strings ---------------------------------------------------------------------------------------


def text_function(operator: Operator, values: Sequence[Value]) -> Value:
    text = values[0]
    match operator:
        case Operator.CONCAT:
            return "".join(values)
        case Operator.LENGTH:
            return len(text)
        case Operator.LOWER:
            return "".join("i" if c == "İ" else c.lower() for c in text)
        case Operator.UPPER:
            return "".join(map(_upper, text))
        case Operator.TRIM:
            return text.strip(" ")
        case Operator.STARTSWITH:
            return text.startswith(values[1])
        case Operator.ENDSWITH:
            return text.endswith(values[1])
        case Operator.CONTAINS:
            return values[1] in text
        case Operator.LIKE:
            return like(text, values[1])
        case Operator.SUBSTRING:
            start = values[1]
            first = start if start > 0 else 1 if start == 0 else len(text) + 1 + start
            end = first + values[2] if len(values) > 2 else len(text) + 1
            return "".join(c for position, c in enumerate(text, 1) if first <= position < end)
        case _:
            pass
    raise AssertionError(operator)


def _upper(letter: str) -> str:
    if letter == "ß":
        return "ẞ"
    # Letters with a two-letter capital may still have a one-letter partner, their title form: ᾳ, ᾼ.
    return next((c for c in (letter.upper(), letter.title()) if len(c) == 1), letter)


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(like(text[i:], rest) for i in range(len(text) + 1))
    if head == "\\" and rest:
        head, rest = rest[0], rest[1:]
    elif head == "_":
        return bool(text) and like(text[1:], rest)
    return text[:1] == head and like(text[1:], rest)


# ---- CAST ------------------------------------------------------------------------------------------


def cast(value: Value, source: t.Type, target: t.Type) -> Value:
    if value is None:
        return None
    if isinstance(target, t.String):
        return to_text(value, source)[: target.max_length]
    if isinstance(value, str):
        return parse(value.strip(" \t\n\r\f\v"), target)
    if isinstance(target, t.Boolean):
        return value != 0
    if isinstance(source, t.Double) and not isinstance(target, t.Double):
        return _from_double(value, target)
    match source, target:
        case t.Timestamp(), t.Double():
            return float(exact(value)) / 1e6
        case t.Timestamp(), t.Int() | t.BigInt():
            return fit(Fraction(math.floor(exact(value) / 10**6)), target)
        case t.Timestamp(), t.Decimal():
            return fit(exact(value) / 10**6, target)
        case t.Timestamp(), t.Date():
            return value.date()
        case t.Date(), t.Timestamp():
            return moment(value)
        case (t.Timestamp() | t.Date() | t.Duration(), _):
            return value
        case _, t.Double():
            return float(value)
        case _, t.Int() | t.BigInt():
            return fit(truncated(exact(value)), target)
        case _, t.Timestamp():
            return fit(truncated(exact(value) * 10**6), target)
        case _:
            pass
    return fit(exact(value), target)


def _from_double(value: float, target: t.Type) -> Value:
    if isinstance(target, t.Timestamp):
        value = value * 1e6
    if not math.isfinite(value):
        raise OVERFLOW
    if isinstance(target, t.Decimal):
        return fit(Fraction(repr(value)), target)
    return fit(truncated(Fraction(value)), target)


NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,9})?")
TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[t ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)


def parse(text: str, target: t.Type) -> Value:
    try:
        return _parse(text.lower() if text.isascii() else "?", target)
    except (ValueError, OverflowError, Failed):
        raise INVALID_CAST from None


def _parse(text: str, target: t.Type) -> Value:
    match target:
        case t.Boolean():
            if text in ("t", "true", "y", "yes", "1"):
                return True
            return False if text in ("f", "false", "n", "no", "0") else _refuse()
        case t.Int() | t.BigInt():
            return fit(Fraction(int(text)), target) if re.fullmatch(r"[+-]?[0-9]+", text) else _refuse()
        case t.Double():
            named = re.fullmatch(r"nan|[+-]?inf(inity)?", text)
            return float(text) if named or NUMBER.fullmatch(text) else _refuse()
        case t.Decimal():
            return _parse_decimal(text, target) if NUMBER.fullmatch(text) else _refuse()
        case t.Date():
            return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else _refuse()
        case t.Timestamp():
            found = TIME.fullmatch(text)
            return _parse_time(*found.groups()) if found else _refuse()
        case _:
            pass
    raise AssertionError(target)


def _refuse() -> Value:
    raise INVALID_CAST


def _parse_decimal(text: str, target: t.Decimal) -> Value:
    number = Decimal(text)
    # Written out, an exponent of nine digits would not fit memory; these are far out on either side.
    if number and number.adjusted() > 50:
        raise INVALID_CAST
    return fit(Fraction(0) if number.adjusted() < -50 else Fraction(number), target)


def _parse_time(day: str, hour: str, minute: str, second: str, fraction: str, zone: str) -> datetime:
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    microsecond = int(((fraction or "") + "000000")[:6])
    year, month, date_of_month = map(int, day.split("-"))
    local = datetime(year, month, date_of_month, *clock, microsecond)
    if not zone or zone == "z":
        return local
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if int(digits[2:]) > 59 or offset > timedelta(hours=18):
        raise INVALID_CAST
    return local - offset if zone[0] == "+" else local + offset


def to_text(value: Value, source: t.Type) -> str:
    match source:
        case t.String():
            return str(value)
        case t.Boolean():
            return "true" if value else "false"
        case t.Int() | t.BigInt():
            return str(value)
        case t.Decimal(scale=scale):
            whole, part = divmod(abs(exact(value)) * 10**scale, 10**scale)
            sign = "-" if value < 0 else ""
            return f"{sign}{whole}" + (f".{int(part):0{scale}d}" if scale else "")
        case t.Double():
            return _double_text(value)
        case t.Timestamp():
            seconds = f"{value.year:04d}-{value.month:02d}-{value.day:02d} {value:%H:%M:%S}"
            return seconds + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")
        case t.Date():
            return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
        case _:
            pass
    raise AssertionError(source)


def _double_text(value: float) -> str:
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign = "-" if value < 0 else ""
    shortest = Decimal(repr(abs(value))).normalize()
    if Decimal("0.001") <= shortest < 10**7:
        plain = f"{shortest:f}"
        return sign + (plain if "." in plain else plain + ".0")
    mantissa = f"{shortest.scaleb(-shortest.adjusted()):f}"
    return f"{sign}{mantissa if '.' in mantissa else mantissa + '.0'}E{shortest.adjusted()}"
