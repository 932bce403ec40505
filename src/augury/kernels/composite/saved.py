"""The state of a COMPOSITE as bytes and back: a header with format version, fingerprint and checksum, then JSON.

Versions and occurrences are written once and meant by number; classes by their number in the expression, so that a
state outlives their renaming. Columns are Arrow streams.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from heapq import heapify
from typing import Any, Final

import numpy as np

from augury.event import EventClass, key_of
from augury.kernels.composite.detector import Detector
from augury.kernels.composite.flat.saved import arrow_column, arrow_text, read, table_text, text_table, written
from augury.kernels.composite.flat.state import FlatState
from augury.kernels.composite.occurrence import KeyState, NodeState, Occ, Point, Version, Window
from augury.kernels.composite.state import CompositeState, initial_state
from augury.kernels.match.leaves import Tail, code_of
from augury.kernels.sealed import sealed, unsealed

FORMAT: Final = 2


def saved(state: CompositeState, detector: Detector, classes: tuple[EventClass, ...]) -> bytes:
    """The state as bytes."""
    names = _names(detector)
    body = {
        "places": state.places,
        "partitions": [arrow_text({"values": one.values}) for one in state.partitions],
        "values": [arrow_text({"values": one.values}) for one in state.values],
        "tails": {names.index(key_of(classes[code].name)): _tail(tail) for code, tail in state.tails.items()},
    }
    if isinstance(state, FlatState):
        body |= written(state)
    else:
        writer = _Writer({name: number for number, name in enumerate(names)})
        graphs = [[list(key), writer.graph(graph)] for key, graph in state.graphs.items()]
        body |= {"graphs": graphs, "occurrences": writer.occurrences, "versions": writer.versions, "lost": state.lost}
    return sealed("COMPOSITE", FORMAT, detector.fingerprint(), json.dumps(body).encode())


def loaded(data: bytes, detector: Detector, classes: tuple[EventClass, ...]) -> CompositeState:
    """The state again; raises `UnfitState` for what is damaged, of another format or of another expression."""
    body = json.loads(unsealed("COMPOSITE", FORMAT, detector.fingerprint(), data))
    names = _names(detector)
    state = initial_state(detector, classes)
    for numbers, values in zip(state.partitions, body["partitions"], strict=True):
        numbers.values = arrow_column(values)
    for numbers, values in zip(state.values, body["values"], strict=True):
        numbers.values = arrow_column(values)
    state.places = body["places"]
    for number, tail in body["tails"].items():
        code = code_of(classes, names[int(number)])
        state.tails[code] = _read_tail(tail, classes[code])
    if isinstance(state, FlatState):
        read(state, body)
        return state
    reader = _Reader(names, body["versions"], body["occurrences"])
    for key, graph in body["graphs"]:
        state.enter(tuple(key), reader.graph(graph))
    state.lost = body["lost"]
    return state


def _names(detector: Detector) -> list[str]:
    """The classes of the expression, in order of appearance."""
    return list(dict.fromkeys(str(key_of(leaf.event_class)) for leaf in detector.leaves))


@dataclass(slots=True)
class _Writer:
    """Numbers versions and occurrences as they are met."""

    classes: Mapping[str, int]
    versions: list[Any] = field(default_factory=list)
    occurrences: list[Any] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)

    def version(self, one: Version) -> int:
        if id(one) not in self.known:
            values = {key: _written(value) for key, value in one.values.items()}
            times = [one.place, one.seq, one.occ_time, one.det_time, one.until]
            self.known[id(one)] = len(self.versions)
            self.versions.append([*times, self.classes[one.name], values, one.constituents])
        return self.known[id(one)]

    def occ(self, one: Occ) -> int:
        if id(one) not in self.known:
            parts = [[self.version(version), leaf] for version, leaf in one.parts]
            rest = [one.start, one.end, one.occ_time, one.det_time, one.least, one.most, one.until]
            self.known[id(one)] = len(self.occurrences)
            self.occurrences.append([parts, *rest])
        return self.known[id(one)]

    def graph(self, graph: KeyState) -> Any:
        timers = [[*timer[:4], None if timer[4] is None else self.occ(timer[4])] for timer in graph.timers]
        return [[self.node(node) for node in graph.nodes], timers, graph.serial]

    def node(self, node: NodeState) -> Any:
        return [
            [[self.occ(one) for one in slot] for slot in node.kept],
            [[[slot, self.occ(one)] for slot, one in partial] for partial in node.partials],
            [self.occ(one) for one in node.middles],
            [self.occ(one) for one in node.absent],
            [[w.number, self.occ(w.opening), w.periods] for w in node.windows],
            *(node.fired, node.floor, node.dropped),
        ]


class _Reader:
    """Versions and occurrences by number."""

    def __init__(self, names: list[str], versions: list[Any], occurrences: list[Any]) -> None:
        self.versions = [
            Version(place, seq, occ, det, until, names[code], {k: _read(v) for k, v in values.items()}, _list(own))
            for place, seq, occ, det, until, code, values, own in versions
        ]
        self.occurrences = [
            Occ(tuple((self.versions[v], leaf) for v, leaf in parts), _point(start), _point(end), *rest)
            for parts, start, end, *rest in occurrences
        ]

    def many(self, numbers: list[int]) -> list[Occ]:
        return [self.occurrences[number] for number in numbers]

    def graph(self, written: Any) -> KeyState:
        nodes, timers, serial = written
        heap = [
            (_point(point), number, node, window, None if of is None else self.occurrences[of])
            for point, number, node, window, of in timers
        ]
        heapify(heap)
        return KeyState([self.node(node) for node in nodes], heap, serial)

    def node(self, written: Any) -> NodeState:
        kept, partials, middles, absent, windows, fired, floor, dropped = written
        return NodeState(
            [self.many(slot) for slot in kept],
            [tuple((slot, self.occurrences[one]) for slot, one in partial) for partial in partials],
            self.many(middles),
            self.many(absent),
            [Window(number, self.occurrences[opening], periods) for number, opening, periods in windows],
            *(_point(fired), floor, dropped),
        )


def _point(written: list[int]) -> Point:
    time, kind, place, after = written
    return time, kind, place, after


def _list(written: list[int] | None) -> tuple[int, ...] | None:
    return None if written is None else tuple(written)


# JSON has no decimals and no dates.


def _written(value: Any) -> Any:
    match value:
        case Decimal():
            return {"decimal": str(value)}
        case date():
            return {"date": value.isoformat()}
        case _:
            return value


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return Decimal(value["decimal"]) if "decimal" in value else date.fromisoformat(value["date"])


def _tail(tail: Tail) -> Any:
    table = tail.table.rename_columns([str(i) for i in range(tail.table.num_columns)])
    return [table_text(table), tail.occ_time.tolist(), tail.det_time.tolist(), tail.partition.tolist()]


def _read_tail(written: Any, of: EventClass) -> Tail:
    table, *columns = written
    occ_time, det_time, partition = (np.array(column, np.int64) for column in columns)
    return Tail(text_table(table).rename_columns([a.name for a in of.attributes]), occ_time, det_time, partition)
