"""One step of a MATCH: a state and a batch in, the state after it and the occurrences out.

A batch may hold any number of ticks and keys; how a history is cut into batches makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury import limits
from augury.algebra.expression import Choice
from augury.automata.alphabet import is_found, number_of
from augury.event import EventClass
from augury.kernels.batch import NO_SEQ, Batch, Integers, Occurrences, joined
from augury.kernels.match.collect import Candidates, collect
from augury.kernels.match.detector import Detector, aggregates
from augury.kernels.match.kinds import of_right_kind
from augury.kernels.match.leaves import Rows, Truth, remember_tails, truth_of
from augury.kernels.match.said import letters_say
from augury.kernels.match.shared import Shared
from augury.kernels.match.simulate import simulated
from augury.kernels.match.spanned import spanned
from augury.kernels.match.state import (
    TIME_MAX,
    Events,
    MatchState,
    Nodes,
    Runs,
    TooManyTuples,
    compacted,
    forget_expired,
    with_streams,
)
from augury.kernels.match.streams import Touched, by_spans, groups_of, is_simple, partitioned_rows, touched
from augury.kernels.match.walk import gathered, group, ranks, walk_automaton


def step(
    detector: Detector,
    state: MatchState,
    batch: Batch,
    event_class: EventClass,
    chronon_us: int,
    *,
    until_us: int | None = None,
    position: Integers | None = None,
    shared: Shared | None = None,
) -> tuple[MatchState, Occurrences]:
    """Read a batch; the state given is used up. `event_class` is that of the complex events.

    No version that is detected before `until_us` is still to come; left out, none before the last of the batch. A MATCH
    has no timers, so nothing takes place for that; but tuples that have expired by then are forgotten.

    `position` has the place of each version of the batch that is in the history of the expression (or of its
    partition), from 1, where the batch is only the part of it that has certain keys; left out, the batch is all.
    `shared` is one value for all the expressions that read this batch, and for nothing else.
    """
    known_us = max([*batch.det_time[-1:].tolist(), *([] if until_us is None else [until_us])], default=0)
    if position is not None or _rows_at_once(detector, state, batch.classes) >= len(batch):
        found_now = _stepped(detector, state, batch, event_class, chronon_us, position, shared or Shared())
        forget_expired(state, known_us // chronon_us * chronon_us)
        return state, found_now
    found: list[Occurrences] = []
    begin = 0
    while begin < len(batch):
        end = begin + _rows_at_once(detector, state, batch.classes)
        while end < len(batch) and batch.seq[end] == batch.seq[end - 1]:
            end += 1  # what has one `seq` is ordered together
        found.append(_stepped(detector, state, batch.part(begin, end), event_class, chronon_us, None, Shared()))
        begin = end
    forget_expired(state, known_us // chronon_us * chronon_us)
    return state, joined(found)


def _rows_at_once(detector: Detector, state: MatchState, classes: tuple[EventClass, ...]) -> int:
    """How many rows are read together: where they multiply, few enough; but each reading costs for each stream."""
    groups = groups_of(detector, classes)
    # Before the first event nobody knows how many values there are.
    streams = max(_STREAMS_AT_FIRST, len(state.streams))
    if is_simple(detector, groups):
        own = TIME_MAX
    elif by_spans(detector, groups):
        # Rows multiply with the sets of states that streams are in.
        sets = 0 if detector.tables is None else len(detector.tables.delta)
        own = min(limits.ROWS_JOINED_MAX // min(streams, sets), max(_SPANNED_AT_LEAST, 2 * streams))
    else:
        own = limits.ROWS_JOINED_MAX // streams
    inner = zip(detector.inner, state.inner, strict=True)
    return min([max(_ROWS_AT_LEAST, own), *(_rows_at_once(*one, classes) for one in inner)])


_ROWS_AT_LEAST = 256
_SPANNED_AT_LEAST = 16_384
_STREAMS_AT_FIRST = 1_024


def _stepped(
    detector: Detector,
    state: MatchState,
    batch: Batch,
    event_class: EventClass,
    chronon_us: int,
    position: Integers | None,
    shared: Shared,
) -> Occurrences:
    found = _found(detector, state, batch, chronon_us, position, shared)
    occurrences = collect(detector, state, found.candidates, batch.classes, event_class)
    compacted(state)
    return replace(occurrences, errors=occurrences.errors + found.errors)


@dataclass(frozen=True, slots=True)
class _Found:
    """Tuples, the number of the batch's first event in them, and how often a mask was in error."""

    candidates: Candidates
    offset: int
    errors: int


@dataclass(frozen=True, slots=True)
class _Positions:
    """Where rows stand in the history: as `given`, or, if that is empty, one after the other from `base` on."""

    given: Integers
    base: int


