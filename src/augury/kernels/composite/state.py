"""What a COMPOSITE remembers between batches: a graph per key, and when timers are due; or, if it runs flat, arrays.

A graph stands for the values of the shared variables; FRESH is a value that no version has had. Nothing here reads
rows.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, product

import numpy as np

from augury.event import EventClass
from augury.kernels.batch import Integers
from augury.kernels.bitemporal.due import NEVER
from augury.kernels.composite.detector import Detector
from augury.kernels.composite.flat.state import FlatState
from augury.kernels.composite.flat.tables import names_all
from augury.kernels.composite.known import Known, nothing_known
from augury.kernels.composite.occurrence import KeyState, Point
from augury.kernels.match.streams import FRESH

SPARE_GRAPHS = 1024
"""Graphs that may be kept in vain before they are looked through."""

Key = tuple[int, ...]
"""The number of the partition, then that of each shared variable's value."""


@dataclass(slots=True)
class GraphState(Known):
    """A graph per key; `alarms` has the first timer of each key, or older ones.

    `is_keyed`: every version names its graphs whole; then those that are empty again are let go, and `swept` is how
    many there were when all were last looked through. `lost` counts what graphs had dropped that are gone.
    """

    is_keyed: bool = field(kw_only=True)
    graphs: dict[Key, KeyState] = field(default_factory=dict)
    agreeing: dict[Key, list[Key]] = field(default_factory=dict)
    alarms: list[tuple[Point, Key]] = field(default_factory=list)
    swept: int = 0
    lost: int = 0

    @property
    def dropped(self) -> int:
        """How many operands were let go because too many were kept."""
        return self.lost + sum(node.dropped for graph in self.graphs.values() for node in graph.nodes)

    def enter(self, key: Key, graph: KeyState) -> None:
        """Add the graph of a key."""
        self.graphs[key] = graph
        # A version that names some of the values touches all graphs that have them.
        for part in () if self.is_keyed else dict.fromkeys(_parts(key)):
            self.agreeing.setdefault(part, []).append(key)
        self.alarm(key)

    def sweep(self, tick: int) -> None:
        """Now and then let go of graphs that are empty, once what has expired by a tick is gone."""
        if not self.is_keyed or len(self.graphs) <= 2 * self.swept + SPARE_GRAPHS:
            return
        for key, graph in list(self.graphs.items()):
            for node in graph.nodes:
                node.purge(tick)
            if not graph.timers and not any(one for node in graph.nodes for one in node.everything()):
                self.lost += sum(node.dropped for node in graph.nodes)
                del self.graphs[key]
        self.swept = len(self.graphs)

    def alarm(self, key: Key) -> None:
        """Note when the first timer of a key is due."""
        timers = self.graphs[key].timers
        if timers:
            heappush(self.alarms, (timers[0][0], key))

    def next_due(self) -> int:
        """The earliest time of a timer, NEVER if there is none; what is due then may turn out to be overtaken."""
        return self.alarms[0][0][0] if self.alarms else NEVER

    def due(self, before: Point) -> Iterator[tuple[Point, list[Key]]]:
        """The points before another at which timers are due, in order, with the keys that have them."""
        while self.alarms and self.alarms[0][0] < before:
            point = self.alarms[0][0]
            keys = set()
            while self.alarms and self.alarms[0][0] == point:
                key = heappop(self.alarms)[1]
                # A graph may be gone, and its alarms with it.
                graph = self.graphs.get(key)
                if graph is not None and graph.timers and graph.timers[0][0] == point:
                    keys.add(key)
            if keys:
                yield point, sorted(keys)


CompositeState = GraphState | FlatState


def initial_state(detector: Detector, classes: tuple[EventClass, ...]) -> CompositeState:
    """Before the first version."""
    known = nothing_known(detector, classes)
    if detector.flat is not None:
        return FlatState(*known, flat=detector.flat)
    return GraphState(*known, is_keyed=names_all(detector.graph))


def held_seqs(state: CompositeState) -> Integers:
    """The `seq` of every version that some occurrence may still be made of; perhaps of a few more."""
    if isinstance(state, FlatState):
        lists = state.held.constituents
        below = np.zeros(0, np.int64) if lists is None else lists.flatten().to_numpy(zero_copy_only=False)
        return np.concatenate([state.held.seq, below])
    found: set[int] = set()
    for graph in state.graphs.values():
        waiting = (timer[4] for timer in graph.timers if timer[4] is not None)
        for one in chain(waiting, *(node.everything() for node in graph.nodes)):
            for version, _ in one.parts:
                found.update((version.seq,) if version.constituents is None else version.constituents)
    return np.fromiter(found, np.int64, len(found))


def graphs_for(detector: Detector, state: GraphState, bound: Key) -> list[Key]:
    """The graphs that a version which names these values touches; those that are new begin where a part of them was."""
    if state.is_keyed:
        if bound not in state.graphs:
            state.enter(bound, detector.evaluation.empty())
        return [bound]
    origin = (bound[0], *[FRESH] * (len(bound) - 1))
    if origin not in state.graphs:
        state.enter(origin, detector.evaluation.empty())
    if bound not in state.graphs and FRESH not in bound[1:]:
        # What names every value joins with nothing else.
        state.enter(bound, state.graphs[_latest_part(bound, state.graphs)].copied())
    elif bound not in state.graphs:
        known = dict.fromkeys(state.graphs)
        new = {_joined(key, bound) for key in known if key[0] == bound[0]} - {None} - set(known)
        for key in sorted(key for key in new if key is not None):
            state.enter(key, state.graphs[_latest_part(key, known)].copied())
    return state.agreeing[bound]


def _joined(one: Key, other: Key) -> Key | None:
    found = [one[0]]
    for a, b in zip(one[1:], other[1:], strict=True):
        if a != b and FRESH not in (a, b):
            return None
        found.append(max(a, b))
    return tuple(found)


def _latest_part(key: Key, known: Container[Key]) -> Key:
    """Of the graphs that a new one was part of, that with most of its values."""
    return max((part for part in _parts(key) if part in known), key=lambda part: sum(v != FRESH for v in part[1:]))


def _parts(key: Key) -> Iterator[Key]:
    """The key with some of its values, or all, or none."""
    for kept in product((False, True), repeat=len(key) - 1):
        yield (key[0], *(value if keep else FRESH for value, keep in zip(key[1:], kept, strict=True)))
