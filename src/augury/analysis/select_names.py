"""What names mean in the SQL of a SELECT class: views, columns, scopes; what feeds attributes; occurrence times.

In: names with their places, as `augury.analysis.select` finds them. Out: meanings, or findings. It knows no SQL parser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from augury import types
from augury.algebra.select import OutputColumn, quoted
from augury.analysis.select_types import UNSTEADY_FUNCTIONS, report_unsteady
from augury.diagnostics import NOWHERE, Findings, Mark, Span, closest
from augury.event import TIME_ATTRIBUTES, Attribute, EventClass, key_of
from augury.types import Type, assignable, common_type

OCCURRING_FORMS: Final = "OCCURRING AT takes a time column of the FROM clause, ± a duration, MAX(…) and MIN(…) of such"
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def column_key(name: str) -> str:
    """What a column is matched by: without regard to case, `occTime` being `occ_time` everywhere."""
    folded = key_of(name)
    return TIME_ATTRIBUTES.get(folded, folded)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name (empty: none), its type where known, its place; whether a `*` gave it."""

    name: str
    type: Type | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    starred: bool = False

    @property
    def key(self) -> str:
        """What it is matched by."""
        return column_key(self.name)


@dataclass(slots=True, eq=False)
class Table:
    """What a FROM clause offers under one name; an open one may have more columns than are known."""

    name: str
    columns: list[Column] = field(default_factory=list)
    open: bool = False
    origin: str = ""

    def __str__(self) -> str:
        """Its columns in words."""
        called = f"`{self.name}`" if self.name else "the result"
        return f"{called} has {', '.join(c.name for c in self.columns if c.name) or 'no columns'}"


@dataclass(frozen=True, slots=True)
class Ref:
    """A name where it is written."""

    text: str
    span: Span


Meaning = tuple[Table | None, Column]
"""A column and the table it is of; None where it is an output of the same SELECT."""


@dataclass(slots=True, eq=False)
class Scope:
    """What the names of one SELECT may mean; `grouped` is None unless it aggregates, then what it groups by.

    `merged` are the columns that a USING or NATURAL join has made one of two; `rows` says whether its rows make rows
    of the class.
    """

    ctes: dict[str, Table]
    outer: Scope | None = None
    tables: list[Table] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    outputs: list[Column] = field(default_factory=list)
    grouped: set[tuple[object, ...]] | None = None
    rows: bool = True

    def named(self, qualifier: str | None) -> list[Table]:
        """The tables that a qualifier may mean; without one, all."""
        return [t for t in self.tables if qualifier is None or key_of(t.name) == key_of(qualifier)]

    def find(self, qualifier: str | None, name: str) -> list[Meaning]:
        """What a name may mean, the innermost level that knows it; several are ambiguous."""
        key = column_key(name)
        tables = self.named(qualifier)
        hits: list[Meaning] = [(t, c) for t in tables for c in t.columns if c.key == key]
        if hits:
            return hits[:1] if qualifier is None and key in self.merged else hits
        hits = [(t, Column(name)) for t in tables if t.open]
        if not hits and qualifier is None:
            hits = [(None, c) for c in self.outputs if c.key == key]
        return hits[:1] or (self.outer.find(qualifier, name) if self.outer else [])

    def starred(self, qualifier: str | None) -> list[Column]:
        """The columns of `*` or `table.*`, those of USING first and once."""
        columns = [c for t in self.named(qualifier) for c in t.columns]
        if qualifier is not None:
            return columns
        joined = [next(c for c in columns if c.key == key) for key in self.merged]
        return joined + [c for c in columns if c.key not in self.merged]

    def join(self, using: list[Ref] | None, left: int, findings: Findings) -> None:
        """Make one of the columns that the tables before and from number `left` on share: all, or those of USING."""
        sides = [Scope({}, tables=tables) for tables in (self.tables[:left], self.tables[left:])]
        for name in using or ():
            for side in sides:
                if not side.find(None, name.text):
                    side.resolve(None, name, findings)
        shared = {c.key for c in sides[1].starred(None)}
        keys = [c.key for c in sides[0].starred(None)] if using is None else [column_key(name.text) for name in using]
        self.merged += [key for key in dict.fromkeys(keys) if key in shared and key not in self.merged]

    def resolve(self, qualifier: Ref | None, name: Ref, findings: Findings, code: str = "E252") -> Meaning | None:
        """The one thing that a name means; none or several are reported."""
        hits = self.find(qualifier.text if qualifier else None, name.text)
        if not hits and qualifier and (holder := self.find(None, qualifier.text)) and holder[0][1].type is None:
            return holder[0][0], Column(name.text)  # a field of a struct
        if len(hits) == 1:
            return hits[0]
        if hits:
            tables = list(dict.fromkeys(t.name for t, _ in hits if t))
            places = " and ".join(f"`{t}`" for t in tables)
            message = f"the column `{name.text}` is ambiguous: {places} have it" + " twice" * (len(tables) == 1)
            full = [f"{t}.{name.text}" for t in tables]
            latest = f" or MAX({', '.join(full)})" if code == "E258" else ""
            helps = ["write " + " or ".join(full) + latest if len(tables) > 1 else "name its columns apart with AS"]
            findings.error("E253", message, name.span, "which one?", helps=helps)
        else:
            self._unknown(qualifier, name, findings, code)
        return None

    def _unknown(self, qualifier: Ref | None, name: Ref, findings: Findings, code: str) -> None:
        if not qualifier and key_of(name.text) in UNSTEADY_FUNCTIONS:
            return report_unsteady(key_of(name.text), name.span, findings)  # Spark takes it for a call
        levels = [self]
        while levels[-1].outer is not None:
            levels.append(levels[-1].outer)
        tables = [t for level in levels for t in level.tables]
        if qualifier and not any(level.named(qualifier.text) for level in levels):
            names = [t.name for t in tables if t.name]
            meant = closest(qualifier.text, names)
            help_text = f"did you mean `{meant}`?" if meant else f"there is {', '.join(names) or 'none'}"
            if alias := next((t.name for t in tables if key_of(t.origin) == key_of(qualifier.text)), None):
                help_text = f"`{qualifier.text}` is called `{alias}` here"
            message = f"there is no table `{qualifier.text}` in this FROM clause"
            return findings.error("E251", message, qualifier.span, "unknown table", helps=[help_text])
        seen = [t for level in levels for t in level.named(qualifier.text if qualifier else None)]
        names = [c.name for c in dict.fromkeys(c for t in seen for c in t.columns) if c.name]
        meant = closest(name.text, names)
        has = "; ".join(map(str, seen[:3]))
        where = f"`{qualifier.text}`" if qualifier else "this FROM clause"
        message = f"there is no column `{name.text}` in {where}"
        helps = [f"did you mean `{meant}`? {has}" if meant else has or "there is no FROM clause"]
        findings.error(code, message, name.span, "unknown column", helps=helps)


