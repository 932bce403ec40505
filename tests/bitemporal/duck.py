"""SELECT classes for the reference: their canonical Spark SQL, run by DuckDB by way of sqlglot.

In: a plan. Out: a function from views and NOW to rows with their constituents, as the reference takes it. Where rows
can be traced, every view has one more column that lists the row itself; joins and unions hand the lists on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from augury import types as t
from augury.algebra.program import Program
from augury.algebra.scalar import Value
from augury.algebra.select import NOW_PARAMETER, SelectPlan
from augury.clock import EPOCH, microseconds_of
from augury.event import EventClass, key_of
from augury.kernels.reference.bitemporal import EventId, Made, Select, SelectFailed, Version, View

LINEAGE = "_made_of"
TRACED = "__traced"


def selects_of(program: Program) -> dict[str, Select]:
    """A function for each SELECT class of a program."""
    classes = {plan.event_class.name: plan.event_class for plan in program.classes}
    return {
        plan.event_class.name: _Duck(plan.derivation, plan.event_class, classes)
        for plan in program.classes
        if isinstance(plan.derivation, SelectPlan)
    }


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


class _Duck:
    """One SELECT; what it gave for the same views and the same NOW is kept, for ticks are many."""

    def __init__(self, plan: SelectPlan, event_class: EventClass, classes: Mapping[str, EventClass]) -> None:
        self.plan, self.event_class = plan, event_class
        self.reads = [classes[name] for name in plan.reads]
        # Each has tables of its own, and a database for each would take longer than what is asked of it.
        self.connection = _database().cursor()
        query = self._transpiled()
        self.sql = query.sql(dialect="duckdb")
        self.tables = {key_of(table.name) for table in query.find_all(exp.Table)}
        self.known: dict[object, Sequence[Made] | str] = {}
        self.loaded: dict[str, str] = {}

    def __call__(self, views: Mapping[str, View], now: int) -> Sequence[Made]:
        seen = {read.name: repr(list(views[read.name])) for read in self.reads}
        question = (*seen.values(), now if self.plan.uses_now else None)
        if question not in self.known:
            self.known[question] = self._answer(views, seen, now)
        match self.known[question]:
            case str() as message:
                raise SelectFailed(message)
            case rows:
                return rows

    def _transpiled(self) -> exp.Query:
        query = sqlglot.parse_one(self.plan.timed_sql, read="spark")
        assert isinstance(query, exp.Query)
        for cast in [cast for cast in query.find_all(exp.TryCast) if not cast.args.get("safe")]:
            # What sqlglot takes a CAST of Spark for; ours is ANSI's, and fails.
            cast.replace(exp.cast(cast.this, cast.to))
        if self.plan.traced:
            query = _traced(query, {key_of(read.name) for read in self.reads})
        return query

    def _answer(self, views: Mapping[str, View], seen: Mapping[str, str], now: int) -> Sequence[Made] | str:
        sources: dict[str, EventId] = {}
        for read in self.reads:
            view = views[read.name]
            sources |= {_label(read, number): version.event for number, version in enumerate(view)}
            if self.loaded.get(read.name) != seen[read.name]:
                self._load(read, view)
                self.loaded[read.name] = seen[read.name]
        bound = {NOW_PARAMETER: _moment(now)} if f"${NOW_PARAMETER}" in self.sql else {}
        try:
            rows = self.connection.execute(self.sql, bound).fetchall()
        except duckdb.Error as error:
            return str(error).splitlines()[0]
        return [self._made(row, sources) for row in rows]

    def _load(self, event_class: EventClass, view: View) -> None:
        columns = [f'"{attribute.name}" {_duck_type(attribute.type)}' for attribute in event_class.attributes]
        columns += ["occ_time TIMESTAMP", "det_time TIMESTAMP"]
        rows = [[*_stored(event_class, version), [_label(event_class, n)]] for n, version in enumerate(view)]
        for suffix, extra in (("", 0), (TRACED, 1)):
            if key_of(event_class.name + suffix) not in self.tables:
                continue
            name = f'"{event_class.name}{suffix}"'
            declared = [*columns, f"{LINEAGE} VARCHAR[]"] if extra else columns
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({', '.join(declared)})")
            if rows:
                wanted = [row if extra else row[:-1] for row in rows]
                marks = f"({', '.join('?' * len(declared))})"
                values = [value for row in wanted for value in row]
                self.connection.execute(f"INSERT INTO {name} VALUES {', '.join([marks] * len(wanted))}", values)

    def _made(self, row: Sequence[Any], sources: Mapping[str, EventId]) -> Made:
        fed = {key_of(c.attribute): _plain(v) for c, v in zip(self.plan.columns, row, strict=False) if c.attribute}
        values = tuple(fed.get(key_of(attribute.name)) for attribute in self.event_class.attributes)
        occ_time = _plain(row[len(self.plan.columns)])
        assert occ_time is None or isinstance(occ_time, int)
        constituents = frozenset(sources[label] for label in row[-1]) if self.plan.traced else frozenset()
        return Made(values, occ_time, constituents)


# ---- lineage --------------------------------------------------------------------------------------


def _traced(query: exp.Query, views: set[str]) -> exp.Query:
    """The query with one more column, the last: the labels of the rows that were joined or united to make this one."""
    for cte in query.ctes:
        cte.set("this", _traced(cte.this, views))
    match query:
        case exp.Union():
            sides = [_traced(side, views) for side in (query.left, query.right)]
            united = exp.union(*sides, distinct=False)
            if not query.args.get("distinct"):
                made: exp.Query = united
            else:
                made = sqlglot.parse_one(
                    f"SELECT * EXCLUDE ({LINEAGE}), flatten(list({LINEAGE})) AS {LINEAGE} FROM (SELECT 1) AS united"
                    " GROUP BY ALL",
                    read="duckdb",
                )  # type: ignore[assignment]
                made.find(exp.Subquery).set("this", united)  # type: ignore[union-attr]
            if query.args.get("with_"):
                made.set("with_", query.args["with_"])
            return made
        case exp.Subquery():
            query.set("this", _traced(query.this, views))
            return query
        case exp.Select():
            return _traced_select(query, views)
        case _:
            raise AssertionError(f"not traced: {query}")


def _traced_select(query: exp.Select, views: set[str]) -> exp.Select:
    lists = [f"COALESCE({alias}.{LINEAGE}, [])" for alias in _sources(query, views)]
    for star in [*query.find_all(exp.Star)]:
        if star.parent is query or (isinstance(star.parent, exp.Column) and star.parent.parent is query):
            star.set("except_", [exp.to_identifier(LINEAGE)])
    joined = " || ".join(lists) if lists else "[]"
    query.append("expressions", sqlglot.parse_one(f"{joined} AS {LINEAGE}", read="duckdb"))
    return query


def _sources(query: exp.Select, views: set[str]) -> Iterator[str]:
    """The aliases of what is joined, each with its lists from now on."""
    from_ = query.args.get("from_")
    joins = query.args.get("joins") or []
    assert all(not join.args.get("method") for join in joins), "a NATURAL JOIN is not traced"
    for holder in [from_, *joins]:
        if holder is None:
            continue
        source = holder.this
        is_hidden = isinstance(holder, exp.Join) and holder.kind in ("SEMI", "ANTI")
        if isinstance(source, exp.Table):
            if key_of(source.name) in views and not is_hidden:
                alias = source.alias_or_name
                source.set("this", exp.to_identifier(source.name + TRACED, quoted=True))
                source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        else:
            assert isinstance(source, exp.Subquery)
            source.set("this", _traced(source.this, views))
        if not is_hidden:
            yield source.alias_or_name


# ---- values ---------------------------------------------------------------------------------------


def _duck_type(kind: t.Type) -> str:
    match kind:
        case t.String():
            return "VARCHAR"
        case t.Decimal(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case _:
            return str(kind)


def _moment(microseconds: int) -> datetime:
    return (EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=None)


def _stored(event_class: EventClass, version: Version) -> list[Any]:
    kinds = [attribute.type for attribute in event_class.attributes]
    values: list[Any] = [
        _moment(value) if isinstance(kind, t.Timestamp) and isinstance(value, int) else value
        for kind, value in zip(kinds, version.values, strict=True)
    ]
    assert version.occ_time is not None
    return [*values, _moment(version.occ_time), _moment(version.det_time)]


def _label(event_class: EventClass, number: int) -> str:
    return f"{event_class.name}#{number}"


def _plain(value: Any) -> Value:
    plain: Value = microseconds_of(value) if isinstance(value, datetime) else value
    return plain
