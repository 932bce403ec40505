"""Whether a target may be tried now: not for a while after it failed several times in a row, and then by one action.

In: how tries went, and seconds of a clock that never goes back. Out: yes or no, and from when. It reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from augury import limits


@dataclass(slots=True)
class Breaker:
    """What is known of a target."""

    failures: int = 0
    opened: int = 0
    open_until: float | None = None
    is_probed: bool = False
    asked_until: float = 0.0

    def may_try(self, at: float) -> bool:
        """Whether something may be tried at a time, in seconds."""
        return at >= self.next_try() and not (self.open_until is not None and self.is_probed)

    def next_try(self) -> float:
        """From when something may be tried; while a probe is under way it depends on that."""
        return max(self.asked_until, self.open_until or 0.0)

    def begin(self) -> bool:
        """Something is being tried; whether it is the one that finds out if the target is back."""
        if self.open_until is None:
            return False
        self.is_probed = True
        return True

    def succeeded(self) -> None:
        """The target is there."""
        self.failures, self.opened, self.open_until, self.is_probed = 0, 0, None, False

    def failed(self, at: float, was_probe: bool, chance: Random) -> None:
        """The target did not do it."""
        if was_probe:
            self._open(at, chance)
            return
        self.failures += 1
        if self.open_until is None and self.failures >= limits.BREAKER_FAILURES:
            self._open(at, chance)

    def ask(self, until: float) -> None:
        """The target asks to be left alone until then."""
        self.asked_until = max(self.asked_until, until)

    def _open(self, at: float, chance: Random) -> None:
        longest = min(limits.BREAKER_SECONDS * 2**self.opened, limits.BREAKER_SECONDS_MAX)
        self.open_until = at + longest * chance.uniform(0.5, 1.0)
        self.opened = min(self.opened + 1, 32)
        self.is_probed = False


def backoff_seconds(attempts: int, chance: Random) -> float:
    """How long to wait after so many tries: up to twice as long each time, and any part of that."""
    longest = min(limits.DELIVERY_BACKOFF_SECONDS * 2 ** min(attempts - 1, 32), limits.DELIVERY_BACKOFF_SECONDS_MAX)
    return chance.uniform(0.0, longest)
