"""Rows → shapes: what the rows of each class have shown about its columns.

In: rows, one at a time. Out: for each class its columns, with the kinds of values seen and enough of the
values to tell whether they repeat. It decides nothing: that is `guess`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from augury import limits
from augury.event import RESERVED_ATTRIBUTES, key_of
from augury.infer.kinds import Kind, kind_of_string, merged
from augury.infer.log import Log
from augury.infer.rows import Row, Table
from augury.types import DATE, TIMESTAMP, Type

ABSENT: Final = -(2**63)
"""What stands for a missing value among the remembered ones."""

_WHOLE_BY_DOUBLE = 2**53


@dataclass(frozen=True, slots=True)
class Example:
    """A value that showed a kind, and where it stood."""

    value: str
    place: str


@dataclass(slots=True)
class Column:
    """What the values of one field have shown so far."""

    name: str
    kinds: dict[Kind, Example] = field(default_factory=dict)
    present: int = 0
    nulls: int = 0
    times: int = 0
    longest: int = 0
    low: float | None = None
    high: float | None = None
    remembered: array[int] | None = None

    def type(self) -> Type | None:
        """The type that holds all values, None where only text does; NULL where there were none."""
        return merged(self.kinds)

    def see(self, value: Any, kind: Kind, place: Callable[[], str], *, by_schema: bool) -> None:
        """Take note of one value that is there; `by_schema` says that the kind was not read off the value."""
        self.present += 1
        if kind not in self.kinds:
            self.kinds[kind] = Example(shown(value), place())
        if isinstance(value, str):
            self.longest = max(self.longest, len(value))
            told = kind_of_string(value) if by_schema else kind
            self.times += told is TIMESTAMP or told is DATE
        elif isinstance(value, int | float):
            self.times += kind is TIMESTAMP or kind is DATE
            if value == value:
                self.low = value if self.low is None else min(self.low, value)
                self.high = value if self.high is None else max(self.high, value)

    def remember(self, value: Any, row: int) -> None:
        """Keep enough of a value to know it again."""
        if self.remembered is None or isinstance(value, list | dict):
            self.remembered = None
            return
        if len(self.remembered) < row:
            self.remembered.extend([ABSENT] * (row - len(self.remembered)))
        # Python hashes -1 and -2 alike, so whole numbers stand for themselves.
        exact = type(value) is int and ABSENT < value < -ABSENT
        self.remembered.append(value if exact else hash(value))

    def rounded_by_double(self) -> bool:
        """Whether a DOUBLE would not keep every whole number that was seen."""
        sizes = [abs(bound) for bound in (self.low, self.high) if bound is not None]
        return max(sizes, default=0) > _WHOLE_BY_DOUBLE


@dataclass(slots=True)
class Shape:
    """What the rows of one class have shown so far."""

    name: str
    columns: dict[str, Column] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    spellings: set[str] = field(default_factory=set)
    rows: int = 0
    versions: int = 0
    withdrawals: int = 0
    withdrawn_with: set[str] = field(default_factory=set)
    with_occ_time: int = 0
    delivered: set[int] = field(default_factory=set)

    def column(self, name: str) -> Column:
        """The column of exactly that name, new if need be."""
        found = self.columns.get(name)
        if found is None:
            kept = array("q") if len(self.columns) < limits.INFER_KEY_COLUMNS_MAX else None
            found = self.columns[name] = Column(name, remembered=kept)
        return found

    def values(self, column: Column) -> array[int] | None:
        """The remembered values of every version; None if they were not kept or one is missing."""
        kept = column.remembered
        if kept is None or len(kept) < self.versions or ABSENT in kept:
            return None
        return kept


@dataclass(slots=True)
class Gathering:
    """The shapes of all classes seen, by what their names are matched by."""

    shapes: dict[str, Shape] = field(default_factory=dict)
    unnamed: dict[str, Shape] = field(default_factory=dict)
    too_many: int = 0
    _roles: dict[str, str] = field(default_factory=dict)

    def declare(self, table: Table, names: set[str], file_class: str) -> None:
        """Take note of what a Parquet schema says of the classes seen in a file, of empty columns too."""
        roles = {column: self._role(column) for column in table.declared}
        if not names and roles and "event" not in roles.values():
            names = {""}
        for name in sorted(names) if roles else ():
            key = key_of(name or file_class)
            shape = self.shapes.get(key) if name else self.unnamed.setdefault(key, Shape(file_class))
            if shape is None:
                continue
            for column, kind in table.declared.items():
                if roles[column]:
                    shape.reserved.add(roles[column])
                else:
                    shape.column(column).kinds.setdefault(kind, Example("", "the schema"))

    def add(self, row: Row, table: Table, log: Log, file_class: str) -> str | None:
        """Take note of a row; gives the name of its class, empty if it says none, None if it is no use."""
        reserved: dict[str, Any] = {}
        attributes: list[tuple[str, Any]] = []
        for name, value in row.values.items():
            role = self._role(name)
            if not role:
                attributes.append((name, value))
            elif name == role or role not in reserved:
                reserved[role] = value
        name = "" if (event := reserved.get("event")) is None else event
        if not isinstance(name, str):
            log.skip(row.place, "its `event` is not the name of a class", advice="`event` is a string")
            return None
        shape = self._shape(name, file_class)
        if shape is None:
            return name
        shape.rows += 1
        shape.reserved.update(reserved)
        if name:
            shape.spellings.add(name)
        new = self._is_new(shape, reserved, row)
        by_schema = bool(table.declared)
        for attribute, value in attributes:
            column = shape.column(attribute)
            if value is None:
                column.nulls += 1
                continue
            kind = table.kind_of(attribute, value)
            column.see(value, kind, lambda: f"{row.place} of {log.name}", by_schema=by_schema)
            if new:
                column.remember(value, shape.versions)
        shape.versions += new
        self._note_withdrawal(shape, reserved, attributes)
        return name

    def _shape(self, name: str, file_class: str) -> Shape | None:
        if not name:
            return self.unnamed.setdefault(key_of(file_class), Shape(file_class))
        key = key_of(name)
        if key not in self.shapes and len(self.shapes) >= limits.INFER_CLASSES_MAX:
            self.too_many += 1
            return None
        return self.shapes.setdefault(key, Shape(name))

    @staticmethod
    def _is_new(shape: Shape, reserved: dict[str, Any], row: Row) -> bool:
        """Whether the row is no second delivery of an earlier one: those are absorbed and repeat no key."""
        event_id = reserved.get("event_id")
        if event_id is None and reserved.get("occ_time") is None and reserved.get("det_time") is None:
            return True
        mark = row.fingerprint if event_id is None else hash(str(event_id))
        if mark in shape.delivered:
            return False
        shape.delivered.add(mark)
        return True

    @staticmethod
    def _note_withdrawal(shape: Shape, reserved: dict[str, Any], attributes: list[tuple[str, Any]]) -> None:
        if reserved.get("occ_time") is not None:
            shape.with_occ_time += 1
        elif "occ_time" in reserved:
            named = {name for name, value in attributes if value is not None}
            shape.withdrawn_with = shape.withdrawn_with & named if shape.withdrawals else named
            shape.withdrawals += 1

    def _role(self, name: str) -> str:
        """The reserved field that a name means, or nothing."""
        role = self._roles.get(name)
        if role is None:
            folded = key_of(name)
            role = self._roles[name] = folded if folded in RESERVED_ATTRIBUTES else ""
        return role

    def all(self) -> Iterator[Shape]:
        """The shapes in order of first sight, those named by events first."""
        yield from self.shapes.values()
        yield from (shape for key, shape in self.unnamed.items() if key not in self.shapes)

    def hidden(self) -> Iterator[Shape]:
        """Those of rows without `event` whose files are named like a class of others."""
        yield from (shape for key, shape in self.unnamed.items() if key in self.shapes)


def shown(value: Any) -> str:
    """A value on one line, short and harmless."""
    if isinstance(value, list | dict):
        return "[…]" if isinstance(value, list) else "{…}"
    text = value if isinstance(value, str) else str(value)
    cut = text if len(text) <= 40 else text[:39] + "…"
    return "".join(ch if ch.isprintable() else "\ufffd" for ch in cut)
