"""Shapes of an expression for RECENT: one side of each OR, m operands of each ANY, n copies for `E{n}`.

In: a graph. Out: its shapes, and for each the versions that stand at its leaves: the latest, the oldest leftmost.
What is no leaf in this sense (absences, all E's of `E*`) is left to `recent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product

from augury.event import key_of
from augury.graphs import NotYet
from augury.graphs import graph as g
from augury.kernels.composite.occurrence import Occ

SHAPES_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Shape:
    """A node, the shapes of the operands that take part, and which of them these are.

    A window is `carried` if its opening has served a firing already, and needs no version of its own.
    """

    node: int
    parts: tuple[Shape, ...] = ()
    chosen: tuple[int, ...] = ()
    carried: bool = False

    def leaves(self) -> Iterator[int]:
        """The leaf nodes, from left to right; copies count."""
        if not self.parts and not self.carried:
            yield self.node
        for part in self.parts:
            yield from part.leaves()


def shapes_of(graph: g.Graph) -> tuple[Shape, ...]:
    """All shapes, those of leftmost choices first."""
    return shapes_at(graph, graph.root)


def shapes_at(graph: g.Graph, number: int) -> tuple[Shape, ...]:
    """All shapes of a node."""
    found = tuple(islice(_shapes(graph, number), SHAPES_MAX + 1))
    if len(found) > SHAPES_MAX:
        raise NotYet("so many shapes in RECENT")
    return found


def _shapes(graph: g.Graph, number: int) -> Iterator[Shape]:
    node = graph.nodes[number]
    match node:
        case g.LeafNode():
            yield Shape(number)
        case g.EitherNode(sides=sides):
            for i, side in enumerate(sides):
                for shape in _shapes(graph, side):
                    yield Shape(number, (shape,), (i,))
        case g.JoinNode(slots=slots, needed=needed):
            for chosen in combinations(range(len(slots)), needed):
                for parts in product(*(tuple(_few(graph, slots[i])) for i in chosen)):
                    yield Shape(number, parts, chosen)
        case g.RepeatNode(operand=operand, count=count):
            inside = [graph.nodes[below] for below in graph.below(operand)]
            if count > 1 and any(isinstance(one, g.AperiodicNode | g.PeriodicNode) for one in inside):
                raise NotYet("a repetition of a window in RECENT")
            for parts in product(tuple(_few(graph, operand)), repeat=count):
                yield Shape(number, parts)
        case g.AperiodicNode() | g.PeriodicNode():
            yield from _windows(graph, number, node)
        case g.GuardNode(operand=operand) | g.BoundedNode(operand=operand) | g.FilterNode(operand=operand):
            yield from (Shape(number, (shape,)) for shape in _shapes(graph, operand))
        case g.PlusNode(operand=operand) | g.AbsentForNode(operand=operand):
            yield from (Shape(number, (shape,)) for shape in _shapes(graph, operand))


def _windows(graph: g.Graph, number: int, node: g.AperiodicNode | g.PeriodicNode) -> Iterator[Shape]:
    """With an opening of its own, then with one that is carried; a window that gathers ends with its firing."""
    opens = [graph.nodes[below] for below in graph.below(node.opening)]
    if any(isinstance(one, g.AperiodicNode | g.PeriodicNode) for one in opens):
        raise NotYet("a window in RECENT that another window opens")
    if node.gathered:
        inside = [graph.nodes[below] for below in graph.below(node.closing)]
        if any(isinstance(one, g.AperiodicNode | g.PeriodicNode) or g.absences_of(one) for one in inside) or any(
            isinstance(one, g.JoinNode) and one.middles for one in inside
        ):
            raise NotYet("a window in RECENT that is closed by more than classes")
        for parts in product(_few(graph, node.opening), tuple(_few(graph, node.closing))):
            yield Shape(number, parts)
        return
    middles = tuple(_few(graph, node.middle)) if isinstance(node, g.AperiodicNode) else ()
    for opening in _few(graph, node.opening):
        yield from (Shape(number, (opening, middle)) for middle in middles) if middles else [Shape(number, (opening,))]
    yield from (Shape(number, (m,), (), True) for m in middles) if middles else [Shape(number, (), (), True)]


def _few(graph: g.Graph, number: int) -> Iterator[Shape]:
    """The shapes of an operand, but not so many that a product of them could not be counted."""
    return islice(_shapes(graph, number), SHAPES_MAX + 1)


def class_of(graph: g.Graph, leaf_node: int) -> str:
    """The class of a leaf."""
    node = graph.nodes[leaf_node]
    assert isinstance(node, g.LeafNode)
    return str(key_of(node.primitive.event_class))


def kept_counts(graph: g.Graph, shapes: Sequence[Shape]) -> dict[int, int]:
    """How many of the latest versions each leaf keeps: the most leaves of its class that a shape has."""
    most: dict[str, int] = {}
    leaves: set[int] = set()
    for shape in shapes:
        names: dict[str, int] = {}
        for leaf in shape.leaves():
            leaves.add(leaf)
            names[class_of(graph, leaf)] = names.get(class_of(graph, leaf), 0) + 1
        for name, count in names.items():
            most[name] = max(most.get(name, 0), count)
    return {leaf: most[class_of(graph, leaf)] for leaf in leaves}


def filled(slots: Sequence[int], names: Sequence[str], kept: Mapping[int, Sequence[Occ]]) -> list[Occ] | None:
    """A version for every leaf of a shape, class by class; None if there are too few."""
    found: list[Occ | None] = [None] * len(slots)
    for name in dict.fromkeys(names):
        at = [i for i, of in enumerate(names) if of == name]
        chosen = _latest([slots[i] for i in at], kept)
        if chosen is None:
            return None
        for i, one in zip(at, chosen, strict=True):
            found[i] = one
    return [one for one in found if one is not None]


def _latest(slots: Sequence[int], kept: Mapping[int, Sequence[Occ]]) -> list[Occ] | None:
    """Of all ways to give each leaf a version that fits, none twice, that with the latest; the oldest leftmost."""
    count = len(slots)
    if len(set(slots)) == 1:
        waiting = kept[slots[0]]
        return list(waiting[-count:]) if len(waiting) >= count else None
    fits = [{one.parts[0][0].place: one for one in kept[slot]} for slot in slots]
    places = sorted({place for fit in fits for place in fit}, reverse=True)
    for chosen in combinations(places, count):
        order = _leftmost(fits, sorted(chosen))
        if order is not None:
            return [fit[place] for fit, place in zip(fits, order, strict=True)]
    return None


def _leftmost(fits: Sequence[Mapping[int, Occ]], places: list[int]) -> list[int] | None:
    """The places in the order of the leaves, least first where they may choose."""
    if not fits:
        return []
    for place in places:
        if place in fits[0]:
            rest = _leftmost(fits[1:], [other for other in places if other != place])
            if rest is not None:
                return [place, *rest]
    return None
