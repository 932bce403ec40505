"""Lakes for tests: a small program, rows of its classes, commits of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from augury.api import Program, compile
from augury.event import EventClass
from augury.history.views import history_schema, system_names
from augury.lake import FileEntry, Kind, Lake, LakeFiles, LakeHistory, Manifest, Writer, history

SECOND: Final = 1_000_000
NOON: Final = 1_767_268_800 * SECOND
"""2026-01-01T12:00:00Z."""

TEXT: Final = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (account INT, price DOUBLE) ID (account) LIFESPAN (-1);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Beat (x INT) ID () LIFESPAN (1d);
"""
PROGRAM: Final = compile(TEXT)


def class_named(name: str, program: Program = PROGRAM) -> EventClass:
    plan = program.class_plan(name)
    assert plan is not None
    return plan.event_class


ORDER, BEAT = class_named("Order"), class_named("Beat")


def created(path: Path | str, text: str = TEXT, **more: Any) -> Lake:
    return Lake.create(path, program_text=text, chronon_us=SECOND, buckets=4, **more)


def rows_of(event_class: EventClass, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Rows as files hold them: `second` stands for a tick, and for all times that are not given."""
    names, schema = system_names(event_class), history_schema(event_class)
    found = []
    for row in rows:
        at = NOON + row["second"] * SECOND
        system = {names.tick: at, names.occ_time: at, names.det_time: at - 1, names.change: "announce"}
        found.append({**system, names.number: row["seq"] * 10, names.seq: row["seq"], **row})
    columns = [pa.array([row.get(field.name) for row in found], _plain(field.type)) for field in schema]
    return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def orders(first: int, count: int, second: int, accounts: int = 1_000_000) -> pa.Table:
    """Orders with these `seq`, all of one tick."""
    return rows_of(
        ORDER,
        (
            {"seq": seq, "second": second, "account": seq % accounts, "price": seq / 2}
            for seq in range(first, first + count)
        ),
    )


def put(writer: Writer, files: LakeFiles, *tables: pa.Table, second: int | None = None, **said: Any) -> Manifest:
    """Commit some files of orders."""
    tag = f"{writer.next_commit:020d}"
    added = tuple(files.write_table(Kind.HISTORY, ORDER, table, tag=tag) for table in tables)
    tick = NOON + (writer.next_commit if second is None else second) * SECOND
    manifest = writer.manifest(added=added, last_tick=tick, **said)
    writer.commit(manifest)
    return manifest


def filled(path: Path | str, commits: int, rows: int = 3) -> Lake:
    """A lake with so many commits of some orders each, and a state that changes with each."""
    lake = created(path)
    writer = lake.writer()
    for commit in range(1, commits + 1):
        state = lake.files.write_bytes("state", "Order/0", b"state %d" % commit)
        table = orders((commit - 1) * rows + 1, rows, commit)
        put(writer, lake.files, table, state={"Order/0": state}, batch=commit, last_seq=commit * rows)
    return lake


def total(entries: Sequence[FileEntry]) -> int:
    return sum(entry.rows for entry in entries)


def shown(path: Path | str, **more: Any) -> LakeHistory:
    return history(path, compile, **more)