def view_of(name: Ref, classes: Mapping[str, EventClass], findings: Findings) -> Table:
    """The as-of-now view of a class; an unknown class is reported and may have any column."""
    found = classes.get(key_of(name.text))
    if found is None:
        known = [c.name for c in classes.values()]
        meant = closest(name.text, known)
        helps = [f"did you mean `{meant}`?" if meant else f"there is {', '.join(known[:12]) or 'none'}"]
        message = f"there is no event class `{name.text}`"
        findings.error("E251", message, name.span, "unknown event class", helps=helps)
        return Table(name.text, open=True)
    times = [Column("occ_time", types.TIMESTAMP), Column("det_time", types.TIMESTAMP)]
    return Table(found.name, [Column(a.name, a.type) for a in found.attributes] + times)


def united(left: Table, right: Table, span: Span, findings: Findings) -> Table:
    """The table of a UNION and its like: the names of the left, the types of both."""
    if len(left.columns) != len(right.columns) and not (left.open or right.open):
        message = f"the parts of this query have {len(left.columns)} and {len(right.columns)} columns"
        findings.error("E265", message, span, f"here {len(right.columns)}")
    others = [column.type for column in right.columns] + [None] * len(left.columns)
    kinds = [a.type and b and common_type(a.type, b) for a, b in zip(left.columns, others, strict=False)]
    columns = [replace(a, type=kind) for a, kind in zip(left.columns, kinds, strict=True)]
    return Table("", columns, left.open or right.open)


def feed(table: Table, target: EventClass, select_list: Span, findings: Findings) -> tuple[OutputColumn, ...]:
    """Which attribute each column of the SELECT feeds; what does not fit the class is reported.

    By name if every attribute finds a column, else by position if there are as many of both and no column bears
    the name of another attribute. `*` may give a name twice unless it is an attribute's.
    """
    names = [a.name for a in target.attributes]
    by_key = {key_of(name): name for name in names}
    keys = [column.key for column in table.columns]
    fed: list[str | None] = [by_key.get(key) for key in keys]
    missing = [name for key, name in by_key.items() if key not in keys]
    if missing or table.open:
        misplaced = [k for k, n in zip(keys, names, strict=False) if by_key.get(k, n) != n]
        if len(keys) != len(names) or misplaced or table.open:
            _report_missing(table, target, missing, select_list, findings)
            return ()
        fed = list(names)
    first: dict[str, Column] = {}
    for column, attribute in zip(table.columns, fed, strict=True):
        before = first.setdefault(column.key, column)
        if before is not column and column.name and (attribute or not (column.starred or before.starred)):
            findings.error(
                "E261", f"two columns of this SELECT are called `{column.name}`", column.span, "again here",
                others=[Mark(before.span, "first here")] if before.span != column.span else [],
                helps=["give one of them another name with AS"],
            )  # fmt: skip
        declared = target.attribute(attribute) if attribute else None
        if declared and column.type and not assignable(column.type, declared.type):
            findings.error(
                "E257", f"the attribute `{declared.name}` of `{target.name}` is {declared.type}, not {column.type}",
                column.span, f"{column.type}", others=_declared(declared), helps=[f"write CAST(… AS {declared.type})"],
            )  # fmt: skip
    return tuple(OutputColumn(c.name or None, c.type, a) for c, a in zip(table.columns, fed, strict=True))


