"""The SQL of a traced SELECT with one column more: which rows of the views each of its rows is made of.

In: Spark SQL as a plan has it. Out: the same text with hidden columns put in between. It goes by tokens, so that every
expression stays as it is written; Spark has the last word on all of it. What it does not know of a FROM clause is
`Untraceable`. Sub-selects in expressions, and the right side of a SEMI or ANTI JOIN, make no row: they are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token
from sqlglot.tokenizer_core import TokenType as T

from augury.algebra.select import quoted
from augury.event import key_of

_NOTHING: Final = "CAST(array() AS ARRAY<BIGINT>)"

_TAIL: Final = frozenset({T.ORDER_BY, T.SORT_BY, T.CLUSTER_BY, T.DISTRIBUTE_BY, T.LIMIT, T.OFFSET, T.FETCH, T.WINDOW})
_CLAUSES: Final = _TAIL | {T.WHERE, T.GROUP_BY, T.HAVING, T.QUALIFY}
_JOINING: Final = frozenset(
    {T.COMMA, T.JOIN, T.LEFT, T.RIGHT, T.FULL, T.OUTER, T.INNER, T.CROSS, T.SEMI, T.ANTI, T.NATURAL, T.ON, T.USING}
)
_NO_NAME: Final = _JOINING | _CLAUSES | {T.L_PAREN, T.R_PAREN, T.DOT, T.LATERAL, T.PIVOT, T.UNPIVOT, T.TABLE_SAMPLE}
_AMOUNTS: Final = frozenset({T.NUMBER, T.ALL, T.COLON, T.PARAMETER, T.PLACEHOLDER, T.L_PAREN})
_SETS: Final = frozenset({T.UNION, T.EXCEPT, T.INTERSECT})


class Untraceable(Exception):
    """A form of a FROM clause that it is not known how to trace; the message names it."""


@dataclass(frozen=True, slots=True)
class Views:
    """How views are called that have numbers of rows, by the keys of their classes; the numbers stand in column `row`.

    All hidden names begin with `mark`, which no other name does.
    """

    mark: str
    row: str
    numbered: Mapping[str, str]


def traced_sql(sql: str, reads: Sequence[str], views: Views) -> str:
    """The query with a last column of lists of row number · views + view, as `engine.rows.made_of` reads them."""
    tokens = Spark().tokenize(sql)
    numbers = {key_of(name): i for i, name in enumerate(reads)}
    tracer = _Tracer(sql, tokens, _kinds(tokens), _closing(tokens), numbers, views)
    return tracer.query(0, len(tokens), {})[0]


def _kinds(tokens: Sequence[Token]) -> list[T]:
    """What tokens are; words that begin a clause in one place are names in others, as a column `offset`."""
    kinds = [token.token_type for token in tokens]
    around = [T.SEMICOLON, *kinds, *[T.SEMICOLON] * 3]
    return [T.VAR if _is_name(*around[i : i + 5]) else kind for i, kind in enumerate(kinds)]


def _is_name(before: T, kind: T, *after: T) -> bool:
    """Whether a word is a name, by the token before it and the three behind it."""
    if before is T.DOT:
        return kind is not T.STAR
    if before is T.ALIAS:
        return kind is not T.L_PAREN
    match kind:
        case T.LIMIT | T.OFFSET:
            return after[0] not in _AMOUNTS
        case T.FETCH:
            return after[0] not in (T.FIRST, T.NEXT)
        case T.WINDOW:
            return after[1:] != (T.ALIAS, T.L_PAREN)
        case _:
            return False


def _closing(tokens: Sequence[Token]) -> dict[int, int]:
    """Where each bracket that opens is closed."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.token_type is T.L_PAREN:
            opened.append(i)
        elif token.token_type is T.R_PAREN:
            found[opened.pop()] = i
    return found


Named = tuple[str, str]
"""A source of a FROM clause: what it is called, as a key, and its hidden column."""

Ctes = Mapping[str, tuple[str, str]]
"""By key of a WITH query the one that has a hidden column as well, and that column."""


