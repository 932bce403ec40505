"""A store in a file of SQLite: connections, the lock that keeps a second writer away, and values in bulk.

How values are kept, so that each comes back as it was and most compare in SQL as one expects: moments are ISO texts of
fixed width with six digits and `Z`, days ISO texts, truths 0 and 1, constituents JSON. A NUMERIC is a number where that
is exact, else a text of all its digits with ` exact` behind (CAST makes a number of both). NaN is the text `NaN`, which
SQLite lacks, and a zero with a sign is `-0.0 exact`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.pool import QueuePool

from augury.engine.history_rows import one_chunk
from augury.kernels.columns.column import Mask
from augury.local.store.errors import NoStore, StoreInUse
from augury.local.store.tables import fixed_width

_LARGE_CACHE: Final = "PRAGMA cache_size = -65536"
"""In KiB: what a large commit writes need not be written twice."""

_BUSY_MS: Final = 10_000
_ROWS_AT_ONCE: Final = 50_000
_EXACT: Final = " exact"
_INT_DIGITS: Final = 18
"""Digits that a whole number of 64 bits has in any case."""

_FLOAT_DIGITS: Final = 15
"""Digits that a floating-point number keeps in any case."""

_FEW_ROWS: Final = 20
_ROWS_A_STATEMENT: Final = 50


class Sqlite:
    """A file that holds a store."""

    def __init__(self, path: str) -> None:
        """Note the path; nothing is opened. Raises `NoStore` for a folder, as lakes are."""
        self.place = path
        self._path = Path(path).expanduser().absolute()
        if self._path.is_dir():
            raise NoStore(f"`{path}` is a folder, and this takes a file of SQLite or postgresql://HOST/DATABASE")
        self._locks: list[int] = []
        self._engines: list[sa.Engine] = []
        self._readers: sa.Engine | None = None

    def exists(self) -> bool:
        """Whether the file is there, and not empty."""
        return self._path.is_file() and self._path.stat().st_size > 0

    def readers(self) -> sa.Engine:
        """Connections that only read; WAL lets them do so while another writes."""
        if self._readers is None:
            self._readers = self._engine("BEGIN", "PRAGMA query_only = ON", size=5)
        return self._readers

    def writer(self) -> sa.Engine:
        """The connection that writes: what it commits is on the disk."""
        self._take_lock(".lock", "written")
        return self._engine(
            "BEGIN IMMEDIATE", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", _LARGE_CACHE, size=1
        )

    def beside(self, alone: bool) -> sa.Engine:
        """A connection that notes what became of actions while another writes ticks."""
        if alone:
            self._take_lock(".delivering", "delivered from")
        return self._engine("BEGIN IMMEDIATE", "PRAGMA synchronous = FULL", size=1)

    def insert(self, connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
        """Add rows, a column at a time up to the very last step."""
        quote = connection.dialect.identifier_preparer.quote
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            part = _bound(rows.slice(start, _ROWS_AT_ONCE), [quote(column.name) for column in table.c])
            for statement, values in part.statements(quote(table.name)):
                connection.exec_driver_sql(statement, values)

    def append(self, connection: sa.Connection, inbox: sa.Table, posts: Sequence[tuple[int, str]]) -> list[int]:
        """Add posts; there is one writer, so the places after the last that was given are free."""
        last = connection.exec_driver_sql("SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (inbox.name,)).scalar()
        first = (last or 0) + 1
        times = {det_time: fixed_width(det_time) for det_time in {det_time for det_time, _ in posts}}
        rows = [
            (first + number, times[det_time], line.encode("utf-8", "backslashreplace").decode())
            for number, (det_time, line) in enumerate(posts)
        ]
        connection.exec_driver_sql(f"INSERT INTO {inbox.name} (place, det_time, line) VALUES (?, ?, ?)", rows)
        return list(range(first, first + len(rows)))

    def select(self, connection: sa.Connection, statement: sa.Select[Any], schema: pa.Schema) -> pa.Table:
        """The rows of a SELECT, converted column by column."""
        plain = statement.with_only_columns(
            *(sa.type_coerce(c, sa.types.NullType()) for c in statement.selected_columns)
        )
        with connection.execute(plain) as result:
            rows = result.cursor.fetchall()
        columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else repeat((), len(schema))
        return pa.table([arrow(c, field.type) for c, field in zip(columns, schema, strict=True)], schema=schema)

    def close(self) -> None:
        """Close all connections, and let others write."""
        for engine in self._engines:
            engine.dispose()
        while self._locks:
            os.close(self._locks.pop())

    def _engine(self, begin: str, *pragmas: str, size: int) -> sa.Engine:
        url = sa.URL.create("sqlite", database=str(self._path))
        engine = sa.create_engine(url, poolclass=QueuePool, pool_size=size, max_overflow=0)
        self._engines.append(engine)

        def connected(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # the driver begins nothing by itself
            for pragma in (f"PRAGMA busy_timeout = {_BUSY_MS}", "PRAGMA foreign_keys = OFF", *pragmas):
                connection.execute(pragma).fetchall()

        sa.event.listen(engine, "connect", connected)
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine

    def _take_lock(self, suffix: str, done: str) -> None:
        """Lock a file beside the database; the kernel unlocks it when the process ends, however it ends."""
        path = self._path.resolve()
        if not path.parent.is_dir():
            raise NoStore(f"there is no folder `{Path(self.place).parent}` for a store")
        try:
            lock = os.open(f"{path}{suffix}", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise NoStore(f"the store `{self.place}` cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
            os.close(lock)
            who = f"process {holder}" if holder else "another process"
            raise StoreInUse(f"the store `{self.place}` is already being {done} by {who}; end that first") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._locks.append(lock)


@dataclass(frozen=True, slots=True)
class _Bound:
    """Rows to be inserted: what is the same in all stands in the statement, and only the rest is bound.

    Several rows are one statement: of the time that a row takes, half goes into starting over.
    """

    columns: list[str]
    marks: str
    width: int
    flat: list[Any]

    def statements(self, table: str) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """The statements, with the values of each execution."""
        step = self.width * _ROWS_A_STATEMENT
        whole = len(self.flat) // step * step
        insert = f"INSERT INTO {table} ({', '.join(self.columns)}) VALUES "
        if whole:
            values = [tuple(self.flat[at : at + step]) for at in range(0, whole, step)]
            yield insert + ", ".join([self.marks] * _ROWS_A_STATEMENT), values
        if rest := tuple(self.flat[whole:]):
            yield insert + ", ".join([self.marks] * (len(rest) // self.width)), [rest]


def _bound(rows: pa.Table, names: Sequence[str]) -> _Bound:
    columns, marks, bound = [], [], []
    are_few = rows.num_rows < _FEW_ROWS
    for name, column in zip(names, rows.columns, strict=True):
        values = one_chunk(column)
        if values.null_count == len(values):
            continue
        columns.append(name)
        if not are_few and (text := _one_time(values)) is not None:
            marks.append(f"'{text}'")
        else:
            marks.append("?")
            bound.append(few_cells(values) if are_few else cells(values))
    flat = [None] * (rows.num_rows * len(bound))
    for place, cells_ in enumerate(bound):
        flat[place :: len(bound)] = cells_
    return _Bound(columns, f"({', '.join(marks)})", len(bound), flat)


def _one_time(values: pa.Array) -> str | None:
    """The time that all rows have, if so."""
    if not pa.types.is_timestamp(values.type) or values.null_count:
        return None
    least, greatest = pc.min_max(values.cast(pa.int64())).as_py().values()
    return str(_times(values[:1])[0]) if least == greatest else None


# ---- values, as SQLite takes them ---------------------------------------------------------------------------


def cells(values: pa.Array) -> list[Any]:
    """The values of a column as they are bound."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return _times(values)
    if pa.types.is_decimal(kind):
        return _decimals(values)
    if pa.types.is_floating(kind):
        return _floats(values)
    if pa.types.is_date(kind):
        return _objects(values.cast(pa.string()))
    if pa.types.is_list(kind):
        joined = pc.binary_join(values.cast(pa.list_(pa.string())), ", ")
        return _objects(pc.binary_join_element_wise("[", joined, "]", ""))
    return _objects(values.cast(pa.int64()) if pa.types.is_duration(kind) else values)


