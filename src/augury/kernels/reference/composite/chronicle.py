"""CHRONICLE: each operator pairs the oldest unused occurrences of its operands and uses each once."""

from __future__ import annotations

from collections.abc import Sequence

from augury.kernels.reference.composite.occurrence import Operand
from augury.kernels.reference.composite.protocol import Completed, Completing, Kept, choices, left_over


class Chronicle:
    """First come, first served."""

    uses_up = True

    def arrive(self, join: Completing, kept: Kept, slot: int, operand: Operand) -> tuple[list[Completed], Kept]:
        """The oldest that go with it, which are used up; else it waits, or is dropped if it may not."""
        for choice in choices(join, kept, slot, operand):
            made = join.complete(choice)
            if made is not None:
                return [(choice, made)], left_over(kept, [(choice, made)])
        return [], (*kept, ((slot, operand),)) if join.keeps(slot) else kept

    def closed(self, openings: Sequence[Operand]) -> Sequence[Operand]:
        """The oldest."""
        return openings[:1]
