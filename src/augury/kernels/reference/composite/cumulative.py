"""CUMULATIVE: all are gathered; on completion one occurrence holds them all, and they are used up."""

from __future__ import annotations

from collections.abc import Sequence

from augury.kernels.reference.composite.occurrence import Operand
from augury.kernels.reference.composite.protocol import Choice, Completed, Completing, Kept, left_over


class Cumulative:
    """Every operand that may stand beside the arriving one goes into its occurrence."""

    uses_up = True

    def arrive(self, join: Completing, kept: Kept, slot: int, operand: Operand) -> tuple[list[Completed], Kept]:
        """One occurrence with all that go together, leftmost slots and oldest first."""
        taken: Choice = ((slot, operand),)
        for choice in sorted(kept, key=lambda each: each[0][0]):
            if join.possible((*taken, *choice)):
                taken = (*taken, *choice)
        taken = tuple(sorted(taken, key=lambda each: each[0]))
        made = join.complete(taken)
        if made is not None:
            return [(taken, made)], left_over(kept, [(taken, made)])
        return [], (*kept, ((slot, operand),)) if join.keeps(slot) else kept

    def closed(self, openings: Sequence[Operand]) -> Sequence[Operand]:
        """All of them."""
        return openings