def _found(
    detector: Detector,
    state: MatchState,
    batch: Batch,
    chronon_us: int,
    position: Integers | None,
    shared: Shared,
) -> _Found:
    """The tuples with which the expression takes place."""
    rows = _rows(detector, state, batch, shared)
    # Parts that are set apart have the same history.
    inner = zip(detector.inner, state.inner, strict=True)
    apart = [_places(*one, batch, chronon_us, position, shared) for one in inner]
    truths = [
        apart[number_of(leaf)] if is_found(leaf) else truth_of(leaf, rows, state.tails)
        for leaf in detector.alphabet.leaves
    ]
    positions = _positions(state, rows, position)
    groups = groups_of(detector, batch.classes)
    # Where rows come with positions, others are left out that unnamed streams would read.
    spans = position is None and by_spans(detector, groups)
    touch = touched(detector, rows, groups, [truth.rows for truth in truths], state.streams, spans)
    remember_tails(state.tails, [leaf for leaf in detector.alphabet.leaves if not is_found(leaf)], rows)
    offset = len(state.events)
    state.events = _with_events(state.events, rows)
    lifespans_us = [c.lifespan_us for c in batch.classes]
    times = expiry(detector, state.events, lifespans_us, chronon_us)
    said = letters_say(detector.says, rows, state.said) if detector.says else None
    if touch.unnamed is not None:
        symbols = _symbols(detector, touch.leaves), _symbols(detector, touch.unnamed)
        candidates = spanned(detector, state, touch, *symbols, rows.partitions(np.arange(len(rows.index))), offset)
    else:
        candidates = _walked(detector, state, touch, positions, offset, times, said)
    if detector.kinds:
        candidates = of_right_kind(detector, state, candidates)
    return _Found(candidates, offset, sum(truth.errors for truth in truths))


def _positions(state: MatchState, rows: Rows, position: Integers | None) -> _Positions:
    if position is not None:
        return _Positions(position, 0)
    more = int(rows.partition.max(initial=0)) + 1 - len(state.length)
    state.length = np.concatenate([state.length, np.zeros(max(0, more), np.int64)])
    if len(rows.partition):
        return _Positions(ranks(rows.partition, state.length), 0)
    base = int(state.length[0])
    state.length[0] += len(rows.index)
    return _Positions(np.zeros(0, np.int64), base)


def _places(
    detector: Detector,
    state: MatchState,
    batch: Batch,
    chronon_us: int,
    position: Integers | None,
    shared: Shared,
) -> Truth:
    """Of which rows of its history a part that is set apart is true."""
    found = _found(detector, state, batch, chronon_us, position, shared)
    places = np.unique(found.candidates.event) - found.offset
    compacted(state)
    return Truth(places, found.errors)


def _rows(detector: Detector, state: MatchState, batch: Batch, shared: Shared) -> Rows:
    return partitioned_rows(batch, detector.plan.over, detector.plan.partition_by, state.partitions, shared)


def _with_events(events: Events, rows: Rows) -> Events:
    batch, index = rows.batch, rows.index
    if not len(events) and len(index) == len(batch):
        lists = tuple(map(_one_array, batch.constituents))
        times = batch.occ_time, batch.det_time
        return Events(batch.seq, *times, batch.code, batch.row, batch.tables, lists, batch.detected)
    held = np.bincount(events.code, minlength=len(batch.classes))
    code = batch.code[index]
    constituents = []
    for number, new in enumerate(batch.constituents):
        old = events.constituents[number]
        new = _one_array(new)
        constituents.append(new if old is None else old if new is None else pa.concat_arrays([old, new]))
    if not len(events):
        tables = batch.tables
    else:
        pairs = zip(events.tables, batch.tables, strict=True)
        tables = tuple(_more_rows(old, new) for old, new in pairs)
    return Events(
        np.concatenate([events.seq, batch.seq[index]]),
        np.concatenate([events.occ_time, batch.occ_time[index]]),
        np.concatenate([events.det_time, batch.det_time[index]]),
        np.concatenate([events.code, code]),
        np.concatenate([events.row, batch.row[index] + held[code]]),
        tables,
        tuple(constituents),
        None if batch.detected is None else np.concatenate([events.asked_det_time, batch.detected[index]]),
    )


def _more_rows(old: pa.Table, new: pa.Table) -> pa.Table:
    if not old.num_columns or not old.num_rows:
        return new
    return pa.concat_tables([old, new.cast(old.schema)]) if new.num_rows else old


def _one_array(values: pa.Array | pa.ChunkedArray | None) -> pa.Array | None:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    return values


