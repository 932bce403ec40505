"""Tables → answers: a page as JSON, or all of it as lines of JSON, CSV or a stream of Arrow.

In: Arrow tables. Out: bytes with their media type. Values keep their digits; times are ISO-8601 with `Z`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import pyarrow as pa

from augury.history.raw import whole_json
from augury.local.shown import csv, ndjson


class Form(StrEnum):
    """How rows are written."""

    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    ARROW = "arrow"


MEDIA: Final = {
    Form.JSON: "application/json",
    Form.NDJSON: "application/x-ndjson",
    Form.CSV: "text/csv",
    Form.ARROW: "application/vnd.apache.arrow.stream",
}


def wanted_form(form: Form | None, accept: str) -> Form:
    """How to write rows: as is asked, or else what the client accepts first, or JSON."""
    if form is not None:
        return form
    accepted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return next((one for kind in accepted for one, media in MEDIA.items() if media == kind), Form.JSON)


def page_text(lines: Iterable[str], **more: object) -> str:
    """A page: rows that are JSON already, and what else is to be said of it."""
    rest = "".join(f", {whole_json(name)}: {whole_json(value)}" for name, value in more.items())
    return f'{{"rows": [{", ".join(lines)}]{rest}}}\n'


def row_texts(table: pa.Table, event: str | None) -> list[str]:
    """The rows of a table, each as JSON."""
    return [line for text in ndjson(table, event) for line in text.removesuffix("\n").split("\n")]


def written(parts: Iterable[pa.Table], form: Form, event: str | None) -> Iterator[bytes]:
    """Tables of one shape, one after the other, in a form that has no end of its own."""
    if form is Form.ARROW:
        yield from _arrow(parts)
        return
    for place, part in enumerate(parts):
        if form is Form.CSV:
            text = csv(part)
            yield text if place == 0 else text.partition(b"\n")[2]
        else:
            yield from (text.encode() for text in ndjson(part, event))


def _arrow(parts: Iterable[pa.Table]) -> Iterator[bytes]:
    sink = io.BytesIO()
    writer: pa.RecordBatchStreamWriter | None = None
    for part in parts:
        writer = writer or pa.ipc.new_stream(sink, part.schema)
        writer.write_table(part)
        yield _taken(sink)
    if writer is not None:
        writer.close()
        yield _taken(sink)


def _taken(sink: io.BytesIO) -> bytes:
    content = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return content
