"""The state of a flat graph as plain values for JSON and back: its arrays are columns of Arrow streams.

In: a state. Out: what it adds to what every COMPOSITE remembers. Columns have numbers for names, so that a state
outlives the renaming of classes.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from augury.kernels.batch import Integers
from augury.kernels.composite.flat.layout import TOP
from augury.kernels.composite.flat.state import FlatState, Held

_ARRAYS: Final = ("arena", "counters", "queues", "floors", "latest")


def written(state: FlatState) -> dict[str, Any]:
    """The arrays, the numbers of combinations, and the versions that are held."""
    used = {name: getattr(state, name) for name in _ARRAYS}
    used["arena"] = state.arena[: state.counters[TOP]]
    held = state.held
    columns = {name: pa.array(getattr(held, name)) for name in ("leaf", "seq", "occ_time", "det_time")}
    columns |= {str(number): values for number, values in enumerate(held.values)}
    if held.constituents is not None:
        columns["constituents"] = held.constituents
    return {
        "arrays": {
            name: [list(array.shape), arrow_text({"values": pa.array(array.ravel())})] for name, array in used.items()
        },
        "pairs": [arrow_text({"values": one.values}) for one in state.pairs],
        "keys": state.keys,
        "held": arrow_text(columns),
    }


def read(state: FlatState, body: Mapping[str, Any]) -> None:
    """Fill a fresh state."""
    for name, (shape, text) in body["arrays"].items():
        setattr(state, name, _numbers(arrow_column(text)).reshape(shape).copy())
    for numbers, text in zip(state.pairs, body["pairs"], strict=True):
        numbers.values = arrow_column(text)
    state.keys = body["keys"]
    table = text_table(body["held"]).combine_chunks()
    column = {name: table.column(name).combine_chunks() for name in table.column_names}
    leaf, seq, occ_time, det_time = (_numbers(column[name]) for name in ("leaf", "seq", "occ_time", "det_time"))
    values = [_one(column[name]) for name in table.column_names if name.isdecimal()]
    lists = _one(column["constituents"]) if "constituents" in column else None
    state.held = Held(leaf, seq, occ_time, det_time, values, lists)


def _numbers(column: pa.Array) -> Integers:
    found: Integers = _one(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def arrow_text(columns: Mapping[str, pa.Array]) -> str:
    """Columns as text."""
    return table_text(pa.table(dict(columns)))


def table_text(table: pa.Table) -> str:
    """A table as text."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return b64encode(sink.getvalue().to_pybytes()).decode()


def text_table(text: str) -> pa.Table:
    """The table again."""
    return pa.ipc.open_stream(b64decode(text)).read_all()


def arrow_column(text: str) -> pa.Array:
    """The only column of a table."""
    return _one(text_table(text).column("values"))


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
