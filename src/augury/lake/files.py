"""Rows and bytes → files of a lake, and back. A `LakeFiles` is just a path: tasks take it along to any machine.

In: Arrow tables and bytes. Out: Parquet files (zstd, with checksums of pages and footer) and sealed bytes, each under a
name that nobody else has. What is written is no part of the lake before a manifest names it.
"""

from __future__ import annotations

import hashlib
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from augury.algebra.rule import Trigger
from augury.engine.firing_rows import FIRING_COLUMNS, shape_of
from augury.event import EventClass
from augury.history.views import system_names
from augury.lake.damage import corrupt_file
from augury.lake.manifest import FileEntry, Kind
from augury.lake.storage import Storage
from augury.lake.systems import storage_of

_MAGIC: Final = b"augury lake bytes 1\n"
_NAME_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class LakeFiles:
    """The files of a lake, by the path or URI of its root."""

    root: str

    def write_table(
        self, kind: Kind | str, event_class: EventClass | str, table: pa.Table, *, tag: str, replaces: str = ""
    ) -> FileEntry:
        """Write rows; `tag` begins the name, and files of one tick stand in the order of their tags.

        The columns `tick` and `seq` give the bounds. Of a class with attributes of these names the `EventClass` itself
        has to be given: ours are then called otherwise. A file that `replaces` another takes its place.
        """
        name = event_class if isinstance(event_class, str) else event_class.name
        tick, seq = ("tick", "seq") if isinstance(event_class, str) else _names(event_class)
        stem = _stem_after(replaces) if replaces else f"{_quoted(tag)}-{uuid.uuid4().hex}"
        path, size = self._written(Kind(kind), name, stem, table)
        return FileEntry(Kind(kind), name, path, table.num_rows, size, *_bounds(table, tick), *_bounds(table, seq))

    def write_firings(self, trigger: Trigger, table: pa.Table, *, tag: str) -> FileEntry:
        """Write firings of a trigger, with the columns of `engine.firing_rows`."""
        names = dict(zip(FIRING_COLUMNS, shape_of(trigger.parameters).names, strict=True))
        path, size = self._written(Kind.FIRINGS, trigger.name, f"{_quoted(tag)}-{uuid.uuid4().hex}", table)
        bounds = (*_bounds(table, names["tick"]), *_bounds(table, names["seq"]))
        return FileEntry(Kind.FIRINGS, trigger.name, path, table.num_rows, size, *bounds)

    def write_merged(self, entries: Sequence[FileEntry], table: pa.Table) -> FileEntry:
        """Write all rows of some files as one, which takes the place of the first."""
        first = entries[0]
        path, size = self._written(first.kind, first.event_class, _stem_after(first.path), table)
        bounds = {
            name: choose((found for one in entries if (found := getattr(one, name)) is not None), default=None)
            for name, choose in (("min_tick", min), ("max_tick", max), ("min_seq", min), ("max_seq", max))
        }
        return FileEntry(first.kind, first.event_class, path, table.num_rows, size, **bounds)

    def _written(self, kind: Kind, event_class: str, stem: str, table: pa.Table) -> tuple[str, int]:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        content = memoryview(sink.getvalue())
        name = f"{stem}-{_footer_checksum(pa.BufferReader(content))}.parquet"
        path = "/".join(part for part in (kind.value, _quoted(event_class), name) if part)
        self.storage().write(path, content)
        return path, len(content)

    def read_table(self, path: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file; raises `CorruptFile`."""
        storage = self.storage()
        wanted = None if columns is None else list(columns)
        try:
            with storage.open(path) as source:
                if not path.endswith(f"-{_footer_checksum(source)}.parquet"):
                    raise pa.ArrowInvalid("its footer does not have the checksum that its name ends with")
                found = pq.ParquetFile(source, page_checksum_verification=True).read(columns=wanted)
        except FileNotFoundError:
            raise corrupt_file(storage, path, "is gone") from None
        except (pa.ArrowException, OSError) as error:
            raise corrupt_file(storage, path, f"is damaged ({_short(error)})") from None
        return found if wanted is None else found.select(wanted)

    def write_bytes(self, kind: str, name: str, content: bytes) -> str:
        """Write bytes that only whoever wrote them understands, with a checksum; gives the path."""
        inner = "/".join(_quoted(part) for part in name.split("/"))
        path = f"{kind}/{inner}-{uuid.uuid4().hex}.{'state' if kind == 'state' else 'bin'}"
        self.storage().write(path, _MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
        return path

    def read_bytes(self, path: str) -> bytes:
        """The bytes that were written; raises `CorruptFile`."""
        storage = self.storage()
        try:
            data = storage.read(path)
        except FileNotFoundError:
            raise corrupt_file(storage, path, "is gone") from None
        checksum, found, content = data[len(_MAGIC) :].partition(b"\n")
        if not data.startswith(_MAGIC) or not found:
            raise corrupt_file(storage, path, "is damaged: it does not begin as it should")
        if hashlib.sha256(content).hexdigest().encode() != checksum:
            raise corrupt_file(storage, path, "is damaged: its content does not have its checksum")
        return content

    def full(self, path: str) -> str:
        """The path as other programs take it."""
        return self.storage().full(path)

    def storage(self) -> Storage:
        """Where the files are."""
        return storage_of(self.root)


def _footer_checksum(source: Any) -> str:
    """What tells a footer from a damaged one: Parquet has checksums for pages alone."""
    size = source.size()
    length = int.from_bytes(source.read_at(8, max(size - 8, 0))[:4], "little")
    return f"{zlib.crc32(source.read_at(length + 8, max(size - 8 - length, 0))):08x}"


def _names(event_class: EventClass) -> tuple[str, str]:
    names = system_names(event_class)
    return names.tick, names.seq


def _bounds(table: pa.Table, column: str) -> tuple[int | None, int | None]:
    if column not in table.column_names or not table.num_rows:
        return None, None
    values = table[column]
    whole = values if pa.types.is_integer(values.type) else values.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    found: Any = pc.min_max(whole).as_py()
    return found["min"], found["max"]


def _stem_after(path: str) -> str:
    """A name that stands where that of a file stands; what earlier replacements added to it goes."""
    return path.rpartition("/")[2].removesuffix(".parquet").partition("~")[0] + f"~{uuid.uuid4().hex}"


def _quoted(name: str) -> str:
    """A name that every file system can have, and that tools which read folders do not take for hidden."""
    quoted = quote(name, safe="").replace("~", "%7E")
    if quoted[:1] in ("_", "."):
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    if len(quoted) <= _NAME_MAX:
        return quoted
    return quoted[: _NAME_MAX - 17] + "-" + hashlib.sha256(name.encode()).hexdigest()[:16]


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0].rstrip(". ")[:200] if str(error) else type(error).__name__
