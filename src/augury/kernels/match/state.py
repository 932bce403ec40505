"""What a MATCH remembers between batches: a value that is stepped, saved and loaded.

Streams and their runs are flat arrays; tuples are chains of nodes over the events they hold, of which only those that
a run still needs are kept. Nothing here reads symbols.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.event import EventClass
from augury.kernels.batch import Integers
from augury.kernels.columns import arrow_type
from augury.kernels.match.detector import Detector
from augury.kernels.match.leaves import Tail, partition_types
from augury.kernels.match.said import no_values
from augury.kernels.match.streams import Numbers, Streams, no_numbers

NONE = -1
TIME_MAX = np.iinfo(np.int64).max
TIME_MIN = np.iinfo(np.int64).min
Shorts = npt.NDArray[np.int32]


@dataclass(slots=True)
class Events:
    """The events that tuples hold: an event's number is its place here; greater is later in the history.

    `detected` is as in a batch.
    """

    seq: Integers
    occ_time: Integers
    det_time: Integers
    code: npt.NDArray[np.int16]
    row: Integers
    tables: tuple[pa.Table, ...]
    constituents: tuple[pa.Array | None, ...]
    detected: Integers | None = None

    def __len__(self) -> int:
        """How many."""
        return len(self.seq)

    @property
    def asked_det_time(self) -> Integers:
        """What expressions read as detTime."""
        return self.det_time if self.detected is None else self.detected


@dataclass(slots=True)
class Nodes:
    """Tuples as chains: node 0 is the empty one; only the first `count` are in use."""

    ref: Integers
    marks: Shorts
    prev: Shorts
    length: Shorts
    count: int


@dataclass(slots=True)
class Runs:
    """Runs where all tuples are kept: `first` per stream, `free` begins the list of slots that no stream uses."""

    first: Shorts
    state: Shorts
    head: Shorts
    least: Integers
    most: Integers
    until: Integers
    follows: Shorts
    free: int


class TooManyTuples(Exception):
    """A history has more open tuples than the limit allows."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a machine without tables: its state, its tuple, the tuple's first and last time, and its expiry."""

    state: Any
    head: int
    least: int
    most: int
    until: int


@dataclass(slots=True)
class MatchState:
    """The whole: partitions and the length of each one's history, streams, where they are, and their tuples."""

    partitions: list[Numbers]
    length: Integers
    streams: Streams
    at: Shorts
    last: Integers
    heads: Shorts
    runs: Runs
    nodes: Nodes
    events: Events
    tails: dict[int, Tail] = field(default_factory=dict)
    unbuilt: list[list[Run]] = field(default_factory=list)
    said: list[Numbers] = field(default_factory=list)
    inner: list[MatchState] = field(default_factory=list)


def initial_state(detector: Detector, classes: tuple[EventClass, ...]) -> MatchState:
    """Before the first event."""
    kinds = partition_types(classes, detector.plan.over, detector.plan.partition_by)
    partitions = [no_numbers(arrow_type(kind)) for kind in kinds]
    partitions += [no_numbers(pa.int64()) for _ in kinds[1:]]
    streams = Streams([no_numbers(arrow_type(v.type)) for v in detector.keyed])
    streams.bound = np.zeros((0, len(detector.keyed)), np.int64)
    states = 0 if detector.tables is None else detector.tables.states
    zero4, zero8 = np.zeros(0, np.int32), np.zeros(0, np.int64)
    one = np.zeros(1, np.int32)
    nodes = Nodes(np.zeros(1, np.int64), one, one, one, 1)
    tables = tuple(pa.table({a.name: pa.array([], arrow_type(a.type)) for a in c.attributes}) for c in classes)
    events = Events(zero8, zero8, zero8, np.zeros(0, np.int16), zero8, tables, tuple(None for _ in classes))
    runs = Runs(zero4, zero4, zero4, zero8, zero8, zero8, zero4, NONE)
    heads = np.zeros((0, states), np.int32)
    inner = [initial_state(one, classes) for one in detector.inner]
    said = no_values(detector.says)
    return MatchState(partitions, zero8, streams, zero4, zero8, heads, runs, nodes, events, said=said, inner=inner)


def with_streams(state: MatchState, detector: Detector, origin: Integers) -> None:
    """Make room for new streams, each as the one it was part of, or as at the beginning."""
    if len(origin) == 0:
        return
    tables = detector.tables
    assert tables is not None
    known = len(state.at)
    old = origin >= 0
    at = np.zeros(len(origin), np.int32)
    last = np.zeros(len(origin), np.int64)
    at[old], last[old] = state.at[origin[old]], state.last[origin[old]]
    state.at, state.last = np.concatenate([state.at, at]), np.concatenate([state.last, last])
    if detector.keeps_all:
        first = np.full(len(origin), NONE, np.int32)
        state.runs.first = np.concatenate([state.runs.first, first])
        for stream, source in enumerate(origin, known):
            _begin_runs(state, tables.initial, stream, int(source))
        return
    heads = np.full((len(origin), tables.states), NONE, np.int32)
    heads[:, tables.initial] = 0
    heads[old] = state.heads[origin[old]]
    state.heads = np.concatenate([state.heads, heads])


