"""Values on their way to DuckDB: text with its Spark type; conversions between types, and what is written as it is.

In: sqlglot's literals, and values. Out: values. What no row here knows is refused by `Untranslatable`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal as Exact
from typing import Final

from sqlglot import exp

from augury import types as t
from augury.algebra import scalar
from augury.duck.sql import kinds as k
from augury.duck.sql.functions import Function
from augury.duck.sql.kinds import DAYS, Days, SqlType, Untranslatable, duck_type
from augury.types import Decimal, Type


@dataclass(frozen=True, slots=True)
class Value:
    """Text for DuckDB and its type; `fails`: whether it may fail at run time; `digits` of a whole number as written."""

    sql: str
    type: SqlType
    fails: bool = False
    digits: int = 0


@dataclass(slots=True)
class Functions:
    """The functions that a query calls, by name, as they are found."""

    found: dict[str, Function] = field(default_factory=dict)

    def call(self, operation: str, result: Type, *operands: Value) -> Value:
        """A call of a function of ours."""
        kinds = tuple(_plain(operand.type) for operand in operands)
        function = Function(operation, kinds, result)
        self.found[function.name] = function
        return Value(f"{function.name}({', '.join(o.sql for o in operands)})", result, fails=True)


def refused(node: exp.Expr, reason: str) -> Untranslatable:
    """What to raise for a node."""
    return Untranslatable(reason, node.sql(dialect="spark")[:200])


def _plain(kind: SqlType) -> Type:
    return t.DURATION if isinstance(kind, Days) else kind


# ---- conversions ------------------------------------------------------------------------------------

_WIDENING: Final = {
    (t.INT, t.BIGINT), (t.INT, t.DOUBLE), (t.BIGINT, t.DOUBLE), (t.BOOLEAN, t.INT), (t.BOOLEAN, t.BIGINT),
    (t.BOOLEAN, t.DOUBLE), (t.INT, t.BOOLEAN), (t.BIGINT, t.BOOLEAN), (t.DATE, t.TIMESTAMP), (t.TIMESTAMP, t.DATE),
    (t.INT, t.STRING), (t.BIGINT, t.STRING), (t.BOOLEAN, t.STRING),
}  # fmt: skip
_EXACT_IN_DOUBLE: Final = 15
"""Digits of a decimal up to which DuckDB's own division by a power of ten gives the nearest DOUBLE."""


def converted(value: Value, target: SqlType, functions: Functions) -> Value:
    """The value as another type, by Spark's CAST in ANSI mode."""
    source = t.STRING if isinstance(value.type, t.String) else value.type
    if source == target or (k.is_duration(source) and k.is_duration(target)):
        return Value(value.sql, target, value.fails)
    native = f"CAST({value.sql} AS {duck_type(target)})"
    match source, target:
        case t.Null(), _:
            return Value(f"CAST(NULL AS {duck_type(target)})", target)
        case pair if pair in _WIDENING:
            return Value(native, target, value.fails)
        case (t.BigInt(), t.Int()) | (Decimal(), Decimal()) | (t.Int() | t.BigInt(), Decimal()):
            return Value(native, target, value.fails or not _fits(source, target))
        case t.Boolean(), Decimal():
            return converted(converted(value, t.INT, functions), target, functions)
        case (Decimal() | t.Double(), t.Int() | t.BigInt()):
            return Value(f"CAST(trunc({value.sql}) AS {duck_type(target)})", target, fails=True)
        case (Decimal() | t.Double(), t.Boolean()):
            return Value(f"({value.sql} <> 0)", target, value.fails)
        case Decimal(), t.String():
            return Value(native, target, value.fails)
        case Decimal(precision, _), t.Double() if precision <= _EXACT_IN_DOUBLE:
            return Value(native, target, value.fails)
        case _:
            known = scalar.cast(scalar.Field("", "x", _plain(source)), _plain(target))
            if not isinstance(known, scalar.Cast):
                raise Untranslatable(f"there is no CAST from {source} to {target} in process", value.sql)
            return functions.call("cast", _plain(target), value)


def _fits(source: SqlType, target: SqlType) -> bool:
    if not isinstance(target, Decimal):
        return False
    given = k.as_decimal(source)
    return given.scale <= target.scale and given.precision - given.scale <= target.precision - target.scale


# ---- as written --------------------------------------------------------------------------------------

_TYPES: Final[dict[str, Type]] = {
    "INT": t.INT, "BIGINT": t.BIGINT, "DOUBLE": t.DOUBLE, "BOOLEAN": t.BOOLEAN, "DATE": t.DATE,
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), t.STRING), **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ"), t.TIMESTAMP),
    "TIMESTAMPLTZ": t.TIMESTAMP,
}  # fmt: skip
_UNITS_US: Final = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000, "WEEK": 7 * 86_400_000_000,
}  # fmt: skip


def joined(sql: str, kind: SqlType, *parts: Value) -> Value:
    """A value made of others, which fails where one of them may."""
    return Value(sql, kind, any(part.fails for part in parts))


def cast_target(node: exp.Cast) -> Type:
    """The type that a CAST names."""
    name, sizes = node.to.this.value, [int(size.name) for size in node.to.expressions if size.name.isdecimal()]
    if name == "DECIMAL":
        precision, scale = (*sizes, *(10, 0)[len(sizes) :])
        return Decimal(precision, scale)
    if name not in _TYPES:
        raise refused(node, f"the type {name} is not known in process")
    return _TYPES[name]


def quoted(text: str) -> str:
    """A string as SQL takes it."""
    return "'" + text.replace("'", "''") + "'"


def literal(node: exp.Literal, *, negative: bool = False) -> Value:
    """A string or number as written."""
    if node.is_string:
        return Value(quoted(node.name), t.STRING)
    text = ("-" if negative else "") + node.name
    try:
        value = float(text) if "e" in text.lower() else Exact(text) if "." in text else int(text)
    except (ValueError, ArithmeticError):
        raise refused(node, "this number cannot be read") from None
    constant = scalar.literal(value)
    if not isinstance(constant, scalar.Constant):
        raise refused(node, "this number is too large")
    digits = len(str(abs(value))) if isinstance(value, int) else 0
    return Value(f"CAST('{text}' AS {duck_type(constant.type)})", constant.type, digits=digits)


def _unit(node: exp.Interval) -> str:
    return str(node.args["unit"].name if node.args.get("unit") else "").upper().removesuffix("S")


def months_of(node: exp.Interval) -> int:
    """The months of an INTERVAL in months or years, else 0."""
    per_unit = {"MONTH": 1, "YEAR": 12}.get(_unit(node), 0)
    return per_unit * int(node.name) if per_unit and node.name.lstrip("-").isdecimal() else 0


def interval(node: exp.Interval) -> Value:
    """A duration as written, in one unit."""
    per_unit = _UNITS_US.get(_unit(node))
    try:
        count = Exact(node.name)
    except ArithmeticError:
        count = Exact("nan")
    if per_unit is None or not count.is_finite():
        raise refused(node, "this INTERVAL is not run in process")
    return Value(f"CAST('{int(count * per_unit)}' AS BIGINT)", DAYS if _unit(node) == "DAY" else t.DURATION)
