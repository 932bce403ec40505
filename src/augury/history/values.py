"""Values as they come → columns as the attributes are declared, and the rows that do not fit.

In: an Arrow array or Python values, and a type. Out: a column stored as `kernels.columns.arrow_type` says, NULL where
a value does not fit, and a mask of those rows. A value fits if it is kept as it is: numbers are neither rounded nor
cut, text is not taken for a number nor a number for text. Times may be text or seconds since the epoch; what is
finer than a microsecond is cut off in text, and rounded in numbers.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.clock import NoSuchTime, microseconds_of
from augury.kernels.columns import arrow_type, casts, exact, spelling
from augury.kernels.columns.column import DAY_US, Column, Mask, arrow, floats, missing, numbers, truths

_LOW_US, _HIGH_US = spelling.TIMESTAMP_US
_LOW_DAY, _HIGH_DAY = _LOW_US // DAY_US, _HIGH_US // DAY_US
_NOT_FINITE: Final = ["NaN", "Infinity", "-Infinity"]
_US_PER_UNIT: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
"""What Decimal reads, without what it reads too: underscores, other digits, NaN."""

_WIDE: Final = decimal.Context(prec=2 * t.PRECISION_MAX + 1)
"""Room for the digits of every type before and after the point."""

_ISO_LENGTHS: Final = (20, 27)
"""Of `2026-01-01T09:00:00Z` and `2026-01-01T09:00:00.123456Z`, the common spellings, which Arrow reads fast."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column of a type, and the rows whose value did not fit; None if all did."""

    values: pa.Array
    misfits: Mask | None


