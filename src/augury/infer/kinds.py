"""One value → what it shows about the type of its column.

In: a JSON value, the text of a CSV cell, or the type of a Parquet column. Out: a `Kind`: a type of the
language, or the reason why there is none. It knows neither files nor columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

from augury import types as t


class Oddity(StrEnum):
    """What a value can be besides a value of one type."""

    LEADING_ZEROS = "digits with leading zeros"
    NOT_FINITE = "NaN or Infinity"
    OBJECT = "objects"
    ARRAY = "arrays"
    BYTES = "bytes"
    TIME_OF_DAY = "times of day"
    OTHER = "values that no attribute can hold"


Kind = t.Type | Oddity

TEXT_ODDITIES = frozenset({Oddity.LEADING_ZEROS})
LEFT_OUT = frozenset({Oddity.OBJECT, Oddity.ARRAY, Oddity.BYTES, Oddity.TIME_OF_DAY, Oddity.OTHER})
"""What makes a column no attribute."""

_ISO_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CELL = re.compile(
    r"""(?P<whole>-?(?:0|[1-9][0-9]*))
    | (?P<zeros>-?0[0-9]+)
    | (?P<fraction>-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?|-?\.[0-9]+)
    | (?P<truth>[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])""",
    re.VERBOSE,
)


def kind_of_json(value: Any) -> Kind:
    """The kind of a JSON value other than null."""
    if isinstance(value, str):
        return kind_of_string(value)
    if isinstance(value, bool):
        return t.BOOLEAN
    if isinstance(value, int):
        return kind_of_whole(value)
    if isinstance(value, float):
        return t.DOUBLE if math.isfinite(value) else Oddity.NOT_FINITE
    return Oddity.OBJECT if isinstance(value, dict) else Oddity.ARRAY


def kind_of_string(text: str) -> Kind:
    """TIMESTAMP or DATE for ISO-8601, else STRING: a quoted number is text."""
    if len(text) < 10 or text[4] != "-":
        return t.STRING
    try:
        if _ISO_TIME.fullmatch(text):
            moment = datetime.fromisoformat(text)
            if moment.tzinfo:
                moment.astimezone(UTC)
            return t.TIMESTAMP
        if _ISO_DATE.fullmatch(text):
            date.fromisoformat(text)
            return t.DATE
    except (ValueError, OverflowError):
        return t.STRING
    return t.STRING


def kind_of_cell(text: str) -> Kind:
    """The kind of a CSV cell that is not empty; digits a number would not keep (`00123`, `+43…`) are text."""
    found = _CELL.fullmatch(text)
    if found is None:
        return kind_of_string(text)
    match found.lastgroup:
        case "whole":
            # A number of more digits than any type holds is not worth reading.
            return kind_of_whole(int(text)) if len(text) <= t.PRECISION_MAX + 1 else t.STRING
        case "zeros":
            return Oddity.LEADING_ZEROS
        case "truth":
            return t.BOOLEAN
        case _:
            return t.DOUBLE if math.isfinite(float(text)) else t.STRING


def kind_of_whole(number: int) -> Kind:
    """The narrowest type for a whole number; beyond all of them it can only be kept as text."""
    if -(2**31) <= number < 2**31:
        return t.INT
    if -(2**63) <= number < 2**63:
        return t.BIGINT
    return t.Decimal(t.PRECISION_MAX, 0) if abs(number) < 10**t.PRECISION_MAX else t.STRING


def kind_of_arrow(arrow_type: Any) -> Kind:
    """The kind of a Parquet column, from its Arrow type."""
    from pyarrow import types as a

    if a.is_dictionary(arrow_type):
        return kind_of_arrow(arrow_type.value_type)
    if a.is_decimal(arrow_type):
        precision, scale = arrow_type.precision, arrow_type.scale
        fits = precision <= t.PRECISION_MAX and 0 <= scale <= precision
        return t.Decimal(precision, scale) if fits else t.DOUBLE
    tests: list[tuple[Any, Kind]] = [
        (a.is_null, t.NULL),
        (a.is_boolean, t.BOOLEAN),
        (a.is_uint64, t.Decimal(20, 0)),
        (lambda x: a.is_int64(x) or a.is_uint32(x), t.BIGINT),
        (a.is_integer, t.INT),
        (a.is_floating, t.DOUBLE),
        (lambda x: a.is_string(x) or a.is_large_string(x) or a.is_string_view(x), t.STRING),
        (a.is_timestamp, t.TIMESTAMP),
        (a.is_date, t.DATE),
        (a.is_time, Oddity.TIME_OF_DAY),
        (lambda x: a.is_struct(x) or a.is_map(x), Oddity.OBJECT),
        (lambda x: a.is_nested(x) or a.is_list(x), Oddity.ARRAY),
        (lambda x: a.is_binary(x) or a.is_large_binary(x) or a.is_fixed_size_binary(x), Oddity.BYTES),
    ]
    return next((kind for test, kind in tests if test(arrow_type)), Oddity.OTHER)


def merged(kinds: Iterable[Kind]) -> t.Type | None:
    """The one type that holds all values of a column, None where only text would; NULL for no values."""
    result: t.Type = t.NULL
    for kind in kinds:
        if kind is Oddity.NOT_FINITE:
            kind = t.DOUBLE
        if isinstance(kind, Oddity):
            kind = t.STRING
        common = t.common_type(result, kind)
        if common is None:
            return None
        # 38 digits may not hold both the whole part of one and the fraction of the other.
        if isinstance(common, t.Decimal) and not all(_keeps(common, part) for part in (result, kind)):
            common = t.DOUBLE
        result = common
    return result


def _keeps(wide: t.Decimal, narrow: t.Type) -> bool:
    part = t.as_decimal(narrow)
    return wide.scale >= part.scale and wide.precision - wide.scale >= part.precision - part.scale
