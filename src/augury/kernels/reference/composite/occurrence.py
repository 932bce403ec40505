"""What a COMPOSITE makes of a history: steps of time, versions at leaves, and the occurrences put together from them.

In: nothing but numbers. Out: the nouns that every other module here shares. They know no operator and no context.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from augury.algebra.scalar import Value

Point = tuple[int, int, int]
"""A place in the order of all that happens: (i, 0, 0) is the i-th version, (i, 1, T) a timer at T right after it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A version that arrives (`place` is its number in the history), or a timer that is due (no place).

    `time` is the det_time of the version or the time of the timer, `tick` the last tick that has purged before.
    """

    point: Point
    place: int | None
    time: int
    tick: int


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A version at a leaf; leaves are counted from 0, left to right, negated ones among them."""

    place: int
    leaf: int


@dataclass(frozen=True, slots=True)
class Operand:
    """An occurrence of an expression: a set of versions with a start and an end, and the times of its end.

    `windows` are the openings of APERIODIC and PERIODIC that it was made in, by the operator.
    """

    parts: tuple[Part, ...]
    start: Point
    end: Point
    occ_time: int
    det_time: int
    windows: tuple[tuple[Hashable, Operand], ...] = ()

    @property
    def places(self) -> frozenset[int]:
        """The versions it uses."""
        return frozenset(part.place for part in self.parts)

    def before(self, other: Operand) -> bool:
        """Whether all of this one lies before all of the other."""
        return self.end < other.start

    def shares(self, other: Operand) -> bool:
        """Whether both use a version."""
        return bool(self.places & other.places)

    def conflicts(self, others: Iterable[Operand]) -> bool:
        """Whether it uses a version that one of the others uses at another leaf."""
        leaves = {part.place: part.leaf for part in self.parts}
        return any(leaves.get(part.place, part.leaf) != part.leaf for other in others for part in other.parts)


def joined(operands: Sequence[Operand]) -> Operand:
    """One occurrence of several: it starts with the first and happens when the last does, or the later of timers."""
    last = max(operands, key=lambda operand: (operand.end, operand.occ_time))
    return Operand(
        tuple(sorted({part for operand in operands for part in operand.parts})),
        min(operand.start for operand in operands),
        last.end,
        last.occ_time,
        last.det_time,
        tuple(window for operand in operands for window in operand.windows),
    )


def delayed(operand: Operand, occ_time: int, step: Step) -> Operand:
    """The occurrence that a timer makes of another: the same versions, at the time of the timer."""
    return Operand(operand.parts, operand.start, step.point, occ_time, step.time, operand.windows)


def distinct(operands: Iterable[Operand]) -> list[Operand]:
    """An occurrence is a set of versions: of equal sets at one step the first counts; oldest versions first."""
    found: dict[tuple[frozenset[int], int], Operand] = {}
    for operand in operands:
        found.setdefault((operand.places, operand.occ_time), operand)
    return sorted(found.values(), key=lambda operand: sorted(operand.places))


@dataclass(frozen=True, slots=True)
class CompositeOccurrence:
    """A complex event: where and when it takes place, its values, and which versions made it.

    `seq` is that of the version at which it takes place, None for a timer. `constituents` are `seq` numbers,
    ascending; `leaves` has (`seq`, number of the leaf) for each version, a complex one by its own `seq`.
    """

    seq: int | None
    occ_time: int
    det_time: int
    values: Mapping[str, Value]
    constituents: tuple[int, ...]
    leaves: tuple[tuple[int, int], ...]