def _begin_runs(state: MatchState, initial: Shorts, stream: int, source: int) -> None:
    runs = state.runs
    if source < 0:
        found = [(int(c), 0, TIME_MAX, TIME_MIN, TIME_MAX) for c in initial]
    else:
        found = []
        run = int(runs.first[source])
        while run != NONE:
            found.append(
                (
                    int(runs.state[run]),
                    int(runs.head[run]),
                    int(runs.least[run]),
                    int(runs.most[run]),
                    int(runs.until[run]),
                )
            )
            run = int(runs.follows[run])
    for c, head, least, most, until in found:
        slot = _slot(runs)
        runs.state[slot], runs.head[slot] = c, head
        runs.least[slot], runs.most[slot], runs.until[slot] = least, most, until
        runs.follows[slot] = runs.first[stream]
        runs.first[stream] = slot


def _slot(runs: Runs) -> int:
    if runs.free == NONE:
        size = len(runs.state)
        more = max(64, size)
        runs.state, runs.head, runs.follows = (
            np.concatenate([a, np.zeros(more, np.int32)]) for a in (runs.state, runs.head, runs.follows)
        )
        runs.least, runs.most, runs.until = (
            np.concatenate([a, np.zeros(more, np.int64)]) for a in (runs.least, runs.most, runs.until)
        )
        runs.follows[size:] = np.arange(size + 1, size + more + 1)
        runs.follows[-1] = NONE
        runs.free = size
    slot = runs.free
    runs.free = int(runs.follows[slot])
    return slot


def held_seqs(state: MatchState) -> Integers:
    """The `seq` of every version that some tuple may still be made of; perhaps of a few more."""
    lists = [one.flatten().to_numpy(zero_copy_only=False) for one in state.events.constituents if one is not None]
    return np.concatenate([state.events.seq, *lists, *map(held_seqs, state.inner)])


def compacted(state: MatchState) -> None:
    """Forget the nodes that no run needs, and the events that no node holds."""
    nodes = state.nodes
    used = np.zeros(nodes.count, np.bool_)
    used[0] = True
    heads = [state.heads[state.heads > 0]]
    live = _live_runs(state.runs)
    heads.append(state.runs.head[live])
    heads.append(np.array([run.head for runs in state.unbuilt for run in runs], np.int32))
    frontier = _distinct(np.concatenate(heads))
    while len(frontier):
        frontier = frontier[~used[frontier]]
        used[frontier] = True
        frontier = _distinct(nodes.prev[frontier])
    place = np.cumsum(used, dtype=np.int32) - 1
    kept = np.flatnonzero(used)
    # Node 0 holds no event.
    held = np.zeros(len(state.events), np.bool_)
    held[nodes.ref[kept[1:]]] = True
    ref = np.zeros(len(kept), np.int64)
    ref[1:] = (np.cumsum(held) - 1)[nodes.ref[kept[1:]]]
    state.nodes = Nodes(ref, nodes.marks[kept], place[nodes.prev[kept]], nodes.length[kept], len(kept))
    state.heads = np.where(state.heads >= 0, place[state.heads], NONE).astype(np.int32)
    state.runs.head[live] = place[state.runs.head[live]]
    state.unbuilt = [[replace(run, head=int(place[run.head])) for run in runs] for runs in state.unbuilt]
    state.events = _kept_events(state.events, np.flatnonzero(held))


def _distinct(nodes: Shorts) -> Shorts:
    """Each once, ascending; `np.unique` goes by hashes, which takes ten times as long."""
    if len(nodes) < 2:
        return nodes
    found: Shorts = np.sort(nodes)
    kept: Shorts = found[np.append(True, found[1:] != found[:-1])]
    return kept


def forget_expired(state: MatchState, tick: int) -> None:
    """Forget the runs whose tuples hold an event that a tick has purged: WHERE and WITHIN do not see them."""
    runs = state.runs
    if (runs.until < tick).any():
        expired = _live_runs(runs) & (runs.until < tick)
        if expired.any():
            from augury.kernels.match.walk_all import unlinked

            runs.free = unlinked(runs.first, runs.follows, expired, runs.free)
            runs.until[expired] = TIME_MAX
            compacted(state)
    if any(run.until < tick for of_stream in state.unbuilt for run in of_stream):
        state.unbuilt = [[run for run in of_stream if run.until >= tick] for of_stream in state.unbuilt]
        compacted(state)


def _live_runs(runs: Runs) -> npt.NDArray[np.bool_]:
    live = np.ones(len(runs.state), np.bool_)
    slot = runs.free
    while slot != NONE:
        live[slot] = False
        slot = int(runs.follows[slot])
    return live


def _kept_events(events: Events, kept: Integers) -> Events:
    code = events.code[kept]
    row = np.zeros(len(kept), np.int64)
    tables, constituents = [], []
    for number, table in enumerate(events.tables):
        of = np.flatnonzero(code == number)
        rows = events.row[kept[of]]
        tables.append(_rows_of(table, rows))
        lists = events.constituents[number]
        constituents.append(None if lists is None else lists.take(pa.array(rows)))
        row[of] = np.arange(len(of))
    times = events.occ_time[kept], events.det_time[kept]
    detected = None if events.detected is None else events.detected[kept]
    return Events(events.seq[kept], *times, code, row, tuple(tables), tuple(constituents), detected)


def _rows_of(table: pa.Table, rows: Integers) -> pa.Table:
    """Some rows of a table, in its order; in one piece, for one is added at each step."""
    if not table.num_columns or (len(rows) == table.num_rows and table.column(0).num_chunks <= 1):
        return table
    return table.take(pa.array(rows))
