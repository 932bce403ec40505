"""Values as suites write them: constants, offsets, formulas over `n`, and `_` for anything.

In: nothing; `suite_notation` makes them. Out: frozen values, what each stands for in a repetition, and whether it says
what a line of output holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

from augury import types as t
from augury.clock import microseconds_of, show_duration, show_time

Plain = Decimal | str | bool | None
"""What JSON has, numbers exactly."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, TRUE, FALSE or NULL; `written` as it stands, for a number that means a text."""

    value: Plain
    written: str


@dataclass(frozen=True, slots=True)
class Offset:
    """A length of time such as `1h`: a moment so much after the start, where a moment is meant."""

    length_us: int
    moment_us: int
    written: str


@dataclass(frozen=True, slots=True)
class Formula:
    """A number that depends on the repetition: `90 + 5*n`, in postfix order."""

    steps: tuple[Decimal | str, ...]
    written: str


@dataclass(frozen=True, slots=True)
class Anything:
    """`_`: whatever stands there."""

    written: str = "_"


Value = Constant | Offset | Formula | Anything

_EXACT: Final = Context(prec=60)
_OPERATIONS: Final[Mapping[str, Callable[[Decimal, Decimal], Decimal]]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": _EXACT.divide,
    "%": _EXACT.remainder,
}
OPERATORS: Final = frozenset(_OPERATIONS)


class NoNumber(ArithmeticError):
    """A formula that has no value in some repetition."""


def worked_out(formula: Formula, n: int) -> Decimal:
    """The number that a formula stands for in the n-th repetition, from 0; raises `NoNumber`."""
    stack: list[Decimal] = []
    for step in formula.steps:
        match step:
            case Decimal():
                stack.append(step)
            case "n":
                stack.append(Decimal(n))
            case "neg":
                stack.append(-stack.pop())
            case _:
                right, left = stack.pop(), stack.pop()
                try:
                    stack.append(_OPERATIONS[step](left, right))
                except (InvalidOperation, ArithmeticError):
                    raise NoNumber(f"`{formula.written}` has no value where n is {n}") from None
    return stack[0]


def given(value: Value, of: t.Type, n: int, *, is_repeated: bool) -> Plain:
    """What stands in an event for an attribute of a type, in the n-th repetition; raises `NoNumber`."""
    match value:
        case Constant(str() as text):
            return text.replace("{n}", str(n)) if is_repeated else text
        case Constant(Decimal(), written) if isinstance(of, t.String):
            return written
        case Constant(plain):
            return plain
        case Formula():
            number = worked_out(value, n)
            return f"{number:f}" if isinstance(of, t.String) else number
        case Offset(_, moment_us, written):
            match of:
                case t.Timestamp():
                    return show_time(moment_us)
                case t.Date():
                    return show_time(moment_us)[:10]
                case _:
                    return written
        case Anything():
            return None


def says(value: Value, got: Any) -> bool:
    """Whether a value is what a line of output holds; `got` is as JSON has it, numbers as int or Decimal."""
    match value:
        case Anything():
            return True
        case Offset(length_us, moment_us, written):
            if not isinstance(got, str):
                return False
            day = show_time(moment_us)[:10]
            return got in (show_time(moment_us), show_duration(length_us), written, day)
        case Formula():
            return bool(_is_number(got) and worked_out(value, 0) == got)
        case Constant(Decimal() as number, written):
            return got == written if isinstance(got, str) else bool(_is_number(got) and number == got)
        case Constant(str() as text):
            return isinstance(got, str) and (got == text or _same_moment(got, text))
        case Constant(plain):
            return got is plain


def _is_number(got: Any) -> bool:
    return isinstance(got, int | Decimal) and not isinstance(got, bool)


def _same_moment(got: str, text: str) -> bool:
    """Whether both are the same time, however it is written; only what is printed as a time is one."""
    if not got.endswith("Z") or len(got) < 20:
        return False
    moments = [iso_us(one) for one in (got, text)]
    return moments[0] is not None and moments[0] == moments[1]


def iso_us(text: str) -> int | None:
    """The microseconds of an ISO time, UTC where it has no zone; None if it is none."""
    try:
        return microseconds_of(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None
