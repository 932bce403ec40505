"""Values as text and text as values: the string side of CAST.

In: Arrow arrays. Out: an array of the other kind, and for text that spells no value the rows that failed.
Python reads and writes doubles and decimals row by row where Arrow's own spellings differ from ours.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.kernels.columns.column import (
    Column,
    Integers,
    Mask,
    arrow,
    arrow_type,
    missing,
    numbers,
    truths,
)

Parsed = tuple[pa.Array, Mask]

TIMESTAMP_US: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The first and last microsecond of the years 1 to 9999, since the epoch."""

INTEGER_BOUNDS: Final[dict[t.Type, tuple[int, int]]] = {
    t.INT: (-(2**31), 2**31 - 1),
    t.BIGINT: (-(2**63), 2**63 - 1),
    t.DURATION: (-(2**63), 2**63 - 1),
    t.TIMESTAMP: TIMESTAMP_US,
}

_SPACE: Final = " \t\n\r\f\v"
_NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?"
_TIME: Final = (
    r"(?i)^(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[t ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r"(?:z|(?P<sign>[+-])(?P<zone_hour>[0-9]{2})(?::?(?P<zone_minute>[0-9]{2}))?)?)?$"
)
_ZONE_MINUTES_MAX: Final = 18 * 60
_TRUE: Final = pa.array(["t", "true", "y", "yes", "1"])
_FALSE: Final = pa.array(["f", "false", "n", "no", "0"])


def parse(values: pa.Array, target: t.Type) -> Parsed:
    """The values that strings spell, and the rows that spell none."""
    text = pc.utf8_trim(values, characters=_SPACE)
    match target:
        case t.Boolean():
            return _parse_booleans(text)
        case t.Int() | t.BigInt():
            return _parse_integers(text, target)
        case t.Double():
            return _parse_doubles(text)
        case t.Decimal():
            return _parse_decimals(text, target)
        case t.Timestamp() | t.Date():
            return _parse_times(text, target)
        case t.String() | t.Duration() | t.Null():
            raise AssertionError(f"no text is parsed to {target}")
        case _:
            assert_never(target)


def _kept(text: pa.Array, rows: pa.Array) -> pa.Array:
    return pc.if_else(rows, text, pa.scalar(None, pa.string()))


def _bad(text: pa.Array, parsed: pa.Array) -> Mask:
    return truths(pc.and_(text.is_valid(), parsed.is_null()))


def _parse_booleans(text: pa.Array) -> Parsed:
    word = pc.utf8_lower(text)
    known = pc.is_in(word, value_set=pa.concat_arrays([_TRUE, _FALSE]))
    values = pc.if_else(known, pc.is_in(word, value_set=_TRUE), pa.scalar(None, pa.bool_()))
    return values, _bad(text, values)


def _parse_integers(text: pa.Array, target: t.Type) -> Parsed:
    spelled = _kept(text, pc.match_substring_regex(text, r"^[+-]?[0-9]+$"))
    digits = pc.replace_substring_regex(spelled, r"^[+-]?0*", "")
    # Nineteen digits fit 64 unsigned bits; with more, no target does.
    short = _kept(digits, pc.less_equal(pc.utf8_length(digits), 19))
    size = pc.if_else(pc.equal(short, ""), "0", short).cast(pa.uint64())
    absent = missing(size)
    sizes = size.fill_null(0).to_numpy(zero_copy_only=False)
    negative = truths(pc.starts_with(spelled, "-"))
    _, high = INTEGER_BOUNDS[target]
    fits = sizes <= np.where(negative, np.uint64(high + 1), np.uint64(high))
    signed: Integers = np.where(negative, np.uint64(0) - sizes, sizes).view(np.int64)
    values = arrow(np.where(fits, signed, 0), target, ~fits if absent is None else ~fits | absent)
    return values, _bad(text, values)


def _parse_doubles(text: pa.Array) -> Parsed:
    spelled = pc.match_substring_regex(text, rf"(?i)^(?:{_NUMBER}|nan|[+-]?inf(?:inity)?)$")
    values = _kept(pc.utf8_lower(text), spelled).cast(pa.float64())
    return values, _bad(text, values)


