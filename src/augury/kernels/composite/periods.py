"""How often PERIODIC may take place: a time far from all others would have it do so for centuries.

In: the windows that are open, and how far the clock goes before anything can close them. Out: nothing, or
`TooManyPeriods`, before the first of them.
"""

from __future__ import annotations

from typing import Final

from augury import limits
from augury.graphs.graph import Graph, PeriodicNode
from augury.kernels.composite.flat.state import FlatState
from augury.kernels.composite.state import CompositeState
from augury.kernels.composite.timed import require_few

_SHORTEST_US: Final = 1_000_000
"""No duration is shorter."""


def require_few_periods(graph: Graph, state: CompositeState, since_us: int, until_us: int) -> None:
    """Raise `TooManyPeriods` where an open window has too many periods up to a time before which no version comes.

    It is asked at every timer, from which on it counts, and most often the answer is easy.
    """
    if (until_us - since_us) // _SHORTEST_US <= limits.CLOCK_EVENTS_MAX:
        return
    # What is gathered takes place once, at the closing.
    timed = ((number, node) for number, node in enumerate(graph.nodes) if isinstance(node, PeriodicNode))
    nodes = [(number, node.period_us) for number, node in timed if not node.gathered]
    if isinstance(state, FlatState):
        return
    for key in state.graphs.values():
        for number, period_us in nodes:
            for window in key.nodes[number].windows:
                if (until_us - since_us) // period_us > limits.CLOCK_EVENTS_MAX:
                    require_few(window, period_us, min(until_us, window.opening.until))
