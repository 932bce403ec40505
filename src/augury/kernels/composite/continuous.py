"""CONTINUOUS: each initiator opens an occurrence of its own, and a terminator completes all that are open.

In: a node and a new operand. Out: an occurrence per open one that it completes.
"""

from __future__ import annotations

from collections.abc import Callable

from augury.kernels.composite.network import register
from augury.kernels.composite.occurrence import NodeState, Occ, Window
from augury.kernels.composite.protocol import Join, Taking, each


@register("CONTINUOUS")
class Continuous:
    """One per open initiator."""

    uses_up = True
    taking = Taking.EACH

    def arrive(self, join: Join, state: NodeState, slot: int, operand: Occ) -> list[Occ]:
        """Let the new operand join every open occurrence that lacks its slot; if it completes none it opens one."""
        made: list[Occ] = []
        used: list[tuple[int, Occ]] = []
        waiting = []
        for partial in state.partials if join.needed > 1 else ():
            joins = all(other != slot and join.goes(state, other, one, slot, operand) for other, one in partial)
            if joins and len(partial) + 1 == join.needed:
                chosen = [*partial, (slot, operand)]
                one = join.complete(state, chosen)
                if one is not None:
                    made.append(one)
                    used += chosen
                    continue
            waiting.append((partial, joins and len(partial) + 1 < join.needed))
        if join.needed == 1 and (one := join.complete(state, [(slot, operand)])) is not None:
            made, used = [one], [(slot, operand)]
        if made:
            # An open one that it has joined goes with it, for it is used up.
            state.partials = [partial for partial, joins in waiting if not joins]
            for one in made:
                join.use(state, used, one)
            return made
        if join.keeps(slot):
            state.partials = [(*partial, (slot, operand)) if joins else partial for partial, joins in waiting]
            state.keep_partial(((slot, operand),))
        return []

    def windows(self, fitting: list[Window], complete: Callable[[list[Window]], Occ | None]) -> list[Occ]:
        """Each by itself."""
        return each(fitting, complete)

    def closed(self, open_windows: list[Window]) -> list[Window]:
        """All."""
        return open_windows
