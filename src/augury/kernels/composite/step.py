"""One step of a COMPOSITE: a state, a batch and how far the clock goes in, the state after it and occurrences out.

How a history is cut into batches, and how far the clock goes after each, makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from augury.algebra.expression import Feed
from augury.event import EventClass
from augury.kernels.batch import NO_SEQ, Batch, Occurrences
from augury.kernels.composite.detector import Detector
from augury.kernels.composite.flat.state import FlatState
from augury.kernels.composite.flat.step import step_flat
from augury.kernels.composite.giving import Found, given
from augury.kernels.composite.occurrence import Now, Occ, Point, Version, now_at
from augury.kernels.composite.reading import arrivals
from augury.kernels.composite.state import CompositeState, GraphState, Key, graphs_for
from augury.kernels.match.shared import Shared
from augury.kernels.match.streams import FRESH


def step(
    detector: Detector,
    state: CompositeState,
    batch: Batch,
    event_class: EventClass,
    chronon_us: int,
    until_us: int,
    *,
    shared: Shared | None = None,
) -> tuple[CompositeState, Occurrences]:
    """Read a batch, then let the clock go on; the state given is used up. `event_class` is that of the complex events.

    No version of the batch, and none of a later one, may have been detected before the `until_us` of an earlier step;
    timers that are due by `until_us` fire. `shared` is one value for all expressions that read this batch.
    """
    into = [(event_class, detector.plan.feeds)]
    state, (occurrences,) = step_into(detector, state, batch, into, chronon_us, until_us, shared=shared)
    return state, occurrences


def step_into(
    detector: Detector,
    state: CompositeState,
    batch: Batch,
    into: Sequence[tuple[EventClass, Sequence[Feed]]],
    chronon_us: int,
    until_us: int,
    *,
    shared: Shared | None = None,
) -> tuple[CompositeState, list[Occurrences]]:
    """One step for classes that differ in what feeds their attributes only; each has the errors of the whole."""
    if isinstance(state, FlatState):
        return step_flat(detector, state, batch, into, chronon_us, shared or Shared())
    found, errors = step_found(detector, state, batch, chronon_us, until_us, shared=shared)
    classes = [given(detector, feeds, event_class, found) for event_class, feeds in into]
    return state, [replace(occurrences, errors=occurrences.errors + errors) for occurrences in classes]


def step_found(
    detector: Detector,
    state: GraphState,
    batch: Batch,
    chronon_us: int,
    until_us: int,
    *,
    shared: Shared | None = None,
) -> tuple[list[Found], int]:
    """One step as occurrences of the graph, in the order in which they take place, and how often a test was in error.

    The state moves on. The place of a version is its row in the batch, counted on from `state.places` before the step.
    """
    detector.tests.errors = 0
    arrived, errors = arrivals(detector, state, batch, shared or Shared())
    found: list[Found] = []
    for version, groups in arrived:
        point = (version.det_time, 1, version.place, 0)
        if state.alarms and state.alarms[0][0] < point:
            _fire(detector, state, point, chronon_us, found)
        now = now_at(point, chronon_us, version.seq == NO_SEQ)
        new = groups[0] if len(groups) == 1 and state.is_keyed and groups[0][0] not in state.graphs else None
        if new is not None and detector.inert is not None and new[1] in detector.inert:
            continue
        for key, leaves in _touched(detector, state, groups):
            graph = state.graphs[key]
            before = graph.timers[0] if graph.timers else None
            made = detector.evaluation.step(graph, now, [(leaf, version) for leaf in leaves])
            if new is not None and detector.inert is not None:
                _learn(detector, state, new, version, now, made)
            if graph.timers and graph.timers[0] is not before:
                state.alarm(key)
            if made:
                found += [Found(point, version, one) for one in _own(detector, key, made)]
    if arrived:
        state.sweep(now.tick)
    _fire(detector, state, (until_us, 2, 0, 0), chronon_us, found)
    return found, errors + detector.tests.errors


def _learn(
    detector: Detector, state: GraphState, new: tuple[Key, tuple[int, ...]], version: Version, now: Now, made: list[Occ]
) -> None:
    """Note leaves that leave an empty graph empty. Only of a version that nothing can be against: no age, no expiry."""
    key, leaves = new
    graph = state.graphs[key]
    is_fresh = version.occ_time >= now.time and version.until >= now.tick
    if is_fresh and not made and not graph.timers and not any(one for node in graph.nodes for one in node.everything()):
        assert detector.inert is not None
        detector.inert.add(leaves)
        del state.graphs[key]


def _touched(
    detector: Detector, state: GraphState, groups: Sequence[tuple[Key, tuple[int, ...]]]
) -> list[tuple[Key, Sequence[int]]]:
    """The graphs in which a version stands, each with the leaves at which it does."""
    if len(groups) == 1:
        bound, leaves = groups[0]
        return [(key, leaves) for key in graphs_for(detector, state, bound)]
    # All graphs that are new begin before this version.
    for bound, _ in groups:
        graphs_for(detector, state, bound)
    touched: dict[Key, set[int]] = {}
    for bound, leaves in groups:
        for key in graphs_for(detector, state, bound):
            touched.setdefault(key, set()).update(leaves)
    return [(key, sorted(leaves)) for key, leaves in touched.items()]


def _fire(detector: Detector, state: GraphState, before: Point, chronon_us: int, found: list[Found]) -> None:
    """Let the timers fire that are due before a point."""
    for point, keys in state.due(before):
        now = now_at(point, chronon_us)
        for key in keys:
            made = detector.evaluation.step(state.graphs[key], now, ())
            state.alarm(key)
            found += [Found(point, None, one) for one in _own(detector, key, made)]


def _own(detector: Detector, key: Key, made: list[Occ]) -> list[Occ]:
    """Those that bind every value of their graph; others take place in the graph that lacks it."""
    names = [v.name for v, value in zip(detector.plan.keys, key[1:], strict=True) if value != FRESH]
    return [one for one in made if all(_binds(detector, one, name) for name in names)] if names else made


def _binds(detector: Detector, one: Occ, name: str) -> bool:
    places = detector.tests.bound_at(name)
    return any(leaf in places for _, leaf in one.parts)
