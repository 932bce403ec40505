"""Whether a value fits where it is put: what an attribute, a parameter or RETURNS makes of a value of a rule.

In: a value as `algebra.scalar` has it, and a type. Out: the value as something of that type holds it.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Final

from augury import types as t
from augury.algebra.scalar import Value
from augury.kernels.columns.spelling import INTEGER_BOUNDS, round_half_up

_DAY_US: Final = 86_400_000_000
_EPOCH_DAY: Final = date(1970, 1, 1)


class Unfit(Exception):
    """A value that a type has no place for."""


def fitted(value: Value, kind: t.Type) -> Value:
    """A value as something of that type holds it; `Unfit` where it is of another kind, too large or too long."""
    match kind:
        case _ if value is None:
            return None
        # To Python a truth value is a number; to the language it is none.
        case t.Double() | t.Decimal() if isinstance(value, bool):
            raise Unfit(f"{value!r} is no {kind}")
        case t.Double() if isinstance(value, int | float | Decimal):
            return _present(_as_float(value), value, kind)
        case t.Decimal() if isinstance(value, int | float | Decimal):
            number = Decimal(value)
            return _present(round_half_up(number, kind) if number.is_finite() else None, value, kind)
        case t.Timestamp() if isinstance(value, date):
            return (value - _EPOCH_DAY).days * _DAY_US
        case t.Int() | t.BigInt() | t.Timestamp() | t.Duration() if type(value) is int:
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
