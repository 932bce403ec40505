"""Queries of Spark SQL → text for DuckDB: what names mean, joins, unions, groups, windows, and where rows come from.

In: a query as sqlglot reads it, and the classes whose views it may read. Out: text, its columns and the functions it
calls. Every table and column has a name of its own, so that no rule of DuckDB about names has a say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from augury import types as t
from augury.duck.sql.aggregates import aggregated
from augury.duck.sql.expressions import Expressions
from augury.duck.sql.gathering import aggregates, collected, gathers, seen_by
from augury.duck.sql.kinds import DAYS, SqlType, is_duration, meeting
from augury.duck.sql.values import Functions, Value, refused
from augury.event import TIME_ATTRIBUTES, EventClass, key_of

ROW: Final = "row_"
"""The hidden column of a view: the number of the row."""
MADE: Final = "made_"
"""The hidden column of a traced query: the numbers of the rows that this one is made of."""


def column_key(name: str) -> str:
    """What a column is matched by."""
    return TIME_ATTRIBUTES.get(key_of(name), key_of(name))


def view_columns(event_class: EventClass) -> list[tuple[str, str, SqlType]]:
    """The columns of a view: what each is matched by, what DuckDB calls it, its type."""
    named = [(a.name, a.type) for a in event_class.attributes]
    named += [("occ_time", t.TIMESTAMP), ("det_time", t.TIMESTAMP)]
    return [(column_key(name), _name(name, i), kind) for i, (name, kind) in enumerate(named)]


def _name(name: str, number: int) -> str:
    """A name of its own for a column: readable, and no word of SQL."""
    return f"{re.sub('^[0-9]+|[^a-z0-9_]+', '', name.lower())[:40]}_{number}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query for DuckDB: its text, its columns by name and type, whether `MADE` follows them."""

    sql: str
    keys: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    made: bool


@dataclass(frozen=True, slots=True)
class Source:
    """What a FROM clause offers under one name."""

    key: str
    columns: tuple[tuple[str, Value], ...]
    made: str | None


@dataclass(slots=True)
class Scope:
    """What names mean in one SELECT, and how its expressions are written."""

    translator: Translator
    ctes: Mapping[str, tuple[str, Query]]
    outer: Scope | None
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Value] = field(default_factory=dict)
    outputs: dict[str, Value] = field(default_factory=dict)
    windows: dict[str, exp.Window] = field(default_factory=dict)

    @property
    def expressions(self) -> Expressions:
        return Expressions(
            self, self.translator.functions, lambda node, suffix: aggregated(node, suffix, self.expressions)
        )

    def column(self, node: exp.Column) -> Value:
        if node.args.get("db") or not isinstance(node.this, exp.Identifier):
            raise refused(node, "this name is not run in process")
        found = self.find(key_of(node.table) if node.table else None, column_key(node.name))
        if found is None:
            raise refused(node, "there is no such column")
        return found

    def find(self, qualifier: str | None, key: str) -> Value | None:
        if qualifier is None and key in self.merged:
            return self.merged[key]
        for source in self.sources:
            if qualifier in (None, source.key):
                for name, value in source.columns:
                    if name == key:
                        return value
        if qualifier is None and key in self.outputs:
            return self.outputs[key]
        return self.outer.find(qualifier, key) if self.outer else None

    def starred(self, qualifier: str | None) -> list[tuple[str, Value]]:
        columns = [c for s in self.sources if qualifier in (None, s.key) for c in s.columns]
        if qualifier is not None:
            return columns
        return [*self.merged.items(), *(c for c in columns if c[0] not in self.merged)]

    def subquery(self, node: exp.Expr) -> tuple[str, list[SqlType]]:
        query = self.translator.query(node, self.ctes, self, traced=False)
        return query.sql, list(query.types)

    def window(self, node: exp.Window) -> str:
        if name := node.args.get("alias"):
            node = self.windows[key_of(name.name)]
        partition = ", ".join(self.expressions.of(one).sql for one in node.args.get("partition_by") or ())
        order = node.args.get("order")
        parts = [f"PARTITION BY {partition}"] if partition else []
        if order:
            parts.append(f"ORDER BY {', '.join(self.ordered(one) for one in order.expressions)}")
        if spec := node.args.get("spec"):
            parts.append(self.frame(spec, order))
        return " ".join(parts)

    def ordered(self, node: exp.Ordered, sql: str | None = None) -> str:
        """One key of an order; Spark has NULL before all values."""
        if node.args.get("with_fill"):
            raise refused(node, "this order is not run in process")
        text = sql or self.expressions.of(node.this).sql
        first = node.args.get("nulls_first")
        return f"{text} {'DESC' if node.args.get('desc') else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"

    def frame(self, spec: exp.WindowSpec, order: exp.Order | None) -> str:
        if spec.args.get("exclude"):
            raise refused(spec, "this frame is not run in process")
        bounds = [
            self.bound(spec.args.get(end), str(spec.args.get(f"{end}_side") or ""), order) for end in ("start", "end")
        ]
        kind = str(spec.args.get("kind") or "RANGE").upper()
        return f"{kind} BETWEEN {bounds[0]} AND {bounds[1]}"

    def bound(self, bound: object, side: str, order: exp.Order | None) -> str:
        if bound is None or bound == "CURRENT ROW":
            return "CURRENT ROW"
        if bound == "UNBOUNDED":
            return f"UNBOUNDED {side}"
        assert isinstance(bound, exp.Expr)
        value = self.expressions.of(bound)
        keys = [self.expressions.of(one.this).type for one in order.expressions] if order else []
        if is_duration(value.type) and not (keys and is_duration(keys[0])):
            return f"to_microseconds({value.sql}) {side}"
        return f"{value.sql} {side}"


