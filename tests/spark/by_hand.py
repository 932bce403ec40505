"""What Spark does between tasks of a batch at once, by hand: rows that a group reads, cut by key, and what it found.

In: tables of versions as `tasks.Accept` gives them, and of what earlier groups found. Out: tables that `tasks.Detect`
reads, and what it gave of one class. `feeding` and `detect` do the same with data frames; that masks are pushed down
and keys go by a hash is theirs alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from augury.event import EventClass, key_of
from augury.kernels.batch import ASSERT
from augury.kernels.columns import arrow_type
from augury.spark.layout import HISTORY_COLUMNS, OCCURRENCE, result_lanes, value_name
from augury.spark.stage import Group


def schema_of(classes: Sequence[EventClass]) -> pa.Schema:
    """What `Detect` gives of these classes."""
    kinds = [pa.int8(), *[pa.int64()] * 4, pa.list_(pa.int64())]
    heads = [("what", pa.int8()), ("member", pa.int16()), *zip(HISTORY_COLUMNS, kinds, strict=True)]
    types = {name: arrow_type(classes[m].attributes[i].type) for (m, i), name in result_lanes(classes).items()}
    return pa.schema([*heads, *types.items()])


def of_member(group: Group, member: int, found: pa.Table) -> pa.Table:
    """What a group found of one of its classes, whose attributes are then those of class 0."""
    lanes = result_lanes(group.found)
    heads = ["what", *HISTORY_COLUMNS]
    table = found.filter(pc.equal(found["member"], member))
    values = {value_name(0, i): table[lanes[member, i]] for i in range(len(group.found[member].attributes))}
    return pa.table({**{name: table[name] for name in heads}, **values})


def as_rows(group: Group, code: int, found: pa.Table) -> pa.Table:
    """What was found of a class, as a later group reads it."""
    table = found.filter(pc.equal(found["what"], OCCURRENCE))
    columns = {name: table[name] for name in HISTORY_COLUMNS}
    columns |= {name: table[value_name(0, i)] for (c, i), name in group.lanes.items() if c == code}
    return pa.table(columns | {"code": pa.array([code] * len(table), pa.int16())})


def history(group: Group, accepted: pa.Table, found: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of a group: versions, and the complex events that it reads."""
    there = pc.and_(pc.is_in(accepted["code"], pa.array(group.own, pa.int16())), pc.equal(accepted["kind"], ASSERT))
    versions = accepted.filter(there)
    columns = {n: versions[n] for n in ("code", "kind", "seq", "occ_time", "det_time", *group.histories)}
    for name in dict.fromkeys(group.lanes.values()):
        places = [place for place, lane in group.lanes.items() if lane == name and place[0] in group.own]
        if places:
            columns[name] = pc.coalesce(*(versions[value_name(*place)] for place in places))
    others = [as_rows(group, c, found[key_of(group.classes[c].name)]) for c in group.sent if c not in group.own]
    table = pa.concat_tables([pa.table(columns), *others], promote_options="default")
    if others:
        at = table.column_names.index("rank")
        table = table.set_column(at, "rank", table["rank"].fill_null(0))
    return table


def keys_of(group: Group, table: pa.Table) -> list[tuple[str, ...]]:
    """The keys of rows; equal values of classes with different types are written alike."""
    found = []
    for row in table.to_pylist():
        values = []
        for key in group.keys:
            name = dict(key.places)[row["code"]]
            attributes = [attribute.name for attribute in group.classes[row["code"]].attributes]
            value = row[name] if name not in attributes else row[group.lanes[row["code"], attributes.index(name)]]
            values.append(str(value + 0.0) if isinstance(value, float) else str(value))
        found.append(tuple(values))
    return found


def shares(group: Group, table: pa.Table, parts: int) -> list[pa.Table]:
    """The rows, those of a key in one part."""
    owners = pa.array([hash(key) % parts for key in keys_of(group, table)], pa.int64())
    return [table.filter(pc.equal(owners, part)) for part in range(parts)]