def few_cells(values: pa.Array) -> list[Any]:
    """The same, value by value where that is plain: for a few, one function of Arrow costs more than all of that."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return [None if us is None else fixed_width(us) for us in values.cast(pa.int64()).to_pylist()]
    if pa.types.is_list(kind):
        return [None if one is None else f"[{', '.join(map(str, one))}]" for one in values.to_pylist()]
    if pa.types.is_integer(kind) or pa.types.is_string(kind):
        found: list[Any] = values.to_pylist()
        return found
    return cells(values)


def _objects(values: pa.Array) -> list[Any]:
    """As Python values, by way of NumPy: several times as fast as `to_pylist` for numbers."""
    if not values.null_count or pa.types.is_string(values.type):
        found: list[Any] = values.to_numpy(zero_copy_only=False).tolist()
        return found
    absent: Mask = values.is_null().to_numpy(zero_copy_only=False)
    filled = values.fill_null(False if pa.types.is_boolean(values.type) else 0)
    objects = filled.to_numpy(zero_copy_only=False).astype(object)
    objects[absent] = None
    cells: list[Any] = objects.tolist()
    return cells


def _times(values: pa.Array) -> list[Any]:
    text = values.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    return _objects(pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "Z", ""))


def _floats(values: pa.Array) -> list[Any]:
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    odd = np.isnan(numbers) | ((numbers == 0) & np.signbit(numbers))
    if not odd.any():
        return _objects(values)
    objects = np.array(_objects(values), object)
    objects[odd] = np.where(np.isnan(numbers[odd]), "NaN", f"-0.0{_EXACT}")
    found: list[Any] = objects.tolist()
    return found


def _decimals(values: pa.Array) -> list[Any]:
    """A number where it is told from all others by its shortest spelling, as which it is read again."""
    if values.type.scale == 0 and values.type.precision <= _INT_DIGITS:
        return _objects(values.cast(pa.int64()))
    if values.type.precision <= _FLOAT_DIGITS:
        whole = np.frombuffer(values.buffers()[1], np.int64)[::2][values.offset : values.offset + len(values)]
        return _objects(pa.array(whole / 10.0**values.type.scale, mask=values.is_null().to_numpy(zero_copy_only=False)))
    numbers = values.cast(pa.string()).cast(pa.float64())
    back = numbers.cast(pa.string())
    try:
        exact: Mask = pc.equal(back.cast(values.type), values).fill_null(True).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # a number that is greater than the type has
        exact = np.zeros(len(values), np.bool_)
    found = _objects(numbers)
    for row in np.flatnonzero(~exact).tolist():
        value = values[row].as_py()
        found[row] = None if value is None else f"{value:f}{_EXACT}"
    return found


# ---- and back -----------------------------------------------------------------------------------------------


def arrow(column: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column as SQLite gave it."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.array(column, pa.string()).cast(kind)
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return _numbers(column, kind)
    if pa.types.is_boolean(kind):
        return pa.array(column, pa.int64()).cast(kind)
    if pa.types.is_list(kind):
        return lists(pa.array(column, pa.string()), kind)
    if pa.types.is_duration(kind):
        return pa.array(column, pa.int64()).cast(kind)
    return pa.array(column, kind)


def _numbers(column: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        numbers = pa.array(column, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):  # texts are among them, or whole numbers that are too large
        if pa.types.is_floating(kind):
            return pa.array(_each(column, _number), kind)
        return pa.array(_each(column, _digits), pa.string()).cast(kind)
    return numbers if pa.types.is_floating(kind) else numbers.cast(pa.string()).cast(kind)


def _each(column: Sequence[Any], read: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else read(value) for value in column]


def _digits(value: int | float | str) -> str:
    return value.removesuffix(_EXACT) if isinstance(value, str) else repr(value)


def _number(value: float | str) -> float:
    return float(value.removesuffix(_EXACT)) if isinstance(value, str) else float(value)


def lists(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Lists of whole numbers, from `[3, 7]` or `{3,7}`."""
    inside = pc.replace_substring_regex(texts, r"[\[\]{} ]", "")
    # What is split has at least one part, also where there is nothing.
    parts = pc.split_pattern(pc.if_else(pc.equal(inside, ""), None, inside), ",").cast(kind)
    if not pc.any(pc.equal(inside, "")).as_py():
        return parts
    empty = pa.array([[]], kind).take(pa.array(np.zeros(len(texts), np.int64)))
    return pc.if_else(pc.equal(inside, "").fill_null(False), empty, parts)