def fit(values: pa.Array, to: t.Type, *, text: bool = False) -> Fitted:
    """A column as a type; `text` says that strings spell values of any type, as cells of CSV do."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if _is_string(values.type) and values.type != pa.string():
        values = values.cast(pa.string())
    found = pa.nulls(len(values), arrow_type(to)) if pa.types.is_null(values.type) else _converted(values, to, text)
    if found.null_count == values.null_count:
        return Fitted(found, None)
    return Fitted(found, truths(pc.and_(values.is_valid(), found.is_null())))


def fit_objects(values: Sequence[object], to: t.Type) -> Fitted:
    """Python values, of any mixture of types, as a column of one type."""
    kinds = {kind: _group(kind) for kind in set(map(type, values))}
    if None in kinds.values():
        values = [_plain(value) for value in values]
        kinds = {kind: _group(kind) for kind in set(map(type, values))}
    groups = {group for group in kinds.values() if group is not None and group is not type(None)}
    if len(groups) == 1:
        return _of_one_group(values, groups.pop(), to)
    parts = [
        _of_one_group([v if kinds[type(v)] is group else None for v in values], group, to)
        for group in sorted(groups, key=lambda g: g.__name__)
    ]
    if not parts:
        return Fitted(pa.nulls(len(values), arrow_type(to)), None)
    masks = [part.misfits for part in parts if part.misfits is not None]
    return Fitted(pc.coalesce(*(p.values for p in parts)), np.logical_or.reduce(masks) if masks else None)


# ---- Arrow columns ---------------------------------------------------------------------------------------


def _converted(values: pa.Array, to: t.Type, text: bool) -> pa.Array:
    """The column as the type, NULL where a value does not fit."""
    is_text = _is_string(values.type)
    match to:
        case t.Boolean():
            return values if pa.types.is_boolean(values.type) else _parsed(values, to, text)
        case t.Int() | t.BigInt():
            return _whole(values, to) if _is_number(values.type) else _parsed(values, to, text)
        case t.Double():
            return _doubles(values) if _is_number(values.type) else _double_words(values, text)
        case t.Decimal():
            return _decimals(values, to, text)
        case t.String(length):
            return _strings(values, length) if is_text else _none(values, to)
        case t.Timestamp():
            return _moment_words(values, text) if is_text else _moments(values)
        case t.Date():
            return spelling.parse(values, to)[0] if is_text else _days(values)
        case t.Duration() | t.Null():
            raise AssertionError(f"no attribute is a {to}")


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _none(values: pa.Array, to: t.Type) -> pa.Array:
    return pa.nulls(len(values), arrow_type(to))


def _parsed(values: pa.Array, to: t.Type, text: bool) -> pa.Array:
    return spelling.parse(values, to)[0] if text and _is_string(values.type) else _none(values, to)


def _kept(values: pa.Array, rows: Mask) -> pa.Array:
    return values if rows.all() else pc.if_else(pa.array(rows), values, pa.scalar(None, values.type))


def _whole(values: pa.Array, to: t.Type) -> pa.Array:
    low, high = spelling.INTEGER_BOUNDS[to]
    if pa.types.is_integer(values.type):
        try:
            return values.cast(arrow_type(to))
        except pa.ArrowInvalid:
            # The bounds in the type of the values: 2³¹ is no INT to compare with.
            wide = pa.uint64() if pa.types.is_uint64(values.type) else pa.int64()
            inside = pc.less_equal(values.cast(wide), pa.scalar(high, wide))
            if wide == pa.int64():
                inside = pc.and_(inside, pc.greater_equal(values.cast(wide), pa.scalar(low, wide)))
            return _kept(values, truths(inside)).cast(arrow_type(to))
    if pa.types.is_floating(values.type):
        given = floats(values.cast(pa.float64()))
        inside = (np.trunc(given) == given) & (given >= float(low)) & (given < float(high + 1))
        return arrow(np.where(inside, given, 0.0).astype(np.int64), to, _absent(values, ~inside))
    return _by_python(values, to)


def _absent(values: pa.Array, misfits: Mask) -> Mask:
    absent = missing(values)
    return misfits if absent is None else misfits | absent


def _doubles(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        return values.cast(pa.float64())
    if pa.types.is_integer(values.type):
        return values.cast(pa.float64(), safe=False)  # the nearest: what it is in JSON, too
    return _by_python(values, t.DOUBLE)


def _double_words(values: pa.Array, text: bool) -> pa.Array:
    """JSON has no numbers for NaN and the infinities, so their names stand for them."""
    if text or not _is_string(values.type):
        return _parsed(values, t.DOUBLE, text)
    known = truths(pc.is_in(values, value_set=pa.array(_NOT_FINITE)))
    return spelling.parse(_kept(values, known | truths(values.is_null())), t.DOUBLE)[0]


def _decimals(values: pa.Array, to: t.Decimal, text: bool) -> pa.Array:
    if pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
        given = numbers(values.cast(pa.int64()))
        return casts.store(exact.magnified(given, to.scale), to, missing(values), Column(values)).values
    if pa.types.is_floating(values.type):
        return _by_python(values.cast(pa.float64()), to)
    if not (pa.types.is_decimal(values.type) or pa.types.is_integer(values.type) or (text and _is_string(values.type))):
        return _none(values, to)
    return _halved(values, lambda part: part.cast(arrow_type(to)), lambda part: _by_python(part, to))


def _halved(values: pa.Array, fast: Callable[[pa.Array], pa.Array], slow: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """All rows the fast way, which refuses a whole column for one row: the rows near it go the slow way."""
    try:
        return fast(values)
    except pa.ArrowInvalid:
        if len(values) <= 256:
            return slow(values)
    half = len(values) // 2
    return pa.concat_arrays([_halved(values[:half], fast, slow), _halved(values[half:], fast, slow)])


def _strings(values: pa.Array, length: int | None) -> pa.Array:
    if length is None:
        return values
    longest = pc.max(pc.binary_length(values)).as_py()
    if longest is None or longest <= length:
        return values
    return _kept(values, truths(pc.less_equal(pc.utf8_length(values), length)))


def _moments(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_timestamp(kind):
        if kind.unit == "us" and _all_within(values.view(pa.int64()), _LOW_US, _HIGH_US):
            return values if kind.tz == "UTC" else values.view(pa.int64()).view(arrow_type(t.TIMESTAMP))
        given = numbers(values)
        if kind.unit == "ns":
            return arrow(given // 1000, t.TIMESTAMP, missing(values))
        factor = _US_PER_UNIT[kind.unit]
        inside = (given >= _LOW_US // factor) & (given <= _HIGH_US // factor)
        return arrow(np.where(inside, given, 0) * factor, t.TIMESTAMP, _absent(values, ~inside))
    if pa.types.is_date(kind):
        days = _days(values)
        return arrow(numbers(days), t.TIMESTAMP, missing(days))
    if pa.types.is_integer(kind):
        return _moments(_whole(values, t.BIGINT).view(pa.timestamp("s")))
    if pa.types.is_floating(kind):
        with np.errstate(over="ignore"):
            given_us = np.rint(floats(values.cast(pa.float64())) * 1e6)
        inside = (given_us >= _LOW_US) & (given_us <= _HIGH_US)
        return arrow(np.where(inside, given_us, 0.0).astype(np.int64), t.TIMESTAMP, _absent(values, ~inside))
    return _by_python(values, t.TIMESTAMP) if pa.types.is_decimal(kind) else _none(values, t.TIMESTAMP)


def _all_within(values: pa.Array, low: int, high: int) -> bool:
    """Whether all numbers lie between two, without a mask of them."""
    found = pc.min_max(values).as_py()
    return found["min"] is None or (low <= found["min"] and found["max"] <= high)


def _moment_words(values: pa.Array, text: bool) -> pa.Array:
    lengths = pc.min_max(pc.binary_length(values)).as_py()
    if (
        lengths["min"] == lengths["max"]
        and lengths["min"] in _ISO_LENGTHS
        and pc.all(pc.ends_with(values, "Z")).as_py()
    ):
        try:
            return _moments(values.cast(arrow_type(t.TIMESTAMP)))
        except pa.ArrowInvalid:
            pass  # one of them is no time
    found, bad = spelling.parse(values, t.TIMESTAMP)
    if not text or not bad.any():
        return found
    # A cell may also be a number of seconds.
    return pc.coalesce(found, _by_python(_kept(values, bad), t.TIMESTAMP))


def _days(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_date32(kind):
        days = numbers(values) // DAY_US
        inside = (days >= _LOW_DAY) & (days <= _HIGH_DAY)
        return values if inside.all() else arrow(np.where(inside, days, 0), t.DATE, _absent(values, ~inside))
    if pa.types.is_date64(kind):
        return _days(_whole_days(values.view(pa.int64()).view(pa.timestamp("ms"))))
    if pa.types.is_timestamp(kind):
        return _days(_whole_days(values))
    return _none(values, t.DATE)


def _whole_days(values: pa.Array) -> pa.Array:
    """Moments that are a midnight, as days."""
    if values.type.unit == "ns":
        finer = numbers(values) % 1000 != 0
        values = _kept(values, ~finer)
    moments = _moments(values)
    given = numbers(moments)
    return arrow(given // DAY_US, t.DATE, _absent(moments, given % DAY_US != 0))


# ---- Python values ---------------------------------------------------------------------------------------


def _by_python(values: pa.Array, to: t.Type) -> pa.Array:
    """Row by row, for the sake of exactness: decimals, shortest spellings of doubles, numbers as text."""

    def converted(value: Any) -> object:
        match value:
            case None:
                return None
            case str():
                return exactly(Decimal(value.strip()), to) if _NUMBER.fullmatch(value.strip()) else None
            case float():
                return exactly(Decimal(repr(value)), to)
            case _:
                return exactly(Decimal(value), to)

    return pa.array(map(converted, values.to_pylist()), arrow_type(to))


def exactly(number: Decimal, to: t.Type) -> int | float | Decimal | None:
    """A number as the value of a type (a TIMESTAMP in microseconds), None where it does not fit."""
    if not number.is_finite() or (number and number.adjusted() > 400):
        return None  # the bound is beyond every type, and before an exponent of nine digits is written out
    match to:
        case t.Int() | t.BigInt():
            low, high = spelling.INTEGER_BOUNDS[to]
            if number.adjusted() > 20 or (whole := int(number)) != number:
                return None
            return whole if low <= whole <= high else None
        case t.Double():
            near = float(number)
            return near if math.isfinite(near) else None
        case t.Decimal(precision, scale):
            if not number:
                return Decimal(0)
            if number.adjusted() >= precision - scale or number.adjusted() < -scale:
                return None
            at_scale = number.quantize(_unit(scale), context=_WIDE)
            return at_scale if at_scale == number else None
        case t.Timestamp():
            if number.adjusted() > 15:
                return None
            moment = int(number.quantize(_unit(6), decimal.ROUND_HALF_EVEN, _WIDE).scaleb(6, _WIDE))
            return moment if _LOW_US <= moment <= _HIGH_US else None
        case _:
            return None


@cache
def _unit(scale: int) -> Decimal:
    return Decimal(1).scaleb(-scale)


_GROUPS: Final = (bool, int, float, str, Decimal, datetime, date)
"""The Python types that have a column of their own; the first that a value is an instance of counts."""


def _group(kind: type) -> type | None:
    """The group of a Python type; None where its values have to be made plain first, or are no values."""
    if kind is type(None) or kind is _Other:
        return kind
    if kind.__module__.startswith(("numpy", "pandas")) and not issubclass(kind, datetime):
        return None
    return next((group for group in _GROUPS if issubclass(kind, group)), None)


class _Other:
    """A value that no attribute can hold."""


def _plain(value: object) -> object:
    kind = type(value)
    if kind.__module__.startswith("pandas") and kind.__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, np.generic):
        value = value.item()
    return value if _group(type(value)) is not None else _Other()


def _of_one_group(values: Sequence[Any], group: type, to: t.Type) -> Fitted:
    if group is _Other:
        return _refused(values, to)
    if group is Decimal:
        found = pa.array([None if v is None else exactly(v, to) for v in values], arrow_type(to))
        return _compared(values, found)
    try:
        return fit(_GROUP_ARRAYS[group](values), to)
    except OverflowError:  # an integer of more than 64 bits
        return _of_one_group([None if v is None else Decimal(v) for v in values], Decimal, to)
    except UnicodeEncodeError:  # a lone surrogate, which is no character
        kept = [None if v is None else _utf8(v) for v in values]
        return _compared(values, fit(pa.array(kept, pa.string()), to).values)


def _utf8(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return text


def _refused(values: Sequence[object], to: t.Type) -> Fitted:
    return _compared(values, pa.nulls(len(values), arrow_type(to)))


def _compared(values: Sequence[object], found: pa.Array) -> Fitted:
    misfits = np.fromiter((v is not None for v in values), np.bool_, len(values)) & truths(found.is_null())
    return Fitted(found, misfits if misfits.any() else None)


def _moment_array(values: Sequence[datetime | None]) -> pa.Array:
    found = [None if v is None or v != v else microseconds_of(v) for v in values]
    return pa.array(found, pa.int64()).view(pa.timestamp("us", tz="UTC"))


_GROUP_ARRAYS: Final[dict[type, Callable[[Sequence[Any]], pa.Array]]] = {
    bool: lambda values: pa.array(values, pa.bool_()),
    int: lambda values: pa.array(values, pa.int64()),
    float: lambda values: pa.array(values, pa.float64()),
    str: lambda values: pa.array(values, pa.string()),
    datetime: _moment_array,
    date: lambda values: pa.array(values, pa.date32()),
}


def moment_us(text: str) -> int:
    """A time as users write it, in microseconds since the epoch; raises `NoSuchTime`."""
    fitted = fit(pa.array([text]), t.TIMESTAMP, text=True)
    if fitted.misfits is not None:
        raise NoSuchTime(f"`{text}` is no time: write 2026-01-01T09:00:00Z, or seconds since the epoch")
    moment: int = fitted.values.cast(pa.int64())[0].as_py()
    return moment


Moment = datetime | str | int
"""A time as a caller gives it: a datetime, ISO text, or whole microseconds since the epoch."""


def as_microseconds(moment: Moment) -> int:
    """A time in microseconds since the epoch; raises `NoSuchTime`."""
    match moment:
        case int():
            return moment
        case str():
            return moment_us(moment)
        case datetime():
            return microseconds_of(moment)
        case _:
            raise TypeError(f"a time is a datetime, ISO text or whole microseconds, not {moment!r}")
