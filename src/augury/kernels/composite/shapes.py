"""Shapes of an expression for RECENT: one side of each OR, m operands of each ANY, n copies for `E{n}`.

In: a graph. Out: how many versions each leaf keeps, and the fillings: which leaves of a class a shape has, in order.
Many shapes have one filling, and it says which versions stand at the leaves: the latest, the oldest leftmost. What is
no leaf in this sense (absences, all E's of `E*`) is left to `recent`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from math import comb

from augury import limits
from augury.algebra.expression import Primitive
from augury.event import key_of
from augury.graphs import NotYet
from augury.graphs import graph as g

Filling = tuple[tuple[int, ...], ...]
"""For each class that has to be shared out the leaves of it, from left to right; alike ones by the first of them."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of a node, by their fillings: `place` has the class of each leaf that is to be shared out, by number.

    A leaf of another class stands alone in each shape, and takes the latest of its versions. Every shape has the leaves
    of `always`. `like` is the first of the leaf nodes that are alike.
    """

    node: int
    place: Mapping[int, int]
    like: Mapping[int, int]
    fillings: tuple[Filling, ...]
    always: frozenset[int]


def shapes_at(graph: g.Graph, number: int) -> Shapes:
    """The shapes of a node; raises `NotYet` if they are too many to be looked at."""
    if _choices(graph, number) > limits.COMPOSITE_CHOICES_MAX:
        limit = f"{limits.COMPOSITE_CHOICES_MAX:,}"
        raise NotYet(f"more than {limit} choices of OR and ANY in RECENT (another CONTEXT has no such limit)")
    most = most_leaves(graph, number)
    gathered = {class_of(graph, leaf) for leaf in _gathered_leaves(graph, number)}
    names = [name for name, count in most.items() if count > 1 or name in gathered]
    leaves = [leaf for leaf in leaves_at(graph, number) if class_of(graph, leaf) in names]
    place = {leaf: names.index(class_of(graph, leaf)) for leaf in leaves}
    like = {leaf: next(one for one in leaves if _kind(graph, one) == _kind(graph, leaf)) for leaf in leaves}
    fillings = _Fillings(graph, place, like, len(names)).at(number)
    return Shapes(number, place, like, tuple(sorted(fillings)), _always(graph, number))


def positive(node: g.GraphNode) -> tuple[int, ...]:
    """The operands of a node whose leaves are filled, from left to right."""
    match node:
        case g.JoinNode(slots=slots):
            return slots
        case g.GuardNode(operand=operand) | g.AbsentForNode(operand=operand):
            return (operand,)
        case g.AperiodicNode(opening=opening, middle=middle, closing=closing, gathered=gathered):
            return (opening, closing if gathered else middle)
        case g.PeriodicNode(opening=opening, closing=closing, gathered=gathered):
            return (opening, closing) if gathered else (opening,)
        case _:
            return g.operands_of(node)


def positive_below(graph: g.Graph, number: int) -> Iterator[int]:
    """A node and all that its shapes are made of."""
    yield number
    for operand in positive(graph.nodes[number]):
        yield from positive_below(graph, operand)


def leaves_at(graph: g.Graph, number: int) -> list[int]:
    """The leaf nodes that shapes of a node have."""
    return [below for below in positive_below(graph, number) if isinstance(graph.nodes[below], g.LeafNode)]


def class_of(graph: g.Graph, leaf_node: int) -> str:
    """The class of a leaf."""
    return str(key_of(_primitive(graph, leaf_node).event_class))


def _primitive(graph: g.Graph, leaf_node: int) -> Primitive:
    node = graph.nodes[leaf_node]
    assert isinstance(node, g.LeafNode)
    return node.primitive


def _kind(graph: g.Graph, leaf_node: int) -> Primitive:
    """What two leaves have in common that any version fits both or none."""
    return replace(_primitive(graph, leaf_node), event_class=class_of(graph, leaf_node))


def is_window(node: g.GraphNode) -> bool:
    """Whether it is a window whose opening stays after a firing."""
    return isinstance(node, g.AperiodicNode | g.PeriodicNode) and not node.gathered


def most_leaves(graph: g.Graph, number: int) -> Counter[str]:
    """Of each class the most leaves that a shape has."""
    node = graph.nodes[number]
    if isinstance(node, g.LeafNode):
        return Counter([class_of(graph, number)])
    parts = [most_leaves(graph, operand) for operand in positive(node)]
    match node:
        case g.EitherNode():
            return reduce(lambda one, other: one | other, parts)
        case g.JoinNode(needed=needed):
            names = {name for part in parts for name in part}
            return Counter({name: sum(sorted((p[name] for p in parts), reverse=True)[:needed]) for name in names})
        case g.RepeatNode(count=count):
            return Counter({name: count * times for name, times in parts[0].items()})
        case _:
            return sum(parts, Counter())


def _gathered_leaves(graph: g.Graph, number: int) -> Iterator[int]:
    """The leaves of what is gathered between: it may take what stands at no leaf, so all have to be known."""
    for below in positive_below(graph, number):
        node = graph.nodes[below]
        sources: list[int] = []
        if isinstance(node, g.JoinNode):
            sources = [middle.node for middle in node.middles]
        elif isinstance(node, g.AperiodicNode) and node.gathered:
            sources = [node.middle]
        for source in sources:
            yield from (leaf for leaf in graph.below(source) if isinstance(graph.nodes[leaf], g.LeafNode))


def _always(graph: g.Graph, number: int) -> frozenset[int]:
    """The leaves that every shape has."""
    node = graph.nodes[number]
    if isinstance(node, g.LeafNode):
        return frozenset({number})
    operands = positive(node)
    if isinstance(node, g.EitherNode) or (isinstance(node, g.JoinNode) and node.needed < len(node.slots)):
        return frozenset()
    # A window may have been opened before the last firing.
    return frozenset().union(*(_always(graph, one) for one in operands[1 if is_window(node) else 0 :]))


def _choices(graph: g.Graph, number: int) -> int:
    """How many shapes there are, where it does not matter which of the copies of `E{n}` has which."""
    node = graph.nodes[number]
    parts = [_choices(graph, operand) for operand in positive(node)]
    match node:
        case g.LeafNode():
            return 1
        case g.EitherNode():
            return sum(parts)
        case g.JoinNode(needed=needed):
            # The sums of the products of so many of them, one operand after the other.
            sums = [1, *[0] * needed]
            for part in parts:
                sums = [1, *(sums[i] + sums[i - 1] * part for i in range(1, needed + 1))]
            return sums[needed]
        case g.RepeatNode(count=count):
            return comb(parts[0] + count - 1, count) if parts[0] > 1 else 1
        case g.AperiodicNode(gathered=False):
            return (parts[0] + 1) * parts[1]
        case g.PeriodicNode(gathered=False):
            return parts[0] + 1
        case _:
            return reduce(lambda one, other: one * other, parts)


@dataclass(slots=True)
class _Fillings:
    """All fillings of a node and those below it."""

    graph: g.Graph
    place: Mapping[int, int]
    like: Mapping[int, int]
    classes: int

    def at(self, number: int) -> frozenset[Filling]:
        node = self.graph.nodes[number]
        if isinstance(node, g.LeafNode):
            own = self.place.get(number)
            return frozenset({tuple((self.like[number],) if i == own else () for i in range(self.classes))})
        parts = [self.at(operand) for operand in positive(node)]
        match node:
            case g.EitherNode():
                return frozenset().union(*parts)
            case g.JoinNode(needed=needed):
                return frozenset().union(*(self._all(chosen) for chosen in _different(parts, needed)))
            case g.RepeatNode(count=count):
                return self._times(parts[0], count)
            case g.AperiodicNode(gathered=False):
                return self._all(parts) | parts[1]
            case g.PeriodicNode(gathered=False):
                return parts[0] | {((),) * self.classes}
            case _:
                return self._all(parts)

    def _all(self, parts: Sequence[frozenset[Filling]]) -> frozenset[Filling]:
        """One of each, from left to right."""
        found: frozenset[Filling] = frozenset({((),) * self.classes})
        for part in parts:
            found = frozenset(_joined(one, other) for one in found for other in part)
            if len(found) > limits.COMPOSITE_FILLINGS_MAX:
                limit = f"{limits.COMPOSITE_FILLINGS_MAX:,}"
                raise NotYet(
                    f"more than {limit} orders of masks of a class in RECENT (another CONTEXT has no such limit)"
                )
        return found

    def _times(self, part: frozenset[Filling], count: int) -> frozenset[Filling]:
        """So many copies: twice the half of them, for there may be a hundred thousand."""
        if count == 1:
            return part
        half = self._times(part, count // 2)
        return self._all([half, half, part] if count % 2 else [half, half])


def _different(parts: Sequence[frozenset[Filling]], needed: int) -> Iterator[tuple[frozenset[Filling], ...]]:
    """Every choice of operands, once where they have the same fillings."""
    return iter(dict.fromkeys(combinations(parts, needed)))


def _joined(one: Filling, other: Filling) -> Filling:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def latest(leaves: Sequence[int], kept: Mapping[int, Sequence[int]]) -> list[int] | None:
    """Of all ways to give each leaf a version that fits, none twice, that with the latest; the oldest leftmost.

    `kept` has the versions of each leaf, ascending.
    """
    count = len(leaves)
    if len(set(leaves)) == 1:
        waiting = kept[leaves[0]]
        return list(waiting[-count:]) if len(waiting) >= count else None
    fits = [frozenset(kept[leaf]) for leaf in leaves]
    given: dict[int, int] = {}
    # Sets of versions that leaves can be given are the independent sets of a matroid: greed finds the latest.
    for version in sorted(frozenset().union(*fits), reverse=True):
        if len(given) == count:
            break
        _give(version, fits, given, set())
    return _leftmost(fits, sorted(given.values())) if len(given) == count else None


def _give(version: int, fits: Sequence[frozenset[int]], given: dict[int, int], tried: set[int]) -> bool:
    """Give a leaf a version, others theirs anew if need be; what had one still has one."""
    for leaf, fitting in enumerate(fits):
        if version in fitting and leaf not in tried:
            tried.add(leaf)
            if leaf not in given or _give(given[leaf], fits, given, tried):
                given[leaf] = version
                return True
    return False


def _leftmost(fits: Sequence[frozenset[int]], versions: list[int]) -> list[int]:
    """These versions in the order of the leaves, the oldest leftmost where there is a choice."""
    found: list[int] = []
    left = list(versions)
    for leaf, fitting in enumerate(fits):
        for version in left:
            others = [one for one in left if one != version]
            if version in fitting and _can_fill(fits[leaf + 1 :], others):
                found.append(version)
                left = others
                break
    return found


def _can_fill(fits: Sequence[frozenset[int]], versions: Sequence[int]) -> bool:
    given: dict[int, int] = {}
    return all(_give(version, fits, given, set()) for version in versions)
