"""What waits after a tick: partial matches, timers, events that will be on time, comparisons with NOW, expiries.

In: an engine's plan and state after a tick. Out: `Pending`, of each kind the first few and how many there are. It
changes nothing, and looks at no more than it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from augury import limits
from augury.algebra.composite import Context
from augury.algebra.scalar import Constant
from augury.engine.corrected import FIRST_PLACE, Corrected
from augury.engine.occurrence_state import OccurrenceState
from augury.engine.parts import SelectState
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit, SelectUnit
from augury.engine.state import EngineState
from augury.engine.tick import next_tick
from augury.engine.unit_kernels import history_classes
from augury.graphs import Graph, written_of
from augury.graphs.graph import AbsentForNode
from augury.history.schedule import times_due
from augury.kernels.bitemporal import NEVER, Due
from augury.kernels.bitemporal.live import NO_VERSION
from augury.kernels.composite.inline import inline
from augury.kernels.composite.occurrence import KeyState, NodeState, Occ, Version
from augury.kernels.composite.state import GraphState
from augury.kernels.match import MatchState
from augury.kernels.match.detector import Detector, Tables
from augury.kernels.match.inline import inline as inline_match
from augury.kernels.match.past import plain
from augury.kernels.match.walk import FINAL
from augury.trying.shown import Alarm, Partial, Pending
from augury.trying.simulate_parts import parts_of
from augury.trying.simulate_record import SELECTED, Record, event_text, shown_value

SHOWN_MAX: Final = 12
"""Of each kind so many are listed; the rest is counted."""

_EXPIRIES_LOOKED_AT: Final = 60


def pending(plan: EnginePlan, state: EngineState, record: Record) -> Pending:
    """What waits now."""
    assert state.tick is not None, "a tick was done"
    partial: list[Partial] = []
    partials = 0
    timers: list[Alarm] = []
    for unit, detection in zip(plan.units, state.detection, strict=True):
        known_by = _seq_at(detection.history) if isinstance(detection, OccurrenceState) else _itself
        kernel = detection.kernel if isinstance(detection, OccurrenceState) else detection
        if isinstance(unit, MatchUnit) and isinstance(kernel, MatchState):
            waiting, count = _matches(plan, unit, kernel, known_by)
            partial += waiting
            partials += count
        elif isinstance(unit, CompositeUnit) and isinstance(kernel, GraphState):
            waiting, set_timers = _composites(plan, unit, kernel, record, state.tick, known_by)
            partial += waiting
            partials += len(waiting)
            timers += set_timers
    alarms = {
        "timers": timers,
        "on_time": list(_on_time(plan, state)),
        "turns": list(_turns(plan, state)),
        "clock": list(_clock(plan, state.tick)),
    }
    expiries, expiring = _expiries(plan, state)
    due = next_tick(plan, state)
    counts = {"partial": partials, **{kind: len(found) for kind, found in alarms.items()}, "expiries": expiring}
    return Pending(
        tuple(partial[:SHOWN_MAX]),
        **{kind: tuple(_soonest(found)) for kind, found in alarms.items()},
        expiries=tuple(_soonest(expiries)),
        counts=counts,
        next_tick=None if due == NEVER else due,
    )


def _soonest(alarms: Iterable[Alarm]) -> list[Alarm]:
    return sorted(alarms, key=lambda one: (one.due, one.event_class, one.what))[:SHOWN_MAX]


def _itself(seq: int) -> int:
    return seq


def _seq_at(history: Corrected) -> Callable[[int], int]:
    """What a version is known by whose place stands for its `seq`."""
    return lambda seq: int(history.seqs(np.array([seq]))[0]) if FIRST_PLACE <= seq < SELECTED else seq


# ---- MATCH -------------------------------------------------------------------------------------------------------


def _matches(
    plan: EnginePlan, unit: MatchUnit, state: MatchState, known_by: Callable[[int], int]
) -> tuple[list[Partial], int]:
    """The first tuples that runs carry, the events that an occurrence has so far; and how many there are."""
    heads = {run.head for runs in state.unbuilt for run in runs}
    if unit.detector.tables is not None:
        heads |= _open_heads(unit.detector, unit.detector.tables, state)
    chains = {tuple(ref for ref, _ in chain): chain for head in sorted(heads) if (chain := _chain(state, head))}
    name = plan.classes[unit.place].event_class.name
    classes = history_classes(plan, unit)
    part_at, whole = parts_of(unit.detector), inline_match(unit.detector.plan.expression)

    def event(ref: int, mark: int) -> tuple[int | None, str, str]:
        events = state.events
        code, row, seq = int(events.code[ref]), int(events.row[ref]), known_by(int(events.seq[ref]))
        columns = events.tables[code].columns
        values = {
            a.name: Constant(plain(column[row]), a.type)
            for a, column in zip(classes[code].attributes, columns, strict=True)
        }
        text = event_text(classes[code].name, values.values())
        return seq if 0 < seq < SELECTED else None, text, part_at(classes[code].name, mark)

    first = [Partial(name, tuple(event(*one) for one in chain), whole) for chain in sorted(chains.values())[:SHOWN_MAX]]
    return first, len(chains)


def _open_heads(detector: Detector, tables: Tables, state: MatchState) -> set[int]:
    """The tuples of runs that can still end. A stream is moved over the events of others when its own next one comes:
    here it is moved over them at once, so that none is shown that they have ended."""
    sets = _sets(tables)
    found: set[int] = set()
    for stream in range(len(state.at)):
        if detector.keeps_all:
            runs = [(int(state.runs.state[run]), int(state.runs.head[run])) for run in _linked(state, stream)]
        else:
            inside = sets.get(int(state.at[stream]), range(tables.states))
            runs = [(c, int(state.heads[stream, c])) for c in inside]
        now = {(c, head) for c, head in runs if head > 0}
        if now and not detector.listens:
            others = int(state.length[state.streams.partition[stream]]) - int(state.last[stream])
            now = _moved(tables, detector.other, now, others)
        found |= {head for _, head in now}
    return found


def _sets(tables: Tables) -> dict[int, frozenset[int]]:
    """The states that runs are in, for each state of the automaton of sets."""
    if not len(tables.delta):
        return {}
    known = {0: frozenset(tables.initial.tolist())}
    waiting = [0]
    while waiting:
        at = waiting.pop()
        for symbol, to in enumerate(tables.delta[at].tolist()):
            if to not in known:
                known[to] = frozenset(target for c in known[at] for target in _targets(tables, c, symbol))
                waiting.append(to)
    return known


def _targets(tables: Tables, c: int, symbol: int) -> list[int]:
    begin, end = tables.first[c * tables.symbols + symbol : c * tables.symbols + symbol + 2].tolist()
    return [target for target in tables.target[begin:end].tolist() if target != FINAL]


def _moved(tables: Tables, other: int, now: set[tuple[int, int]], times: int) -> set[tuple[int, int]]:
    """Runs with their tuples after so many events that no leaf is true of; it soon repeats itself."""
    seen: list[set[tuple[int, int]]] = []
    for _ in range(times):
        if now in seen:
            begin = seen.index(now)
            return seen[begin + (times - begin) % (len(seen) - begin)]
        seen.append(now)
        now = {(target, head) for c, head in now for target in _targets(tables, c, other)}
    return now


def _linked(state: MatchState, stream: int) -> Iterator[int]:
    """The runs of a stream, where all tuples are kept."""
    run = int(state.runs.first[stream])
    while run >= 0:
        yield run
        run = int(state.runs.follows[run])


def _chain(state: MatchState, head: int) -> tuple[tuple[int, int], ...]:
    """The events of a tuple, earliest first, each with its mark."""
    found = []
    while head > 0:
        found.append((int(state.nodes.ref[head]), int(state.nodes.marks[head])))
        head = int(state.nodes.prev[head])
    return tuple(reversed(found))


# ---- COMPOSITE ---------------------------------------------------------------------------------------------------


def _composites(
    plan: EnginePlan,
    unit: CompositeUnit,
    state: GraphState,
    record: Record,
    tick: int,
    known_by: Callable[[int], int],
) -> tuple[list[Partial], list[Alarm]]:
    of = unit.detector.plan
    written, whole = [inline(one) for one in written_of(of)], inline(of.expression)
    name = ", ".join(plan.classes[place].event_class.name for place in unit.places)
    leaves = [inline(one) for one in unit.detector.graph.leaves]

    def has(one: Occ) -> Iterator[tuple[int | None, str, str]]:
        for found, leaf in one.parts:
            version = replace(found, seq=known_by(found.seq))
            seq = version.seq if 0 < version.seq < SELECTED else None
            yield seq, _text(record, version), leaves[leaf]

    partial: dict[Partial, None] = {}
    timers: dict[Alarm, None] = {}
    for graph in state.graphs.values():
        if of.context is Context.RECENT:
            kept = [one for node in graph.nodes[: len(written)] for slot in node.kept for one in slot]
            parts = tuple(dict.fromkeys(part for one in kept if one.until >= tick for part in has(one)))
            partial |= {Partial(name, parts, whole): None} if parts else {}
        else:
            blocked = _blocked(unit.detector.graph, graph)
            for number, node in enumerate(graph.nodes):
                for together in _operands(node, blocked):
                    if all(one.until >= tick for one in together):
                        parts = tuple(dict.fromkeys(part for one in together for part in has(one)))
                        partial[Partial(name, parts, written[number])] = None
        blocked = _blocked(unit.detector.graph, graph)
        timers |= {Alarm(name, what, due): None for what, due in _alarms(graph, written, whole, tick, blocked)}
    return list(partial), list(timers)


def _text(record: Record, version: Version) -> str:
    """A version of a COMPOSITE's state as all others name it: it has no more values than the graph asks for."""
    known = record.received.get(version.seq)
    if known is not None and version.constituents is None:
        return known.text
    place = record.place_of(version.name)
    assert place is not None, "analysis has looked the class up"
    same = [
        one
        for one in record.versions.get(place, ())
        if one.det_time == version.det_time and one.constituents == version.constituents
    ]
    return same[-1].text if same else record.plan.classes[place].event_class.name


