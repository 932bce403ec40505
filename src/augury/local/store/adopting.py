"""Another program takes the place of the one before in a store on SQL: catalogue, histories, snapshot, in one go.

In: a connection inside one transaction, and an `Adoption`. Out: the tables as they are then. What a complex class had
found before it came to mean something else is copied into a table of its own, which `augury_former` names.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from augury.engine.history_rows import history_of
from augury.engine.ports import Adoption
from augury.engine.replacing import difference
from augury.engine.ticked import ClassVersions
from augury.event import key_of
from augury.local.store import catalogue
from augury.local.store import tables as s
from augury.local.store.database import Database
from augury.local.store.firing_tables import stored_triggers
from augury.local.store.names import former_name


def adopted(
    connection: sa.Connection, database: Database, adoption: Adoption, last_tick: int | None
) -> catalogue.Tables:
    """Do what the adoption says; snapshots of the program before are of no use and go."""
    program = adoption.program
    _drop_unlike(connection, adoption)
    for name, tables in catalogue.tables_of(catalogue.stored(connection)).items():
        if name in adoption.derived:
            assert last_tick is not None, "only ticks derive"
            _put_aside(connection, tables, last_tick)
    found = catalogue.taken_up(connection, program, adoption.begun)
    for name, parts in adoption.derived.items():
        tables = found.classes[name]
        _insert(connection, database, tables.history, tables, parts)
    if adoption.purged is not None:
        _purge_anew(connection, database, adoption, found)
    connection.execute(s.snapshots.delete())
    return found


def _drop_unlike(connection: sa.Connection, adoption: Adoption) -> None:
    """Forget classes that are declared otherwise now and have no history: they are made anew."""
    plans = {key_of(plan.event_class.name): plan.event_class for plan in adoption.program.classes}
    for name, tables in catalogue.tables_of(catalogue.stored(connection)).items():
        if name not in plans or difference(tables.stored, plans[name]) is None:
            continue
        quote = connection.dialect.identifier_preparer.quote_identifier
        connection.exec_driver_sql(f"DROP VIEW {quote(tables.names.now)}")
        for table in (tables.history, tables.archive):
            connection.execute(sa.schema.DropTable(table, if_exists=True))
        for of in (s.classes, s.attributes, s.actions):
            connection.execute(of.delete().where(of.c["class"] == tables.stored.name))


def _put_aside(connection: sa.Connection, tables: s.ClassTables, last_tick: int) -> None:
    """Copy the history of a class to a table of its own, and empty it; so also the archive, which comes anew."""
    if sa.inspect(connection).has_table(tables.names.archive):
        connection.execute(tables.archive.delete())
    if connection.execute(sa.select(tables.column("number")).limit(1)).first() is None:
        return
    former = {row.table_name: row for row in connection.execute(sa.select(s.former))}
    stored = catalogue.stored(connection)
    taken = [*former, *(str(one.table.name) for one in stored_triggers(connection).values())]
    count = 1 + sum(row[1] == tables.stored.name for row in former.values())
    name = former_name(tables.stored.name, count, (one.names for one in stored), taken)
    quote = connection.dialect.identifier_preparer.quote_identifier
    copied = f"CREATE TABLE {quote(name)} AS SELECT * FROM {quote(tables.names.table)}"
    connection.exec_driver_sql(copied.replace("%", "%%") if connection.dialect.name == "postgresql" else copied)
    meaning = next(one.meaning for one in stored if one.event_class.name == tables.stored.name)
    row = {"table_name": name, "class": tables.stored.name, "until_tick": last_tick, "meaning": meaning}
    connection.execute(s.former.insert(), row)
    connection.execute(tables.history.delete())


def _purge_anew(connection: sa.Connection, database: Database, adoption: Adoption, found: catalogue.Tables) -> None:
    """Which events have left, worked out under the program of now; archives of complex classes that came anew."""
    assert adoption.purged is not None
    rows: list[dict[str, object]] = []
    for plan in adoption.program.classes:
        name = key_of(plan.event_class.name)
        if name not in adoption.purged:
            continue
        tables = found.classes[name]
        connection.execute(s.purged.delete().where(s.purged.c["class"] == tables.stored.name))
        for tick, versions in adoption.purged[name]:
            rows += [{"class": tables.stored.name, "number": n, "tick": tick} for n in versions.number.tolist()]
        if adoption.program.settings.archive and name in adoption.derived:
            _insert(connection, database, tables.archive, tables, adoption.purged[name])
    if rows:
        connection.execute(s.purged.insert(), rows)


def _insert(
    connection: sa.Connection,
    database: Database,
    table: sa.Table,
    tables: s.ClassTables,
    parts: Sequence[tuple[int, ClassVersions]],
) -> None:
    if parts:
        database.insert(connection, table, history_of(tables.event_class, parts))
