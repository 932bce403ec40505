"""One history in chunks, with constituents: what each chunk does to any state, the states between, then each chunk.

In: a detector, and the versions of a chunk. Out: its `Passage`, which chunks need not each other for; and from the
passages of all chunks the state before each, from which `step` goes on as if it had read everything before. It knows
neither threads nor a cluster.

Runs in one state have the same future, and only the best tuple of each is kept. So a chunk is, for each state before
it and each after it, the best part that it adds to a tuple. The most recent whole has the most recent last part, and
of equal ones the most recent first part; the earliest has the earliest first part, and then the earliest last part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.algebra.expression import Choice
from augury.event import EventClass
from augury.kernels.batch import Batch, Integers
from augury.kernels.match.detector import Detector, Given, Programs, Tables, aggregates, programs_of
from augury.kernels.match.leaves import looks_back, truth_of
from augury.kernels.match.parallel import sets_of
from augury.kernels.match.shared import Shared
from augury.kernels.match.state import Events, MatchState, Nodes, compacted, initial_state, with_streams
from augury.kernels.match.step import _gaps, _symbols, _with_events
from augury.kernels.match.streams import groups_of, partitioned_rows, touched
from augury.kernels.match.walk import FINAL, NONE, is_better_tuple

Shorts = npt.NDArray[np.int32]

RUN_STATES_MAX: Final = 64
"""States of runs that a chunk is gone over from, each of them: with more it costs more than it saves."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What a chunk does to the tuples of states: heads by the state before and the state after it, -1 for no way.

    `rows` are its versions in the history, `first` and `last` the positions of those that moved something (0: none),
    in the whole history where versions came with positions (`placed`), else in the chunk.
    """

    heads: Shorts
    nodes: Nodes
    events: Events
    rows: int
    first: int
    last: int
    placed: bool


def why_in_one(detector: Detector) -> str:
    """Why the history of an expression cannot be cut into chunks; empty where it can."""
    plan, tables = detector.plan, detector.tables
    if detector.keyed or plan.partition_by:
        return "it has a history for each value"
    if plan.where is not None or plan.within_us is not None:
        return f"{'WHERE' if plan.where is not None else 'WITHIN'} looks at every tuple"
    if plan.choice is Choice.ALL or aggregates(plan):
        return "every tuple is collected"
    if tables is None or detector.inner or detector.says:
        return "a part of it is detected by itself"
    if detector.keeps_all:
        return "tuples of the same events may differ in their values"
    if looks_back(leaf.mask for leaf in detector.alphabet.leaves):
        return "PREV looks back"
    if tables.states > RUN_STATES_MAX:
        return f"it has {tables.states} states of runs, more than {RUN_STATES_MAX}"
    return ""


# ---- a chunk by itself -------------------------------------------------------------------------------------------


def passage_of(
    detector: Detector, batch: Batch, *, position: Integers | None = None, shared: Shared | None = None
) -> Passage:
    """What the versions of a chunk do to any state; `position` and `shared` as for `step`."""
    from augury.kernels.match.walk_chunk import walk_from_each

    assert not why_in_one(detector), "who calls has asked"
    tables, plan = detector.tables, detector.plan
    assert tables is not None
    state = initial_state(detector, batch.classes)
    rows = partitioned_rows(batch, plan.over, (), state.partitions, shared or Shared())
    true = [truth_of(leaf, rows, {}).rows for leaf in detector.alphabet.leaves]
    touch = touched(detector, rows, groups_of(detector, batch.classes), true, state.streams, False)
    places = np.arange(1, len(rows.index) + 1) if position is None else position
    at = np.ascontiguousarray(places[touch.row], np.int64)
    does = _by_symbol(tables)
    state.heads, *chains = walk_from_each(
        *(_symbols(detector, touch.leaves), at, np.ascontiguousarray(touch.row, np.int64), tables.states),
        *(does.first, does.target, does.source, does.mark, does.rival),
        *(detector.other, tables.tail, tables.period, _gaps(detector), plan.choice is not Choice.EARLIEST),
        _beside(tables),
    )
    state.nodes = Nodes(*chains)
    state.events = _with_events(state.events, rows)
    compacted(state)
    first, last = (int(at[0]), int(at[-1])) if len(at) else (0, 0)
    return Passage(state.heads, state.nodes, state.events, len(rows.index), first, last, position is not None)


def _by_symbol(tables: Tables) -> Programs:
    """What a symbol does, whatever states runs are in; of sources where no run is nothing comes."""
    return programs_of(_given(tables, symbol) for symbol in range(tables.symbols))


def _given(tables: Tables, symbol: int) -> Given:
    given: Given = {s: [] for s in range(tables.states)}
    for s in range(tables.states):
        begin, end = tables.first[s * tables.symbols + symbol :][:2]
        for t, m in zip(tables.target[begin:end].tolist(), tables.mark[begin:end].tolist(), strict=True):
            if t != FINAL:
                given[t].append((s, m))
    return given


def _beside(tables: Tables) -> npt.NDArray[np.bool_]:
    """Of each two states whether runs are in the second whenever they are in the first; not known of many sets."""
    if not len(tables.delta):
        return np.zeros((tables.states, tables.states), np.bool_)
    inside = np.zeros((len(tables.delta), tables.states), np.int64)
    for number, states in enumerate(sets_of(tables)):
        inside[number, list(states)] = 1
    return np.ascontiguousarray(inside.T @ (1 - inside) == 0)


# ---- one chunk after the other -----------------------------------------------------------------------------------


def states_before(
    detector: Detector, classes: tuple[EventClass, ...], passages: Iterable[Passage]
) -> Iterator[MatchState]:
    """The state before each chunk, and last that after all of them; none shares anything that `step` writes."""
    tables = detector.tables
    assert tables is not None
    numbers = {states: q for q, states in enumerate(sets_of(tables))} if len(tables.delta) else {}
    state = initial_state(detector, classes)
    with_streams(state, detector, np.full(1, -1, np.int64))
    state.streams.partition, state.streams.bound = np.zeros(1, np.int64), np.zeros((1, 0), np.int64)
    state.length = np.zeros(1, np.int64)
    for passage in passages:
        yield _copied(state, detector, classes)
        state = _after(detector, state, passage, classes)
        if numbers:
            alive = frozenset(np.flatnonzero(state.heads[0] >= 0).tolist())
            state.at = np.array([numbers[alive]], np.int32)
    yield state


def _copied(state: MatchState, detector: Detector, classes: tuple[EventClass, ...]) -> MatchState:
    """The same in arrays of its own; nodes and events are never written, only added to elsewhere."""
    made = initial_state(detector, classes)
    made.streams.partition, made.streams.bound = np.zeros(1, np.int64), np.zeros((1, 0), np.int64)
    made.length, made.at, made.last = state.length.copy(), state.at.copy(), state.last.copy()
    made.heads, made.nodes, made.events = state.heads.copy(), state.nodes, state.events
    return made


def _after(detector: Detector, state: MatchState, passage: Passage, classes: tuple[EventClass, ...]) -> MatchState:
    after = _copied(state, detector, classes)
    after.length[0] += passage.rows
    if not passage.last:
        return after
    begun = 0 if passage.placed else int(state.length[0])
    before = _over_others(detector, state, begun + passage.first)
    if _gaps(detector):
        after.last[0] = begun + passage.last
    recent = detector.plan.choice is not Choice.EARLIEST
    chosen = [_best(before, state.nodes, passage, j, recent) for j in range(len(before))]
    after.heads, after.nodes = _joined(before, state.nodes, passage, chosen, len(state.events))
    after.events = _events(state.events, passage.events)
    compacted(after)
    return after


def _over_others(detector: Detector, state: MatchState, position: int) -> Shorts:
    """The heads right before a position: events of others up to there have moved runs, where that matters."""
    tables, nodes = detector.tables, state.nodes
    assert tables is not None
    heads, last = state.heads.copy(), state.last.copy()
    right_before: Shorts = heads[0]
    if not _gaps(detector) or position - 1 <= last[0]:
        return right_before
    from augury.kernels.match.walk_sets import walk_sets

    row = (np.array([detector.other], np.int32), np.array([position - 1]), np.zeros(1, np.int64))
    walk_sets(
        *(np.zeros(1, np.int64), np.array([0, 1]), *row, state.at.copy(), last, heads),
        *(tables.first, tables.target, tables.mark, tables.symbols),
        *(detector.other, tables.tail, tables.period, True, detector.plan.choice is not Choice.EARLIEST),
        *(nodes.ref.copy(), nodes.marks.copy(), nodes.prev.copy(), nodes.length.copy(), nodes.count),
    )
    return right_before


def _best(before: Shorts, nodes: Nodes, passage: Passage, after: int, recent: bool) -> int:
    """The state before the chunk from which the best tuple comes that is in a state after it; -1 for none."""
    best = NONE
    for i in np.flatnonzero((before >= 0) & (passage.heads[:, after] >= 0)).tolist():
        if best == NONE or _is_preferred(before, nodes, passage, after, i, best, recent):
            best = i
    return best


def _is_preferred(
    before: Shorts, nodes: Nodes, passage: Passage, after: int, one: int, other: int, recent: bool
) -> bool:
    earlier = (nodes, int(before[one]), int(before[other]))
    later = (passage.nodes, int(passage.heads[one, after]), int(passage.heads[other, after]))
    for chains, a, b in (later, earlier) if recent else (earlier, later):
        columns = (chains.ref, chains.prev, chains.length)
        if is_better_tuple(a, False, b, False, recent, *columns):
            return True
        if is_better_tuple(b, False, a, False, recent, *columns):
            return False
    return False


def _joined(before: Shorts, nodes: Nodes, passage: Passage, chosen: Sequence[int], events: int) -> tuple[Shorts, Nodes]:
    """The heads after a chunk, and the nodes: those before it, and those of the chunk after each tuple that goes on."""
    added = passage.nodes
    count = added.count - 1
    parts: list[tuple[Integers, Shorts, Shorts, Shorts]] = [(nodes.ref, nodes.marks, nodes.prev, nodes.length)]
    heads = np.full((1, len(before)), NONE, np.int32)
    begin = nodes.count
    for i in sorted({i for i in chosen if i != NONE}):
        # Node 0 of the chunk is the tuple that comes in.
        place = np.concatenate([before[i : i + 1], np.arange(begin, begin + count)]).astype(np.int32)
        length = added.length[1:] + nodes.length[before[i]]
        parts.append((added.ref[1:] + events, added.marks[1:], place[added.prev[1:]], length))
        for j in (j for j, of in enumerate(chosen) if of == i):
            heads[0, j] = place[passage.heads[i, j]]
        begin += count
    ref, marks, prev, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    return heads, Nodes(ref, marks, prev, length.astype(np.int32), begin)


def _events(before: Events, more: Events) -> Events:
    """The events that tuples hold, and after them those of a chunk."""
    if not len(before):
        return more
    if not len(more):
        return before
    held = np.bincount(before.code, minlength=len(before.tables))
    pairs = zip(before.tables, more.tables, strict=True)
    lists = zip(before.constituents, more.constituents, strict=True)
    return Events(
        np.concatenate([before.seq, more.seq]),
        np.concatenate([before.occ_time, more.occ_time]),
        np.concatenate([before.det_time, more.det_time]),
        np.concatenate([before.code, more.code]),
        np.concatenate([before.row, more.row + held[more.code]]),
        tuple(pa.concat_tables([old, new.cast(old.schema)]) if old.num_columns else new for old, new in pairs),
        tuple(new if old is None else old if new is None else pa.concat_arrays([old, new]) for old, new in lists),
        None if more.detected is None else np.concatenate([before.asked_det_time, more.detected]),
    )
