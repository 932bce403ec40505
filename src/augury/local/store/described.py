"""What a store or a program has, as one table for people: columns of classes and triggers, actions, rules, settings.

In: a connection to a store, or a checked program. Out: an Arrow table with a row for each thing. It prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import sqlalchemy as sa

from augury.algebra.dump import dump_rule, dump_trigger
from augury.algebra.program import Program
from augury.algebra.scalar import dump
from augury.clock import show_duration
from augury.engine.replacing import meaning_of
from augury.event import EventClass
from augury.history.raw import whole_json
from augury.local.store import tables as s

_COLUMNS: Final = ("class", "kind", "table", "column", "name", "role", "type", "key", "meaning")

Row = dict[str, str | None]


def described(connection: sa.Connection) -> pa.Table:
    """What the catalogue of a store says: first classes, then triggers, rules, groups and settings."""
    return _table((*_classes(connection), *_triggers(connection), *_rules(connection), *_settings(connection)))


def described_program(program: Program) -> pa.Table:
    """The same of a program whose store has no tables: names are those of attributes, and no column is ours."""
    return _table((*_classes_said(program), *_rules_said(program), *_settings_said(program)))


def _table(rows: Iterable[Row]) -> pa.Table:
    every = [{**row, "meaning": _in_one_line(row.get("meaning"))} for row in rows]
    return pa.table({name: pa.array([row.get(name) for row in every], pa.string()) for name in _COLUMNS})


def _in_one_line(text: str | None) -> str | None:
    return None if text is None else "; ".join(line.strip() for line in text.splitlines())


# ---- of a store


def _classes(connection: sa.Connection) -> Iterator[Row]:
    """Of each class what it means, its columns, and what its statements do."""
    c, a, d = s.classes.c, s.attributes.c, s.actions.c
    for stored in connection.execute(sa.select(s.classes).order_by(c.position)).mappings().all():
        same: Row = {"class": stored["class"], "kind": stored["kind"]}
        where = {**same, "table": stored["table_name"], "key": stored["key"]}
        yield {**where, "role": "class" if stored["is_there"] else "former class", "meaning": stored["meaning"]}
        columns = sa.select(s.attributes).where(a["class"] == stored["class"]).order_by(a.position, a.column_name)
        for row in connection.execute(columns):
            yield {**where, "column": row.column_name, "name": row.name, "role": row.role, "type": row.type}
        done = sa.select(s.actions).where(d["class"] == stored["class"]).order_by(d.statement, d.place)
        for row in connection.execute(done):
            yield {**same, "name": row.action, "role": "action", "meaning": row.condition}


def _triggers(connection: sa.Connection) -> Iterator[Row]:
    t, p = s.triggers.c, s.parameters.c
    for stored in connection.execute(sa.select(s.triggers).order_by(t.position.is_(None), t.position, t.trigger)).all():
        where: Row = {"class": stored.trigger, "kind": "trigger", "table": stored.table_name, "key": "[]"}
        yield {**where, "role": "former trigger" if stored.position is None else "trigger", "meaning": stored.meaning}
        columns = sa.select(s.parameters).where(p.trigger == stored.trigger).order_by(p.position, p.column_name)
        for row in connection.execute(columns):
            yield {**where, "column": row.column_name, "name": row.name, "role": row.role, "type": row.type}


def _rules(connection: sa.Connection) -> Iterator[Row]:
    for row in connection.execute(sa.select(s.rules).order_by(s.rules.c.position)):
        yield _rule(row.rule, row.meaning)
    for row in connection.execute(sa.select(s.groups).order_by(s.groups.c.rule_group, s.groups.c.position)):
        yield _in_group(row.rule_group, row.rule)


def _settings(connection: sa.Connection) -> Iterator[Row]:
    for row in connection.execute(sa.select(s.settings).order_by(s.settings.c.name)):
        if row.name != "program":  # its text is long, and what it says stands above
            yield _setting(row.name, row.value)


# ---- of a program


def _classes_said(program: Program) -> Iterator[Row]:
    for plan in program.classes:
        event_class = plan.event_class
        same: Row = {"class": event_class.name, "kind": event_class.kind.value}
        yield {**same, "role": "class", "key": _key(event_class), "meaning": meaning_of(plan)}
        for one in event_class.attributes:
            yield {**same, "name": one.name, "role": "attribute", "type": str(one.type), "key": _key(event_class)}
        for statement in plan.statements:
            condition = dump(statement.condition)
            for action in statement.actions:
                yield {**same, "name": action.name, "role": "action", "meaning": condition}


def _key(event_class: EventClass) -> str:
    return whole_json(list(event_class.key))


def _rules_said(program: Program) -> Iterator[Row]:
    for trigger in program.triggers:
        same: Row = {"class": trigger.name, "kind": "trigger", "key": "[]"}
        yield {**same, "role": "trigger", "meaning": dump_trigger(trigger)}
        for one in trigger.parameters:
            yield {**same, "name": one.name, "role": "parameter", "type": str(one.type)}
    yield from (_rule(rule.name, dump_rule(rule)) for rule in program.rules)
    yield from (_in_group(group, rule) for group in sorted(program.groups) for rule in program.groups[group])


def _settings_said(program: Program) -> Iterator[Row]:
    settings = program.settings
    yield _setting("archive", "on" if settings.archive else "off")
    yield _setting("chronon", show_duration(settings.chronon_us))
    yield _setting("retain", None if settings.retain_us is None else show_duration(settings.retain_us))


# ---- of both


def _rule(name: str, meaning: str) -> Row:
    return {"class": name, "kind": "rule", "role": "rule", "meaning": meaning}


def _in_group(group: str, rule: str) -> Row:
    return {"class": group, "kind": "group", "name": rule, "role": "rule"}


def _setting(name: str, value: str | None) -> Row:
    return {"kind": "setting", "name": name, "role": "setting", "meaning": value}
