"""What a store says of itself: its classes, their tables and columns, conditions and settings; does a program fit it?

In: a program, or what the catalogue's tables hold. Out: the tables of each class, created where they are not there
yet; or `StoreMismatch`, with a sentence for each class that is not as the store has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from augury.algebra.dump import dump_class
from augury.algebra.program import ClassPlan, Program
from augury.algebra.scalar import dump
from augury.clock import show_duration
from augury.event import Attribute, ClassKind, EventClass, key_of
from augury.history.views import system_names
from augury.local.store import tables as s
from augury.local.store.errors import StoreMismatch
from augury.local.store.firing_tables import FiringTable, fit_triggers, stored_triggers, type_of
from augury.local.store.migrations import migrate, require_present
from augury.local.store.names import ClassNames, attribute_columns, class_names, system_columns


@dataclass(frozen=True, slots=True)
class Stored:
    """A class as the catalogue has it; `meaning` says how its events are derived and how long they live."""

    event_class: EventClass
    names: ClassNames
    meaning: str


def has_catalogue(connection: sa.Connection) -> bool:
    """Whether there is a store in the database."""
    return sa.inspect(connection).has_table(s.settings.name)


def stored(connection: sa.Connection) -> list[Stored]:
    """The classes of a store, in the order in which they came into it; raises `StoreMismatch`."""
    require_present(connection)
    return _read_classes(connection)


def add_outbox(connection: sa.Connection) -> None:
    """Make what an outbox needs and stores did not always have."""
    s.deliveries.create(connection, checkfirst=True)
    for index in (*s.OUTBOX_INDEXES, s.DELIVERIES_INDEX):
        connection.execute(CreateIndex(index, if_not_exists=True))


def _read_classes(connection: sa.Connection) -> list[Stored]:
    declared: dict[str, list[Attribute]] = {}
    wanted = s.attributes.c.role == "attribute"
    for row in connection.execute(sa.select(s.attributes).where(wanted).order_by(s.attributes.c.position)):
        declared.setdefault(row[0], []).append(Attribute(row.name, type_of(row.type)))
    found = []
    for row in connection.execute(sa.select(s.classes).order_by(s.classes.c.position)):
        event_class = EventClass(
            row[0],
            ClassKind(row.kind),
            row.mutable,
            tuple(declared.get(row[0], ())),
            tuple(json.loads(row.key)),
            row.lifespan_us,
        )
        found.append(Stored(event_class, ClassNames(row.table_name, row.now_name, row.archive_name), row.meaning))
    return found


def tables_of(known: Iterable[Stored], program: Program | None = None) -> dict[str, s.ClassTables]:
    """The tables of classes, by the names that classes are matched by; those of a program first, in its order."""
    declared = {key_of(plan.event_class.name): plan.event_class for plan in (program.classes if program else ())}
    stored = {key_of(one.event_class.name): one for one in known}
    order = [*declared, *(name for name in stored if name not in declared)]
    found = ((name, stored[name]) for name in order)
    return {name: s.class_tables(one.event_class, one.names, declared.get(name)) for name, one in found}


def mismatches(known: Iterable[EventClass], program: Program) -> tuple[str, ...]:
    """What is wrong with a store for a program: a sentence for each class that is not as it was."""
    plans = {key_of(plan.event_class.name): plan.event_class for plan in program.classes}
    pairs = ((one, plans.get(key_of(one.name))) for one in known)
    sentences = (_difference(old, new) for old, new in pairs if new is not None)
    return tuple(sentence for sentence in sentences if sentence is not None)


def _difference(old: EventClass, new: EventClass) -> str | None:
    if old.kind is not new.kind:
        return f"`{old.name}` is {old.kind.value} in the store and {new.kind.value} in the program"
    had, has = (
        [f"{key_of(attribute.name)} {attribute.type}" for attribute in event_class.attributes]
        for event_class in (old, new)
    )
    if had != has:
        return f"`{old.name}` has the attributes ({', '.join(had)}) in the store and ({', '.join(has)}) in the program"
    if [key_of(name) for name in old.key] != [key_of(name) for name in new.key]:
        return f"`{old.name}` has ID ({', '.join(old.key)}) in the store and ID ({', '.join(new.key)}) in the program"
    return None


@dataclass(frozen=True, slots=True)
class Held:
    """The tables of a store: of classes and of triggers, by the names that they are matched by."""

    classes: Mapping[str, s.ClassTables]
    triggers: Mapping[str, FiringTable]


def held(connection: sa.Connection) -> Held:
    """The tables that a store has; raises `StoreMismatch`."""
    return Held(tables_of(stored(connection)), stored_triggers(connection))


def ready(connection: sa.Connection) -> str | None:
    """Make our own tables where there are none, and migrate older ones; a sentence about that, if so."""
    if has_catalogue(connection):
        return migrate(connection)
    s.ours.create_all(connection)
    connection.execute(s.settings.insert(), {"name": "store_format", "value": str(s.STORE_FORMAT)})
    return None


def fit(connection: sa.Connection, program: Program) -> Held:
    """Make a store, which is `ready`, fit for a program, and give its tables; raises `StoreMismatch`."""
    known = stored(connection)
    add_outbox(connection)
    if wrong := mismatches((one.event_class for one in known), program):
        raise StoreMismatch(wrong)
    if _has_ticks(connection) and (changed := _changes(connection, known, program)):
        raise StoreMismatch(changed)
    old = {key_of(one.event_class.name): one for one in known}
    new = [plan for plan in program.classes if key_of(plan.event_class.name) not in old]
    others = [str(one.table.name) for one in stored_triggers(connection).values()]
    names = class_names((plan.event_class for plan in new), (one.names for one in known), others)
    added = [Stored(plan.event_class, name, meaning(plan)) for plan, name in zip(new, names, strict=True)]
    tables = tables_of([*known, *added], program)
    for one in added:
        _create(connection, tables[key_of(one.event_class.name)])
    _describe(connection, program, known, added)
    _add_options(connection, program, tables)
    return Held(tables, fit_triggers(connection, program, (one.names for one in (*known, *added))))


def _has_ticks(connection: sa.Connection) -> bool:
    return connection.execute(sa.select(s.ticks.c.tick).limit(1)).first() is not None


def meaning(plan: ClassPlan) -> str:
    """What the events of a class are and how they come about, its statements apart."""
    return dump_class(replace(plan, statements=()))


def _changes(connection: sa.Connection, known: Sequence[Stored], program: Program) -> tuple[str, ...]:
    """What a program says otherwise than the one whose ticks are in the store; only its statements may differ.

    Ticks are worked out again to recover, and would give what is not in the history.
    """
    had = connection.execute(sa.select(s.settings.c.value).where(s.settings.c.name == "chronon")).scalar()
    has = _settings(program)["chronon"]
    sentences = [] if had == has else [f"the store has ticks every {had}, and the program has them every {has}"]
    plans = {key_of(plan.event_class.name): plan for plan in program.classes}
    old = {key_of(one.event_class.name): one for one in known}
    for name in dict.fromkeys([*old, *plans]):
        if name not in plans:
            sentences.append(f"`{old[name].event_class.name}` is in the store and not in the program")
        elif name not in old:
            sentences.append(f"`{plans[name].event_class.name}` is not in the store, which has ticks without it")
        elif old[name].meaning != meaning(plans[name]):
            sentences.append(f"`{old[name].event_class.name}` means something else than when the store was written")
    return tuple(sentences)


def _create(connection: sa.Connection, tables: s.ClassTables) -> None:
    connection.execute(CreateTable(tables.history))
    connection.execute(CreateIndex(s.event_id_index(tables)))
    quote = connection.dialect.identifier_preparer.quote
    options = {"literal_binds": True}
    select = s.current_versions(tables).compile(dialect=connection.dialect, compile_kwargs=options)
    connection.exec_driver_sql(f"CREATE VIEW {quote(tables.names.now)} AS {select}")


def _add_options(connection: sa.Connection, program: Program, tables: dict[str, s.ClassTables]) -> None:
    """What only some settings need: archives, and a way to tell which old versions are still current."""
    for one in tables.values():
        if program.settings.archive:
            connection.execute(CreateTable(one.archive, if_not_exists=True))
        if program.settings.retain_us is not None:
            connection.execute(CreateIndex(s.key_index(one), if_not_exists=True))


def _describe(connection: sa.Connection, program: Program, known: Sequence[Stored], added: Sequence[Stored]) -> None:
    """Write down how things are now; of a class that the program no longer has, as they were."""
    plans = {key_of(plan.event_class.name): plan for plan in program.classes}
    now = [one for one in known if key_of(one.event_class.name) in plans]
    for one in now:
        new = plans[key_of(one.event_class.name)].event_class
        same = s.classes.c["class"] == one.event_class.name
        told = {"mutable": new.mutable, "lifespan_us": new.lifespan_us, "meaning": meaning(plans[key_of(new.name)])}
        connection.execute(s.classes.update().where(same).values(**told))
        connection.execute(s.actions.delete().where(s.actions.c["class"] == one.event_class.name))
    _insert(connection, s.classes, [_class_row(one, len(known) + i) for i, one in enumerate(added, 1)])
    _insert(connection, s.attributes, [row for one in added for row in _column_rows(one.event_class)])
    _insert(
        connection,
        s.actions,
        [
            {
                "class": one.event_class.name,
                "statement": number,
                "place": place,
                "condition": dump(statement.condition),
                "action": action.name,
            }
            for one in (*now, *added)
            for number, statement in enumerate(plans[key_of(one.event_class.name)].statements, 1)
            for place, action in enumerate(statement.actions, 1)
        ],
    )
    connection.execute(s.settings.delete().where(s.settings.c.name != "store_format"))
    _insert(connection, s.settings, [{"name": name, "value": value} for name, value in _settings(program).items()])


def _insert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, object]]) -> None:
    if rows:
        connection.execute(table.insert(), rows)


def _settings(program: Program) -> dict[str, str | None]:
    settings = program.settings
    return {
        "chronon": show_duration(settings.chronon_us),
        "archive": "on" if settings.archive else "off",
        "retain": None if settings.retain_us is None else show_duration(settings.retain_us),
        "retain_us": None if settings.retain_us is None else str(settings.retain_us),
    }


def _class_row(one: Stored, position: int) -> dict[str, object]:
    event_class = one.event_class
    return {
        "class": event_class.name,
        "position": position,
        "kind": event_class.kind.value,
        "mutable": event_class.mutable,
        "lifespan_us": event_class.lifespan_us,
        "key": json.dumps(event_class.key, ensure_ascii=False),
        "table_name": one.names.table,
        "now_name": one.names.now,
        "archive_name": one.names.archive,
        "meaning": one.meaning,
    }


def _column_rows(event_class: EventClass) -> list[dict[str, object]]:
    """A row a column of the class's table: ours, and then the attributes counted from 1."""
    ours = zip(_plain_names(event_class), system_columns(event_class), strict=True)
    theirs = zip(event_class.attributes, attribute_columns(event_class), strict=True)
    rows: list[dict[str, object]] = [
        {"name": name, "column_name": column, "role": "system", "position": 0, "type": ""} for name, column in ours
    ]
    rows += [
        {"name": a.name, "column_name": column, "role": "attribute", "position": place, "type": str(a.type)}
        for place, (a, column) in enumerate(theirs, 1)
    ]
    return [{"class": event_class.name, **row} for row in rows]


def _plain_names(event_class: EventClass) -> list[str]:
    """What our columns would be called if no attribute had such a name."""
    return [name.rstrip("_") for name in system_names(event_class).all()]
