"""By which columns a SELECT falls apart: rows of different values never meet, so that it can be derived value by value.

In: a checked plan and the classes it reads. Out: `ByKey`, or `Whole` with the reason. Every row of a query is thought
to bear a tag, the value of one column of each view that it is made of. A query falls apart if only rows with the same
tag meet in it; then it can be run for some tags as well as for all. `Apart` says of which columns the tags are the
values, and where they can be read off a row. Parts by several columns follow: what falls apart by each falls apart by
all of them together. It runs nothing; docs/select.md says what it means to a user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, Generic, TypeVar

from sqlglot import exp

from augury import types as t
from augury.algebra.select import ByKey, SelectPlan, Whole
from augury.engine.select_tree import (
    TOO_DEEP,
    Beyond,
    Column,
    Joined,
    Query,
    Resolved,
    Selected,
    Source,
    Tree,
    United,
    Value,
    conjuncts,
    meeting,
    resolved,
    shown,
    type_of,
    within,
)
from augury.event import EventClass, key_of

WAYS_MAX: Final = 256
"""Of so many ways to fall apart the first are followed; leaving some out is safe."""

C = TypeVar("C")


def parts_of(plan: SelectPlan, classes: Iterable[EventClass]) -> ByKey | Whole:
    """By which columns a SELECT can be derived for touched values only; `classes` are those of the program."""
    known = list(classes)
    target = next(one for one in known if key_of(one.name) == key_of(plan.event_class))
    if not plan.reads:
        return Whole("it reads no class")
    try:
        tree = resolved(plan, known)
        ways = _Parts(tree).query(tree.query)
    except Beyond as reason:
        return Whole(str(reason))
    except RecursionError:
        return Whole(TOO_DEEP)
    return _chosen(plan, target, ways, [kind for _, kind, _ in tree.query.columns()])


@dataclass(frozen=True, slots=True)
class Apart(Generic[C]):
    """One way to fall apart: the column of each class whose values are the tags.

    Each of `maybe` is the tag of its row, or NULL. Of each of `covers` one is the tag, unless that is NULL: COALESCE
    of them is the tag.
    """

    by: dict[str, str]
    maybe: frozenset[C]
    covers: frozenset[frozenset[C]]

    def is_maybe(self, value: tuple[C, ...] | None) -> bool:
        """Whether COALESCE of these is the tag or NULL."""
        return value is not None and self.maybe.issuperset(value)

    def is_tag(self, value: tuple[C, ...] | None) -> bool:
        """Whether COALESCE of these is the tag."""
        return value is not None and self.is_maybe(value) and any(cover.issubset(value) for cover in self.covers)

    def is_told_by(self, values: Iterable[tuple[C, ...] | None]) -> bool:
        """Whether rows alike in all of these values have the same tag."""
        given = [value for value in values if value is not None]
        plain = frozenset(value[0] for value in given if len(value) == 1)
        return any(cover <= plain for cover in self.covers) or any(map(self.is_tag, given))


Ways = list[Apart[Column]]
Equality = tuple[Value, Value, bool]
"""Two values to be equal; whether NULL counts as equal to NULL."""


def _chosen(plan: SelectPlan, target: EventClass, ways: list[Apart[int]], kinds: list[t.Type | None]) -> ByKey | Whole:
    """As many parts as there are attributes of the key that carry one."""
    fed = {key_of(c.attribute): i for i, c in enumerate(plan.columns) if c.attribute is not None}
    found: list[tuple[str, dict[str, str]]] = []
    for name in target.key or tuple(attribute.name for attribute in target.attributes):
        attribute, place = target.attribute(name), fed.get(key_of(name))
        if attribute is None or place is None or not _is_stored(kinds[place], attribute.type):
            continue
        for way in ways:
            if way.is_tag((place,)) and set(way.by) == set(plan.reads) and all(way.by != by for _, by in found):
                found.append((attribute.name, way.by))
                break
    if found:
        columns = tuple((read, tuple(by[read] for _, by in found)) for read in plan.reads)
        return ByKey(columns, tuple(name for name, _ in found))
    key = f"the key ({', '.join(target.key)})" if target.key else "the class"
    by = ", ".join(f"{name}.{column}" for name, column in ways[0].by.items()) if len(ways) == 1 else "a column"
    return Whole(f"no attribute of {key} takes {by}, by which its rows fall apart, as it is")


def _is_stored(kind: t.Type | None, target: t.Type) -> bool:
    """Whether a value goes into an attribute as it is."""
    return kind == target or (isinstance(kind, t.String) and target == t.STRING)


def _both(one: dict[str, str], other: dict[str, str]) -> dict[str, str] | None:
    """The columns of two ways; none if they are not the same for a class."""
    return {**one, **other} if all(one.get(name, column) == column for name, column in other.items()) else None


@dataclass(slots=True)
class _Parts:
    """One SELECT being looked at."""

    tree: Resolved
    known: dict[int, list[Apart[int]]] = field(default_factory=dict)

    # ---- queries: ways by the places of their columns

    def query(self, query: Query) -> list[Apart[int]]:
        """The ways in which a query falls apart; raises `Beyond` if there is none."""
        if id(query) not in self.known:
            ways = self.selected(query) if isinstance(query, Selected) else self.united(query)
            if query.limit is not None:
                raise Beyond(f"{shown(query.limit)} counts all rows")
            self.known[id(query)] = ways[:WAYS_MAX]
        return self.known[id(query)]

    def united(self, query: United) -> list[Apart[int]]:
        kinds = [kind for _, kind, _ in query.columns()]
        needs_cover = not (isinstance(query.node, exp.Union) and not query.node.args.get("distinct"))
        found = []
        for left, right in product(self.query(query.left), self.query(query.right)):
            by = _both(left.by, right.by)
            maybe = frozenset(i for i in left.maybe & right.maybe if kinds[i] is not None)
            covers = frozenset(a | b for a in left.covers for b in right.covers if a | b <= maybe)
            if by is not None and maybe and (covers or not needs_cover):
                found.append(Apart(by, maybe, covers))
        if not found:
            raise Beyond(f"the parts of {shown(query.node)} do not fall apart by the same column")
        return found

    def selected(self, query: Selected) -> list[Apart[int]]:
        ways = self.grouped(query, self.rows(query))
        values = [output.value for output in query.outputs]
        if distinct := query.node.args.get("distinct"):
            if distinct.args.get("on"):
                raise Beyond("DISTINCT ON takes any rows")
            ways = _kept(ways, lambda way: way.is_told_by(values), "DISTINCT may make one of rows of different values")
        found = [_given(way, values) for way in ways]
        found = [way for way in found if way.maybe]
        if not found:
            names = list(dict.fromkeys(f"{name}.{column}" for way in ways for name, column in way.by.items()))
            raise Beyond(f"no column of {shown(query.node)} is {' or '.join(names[:3])} as it is")
        return found

    def rows(self, query: Selected) -> Ways:
        """FROM and WHERE, and sub-selects wherever they stand."""
        if query.tree is None:
            raise Beyond(f"{shown(query.node)} has no FROM clause")
        where, args = query.node.args.get("where"), query.node.args
        ways = self.joined(query.tree, _Alike(self.equalities(where)).over(self.spine(query.tree)))
        for clause in (where, args.get("having"), args.get("qualify")):
            ways = self.tied_all(ways, clause, is_condition=True)
        for clause in (*query.node.expressions, args.get("group"), *(args.get("windows") or ())):
            ways = self.tied_all(ways, clause, is_condition=False)
        return ways

    def grouped(self, query: Selected, ways: Ways) -> Ways:
        """GROUP BY and windows."""
        node, args = query.node, query.node.args
        clauses = [*node.expressions, args.get("having"), args.get("qualify"), args.get("order")]
        if (group := args.get("group")) is not None:
            keys = self.keys(query, group)
            ways = _kept(ways, lambda way: way.is_told_by(keys), f"{shown(group)} may bring rows of any value together")
        elif gathering := next(filter(None, map(_gathering, clauses)), args.get("having")):
            raise Beyond(f"{shown(gathering)} is over all rows, without GROUP BY")
        windows = {key_of(window.name): window for window in args.get("windows") or ()}
        for window in (inner for clause in clauses for inner in within(clause) if isinstance(inner, exp.Window)):
            name = window.args.get("alias")
            meant = windows.get(key_of(name.name), window) if name else window
            values = [self.tree.value(one) for one in meant.args.get("partition_by") or ()]
            why = f"the window of {shown(window)} takes in rows of any value"
            ways = _kept(ways, lambda way, values=values: way.is_told_by(values), why)  # type: ignore[misc]
        return ways

    def keys(self, query: Selected, group: exp.Group) -> list[Value | None]:
        """What a SELECT groups by, where it is plain."""
        if group.args.get("all"):
            return [output.value for output in query.outputs]
        if any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets", "totals")):
            raise Beyond(f"{shown(group)} groups in several ways")
        found: list[Value | None] = []
        for key in group.expressions:
            if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
                raise Beyond(f"{shown(group)} groups in several ways")
            is_place = isinstance(key, exp.Literal) and key.is_int
            found.append(query.outputs[int(key.name) - 1].value if is_place else self.tree.value(key))
        return found

    # ---- FROM: ways by columns

    def equalities(self, condition: exp.Expr | None) -> list[Equality]:
        """Pairs of plain values that a condition demands to be equal."""
        found = []
        for node in conjuncts(condition):
            if isinstance(node, exp.EQ | exp.NullSafeEQ):
                one, other = self.tree.value(node.this), self.tree.value(node.expression)
                if one and other and meeting(type_of(one), type_of(other)):
                    found.append((one, other, isinstance(node, exp.NullSafeEQ)))
        return found

    def spine(self, tree: Tree) -> Iterator[Equality]:
        """Equalities of joins that hold for every row in the end."""
        if isinstance(tree, Joined):
            if tree.kind == "inner":
                yield from self.demanded(tree)
            if tree.kind not in ("right", "full"):
                yield from self.spine(tree.left)
            if tree.kind in ("right", "inner"):
                yield from self.spine(tree.right)

    def demanded(self, tree: Joined) -> list[Equality]:
        using: list[Equality] = [(a, b, False) for a, b in tree.using if meeting(type_of(a), type_of(b))]
        return [*using, *self.equalities(tree.on)]

    def joined(self, tree: Tree, alike: _Alike) -> Ways:
        """The ways in which a FROM clause falls apart; `alike` are columns that are equal in all rows in the end."""
        if isinstance(tree, Source):
            return self.source(tree)
        left, right = self.joined(tree.left, alike), self.joined(tree.right, alike)
        demanded = self.demanded(tree)
        pairs = []
        clash = False
        for one, other in product(left, right):
            meets = any(_meet(one, other, equality) for equality in demanded)
            if meets or (tree.kind == "inner" and alike.meet(one, other)):
                by = _both(one.by, other.by)
                clash |= by is None
                pairs += [(one, other, by)] if by is not None else []
        if not pairs:
            called = shown(tree.node.this)
            if clash:
                raise Beyond(f"a class joined with itself falls apart by different columns in the join of {called}")
            raise Beyond(f"the join of {called} is on no equality of plain columns of one type")
        found = []
        for one, other, by in pairs[:WAYS_MAX]:
            matched = Apart(by, one.maybe | other.maybe, one.covers | other.covers)
            for tied in self.tied_all([matched], tree.on, is_condition=True, fails=False):
                found.append(replace(_extended(tree.kind, one, other, demanded), by=tied.by))
        if not found:
            raise Beyond(f"a sub-select in the join of {shown(tree.node.this)} is not tied to its row by an equality")
        return found

    def source(self, source: Source) -> Ways:
        columns = source.columns
        if isinstance(source.of, EventClass):
            return [
                Apart({source.of.name: attribute.name}, frozenset({column}), frozenset({frozenset({column})}))
                for attribute, column in zip(source.of.attributes, columns, strict=False)
                if not isinstance(attribute.type, t.Double)
            ]
        return [
            Apart(
                way.by,
                frozenset(columns[i] for i in way.maybe),
                frozenset(frozenset(columns[i] for i in cover) for cover in way.covers),
            )
            for way in self.query(source.of)
        ]

    # ---- sub-selects in expressions

    def tied_all(self, ways: Ways, clause: exp.Expr | None, *, is_condition: bool, fails: bool = True) -> Ways:
        """The ways for which every sub-select of a clause sees no more than its row's own tag."""
        pending = [(clause, is_condition)] if clause is not None else []
        while pending:
            node, is_condition = pending.pop()
            if isinstance(node, exp.Query) or (isinstance(node, exp.In) and node.args.get("query")):
                ways = self.tied(ways, node, is_condition)
                if not ways and fails:
                    seen = node.parent if isinstance(node.parent, exp.Not) else node
                    raise Beyond(f"the sub-select in {shown(seen)} is not tied to its row by an equality")
                if isinstance(node, exp.In):
                    pending.append((node.this, False))
                continue
            opens = isinstance(node, exp.Where | exp.Having | exp.Qualify | exp.Paren | exp.And | exp.Or)
            pending += [(child, is_condition and opens) for child in node.iter_expressions()]
        return ways

    def tied(self, ways: Ways, node: exp.Expr, is_condition: bool) -> Ways:
        """The ways for which one sub-select sees no more than its row's own tag.

        Where FALSE and NULL come to the same, IN finds only what equals the tag of the row. NOT IN sees every NULL.
        """
        holder = node.args["query"] if isinstance(node, exp.In) else node
        query = self.tree.inner[id(holder)]
        found: Ways = []
        if isinstance(node, exp.In) and is_condition:
            operand = node.this.unnest()
            items = operand.expressions if isinstance(operand, exp.Tuple) else [operand]
            found = self.within_in(ways, [self.tree.value(item) for item in items], query)
        return found or self.correlated(ways, query)

    def within_in(self, ways: Ways, values: Sequence[Value | None], query: Query) -> Ways:
        try:
            inner = self.query(query)
        except Beyond:
            return []
        kinds = [kind for _, kind, _ in query.columns()]
        found = []
        for way, other in product(ways, inner):
            meets = any(
                value is not None and way.is_maybe(value) and i in other.maybe and meeting(type_of(value), kinds[i])
                for i, value in enumerate(values)
            )
            if meets and (by := _both(way.by, other.by)) is not None:
                found.append(replace(way, by=by))
        return found[:WAYS_MAX]

    def correlated(self, ways: Ways, query: Query) -> Ways:
        """The ways for which the rows that a sub-select starts from all have the tag of the row outside."""
        if isinstance(query, United):
            return self.correlated(self.correlated(ways, query.left), query.right)
        where, args = query.node.args.get("where"), query.node.args
        equalities = self.equalities(where)
        found = []
        if query.tree is None:
            found = [(way, way) for way in ways]
        else:
            try:
                inner = self.joined(query.tree, _Alike(equalities).over(self.spine(query.tree)))
            except Beyond:
                return []
            for way, other in product(ways, inner):
                by = _both(way.by, other.by)
                if by is not None and any(_meet(way, other, equality) for equality in equalities):
                    pair = Apart(by, way.maybe | other.maybe, way.covers | other.covers)
                    found.append((replace(way, by=by), pair))
        tied: Ways = []
        clauses = [(args.get(name), True) for name in ("where", "having", "qualify")]
        clauses += [(one, False) for one in (*query.node.expressions, args.get("group"), args.get("order"))]
        for way, pair in found[:WAYS_MAX]:
            pairs = [pair]
            for clause, is_condition in clauses:
                pairs = self.tied_all(pairs, clause, is_condition=is_condition, fails=False)
            tied += [replace(way, by=one.by) for one in pairs]
        return tied


