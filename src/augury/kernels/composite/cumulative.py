"""CUMULATIVE: all operands are gathered, and one occurrence holds them all.

In: a node and a new operand. Out: at most one occurrence.
"""

from __future__ import annotations

from collections.abc import Callable

from augury.kernels.composite.network import register
from augury.kernels.composite.occurrence import NodeState, Occ, Window
from augury.kernels.composite.protocol import Join, Taking


@register("CUMULATIVE")
class Cumulative:
    """All at once."""

    uses_up = True
    taking = Taking.ALL

    def arrive(self, join: Join, state: NodeState, slot: int, operand: Occ) -> list[Occ]:
        """Take every kept operand that goes with the new one and with those taken before, leftmost slots first."""
        chosen = [(slot, operand)]
        for other, waiting in enumerate(state.kept):
            for one in waiting:
                if all(join.goes(state, other, one, taken, by) for taken, by in chosen):
                    chosen.append((other, one))
        if len({taken for taken, _ in chosen}) >= join.needed:
            chosen.sort(key=lambda entry: (entry[0], entry[1].end, entry[1].places))
            made = join.complete(state, chosen)
            if made is not None:
                join.use(state, chosen, made)
                return [made]
        if join.keeps(slot):
            state.keep(state.kept[slot], operand)
        return []

    def windows(self, fitting: list[Window], complete: Callable[[list[Window]], Occ | None]) -> list[Occ]:
        """All together."""
        made = complete(fitting) if fitting else None
        return [] if made is None else [made]

    def closed(self, open_windows: list[Window]) -> list[Window]:
        """All."""
        return open_windows
