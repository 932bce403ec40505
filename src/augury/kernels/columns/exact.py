"""Exact integers as columns, and decimals as integers with a scale.

In and out: NumPy arrays of int64, or of Python integers where a result could be larger. That fallback is a
Python operation per row, and the price of exactness; whether a column needs it is decided by its extremes.
It knows nothing of NULL, and of errors only which rows do not fit.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.kernels.columns.column import Floats, Mask, missing

Exact = npt.NDArray[Any]

_INT64_MAX: Final = 2**63 - 1
_WORD: Final = 2**64


def add(a: Exact, b: Exact) -> Exact:
    """The sum."""
    left, right = _room(magnitude(a) + magnitude(b), a, b)
    return left + right


def subtract(a: Exact, b: Exact) -> Exact:
    """The difference."""
    left, right = _room(magnitude(a) + magnitude(b), a, b)
    return left - right


def multiply(a: Exact, b: Exact) -> Exact:
    """The product."""
    left, right = _room(magnitude(a) * magnitude(b), a, b)
    return left * right


def negated(a: Exact) -> Exact:
    """The number with the other sign."""
    (number,) = _room(magnitude(a), a)
    return -number


def absolute(a: Exact) -> Exact:
    """The number without its sign."""
    (number,) = _room(magnitude(a), a)
    return abs(number)


def quotient(a: Exact, b: Exact) -> Exact:
    """The quotient towards zero; no divisor is zero."""
    left, right = _room(max(magnitude(a), magnitude(b)), a, b)
    return _signed(abs(left) // abs(right), (left < 0) != (right < 0))


def quotient_down(a: Exact, b: int) -> Exact:
    """The quotient by a positive number, rounded down."""
    (left,) = _room(max(magnitude(a), b), a)
    return left // b


def quotient_half_up(a: Exact, b: Exact) -> Exact:
    """The nearest quotient, halves away from zero; no divisor is zero."""
    left, right = _room(2 * magnitude(a) + magnitude(b), a, b)
    right_size = abs(right)
    # 2·|a| + |b| over 2·|b|, without the doubled divisor, which would need more room than it gives.
    size, rest = abs(left) // right_size, abs(left) % right_size
    return _signed(size + (2 * rest >= right_size), (left < 0) != (right < 0))


def remainder(a: Exact, b: Exact) -> Exact:
    """What is left of the quotient towards zero: it has the sign of `a`; no divisor is zero."""
    left, right = _room(max(magnitude(a), magnitude(b)), a, b)
    return _signed(abs(left) % abs(right), left < 0)


def magnified(a: Exact, digits: int) -> Exact:
    """The number with so many zeros appended."""
    if digits == 0:
        return a
    factor = 10**digits
    (left,) = _room(max(magnitude(a) * factor, factor), a)
    longer: Exact = left * factor
    return longer


def rescaled(a: Exact, scale: int, target: int) -> Exact:
    """The unscaled number at another scale, rounded HALF_UP where digits go."""
    if target >= scale:
        return magnified(a, target - scale)
    return quotient_half_up(a, power_of_ten(scale - target))


def power_of_ten(digits: int) -> Exact:
    """10 to the power, as a column of one row that stretches to any."""
    power = 10**digits
    return np.array([power], np.int64 if power <= _INT64_MAX else np.object_)


def outside(a: Exact, low: int, high: int) -> Mask:
    """The rows that lie below `low` or above `high`."""
    rows: Mask = np.asarray((a < low) | (a > high), np.bool_)
    return rows


def clipped(a: Exact, low: int, high: int) -> npt.NDArray[np.int64]:
    """The numbers as int64, those outside the bounds as 0."""
    return np.where(outside(a, low, high), 0, a).astype(np.int64)


def magnitude(a: Exact) -> int:
    """The largest absolute value."""
    return max(abs(int(a.max())), abs(int(a.min()))) if a.size else 0


def to_floats(a: Exact, scale: int) -> Floats:
    """The nearest doubles to the unscaled numbers at that scale."""
    # Both sides are exact doubles here, and IEEE division rounds once; Python's int / int always does.
    if scale == 0 and a.dtype != np.object_:
        return a.astype(np.float64)
    if scale <= 22 and magnitude(a) <= 2**53:
        return a.astype(np.float64) / float(10**scale)
    quotients: npt.NDArray[Any] = a.astype(np.object_) / 10**scale
    return quotients.astype(np.float64)


def from_decimals(values: pa.Array) -> Exact:
    """The unscaled numbers of a decimal128 array; 0 for NULL."""
    if not len(values):
        return np.empty(0, np.int64)
    words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
    words = words[values.offset : values.offset + len(values)]
    absent = missing(values)
    if absent is not None:
        words = np.where(absent[:, None], 0, words)
    low, high = words[:, 0], words[:, 1]
    if bool((high == low >> 63).all()):
        return low.copy()
    wide: Exact = high.astype(np.object_) * _WORD + low.view(np.uint64).astype(np.object_)
    return wide


def to_decimals(a: Exact, kind: pa.Decimal128Type, absent: Mask | None) -> pa.Array:
    """A decimal128 array of unscaled numbers that fit it."""
    words = np.empty((len(a), 2), np.int64)
    if a.dtype == np.object_:
        words[:, 0] = (a % _WORD).astype(np.uint64).view(np.int64)
        words[:, 1] = (a // _WORD).astype(np.int64)
    else:
        words[:, 0] = a
        words[:, 1] = np.right_shift(words[:, 0], 63)
    validity = None if absent is None else pa.py_buffer(np.packbits(~absent, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(a), [validity, pa.py_buffer(words)])


def _room(bound: int, *numbers: Exact) -> list[Exact]:
    """The columns as they are if int64 holds `bound`, else as Python integers."""
    if bound <= _INT64_MAX and all(column.dtype != np.object_ for column in numbers):
        return list(numbers)
    return [column.astype(np.object_) for column in numbers]


def _signed(size: Any, negative: Any) -> Exact:
    signed: Exact = np.where(negative, -size, size)
    return signed
