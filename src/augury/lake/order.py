"""The rows of a class as its files hold them → the history that people see: in its order, numbered from 1.

In: Arrow tables. Out: an order, places, and tables with the columns of `history.views`. Files carry numbers that are
unique and not dense; where retention left versions out, a table of kind `numbers` says which places the others had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from augury.algebra.program import Program
from augury.algebra.select import SelectPlan
from augury.engine.ledger import PLACE, history_order
from augury.event import ClassKind, EventClass
from augury.history.views import history_schema, system_names
from augury.kernels.batch import Integers

Order = Callable[[EventClass, pa.Table], Integers]
"""The rows of a class in the order of its history; `tick` comes before all else."""

NUMBERS_SCHEMA: Final = pa.schema([("number", pa.int64()), ("place", pa.int64())])
"""Places of versions; the row without a number has how many versions there were before all that are not named."""


@dataclass(frozen=True, slots=True)
class Places:
    """The places that versions had before others were left out; `numbers` ascend, and `base` of all came before."""

    numbers: Integers
    places: Integers
    base: int = 0


NO_PLACES: Final = Places(np.empty(0, np.int64), np.empty(0, np.int64))


def by_tick(event_class: EventClass, table: pa.Table) -> Integers:
    """By tick, then `seq` (none comes first), then number."""
    names = system_names(event_class)
    keys = (whole(table[names.number]), whole(table[names.seq]), whole(table[names.tick]))
    order: Integers = np.lexsort(keys)
    return order


def order_of(program: Program) -> Order:
    """The order of the contract where files say which place a version has, as ledgers do; else `by_tick`."""

    def order(event_class: EventClass, table: pa.Table) -> Integers:
        if PLACE not in table.column_names or table[PLACE].null_count:
            return by_tick(event_class, table)
        plan = program.class_plan(event_class.name)
        by_key = plan is not None and isinstance(plan.derivation, SelectPlan)
        return history_order(event_class, table, by_key=by_key)

    return order


def whole(column: pa.ChunkedArray) -> Integers:
    """A column of integers or times as integers; none is the least."""
    least = np.iinfo(np.int64).min
    numbers: Integers = column.cast(pa.int64()).fill_null(least).to_numpy().astype(np.int64)
    return numbers


def conformed(table: pa.Table, event_class: EventClass) -> pa.Table:
    """The columns that the class has now, and behind them what else the file has; NULL where it has none."""
    schema = history_schema(event_class)
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    others = [name for name in table.column_names if name not in schema.names]
    return pa.table([*columns, *(table[name] for name in others)], [*schema.names, *others])


def places_of(table: pa.Table | None) -> Places:
    """What a file of kind `numbers` says."""
    if table is None:
        return NO_PLACES
    numbered = table.filter(table["number"].is_valid()).sort_by("number")
    base = table.filter(table["number"].is_null())["place"].to_pylist()
    return Places(whole(numbered["number"]), whole(numbered["place"]), max(base, default=0))


def numbers_table(places: Places) -> pa.Table:
    """The same as a table."""
    numbers = pa.array(np.append(places.numbers, 0), mask=np.append(np.zeros(len(places.numbers), np.bool_), True))
    return pa.table([numbers, pa.array(np.append(places.places, places.base))], schema=NUMBERS_SCHEMA)


def placed(numbers: Integers, kept: Places) -> Integers:
    """The place of each version, counted from 1, where all stand in the order of the history."""
    found, at = _among(numbers, kept.numbers)
    counted: Integers = kept.base + np.cumsum(~found)
    if not len(kept.numbers):
        return counted
    return np.where(found, kept.places[at], counted)


def shown(table: pa.Table, event_class: EventClass, kept: Places = NO_PLACES) -> pa.Table:
    """Rows that stand in the order of the history, numbered by place, with the columns of `history_schema` alone."""
    names, schema = system_names(event_class), history_schema(event_class)
    numbers = whole(table[names.number])
    places = placed(numbers, kept)
    found = table.select(schema.names).set_column(0, schema.field(0), pa.array(places))
    if names.event_number is not None and event_class.kind is ClassKind.COMPLEX:
        events = renamed(whole(table[names.event_number]), numbers, places, kept)
        at = schema.get_field_index(names.event_number)
        found = found.set_column(at, schema.field(at), pa.array(events))
    return found.cast(schema).combine_chunks()


def renamed(events: Integers, numbers: Integers, places: Integers, kept: Places) -> Integers:
    """Events of a complex class by the places of the versions that announced them; what is no number stays."""
    named, named_places = np.append(kept.numbers, numbers), np.append(kept.places, places)
    order = np.argsort(named, kind="stable")
    found, at = _among(events, named[order])
    return np.where(found, named_places[order][at], events) if len(named) else events


def _among(numbers: Integers, known: Integers) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], Integers]:
    """Which numbers are among ascending ones, and where; 0 for those that are not."""
    at: Integers = np.searchsorted(known, numbers)
    at = np.where(at < len(known), at, 0)
    found = known[at] == numbers if len(known) else np.zeros(len(numbers), np.bool_)
    return found, at
