"""Loops over flat arrays, run as they are or compiled: the only module that loads numba.

In: plain functions over arrays and integers, and the types they take, as numba writes them. Out: the same functions,
compiled once they have had more to do than it costs to load a compiler. Both ways work on the same arrays and come to
the same, integers that wrap around among them. Nothing is known here of what the loops do.

A `loop` is a way in from the rest of the program; a `part` is called by loops and by other parts only, and stays the
function that it is. Machine code is kept beside the source, or in the user's cache folder; numba writes it afresh when
the file of the function changes, not when that of a part does: touch both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, Final, TypeVar

import numpy as np

Result = TypeVar("Result")
Work = Callable[..., int]

I4: Final = "int32[::1]"
I8: Final = "int64[::1]"
B1: Final = "boolean[::1]"
I4_2: Final = "int32[:, ::1]"
I8_2: Final = "int64[:, ::1]"
B2: Final = "boolean[:, ::1]"
READ_ONLY: Final = 'Array(int64, 1, "C", readonly=True)'
"""A column of the batch, which may not be ours to write."""

PLAIN_WORK_MAX: Final = 20_000
"""So many rows a loop goes over as it is, about a third of a second: loading numba and the loop takes as long."""


def takes(result: str, *arguments: str) -> str:
    """The type of a function."""
    return f"{result}({', '.join(arguments)})"


def several(*kinds: str) -> str:
    """The type of several results."""
    return f"Tuple(({', '.join(kinds)},))"


@dataclass(frozen=True, slots=True)
class _Compiling:
    """How a function is compiled: for these types, or for those it is called with; into what calls it, or not."""

    signature: str | None = None
    inlined: bool = False


_parts: dict[Any, _Compiling] = {}
_machines: dict[Any, Any] = {}
_lock = threading.RLock()
_allowed: float | None = None


def part(signature: str | None = None) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """What loops are made of: the function itself, which is compiled when a loop is that calls it."""
    return _noted(_Compiling(signature))


def inlined(function: Callable[..., Result]) -> Callable[..., Result]:
    """A part that is compiled into what calls it: a call counts references to each array that it is given."""
    return _noted(_Compiling(inlined=True))(function)


def borrowed(array: Any) -> Any:
    """The same array without counting who refers to it, which costs more than the work; someone else keeps it alive."""
    return array


def loop(
    signature: str | None, work: Work, plain_work_max: int = PLAIN_WORK_MAX
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """A function for the rest of the program; `work` says of its arguments how many rows, or the like, it goes over."""

    def made(function: Callable[..., Result]) -> Callable[..., Result]:
        return Loop(function, _Compiling(signature), work, plain_work_max)

    return made


class Loop:
    """A function that is run as it is for a while, and then compiled."""

    def __init__(self, plain: Callable[..., Any], how: _Compiling, work: Work, plain_work_max: int) -> None:
        self.plain = plain
        self.__doc__ = plain.__doc__
        self._how = how
        self._work = work
        self._plain_work_max = plain_work_max
        self._done = 0
        self._machine: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"Loop({self.plain.__module__}.{self.plain.__qualname__})"

    def prepare(self) -> None:
        """Compile it now, where its types are known: the machine code is kept for other processes."""
        if self._how.signature is not None:
            self._machine = _machine_of(self.plain, self._how)

    def __call__(self, *arguments: Any) -> Any:
        if self._machine is None or _allowed is not None:
            work = self._work(*arguments)
            if self._done + work <= (self._plain_work_max if _allowed is None else _allowed):
                self._done += work
                # Machine code wraps around and says nothing.
                with np.errstate(over="ignore"):
                    return _unboxed(self.plain(*arguments))
            self._machine = _machine_of(self.plain, self._how)
        return self._machine(*arguments)


@contextmanager
def allowing(plain_work: float) -> Iterator[None]:
    """Within it loops may do so much as they are: `math.inf` and nothing is compiled, -1 and all is; for tests."""
    global _allowed
    before, _allowed = _allowed, plain_work
    try:
        yield
    finally:
        _allowed = before


def _unboxed(result: Any) -> Any:
    """Numbers as machine code gives them back."""
    if isinstance(result, tuple):
        return tuple(map(_unboxed, result))
    return result.item() if isinstance(result, np.generic) else result


def _noted(how: _Compiling) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    def noted(function: Callable[..., Result]) -> Callable[..., Result]:
        _parts[function] = how
        return function

    return noted


def _machine_of(function: Any, how: _Compiling) -> Any:
    """The compiled function, and before it those that it calls."""
    import numba

    njit: Any = numba.njit
    with _lock:
        if function not in _machines:
            names = {**function.__globals__, **dict(_machines_called(function))}
            same = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
            same.__qualname__, same.__doc__ = function.__qualname__, function.__doc__
            types = () if how.signature is None else (how.signature,)
            inline = "always" if how.inlined else "never"
            _machines[function] = njit(*types, cache=True, nogil=True, boundscheck=False, inline=inline)(same)
        return _machines[function]


def _machines_called(function: Any) -> Iterator[tuple[str, Any]]:
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if value is borrowed:
            yield name, _borrowing()
        elif isinstance(value, FunctionType) and value in _parts:
            yield name, _machine_of(value, _parts[value])
        else:
            assert not isinstance(value, Loop), f"{function.__qualname__} calls {name}, which is no part"


@cache
def _borrowing() -> Any:
    from numba.extending import intrinsic
    from numba.np import arrayobj

    arrays: Any = arrayobj

    def of(_: Any, array: Any) -> Any:
        def made(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            one = arrays.make_array(array)(context, builder, value=arguments[0])
            other = arrays.make_array(array)(context, builder)
            arrays.populate_array(other, one.data, one.shape, one.strides, one.itemsize, None)
            return other._getvalue()

        return array(array), made

    return intrinsic(of)