def _declared(attribute: Attribute) -> list[Mark]:
    return [Mark(attribute.span, f"declared {attribute.type} here")] if attribute.span != NOWHERE else []


def _report_missing(table: Table, target: EventClass, missing: list[str], span: Span, findings: Findings) -> None:
    if findings.has_errors():
        return  # of a column that could not be resolved, perhaps
    others = [mark for name in missing if (a := target.attribute(name)) for mark in _declared(a)]
    wanted = ", ".join(f"`{name}`" for name in missing or [a.name for a in target.attributes])
    message = f"no column of this SELECT gives {wanted} of `{target.name}`"
    spare = [c.name for c in table.columns if c.name and target.attribute(c.name) is None]
    helps = [f"the columns are {', '.join(c.name or 'one without a name' for c in table.columns) or 'none'}"]
    if table.open:
        helps = ["the columns of this * are not known before it runs: write them out"]
    elif missing and (meant := closest(missing[0], spare)):
        helps = [f"did you mean `{meant} AS {missing[0]}`?"]
    counts = f"columns: {len(table.columns)}, attributes: {len(target.attributes)}"
    findings.error("E256", message, span, counts, others=others, helps=helps)


# ---- the occurrence time -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A time column of the FROM clause."""

    qualifier: Ref | None
    name: Ref


@dataclass(frozen=True, slots=True)
class Shifted:
    """A time plus or minus an interval, which is SQL text."""

    operand: TimeExpression
    sign: str
    interval: str


@dataclass(frozen=True, slots=True)
class Extreme:
    """`MAX(…)` or `MIN(…)`: of several times, or of one over the rows of a group."""

    latest: bool
    operands: tuple[TimeExpression, ...]


TimeExpression = TimeColumn | Shifted | Extreme


def time_columns(time: TimeExpression) -> list[TimeColumn]:
    """The columns that a time is made of."""
    if isinstance(time, TimeColumn):
        return [time]
    operands = (time.operand,) if isinstance(time, Shifted) else time.operands
    return [column for operand in operands for column in time_columns(operand)]


def time_sql(time: TimeExpression, scope: Scope, findings: Findings, *, aggregated: bool = False) -> str:
    """The time as SQL over the FROM clause, mistakes reported; MAX of one time is an aggregate in a group."""
    match time:
        case TimeColumn():
            return _column_sql(time, scope, findings, aggregated)
        case Shifted(operand=operand, sign=sign, interval=interval):
            return f"{time_sql(operand, scope, findings, aggregated=aggregated)} {sign} {interval}"
        case Extreme(latest=latest, operands=(operand,)):
            text = time_sql(operand, scope, findings, aggregated=True)
            return text if scope.grouped is None or aggregated else f"{'MAX' if latest else 'MIN'}({text})"
        case Extreme(latest=latest, operands=operands):
            texts = [time_sql(operand, scope, findings, aggregated=aggregated) for operand in operands]
            return f"{'GREATEST' if latest else 'LEAST'}({', '.join(texts)})"


def _column_sql(time: TimeColumn, scope: Scope, findings: Findings, aggregated: bool) -> str:
    meaning = scope.resolve(time.qualifier, time.name, findings, "E258")
    if meaning is None:
        return ""
    table, column = meaning
    if column.type not in (None, types.TIMESTAMP, types.DATE):
        message = f"the events cannot occur at `{time.name.text}`: it is {column.type}, not a time"
        findings.error("E258", message, time.name.span, f"{column.type}", helps=[OCCURRING_FORMS])
    ungrouped = scope.grouped is not None and column_shape(meaning) not in scope.grouped
    if table is not None and ungrouped and not aggregated:
        message = f"the time `{time.name.text}` is neither grouped nor aggregated"
        findings.error("E260", message, time.name.span, "one of many", helps=["write MAX(…) or MIN(…) of it"])
    parts = [time.qualifier.text, column.name] if time.qualifier else [column.name]
    text = ".".join(part if _PLAIN.fullmatch(part) else quoted(part) for part in parts)
    return f"CAST({text} AS TIMESTAMP)" if column.type == types.DATE else text


def column_shape(meaning: Meaning) -> tuple[object, ...]:
    """What makes two column references the same."""
    table, column = meaning
    return id(table), column.key
