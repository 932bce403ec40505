"""Values of rules: what a scalar expression gives; whether it fits where it is put, `kernels.fitting` says.

In: an expression, the value of each of its leaves, the tick. Out: a value; None is NULL or an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from augury.algebra.scalar import Field, Leaf, Scalar, Value, leaves
from augury.kernels.columns import arrow_type, evaluate
from augury.kernels.fitting import fitted


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