def _blocked(of: Graph, graph: KeyState) -> frozenset[int]:
    """The windows that wait for something to stay away that has come: their timers come to nothing."""
    return frozenset(
        window.number
        for number, node in enumerate(graph.nodes)
        if isinstance(found := of.nodes[number % len(of.nodes)], AbsentForNode) and not found.scope.equal
        for window in node.windows
        if any(window.opening.end < one.start for one in node.absent)
    )


def _operands(node: NodeState, blocked: frozenset[int]) -> Iterator[list[Occ]]:
    for slot in node.kept:
        yield from ([one] for one in slot)
    yield from ([one for _, one in partial] for partial in node.partials)
    yield from ([one] for one in node.middles)
    yield from ([window.opening] for window in node.windows if window.number == 0 or window.number not in blocked)


def _alarms(
    graph: KeyState, written: Sequence[str], whole: str, tick: int, blocked: frozenset[int]
) -> Iterator[tuple[str, int]]:
    """The timers that are set; those whose window is closed are overtaken."""
    for point, _, number, window, of in graph.timers:
        if number < 0:
            yield whole, point[0]  # RECENT looks at all of it again
            continue
        windows = {one.number for node in graph.nodes for one in node.windows} - blocked
        if (of is None and window not in windows) or (of is not None and of.until < tick):
            continue
        yield written[number], point[0]


