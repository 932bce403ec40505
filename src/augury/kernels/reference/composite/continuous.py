"""CONTINUOUS: each initiator opens an occurrence of its own, and a terminator completes all that are open."""

from __future__ import annotations

from collections.abc import Sequence

from augury.kernels.reference.composite.occurrence import Operand
from augury.kernels.reference.composite.protocol import Choice, Completed, Completing, Kept, left_over


class Continuous:
    """What is kept are the open occurrences: an initiator, then what has joined it since."""

    uses_up = True

    def arrive(self, join: Completing, kept: Kept, slot: int, operand: Operand) -> tuple[list[Completed], Kept]:
        """One occurrence for each that it completes; if it completes none it opens one."""
        made: list[Completed] = []
        still_open: list[Choice] = []
        for choice in (*kept, ()):
            longer = (*choice, (slot, operand))
            fits = all(taken != slot for taken, _ in choice) and join.possible(longer)
            whole = tuple(sorted(longer, key=lambda each: each[0]))
            completed = join.complete(whole) if fits and len(longer) == join.need else None
            if completed is not None:
                made.append((longer, completed))
            elif choice:
                still_open.append(longer if fits and len(longer) < join.need else choice)
        if made:
            return made, left_over(still_open, made)
        return [], (*still_open, ((slot, operand),)) if join.keeps(slot) else tuple(still_open)

    def closed(self, openings: Sequence[Operand]) -> Sequence[Operand]:
        """All of them."""
        return openings
