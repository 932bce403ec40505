"""Event classes → what their tables, views and columns are called in a database.

A table is called like its class, a column like its attribute, unless that cannot be: too long for PostgreSQL, or a name
of the database's or of ours. Then it has a hash of the name behind it, or a `_`, always the same for the same name, and
the catalogue says so. What a store calls a class once stays so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def class_names(
    classes: Iterable[EventClass], known: Iterable[ClassNames], others: Iterable[str] = ()
) -> list[ClassNames]:
    """Names for new classes beside those that are taken: first the tables, so that they are called like the classes."""
    taken = _taken(known, others)
    wanted = [event_class.name for event_class in classes]
    tables = [_new(name, taken) for name in wanted]
    return [
        ClassNames(table, _new(f"{name}_now", taken), _new(f"{name}_archive", taken))
        for name, table in zip(wanted, tables, strict=True)
    ]


def trigger_names(triggers: Iterable[str], known: Iterable[ClassNames], others: Iterable[str]) -> list[str]:
    """Names for the tables of new triggers beside those that are taken."""
    taken = _taken(known, others)
    return [_new(name, taken, "trigger") for name in triggers]


def former_name(name: str, count: int, known: Iterable[ClassNames], others: Iterable[str]) -> str:
    """A name for what a class had found before it changed for the n-th time."""
    return _new(f"{name}_before_{count}", _taken(known, others))


def _taken(known: Iterable[ClassNames], others: Iterable[str]) -> set[str]:
    names = [name for names in known for name in (names.table, names.now, names.archive)]
    return {key_of(name) for name in (*names, *others)}


def attribute_columns(event_class: EventClass) -> list[str]:
    """The columns of the attributes, as declared."""
    return columns_for([attribute.name for attribute in event_class.attributes])


def system_columns(event_class: EventClass) -> list[str]:
    """The columns that are no attributes, in the order of `history.views`."""
    return list(system_names(event_class).all())


def shortened(name: str) -> str:
    """The name, or where it is too long its beginning and a hash of the whole."""
    return name if len(name.encode()) <= _BYTES_MAX else _hashed(name)


def columns_for(names: Sequence[str]) -> list[str]:
    """The columns of attributes or parameters with these names."""
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


def free_column(name: str, kind: str, taken: set[str]) -> str:
    """A column for a parameter that comes when the table is already there, with its type where it must be told."""
    [found] = columns_for([name])
    while key_of(found) in taken:
        found = _hashed(f"{found} {kind}")
    return found


def _new(name: str, taken: set[str], kind: str = "class") -> str:
    """A name that nothing has yet; it is taken then."""
    found = shortened(name)
    if key_of(found).startswith(_PREFIXES_TAKEN) or key_of(found) in taken:
        found = _hashed(f"{kind}_{name}" if key_of(found).startswith(_PREFIXES_TAKEN) else name)
    while key_of(found) in taken:
        found = _hashed(found)
    taken.add(key_of(found))
    return found


def _hashed(name: str) -> str:
    digest = sha256(name.encode()).hexdigest()[:_HASH_DIGITS]
    beginning = name.encode()[: _BYTES_MAX - 1 - _HASH_DIGITS].decode("utf-8", "ignore")
    return f"{beginning}_{digest}"
