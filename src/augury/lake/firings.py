"""The firings of a trigger as a lake has them → one table, with the columns of `engine.firing_rows`.

In: a snapshot, a trigger. Out: an Arrow table by number. Files are as the trigger was when it fired: parameters that
came later are NULL there, and those that are gone, or have another type now, are left out.
"""

from __future__ import annotations

import pyarrow as pa

from augury.algebra.rule import Trigger
from augury.engine.firing_rows import FIRING_COLUMNS, firings_schema
from augury.lake.files import LakeFiles
from augury.lake.manifest import Kind
from augury.lake.snapshot import Snapshot


def firings(files: LakeFiles, snapshot: Snapshot, trigger: Trigger) -> pa.Table:
    """All firings of a trigger, by number."""
    tables = [conformed(files.read_table(entry.path), trigger) for entry in snapshot.of(Kind.FIRINGS, trigger.name)]
    table = pa.concat_tables([firings_schema(trigger).empty_table(), *tables])
    return table.sort_by(table.column_names[0]).combine_chunks()


def conformed(table: pa.Table, trigger: Trigger) -> pa.Table:
    """The columns that the trigger has now; our own stand at both ends, whatever they are called beside parameters."""
    schema, after = firings_schema(trigger), 2
    before = len(FIRING_COLUMNS) - after
    theirs = {field.name: column for field, column in zip(table.schema, table.columns, strict=True)}
    columns = [
        theirs[field.name]
        if field.name in table.column_names[before:-after] and theirs[field.name].type == field.type
        else pa.nulls(table.num_rows, field.type)
        for field in list(schema)[before:-after]
    ]
    return pa.table([*table.columns[:before], *columns, *table.columns[-after:]], schema=schema)
