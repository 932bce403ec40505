"""CHRONICLE: the oldest operands that go together, each used once.

In: a node and a new operand. Out: at most one occurrence.
"""

from __future__ import annotations

from collections.abc import Callable

from augury.kernels.composite.network import register
from augury.kernels.composite.occurrence import NodeState, Occ, Window
from augury.kernels.composite.protocol import Join, Taking, choices, each


@register("CHRONICLE")
class Chronicle:
    """First come, first served."""

    uses_up = True
    taking = Taking.OLDEST

    def arrive(self, join: Join, state: NodeState, slot: int, operand: Occ) -> list[Occ]:
        """Pair the new operand with the oldest that it goes with."""
        if join.needed == 2 and len(state.kept) == 2:
            # The usual case without a list of all that fit.
            for one in state.kept[1 - slot]:
                if join.goes(state, 1 - slot, one, slot, operand):
                    chosen = [(1 - slot, one), (slot, operand)]
                    made = join.complete(state, chosen)
                    if made is not None:
                        join.use(state, chosen, made)
                        return [made]
        else:
            for choice in choices(join, state, slot, operand, join.needed - 1):
                made = join.complete(state, choice)
                if made is not None:
                    join.use(state, choice, made)
                    return [made]
        if join.keeps(slot):
            state.keep(state.kept[slot], operand)
        return []

    def windows(self, fitting: list[Window], complete: Callable[[list[Window]], Occ | None]) -> list[Occ]:
        """The oldest."""
        return each(fitting, complete)[:1]

    def closed(self, open_windows: list[Window]) -> list[Window]:
        """The oldest."""
        return open_windows[:1]
