"""The rows of a SELECT class as bytes and back, so that the next tick finds what changed since.

In: rows as `engine.rows` has them. Out: bytes, and the rows again. It knows neither keys nor SELECTs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from augury.engine.rows import Made, Rows, whole
from augury.event import EventClass, key_of
from augury.kernels.columns import arrow_type
from augury.kernels.packed import array_bytes, packed, read_array, read_table, table_bytes, unpacked

FORMAT: Final = 1

_SELECT: Final = "SELECT"
_MADE: Final = ("starts", "view", "row")


def saved_rows(rows: Rows) -> bytes:
    """The rows as bytes; they fit a class with these attributes only."""
    schema = rows.attributes.schema
    blobs = {
        "attributes": table_bytes(rows.attributes),
        "occ_time": table_bytes(pa.table({"occ_time": rows.occ_time})),
    }
    if rows.made is not None:
        blobs |= {f"made/{name}": array_bytes(getattr(rows.made, name)) for name in _MADE}
    return packed(_SELECT, FORMAT, _fingerprint(zip(schema.names, schema.types, strict=True)), {}, blobs)


def loaded_rows(data: bytes, event_class: EventClass) -> Rows:
    """The rows again; raises `UnfitState` for what is damaged, of another format or of other attributes."""
    declared = event_class.attributes
    fingerprint = _fingerprint((attribute.name, arrow_type(attribute.type)) for attribute in declared)
    _, blobs = unpacked(_SELECT, FORMAT, fingerprint, data)
    attributes = read_table(blobs["attributes"]).rename_columns([attribute.name for attribute in declared])
    made = None
    if "made/starts" in blobs:
        made = Made(*(read_array(blobs[f"made/{name}"]) for name in _MADE))
    return Rows(attributes, whole(read_table(blobs["occ_time"]).column("occ_time")), made)


def _fingerprint(columns: Iterable[tuple[str, pa.DataType]]) -> str:
    text = repr([(key_of(name), str(kind)) for name, kind in columns])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
