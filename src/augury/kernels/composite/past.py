"""What the graph of one key has gone through: the history of a COMPOSITE, read once more for somebody who asks.

In: a plan and a batch. Out: which versions stand at which leaves of the graph of a key, its steps one after the other,
and what took place at each node. Written for one question, not for speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from augury.algebra.composite import Composite, CompositePlan
from augury.algebra.expression import Variable
from augury.algebra.scalar import Constant, Field
from augury.event import Attribute, ClassKind, EventClass, key_of
from augury.graphs import Graph, written_of
from augury.kernels.batch import NO_SEQ, Batch, Integers, Occurrences
from augury.kernels.composite.detector import Detector, detector_of
from augury.kernels.composite.network import Network
from augury.kernels.composite.occurrence import KeyState, Now, Occ, Point, Version, now_at
from augury.kernels.composite.protocol import CONTEXTS, Evaluation
from augury.kernels.composite.reading import Arrival, arrivals
from augury.kernels.composite.scalars import variable_places
from augury.kernels.composite.state import Key, initial_state
from augury.kernels.composite.step import step
from augury.kernels.match.leaves import Rows, history_rows
from augury.kernels.match.past import plain
from augury.kernels.match.shared import Shared
from augury.kernels.match.streams import FRESH
from augury.kernels.told import value_text

END: Final = 2
"""The second number of a point after all timers and versions of its time."""

Standing = tuple[Version, tuple[int, ...]]
"""A version and the leaves at which it stands."""


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """A history that a plan has read; `batch` has nothing but its versions, so that places are rows of it."""

    detector: Detector
    written: tuple[Composite, ...]
    """For each node what was written for it."""
    batch: Batch
    arrived: tuple[Arrival, ...]
    chronon_us: int

    @property
    def graph(self) -> Graph:
        """The graph that all keys have."""
        return self.detector.graph

    def evaluation(self, context: str | None = None) -> Evaluation:
        """What runs the graph, in a context, or in that of the plan; it is nobody else's."""
        return CONTEXTS[context or self.detector.plan.context](self.graph, self.detector.tests)

    def standing(self, key: Key) -> list[Standing]:
        """The versions that the graph of a key has seen, in order."""
        found = []
        for version, groups in self.arrived:
            leaves = {leaf for bound, of in groups if is_part(bound, key) for leaf in of}
            if leaves:
                found.append((version, tuple(sorted(leaves))))
        return found

    def event_class(self, place: int) -> EventClass:
        """The class of a version."""
        return self.batch.classes[int(self.batch.code[place])]

    def value(self, place: int, attribute: int | str) -> Constant:
        """An attribute of a version, by its number or name, or one of its times."""
        of_class = self.event_class(place)
        found = of_class.attributes[attribute] if isinstance(attribute, int) else of_class.attribute(attribute)
        assert found is not None, "analysis has looked the attribute up"
        rows = self.rows()
        return Constant(plain(rows.column(int(self.batch.code[place]), found.name, np.array([place]))[0]), found.type)

    def event(self, place: int) -> str:
        """A version as text."""
        of_class = self.event_class(place)
        values = ", ".join(value_text(self.value(place, i)) for i in range(len(of_class.attributes)))
        return f"{of_class.name}({values})" if values else of_class.name

    def rows(self) -> Rows:
        """The history as leaves read it."""
        return Rows(self.batch, np.arange(len(self.batch)), np.zeros(0, np.int64))

    def bound(self, one: Occ) -> tuple[tuple[str, Constant], ...]:
        """The variables that an occurrence binds, by name."""
        found: dict[str, Constant] = {}
        for _, leaf in one.parts:
            for binding in self.graph.leaves[leaf].bindings:
                if isinstance(binding, Variable):
                    value = self.detector.tests.value(Field("", binding.name, binding.type), one)
                    found[binding.name] = Constant(value, binding.type)
        return tuple(sorted(found.items()))

    def shown_key(self, key: Key) -> Mapping[str, str]:
        """The values of a key's variables as text."""
        found: dict[str, str] = {}
        for i, variable in enumerate(self.detector.plan.keys):
            if key[i + 1] == FRESH:
                continue
            for version, groups in self.arrived:
                leaf = next((of[0] for bound, of in groups if bound[i + 1] == key[i + 1]), None)
                if leaf is not None:
                    places = self.detector.tests.bound_at(variable.name)
                    found[variable.name] = value_text(Constant(version.values[places[leaf]], variable.type))
                    break
        return found


