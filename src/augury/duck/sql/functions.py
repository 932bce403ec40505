"""What DuckDB lacks, as functions over Arrow columns that it calls: exact decimals, casts, letters.

In: the kind of a function and its types. Out: its name, and how it is computed. Casts are those of `kernels.columns`.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal as Exact
from typing import Any, Final

import pyarrow as pa

from augury import types as t
from augury.algebra import scalar
from augury.algebra.scalar import Reason
from augury.duck.sql.kinds import duck_type
from augury.kernels.columns import arrow_type, evaluate
from augury.types import Type

_DIGITS: Final = decimal.Context(prec=120, rounding=decimal.ROUND_HALF_UP)
_QUOTIENT: Final = Exact(1).scaleb(-39)
"""Spark cuts a quotient of decimals here before it rounds it to the scale of the result."""

_REASONS: Final = {
    Reason.OVERFLOW: "does not fit",
    Reason.INVALID_CAST: "does not spell",
    Reason.DIVISION_BY_ZERO: "is divided by zero",
}


class Failure(ArithmeticError):
    """A value that a function has no result for; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function by what it does and its types."""

    operation: str
    operands: tuple[Type, ...]
    result: Type

    @property
    def name(self) -> str:
        """What SQL calls it."""
        kinds = [re.sub(r"\W+", "_", duck_type(kind).lower()).strip("_") for kind in (*self.operands, self.result)]
        return "_".join(["spark", self.operation, *kinds])

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """The result for every row."""
        match self.operation:
            case "cast":
                return self._cast(columns[0])
            case "upper" | "lower":
                change: Callable[[str], str] = getattr(str, self.operation)
                return pa.array(
                    [None if text is None else change(text) for text in columns[0].to_pylist()], pa.string()
                )
            case _:
                rows = zip(*(column.to_pylist() for column in columns), strict=True)
                return pa.array([self._exact(*row) for row in rows], arrow_type(self.result))

    def _cast(self, values: pa.Array) -> pa.Array:
        source, target = self.operands[0], self.result
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        field = scalar.Field("", "x", source)
        cast = scalar.cast(field, target)
        assert isinstance(cast, scalar.Cast), cast
        found = evaluate(cast, {field: _viewed(values, arrow_type(source))}, None, len(values))
        if found.errors.null_count < len(values):
            row = next(i for i, error in enumerate(found.errors.to_pylist()) if error is not None)
            value = values[row].as_py()
            shown = repr(value) if isinstance(value, str) else str(value)
            raise Failure(f"{shown} {_REASONS[Reason(found.errors[row].as_py())]} {t.with_article(target)}")
        return _viewed(found.values, pa.timestamp("us")) if target == t.TIMESTAMP else found.values

    def _exact(self, a: Exact | None, b: Exact | None) -> Exact | int | None:
        if a is None or b is None:
            return None
        if not b and self.operation in ("divide", "modulo", "quotient"):
            raise Failure(f"{a} is divided by zero")
        match self.operation:
            case "add":
                found = _DIGITS.add(a, b)
            case "subtract":
                found = _DIGITS.subtract(a, b)
            case "multiply":
                found = _DIGITS.multiply(a, b)
            case "divide":
                found = _DIGITS.divide(a, b).quantize(_QUOTIENT, context=_DIGITS)
            case "modulo":
                found = _DIGITS.remainder(a, b)
            case "quotient":
                whole = int(_DIGITS.divide_int(a, b))
                if not -(2**63) <= whole < 2**63:
                    raise Failure(f"{whole} does not fit a BIGINT")
                return whole
            case _:
                raise AssertionError(self.operation)
        return _fitted(found, self.result)


def _fitted(value: Exact, kind: Type) -> Exact:
    assert isinstance(kind, t.Decimal)
    rounded = value.quantize(Exact(1).scaleb(-kind.scale), context=_DIGITS)
    if rounded and rounded.adjusted() >= kind.precision - kind.scale:
        raise Failure(f"{rounded} does not fit {t.with_article(kind)}")
    return rounded


def _viewed(values: pa.Array, kind: pa.DataType) -> Any:
    """Moments with or without their zone, which is UTC; anything else as it is."""
    return values.view(kind) if pa.types.is_timestamp(kind) and values.type != kind else values
