"""MATCH and COMPOSITE inside a tick: the versions of the tick, and the complex events it has so far → occurrences.

In: what was read and derived, and how far the clock goes. Out: the occurrences of the classes of a unit, and as
versions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan
from augury.algebra.select import SelectPlan
from augury.engine.actions import key_ranks
from augury.engine.by_occurrence import Coming, go
from augury.engine.occurrence_state import OccurrenceState, is_by_occurrence, tells_values, wanted
from augury.engine.parts import SelectState
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit, SelectUnit
from augury.engine.rows import whole
from augury.engine.standing import Standing, identities
from augury.engine.state import EngineState
from augury.engine.tables import nothing_of
from augury.engine.ticked import ClassVersions
from augury.engine.traces import NOWHERE, Node
from augury.engine.unit_kernels import next_due, places_of, stepped
from augury.event import ClassKind
from augury.history.merge import merge
from augury.history.versions import ANNOUNCE, CHANGE, WITHDRAWN
from augury.kernels.batch import ASSERT, AT_END, NO_SEQ, WITHDRAW, Batch, Integers, Occurrences
from augury.kernels.bitemporal import Constituents, keys_of
from augury.kernels.match import Shared
from augury.kernels.order import in_order


class Histories:
    """The histories of a tick by the complex classes that stand in them; each is made once."""

    def __init__(self, read: Batch) -> None:
        """Nothing is derived yet."""
        self.read = read
        self.occurrences: dict[int, Occurrences] = {}
        self._selected: set[int] = set()
        self._made: dict[tuple[int, ...], tuple[Batch, Shared]] = {}
        self._keys: dict[int, list[Any]] = {}
        self.orders: dict[int, Integers] = {}

    def of(self, plan: EnginePlan, reads: tuple[int, ...]) -> tuple[Batch, Shared]:
        """The history of units that read these complex classes, all of which are derived by now."""
        if reads not in self._made:
            found = [self.occurrences.get(place) or nothing_of(plan.classes[place].event_class) for place in reads]
            selected = {i for i, place in enumerate(reads) if place in self._selected}
            self._made[reads] = merge(self.read, found, selected), Shared()
        return self._made[reads]

    def derived(self, place: int, versions: ClassVersions) -> None:
        """The events of a SELECT class, as histories have them: after all versions of their tick."""
        self.occurrences[place] = _as_occurrences(place, versions)
        self._selected.add(place)
        self._keys[place] = list(versions.keys)

    def keys(self, plan: EnginePlan, place: int) -> list[Any]:
        """What the events of a class are known by, as corrected histories ask; None for those that never change."""
        if place not in self._keys:
            self._keys[place] = self._keys_of(plan, place)
        return self._keys[place]

    def _keys_of(self, plan: EnginePlan, place: int) -> list[Any]:
        event_class = plan.classes[place].event_class
        if event_class.kind is not ClassKind.COMPLEX:
            table = self.read.tables[plan.received.index(place)]
            if not event_class.key:
                return []
            return _never_none(keys_of(event_class, [whole(column) for column in table.columns], np.zeros(0, np.int64)))
        found = self.occurrences.get(place) or nothing_of(plan.classes[place].event_class)
        if not event_class.key and not is_by_occurrence(plan.classes[place]):
            return [None] * len(found)
        return _never_none(identities_of(plan.classes[place], found))


def _never_none(keys: list[Any]) -> list[Any]:
    """NULL is a key like any other; here None stands for none."""
    return [() if key is None else key for key in keys]


SELECTED = 1 << 62
"""From this number on events of SELECT classes have a `seq` of their own in a history: see `_as_occurrences`."""


def _as_occurrences(place: int, versions: ClassVersions) -> Occurrences:
    """Each has a `seq` of its own, so that what takes place at one stands there and not at another of the same tick.

    They come after all versions of the tick, by class as declared, then as they are given, by key.
    """
    seq = SELECTED + (place << 32) + np.arange(len(versions))
    kind = np.where(versions.change == WITHDRAWN, WITHDRAW, ASSERT).astype(np.uint8)
    lists = versions.constituents
    assert lists is not None, "it is a complex class"
    return Occurrences(versions.event_class, seq, versions.occ_time, versions.det_time, kind, versions.values, lists)


def detect(
    plan: EnginePlan, state: EngineState, number: int, histories: Histories, tick: int
) -> Mapping[int, Occurrences]:
    """What the classes of a unit find at a tick, by place; those that find nothing may be left out."""
    unit, before = plan.units[number], state.detection[number]
    assert not isinstance(unit, SelectUnit), "a SELECT is not detected"
    history, shared = histories.of(plan, unit.reads)
    if isinstance(before, OccurrenceState):
        if not len(history) and before.next_due() > tick:
            return {}
        said = go(plan, unit, before, coming_rows(plan, state, before, unit, histories, history), tick)
        histories.orders |= {place: one.order for place, one in said.items()}
        return {place: one.rows for place, one in said.items()}
    assert not isinstance(before, SelectState)
    if not len(history) and next_due(before) > tick:
        return {}
    state.detection[number], found = stepped(plan, unit, before, history, tick, shared)
    return found


def coming_rows(
    plan: EnginePlan,
    state: EngineState,
    remembered: OccurrenceState,
    unit: MatchUnit | CompositeUnit,
    histories: Histories,
    history: Batch,
) -> Coming:
    """The rows of a history that a class with ORDER BY OCCURRENCE has, as they are accepted."""
    if unit.reads:
        read = histories.read
        remembered.happened.update(zip(read.seq.tolist(), read.occ_time.tolist(), strict=True))
    at = np.flatnonzero(wanted(plan, unit)[history.code])
    code, row, seq, det_time = history.code[at].astype(np.int64), history.row[at], history.seq[at], history.det_time[at]
    order = _orders(state, histories.read, history)[at]
    places = (*plan.received, *unit.reads)
    keys: list[Any] = [None] * len(at)
    for one in np.unique(code).tolist():
        of = np.flatnonzero(code == one)
        if own := histories.keys(plan, places[one]):
            for place, number in zip(of.tolist(), row[of].tolist(), strict=True):
                keys[place] = own[number]
        if places[one] in histories.orders:
            order[of] = histories.orders[places[one]][row[of]]
    # A version and what it completed come together; so does what timers complete at one time.
    new = np.ones(len(at), np.bool_)
    timed = seq == NO_SEQ
    new[1:] = (np.abs(seq[1:]) != np.abs(seq[:-1])) | (timed[1:] & (det_time[1:] != det_time[:-1]))
    gone = history.kind[at] == WITHDRAW
    return Coming(history, code, row, seq, order, history.occ_time[at], det_time, gone, np.cumsum(new), keys)


def _orders(state: EngineState, read: Batch, history: Batch) -> Integers:
    """The `seq` of the version after which each row came."""
    before = int(read.seq[0]) - 1 if len(read) else state.seq
    own = np.where((np.abs(history.seq) < SELECTED) & (history.seq != NO_SEQ), np.abs(history.seq), before)
    orders: Integers = np.maximum.accumulate(own)
    return orders


def identities_of(plan: ClassPlan, found: Occurrences | ClassVersions) -> list[Any]:
    """What events of a MATCH or COMPOSITE class with ORDER BY OCCURRENCE are known by."""
    derivation = plan.derivation
    has_values = isinstance(derivation, MatchPlan | CompositePlan) and tells_values(derivation)
    return identities(plan.event_class, has_values, found)


def versions_of(
    plan: EnginePlan, state: EngineState, place: int, found: Occurrences, before: Collection[object] = ()
) -> ClassVersions:
    """Occurrences as versions of events: one with the key of an event that is there changes it.

    `before` are keys that were found before these, since the last tick.
    """
    found = found.at(_said_in_order(found))
    event_class, view = found.event_class, state.classes[place].view
    if is_by_occurrence(plan.classes[place]):
        return _corrected_versions(plan, state, place, found, before)
    number = np.arange(view.read + 1, view.read + 1 + len(found))
    columns = tuple(whole(column) for column in found.values.columns)
    keys = keys_of(event_class, columns, number)
    change = np.full(len(found), ANNOUNCE, np.uint8)
    if event_class.key:
        met: set[object] = set()
        for row, key in enumerate(keys):
            if key in met or key in before or key in view.slots:
                change[row] = CHANGE
            met.add(key)
    return _class_versions(found, number, change, keys)


def _class_versions(
    found: Occurrences, number: Integers, change: npt.NDArray[np.uint8], keys: list[Any]
) -> ClassVersions:
    # Which event of a SELECT class it was that something took place at is nobody's business outside the tick.
    seq = np.where(np.abs(found.seq) < SELECTED, found.seq, AT_END)
    return ClassVersions(
        found.event_class, number, found.values, seq, found.occ_time, found.det_time, change, keys, found.constituents
    )


def _corrected_versions(
    plan: EnginePlan, state: EngineState, place: int, found: Occurrences, before: Collection[object]
) -> ClassVersions:
    """What a class with ORDER BY OCCURRENCE says as versions; of an event that was purged nothing is withdrawn."""
    event_class, view = found.event_class, state.classes[place].view
    there: dict[object, bool] = {}
    rows: list[int] = []
    changes: list[int] = []
    keys: list[Any] = []
    for row, key in enumerate(identities_of(plan.classes[place], found)):
        is_there = there.get(key, key in view.slots or key in before)
        is_gone = found.kind[row] == WITHDRAW
        if is_gone and not is_there:
            continue
        there[key] = not is_gone
        rows.append(row)
        keys.append(key)
        changes.append(WITHDRAWN if is_gone else CHANGE if is_there else ANNOUNCE)
    number = np.arange(view.read + 1, view.read + 1 + len(rows))
    made = _class_versions(found.at(np.array(rows, np.int64)), number, np.array(changes, np.uint8), keys)
    return made if event_class.key else replace(made, event_number=_numbered(plan, state, place, made))


def _numbered(plan: EnginePlan, state: EngineState, place: int, versions: ClassVersions) -> Integers:
    """Of versions of events without a key the number of the one that announced each."""
    known, given, found = standing_of(plan, state, place).numbers, dict[object, int](), []
    rows = zip(versions.keys, versions.change.tolist(), versions.number.tolist(), strict=True)
    for key, change, number in rows:
        given[key] = number if change == ANNOUNCE else given.get(key, known.get((place, key), number))
        found.append(given[key])
    return np.array(found, np.int64)


def note_numbers(plan: EnginePlan, state: EngineState, versions: ClassVersions, place: int) -> None:
    """Remember by which number events without a key are known, of a class with ORDER BY OCCURRENCE."""
    if versions.event_class.key or not is_by_occurrence(plan.classes[place]):
        return
    assert versions.event_number is not None
    numbers = standing_of(plan, state, place).numbers
    rows = zip(versions.keys, versions.event_number.tolist(), versions.change.tolist(), strict=True)
    for key, number, change in rows:
        if change == WITHDRAWN:
            numbers.pop((place, key), None)
        else:
            numbers[place, key] = number


def event_numbers(plan: EnginePlan, state: EngineState, place: int, slots: Integers) -> Integers | None:
    """By what number live events without a key are known, where that is not their key."""
    one, view = plan.classes[place], state.classes[place].view
    if one.event_class.key or not isinstance(one.derivation, SelectPlan | MatchPlan | CompositePlan):
        return None
    if isinstance(one.derivation, SelectPlan):
        return view.number[slots] + 1  # they have but one version
    if not is_by_occurrence(one):
        return None
    numbers = standing_of(plan, state, place).numbers
    return np.array([numbers[place, key] for key in view.keys[slots].tolist()], np.int64)


def standing_of(plan: EnginePlan, state: EngineState, place: int) -> Standing:
    """What holds of a class with ORDER BY OCCURRENCE."""
    for unit, detection in zip(plan.units, state.detection, strict=True):
        if not isinstance(unit, SelectUnit) and place in places_of(unit):
            assert isinstance(detection, OccurrenceState)
            return detection.standing
    raise AssertionError("some unit makes it")


def _said_in_order(found: Occurrences) -> Integers:
    """The order in which occurrences are told: those at events of SELECT classes, which come last, by key.

    Those of one key stay as they are, for the last of them counts; what has no key is told apart by what it is made of.
    """
    rows = np.arange(len(found))
    last = rows[np.abs(found.seq) >= SELECTED]
    if len(last) > 1:
        some = found.at(last)
        columns = [whole(column) for column in some.values.columns]
        if found.event_class.key:
            ranks = [*map(key_ranks(found.event_class), keys_of(found.event_class, columns, last))]
            order = sorted(range(len(last)), key=ranks.__getitem__)
        else:
            nowhere = np.zeros(len(last), np.int64)
            order = in_order(found.event_class, nowhere, some.constituents.to_pylist(), columns, some.occ_time)
        rows[len(rows) - len(last) :] = last[order]
    return rows


def link_detected(
    plan: EnginePlan,
    state: EngineState,
    place: int,
    unit: MatchUnit | CompositeUnit,
    versions: ClassVersions,
    slots: Integers,
    rows: Integers,
) -> None:
    """Note what events are made of: those of its constituents, and complex ones that it may be made of.

    A detector says which versions it used, not which complex events. Those of the classes it reads that are made of
    nothing else count, so that none of them goes before what uses it.
    """
    assert versions.constituents is not None
    lists = versions.constituents.take(pa.array(rows))
    sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    owner, seqs = np.repeat(np.arange(len(slots)), sizes), lists.flatten().to_numpy(zero_copy_only=False)
    places, parts = state.traces.events_of(seqs)
    there = places != NOWHERE
    made_of = Constituents(owner[there], places[there], parts[there])
    if unit.reads:
        made_of = _with_complex(state, unit, lists.to_pylist(), made_of)
    if place in plan.built_on:
        for slot, own in zip(slots.tolist(), lists.to_pylist(), strict=True):
            state.traces.made((place, slot), tuple(own))
    state.expiry.link(place, slots, made_of)


def _with_complex(
    state: EngineState, unit: MatchUnit | CompositeUnit, lists: Sequence[Sequence[int]], made_of: Constituents
) -> Constituents:
    """The same with the complex events that each may be made of."""
    below: list[list[Node]] = [[] for _ in lists]
    for owner, place, slot in zip(*(one.tolist() for one in astuple(made_of)), strict=True):
        below[owner].append((place, slot))
    for nodes, seqs in zip(below, lists, strict=True):
        if seqs:
            nodes += _made_of_no_more(state, unit, set(seqs), nodes)
    owners = [owner for owner, nodes in enumerate(below) for _ in nodes]
    return constituents(owners, [node for nodes in below for node in nodes])


def constituents(owner: Sequence[int], nodes: Sequence[tuple[int, int]]) -> Constituents:
    """What events are made of, from the number of each and the event it is made of."""
    places = np.array([place for place, _ in nodes], np.int64)
    return Constituents(np.array(owner, np.int64), places, np.array([slot for _, slot in nodes], np.int64))


def _made_of_no_more(
    state: EngineState, unit: MatchUnit | CompositeUnit, seqs: set[int], events: list[Node]
) -> list[Node]:
    """The live events of the complex classes that a unit reads that have constituents, all among these."""
    found = []
    # Also those of versions whose event was withdrawn since: nothing that is there leads to them.
    users = state.traces.users
    detected = {node for seq in seqs for node in users.get(seq, ())}
    for node in state.expiry.users_of([*events, *detected]):
        if node[0] in unit.reads and (own := constituents_of(state, node)) and seqs.issuperset(own):
            found.append(node)
    return found


def constituents_of(state: EngineState, node: tuple[int, int]) -> set[int]:
    """The `seq` of every version that comes in below a live event, as things are."""
    if node in state.traces.parts:
        return set(state.traces.parts[node])
    place, slot = node
    below = state.expiry.parts_of(node)
    if not below:
        seq = int(state.classes[place].view.times["seq"][slot])
        return {seq} if seq > 0 else set()
    return set().union(*(constituents_of(state, part) for part in below))
