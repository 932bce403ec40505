"""What a unit with ORDER BY OCCURRENCE remembers as bytes and back: its history, saved states, and what holds.

In: a plan, a unit of it and its state. Out: bytes that fit this expression and these classes only, and the state again.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import pyarrow as pa

from augury.engine.occurrence_state import OccurrenceState, Saved, asks_detected, occurrence_state, tells_values
from augury.engine.plan import EnginePlan
from augury.engine.rows import whole
from augury.engine.standing import Stands, identities, stands_of
from augury.engine.unit_kernels import Detecting, by_occurrence, kernel_bytes, places_of, read_kernel
from augury.event import EventClass, key_of
from augury.kernels.batch import Occurrences, joined
from augury.kernels.columns import arrow_type
from augury.kernels.packed import array_bytes, packed, read_array, read_table, table_bytes, unpacked

FORMAT: Final = 2
_OPERATOR: Final = "BY OCCURRENCE"


def saved_occurrences(plan: EnginePlan, unit: Detecting, state: OccurrenceState) -> bytes:
    """The state as bytes."""
    history, standing = state.history, state.standing
    blobs = {"kernel": kernel_bytes(plan, unit, state.kernel), "history": array_bytes(history.columns())}
    blobs |= {f"saved/{i}": one.content for i, one in enumerate(state.saved) if one.content is not None}
    blobs |= {f"held/{i}": array_bytes(one) for i, one in enumerate(history.held)}
    blobs["happened"] = array_bytes(np.array(list(state.happened.items()), np.int64).reshape(-1, 2))
    for code, shelf in enumerate(history.shelves):
        for number, table in enumerate(shelf.tables):
            names = [str(i) for i in range(table.num_columns)]
            blobs[f"shelf/{code}/{number}"] = table_bytes(table.rename_columns(names))
    # Classes may have other places when it is read again, in another program.
    places = places_of(unit)
    for of_unit, place in enumerate(places):
        found = [one for stack in standing.events.values() for one in stack if one.identity[0] == place]
        if found:
            blobs |= _written_stands(of_unit, sorted(found, key=lambda one: one.number))
    header = {
        "saved": [[one.end, one.found] for one in state.saved],
        "shelves": [[shelf.count, len(shelf.tables)] for shelf in history.shelves],
        "at": [[code, _written(key), *where] for (code, key), where in history.at.items()],
        "history": [history.base, history.ranks],
        "standing": standing.base,
        "numbers": [[places.index(p), _written(name), number] for (p, name), number in standing.numbers.items()],
        "times": [state.ahead, state.clock, state.greatest, state.settled],
    }
    return packed(_OPERATOR, FORMAT, _fingerprint(plan, unit), header, blobs)


def loaded_occurrences(plan: EnginePlan, unit: Detecting, data: bytes) -> OccurrenceState:
    """The state again; raises `UnfitState` for what is damaged, of another format or of another expression."""
    header, blobs = unpacked(_OPERATOR, FORMAT, _fingerprint(plan, unit), data)
    state = occurrence_state(plan, unit)
    history, standing = state.history, state.standing
    state.kernel = read_kernel(plan, unit, blobs["kernel"])
    state.saved = [Saved(end, found, blobs.get(f"saved/{i}")) for i, (end, found) in enumerate(header["saved"])]
    state.ahead, state.clock, state.greatest, state.settled = header["times"]
    history.base, history.ranks = header["history"]
    history.restore(read_array(blobs["history"]))
    state.happened = dict(read_array(blobs["happened"]).tolist())
    history.held = read_array(blobs["held/0"]), read_array(blobs["held/1"])
    history.at = {(code, _read(key)): (occ, seq, rank) for code, key, occ, seq, rank in header["at"]}
    for code, (shelf, (count, tables)) in enumerate(zip(history.shelves, header["shelves"], strict=True)):
        names = [attribute.name for attribute in shelf.event_class.attributes] + [""] * shelf.is_complex
        shelf.count = count
        shelf.tables = [read_table(blobs[f"shelf/{code}/{i}"]).rename_columns(names) for i in range(tables)]
    standing.base = header["standing"]
    places = places_of(unit)
    standing.numbers = {(places[of_unit], _read(name)): number for of_unit, name, number in header["numbers"]}
    found: list[Stands] = []
    for of_unit, place in enumerate(places):
        if f"stands/{of_unit}" in blobs:
            event_class, has_values = plan.classes[place].event_class, tells_values(unit.detector.plan)
            found += _read_stands(event_class, of_unit, place, has_values, blobs)
    for one in sorted(found, key=lambda one: one.number):
        standing.events.setdefault(one.identity, []).append(one)
        if one.number >= standing.base:
            standing.log.append(one)
    return state


def _fingerprint(plan: EnginePlan, unit: Detecting) -> str:
    """The same for expressions and classes whose states fit each other."""
    made = [(key_of(one.name), one.key, _columns(one)) for one in _classes(plan, unit)]
    asks = ("detTime",) if asks_detected(plan, unit) else ()
    text = repr((unit.detector.fingerprint(), by_occurrence(unit), made, *asks))
    return hashlib.sha256(text.encode()).hexdigest()


def _classes(plan: EnginePlan, unit: Detecting) -> list[EventClass]:
    return [plan.classes[place].event_class for place in places_of(unit)]


def _columns(event_class: EventClass) -> list[tuple[str, str]]:
    return [(key_of(one.name), str(arrow_type(one.type))) for one in event_class.attributes]


def _written_stands(of_unit: int, found: list[Stands]) -> dict[str, bytes]:
    rows = joined([one.found.at(np.array([one.row])) for one in found])
    own = np.array([[one.number for one in found], [one.order for one in found]], np.int64)
    times = np.stack([*own, rows.seq, rows.occ_time, rows.det_time])
    columns = {str(i): whole(column) for i, column in enumerate(rows.values.columns)}
    table = pa.table({**columns, "constituents": rows.constituents})
    return {f"stands/{of_unit}": table_bytes(table), f"stands/{of_unit}/times": array_bytes(times)}


def _read_stands(
    event_class: EventClass, of_unit: int, place: int, has_values: bool, blobs: dict[str, bytes]
) -> list[Stands]:
    table, times = read_table(blobs[f"stands/{of_unit}"]), read_array(blobs[f"stands/{of_unit}/times"])
    number, order, seq, occ_time, det_time = times
    columns, names = table.columns[:-1], [attribute.name for attribute in event_class.attributes]
    values = pa.table(columns, names=names) if names else pa.table({})
    rows = Occurrences.first(event_class, seq, occ_time, det_time, values, whole(table.column("constituents")))
    found = stands_of(place, identities(event_class, has_values, rows), rows, order)
    for one, own in zip(found, number.tolist(), strict=True):
        one.number = own
    return found


# JSON has no tuples.


def _written(value: Any) -> Any:
    return {"of": [_written(one) for one in value]} if isinstance(value, tuple) else value


def _read(value: Any) -> Any:
    return tuple(map(_read, value["of"])) if isinstance(value, dict) else value
