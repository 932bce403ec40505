"""The types of Spark SQL in ANSI mode: what two meet in, what arithmetic gives, how DuckDB stores them.

In: types. Out: types and their spelling in DuckDB. Durations are microseconds in a BIGINT, moments are in UTC without
a zone; it knows no expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from augury import types as t
from augury.types import PRECISION_MAX, Decimal, Type


@dataclass(frozen=True, slots=True)
class Days:
    """A duration in whole days, Spark's INTERVAL DAY: with a DATE it gives a DATE."""

    def __str__(self) -> str:
        return "DURATION"


DAYS: Final = Days()
SqlType = Type | Days

_LEAST_SCALE: Final = 6
"""Digits after the point that Spark keeps when a result needs more than 38."""


class Untranslatable(Exception):
    """A SELECT that does not run in process; `fragment` is the part of its SQL that is to blame."""

    def __init__(self, reason: str, fragment: str = "") -> None:
        """Keep both, and put them into the message."""
        super().__init__(f"{reason}: {fragment}" if fragment else reason)
        self.reason = reason
        self.fragment = fragment


def duck_type(of: SqlType) -> str:
    """What DuckDB calls it."""
    match of:
        case t.Int():
            return "INTEGER"
        case Decimal(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case t.String():
            return "VARCHAR"
        case t.Duration() | Days():
            return "BIGINT"
        case t.Null():
            return "INTEGER"
        case t.Boolean() | t.BigInt() | t.Double() | t.Timestamp() | t.Date():
            return str(of)
        case _:
            assert_never(of)


def is_duration(of: SqlType) -> bool:
    """Whether it is a length of time."""
    return isinstance(of, t.Duration | Days)


def is_number(of: SqlType) -> bool:
    """Whether it is a number."""
    return isinstance(of, t.Int | t.BigInt | t.Double | Decimal)


def is_whole(of: SqlType) -> bool:
    """Whether it is INT or BIGINT."""
    return isinstance(of, t.Int | t.BigInt)


def as_decimal(of: SqlType) -> Decimal:
    """The decimal type of an exact number; Spark gives a BIGINT twenty digits."""
    match of:
        case Decimal():
            return of
        case t.BigInt():
            return Decimal(20, 0)
        case t.Int():
            return Decimal(10, 0)
        case _:
            raise AssertionError(f"{of} is no exact number")


def meeting(a: SqlType, b: SqlType) -> SqlType | None:
    """The type that both become where values meet; a string takes the type of what stands beside it."""
    if a == b:
        return a
    match a, b:
        case (t.Null(), other) | (other, t.Null()):
            return other
        case t.String(), t.String():
            return t.STRING
        case (t.String(), other) | (other, t.String()):
            return _read_as(other)
        case (t.Date() | t.Timestamp(), t.Date() | t.Timestamp()):
            return t.TIMESTAMP
        case (t.Duration() | Days(), t.Duration() | Days()):
            return t.DURATION
        case _ if not (is_number(a) and is_number(b)):
            return None
        case (t.Double(), _) | (_, t.Double()):
            return t.DOUBLE
        case (Decimal(), _) | (_, Decimal()):
            left, right = as_decimal(a), as_decimal(b)
            scale = max(left.scale, right.scale)
            whole = max(left.precision - left.scale, right.precision - right.scale)
            if whole + scale > PRECISION_MAX:
                raise Untranslatable(f"{a} and {b} have no decimal type in common that holds both")
            return Decimal(whole + scale, scale)
        case _:
            return t.BIGINT


def _read_as(other: SqlType) -> SqlType | None:
    """What a string beside a value is read as."""
    if is_whole(other):
        return t.BIGINT
    if is_number(other):
        return t.DOUBLE
    return None if is_duration(other) else other


def exact_result(operation: str, a: Decimal, b: Decimal) -> Decimal:
    """The type of a sum, product, … of decimals."""
    scale, whole = max(a.scale, b.scale), a.precision - a.scale
    match operation:
        case "add" | "subtract":
            return _kept(max(whole, b.precision - b.scale) + scale + 1, scale)
        case "multiply":
            return _kept(a.precision + b.precision + 1, a.scale + b.scale)
        case "divide":
            scale = max(_LEAST_SCALE, a.scale + b.precision + 1)
            return _kept(whole + b.scale + scale, scale)
        case "modulo":
            return _kept(min(whole, b.precision - b.scale) + scale, scale)
        case _:
            raise AssertionError(operation)


def _kept(precision: int, scale: int) -> Decimal:
    """The decimal type, at the cost of digits after the point where there are too many."""
    if precision <= PRECISION_MAX:
        return Decimal(max(precision, 1), scale)
    whole = precision - scale
    return Decimal(PRECISION_MAX, max(PRECISION_MAX - whole, min(scale, _LEAST_SCALE)))


def total_type(of: SqlType) -> SqlType | None:
    """The type of SUM."""
    match of:
        case Decimal(precision, scale):
            return Decimal(min(PRECISION_MAX, precision + 10), scale)
        case t.Int() | t.BigInt():
            return t.BIGINT
        case t.Double() | t.Duration() | Days():
            return of
        case _:
            return None


def mean_type(of: Decimal) -> Decimal:
    """The type of AVG of decimals."""
    return Decimal(min(PRECISION_MAX, of.precision + 4), min(PRECISION_MAX, of.scale + 4))
