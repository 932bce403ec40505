"""Event classes → what their tables, views and columns are called in a database.

A table is called like its class, a column like its attribute, unless that cannot be: too long for PostgreSQL, or a name
of the database's or of ours. Then it has a hash of the name behind it, or a `_`, always the same for the same name, and
the catalogue says so. What a store calls a class once stays so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from augury.event import EventClass, key_of
from augury.history.views import system_names

_BYTES_MAX: Final = 63
"""What PostgreSQL keeps of a name; it cuts the rest without a word."""

_HASH_DIGITS: Final = 8
_PREFIXES_TAKEN: Final = ("augury_", "sqlite_", "pg_")
_COLUMNS_TAKEN: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Columns that every table of PostgreSQL has."""


@dataclass(frozen=True, slots=True)
class ClassNames:
    """What the table of a class, the view of its current versions and its archive are called."""

    table: str
    now: str
    archive: str


def class_names(classes: Iterable[EventClass], known: Iterable[ClassNames]) -> list[ClassNames]:
    """Names for new classes beside those that are taken: first the tables, so that they are called like the classes."""
    taken = {key_of(name) for names in known for name in (names.table, names.now, names.archive)}
    wanted = [event_class.name for event_class in classes]
    tables = [_new(name, taken) for name in wanted]
    return [
        ClassNames(table, _new(f"{name}_now", taken), _new(f"{name}_archive", taken))
        for name, table in zip(wanted, tables, strict=True)
    ]


def attribute_columns(event_class: EventClass) -> list[str]:
    """The columns of the attributes, as declared."""
    return _columns([attribute.name for attribute in event_class.attributes])


def system_columns(event_class: EventClass) -> list[str]:
    """The columns that are no attributes, in the order of `history.views`."""
    return list(system_names(event_class).all())


def shortened(name: str) -> str:
    """The name, or where it is too long its beginning and a hash of the whole."""
    return name if len(name.encode()) <= _BYTES_MAX else _hashed(name)


def _columns(names: list[str]) -> list[str]:
    taken = {key_of(name) for name in names}
    found = []
    for name in names:
        column = shortened(name)
        while column != name and key_of(column) in taken:
            column = _hashed(column)
        if key_of(column) in _COLUMNS_TAKEN:
            column += "_"
            while key_of(column) in taken:
                column += "_"
        taken.add(key_of(column))
        found.append(column)
    return found


def _new(name: str, taken: set[str]) -> str:
    """A name that nothing has yet; it is taken then."""
    found = shortened(name)
    if key_of(found).startswith(_PREFIXES_TAKEN) or key_of(found) in taken:
        found = _hashed(f"class_{name}" if key_of(found).startswith(_PREFIXES_TAKEN) else name)
    while key_of(found) in taken:
        found = _hashed(found)
    taken.add(key_of(found))
    return found


def _hashed(name: str) -> str:
    digest = sha256(name.encode()).hexdigest()[:_HASH_DIGITS]
    beginning = name.encode()[: _BYTES_MAX - 1 - _HASH_DIGITS].decode("utf-8", "ignore")
    return f"{beginning}_{digest}"
