"""One view of raw events, whether columns or rows: which class each row is of, and its fields as typed columns.

In: `Raw` values. Out: pieces, which `history.typed` asks for columns. It knows neither classes nor their rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury.event import key_of
from augury.history.raw import Broken, Raw, RawRows, RawTable, json_literal, json_row, shortened
from augury.history.values import Fitted, fit, fit_objects
from augury.kernels.batch import Integers
from augury.kernels.columns import arrow_type
from augury.kernels.columns.column import Mask, truths
from augury.types import Type

_PIECE_ROWS: Final = 1 << 18
"""Rows of a table that are looked at together: enough for Arrow to be fast, few enough to stay near the processor."""

Codes = npt.NDArray[np.int16]
"""The class of each row, -1 where it has none."""


class Piece(Protocol):
    """Rows that came together; `rows` are indices into it, and None means all of them."""

    @property
    def names(self) -> Sequence[str]:
        """The fields that some row has."""

    def __len__(self) -> int:
        """How many rows there are."""

    def classes(self, names: Sequence[str]) -> tuple[npt.NDArray[Any], list[str]]:
        """An index per row into the distinct texts of a field, -1 where it has none; and these texts."""

    def fitted(self, names: Sequence[str], rows: Integers | None, to: Type) -> Fitted:
        """The first of several fields that a row has, as a column of a type."""

    def texts(self, names: Sequence[str], rows: Integers | None) -> pa.Array:
        """The same as text, whatever it is."""

    def has(self, names: Sequence[str], rows: Integers | None) -> Mask:
        """Which rows have one of the fields, be it NULL."""

    def value(self, names: Sequence[str], row: int) -> object:
        """The field of one row, as it came."""

    def raw(self, row: int) -> str:
        """One row as JSON, shortened."""


def pieces(raw: Raw) -> Iterator[Piece]:
    """What came, in pieces of a good size."""
    match raw:
        case RawTable(table=table, text=text):
            for batch in table.to_batches(max_chunksize=_PIECE_ROWS):
                yield ColumnPiece(batch, text)
        case RawRows(rows=rows, texts=texts):
            plain: list[Mapping[str, object]] = [{} if isinstance(row, Broken) else row for row in rows]
            # In order of appearance, for of two spellings of one name the first counts.
            yield RowPiece(plain, texts, tuple(dict.fromkeys(chain.from_iterable(plain))))


@dataclass(frozen=True, slots=True)
class ColumnPiece:
    """Rows as columns, where a field left out and a NULL are the same; of two columns of one name the first counts."""

    batch: pa.RecordBatch
    text: bool

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return tuple(dict.fromkeys(self.batch.schema.names))

    def __len__(self) -> int:
        """How many rows there are."""
        return int(self.batch.num_rows)

    def classes(self, names: Sequence[str]) -> tuple[npt.NDArray[Any], list[str]]:
        """By dictionary, so that a name is looked at once."""
        column = self._column(names, None)
        if column is None:
            return np.full(len(self), -1), []
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        indices = encoded.indices
        if indices.null_count or pa.types.is_unsigned_integer(indices.type):
            indices = indices.cast(pa.int64()).fill_null(-1)
        codes: npt.NDArray[Any] = indices.to_numpy(zero_copy_only=False)
        found = encoded.dictionary.to_pylist()
        empty = [code for code, name in enumerate(found) if name is None]
        return np.where(np.isin(codes, empty), -1, codes) if empty else codes, [_text(name) for name in found]

    def fitted(self, names: Sequence[str], rows: Integers | None, to: Type) -> Fitted:
        """The column; of several each row has the first that is not NULL."""
        found = Fitted(pa.nulls(len(self) if rows is None else len(rows), arrow_type(to)), None)
        for name in names:
            column = fit(self._rows(name, rows), to, text=self.text)
            found = column if len(names) == 1 else _filled_up(found, column)
        return found

    def texts(self, names: Sequence[str], rows: Integers | None) -> pa.Array:
        """Strings as they are, all else as JSON has it."""
        column = self._column(names, rows)
        assert column is not None
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_integer(column.type):
            return column.cast(pa.string())
        return pa.array([None if v is None else _text(v) for v in column.to_pylist()], pa.string())

    def has(self, names: Sequence[str], rows: Integers | None) -> Mask:
        """All rows, or none."""
        return np.full(len(self) if rows is None else len(rows), bool(names))

    def value(self, names: Sequence[str], row: int) -> object:
        """The first that is not NULL."""
        column = self._column(names, np.array([row]))
        return None if column is None else _python(column[0])

    def raw(self, row: int) -> str:
        """Without what is NULL: most columns may be those of other classes."""
        cells = {name: _python(self._rows(name, None)[row]) for name in self.names}
        return json_row({name: value for name, value in cells.items() if value is not None})

    def _rows(self, name: str, rows: Integers | None) -> pa.Array:
        column = self.batch.column(self.batch.schema.names.index(name))
        return column if rows is None else column.take(pa.array(rows))

    def _column(self, names: Sequence[str], rows: Integers | None) -> pa.Array | None:
        columns = [self._rows(name, rows) for name in names]
        if len(columns) > 1 and all(column.type == columns[0].type for column in columns):
            return pc.coalesce(*columns)
        return columns[0] if columns else None


@dataclass(frozen=True, slots=True)
class RowPiece:
    """Rows as mappings, with the lines they were read from, where there are any."""

    rows: Sequence[Mapping[str, object]]
    lines: Sequence[str] | None
    names: Sequence[str]
    _last: list[tuple[Integers, Sequence[Mapping[str, object]]]] = field(default_factory=list, repr=False)
    """The rows that were chosen last: all fields of a class ask for the same."""

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def classes(self, names: Sequence[str]) -> tuple[Integers, list[str]]:
        """What is no text is looked up as the text of it, and not found."""
        found: dict[str, int] = {}
        known: dict[str, int] = {}

        def code(value: object) -> int:
            number = -1 if value is None else found.setdefault(_text(value), len(found))
            if type(value) is str:
                known[value] = number
            return number

        # Names are few, and rows are many: each name is looked at once.
        values = self._values(names, None)
        codes = [known[v] if type(v) is str and v in known else code(v) for v in values]
        return np.array(codes, np.int64), list(found)

    def fitted(self, names: Sequence[str], rows: Integers | None, to: Type) -> Fitted:
        """Value by value."""
        if not names:
            return Fitted(pa.nulls(len(self) if rows is None else len(rows), arrow_type(to)), None)
        return fit_objects(self._values(names, rows), to)

    def texts(self, names: Sequence[str], rows: Integers | None) -> pa.Array:
        """Strings as they are, all else as JSON has it."""
        return pa.array([None if v is None else _text(v) for v in self._values(names, rows)], pa.string())

    def has(self, names: Sequence[str], rows: Integers | None) -> Mask:
        """Row by row: what is left out is not the same as NULL."""
        chosen = self._chosen(rows)
        return np.fromiter((any(name in row for name in names) for row in chosen), np.bool_, len(chosen))

    def value(self, names: Sequence[str], row: int) -> object:
        """The first that is there."""
        return self._values(names, np.array([row]))[0]

    def raw(self, row: int) -> str:
        """The line as it was, or one that says the same."""
        return json_row(self.rows[row]) if self.lines is None else shortened(self.lines[row])

    def _chosen(self, rows: Integers | None) -> Sequence[Mapping[str, object]]:
        if rows is None:
            return self.rows
        if not self._last or self._last[0][0] is not rows:
            self._last[:] = [(rows, [self.rows[i] for i in rows.tolist()])]
        return self._last[0][1]

    def _values(self, names: Sequence[str], rows: Integers | None) -> list[object]:
        chosen = self._chosen(rows)
        if len(names) == 1:
            only = names[0]
            return [row.get(only) for row in chosen]
        return [next((row[name] for name in names if name in row), None) for row in chosen]


def spelled(piece: Piece, name: str) -> list[str]:
    """The fields of a piece that have a name, in any case."""
    return [field for field in piece.names if key_of(field) == name]


def rows_where(mask: npt.NDArray[np.bool_]) -> Integers | None:
    """The indices of the chosen rows; None if that is all of them."""
    return None if mask.all() else np.flatnonzero(mask)


def valid(values: pa.Array) -> Mask:
    """Where a column is not NULL."""
    return truths(values.is_valid()) if values.null_count else np.ones(len(values), np.bool_)


def _filled_up(found: Fitted, other: Fitted) -> Fitted:
    """A column with what another has where it has neither a value nor a misfit."""
    empty = ~valid(found.values) if found.misfits is None else ~valid(found.values) & ~found.misfits
    misfits = np.zeros(len(empty), np.bool_) if other.misfits is None else other.misfits & empty
    if found.misfits is not None:
        misfits |= found.misfits
    return Fitted(pc.if_else(pa.array(empty), other.values, found.values), misfits if misfits.any() else None)


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else json_literal(value)


def _python(scalar: pa.Scalar) -> object:
    """A value as Python has it; a time beyond Python's reach as the text of its number."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return str(scalar.value)
