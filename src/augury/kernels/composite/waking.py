"""When RECENT has to look again: the next time at which a timer over what is kept may be due.

In: a graph and the state of a key. Out: a point, at which perhaps nothing fires. It asks neither for order nor for
absences, which may expire before the timer is due: whatever is kept may set one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from augury.graphs import graph as g
from augury.kernels.composite.looking import pulses_by
from augury.kernels.composite.occurrence import KeyState, Now, Occ, Point, later
from augury.kernels.composite.shapes import is_window, positive, positive_below
from augury.kernels.composite.timed import due_point

_TIMED = (g.PlusNode, g.AbsentForNode, g.PeriodicNode)


@dataclass(slots=True)
class Waking:
    """The timers of a graph that what fills its leaves may set."""

    graph: g.Graph
    is_timed: bool = field(init=False)

    def __post_init__(self) -> None:
        """Say once whether there are any."""
        below = [self.graph.nodes[number] for number in positive_below(self.graph, self.graph.root)]
        self.is_timed = any(isinstance(node, _TIMED) for node in below)

    def next_point(self, key: KeyState, now: Now) -> Point | None:
        """The first point after now at which a timer may be due."""
        if not self.is_timed:
            return None
        points: set[Point] = set()
        self._ends(self.graph.root, key, now, points)
        return min((point for point in points if point > now.point), default=None)

    def _ends(self, number: int, key: KeyState, now: Now, points: set[Point]) -> list[Occ]:
        """Occurrences with every end that one of a node may have; the points of timers are noted on the way."""
        node = self.graph.nodes[number]
        if isinstance(node, g.LeafNode):
            return key.nodes[number].kept[0]
        parts = [self._ends(operand, key, now, points) for operand in positive(node)]
        found = [one for part in parts for one in part]
        if is_window(node):
            found += [window.opening for window in key.nodes[number].windows]
        match node:
            case g.PlusNode(delay_us=delay) | g.AbsentForNode(delay_us=delay):
                found = [later(one, due_point(one, delay), one.occ_time + delay) for one in found]
            case g.PeriodicNode(gathered=False):
                closings = [one.end for one in key.nodes[number].absent]
                found = [pulse for one in found for pulse in _pulses(node, one, now, closings)]
            case _:
                return _different(found)
        points.update(one.end for one in found)
        return _different(found)


def _pulses(node: g.PeriodicNode, opening: Occ, now: Now, closings: Iterable[Point]) -> Iterator[Occ]:
    """The last time that has come, the one after it, and the last before each closing."""
    last = pulses_by(node, opening, now.point, None)
    counts = {last, last + 1, *(pulses_by(node, opening, now.point, closing) for closing in closings)}
    for count in sorted(counts - {0}):
        yield later(opening, due_point(opening, count * node.period_us), opening.occ_time + count * node.period_us)


def _different(found: list[Occ]) -> list[Occ]:
    """One for each end."""
    return list({(one.end, one.occ_time): one for one in found}.values()) if len(found) > 1 else found
