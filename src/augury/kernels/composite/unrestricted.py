"""UNRESTRICTED: every combination; nothing is used up. Also what stands below a negation is found this way.

In: a node and a new operand. Out: an occurrence per choice.
"""

from __future__ import annotations

from collections.abc import Callable

from augury.kernels.composite.network import register
from augury.kernels.composite.occurrence import NodeState, Occ, Window
from augury.kernels.composite.protocol import Join, Taking, choices, each


@register("UNRESTRICTED")
class Unrestricted:
    """Every choice."""

    uses_up = False
    taking = Taking.EVERY

    def arrive(self, join: Join, state: NodeState, slot: int, operand: Occ) -> list[Occ]:
        """Pair the new operand with everything that it goes with."""
        made = [join.complete(state, choice) for choice in choices(join, state, slot, operand, join.needed - 1)]
        if join.keeps(slot):
            state.keep(state.kept[slot], operand)
        return [one for one in made if one is not None]

    def windows(self, fitting: list[Window], complete: Callable[[list[Window]], Occ | None]) -> list[Occ]:
        """Each by itself."""
        return each(fitting, complete)

    def closed(self, open_windows: list[Window]) -> list[Window]:
        """All."""
        return open_windows