def _parse_decimals(text: pa.Array, target: t.Decimal) -> Parsed:
    spelled = _kept(text, pc.match_substring_regex(text, rf"^{_NUMBER}$"))
    rounded = [None if word is None else round_half_up(Decimal(word), target) for word in spelled.to_pylist()]
    values = pa.array(rounded, arrow_type(target))
    return values, _bad(text, values)


def round_half_up(number: Decimal, target: t.Decimal) -> Decimal | None:
    """The number at the scale of a decimal type, None where it has too many digits."""
    if number and number.adjusted() >= t.PRECISION_MAX:
        return None  # before an exponent of nine digits is written out
    if not number or number.adjusted() < -target.scale - 1:
        return Decimal(0)
    with decimal.localcontext(prec=t.PRECISION_MAX * 2 + 1):
        rounded = number.quantize(Decimal(1).scaleb(-target.scale), rounding=decimal.ROUND_HALF_UP)
    fits = not rounded or rounded.adjusted() < target.precision - target.scale
    return rounded if fits else None


def _parse_times(text: pa.Array, target: t.Type) -> Parsed:
    pattern = _TIME if target == t.TIMESTAMP else r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
    spelled = _kept(text, pc.match_substring_regex(text, pattern))
    parts = pc.extract_regex(spelled, _TIME)
    absent = truths(parts.is_null())

    def part(name: str) -> Integers:
        words = pc.struct_field(parts, name)
        if name == "fraction":
            words = pc.utf8_slice_codeunits(pc.utf8_rpad(words, 6, "0"), 0, 6)
        return numbers(pc.if_else(pc.equal(words, ""), "0", words).cast(pa.int64()))

    month = (part("year") - 1970) * 12 + part("month") - 1
    first = month.astype("datetime64[M]").astype("datetime64[D]")
    day = first + (part("day") - 1)
    hour, minute, second = part("hour"), part("minute"), part("second")
    zone = part("zone_hour") * 60 + part("zone_minute")
    real = (part("month") >= 1) & (part("month") <= 12)
    real &= (part("day") >= 1) & (day.astype("datetime64[M]").astype(np.int64) == month)
    real &= (hour < 24) & (minute < 60) & (second < 60)
    real &= (part("zone_minute") < 60) & (zone <= _ZONE_MINUTES_MAX)
    east = np.where(truths(pc.equal(pc.struct_field(parts, "sign"), "-")), -zone, zone)
    minutes = (day.astype(np.int64) * 24 + hour) * 60 + minute - east
    microseconds = (minutes * 60 + second) * 1_000_000 + part("fraction")
    low, high = TIMESTAMP_US
    absent |= ~real | (microseconds < low) | (microseconds > high)
    found = microseconds if target == t.TIMESTAMP else day.astype(np.int64)
    values = arrow(np.where(absent, 0, found), target, absent)
    return values, _bad(text, values)


def spell(column: Column, source: t.Type) -> pa.Array:
    """The text of values."""
    values = column.values
    match source:
        case t.String():
            return values
        case t.Boolean() | t.Int() | t.BigInt():
            return values.cast(pa.string())
        case t.Double():
            return pa.array([_double(number) for number in values.to_pylist()], pa.string())
        case t.Decimal():
            return pa.array([None if n is None else f"{n:f}" for n in values.to_pylist()], pa.string())
        case t.Timestamp():
            text = pc.strftime(values.view(pa.int64()).view(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S")
            return pc.replace_substring_regex(text, r"\.?0*$", "")
        case t.Date():
            return pc.strftime(values, format="%Y-%m-%d")
        case t.Duration() | t.Null():
            raise AssertionError(f"{source} has no text")
        case _:
            assert_never(source)


def _double(number: float | None) -> str | None:
    """As Java and Spark spell it; Python finds the same digits and puts the exponent elsewhere."""
    if number is None:
        return None
    if number != number:
        return "NaN"
    if number in (np.inf, -np.inf):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    head, *tail = map(str, digits)
    return f"{'-' * sign}{head}.{''.join(tail) or '0'}E{exponent + len(tail)}"