@dataclass(slots=True)
class Translator:
    """One query on its way to DuckDB; CTEs stand before all else, under names of their own.

    `gathers`: rows are also traced through groups, DISTINCT, windows, EXCEPT and INTERSECT, to all that went in.
    """

    classes: Mapping[str, EventClass]
    reads: Sequence[str]
    gathers: bool = False
    functions: Functions = field(default_factory=Functions)
    hoisted: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self, letter: str = "t") -> str:
        """A name that nothing has yet."""
        self.count += 1
        return f"{letter}{self.count}"

    def query(
        self, node: exp.Expr, ctes: Mapping[str, tuple[str, Query]], outer: Scope | None, *, traced: bool
    ) -> Query:
        """Any query."""
        if with_ := node.args.get("with_"):
            if with_.args.get("recursive"):
                raise refused(with_, "WITH RECURSIVE is not run in process")
            for cte in with_.expressions:
                ctes = {**ctes, key_of(cte.alias): self.cte(cte, ctes, traced)}
        match node:
            case exp.Select():
                return self.select(node, ctes, outer, traced)
            case exp.SetOperation():
                return self.united(node, ctes, outer, traced)
            case exp.Subquery(this=exp.Query()):
                inner = self.query(node.this, ctes, outer, traced=traced)
                return self.limited(node, inner, Scope(self, ctes, outer))
            case _:
                raise refused(node, f"this form ({node.key.upper()}) is not run in process")

    def cte(self, node: exp.CTE, ctes: Mapping[str, tuple[str, Query]], traced: bool) -> tuple[str, Query]:
        query = _renamed(self.query(node.this, ctes, None, traced=traced), node)
        name = self.fresh("q")
        self.hoisted.append(f"{name} AS ({query.sql})")
        return name, query

    # ---- FROM

    def select(
        self, node: exp.Select, ctes: Mapping[str, tuple[str, Query]], outer: Scope | None, traced: bool
    ) -> Query:
        scope, args = Scope(self, ctes, outer), node.args
        if wrong := next((args[n] for n in ("laterals", "connect", "match", "pivots", "sample") if args.get(n)), None):
            raise refused(wrong[0] if isinstance(wrong, list) else wrong, "this clause is not run in process")
        scope.windows = {key_of(w.name): w for w in args.get("windows") or ()}
        tables = self.tables(node, scope, traced)
        of = scope.expressions
        where = f" WHERE {of.truth(args['where'].this).sql}" if args.get("where") else ""
        columns: list[tuple[str, Value]] = []
        for output in node.expressions:
            found = list(self.output(output, scope))
            columns += found
            for key, value in found:
                scope.outputs.setdefault(key, value)
        group = self.group(node, scope, columns)
        having = f" HAVING {of.truth(args['having'].this).sql}" if args.get("having") else ""
        qualify = f" QUALIFY {of.truth(args['qualify'].this).sql}" if args.get("qualify") else ""
        distinct = self.distinct(node)
        lists = [source.made for source in scope.sources if source.made]
        rows = traced and (self.gathers or not (group or having or qualify or distinct or gathers(node)))
        names = [_name(key, i) for i, (key, _) in enumerate(columns)]
        shown = [f"{value.sql} AS {name}" for name, (_, value) in zip(names, columns, strict=True)]
        if rows:
            made = f"list_concat({', '.join(['CAST([] AS BIGINT[])', *lists])})"
            made = collected(made) if group or having or aggregates(node) else made
            shown.append(f"{self.windowed(node, scope, made) if self.gathers else made} AS {MADE}")
        alike = rows and bool(distinct)
        text = f"SELECT {'' if alike else distinct}{', '.join(shown)}{tables}{where}{group}{having}{qualify}"
        text = self.alike(text, names) if alike else text
        keys = tuple(key for key, _ in columns)
        query = Query(text, keys, tuple(names), tuple(value.type for _, value in columns), rows)
        return replace(query, sql=text + self.tail(node, scope, query))

    def alike(self, text: str, names: Sequence[str]) -> str:
        """Rows that are alike as one, made of all that each is made of."""
        shown = ", ".join(names)
        return f"SELECT {shown}, {collected(MADE)} AS {MADE} FROM ({text}) AS {self.fresh()} GROUP BY {shown}"

    def windowed(self, node: exp.Select, scope: Scope, made: str) -> str:
        """What a row is made of, and what those are that its windows show it: of ranks and the like, the partition."""
        seen = [f"flatten(list({made}) OVER ({scope.window(one)}))" for one in seen_by(node, scope.windows)]
        return f"list_concat({', '.join([made, *seen])})" if seen else made

    def distinct(self, node: exp.Select) -> str:
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise refused(distinct, "DISTINCT ON is not run in process")
        return "DISTINCT " if distinct is not None else ""

    def tables(self, node: exp.Expr, scope: Scope, traced: bool) -> str:
        from_ = node.args.get("from_")
        if from_ is None:
            return ""
        text = self.table(from_.this, scope, traced)
        comma = False
        for join in node.args.get("joins") or ():
            if comma and join.args.get("side") in ("RIGHT", "FULL"):
                raise refused(join, "a comma before this join means another order; write CROSS JOIN")
            comma |= not join.args.get("on") and not join.args.get("using") and not join.args.get("side")
            text += self.join(join, scope, traced)
        return f" FROM {text}"

    def table(self, node: exp.Expr, scope: Scope, traced: bool) -> str:
        match node:
            case exp.Table(this=exp.Identifier() as name) if key_of(name.name) in scope.ctes:
                stored, query = scope.ctes[key_of(name.name)]
                return self.source(stored, _renamed(query, node), node.alias or name.name, scope) + self.nested(
                    node, scope, traced
                )
            case exp.Table(this=exp.Identifier() as name):
                if any(node.args.get(n) for n in ("pivots", "sample", "version", "when")):
                    raise refused(node, "this form of a table is not run in process")
                return self.view(node, name.name, scope, traced) + self.nested(node, scope, traced)
            case exp.Subquery(this=exp.Query()):
                if node.args.get("pivots") or node.args.get("sample"):
                    raise refused(node, "this form of a table is not run in process")
                query = _renamed(self.query(node.this, scope.ctes, None, traced=traced), node)
                return self.source(f"({query.sql})", query, node.alias, scope) + self.nested(node, scope, traced)
            case exp.Subquery(this=exp.Table()) if not node.alias:
                return f"({self.table(node.this, scope, traced)})" + self.nested(node, scope, traced)
            case _:
                raise refused(node, f"this table ({node.key.upper()}) is not run in process")

    def nested(self, node: exp.Expr, scope: Scope, traced: bool) -> str:
        return "".join(self.join(join, scope, traced) for join in node.args.get("joins") or ())

    def view(self, node: exp.Table, name: str, scope: Scope, traced: bool) -> str:
        event_class, alias = self.classes[key_of(name)], self.fresh()
        columns = view_columns(event_class)
        given = _given(node)
        keys = [column_key(k) for k in given] if given else [key for key, _, _ in columns]
        values = [Value(f"{alias}.{stored}", kind) for _, stored, kind in columns]
        number = next(i for i, read in enumerate(self.reads) if key_of(read) == key_of(name))
        row = f"{alias}.{ROW} * {len(self.reads)} + {number}"
        made = f"CASE WHEN {alias}.{ROW} IS NULL THEN [] ELSE [{row}] END" if traced else None
        scope.sources.append(Source(key_of(node.alias or name), tuple(zip(keys, values, strict=True)), made))
        return f"{view_name(event_class)} AS {alias}"

    def source(self, text: str, query: Query, called: str, scope: Scope) -> str:
        alias = self.fresh()
        named = zip(query.keys, query.names, query.types, strict=True)
        columns = tuple((key, Value(f"{alias}.{name}", kind)) for key, name, kind in named)
        scope.sources.append(Source(key_of(called), columns, f"{alias}.{MADE}" if query.made else None))
        return f"{text} AS {alias}"

    def join(self, node: exp.Join, scope: Scope, traced: bool) -> str:
        side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
        hides = kind in ("SEMI", "ANTI")
        if kind not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"):
            raise refused(node, "this join is not run in process")
        left = list(scope.sources)
        table = self.table(node.this, scope, traced)
        right = scope.sources[len(left) :]
        on = node.args.get("on")
        using = [column_key(name.name) for name in node.args.get("using") or ()]
        if node.args.get("method") == "NATURAL":
            shared = {key for source in right for key, _ in source.columns}
            using = list(dict.fromkeys(key for source in left for key, _ in source.columns if key in shared))
        tests = [self.merge(key, left, right, side, scope, node, hides) for key in using]
        if on is not None:
            tests.append(scope.expressions.truth(on).sql)
        if hides:
            del scope.sources[len(left) :]
        words = kind if hides else side if side else "CROSS" if not tests else "INNER"
        condition = f" ON {' AND '.join(tests) or 'TRUE'}" if words != "CROSS" else ""
        return f" {words} JOIN {table}{condition}"

    def merge(
        self, key: str, left: list[Source], right: list[Source], side: str, scope: Scope, node: exp.Join, hides: bool
    ) -> str:
        """Make one column of two that a join demands to be equal; the condition."""
        one = scope.merged.get(key) or next(v for s in left for k, v in s.columns if k == key)
        other = next(v for s in right for k, v in s.columns if k == key)
        of = scope.expressions
        a, b = of.alike([one, other], node)
        if not hides:
            full = Value(f"COALESCE({a.sql}, {b.sql})", a.type)
            scope.merged[key] = full if side == "FULL" else other if side == "RIGHT" else one
        return f"({a.sql} = {b.sql})"

    # ---- the select list, groups, order

    def output(self, node: exp.Expr, scope: Scope) -> Iterator[tuple[str, Value]]:
        if isinstance(node, exp.Star | exp.Column) and node.is_star:
            star, qualifier = node if isinstance(node, exp.Star) else node.this, node.args.get("table")
            if star.args.get("replace") or star.args.get("rename"):
                raise refused(node, "this * is not run in process")
            but = {column_key(name.name) for name in star.args.get("except_") or ()}
            yield from (c for c in scope.starred(key_of(qualifier.name) if qualifier else None) if c[0] not in but)
            return
        if isinstance(node, exp.Aliases):
            raise refused(node, "several columns of one expression are not run in process")
        name = node.alias_or_name if isinstance(node, exp.Alias | exp.Column) else ""
        yield column_key(name), replace(scope.expressions.of(node), digits=0)

    def group(self, node: exp.Select, scope: Scope, columns: list[tuple[str, Value]]) -> str:
        group = node.args.get("group")
        if group is None:
            return ""
        if group.args.get("all"):
            plain = [o for o in node.expressions if not o.find(exp.AggFunc)]
            return self.grouped([scope.expressions.of(one) for one in plain])
        if any(group.args.get(n) for n in ("rollup", "cube", "grouping_sets", "totals")):
            raise refused(group, "only plain GROUP BY is run in process")
        found = []
        for key in group.expressions:
            if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
                raise refused(key, "only plain GROUP BY is run in process")
            place = int(key.name) if isinstance(key, exp.Literal) and key.is_int else 0
            found.append(columns[place - 1][1] if place else scope.expressions.of(key))
        return self.grouped(found)

    def grouped(self, keys: list[Value]) -> str:
        return f" GROUP BY {', '.join(key.sql for key in keys)}" if keys else ""

    def tail(self, node: exp.Expr, scope: Scope, query: Query) -> str:
        """ORDER BY, LIMIT and OFFSET."""
        text, order = "", node.args.get("order")
        if order is not None:
            text = f" ORDER BY {', '.join(self.sorted_by(key, scope, query) for key in order.expressions)}"
        for word in ("limit", "offset"):
            clause = node.args.get(word)
            if clause is None or clause.expression.name.upper() == "ALL":
                continue
            if not (isinstance(clause.expression, exp.Literal) and clause.expression.is_int):
                raise refused(clause, f"{word.upper()} takes a number as written in process")
            text += f" {word.upper()} {clause.expression.name}"
        return text

    def sorted_by(self, node: exp.Expr, scope: Scope, query: Query) -> str:
        assert isinstance(node, exp.Ordered)
        key = node.this
        if isinstance(key, exp.Literal) and key.is_int:
            return scope.ordered(node, query.names[int(key.name) - 1])
        if isinstance(key, exp.Column) and not key.table and column_key(key.name) in query.keys:
            return scope.ordered(node, query.names[query.keys.index(column_key(key.name))])
        return scope.ordered(node)

    def limited(self, node: exp.Expr, query: Query, scope: Scope) -> Query:
        """The query with the ORDER BY and LIMIT that stand behind its brackets."""
        tail = self.tail(node, scope, query)
        return replace(query, sql=f"SELECT * FROM ({query.sql}) AS {self.fresh()}{tail}") if tail else query

    # ---- UNION and its like

    def united(
        self, node: exp.SetOperation, ctes: Mapping[str, tuple[str, Query]], outer: Scope | None, traced: bool
    ) -> Query:
        if node.args.get("by_name"):
            raise refused(node, "BY NAME is not run in process")
        traced = traced and (self.gathers or isinstance(node, exp.Union))
        left, right = (self.query(part, ctes, outer, traced=traced) for part in (node.this, node.expression))
        kinds = []
        for a, b in zip(left.types, right.types, strict=True):
            kind = meeting(a, b)
            if kind is None:
                raise refused(node, f"{a} and {b} do not go together")
            kinds.append(t.DURATION if kind == DAYS and a != b else kind)
        sides = [self.side(query, kinds, left.names, traced) for query in (left, right)]
        word = {"union": "UNION", "except": "EXCEPT", "intersect": "INTERSECT"}[node.key]
        if traced and isinstance(node, exp.Union):
            text = f"{sides[0]} UNION ALL {sides[1]}"
            text = self.alike(text, left.names) if node.args.get("distinct") else text
        elif traced:
            if not node.args.get("distinct"):
                raise refused(node, f"{word} ALL is not traced")
            given = sides[0] if word == "EXCEPT" else f"{sides[0]} UNION ALL {sides[1]}"
            bare = [self.side(query, kinds, left.names, traced=False) for query in (left, right)]
            one, other = self.fresh(), self.fresh()
            tests = " AND ".join(f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in left.names)
            text = f"SELECT {one}.* FROM ({given}) AS {one} JOIN ({bare[0]} {word} {bare[1]}) AS {other} ON {tests}"
            text = self.alike(text, left.names)
        else:
            text = f"{sides[0]} {word}{'' if node.args.get('distinct') else ' ALL'} {sides[1]}"
        query = Query(text, left.keys, left.names, tuple(kinds), traced)
        return self.limited(node, query, Scope(self, ctes, outer))

    def side(self, query: Query, kinds: list[SqlType], names: tuple[str, ...], traced: bool) -> str:
        alias = self.fresh()
        scope = Scope(self, {}, None)
        shown = []
        for name, kind, target, called in zip(query.names, query.types, kinds, names, strict=True):
            value = Value(f"{alias}.{name}", kind)
            shown.append(f"{scope.expressions.converted(value, target).sql} AS {called}")
        if traced:
            shown.append(f"{alias}.{MADE}" if query.made else f"CAST([] AS BIGINT[]) AS {MADE}")
        return f"(SELECT {', '.join(shown)} FROM ({query.sql}) AS {alias})"


def view_name(event_class: EventClass) -> str:
    """What DuckDB calls the view of a class."""
    return '"view ' + event_class.name.replace('"', '""') + '"'


def _given(node: exp.Expr) -> list[str]:
    alias = node.args.get("alias")
    return [name.name for name in alias.args.get("columns") or ()] if alias else []


def _renamed(query: Query, node: exp.Expr) -> Query:
    """The query with the names that an alias gives its columns."""
    given = _given(node)
    return replace(query, keys=tuple(map(column_key, given))) if given else query
