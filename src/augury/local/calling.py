"""Functions of Python that rules call: with values as Python has them, and each call once, also after a crash.

In: functions by the names of actions. Out: what `engine.rules.Calling` asks for. What a call gave back is told before
anybody hears of it, so that a step that is done again after a crash gives the same and calls nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime, timedelta
from decimal import Decimal
from threading import Lock
from typing import Any, Final, TypeVar

from augury import types as t
from augury.algebra.scalar import Value
from augury.clock import microseconds_of
from augury.engine.firing import plain, read_value, written_value
from augury.environment import Environment
from augury.event import key_of
from augury.history.raw import shortened
from augury.kernels.firing import Functions, RuleFailed

_Given = TypeVar("_Given")

_BITS_MAX: Final = 1024
"""As many as the largest DOUBLE stands for: Python does not even write down numbers of some thousand digits."""


class CalledFunctions:
    """The functions of an engine; `made` has what calls gave back that nobody has kept yet."""

    def __init__(
        self, functions: Functions | None, environment: Environment, around: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Take functions, and what stands around each call; no call was made yet."""
        self._environment, self._around = environment, around
        self._functions = {key_of(name): function for name, function in (functions or {}).items()}
        self._remembered: dict[str, str] = {}
        self._lock = Lock()
        self.made: dict[str, str] = {}

    def knows(self, name: str) -> bool:
        """Whether there is a function of this name."""
        return key_of(name) in self._functions

    def forget(self) -> None:
        """A tick was committed: no call before it is made again."""
        self._remembered, self.made = {}, {}

    def recall(self, remembered: Mapping[str, str]) -> None:
        """Calls that were made since the last tick gave back what the store says."""
        self._remembered, self.made = dict(remembered), {}

    def kept(self) -> None:
        """What was made is kept."""
        self._remembered |= self.made
        self.made = {}

    def call(self, which: str, name: str, arguments: Sequence[Value], kinds: Sequence[t.Type]) -> Value:
        """What a function gives back, or gave back before; raises `RuleFailed`."""
        before = self._remembered.get(which)
        text = self._called(which, name, arguments, kinds) if before is None else before
        found = json.loads(text)
        if isinstance(found, dict) and "failed" in found:
            raise RuleFailed(found["failed"])
        return read_value(found)

    def _called(self, which: str, name: str, arguments: Sequence[Value], kinds: Sequence[t.Type]) -> str:
        given = [plain(value, kind) for value, kind in zip(arguments, kinds, strict=True)]
        try:
            with self._around():
                text = json.dumps(written_value(_value(self._functions[key_of(name)](*given))))
        except Exception as error:
            named = f"{type(error).__name__}: {error}".removesuffix(": ")
            why = str(error) if isinstance(error, RuleFailed) else named
            text = json.dumps({"failed": shortened(why)})  # it goes into answers, logs and the store
        with self._lock:
            self.made[which] = text
        return text

    def side_by_side(self, branches: Sequence[Callable[[], _Given]]) -> list[_Given]:
        """Run branches at the same time, where there are functions that may wait; each gives what it gave."""
        if not self._functions or len(branches) < 2:
            return [branch() for branch in branches]
        return self._environment.together(branches)


def _value(found: Any) -> Value:
    """What a function gave back, as rules have it; raises `RuleFailed` for what is no value of the language."""
    match found:
        case datetime():
            return microseconds_of(found)
        case timedelta():
            return found // timedelta(microseconds=1)
        case int() if found.bit_length() > _BITS_MAX:
            raise RuleFailed(
                f"it gave back a number of {found.bit_length():,} bits, and no value has more than {_BITS_MAX}"
            )
        case str() if not _is_unicode(found):
            raise RuleFailed(f"it gave back {found!r}, and half of a surrogate pair is no character")
        case Decimal() if found.is_snan():
            raise RuleFailed(f"it gave back {found!r}, which is no value")
        case None | bool() | int() | float() | str() | Decimal() | date():
            return found
        case _:
            raise RuleFailed(f"it gave back {found!r}, which is no value")


def _is_unicode(text: str) -> bool:
    """Whether it can be written down; names of files that are no text have surrogates in Python."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
