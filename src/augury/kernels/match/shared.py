"""What expressions that read the same batch have in common: rows, masks and numbered values are worked out once.

A memo for one batch; it remembers nothing of streams or runs, so that what shares a pass changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class Shared:
    """Values by what they were worked out from, and how often one was there already."""

    known: dict[Hashable, Any] = field(default_factory=dict)
    reused: int = 0

    def get(self, key: Hashable, made: Callable[[], _T]) -> _T:
        """The value, worked out if it is asked for the first time."""
        if key in self.known:
            self.reused += 1
        else:
            self.known[key] = made()
        found: _T = self.known[key]
        return found