def _walked(
    detector: Detector,
    state: MatchState,
    touch: Touched,
    positions: _Positions,
    offset: int,
    times: tuple[Integers, Integers],
    said: Sequence[int] | None,
) -> Candidates:
    """Move the streams over the rows that touch them."""
    symbol = _symbols(detector, touch.leaves)
    if detector.tables is None:
        return simulated(detector, state, touch, symbol, offset, *times, said)
    with_streams(state, detector, touch.origin)
    order, begins = group(touch.stream, len(state.at))
    active = np.flatnonzero(np.diff(begins))
    begins = np.concatenate([begins[active], begins[-1:]])
    gaps = _gaps(detector)
    columns = gathered(order, touch.row, symbol, positions.given, positions.base, offset, gaps)
    sorted_rows = (active, begins, *columns)
    if detector.keeps_all:
        return _walk_all(detector, state, sorted_rows, gaps, *times)
    tables, nodes = detector.tables, state.nodes
    before = (*sorted_rows, state.at, state.last, state.heads)
    other = (detector.other, tables.tail, tables.period, gaps, detector.plan.choice is not Choice.EARLIEST)
    chains = (nodes.ref, nodes.marks, nodes.prev, nodes.length, nodes.count)
    if len(tables.delta):
        does = tables.programs
        program = (does.first, does.target, does.source, does.mark, does.rival)
        *after, event, stream, head = walk_automaton(*before, tables.delta, tables.quiet, *program, *other, *chains)
    else:
        from augury.kernels.match.walk_sets import walk_sets

        moves = (tables.first, tables.target, tables.mark, tables.symbols)
        *after, event, stream, head = walk_sets(*before, *moves, *other, *chains)
    ref, marks, prev, length, count = after
    state.nodes = Nodes(ref, marks, prev, length, count)
    return Candidates(event, stream, head)


def _gaps(detector: Detector) -> bool:
    """Whether it matters how many events of others lie between two of a stream."""
    tables = detector.tables
    assert tables is not None
    return not detector.listens and not (len(tables.delta) and tables.quiet[:, detector.other].all())


def _walk_all(
    detector: Detector,
    state: MatchState,
    sorted_rows: Sequence[npt.NDArray[np.generic]],
    gaps: bool,
    purged: Integers,
    tick: Integers,
) -> Candidates:
    from augury.kernels.match.walk_all import KEEP_BEST, KEEP_DISTINCT, KEEP_EVERY, walk_all

    tables, nodes, runs, plan = detector.tables, state.nodes, state.runs, detector.plan
    assert tables is not None
    one_wanted = plan.choice is not Choice.ALL and plan.where is None and not detector.ambiguous
    one_wanted = one_wanted and not aggregates(plan)
    keep = KEEP_BEST if one_wanted else KEEP_DISTINCT if detector.repeats else KEEP_EVERY
    ref, marks, prev, length, count, *moved, event, stream, found, past = walk_all(
        *sorted_rows,
        *(state.at, state.last, runs.first),
        *(tables.delta, tables.quiet, tables.first, tables.target, tables.mark, tables.symbols),
        *(detector.other, tables.tail, tables.period, gaps),
        *(state.events.occ_time, purged, tick),
        *(-1 if plan.within_us is None else plan.within_us, keep),
        *(plan.choice is not Choice.EARLIEST, limits.TUPLES_MAX),
        *(nodes.ref, nodes.marks, nodes.prev, nodes.length, nodes.count),
        *(runs.state, runs.head, runs.least, runs.most, runs.until, runs.follows, runs.free),
    )
    if past >= 0:
        raise TooManyTuples
    state.nodes = Nodes(ref, marks, prev, length, count)
    of_states, heads, least, most, until, follows, free = moved
    state.runs = Runs(runs.first, of_states, heads, least, most, until, follows, int(free))
    return Candidates(event, stream, found)


def expiry(
    detector: Detector, events: Events, lifespans_us: Sequence[int | None], chronon_us: int
) -> tuple[Integers, Integers]:
    """When each event is purged, and the tick before each; only WHERE and WITHIN do not see what is purged."""
    if not detector.keeps_all and detector.tables is not None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if detector.plan.where is None and detector.plan.within_us is None:
        return np.full(len(events), TIME_MAX, np.int64), np.zeros(len(events), np.int64)
    ends = np.full(len(events), TIME_MAX, np.int64)
    for code, lifespan in enumerate(lifespans_us):
        if lifespan is not None:
            of = events.code == code
            ends[of] = np.maximum(events.occ_time[of] + lifespan, events.det_time[of])
    # What a timer completed at a tick comes before the purge of that tick.
    known = events.det_time - (events.seq == NO_SEQ)
    return ends, known // chronon_us * chronon_us


def _symbols(detector: Detector, leaves: Integers) -> npt.NDArray[np.int32]:
    """The symbol of each set of leaves; a set that no symbol has is a mistake of ours."""
    width = len(detector.alphabet.leaves)
    sets = {sum(1 << leaf for leaf in found): symbol for found, symbol in detector.symbol_of.items()}
    if width <= 16:
        table = np.full(1 << width, -1, np.int32)
        for bits, symbol in sets.items():
            table[bits] = symbol
        symbols = table[leaves]
    else:
        known = np.array(sorted(sets), np.int64)
        place = np.searchsorted(known, leaves).clip(max=len(known) - 1)
        symbols = np.where(known[place] == leaves, np.array([sets[int(b)] for b in known], np.int32)[place], -1)
    assert not len(symbols) or symbols.min() >= 0, "every set of leaves that an event has is a symbol"
    return symbols.astype(np.int32, copy=False)
