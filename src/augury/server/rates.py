"""How often somebody asks, and when they may again.

In: names, and seconds that never go back. Out: how long to wait. It knows neither requests nor tokens.
"""

from __future__ import annotations

from collections.abc import Callable

from augury import limits


class Rates:
    """How often each caller asks: as many requests as a second allows at once, and as many each second after.

    Where callers choose their names, only so many are remembered: whoever was silent for a second may do all again.
    """

    def __init__(self, requests_a_second: int, clock: Callable[[], float], names_max: int | None = None) -> None:
        """Know nobody yet."""
        self._most, self._clock, self._names_max = float(requests_a_second), clock, names_max
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, name: str) -> float:
        """Count a request; gives the seconds until one is allowed, 0 for now."""
        now = self._clock()
        left, since = self._left.pop(name, (self._most, now))
        left = min(self._most, left + (now - since) * self._most)
        is_allowed = left >= 1.0
        self._left[name] = (left - 1.0 if is_allowed else left, now)  # the last of them, so that the first is silent
        if self._names_max is not None and len(self._left) > self._names_max:
            del self._left[next(iter(self._left))]
        return 0.0 if is_allowed else (1.0 - left) / self._most

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._left)


def failures(clock: Callable[[], float], a_second: int = limits.SERVER_FAILURES_A_SECOND) -> Rates:
    """Of those who are not let in, by their addresses."""
    return Rates(a_second, clock, limits.SERVER_ADDRESSES_MAX)
