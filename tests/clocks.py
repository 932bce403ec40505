"""Environments for engines in tests: the machine itself, with a clock that a test sets."""

from __future__ import annotations

from collections.abc import Callable

from augury.environment import Machine


class Clock(Machine):
    """Its clock says `now`, as long as nobody puts it elsewhere."""

    def __init__(self, now: int) -> None:
        super().__init__()
        self.now = now

    def now_us(self) -> int:
        return self.now


class Read(Machine):
    """Its clock says what a function gives."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__()
        self._clock = clock

    def now_us(self) -> int:
        return self._clock()
