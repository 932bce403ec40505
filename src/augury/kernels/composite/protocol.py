"""What a context is: one class with `arrive`, `windows` and `closed`, under its name in `CONTEXTS`.

A pairing says which kept operands a new one completes at a node; or a context makes the whole evaluation itself, as
RECENT does. Nothing here knows an operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from itertools import combinations, combinations_with_replacement, product
from typing import Any, Protocol

from augury.graphs.graph import Graph
from augury.kernels.composite.occurrence import KeyState, NodeState, Now, Occ, Point, Version, Window

Choice = Sequence[tuple[int, Occ]]
"""Operands by slot that make an occurrence together."""


class Taking(IntEnum):
    """How a context takes operands, where that is all there is to say about it: then its graphs may run flat."""

    OLDEST = 0
    EACH = 1
    ALL = 2
    EVERY = 3
    LATEST = 4


class Join(Protocol):
    """What a pairing may ask of the node."""

    needed: int
    overlaps: bool

    def keeps(self, slot: int) -> bool:
        """Whether an operand of the slot can be completed by a later one."""
        ...

    def goes(self, state: NodeState, slot: int, one: Occ, other_slot: int, other: Occ) -> bool:
        """Whether two operands may stand in one occurrence."""
        ...

    def complete(self, state: NodeState, chosen: Choice) -> Occ | None:
        """The occurrence of some operands, or None if they do not go together."""
        ...

    def use(self, state: NodeState, chosen: Choice, made: Occ) -> None:
        """Let go of the operands that an occurrence has used, and of what shares a version with them elsewhere."""
        ...


class Pairing(Protocol):
    """A context that works node by node."""

    uses_up: bool

    @property
    def taking(self) -> Taking | None:
        """How the walk of a flat graph takes operands, if it can do so for this context."""
        ...

    def arrive(self, join: Join, state: NodeState, slot: int, operand: Occ) -> list[Occ]:
        """What a new operand completes; what waits goes into `state.kept` or `state.partials`."""
        ...

    def windows(self, fitting: list[Window], complete: Callable[[list[Window]], Occ | None]) -> list[Occ]:
        """What takes place in windows, oldest first, each by itself or together."""
        ...

    def closed(self, open_windows: list[Window]) -> list[Window]:
        """Of the windows that a closing could close, those that it closes."""
        ...


class Evaluation(Protocol):
    """A graph with its context: how the state of one key goes on."""

    @property
    def taking(self) -> Taking | None:
        """How the walk of a flat graph takes operands, if it can do so for this context."""
        ...

    def empty(self) -> KeyState:
        """Before the first version."""
        ...

    def step(self, key: KeyState, now: Now, arriving: Sequence[tuple[int, Version]]) -> list[Occ]:
        """A version at some leaves, or, if nothing arrives, the timers that are due now."""
        ...


Tests = Any
"""How scalars are evaluated over an occurrence: see `scalars.Tests`."""

CONTEXTS: dict[str, Callable[[Graph, Tests], Evaluation]] = {}
"""Filled by the modules that have a context, when they are imported."""


def choices(join: Join, state: NodeState, slot: int, operand: Occ, count: int) -> Iterator[Choice]:
    """Every choice of `count` kept operands of other slots that go with a new one: the oldest first, then leftmost."""
    at_once: dict[Point, list[tuple[int, Occ]]] = {}
    # Of what came at one step the rightmost slot was served first.
    for other in range(len(state.kept) - 1, -1, -1):
        if other != slot:
            for one in state.kept[other]:
                if join.goes(state, other, one, slot, operand):
                    at_once.setdefault(one.end, []).append((other, one))
    for ends in combinations_with_replacement(sorted(at_once), count):
        times = Counter(ends)
        parts = product(*(combinations(at_once[end], number) for end, number in times.items()))
        chosen = [[entry for part in each_end for entry in part] for each_end in parts]
        alike = [choice for choice in chosen if len({other for other, _ in choice}) == count]
        for choice in sorted(alike, key=lambda choice: sorted(other for other, _ in choice)):
            yield [*choice, (slot, operand)]


def each(fitting: list[Window], complete: Callable[[list[Window]], Occ | None]) -> list[Occ]:
    """An occurrence per window."""
    made = [complete([window]) for window in fitting]
    return [one for one in made if one is not None]
