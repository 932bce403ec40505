"""One attribute of all live events: a cell per slot, written and read by slots.

In: Arrow values and the slots they belong to. Out: Arrow values of slots. Numbers, times and decimals lie in NumPy
arrays beside a mask of NULLs, so that a tick moves them without making an object of any. Strings are Python objects:
codes into a dictionary would keep every string that ever was, while an object goes with the version that had it, and
keys are looked up by the same objects anyway. It knows neither keys nor time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.kernels.batch import Integers
from augury.kernels.columns.column import Mask, missing
from augury.kernels.columns.exact import from_decimals

NAN_KEY = "NaN"
"""What stands for NaN in a key, since NaN is not equal to itself; no other value of the column is a string."""


@dataclass(slots=True)
class Cells:
    """The values of one attribute by slot; what lies in a slot that was never written has no meaning."""

    kind: pa.DataType
    values: npt.NDArray[Any]
    absent: Mask

    def grow(self, capacity: int) -> None:
        """Make room for slots up to `capacity`."""
        self.values = grown(self.values, capacity)
        self.absent = grown(self.absent, capacity)

    def put(self, slots: Integers, values: pa.Array) -> None:
        """Write a value a slot."""
        rows = missing(values)
        self.values[slots] = plain(values)
        self.absent[slots] = False if rows is None else rows

    def copy(self, slots: Integers, other: Cells) -> None:
        """Take over what another attribute of the same type has in these slots."""
        self.values[slots] = other.values[slots]
        self.absent[slots] = other.absent[slots]

    def at(self, slots: Integers, there: Mask | None = None) -> pa.Array:
        """The values of slots; NULL where the mask says that there is none."""
        absent = self.absent[slots] if there is None else self.absent[slots] | ~there
        return _arrow(self.values[slots], self.kind, absent)


def cells_of(kind: pa.DataType) -> Cells:
    """Cells for values stored so, before the first slot."""
    return Cells(kind, plain(pa.array([], kind)).copy(), np.zeros(0, np.bool_))


def grown(values: npt.NDArray[Any], capacity: int) -> npt.NDArray[Any]:
    """The same values at the beginning of a longer array, with zeros behind them."""
    longer = np.zeros((capacity, *values.shape[1:]), values.dtype)
    longer[: len(values)] = values
    return longer


def plain(values: pa.Array) -> npt.NDArray[Any]:
    """Arrow values as NumPy has them: two words a decimal, objects for strings; whatever for NULL."""
    kind = values.type
    if pa.types.is_string(kind):
        texts: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return texts.astype(np.object_, copy=False)
    if pa.types.is_boolean(kind):
        truths: npt.NDArray[Any] = values.fill_null(False).to_numpy(zero_copy_only=False)
        return truths
    words = 2 if pa.types.is_decimal(kind) else 1
    stored = np.dtype(np.int64) if words == 2 or pa.types.is_temporal(kind) else np.dtype(kind.to_pandas_dtype())
    if pa.types.is_date32(kind):
        stored = np.dtype(np.int32)
    buffer = values.buffers()[1]
    numbers = np.zeros(0, stored) if buffer is None or not len(values) else np.frombuffer(buffer, stored)
    rows = numbers[values.offset * words : (values.offset + len(values)) * words]
    return rows.reshape(-1, 2) if words == 2 else rows


def _arrow(values: npt.NDArray[Any], kind: pa.DataType, absent: Mask) -> pa.Array:
    """An Arrow array over NumPy values of its own."""
    if pa.types.is_string(kind):
        values[absent] = None
        return pa.array(values, kind)
    if pa.types.is_boolean(kind):
        return pa.array(values, kind, mask=absent)
    validity = pa.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)])


def key_values(values: pa.Array) -> list[Any]:
    """The values as Python objects that are equal where keys are: NULL, NaN and both zeros are one value each."""
    kind = values.type
    if pa.types.is_string(kind):
        texts: list[Any] = plain(values).tolist()
        return texts
    found: list[Any] = (from_decimals(values) if pa.types.is_decimal(kind) else plain(values)).tolist()
    if pa.types.is_floating(kind):
        found = [NAN_KEY if number != number else number for number in found]
    rows = missing(values)
    if rows is not None:
        for row in np.flatnonzero(rows).tolist():
            found[row] = None
    return found
