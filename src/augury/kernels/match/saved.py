"""The state of a MATCH as bytes and back: a header, arrays and tables, with a format version and a checksum.

A state is filed under the fingerprint of its detector, so classes that the expression names are written by their
number in it, not by name; others that tuples hold are written by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.event import EventClass, key_of
from augury.kernels.match.detector import Detector
from augury.kernels.match.leaves import Tail
from augury.kernels.match.state import Events, MatchState, Nodes, Run, Runs, initial_state
from augury.kernels.match.streams import Numbers
from augury.kernels.packed import array_bytes, packed, read_array, read_table, table_bytes, unpacked
from augury.kernels.sealed import UnfitState

FORMAT: Final = 3


def saved(state: MatchState, detector: Detector, classes: tuple[EventClass, ...]) -> bytes:
    """The state as bytes."""
    names = _names(detector, classes)
    blobs: dict[str, bytes] = {}
    for name, array in _arrays(state).items():
        blobs[name] = array_bytes(array)
    for name, values in _values(state).items():
        blobs[name] = table_bytes(pa.table({"values": values}))
    for code, table in enumerate(state.events.tables):
        if (state.events.code == code).any():
            blobs[f"events/{names[code]}"] = table_bytes(
                table.rename_columns([str(i) for i in range(table.num_columns)])
            )
            lists = state.events.constituents[code]
            if lists is not None:
                blobs[f"constituents/{names[code]}"] = table_bytes(pa.table({"values": lists}))
    for code, tail in state.tails.items():
        blobs[f"tail/{names[code]}"] = table_bytes(
            tail.table.rename_columns(list(map(str, range(tail.table.num_columns))))
        )
        for column in ("occ_time", "det_time", "partition"):
            blobs[f"tail/{names[code]}/{column}"] = array_bytes(getattr(tail, column))
    unbuilt = [
        [[_written(run.state), run.head, run.least, run.most, run.until] for run in runs] for runs in state.unbuilt
    ]
    for i, (one, of) in enumerate(zip(state.inner, detector.inner, strict=True)):
        blobs[f"inner/{i}"] = saved(one, of, classes)
    header = {
        "codes": [names[code] for code in range(len(classes))],
        "nodes": state.nodes.count,
        "free": state.runs.free,
        "unbuilt": unbuilt,
    }
    return packed("MATCH", FORMAT, detector.fingerprint(), header, blobs)


def loaded(data: bytes, detector: Detector, classes: tuple[EventClass, ...]) -> MatchState:
    """The state again; raises `UnfitState` for what is damaged, of another format or of another expression."""
    header, blobs = unpacked("MATCH", FORMAT, detector.fingerprint(), data)
    names = _names(detector, classes)
    code_of = {name: code for code, name in names.items()}
    missing = [name for name in header["codes"] if name not in code_of and f"events/{name}" in blobs]
    if missing:
        raise UnfitState(f"the state holds events of `{missing[0]}`, which the program does not have")
    codes = np.array([code_of.get(name, 0) for name in header["codes"]], np.int16)
    state = initial_state(detector, classes)

    def array(name: str) -> npt.NDArray[Any]:
        return read_array(blobs[name])

    state.length, state.at, state.last, state.heads = (array(n) for n in ("length", "at", "last", "heads"))
    state.streams.partition, state.streams.bound = array("streams/partition"), array("streams/bound")
    chains = {n: array(f"nodes/{n}") for n in ("ref", "marks", "prev", "length")}
    state.nodes = Nodes(**chains, count=header["nodes"])
    state.runs = Runs(
        **{f.name: array(f"runs/{f.name}") for f in fields(Runs) if f.name != "free"}, free=header["free"]
    )
    for group, into in (("partition", state.partitions), ("value", state.streams.values), ("said", state.said)):
        for i, numbers in enumerate(into):
            numbers.values = _read_values(blobs[f"{group}/{i}"])
    pairs = [name for name in blobs if name.startswith("pair/")]
    state.streams.pairs = [Numbers(_read_values(blobs[f"pair/{i}"])) for i in range(len(pairs))]
    state.events = _events(state.events, blobs, array, names, codes)
    state.tails = {
        code: _tail(name, blobs, array, classes[code]) for code, name in names.items() if f"tail/{name}" in blobs
    }
    state.unbuilt = [[Run(_read(s), *rest) for s, *rest in runs] for runs in header["unbuilt"]]
    state.inner = [loaded(blobs[f"inner/{i}"], of, classes) for i, of in enumerate(detector.inner)]
    return state


def _names(detector: Detector, classes: tuple[EventClass, ...]) -> dict[int, str]:
    """What each class is called in a saved state: those of the expression by number."""
    own = list(dict.fromkeys(key_of(leaf.event_class) for leaf in detector.alphabet.leaves))
    keys = [key_of(c.name) for c in classes]
    return {code: f"#{own.index(key)}" if key in own else key for code, key in enumerate(keys)}


def _arrays(state: MatchState) -> dict[str, npt.NDArray[Any]]:
    nodes, events = state.nodes, state.events
    found: dict[str, npt.NDArray[Any]] = {
        "length": state.length,
        "at": state.at,
        "last": state.last,
        "heads": state.heads,
        "streams/partition": state.streams.partition,
        "streams/bound": state.streams.bound,
    }
    found |= {f"nodes/{n}": getattr(nodes, n)[: nodes.count] for n in ("ref", "marks", "prev", "length")}
    found |= {f"runs/{f.name}": getattr(state.runs, f.name) for f in fields(Runs) if f.name != "free"}
    found |= {f"event/{n}": getattr(events, n) for n in ("seq", "occ_time", "det_time", "code", "row")}
    return found if events.detected is None else found | {"event/detected": events.detected}


def _values(state: MatchState) -> dict[str, pa.Array]:
    found = {f"partition/{i}": numbers.values for i, numbers in enumerate(state.partitions)}
    found |= {f"value/{i}": numbers.values for i, numbers in enumerate(state.streams.values)}
    found |= {f"said/{i}": numbers.values for i, numbers in enumerate(state.said)}
    return found | {f"pair/{i}": numbers.values for i, numbers in enumerate(state.streams.pairs)}


def _events(
    empty: Events,
    blobs: dict[str, bytes],
    array: Callable[[str], npt.NDArray[Any]],
    names: dict[int, str],
    codes: npt.NDArray[np.int16],
) -> Events:
    tables, constituents = list(empty.tables), list(empty.constituents)
    for code, name in names.items():
        if f"events/{name}" in blobs:
            tables[code] = read_table(blobs[f"events/{name}"]).rename_columns(empty.tables[code].column_names)
        if f"constituents/{name}" in blobs:
            constituents[code] = _read_values(blobs[f"constituents/{name}"])
    code = codes[array("event/code")]
    seq, occ_time, det_time, row = (array(f"event/{n}") for n in ("seq", "occ_time", "det_time", "row"))
    detected = array("event/detected") if "event/detected" in blobs else None
    return Events(seq, occ_time, det_time, code, row, tuple(tables), tuple(constituents), detected)


def _tail(name: str, blobs: dict[str, bytes], array: Callable[[str], npt.NDArray[Any]], of: EventClass) -> Tail:
    table = read_table(blobs[f"tail/{name}"]).rename_columns([a.name for a in of.attributes])
    occ_time, det_time, partition = (array(f"tail/{name}/{column}") for column in ("occ_time", "det_time", "partition"))
    return Tail(table, occ_time, det_time, partition)


def _read_values(data: bytes) -> pa.Array:
    column = read_table(data).column("values")
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


# A state of an unbuilt machine is made of numbers, words, tuples and sets.


def _written(state: Any) -> Any:
    if isinstance(state, frozenset):
        return {"set": sorted((_written(one) for one in state), key=repr)}
    return {"tuple": [_written(one) for one in state]} if isinstance(state, tuple) else state


def _read(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    return frozenset(map(_read, state["set"])) if "set" in state else tuple(map(_read, state["tuple"]))
