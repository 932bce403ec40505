"""Masks, WHERE and what feeds attributes, one row at a time.

In: a scalar expression and the value of each leaf. Out: its value, or None where it is in error.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa

from augury import types as t
from augury.algebra.scalar import Leaf, Scalar, Value, leaves
from augury.kernels.columns import arrow_type, evaluate

_EPOCH = date(1970, 1, 1)


def value_of(expression: Scalar, leaf: Callable[[Leaf], Value]) -> Value:
    """What an expression gives; None is NULL or an error, neither of which is TRUE."""
    columns = {one: pa.array([_stored(leaf(one), one.type)], arrow_type(one.type)) for one in leaves(expression)}
    values = evaluate(expression, columns, None, 1).values
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.view(pa.int64())
    found: Value = values[0].as_py()
    return found


def _stored(value: Value, kind: t.Type) -> Value:
    """A value in the type of the leaf, to which it promotes."""
    match kind:
        case t.Decimal() if isinstance(value, int):
            return Decimal(value)
        case t.Double() if isinstance(value, int | Decimal):
            return float(value)
        case t.Timestamp() if isinstance(value, date):
            return (value - _EPOCH) // timedelta(microseconds=1)
        case _:
            return value
