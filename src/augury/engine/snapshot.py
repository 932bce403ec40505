"""The whole state of an engine as bytes, and back; and the way to a state from what committed ticks have read.

In: a plan and a state. Out: bytes under a checksum, filed by what each part belongs to, so that a state of another
program is refused. Whoever loads it goes on exactly as the one that saved it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final

import numpy as np

from augury.engine.occurrence_state import OccurrenceState
from augury.engine.parts import SelectState, restored
from augury.engine.plan import EnginePlan, SelectUnit, Unit
from augury.engine.saved_occurrences import loaded_occurrences, saved_occurrences
from augury.engine.saved_rows import loaded_rows, saved_rows
from augury.engine.saved_triggers import loaded_trigger, saved_trigger, trigger_fingerprint
from augury.engine.state import Detection, EngineState, TriggersState, forget_unheld
from augury.engine.tick import Ports, next_tick_by, tick_again
from augury.engine.ticked import ClassVersions, Ticked
from augury.engine.traces import Traced, Traces
from augury.engine.unit_kernels import by_occurrence, kernel_bytes, read_kernel
from augury.event import key_of
from augury.kernels.batch import Integers
from augury.kernels.bitemporal import LiveView
from augury.kernels.bitemporal.saved import loaded, loaded_expiry, saved, saved_expiry
from augury.kernels.firing import Switched, Turned
from augury.kernels.packed import array_bytes, packed, read_array, unpacked

_OPERATOR: Final = "engine"
_TRACES: Final = "traces/"
STATE_FORMAT: Final = 3
"""Counts up whenever states are no longer as an older Augury reads them."""


def saved_state(plan: EnginePlan, state: EngineState) -> bytes:
    """The state after a tick."""
    blobs = {f"class {place}": saved(one) for place, one in enumerate(state.classes)}
    blobs["expiry"] = saved_expiry(state.expiry)
    for number, unit in enumerate(plan.units):
        content = saved_detection(plan, unit, state.detection[number])
        if content is not None:
            blobs[f"unit {number}"] = content
    blobs |= {f"trigger {number}": saved_trigger(plan, number, state) for number in range(len(plan.triggers))}
    forget_unheld(plan, state)
    blobs |= {name: array_bytes(array) for name, array in _traced(state.traces).items()}
    off = sorted([str(kind), name] for kind, name in state.triggers.off)
    header = {
        "seq": state.seq,
        "tick": state.tick,
        "failing": sorted(state.failing),
        "off": off,
        "fired": state.triggers.fired,
    }
    return packed(_OPERATOR, STATE_FORMAT, _fingerprint(plan), header, blobs)


def loaded_state(plan: EnginePlan, data: bytes) -> EngineState:
    """The state again; raises `UnfitState` for what is damaged or of another program."""
    header, blobs = unpacked(_OPERATOR, STATE_FORMAT, _fingerprint(plan), data)
    classes = [loaded(blobs[f"class {place}"], watched) for place, watched in enumerate(plan.watches)]
    expiry = loaded_expiry(blobs["expiry"], plan.lifespans_us)
    views, failing = [one.view for one in classes], set(header["failing"])
    detection: list[Detection] = []
    for number, unit in enumerate(plan.units):
        content = blobs.get(f"unit {number}")
        detection.append(loaded_detection(plan, unit, content, views, header["tick"], number in failing))
    traces = _traces(plan, {name: read_array(blob) for name, blob in blobs.items() if name.startswith(_TRACES)})
    triggers = TriggersState(
        [loaded_trigger(plan, number, blobs[f"trigger {number}"]) for number in range(len(plan.triggers))],
        header["fired"],
        {(Switched(kind), name) for kind, name in header["off"]},
    )
    return EngineState(
        classes, expiry, detection, traces, header["seq"], header["tick"], failing, triggers,
    )  # fmt: skip


def _traced(traces: Traces) -> dict[str, Integers]:
    """Which versions belong to which events, and what these are made of, as arrays."""
    found: dict[str, Integers] = {}
    for place, one in traces.versions.items():
        found[f"{_TRACES}{place}/seq"], found[f"{_TRACES}{place}/slot"] = one.seq[: one.count], one.slot[: one.count]
    sizes = np.fromiter(map(len, traces.parts.values()), np.int64, len(traces.parts))
    found[f"{_TRACES}node"] = np.array(list(traces.parts), np.int64).reshape(-1, 2)
    found[f"{_TRACES}size"] = sizes
    found[f"{_TRACES}part"] = np.fromiter(chain.from_iterable(traces.parts.values()), np.int64, int(sizes.sum()))
    return found


def _traces(plan: EnginePlan, arrays: Mapping[str, Integers]) -> Traces:
    versions = {
        place: Traced(arrays[f"{_TRACES}{place}/seq"], arrays[f"{_TRACES}{place}/slot"])
        for place in plan.received
        if f"{_TRACES}{place}/seq" in arrays
    }
    nodes, flat = arrays[f"{_TRACES}node"].tolist(), arrays[f"{_TRACES}part"].tolist()
    spans = pairwise([0, *np.cumsum(arrays[f"{_TRACES}size"]).tolist()])
    parts = {(place, slot): tuple(flat[begin:end]) for (place, slot), (begin, end) in zip(nodes, spans, strict=True)}
    return Traces(versions, parts)


def saved_detection(plan: EnginePlan, unit: Unit, detection: Detection) -> bytes | None:
    """What a unit remembers as bytes; None for a SELECT that was never evaluated."""
    if isinstance(unit, SelectUnit):
        assert isinstance(detection, SelectState)
        rows = detection.all_rows()
        return None if rows is None else saved_rows(rows)
    if isinstance(detection, OccurrenceState):
        return saved_occurrences(plan, unit, detection)
    assert not isinstance(detection, SelectState)
    return kernel_bytes(plan, unit, detection)


def loaded_detection(
    plan: EnginePlan, unit: Unit, content: bytes | None, views: Sequence[LiveView], tick: int, failing: bool
) -> Detection:
    """The same again, with the views as they were; raises `UnfitState`."""
    if isinstance(unit, SelectUnit):
        event_class = plan.classes[unit.place].event_class
        rows = None if content is None else loaded_rows(content, event_class)
        return restored(unit, event_class, rows, views, tick, failing)
    assert content is not None, "only SELECTs remember nothing"
    if by_occurrence(unit) is not None:
        return loaded_occurrences(plan, unit, content)
    return read_kernel(plan, unit, content)


def _fingerprint(plan: EnginePlan) -> str:
    """Which classes there are and how they are derived, whatever else the program says."""
    classes = [
        (key_of(one.event_class.name), str(one.event_class.kind), one.event_class.lifespan_us, one.reads, _what(one))
        for one in plan.classes
    ]
    triggers = [trigger_fingerprint(unit) for unit in plan.triggers]
    return hashlib.sha256(json.dumps([plan.chronon_us, classes, triggers]).encode()).hexdigest()


def _what(one: object) -> str:
    derivation = getattr(one, "derivation", None)
    return str(getattr(derivation, "sql", type(derivation).__name__))


def ticks_again(
    plan: EnginePlan,
    state: EngineState,
    reads: Iterable[tuple[int, tuple[ClassVersions, ...]]],
    last: int,
    ports: Ports,
    turns: Sequence[Turned] = (),
) -> Iterator[Ticked]:
    """Every committed tick after that of the state, worked out again from what each has read, up to the last.

    `turns` are the switches that were made after the state's tick, in order.
    """
    turned = list(turns)
    places = {key_of(plan.classes[place].event_class.name): place for place in plan.received}
    waiting = iter(reads)
    coming = next(waiting, None)
    while True:
        due = next_tick_by(plan, state, last)
        if coming is not None and coming[0] <= due:
            time, versions = coming
            coming = next(waiting, None)
        else:
            time, versions = due, ()
        if time > last:
            return
        now = [one for one in turned if one.after_us is None or one.after_us < time]
        del turned[: len(now)]
        yield tick_again(plan, state, {places[key_of(v.event_class.name)]: v for v in versions}, time, ports, now)
