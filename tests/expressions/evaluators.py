"""The evaluators under test. A new one joins by one function in EVALUATORS.

An evaluator takes several expressions over one table of Python values (as in `oracle.Value`) and gives, per
expression, an outcome per row: so that one that starts slowly can answer a whole table at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from augury import types as t
from augury.algebra import scalar as s
from augury.algebra.scalar import Reason
from augury.kernels.columns import arrow_type, evaluate
from tests.expressions.oracle import EPOCH, MICROSECOND, Failed, Outcome, Value

Table = Mapping[s.Leaf, Sequence[Value]]
Evaluator = Callable[[Sequence[s.Scalar], Table, datetime | None, int], list[list[Outcome]]]


def columns(expressions: Sequence[s.Scalar], table: Table, now: datetime | None, rows: int) -> list[list[Outcome]]:
    """The in-process evaluator over Arrow columns."""
    arrays = {leaf: to_arrow(values, leaf.type) for leaf, values in table.items()}
    tick = None if now is None else (now - EPOCH) // MICROSECOND
    found = []
    for expression in expressions:
        result = evaluate(expression, arrays, tick, rows)
        result.values.validate(full=True)
        assert result.values.type == arrow_type(expression.type)
        assert (len(result.values), len(result.errors)) == (rows, rows)
        values = from_arrow(result.values)
        errors = result.errors.to_pylist()
        assert all(value is None for value, error in zip(values, errors, strict=True) if error is not None)
        found.append(
            [value if error is None else Failed(Reason(error)) for value, error in zip(values, errors, strict=True)]
        )
    return found


EVALUATORS: list[Evaluator] = [columns]


def to_arrow(values: Sequence[Value], kind: t.Type) -> pa.Array:
    """Python values as the evaluator stores them: a slice of a longer array, with anything at all under NULL."""
    if isinstance(kind, t.Null):
        return pa.nulls(len(values))
    noise = next((value for value in values if value is not None), None)
    longer = [noise, *(noise if value is None else value for value in values), noise]
    if isinstance(kind, t.Timestamp | t.Duration):
        full = pa.array([_microseconds(value) for value in longer], pa.int64()).view(arrow_type(kind))
    else:
        full = pa.array(longer, arrow_type(kind))
    known = np.packbits([True, *(value is not None for value in values), True], bitorder="little")
    buffers = [pa.py_buffer(known.tobytes()), *full.buffers()[1:]]
    return pa.Array.from_buffers(full.type, len(full), buffers).slice(1, len(values))


def from_arrow(values: pa.Array) -> list[Value]:
    """The reverse."""
    if pa.types.is_timestamp(values.type):
        return [None if n is None else EPOCH + n * MICROSECOND for n in values.view(pa.int64()).to_pylist()]
    if pa.types.is_duration(values.type):
        return [None if n is None else n * MICROSECOND for n in values.view(pa.int64()).to_pylist()]
    return list(values.to_pylist())


def _microseconds(value: datetime | timedelta | None) -> int | None:
    if value is None:
        return None
    return (value - EPOCH if isinstance(value, datetime) else value) // MICROSECOND


def same(a: Outcome, b: Outcome) -> bool:
    """Equal down to the type and the sign of zero; NaN is NaN."""
    return bool(_exactly(a) == _exactly(b))


def _exactly(value: Outcome) -> Any:
    return value if isinstance(value, Failed | date | timedelta | str | Decimal) else (type(value), repr(value))