def past_of(plan: CompositePlan, batch: Batch, chronon_us: int, index: Integers | None = None) -> Past:
    """Read a history, or some rows of it; raises `NotYet` for what cannot be run."""
    detector = detector_of(plan)
    variables = {name for leaf in detector.leaves for name in variable_places(leaf)}
    detector = replace(detector, variables=frozenset(variables))
    if index is None:
        index = history_rows(batch, plan.over)
        has = [all(c.attribute(name) is not None for name in plan.partition_by) for c in batch.classes]
        index = index[np.array(has, np.bool_)[batch.code[index]]]
    own = batch.at(index)
    arrived, _ = arrivals(detector, initial_state(detector, own.classes), own, Shared())
    return Past(detector, written_of(plan), own, tuple(arrived), chronon_us)


def up_to(batch: Batch, seq: int) -> Batch:
    """The versions up to the last row that has a `seq`; nothing if there is none."""
    rows = np.flatnonzero(batch.seq == seq)
    return batch.part(0, int(rows[-1]) + 1 if len(rows) else 0)


def detected(plan: CompositePlan, batch: Batch, chronon_us: int, until_us: int) -> Occurrences:
    """What the kernel finds."""
    attributes = tuple(Attribute(feed.attribute, feed.value.type) for feed in plan.feeds if feed.value is not None)
    event_class = EventClass("Found", ClassKind.COMPLEX, False, attributes, (), None)
    detector = detector_of(plan)
    return step(detector, initial_state(detector, batch.classes), batch, event_class, chronon_us, until_us)[1]


# ---- keys ----------------------------------------------------------------------------------------


def is_part(one: Key, of: Key) -> bool:
    """Whether a version that names these values is in the graph of a key."""
    return one[0] == of[0] and all(a in (FRESH, b) for a, b in zip(one[1:], of[1:], strict=True))


def joined(one: Key, other: Key) -> Key | None:
    """The key with the values of both, if they agree."""
    if one[0] != other[0]:
        return None
    pairs = list(zip(one[1:], other[1:], strict=True))
    if any(a != b and FRESH not in (a, b) for a, b in pairs):
        return None
    return (one[0], *(max(a, b) for a, b in pairs))


def names_all(past: Past, key: Key, one: Occ) -> bool:
    """Whether an occurrence binds every value of its key; it takes place in the graph that lacks the others."""
    names = [v.name for v, value in zip(past.detector.plan.keys, key[1:], strict=True) if value != FRESH]
    bound = {key_of(name) for name, _ in past.bound(one)}
    return all(key_of(name) in bound for name in names)


# ---- steps ---------------------------------------------------------------------------------------


def point_of(version: Version) -> Point:
    """Where a version stands in the order of all that happens."""
    return (version.det_time, 1, version.place, 0)


def steps(
    state: KeyState, standing: Sequence[Standing], until: Point, chronon_us: int
) -> Iterator[tuple[Now, list[tuple[int, Version]]]]:
    """What comes up to a point: versions, and in between the timers that the state has; who asks takes the step."""
    for version, leaves in standing:
        point = point_of(version)
        if point > until:
            break
        while state.timers and state.timers[0][0] < point:
            yield now_at(state.timers[0][0], chronon_us), []
        yield now_at(point, chronon_us, version.seq == NO_SEQ), [(leaf, version) for leaf in leaves]
    while state.timers and state.timers[0][0] <= until:
        yield now_at(state.timers[0][0], chronon_us), []


@dataclass(slots=True)
class Trace:
    """What took place at each node, in order, and the state after it."""

    state: KeyState
    found: list[list[Occ]] = field(default_factory=list)

    def at(self, number: int, point: Point) -> list[Occ]:
        """What took place at a node at a step."""
        return [one for one in self.found[number] if one.end == point]


def traced(network: Network, past: Past, standing: Sequence[Standing], until: Point) -> Trace:
    """A graph that works node by node, up to a point."""
    trace = Trace(network.empty(), [[] for _ in past.graph.nodes])
    for now, arriving in steps(trace.state, standing, until, past.chronon_us):
        for found, new in zip(trace.found, network.pass_over(trace.state, now, arriving), strict=True):
            found += new
    return trace
