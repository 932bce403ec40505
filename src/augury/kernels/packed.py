"""Named arrays and tables as bytes: a header and the lengths of all parts as a line of JSON, then part after part.

In: what a state holds, and whose it is. Out: sealed bytes; and the parts again, or `UnfitState`. It knows no state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.kernels.sealed import sealed, unsealed

Header = dict[str, Any]
"""Plain values, which JSON has."""


def packed(operator: str, version: int, fingerprint: str, header: Header, blobs: Mapping[str, bytes]) -> bytes:
    """The state of an operator as bytes."""
    line = json.dumps(header | {"blobs": [[name, len(blob)] for name, blob in blobs.items()]})
    return sealed(operator, version, fingerprint, b"".join([line.encode(), b"\n", *blobs.values()]))


def unpacked(operator: str, version: int, fingerprint: str, data: bytes) -> tuple[Header, dict[str, bytes]]:
    """Header and parts; raises `UnfitState` for what is damaged, of another format or of another fingerprint."""
    content = unsealed(operator, version, fingerprint, data)
    end = content.index(b"\n")
    header = json.loads(content[:end])
    blobs: dict[str, bytes] = {}
    begin = end + 1
    for name, size in header["blobs"]:
        blobs[name] = content[begin : begin + size]
        begin += size
    return header, blobs


def array_bytes(array: npt.NDArray[Any]) -> bytes:
    """The type and shape of an array on a line, then what it holds."""
    return f"{array.dtype.str} {' '.join(map(str, array.shape))}\n".encode() + array.tobytes()


def read_array(data: bytes) -> npt.NDArray[Any]:
    """The array again, to be written to."""
    begin = data.index(b"\n") + 1
    kind, *shape = data[:begin].decode().split()
    return np.frombuffer(data, np.dtype(kind), offset=begin).reshape([int(size) for size in shape]).copy()


def table_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def read_table(data: bytes) -> pa.Table:
    """The table again; its columns lie in the bytes."""
    return pa.ipc.open_stream(data).read_all()
