"""The SQL of a SELECT class, every name resolved: which view columns go where unchanged, joins, sub-selects.

In: a checked plan and the classes it reads. Out: queries as trees of joined sources, for `select_parts` and
`select_turns` to look at; `Beyond` where the SQL has a form that they know nothing of. It runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlglot
from sqlglot import exp

from augury import types as t
from augury.algebra.select import SelectPlan
from augury.event import TIME_ATTRIBUTES, EventClass, key_of

_SHOWN_MAX: Final = 60


TOO_DEEP: Final = "it is nested too deep"


class Beyond(Exception):
    """Why nothing is known of a SELECT; one short sentence for the user."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column of one source of a FROM clause: itself and no other, even of the same view.

    `origins` are the view columns, as (class, column), whose values it has unchanged, or NULL; none if it is made.
    """

    key: str
    type: t.Type | None
    origins: frozenset[tuple[str, str]] = frozenset()


Value = tuple[Column, ...]
"""An expression that is a column, or COALESCE of several of one type."""


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """A column of a query: what it is matched by, the expression, and what that stands for if it is plain."""

    key: str
    node: exp.Expr
    value: Value | None


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What a FROM clause offers under one name: a view or a query, whose columns stand in the same order."""

    key: str
    columns: tuple[Column, ...]
    of: EventClass | Query
    node: exp.Expr


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Two sides joined: `kind` is inner, left, right, full, semi or anti; `using` are columns to be equal."""

    left: Tree
    right: Tree
    kind: str
    using: tuple[tuple[Value, Value], ...]
    on: exp.Expr | None
    node: exp.Join


Tree = Source | Joined


@dataclass(slots=True, eq=False)
class Selected:
    """One SELECT; `tree` is None if it has no FROM clause."""

    node: exp.Select
    tree: Tree | None
    outputs: tuple[Output, ...]
    limit: exp.Expr | None = None

    def columns(self) -> list[tuple[str, t.Type | None, frozenset[tuple[str, str]]]]:
        """Name, type and origins of each column."""
        return [(o.key, type_of(o.value), origins_of(o.value)) for o in self.outputs]


@dataclass(slots=True, eq=False)
class United:
    """UNION, EXCEPT or INTERSECT of two queries."""

    node: exp.SetOperation
    left: Query
    right: Query
    limit: exp.Expr | None = None

    def columns(self) -> list[tuple[str, t.Type | None, frozenset[tuple[str, str]]]]:
        """Name, type and origins of each column; a column of two types is no view column any more."""
        found = []
        for (key, one, origins), (_, other, others) in zip(self.left.columns(), self.right.columns(), strict=True):
            kind = meeting(one, other)
            found.append((key, kind, origins | others if kind and origins and others else frozenset()))
        return found


Query = Selected | United


def type_of(value: Value | None) -> t.Type | None:
    """The type of a plain value."""
    return value[0].type if value else None


def origins_of(value: Value | None) -> frozenset[tuple[str, str]]:
    """All view columns that a value may come from; none if one is unknown."""
    if not value or not all(column.origins for column in value):
        return frozenset()
    return frozenset().union(*(column.origins for column in value))


def meeting(one: t.Type | None, other: t.Type | None) -> t.Type | None:
    """The type of both if no value changes on the way, and equal values are the same value: not of DOUBLEs."""
    if isinstance(one, t.String) and isinstance(other, t.String):
        return one if one == other else t.STRING
    return one if one == other and not isinstance(one, t.Double) else None


def shown(node: exp.Expr) -> str:
    """A part of the SQL as a reason shows it."""
    text = node.sql("spark")
    return f"`{text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + '…'}`"


def within(root: exp.Expr | None) -> Iterator[exp.Expr]:
    """The nodes of an expression, sub-selects unopened."""
    return root.dfs(prune=lambda node: isinstance(node, exp.Query)) if root is not None else iter(())


def conjuncts(root: exp.Expr | None) -> Iterator[exp.Expr]:
    """What all has to be true for a condition to be; of thousands, too."""
    pending = [root] if root is not None else []
    while pending:
        match node := pending.pop():
            case exp.Where() | exp.Having() | exp.Qualify() | exp.Paren():
                pending.append(node.this)
            case exp.And():
                pending += [node.right, node.left]
            case _:
                yield node


@dataclass(slots=True)
class _Scope:
    """What names mean in one SELECT."""

    ctes: Mapping[str, tuple[Query, tuple[str, ...]]]
    outer: _Scope | None
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Value] = field(default_factory=dict)
    outputs: dict[str, Value | None] = field(default_factory=dict)

    def find(self, qualifier: str | None, key: str) -> Value | None:
        if qualifier is None and key in self.merged:
            return self.merged[key]
        for source in self.sources:
            if qualifier in (None, source.key):
                for column in source.columns:
                    if column.key == key:
                        return (column,)
        if qualifier is None and key in self.outputs:
            return self.outputs[key]
        return self.outer.find(qualifier, key) if self.outer else None

    def starred(self, qualifier: str | None) -> list[tuple[str, Value]]:
        columns: list[tuple[str, Value]] = [
            (c.key, (c,)) for s in self.sources if qualifier in (None, s.key) for c in s.columns
        ]
        if qualifier is not None:
            return columns
        return [*self.merged.items(), *(c for c in columns if c[0] not in self.merged)]


@dataclass(slots=True)
class Resolved:
    """A query, what its columns mean, and the queries that stand in its expressions, by the identity of their nodes."""

    classes: Mapping[str, EventClass]
    root: exp.Expr
    query: Query = field(init=False)
    meaning: dict[int, Value] = field(default_factory=dict)
    inner: dict[int, Query] = field(default_factory=dict)

    def value(self, node: exp.Expr | None) -> Value | None:
        """The columns that an expression stands for, if it is no more than that."""
        match node:
            case exp.Paren() | exp.Alias():
                return self.value(node.this)
            case exp.Column():
                return self.meaning.get(id(node))
            case exp.Coalesce():
                values = [self.value(operand) for operand in (node.this, *node.expressions)]
                flat = tuple(column for value in values if value for column in value)
                alike = all(value is not None for value in values) and all(c.type == flat[0].type for c in flat)
                return flat if alike else None
            case _:
                return None

    # ---- queries

    def read(self, node: exp.Expr, ctes: Mapping[str, tuple[Query, tuple[str, ...]]], outer: _Scope | None) -> Query:
        """Resolve a query."""
        if with_ := node.args.get("with_"):
            if with_.args.get("recursive"):
                raise Beyond("WITH RECURSIVE may bring any rows together")
            for cte in with_.expressions:
                ctes = {**ctes, key_of(cte.alias): (self.read(cte.this, ctes, None), _given(cte))}
        match node:
            case exp.Select():
                query: Query = self.select(node, ctes, outer)
            case exp.SetOperation():
                if node.args.get("by_name"):
                    raise Beyond("nothing is known of BY NAME")
                query = United(node, self.read(node.this, ctes, outer), self.read(node.expression, ctes, outer))
                if len(query.left.columns()) != len(query.right.columns()):
                    raise Beyond(f"the parts of {shown(node)} have not as many columns")
            case exp.Subquery(this=exp.Query()):
                query = self.read(node.this, ctes, outer)
            case _:
                raise Beyond(f"nothing is known of {shown(node)}")
        for word in ("limit", "offset"):
            if (limit := node.args.get(word)) is not None and getattr(limit.expression, "name", "").upper() != "ALL":
                query.limit = query.limit or limit
        return query

    def select(
        self, node: exp.Select, ctes: Mapping[str, tuple[Query, tuple[str, ...]]], outer: _Scope | None
    ) -> Selected:
        scope, args = _Scope(ctes, outer), node.args
        for name in ("laterals", "connect", "match", "pivots", "sample"):
            if args.get(name):
                raise Beyond(f"nothing is known of {name.upper().removesuffix('S')}")
        tree = self.joins(node, self.table(args["from_"].this, scope), scope) if args.get("from_") else None
        self.operands(args.get("where"), scope)
        outputs: list[Output] = []
        for output in node.expressions:
            made = list(self.output(output, scope))
            outputs += made
            for one in made:
                scope.outputs.setdefault(one.key, one.value)
        for name in ("group", "having", "qualify", "order"):
            self.operands(args.get(name), scope)
        for window in args.get("windows") or ():
            self.operands(window, scope)
        return Selected(node, tree, tuple(outputs))

    def output(self, node: exp.Expr, scope: _Scope) -> Iterator[Output]:
        if isinstance(node, exp.Star | exp.Column) and node.is_star:
            star, qualifier = node if isinstance(node, exp.Star) else node.this, node.args.get("table")
            if star.args.get("replace") or star.args.get("rename"):
                raise Beyond(f"nothing is known of {shown(node)}")
            but = {column_key(name.name) for name in star.args.get("except_") or ()}
            for key, value in scope.starred(key_of(qualifier.name) if qualifier else None):
                if key not in but:
                    yield Output(key, node, value)
            return
        if isinstance(node, exp.Aliases):
            raise Beyond(f"nothing is known of {shown(node)}")
        self.operands(node, scope)
        name = node.alias_or_name if isinstance(node, exp.Alias | exp.Column) else ""
        yield Output(column_key(name), node, self.value(node))

    def operands(self, root: exp.Expr | None, scope: _Scope) -> None:
        for node in within(root):
            if isinstance(node, exp.Query):
                self.inner[id(node)] = self.read(node, scope.ctes, scope)
            elif isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and not node.args.get("db"):
                value = scope.find(key_of(node.table) if node.table else None, column_key(node.name))
                if value is not None:
                    self.meaning[id(node)] = value

    # ---- FROM

    def table(self, node: exp.Expr, scope: _Scope) -> Tree:
        plain = not any(node.args.get(name) for name in ("pivots", "sample", "version", "when"))
        match node:
            case exp.Table(this=exp.Identifier() as name) if plain and not node.db:
                if known := scope.ctes.get(key_of(name.name)):
                    source = _source(node, node.alias or name.name, known[0], known[1])
                else:
                    source = _source(node, node.alias or name.name, self.classes[key_of(name.name)], ())
            case exp.Subquery(this=exp.Query() as inner) if plain:
                source = _source(node, node.alias, self.read(inner, scope.ctes, None), ())
            case exp.Subquery(this=exp.Table()) if plain and not node.alias:
                return self.joins(node, self.table(node.this, scope), scope)
            case _:
                raise Beyond(f"nothing is known of {shown(node)}")
        scope.sources.append(source)
        return self.joins(node, source, scope)

    def joins(self, node: exp.Expr, tree: Tree, scope: _Scope) -> Tree:
        comma = False
        for join in node.args.get("joins") or ():
            side, word = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
            if word not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI") or (comma and side in ("RIGHT", "FULL")):
                raise Beyond(f"nothing is known of {shown(join)}")
            comma |= not join.args.get("on") and not join.args.get("using") and not side
            kind = word.lower() if word in ("SEMI", "ANTI") else side.lower() or "inner"
            tree = self.join(join, kind, tree, scope)
        return tree

    def join(self, node: exp.Join, kind: str, left: Tree, scope: _Scope) -> Joined:
        before = list(scope.sources)
        right = self.table(node.this, scope)
        after = scope.sources[len(before) :]
        using = [column_key(name.name) for name in node.args.get("using") or ()]
        if node.args.get("method") == "NATURAL":
            shared = {column.key for source in after for column in source.columns}
            using = list(dict.fromkeys(c.key for source in before for c in source.columns if c.key in shared))
        pairs: list[tuple[Value, Value]] = []
        for key in using:
            one = scope.merged.get(key) or next((c,) for s in before for c in s.columns if c.key == key)
            other = next((c,) for s in after for c in s.columns if c.key == key)
            pairs.append((one, other))
            if kind == "full" and type_of(one) != type_of(other):
                raise Beyond(f"the sides of {shown(node)} have different types")
            if kind not in ("semi", "anti"):
                scope.merged[key] = {"full": (*one, *other), "right": other}.get(kind, one)
        self.operands(node.args.get("on"), scope)
        if kind in ("semi", "anti"):
            del scope.sources[len(before) :]
        return Joined(left, right, kind, tuple(pairs), node.args.get("on"), node)


def resolved(plan: SelectPlan, classes: Iterable[EventClass]) -> Resolved:
    """The query of a plan, the occurrence time its last column; `Beyond` says what is not known."""
    root = sqlglot.parse_one(plan.timed_sql, read="spark")
    found = Resolved({key_of(one.name): one for one in classes}, root)
    found.query = found.read(root, {}, None)
    return found


def column_key(name: str) -> str:
    """What a column is matched by."""
    return TIME_ATTRIBUTES.get(key_of(name), key_of(name))


def _given(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    return tuple(column_key(name.name) for name in alias.args.get("columns") or ()) if alias else ()


def _source(node: exp.Expr, name: str, of: EventClass | Query, renamed: tuple[str, ...]) -> Source:
    if isinstance(of, EventClass):
        named: list[tuple[str, t.Type | None]] = [(a.name, a.type) for a in of.attributes]
        named += [("occ_time", t.TIMESTAMP), ("det_time", t.TIMESTAMP)]
        columns = [(column_key(n), kind, frozenset({(of.name, n)})) for n, kind in named]
    else:
        columns = of.columns()
    keys = _given(node) or renamed or tuple(key for key, _, _ in columns)
    found = tuple(Column(key, kind, origins) for key, (_, kind, origins) in zip(keys, columns, strict=True))
    return Source(key_of(name), found, of, node)
