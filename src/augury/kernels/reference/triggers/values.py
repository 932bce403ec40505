"""Values of rules: what a scalar expression gives, and whether a value fits where it is put.

In: an expression, the value of each of its leaves, the tick. Out: a value; None is NULL or an error.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from augury import types as t
from augury.algebra.scalar import Field, Leaf, Scalar, Value, leaves
from augury.kernels.columns import arrow_type, evaluate
from augury.kernels.columns.spelling import INTEGER_BOUNDS, round_half_up
from augury.kernels.reference.history import DAY_US, EPOCH_DAY


class Unfit(Exception):
    """A value that a type has no place for."""


def value_of(expression: Scalar, field: Callable[[Field], Value], now: int) -> Value:
    """What an expression gives at a tick; None is NULL or an error, neither of which is TRUE."""
    columns: dict[Leaf, Any] = {}
    for leaf in leaves(expression):
        assert isinstance(leaf, Field), "rules have neither PREV nor timing primitives"
        columns[leaf] = pa.array([fitted(field(leaf), leaf.type)], arrow_type(leaf.type))
    values = evaluate(expression, columns, now, 1).values
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.view(pa.int64())
    found: Value = values[0].as_py()
    return found


def fitted(value: Value, kind: t.Type) -> Value:
    """A value as something of that type holds it; `Unfit` where it is of another kind, too large or too long."""
    match kind:
        case _ if value is None:
            return None
        # To Python a truth value is a number; to the language it is none.
        case t.Double() if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            return _present(_as_float(value), value, kind)
        case t.Decimal() if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            number = Decimal(value)
            return _present(round_half_up(number, kind) if number.is_finite() else None, value, kind)
        case t.Timestamp() if isinstance(value, date):
            return (value - EPOCH_DAY).days * DAY_US
        case t.Int() | t.BigInt() | t.Timestamp() | t.Duration() if isinstance(value, int) and not isinstance(
            value, bool
        ):
            low, high = INTEGER_BOUNDS[kind]
            return _present(value if low <= value <= high else None, value, kind)
        case t.String(length) if isinstance(value, str):
            return _present(value if length is None or len(value) <= length else None, value, kind)
        case t.Boolean() if isinstance(value, bool):
            return value
        case t.Date() if isinstance(value, date):
            return value
        case t.Null():
            return None
        case _:
            raise Unfit(f"{value!r} is no {kind}")


def fitted_or_null(value: Value, kind: t.Type) -> Value:
    """The same, NULL where the value does not fit."""
    try:
        return fitted(value, kind)
    except Unfit:
        return None


def _as_float(value: int | float | Decimal) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _present(found: Value, given: Value, kind: t.Type) -> Value:
    if found is None:
        raise Unfit(f"{given!r} does not fit {kind}")
    return found
