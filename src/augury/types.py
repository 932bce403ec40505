"""The data types of attributes and expressions: their spellings, promotion and assignment.

In: type names and parameters as a user wrote them. Out: frozen `Type` values that print canonically.
It knows neither expressions nor how values are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRECISION_MAX: Final = 38
"""Digits of a decimal: what 128 bits hold, and what Spark and DuckDB have."""

NUMERIC_SCALE_DEFAULT: Final = 18
"""The scale of a bare NUMERIC: money and sensor readings keep every digit on either side of the point."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """TRUE or FALSE."""

    def __str__(self) -> str:
        return "BOOLEAN"


@dataclass(frozen=True, slots=True)
class Int:
    """A whole number of 32 bits."""

    def __str__(self) -> str:
        return "INT"


@dataclass(frozen=True, slots=True)
class BigInt:
    """A whole number of 64 bits."""

    def __str__(self) -> str:
        return "BIGINT"


@dataclass(frozen=True, slots=True)
class Double:
    """An IEEE 754 number of 64 bits."""

    def __str__(self) -> str:
        return "DOUBLE"


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of at most `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not (1 <= self.precision <= PRECISION_MAX and 0 <= self.scale <= self.precision):
            raise ValueError(f"there is no NUMERIC({self.precision},{self.scale})")

    def __str__(self) -> str:
        return f"NUMERIC({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class String:
    """Unicode text, of at most `max_length` code points where that is given."""

    max_length: int | None = None

    def __str__(self) -> str:
        return "STRING" if self.max_length is None else f"VARCHAR({self.max_length})"


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment in UTC, to the microsecond, in the years 1 to 9999."""

    def __str__(self) -> str:
        return "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Date:
    """A day in the years 1 to 9999; it counts as its midnight in UTC wherever a moment is asked for."""

    def __str__(self) -> str:
        return "DATE"


@dataclass(frozen=True, slots=True)
class Duration:
    """A signed length of time in microseconds, of 64 bits; the type of `5d` and of time − time."""

    def __str__(self) -> str:
        return "DURATION"


@dataclass(frozen=True, slots=True)
class Null:
    """The type of the literal NULL, which fits everywhere."""

    def __str__(self) -> str:
        return "NULL"


Type = Boolean | Int | BigInt | Double | Decimal | String | Timestamp | Date | Duration | Null

BOOLEAN: Final = Boolean()
INT: Final = Int()
BIGINT: Final = BigInt()
DOUBLE: Final = Double()
STRING: Final = String()
TIMESTAMP: Final = Timestamp()
DATE: Final = Date()
DURATION: Final = Duration()
NULL: Final = Null()

_PLAIN: Final[dict[str, Type]] = {
    "BOOLEAN": BOOLEAN,
    "BOOL": BOOLEAN,
    "INT": INT,
    "INTEGER": INT,
    "BIGINT": BIGINT,
    "LONG": BIGINT,
    "REAL": DOUBLE,
    "DOUBLE": DOUBLE,
    "FLOAT": DOUBLE,
    "TEXT": STRING,
    "STRING": STRING,
    "TIMESTAMP": TIMESTAMP,
    "DATE": DATE,
}
_NUMERIC: Final = ("NUMERIC", "DECIMAL")
_VARCHAR: Final = "VARCHAR"

TYPE_NAMES: Final[tuple[str, ...]] = (*_PLAIN, *_NUMERIC, _VARCHAR)
"""Every word that names a type, for "did you mean"."""


class BadTypeParameters(ValueError):
    """The parameters do not fit the type; the message is one sentence for the user."""


def parse_type(name: str, params: tuple[int, ...]) -> Type | None:
    """The type of a spelling in any case, None for an unknown word; refuses parameters that do not fit."""
    word = name.upper()
    if plain := _PLAIN.get(word):
        if params:
            raise BadTypeParameters(f"{word} takes no parameters")
        return plain
    if word in _NUMERIC:
        return _numeric(word, params)
    if word == _VARCHAR:
        return _varchar(params)
    return None


def _numeric(word: str, params: tuple[int, ...]) -> Decimal:
    match params:
        case ():
            return Decimal(PRECISION_MAX, NUMERIC_SCALE_DEFAULT)
        case (precision,):
            scale = 0
        case (precision, scale):
            pass
        case _:
            raise BadTypeParameters(f"{word} takes a precision and a scale, not {len(params)} parameters")
    if not 1 <= precision <= PRECISION_MAX:
        raise BadTypeParameters(f"the precision of {word} lies between 1 and {PRECISION_MAX}")
    if not 0 <= scale <= precision:
        raise BadTypeParameters(f"the scale of {word}({precision},{scale}) lies between 0 and its precision")
    return Decimal(precision, scale)


def _varchar(params: tuple[int, ...]) -> String:
    match params:
        case ():
            return STRING
        case (length,) if length >= 1:
            return String(length)
        case (_,):
            raise BadTypeParameters("the length of VARCHAR is at least 1")
        case _:
            raise BadTypeParameters(f"VARCHAR takes one length, not {len(params)} parameters")


def common_type(a: Type, b: Type) -> Type | None:
    """The narrowest type that both promote to, None where there is none.

    INT → BIGINT → NUMERIC → DOUBLE, DATE → TIMESTAMP, strings to the longer, NULL to anything.
    """
    match a, b:
        case Null(), other:
            return other
        case other, Null():
            return other
        case String(m), String(n):
            return STRING if m is None or n is None else String(max(m, n))
        case (Date() | Timestamp(), Date() | Timestamp()):
            return a if a == b else TIMESTAMP
        case (Int() | BigInt() | Decimal() | Double(), Int() | BigInt() | Decimal() | Double()):
            return _common_number(a, b)
        case _:
            return a if a == b else None


def _common_number(a: Type, b: Type) -> Type:
    if isinstance(a, Double) or isinstance(b, Double):
        return DOUBLE
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        left, right = as_decimal(a), as_decimal(b)
        scale = max(left.scale, right.scale)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        return Decimal(min(PRECISION_MAX, whole + scale), scale)
    return a if a == b else BIGINT


def as_decimal(exact: Type) -> Decimal:
    """The decimal type that holds every value of an INT, BIGINT or NUMERIC; NULL counts as the smallest."""
    match exact:
        case Decimal():
            return exact
        case Int():
            return Decimal(10, 0)
        case BigInt():
            return Decimal(19, 0)
        case Null():
            return Decimal(1, 0)
        case _:
            raise TypeError(f"{exact} has no exact decimal form")


def assignable(source: Type, target: Type) -> bool:
    """Whether a value may be stored without a CAST: by promotion, between integers, decimals, strings.

    A decimal is then rounded to the scale of its target, and what does not fit is an error of that row.
    """
    match source, target:
        case Null(), _:
            return True
        case String(), String():
            return True
        case (Int() | BigInt() | Decimal(), Decimal()) | (BigInt(), Int()):
            return True
        case _:
            return common_type(source, target) == target


def with_article(of: Type) -> str:
    """The type in a sentence: `an INT`, `a STRING`."""
    return f"{'an' if isinstance(of, Int) else 'a'} {of}"