@dataclass(slots=True)
class _Tracer:
    """One query on its way; places are numbers of tokens, ranges without their end."""

    sql: str
    tokens: Sequence[Token]
    kinds: Sequence[T]
    closing: Mapping[int, int]
    reads: Mapping[str, int]
    views: Views
    count: int = field(default=0)

    def fresh(self) -> str:
        self.count += 1
        return quoted(f"{self.views.mark}{self.count}")

    def kind(self, at: int) -> T | None:
        return self.kinds[at] if at < len(self.kinds) else None

    def text(self, begin: int, end: int) -> str:
        """What stands there, as it is written."""
        return self.sql[self.tokens[begin].start : self.tokens[end - 1].end + 1] if begin < end else ""

    def level(self, begin: int, end: int) -> Iterator[int]:
        """The tokens that stand in no bracket of their own."""
        while begin < end:
            yield begin
            begin = self.closing.get(begin, begin) + 1

    def first(self, kinds: frozenset[T], begin: int, end: int) -> int:
        return next((i for i in self.level(begin, end) if self.kind(i) in kinds), end)

    # ---- queries

    def query(self, begin: int, end: int, ctes: Ctes) -> tuple[str, str]:
        """A query with its hidden column, and what that is called."""
        head = ""
        if self.kind(begin) is T.WITH:
            head, begin, ctes = self.with_(begin, ctes)
        unions = [i for i in self.level(begin, end) if self.kind(i) is T.UNION]
        if not unions:
            text, hidden = self.term(begin, end, ctes)
            return head + text, hidden
        tail = self.first(_TAIL, unions[-1], end)
        text, hidden = self.term(begin, unions[0], ctes)
        is_plain = True
        for union, after in zip(unions, [*unions[1:], tail], strict=True):
            is_all = self.kind(union + 1) is T.ALL
            begin = union + 1 + (is_all or self.kind(union + 1) is T.DISTINCT)
            text += f" UNION ALL {self.term(begin, after, ctes)[0]}"
            if not is_all:
                shown = f"* EXCEPT ({hidden}), flatten(collect_list({hidden})) AS {hidden}"
                text = f"SELECT {shown} FROM ({text}) GROUP BY ALL"
            is_plain = is_all
        if tail < end:
            text = f"{text if is_plain else f'SELECT * FROM ({text})'} {self.text(tail, end)}"
        return head + text, hidden

    def with_(self, begin: int, ctes: Ctes) -> tuple[str, int, Ctes]:
        """WITH queries as they are, for expressions, and each once more with a hidden column; what comes after."""
        found: list[str] = []
        at = begin
        while at == begin or self.kind(at) is T.COMMA:
            name, at = self.tokens[at + 1], at + 2
            columns = at
            at = self.closing[at] + 1 if self.kind(at) is T.L_PAREN else at
            if self.kind(at) is not T.ALIAS or self.kind(at + 1) is not T.L_PAREN:
                raise Untraceable("WITH RECURSIVE")
            opened, at = at + 1, self.closing[at + 1] + 1
            text, hidden = self.query(opened + 1, at - 1, ctes)
            known, listed = self.fresh(), self.with_hidden(columns, hidden)
            # Behind the other it would see that one where it names a class which is called the same.
            found += [f"{known}{listed} AS ({text})", self.text(columns - 1, at)]
            ctes = {**ctes, key_of(name.text): (known, hidden)}
        return f"WITH {', '.join(found)} ", at, ctes

    def with_hidden(self, at: int, hidden: str) -> str:
        """The names that are given to columns, if there are any, with one more."""
        if self.kind(at) is not T.L_PAREN:
            return ""
        return f"{self.text(at, self.closing[at])}, {hidden})"

    def term(self, begin: int, end: int, ctes: Ctes) -> tuple[str, str]:
        """One part of a UNION, or all of a query that has none."""
        match self.kind(begin):
            case T.SELECT:
                return self.select(begin, end, ctes)
            case T.L_PAREN:
                closed = self.closing[begin]
                text, hidden = self.query(begin + 1, closed, ctes)
                return f"({text}) {self.text(closed + 1, end)}", hidden
            case _:
                raise Untraceable(self.text(begin, begin + 1).upper())

    def select(self, begin: int, end: int, ctes: Ctes) -> tuple[str, str]:
        is_from = (i for i in self.level(begin, end) if self.kind(i) is T.FROM and self.kind(i - 1) is not T.DISTINCT)
        from_ = next(is_from, None)
        hidden = self.fresh()
        if from_ is None:
            over = self.first(_CLAUSES, begin, end)
            return f"{self.text(begin, over)}, {_NOTHING} AS {hidden} {self.text(over, end)}", hidden
        over = self.first(_CLAUSES, from_, end)
        views = (i for i in self.level(from_, over) if self.kind(i) is T.LATERAL and self.kind(i + 1) is T.VIEW)
        over = next(views, over)
        sources, named = self.sources(from_ + 1, over, ctes)
        lists = ", ".join(f"coalesce({column}, {_NOTHING})" for _, column in named)
        made = f"concat({_NOTHING}, {lists})" if lists else _NOTHING
        shown = self.starred(begin, from_, named)
        return f"{shown}, {made} AS {hidden} FROM {sources} {self.text(over, end)}", hidden

    def starred(self, begin: int, end: int, named: Sequence[Named]) -> str:
        """A select list in which no * has hidden columns."""
        pieces: list[str] = []
        done = begin
        for i in self.level(begin, end):
            before = self.kind(i - 1)
            if self.kind(i) is not T.STAR or before not in (T.SELECT, T.COMMA, T.DOT, T.ALL, T.HINT):
                continue
            of = key_of(self.tokens[i - 2].text) if before is T.DOT else None
            but = ", ".join(column for key, column in named if of in (None, key))
            if not but:
                continue
            is_but = self.kind(i + 1) is T.EXCEPT and self.kind(i + 2) is T.L_PAREN
            until = self.closing[i + 2] if is_but else i + 1
            pieces.append(self.text(done, until) + (f", {but})" if is_but else f" EXCEPT ({but})"))
            done = until + is_but
        return " ".join([*pieces, self.text(done, end)])

    # ---- FROM

    def sources(self, begin: int, end: int, ctes: Ctes) -> tuple[str, list[Named]]:
        """What stands after FROM, or in brackets there; joins and their conditions stay as they are."""
        pieces: list[str] = []
        named: list[Named] = []
        is_row = True
        while begin < end:
            if self.kind(begin) is T.LATERAL:
                pieces.append(self.text(begin, begin + 1))
                begin += 1
            text, found, begin = self.source(begin, end, ctes) if is_row else self.left_alone(begin, end)
            named += found
            following = self.first(frozenset({T.COMMA, T.JOIN}), begin, end)
            is_row = self.kind(following - 1) not in (T.SEMI, T.ANTI)
            pieces += [text, self.text(begin, min(following + 1, end))]
            begin = following + 1
        return " ".join(filter(None, pieces)), named

    def left_alone(self, begin: int, end: int) -> tuple[str, list[Named], int]:
        """A source whose rows make none."""
        over = self.first(_JOINING, self.closing.get(begin, begin) + 1, end)
        return self.text(begin, over), [], over

    def source(self, begin: int, end: int, ctes: Ctes) -> tuple[str, list[Named], int]:
        """One source with its hidden column, and where it ends."""
        after = self.closing.get(begin, begin) + 1
        if self.kind(begin) is T.L_PAREN and not self.is_query(begin + 1, after - 1):
            text, named = self.sources(begin + 1, after - 1, ctes)
            if after < end and self.kind(after) not in _JOINING:
                raise Untraceable("an alias of joined tables")
            return f"({text})", named, after
        if self.kind(begin) is T.L_PAREN:
            text, hidden = self.query(begin + 1, after - 1, ctes)
            called = ""
        else:
            if after < end and self.kind(after) in (T.L_PAREN, T.DOT):
                raise Untraceable(f"`{self.text(begin, min(after + 1, end))} …` in FROM")
            called = self.tokens[begin].text
            text, hidden = self.view(called, ctes)
        alias = after + 1 if self.kind(after) is T.ALIAS else after
        columns = ""
        if alias < end and self.kind(alias) not in _NO_NAME:
            called, after = self.tokens[alias].text, alias + 1
            columns = self.with_hidden(after, hidden) if after < end else ""
            after = self.closing[after] + 1 if columns else after
        if after < end and self.kind(after) not in _JOINING:
            raise Untraceable(f"{self.text(after, after + 1).upper()} in FROM")
        return f"({text}){f' AS {quoted(called)}{columns}' if called else ''}", [(key_of(called), hidden)], after

    def view(self, name: str, ctes: Ctes) -> tuple[str, str]:
        """A class or a WITH query under a hidden column of its own, for it may stand in one FROM twice."""
        hidden = self.fresh()
        if key_of(name) in ctes:
            known, column = ctes[key_of(name)]
            return f"SELECT * EXCEPT ({column}), {column} AS {hidden} FROM {known}", hidden
        if key_of(name) not in self.reads:
            raise Untraceable(f"`{name}` in FROM")
        row = quoted(self.views.row)
        code = f"{row} * {len(self.reads)} + {self.reads[key_of(name)]}"
        known = quoted(self.views.numbered[key_of(name)])
        return f"SELECT * EXCEPT ({row}), array({code}) AS {hidden} FROM {known}", hidden

    def is_query(self, begin: int, end: int) -> bool:
        """Whether brackets hold a query, and not tables that are joined."""
        if self.kind(begin) is not T.L_PAREN:
            return self.kind(begin) in (T.SELECT, T.WITH, T.VALUES, T.FROM, T.TABLE)
        after = self.closing[begin] + 1
        return self.is_query(begin + 1, after - 1) and (after == end or self.kind(after) in _SETS | _TAIL)
