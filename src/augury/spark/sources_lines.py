"""The shape in which text comes: one event a row, with its place, and why a row can be none.

In: lines as Spark's readers give them, as bytes with the file and the split they stand in. Out: rows of `LINES`, in
Arrow batches, for `mapInArrow`. What a line says is not looked at: that is the engine's, which tells the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from augury import limits
from augury.history.raw import RAW_SHOWN_MAX

Batches = Iterator[pa.RecordBatch]

LINES: Final = "line string, source string, position bigint, event string, refused string"
"""An event as JSON, its file or topic, its place there, its class if it does not name one; why it can be no event."""

_ARROW: Final = pa.schema(
    [
        ("line", pa.string()),
        ("source", pa.string()),
        ("position", pa.int64()),
        ("event", pa.string()),
        ("refused", pa.string()),
    ]
)
NOT_UTF8: Final = "it is not UTF-8"
TOO_LONG: Final = f"it is longer than {limits.INFER_LINE_BYTES_MAX:,} bytes"

_BOM: Final = b"\xef\xbb\xbf"
_ENDINGS: Final = re.compile(r"(\.(jsonl|ndjson|json|csv|tsv|parquet|pq))?(\.gz)?$", re.IGNORECASE)


class SourceError(ValueError):
    """A source or sink that cannot be made as asked; the message says what is wrong and what to do."""


def deepest(error: Any) -> str:
    """The first line of what lies at the bottom of an error of Java, as far as it says anything."""
    while error.getCause() is not None and error.getCause().getMessage():
        error = error.getCause()
    return str(error.getMessage()).split("\n", 1)[0]


_UNREAD: Final = re.compile(r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (.*?)\.(?:\s|$)")
_CAUSE: Final = re.compile(r"^Caused by: [\w.$]+: (.*)$", re.MULTILINE)


@contextmanager
def reading() -> Iterator[None]:
    """Of a file that Spark cannot read `SourceError` says which it is and why, instead of a trace of Java."""
    try:
        yield
    except Exception as error:
        found = _UNREAD.search(str(error))
        if found is None:
            raise
        causes = [text for text in _CAUSE.findall(str(error)) if "FAILED_READ_FILE" not in text]
        why = causes[-1] if causes else "it is damaged, or no such file"
        raise SourceError(
            f"`{path_shown(found[1])}` cannot be read: {why}; get a whole copy of it, or move it away"
        ) from None


Row = tuple[str, str, int, str | None, str | None]
"""A row of `LINES`."""


def lines_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as a batch of `LINES`."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(_ARROW)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def path_shown(uri: str) -> str:
    """The path of a file as people write it; one that is not on a local disk keeps its scheme."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else unquote(uri)


def class_named(path: str) -> str:
    """The class that the name of a file tells, for rows that do not name theirs."""
    return _ENDINGS.sub("", path.rsplit("/", 1)[-1])


@dataclass(frozen=True, slots=True)
class NumberLines:
    """Lines of files → `LINES`: value (bytes), path, start (of the split) in; `event` is the class of all of them.

    Splits are read in order, so a line is known by where its split begins and its number there. The first split counts
    1, 2, 3, …, and so does a file that is not split. A later one, which begins at byte s, counts from s + 2: it can
    hold no more lines than bytes, so its numbers end before those of the next.
    """

    event: str | None

    def __call__(self, batches: Batches) -> Batches:
        """Number the lines of one partition."""
        split: tuple[str, int] | None = None
        before, source, event, count = 0, "", self.event, 0
        for batch in batches:
            rows: list[Row] = []
            columns = (batch.column(name).to_pylist() for name in ("value", "path", "start"))
            for value, path, start in zip(*columns, strict=True):
                if (path, start) != split:
                    split, count = (path, start), 0
                    before = start + 1 if start else 0
                    source = path_shown(path)
                    event = self.event or class_named(source)
                    value = value.removeprefix(_BOM) if start == 0 else value
                count += 1
                filled = value.strip()
                if filled:
                    line, refused = text_of(filled)
                    rows.append((line, source, before + count, event, refused))
            yield lines_batch(rows)


def text_of(value: bytes) -> tuple[str, str | None]:
    """Bytes as text, or as far as they are text, and why they can be no event."""
    if len(value) > limits.INFER_LINE_BYTES_MAX:
        return value[: RAW_SHOWN_MAX * 4].decode("utf-8", "replace"), TOO_LONG
    try:
        return value.decode(), None
    except UnicodeDecodeError:
        return value[: RAW_SHOWN_MAX * 4].decode("utf-8", "replace"), NOT_UTF8
