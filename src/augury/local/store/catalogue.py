"""What a store says of itself: its classes, their tables and columns, conditions and settings; does a program fit it?

In: a program, or what the catalogue's tables hold. Out: the tables of each class, created where they are not there
yet; or `StoreMismatch`, with a sentence for each class that is not as the store has it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from augury.algebra.dump import dump_trigger
from augury.algebra.program import Program
from augury.algebra.scalar import dump
from augury.clock import show_duration
from augury.engine.replacing import difference, meaning_of
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
    is_there: bool = True


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
        names = ClassNames(row.table_name, row.now_name, row.archive_name)
        found.append(Stored(event_class, names, row.meaning, row.is_there))
    return found


def tables_of(known: Iterable[Stored], program: Program | None = None) -> dict[str, s.ClassTables]:
    """The tables of classes, by the names that classes are matched by; those of a program first, in its order."""
    declared = {key_of(plan.event_class.name): plan.event_class for plan in (program.classes if program else ())}
    stored = {key_of(one.event_class.name): one for one in known}
    order = [*declared, *(name for name in stored if name not in declared)]
    found = ((name, stored[name]) for name in order)
    return {name: s.class_tables(one.event_class, one.names, declared.get(name)) for name, one in found}


def numbers(connection: sa.Connection, classes: Iterable[s.ClassTables]) -> dict[str, tuple[int, int]]:
    """Of each class how many versions are kept, and how many there were."""
    found = {}
    for tables in classes:
        number = tables.column("number")
        kept, last = connection.execute(
            sa.select(sa.func.count(), sa.func.max(number)).select_from(tables.history)
        ).one()
        found[key_of(tables.stored.name)] = (int(kept), int(last or 0))
    return found


def mismatches(known: Iterable[EventClass], program: Program) -> tuple[str, ...]:
    """What is wrong with a store for a program: a sentence for each class that is not as it was."""
    plans = {key_of(plan.event_class.name): plan.event_class for plan in program.classes}
    pairs = ((one, plans.get(key_of(one.name))) for one in known)
    found = ((old.name, difference(old, new)) for old, new in pairs if new is not None)
    return tuple(f"`{name}` {why}" for name, why in found if why is not None)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a store: of classes and of triggers, by the names that they are matched by."""

    classes: Mapping[str, s.ClassTables]
    triggers: Mapping[str, FiringTable]


def all_tables(connection: sa.Connection) -> Tables:
    """The tables that a store has; raises `StoreMismatch`."""
    return Tables(tables_of(stored(connection)), stored_triggers(connection))


def ready(connection: sa.Connection) -> str | None:
    """Make our own tables where there are none, and migrate older ones; a sentence about that, if so."""
    if has_catalogue(connection):
        return migrate(connection)
    s.ours.create_all(connection)
    connection.execute(s.settings.insert(), {"name": "store_format", "value": str(s.STORE_FORMAT)})
    return None


def fit(connection: sa.Connection, program: Program) -> Tables:
    """Make a store, which is `ready`, fit for a program, and give its tables; raises `StoreMismatch`."""
    known = stored(connection)
    add_outbox(connection)
    if wrong := mismatches((one.event_class for one in known), program):
        raise StoreMismatch(wrong)
    begun: frozenset[str] = frozenset()
    if _has_ticks(connection):
        if changed := (*_changes(connection, known, program), *_other_triggers(connection, program)):
            raise StoreMismatch((*changed, _HOW_TO_CHANGE))
        begun = frozenset(key_of(one.name) for one in program.triggers) - stored_triggers(connection).keys()
    return taken_up(connection, program, begun)


def taken_up(connection: sa.Connection, program: Program, begun: Collection[str]) -> Tables:
    """Make what a program needs and is not there yet, and write down what it says; `begun` are triggers that begin."""
    known = stored(connection)
    old = {key_of(one.event_class.name): one for one in known}
    new = [plan for plan in program.classes if key_of(plan.event_class.name) not in old]
    others = [str(one.table.name) for one in stored_triggers(connection).values()]
    names = class_names((plan.event_class for plan in new), (one.names for one in known), others)
    added = [Stored(plan.event_class, name, meaning_of(plan)) for plan, name in zip(new, names, strict=True)]
    tables = tables_of([*known, *added], program)
    for one in added:
        _create(connection, tables[key_of(one.event_class.name)])
    _describe(connection, program, known, added)
    _add_options(connection, program, tables)
    taken = [one.names for one in (*known, *added)]
    return Tables(tables, fit_triggers(connection, program, taken, begun))


_HOW_TO_CHANGE: Final = (
    "the program of a store that has ticks is changed by `augury apply` (`augury plan` says what that does), or by "
    "`LocalEngine.apply`"
)


def _other_triggers(connection: sa.Connection, program: Program) -> Iterator[str]:
    """Triggers that are not as the store has them; one that no program was kept in takes them as they come."""
    if stored_program(connection) is None:
        return
    known = {name: one for name, one in stored_triggers(connection).items() if one.is_there}
    for trigger in program.triggers:
        was = known.pop(key_of(trigger.name), None)
        if was is None:
            yield f"the trigger `{trigger.name}` is not in the store, which has ticks without it"
        elif was.meaning != dump_trigger(trigger):
            yield f"the trigger `{trigger.name}` is another than when the store was written"
    yield from (f"the trigger `{one.trigger}` is in the store and not in the program" for one in known.values())


def stored_program(connection: sa.Connection) -> str | None:
    """The text of the program whose ticks a store has; None where it was not kept."""
    return connection.execute(sa.select(s.settings.c.value).where(s.settings.c.name == "program")).scalar()


def _has_ticks(connection: sa.Connection) -> bool:
    return connection.execute(sa.select(s.ticks.c.tick).limit(1)).first() is not None


def _changes(connection: sa.Connection, known: Sequence[Stored], program: Program) -> tuple[str, ...]:
    """What a program says otherwise than the one whose ticks are in the store; only its statements may differ.

    Ticks are worked out again to recover, and would give what is not in the history.
    """
    had = connection.execute(sa.select(s.settings.c.value).where(s.settings.c.name == "chronon")).scalar()
    has = _settings(program)["chronon"]
    sentences = [] if had == has else [f"the store has ticks every {had}, and the program has them every {has}"]
    plans = {key_of(plan.event_class.name): plan for plan in program.classes}
    old = {key_of(one.event_class.name): one for one in known if one.is_there}
    for name in dict.fromkeys([*old, *plans]):
        if name not in plans:
            sentences.append(f"`{old[name].event_class.name}` is in the store and not in the program")
        elif name not in old:
            sentences.append(f"`{plans[name].event_class.name}` is not in the store, which has ticks without it")
        elif old[name].meaning != meaning_of(plans[name]):
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
    connection.execute(s.classes.update().values(is_there=False))
    for one in now:
        new = plans[key_of(one.event_class.name)].event_class
        same = s.classes.c["class"] == one.event_class.name
        told = {
            "mutable": new.mutable,
            "lifespan_us": new.lifespan_us,
            "meaning": meaning_of(plans[key_of(new.name)]),
            "is_there": True,
        }
        connection.execute(s.classes.update().where(same).values(**told))
        connection.execute(s.actions.delete().where(s.actions.c["class"] == one.event_class.name))
    _insert(connection, s.classes, [_class_row(one, _last_position(connection) + i) for i, one in enumerate(added, 1)])
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


def _last_position(connection: sa.Connection) -> int:
    return connection.execute(sa.select(sa.func.max(s.classes.c.position))).scalar() or 0


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
        "program": program.text,
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
        "is_there": True,
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
