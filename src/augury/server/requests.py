"""How many requests came, how they were answered, and how long it took.

In: each request, once it is answered. Out: counts by route. It is told of every request, so it does little.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Seconds, up to which requests are counted together."""


@dataclass(slots=True)
class Times:
    """How many took how long."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0


@dataclass(slots=True)
class Requests:
    """Requests by method, route and status, and what they took."""

    answers: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    seconds: dict[tuple[str, str], Times] = field(default_factory=dict)

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one that is answered."""
        self.answers[method, route, status] += 1
        times = self.seconds.setdefault((method, route), Times())
        times.counts[bisect_left(BUCKETS, seconds)] += 1
        times.total += seconds