@dataclass(slots=True)
class _Alike:
    """Columns that are equal, and not NULL, in every row that a SELECT takes in the end."""

    equalities: Iterable[Equality]
    sets: list[set[Column]] = field(default_factory=list)

    def over(self, more: Iterable[Equality]) -> _Alike:
        for one, other, with_null in (*self.equalities, *more):
            if len(one) == len(other) == 1 and not with_null:
                met = [known for known in self.sets if not known.isdisjoint((one[0], other[0]))]
                apart = [known for known in self.sets if known.isdisjoint((one[0], other[0]))]
                self.sets = [*apart, {one[0], other[0]}.union(*met)]
        return self

    def meet(self, one: Apart[Column], other: Apart[Column]) -> bool:
        """Whether tags of both sides are equal."""
        return any(not (one.maybe.isdisjoint(alike) or other.maybe.isdisjoint(alike)) for alike in self.sets)


def _meet(one: Apart[Column], other: Apart[Column], equality: Equality) -> bool:
    """Whether an equality makes rows meet only if they have the same tag."""
    a, b, with_null = equality
    is_one = Apart.is_tag if with_null else Apart.is_maybe
    return (is_one(one, a) and is_one(other, b)) or (is_one(one, b) and is_one(other, a))


def _extended(kind: str, one: Apart[Column], other: Apart[Column], demanded: Iterable[Equality]) -> Apart[Column]:
    """Where tags can be read off after a join; rows without a partner have NULLs on the other side."""
    maybe = one.maybe | other.maybe
    match kind:
        case "inner":
            met = {v for a, b, with_null in demanded if not with_null for v in (a, b) if len(v) == 1 and v[0] in maybe}
            return Apart({}, maybe, one.covers | other.covers | {frozenset(value) for value in met})
        case "left":
            return Apart({}, maybe, one.covers)
        case "right":
            return Apart({}, maybe, other.covers)
        case "full":
            return Apart({}, maybe, frozenset(a | b for a in one.covers for b in other.covers))
        case _:
            return one