# ---- times -------------------------------------------------------------------------------------------------------


def _event(plan: EnginePlan, state: EngineState, place: int, slot: int) -> str:
    """A live event, by its key, or by its number where it has none."""
    view, event_class = state.classes[place].view, plan.classes[place].event_class
    names = event_class.key or tuple(a.name for a in event_class.attributes)
    values = []
    for name in names:
        attribute = event_class.attribute(name)
        assert attribute is not None, "keys are attributes"
        cell = view.cells[attribute.name].at(np.array([slot]))[0]
        values.append(f"{attribute.name} = {shown_value(Constant(plain(cell), attribute.type))}")
    return ", ".join(values) or f"version {int(view.number[slot]) + 1}"


def _entries(due: Due, generations: Any) -> Iterator[tuple[int, int]]:
    for run in due.runs:
        current = run.current(generations)
        yield from zip(current.time.tolist(), current.slot.tolist(), strict=True)


def _on_time(plan: EnginePlan, state: EngineState) -> Iterator[Alarm]:
    for place, one in enumerate(state.classes):
        for time, slot in _entries(one.on_time, one.view.number):
            yield Alarm(plan.classes[place].event_class.name, _event(plan, state, place, slot), time)


def _turns(plan: EnginePlan, state: EngineState) -> Iterator[Alarm]:
    """When a comparison with NOW may turn, of each event the first time only."""
    for number, (unit, detection) in enumerate(zip(plan.units, state.detection, strict=True)):
        if not isinstance(unit, SelectUnit) or not isinstance(detection, SelectState):
            continue
        name = plan.classes[unit.place].event_class.name
        if unit.turns is None or number in state.failing:
            reason = "the SELECT failed, and is tried again" if number in state.failing else "NOW may change any row"
            yield Alarm(name, reason, (state.tick or 0) + plan.chronon_us)
            continue
        for turn, due in zip(unit.turns, detection.due, strict=True):
            first: dict[int, int] = {}
            for time, slot in _entries(due, state.classes[turn.place].view.number):
                first[slot] = min(time, first.get(slot, NEVER))
            of = plan.classes[turn.place].event_class.name
            for slot, time in first.items():
                yield Alarm(name, f"{of}: {_event(plan, state, turn.place, slot)}", time)


def _clock(plan: EnginePlan, tick: int) -> Iterator[Alarm]:
    """When each clock class is posted next."""
    for code, schedule in plan.clocks:
        posted = next(iter(times_due(schedule, tick, tick + limits.DURATION_US_MAX)), None)
        if posted is not None:
            yield Alarm(plan.received_classes[code].name, "is posted", posted)


def _expiries(plan: EnginePlan, state: EngineState) -> tuple[list[Alarm], int]:
    """The events that expire soonest, and how many are live that ever do."""
    expiry, classes = state.expiry, len(plan.classes)
    entries = sorted(_entries(expiry.index, expiry.generation))
    found = []
    for _, node in entries[:_EXPIRIES_LOOKED_AT]:
        slot, place = divmod(node, classes)
        if state.classes[place].view.number[slot] != NO_VERSION and (time := expiry.expiry((place, slot))) != NEVER:
            found.append((time, place, slot))
    soonest = [
        Alarm(plan.classes[place].event_class.name, _event(plan, state, place, slot), time)
        for time, place, slot in sorted(found)[:SHOWN_MAX]
    ]
    return soonest, len(entries)
