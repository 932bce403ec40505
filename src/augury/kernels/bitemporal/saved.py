"""The state of bitemporal ticks as bytes and back: that of a class, and the expiries of all.

In: a state. Out: bytes; and the state again, which goes on as the one that was saved. Live events are rows of an Arrow
table; what lies in a slot without one has no meaning and is left out, but events keep their slots, and slots the order
in which they are used again: expiries refer to them. Timers are kept as they are, overtaken ones among them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.event import EventClass, key_of
from augury.kernels.batch import Integers
from augury.kernels.bitemporal.cells import Cells
from augury.kernels.bitemporal.due import Due, Entries
from augury.kernels.bitemporal.expiry import Expiry
from augury.kernels.bitemporal.live import NO_VERSION, LiveView, keys_of, live_view
from augury.kernels.bitemporal.tick import ClassState
from augury.kernels.bitemporal.watch import Watch
from augury.kernels.packed import array_bytes, packed, read_array, read_table, table_bytes, unpacked

FORMAT: Final = 1

_CLASS: Final = "CLASS"
_EXPIRY: Final = "EXPIRY"

_GONE: Final = -1
"""The generation of a node that is no live event, as `expiry` has it; others count from 0."""

# ---- a class ------------------------------------------------------------------------------------


def saved(state: ClassState) -> bytes:
    """The view of a class and its timers as bytes; fits this class and these statements only."""
    view = state.view
    free, leaving = np.array(view.free, np.int64), np.array(view.leaving, np.int64)
    live = _live(view.used, free, leaving)
    own = _own_keys(view, live)
    arrays = {"free": free, "leaving": leaving, "own_keys": own}
    blobs = {"events": table_bytes(_events(view, live))} | {name: array_bytes(array) for name, array in arrays.items()}
    header = {"used": view.used, "read": view.read, "keys": view.keys[live[own]].tolist()}
    return packed(_CLASS, FORMAT, _fingerprint(view.watch), header, blobs | _due_blobs(state.on_time))


def loaded(data: bytes, watched: Watch) -> ClassState:
    """The state again; raises `UnfitState` for what is damaged, of another format, class or other statements."""
    header, blobs = unpacked(_CLASS, FORMAT, _fingerprint(watched), data)
    view = live_view(watched)
    free, leaving = read_array(blobs["free"]), read_array(blobs["leaving"])
    view.used, view.read = header["used"], header["read"]
    view.free, view.leaving = free.tolist(), leaving.tolist()
    live, events = _live(view.used, free, leaving), read_table(blobs["events"])
    _place(view, live, events)
    keys = _keys(watched.event_class, events)
    for row, key in zip(read_array(blobs["own_keys"]).tolist(), header["keys"], strict=True):
        keys[row] = _key(key)
    view.slots = dict(zip(keys, live.tolist(), strict=True))
    view.keys = _placed(np.fromiter(keys, np.object_, len(keys)), live, view.used, None)
    return ClassState(view, _read_due(blobs))


def _live(used: int, free: Integers, leaving: Integers) -> Integers:
    """The slots of live events, ascending: all that are neither free nor about to be."""
    there = np.ones(used, np.bool_)
    there[free] = False
    there[leaving] = False
    return np.flatnonzero(there)


def _arrays(view: LiveView) -> dict[str, npt.NDArray[Any]]:
    """What a view has by slot, attributes and keys apart; `row` means something only while versions are read."""
    found: dict[str, npt.NDArray[Any]] = {"has_old": view.has_old}
    found |= {f"times/{name}": column for name, column in view.times.items() if name != "row"}
    found |= {f"fired_for/{place}": column for place, column in view.fired_for.items()}
    return found | {f"fired_at/{name}": column for name, column in view.fired_at.items()}


def _events(view: LiveView, live: Integers) -> pa.Table:
    columns = {f"new/{place}": cells.at(live) for place, cells in enumerate(view.cells.values())}
    has_old = view.has_old[live]
    columns |= {f"old/{place}": cells.at(live, has_old) for place, cells in enumerate(view.kept_old.values())}
    return pa.table(columns | {name: pa.array(column[live]) for name, column in _arrays(view).items()})


def _place(view: LiveView, live: Integers, events: pa.Table) -> None:
    """Put all columns of live events but the keys where they belong."""
    used = view.used

    def placed(name: str, elsewhere: int = 0) -> npt.NDArray[Any]:
        return _placed(events.column(name).to_numpy(), live, used, elsewhere)

    for group, several in (("new", view.cells), ("old", view.kept_old)):
        for place, cells in enumerate(several.values()):
            _fill(cells, events.column(f"{group}/{place}"), live, used)
    view.has_old = placed("has_old")
    view.times = {name: np.zeros(used, np.int64) if name == "row" else placed(f"times/{name}") for name in view.times}
    view.times["number"] = placed("times/number", NO_VERSION)
    view.fired_for = {place: placed(f"fired_for/{place}") for place in view.fired_for}
    view.fired_at = {name: placed(f"fired_at/{name}") for name in view.fired_at}


def _placed(values: npt.NDArray[Any], at: Integers, size: int, elsewhere: int | None) -> npt.NDArray[Any]:
    whole = np.full(size, elsewhere, values.dtype)
    whole[at] = values
    return whole


def _fill(cells: Cells, column: pa.ChunkedArray, live: Integers, used: int) -> None:
    cells.grow(used)
    begin = 0
    # More than one where an array cannot hold all strings.
    for chunk in column.chunks:
        cells.put(live[begin : begin + len(chunk)], chunk)
        begin += len(chunk)


# ---- keys ---------------------------------------------------------------------------------------


def _own_keys(view: LiveView, live: Integers) -> Integers:
    """The rows whose keys `keys_of` may not find again.

    Those are the numbers that events of a class with `ID ()` have, and zeros: both are one key, and actions show the
    one that came first.
    """
    key = {key_of(name) for name in view.watch.event_class.key}
    if not key:
        return np.flatnonzero(view.keys[live] != view.times["seq"][live])
    found = np.zeros(len(live), np.bool_)
    for name, cells in view.cells.items():
        if key_of(name) in key and pa.types.is_floating(cells.kind):
            found |= cells.values[live] == 0
    return np.flatnonzero(found)


def _keys(event_class: EventClass, events: pa.Table) -> list[Any]:
    found: list[Any] = []
    names = [f"new/{place}" for place in range(len(event_class.attributes))]
    for batch in events.to_batches():
        seq = batch.column("times/seq").to_numpy()
        found += keys_of(event_class, [batch.column(name) for name in names], seq)
    return found


def _key(written: Any) -> Any:
    """A key as it was before JSON made a list of it."""
    return tuple(map(_key, written)) if isinstance(written, list) else written


def _fingerprint(watched: Watch) -> str:
    of = watched.event_class
    attributes = [(key_of(attribute.name), str(attribute.type)) for attribute in of.attributes]
    statements = [(condition, list(actions)) for condition, actions in (one.said for one in watched.statements)]
    return _hashed((key_of(of.name), attributes, [key_of(name) for name in of.key], statements))


def _hashed(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


# ---- expiries -----------------------------------------------------------------------------------


def saved_expiry(expiry: Expiry) -> bytes:
    """The expiries of all classes as bytes; fits these lifespans only."""
    nodes = np.flatnonzero(expiry.generation != _GONE)
    sizes = [len(parts) for parts in expiry.parts.values()]
    arrays = {
        "nodes": nodes,
        "own": expiry.own[nodes],
        "generation": expiry.generation[nodes],
        "joined": expiry.joined[nodes],
        "owner": np.fromiter(expiry.parts, np.int64, len(sizes)),
        "size": np.array(sizes, np.int64),
        "part": np.fromiter((part for parts in expiry.parts.values() for part in parts), np.int64, sum(sizes)),
    }
    blobs = {name: array_bytes(array) for name, array in arrays.items()}
    header = {"room": len(expiry.generation), "indexed": expiry.indexed}
    return packed(_EXPIRY, FORMAT, _hashed(list(expiry.lifespans_us)), header, blobs | _due_blobs(expiry.index))


def loaded_expiry(data: bytes, lifespans_us: Sequence[int | None]) -> Expiry:
    """The expiries again; raises `UnfitState` for what is damaged, of another format or of other lifespans."""
    header, blobs = unpacked(_EXPIRY, FORMAT, _hashed(list(lifespans_us)), data)
    nodes, room = read_array(blobs["nodes"]), header["room"]
    own, generation, joined = (
        _placed(read_array(blobs[name]), nodes, room, elsewhere)
        for name, elsewhere in (("own", 0), ("generation", _GONE), ("joined", 0))
    )
    owners, flat = read_array(blobs["owner"]).tolist(), read_array(blobs["part"]).tolist()
    spans = pairwise([0, *np.cumsum(read_array(blobs["size"])).tolist()])
    parts = {owner: tuple(flat[begin:end]) for owner, (begin, end) in zip(owners, spans, strict=True)}
    users: dict[int, set[int]] = {}
    for owner, made_of in parts.items():
        for part in made_of:
            if part in users:
                users[part].add(owner)
            else:
                users[part] = {owner}
    return Expiry(lifespans_us, _read_due(blobs), own, generation, joined, parts, users, header["indexed"])


# ---- timers -------------------------------------------------------------------------------------


def _due_blobs(due: Due) -> dict[str, bytes]:
    runs = [Entries(*(np.zeros(0, np.int64),) * 3), *due.runs]
    arrays = {
        "due/time": np.concatenate([run.time for run in runs]),
        "due/slot": np.concatenate([run.slot for run in runs]),
        "due/generation": np.concatenate([run.generation for run in runs]),
        "due/size": np.array([len(run) for run in due.runs], np.int64),
        "due/next": np.array([due.next_due()], np.int64),
    }
    return {name: array_bytes(array) for name, array in arrays.items()}


def _read_due(blobs: Mapping[str, bytes]) -> Due:
    time, slot, generation, size, first = (
        read_array(blobs[f"due/{name}"]) for name in ("time", "slot", "generation", "size", "next")
    )
    every = Entries(time, slot, generation)
    runs = [every.part(begin, end) for begin, end in pairwise([0, *np.cumsum(size).tolist()])]
    return Due(runs, int(first[0]))
