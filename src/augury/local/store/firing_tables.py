"""The tables of triggers, and what the catalogue says of triggers, rules and groups.

In: a program, or what the catalogue holds. Out: for each trigger the table of its firings, created where it is not
there yet. A trigger that comes with other parameters keeps its table: columns are added, and none is taken away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn, CreateTable

from augury.algebra.dump import dump_rule, dump_trigger
from augury.algebra.program import Program
from augury.engine.firing_rows import FIRING_COLUMNS, FiringShape, shape_of
from augury.event import Attribute, key_of
from augury.local.store import tables as s
from augury.local.store.names import ClassNames, columns_for, free_column, shortened, trigger_names
from augury.types import Type, parse_type


@dataclass(frozen=True, slots=True)
class FiringTable:
    """The table of a trigger; `shape` says what its columns are, in their order.

    `trigger` is the name as the store has it. A trigger that the program no longer has keeps its table.
    """

    trigger: str
    shape: FiringShape
    table: sa.Table
    is_there: bool
    meaning: str

    def column(self, name: str) -> sa.Column[Any]:
        """The column that is no parameter, by our own name for it."""
        logical = self.shape.names[FIRING_COLUMNS.index(name)]
        found: sa.Column[Any] = list(self.table.c)[self.shape.schema().names.index(logical)]
        return found


def stored_triggers(connection: sa.Connection) -> dict[str, FiringTable]:
    """The triggers that a store has or had, by the names they are matched by."""
    columns: dict[str, list[Any]] = {}
    for row in connection.execute(sa.select(s.parameters).order_by(s.parameters.c.position)):
        columns.setdefault(row.trigger, []).append(row)
    found = {}
    for row in connection.execute(sa.select(s.triggers).order_by(s.triggers.c.trigger)):
        ours = {one.name: one.column_name for one in columns[row.trigger] if one.role == "system"}
        theirs = [one for one in columns[row.trigger] if one.role == "parameter"]
        parameters = [(Attribute(one.name, type_of(one.type)), one.column_name) for one in theirs]
        there = row.position is not None
        found[key_of(row.trigger)] = _firing_table(row.trigger, row.table_name, ours, parameters, there, row.meaning)
    return found


def type_of(text: str) -> Type:
    """A type as the catalogue has it."""
    name, _, parameters = text.rstrip(")").partition("(")
    found = parse_type(name, tuple(int(part) for part in parameters.split(",") if part))
    assert found is not None, f"a type that a program can have, not {text}"
    return found


def fit_triggers(
    connection: sa.Connection, program: Program, classes: Iterable[ClassNames], begun: Collection[str]
) -> dict[str, FiringTable]:
    """Make a store ready for the triggers of a program, and write down its triggers, rules and groups.

    Those that begin, by the names they are matched by, do so after the last tick.
    """
    known = stored_triggers(connection)
    new = [trigger for trigger in program.triggers if key_of(trigger.name) not in known]
    names = trigger_names((trigger.name for trigger in new), classes, [str(one.table.name) for one in known.values()])
    for trigger, name in zip(new, names, strict=True):
        _create(connection, trigger.name, name, trigger.parameters)
    for trigger in program.triggers:
        if (old := known.get(key_of(trigger.name))) is not None and old.shape.parameters != trigger.parameters:
            _reshape(connection, old, trigger.parameters)
    _describe(connection, program, begun)
    return stored_triggers(connection)


def _create(connection: sa.Connection, trigger: str, name: str, parameters: Sequence[Attribute]) -> None:
    shape = shape_of(parameters)
    ours = dict(zip(FIRING_COLUMNS, shape.names, strict=True))
    columns = list(zip(parameters, columns_for([one.name for one in parameters]), strict=True))
    table = _firing_table(trigger, name, ours, columns, True, "")
    connection.execute(CreateTable(table.table))
    connection.execute(s.triggers.insert(), {"trigger": trigger, "table_name": name, "meaning": ""})
    rows = [
        {"trigger": trigger, "name": plain, "column_name": column, "role": "system", "position": 0, "type": ""}
        for plain, column in ours.items()
    ]
    connection.execute(s.parameters.insert(), [*rows, *_parameter_rows(trigger, columns)])


def _reshape(connection: sa.Connection, old: FiringTable, parameters: Sequence[Attribute]) -> None:
    """Give a table a column for each parameter that it has none for; those of a name and type that it had stay."""
    of_trigger = s.parameters.c.trigger == old.trigger
    rows = connection.execute(sa.select(s.parameters).where(of_trigger)).all()
    known = {(key_of(row.name), row.type): row.column_name for row in rows if row.role != "system"}
    taken = {key_of(row.column_name) for row in rows}
    columns = []
    for one in parameters:
        column = known.get((key_of(one.name), str(one.type)))
        if column is None:
            column = free_column(one.name, str(one.type), taken)
            taken.add(key_of(column))
            _add_column(connection, str(old.table.name), sa.Column(s.quoted(column), s.sql_type(one.type)))
        columns.append((one, column))
    connection.execute(s.parameters.update().where(of_trigger, s.parameters.c.role != "system").values(role="former"))
    kept = [column for _, column in columns]
    connection.execute(s.parameters.delete().where(of_trigger, s.parameters.c.column_name.in_(kept)))
    if columns:
        connection.execute(s.parameters.insert(), _parameter_rows(old.trigger, columns))


def _add_column(connection: sa.Connection, table: str, column: sa.Column[Any]) -> None:
    sa.Table(s.quoted(table), sa.MetaData(), column)
    quote = connection.dialect.identifier_preparer.quote
    told = CreateColumn(column).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {quote(s.quoted(table))} ADD COLUMN {told}".replace("%", "%%"))


def _parameter_rows(trigger: str, columns: Sequence[tuple[Attribute, str]]) -> list[dict[str, object]]:
    return [
        {
            "trigger": trigger,
            "name": one.name,
            "column_name": column,
            "role": "parameter",
            "position": position,
            "type": str(one.type),
        }
        for position, (one, column) in enumerate(columns, 1)
    ]


def _describe(connection: sa.Connection, program: Program, begun: Collection[str]) -> None:
    """Write down what triggers, rules and groups there are now."""
    connection.execute(s.triggers.update().values(position=None))
    stored = {key_of(name): name for name in connection.execute(sa.select(s.triggers.c.trigger)).scalars()}
    newest_first = sa.select(s.ticks.c.tick).order_by(s.ticks.c.tick.desc()).limit(1)
    last = connection.execute(newest_first).scalar()
    for position, trigger in enumerate(program.triggers, 1):
        same = s.triggers.c.trigger == stored[key_of(trigger.name)]
        told: dict[str, object] = {"position": position, "meaning": dump_trigger(trigger)}
        told |= {"since_tick": last} if key_of(trigger.name) in begun else {}
        connection.execute(s.triggers.update().where(same).values(**told))
    rules: list[dict[str, object]] = [
        {"rule": rule.name, "position": position, "meaning": dump_rule(rule)}
        for position, rule in enumerate(program.rules, 1)
    ]
    groups: list[dict[str, object]] = [
        {"rule_group": group, "rule": rule, "position": position}
        for group, members in program.groups.items()
        for position, rule in enumerate(members, 1)
    ]
    for table, rows in ((s.rules, rules), (s.groups, groups)):
        connection.execute(table.delete())
        if rows:
            connection.execute(table.insert(), rows)


def _firing_table(
    trigger: str,
    name: str,
    ours: Mapping[str, str],
    parameters: Sequence[tuple[Attribute, str]],
    is_there: bool,
    meaning: str,
) -> FiringTable:
    *before, returned, calls = FIRING_COLUMNS
    types: dict[str, Any] = {
        **dict.fromkeys(("tick", "det_time", "now"), s.Moment),
        **dict.fromkeys(("event", "key", "returned", "calls"), sa.Text),
        "number": s.COUNT,
        "seq": sa.BigInteger,
        "constituents": s.SEQS,
    }
    columns = [
        *(sa.Column(s.quoted(ours[one]), types[one], nullable=one == "seq") for one in before),
        *(sa.Column(s.quoted(column), s.sql_type(one.type)) for one, column in parameters),
        *(s.required(s.quoted(ours[one]), types[one]) for one in (returned, calls)),
    ]
    key = sa.PrimaryKeyConstraint(ours["number"], name=s.quoted(shortened(f"augury_{name}_number")))
    table = sa.Table(s.quoted(name), sa.MetaData(), *columns, key)
    return FiringTable(trigger, shape_of([one for one, _ in parameters]), table, is_there, meaning)
