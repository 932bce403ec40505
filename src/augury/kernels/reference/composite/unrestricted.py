"""UNRESTRICTED: every combination, and nothing is used up until its lifespan ends."""

from __future__ import annotations

from collections.abc import Sequence

from augury.kernels.reference.composite.occurrence import Operand
from augury.kernels.reference.composite.protocol import Completed, Completing, Kept, choices


class Unrestricted:
    """Every choice counts."""

    uses_up = False

    def arrive(self, join: Completing, kept: Kept, slot: int, operand: Operand) -> tuple[list[Completed], Kept]:
        """One occurrence for every choice of others; the operand stays."""
        completed = ((choice, join.complete(choice)) for choice in choices(join, kept, slot, operand))
        made = [(choice, one) for choice, one in completed if one is not None]
        return made, (*kept, ((slot, operand),)) if join.keeps(slot) else kept

    def closed(self, openings: Sequence[Operand]) -> Sequence[Operand]:
        """All of them."""
        return openings