def _given(way: Apart[Column], values: Sequence[Value | None]) -> Apart[int]:
    """A way by the places of the columns of a select list."""
    maybe = frozenset(i for i, value in enumerate(values) if way.is_maybe(value))
    covers = {frozenset({i}) for i in maybe if way.is_tag(values[i])}
    plain = {value[0]: i for i, value in reversed([*enumerate(values)]) if value and len(value) == 1}
    covers |= {frozenset(plain[c] for c in cover) for cover in way.covers if len(cover) > 1 and cover <= plain.keys()}
    return Apart(way.by, maybe, frozenset(covers))


def _kept(ways: Ways, holds: Callable[[Apart[Column]], bool], why: str) -> Ways:
    found = [way for way in ways if holds(way)]
    if not found:
        raise Beyond(why)
    return found


def _gathering(clause: exp.Expr | None) -> exp.Expr | None:
    """An aggregate, not over a window; a function that sqlglot does not know may be one."""
    over = {id(_bare(node.this)) for node in within(clause) if isinstance(node, exp.Window)}
    found = (node for node in within(clause) if isinstance(node, exp.AggFunc | exp.Anonymous))
    return next((node for node in found if id(node) not in over), None)


def _bare(node: exp.Expr) -> exp.Expr:
    """A function without FILTER and the like."""
    return _bare(node.this) if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls) else node
