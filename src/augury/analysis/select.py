"""AS SELECT … OCCURRING AT → SelectPlan, without a JVM: sqlglot parses, this resolves every name in it.

Durations and NOW are replaced among the tokens, which keep their places; the SQL handed on is the user's own text with
these and the names of the times replaced, never sqlglot's rewriting of it. Columns feed attributes by `names.feed`.
In a UNION, OCCURRING AT means columns of its result or else, without a qualifier, of each of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from augury import limits
from augury.algebra.select import NOW_PARAMETER, SelectPlan
from augury.analysis import select_names as names
from augury.analysis import select_types as sql_types
from augury.analysis.select_names import OCCURRING_FORMS, Column, Meaning, Ref, Scope, Table, column_key
from augury.clock import duration_us
from augury.diagnostics import Findings, Span
from augury.event import EventClass, key_of
from augury.language import syntax as s
from augury.types import BOOLEAN, NULL, STRING, TIMESTAMP, Type, common_type

if TYPE_CHECKING:
    from sqlglot import ParseError, TokenError, exp
    from sqlglot.dialects.spark import Spark
    from sqlglot.tokenizer_core import Token
    from sqlglot.tokenizer_core import TokenType as T

_UNITS: Final = {"d": "DAY", "h": "HOUR", "m": "MINUTE", "s": "SECOND"}
_DURATION: Final = re.compile(r"[0-9]+[dhmsDHMS]")
_QUOTES: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|(?P<open>['"`]|/\*)""", re.DOTALL
)


def _load_sqlglot() -> None:
    """Bind the names above at the first SELECT: programs without one do not wait a fifth of a second for them."""
    if "exp" not in globals():
        from sqlglot import ParseError, TokenError, exp
        from sqlglot.dialects.spark import Spark
        from sqlglot.tokenizer_core import Token, TokenType

        globals().update(ParseError=ParseError, TokenError=TokenError, exp=exp, Spark=Spark, Token=Token, T=TokenType)


def analyse_select(
    source: s.SelectSource, target: EventClass, classes: Mapping[str, EventClass], findings: Findings
) -> SelectPlan | None:
    """The plan of a SELECT class, or None and the reasons; `classes` are by `key_of` their names."""
    analysis = _Analysis(source, target, classes, Findings())
    plan = None
    try:
        _load_sqlglot()
        plan = analysis.plan()
    except RecursionError:
        analysis.too_deep(source.sql_span)
    except Exception as error:  # whatever sqlglot's trees hold, a check answers with a finding
        analysis.error("E117", f"this SELECT cannot be analysed ({type(error).__name__})", source.sql_span, "")
    findings.extend(analysis.findings.sorted())
    return None if analysis.findings.has_errors() else plan


@dataclass(slots=True)
class _Analysis:
    """One SELECT on its way to a plan: where things are written, what names mean, what is to be replaced."""

    source: s.SelectSource
    target: EventClass
    classes: Mapping[str, EventClass]
    findings: Findings
    tokens: list[Token] = field(default_factory=list)
    edits: dict[int, str] = field(default_factory=dict)
    meaning: dict[int, Meaning] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)
    windowed: set[int] = field(default_factory=set)
    reads: dict[int, str] = field(default_factory=dict)
    traced: bool = True

    def plan(self) -> SelectPlan | None:
        tree = self.parse()
        if tree is None:
            return None
        result = self.query(tree, {}, None)
        spans = [self.span(output) for output in next(_parts(tree), tree).expressions] or [self.source.sql_span]
        columns = names.feed(result, self.target, spans[0].to(spans[-1]), self.findings)
        time, of_result = self.occurrence(tree, result)
        sql, uses_now = self.text({}), tree.find(exp.Placeholder) is not None
        timed = f"SELECT *, {time} FROM ({sql})" if of_result else self.text(dict.fromkeys(self.spots(), f", {time}"))
        reads = tuple(dict.fromkeys(name for _, name in sorted(self.reads.items())))
        return SelectPlan(self.target.name, sql, timed, reads, columns, time, self.traced, uses_now)

    # ---- text, tokens, places

    def error(self, code: str, message: str, span: Span, label: str, *helps: str) -> None:
        self.findings.error(code, message, span, label, helps=helps)

    def too_deep(self, span: Span) -> None:
        self.error("E401", "this SELECT is nested too deep", span, "too deep", "name its parts: WITH p AS (SELECT …)")

    def not_a_query(self, span: Span) -> None:
        self.error("E118", "a class is derived by one SELECT, nothing else", span, "no query", "write AS SELECT …")

    def at(self, token: Token) -> Span:
        return Span(self.source.sql_span.start + token.start, self.source.sql_span.start + token.end + 1)

    def span(self, node: exp.Expr) -> Span:
        """Where a node is written: from its first to its last token known, brackets closed."""
        places = [n.meta for n in node.dfs() if n.meta_get("start") is not None]
        if not places:
            word = (node.sql_name() if isinstance(node, exp.Func) else node.name).upper()
            token = next((t for t in self.tokens if t.text.upper() == word), None)
            return self.at(token) if token else self.span(node.parent) if node.parent else self.source.sql_span
        start, end, sql = min(p["start"] for p in places), max(p["end"] for p in places) + 1, self.source.sql
        while sql.count("(", start, end) > sql.count(")", start, end) and (after := sql.find(")", end) + 1):
            end = after
        return Span(self.source.sql_span.start + start, self.source.sql_span.start + end)

    def ref(self, name: exp.Expr) -> Ref:
        return Ref(name.name, self.span(name))

    def text(self, additions: Mapping[int, str]) -> str:
        """The SQL, its replacements made, gaps and comments one blank; `additions` go behind tokens."""
        pieces: list[str] = []
        end = -1
        for token in self.tokens:
            if token.start <= end:
                continue  # `5d` is three tokens in one place
            gap, end = " " if 0 <= end < token.start - 1 else "", token.end
            word = self.edits.get(token.start, self.source.sql[token.start : end + 1])
            pieces += [gap, word, additions.get(token.start, "")]
        return "".join(pieces)

    def spots(self) -> Iterator[int]:
        """Where a column can be added: the last token of the select list of each part of a top-level UNION."""
        queries, listing = [True], False
        before, earlier = T.UNION, T.UNION
        for i, token in enumerate(self.tokens):
            kind = token.token_type
            if kind == T.L_PAREN:
                joint = earlier if before in (T.ALL, T.DISTINCT) else before
                opens = joint in (T.UNION, T.EXCEPT, T.INTERSECT, T.L_PAREN, T.R_PAREN) and earlier != T.STAR
                queries.append(queries[-1] and opens)
            elif kind == T.R_PAREN:
                queries.pop()
            elif queries[-1] and kind == T.SELECT:
                listing = True
            elif queries[-1] and kind == T.FROM and listing and before not in (T.DISTINCT, T.DOT):
                listing = False
                yield self.tokens[i - 1].start
            before, earlier = kind, before

    def parse(self) -> exp.Query | None:
        spark, sql = Spark(), self.source.sql
        try:
            self.tokens = spark.tokenize(sql)
            tokens = self.replaced()
            trees = spark.parser().parse(tokens, sql) if not self.findings.has_errors() else []
        except TokenError:
            start = self.source.sql_span.start + next((m.start() for m in _QUOTES.finditer(sql) if m["open"]), 0)
            message = "the SELECT cannot be read: this quote or comment is not closed"
            self.error("E117", message, Span(start, start + 1), "starts here")
            return None
        except ParseError as error:
            self.syntax_error(error.errors[0])
            return None
        tree = trees[0] if len(trees) == 1 else None
        if not isinstance(tree, exp.Query) or any(part.args.get("into") for part in _parts(tree)):
            culprit = (t for t in self.tokens if t.text.upper() in ("INTO", "INSERT"))
            if not self.findings.has_errors():
                self.not_a_query(self.at(next(culprit, self.tokens[0])) if self.tokens else self.source.sql_span)
            return None
        for name in tree.find_all(exp.Identifier):
            of_table = isinstance(name.parent, exp.Table) or name.arg_key in ("table", "db", "catalog")
            of_table |= isinstance(name.parent, exp.TableAlias) and name.arg_key == "this"
            if not of_table and "start" in name.meta and (key := column_key(name.name)) != key_of(name.name):
                self.edits[name.meta["start"]] = key
        return tree

    def replaced(self) -> list[Token]:
        """The tokens with durations made INTERVALs and NOW made a parameter, in their old places."""
        result: list[Token] = []
        depth = 0
        for i, token in enumerate(self.tokens):
            kind, before = token.token_type, self.tokens[i - 1].token_type if i else None
            after = self.tokens[i + 1].token_type if i + 1 < len(self.tokens) else None
            word = self.source.sql[token.start : token.end + 1]
            depth += (kind == T.L_PAREN) - (kind == T.R_PAREN)
            parts: list[tuple[T, str]] = []
            if depth > limits.NESTING_MAX:
                self.too_deep(self.at(token))
                break
            if kind == T.SEMICOLON or (before is None and kind not in (T.SELECT, T.WITH, T.L_PAREN)):
                self.not_a_query(self.at(token))
            elif kind in (T.COMMA, T.SELECT) and after in (None, T.COMMA, T.FROM, T.R_PAREN):
                self.error("E117", f"the SELECT cannot be read: nothing follows `{word}`", self.at(token), "here")
            elif token.start in self.edits:
                continue
            elif kind in (T.VAR, T.NUMBER) and _DURATION.fullmatch(word):
                count, unit = word[:-1], word[-1].lower()
                if len(count) > 20 or duration_us(int(count), unit) > limits.DURATION_US_MAX:
                    self.error("E110", f"the duration {word[:30]} is too long", self.at(token), "beyond 10,000 years")
                parts = [(T.INTERVAL, "INTERVAL"), (T.STRING, count), (T.VAR, _UNITS[unit])]
                self.edits[token.start] = f"INTERVAL '{count}' {_UNITS[unit]}"
            elif kind == T.VAR and word.upper() == "NOW" and before != T.DOT and after not in (T.L_PAREN, T.DOT):
                parts = [(T.COLON, ":"), (T.VAR, NOW_PARAMETER)]
                self.edits[token.start] = f":{NOW_PARAMETER}"
            place = token.line, token.col, token.start, token.end
            result += [Token(part, text, *place) for part, text in parts] or [token]
        return result

    def syntax_error(self, error: Mapping[str, Any]) -> None:
        place = (error["line"], error["col"])
        token = next((t for t in self.tokens if (t.line, t.col) == place), self.tokens[-1])
        said = str(error["description"]).split(" but got ")[0]
        said = f"`{token.text}` is unexpected" if "Unexpected token" in said else said[:1].lower() + said[1:]
        said = "something is missing" if said.startswith("required") else said.replace("expecting )", "expected `)`")
        self.error("E117", f"the SELECT cannot be read: {said}", self.at(token), "here")

    def query(self, node: exp.Expr | None, ctes: dict[str, Table], outer: Scope | None, *, rows: bool = True) -> Table:
        """Resolve a query; `rows` unless it is an operand, whose rows make no row of the class."""
        if not isinstance(node, exp.Query):
            self.not_a_query(self.span(node) if node else self.source.sql_span)
            return Table("", open=True)
        if with_ := node.args.get("with_"):
            ctes = dict(ctes)
            for cte in with_.expressions:
                if with_.args.get("recursive"):
                    ctes[key_of(cte.alias)] = Table(cte.alias, open=True)
                ctes[key_of(cte.alias)] = _renamed(cte, self.query(cte.this, ctes, None, rows=rows))
        if isinstance(node, exp.Select):
            result = self.select(node, ctes, outer, rows)
        elif isinstance(node, exp.SetOperation):
            left, right = (self.query(part, ctes, outer, rows=rows) for part in (node.this, node.expression))
            result = names.united(left, right, self.span(node.expression), self.findings)
            self.traced &= isinstance(node, exp.Union) or not rows
            self.operands(node.args.get("order"), Scope(ctes, outer, [result]))
        else:
            result = self.query(node.this, ctes, outer, rows=rows)
        limit = node.args.get("limit") or node.args.get("offset")
        if limit and not node.args.get("order") and limit.expression.name.upper() != "ALL":
            message = f"{limit.key.upper()} without ORDER BY takes any rows"
            self.error("E312", message, self.span(limit), "which ones?", "say which rows come first: ORDER BY …")
        return result

    def select(self, node: exp.Select, ctes: dict[str, Table], outer: Scope | None, rows: bool) -> Table:
        scope, args = Scope(ctes, outer, rows=rows), node.args
        self.scopes[id(node)] = scope
        for item in filter(None, [args.get("from_"), *(args.get("joins") or ()), *(args.get("laterals") or ())]):
            self.joined(item, scope)
        self.operands(args.get("where"), scope)
        for output in node.expressions:
            scope.outputs += self.output(output, scope)
        clauses = [args.get(name) for name in ("group", "having", "qualify", "sort", "cluster", "distribute")]
        for clause in [*clauses, *(args.get("windows") or ())]:
            self.operands(clause, scope)
        named = Scope(ctes, scope, [Table("", scope.outputs)])
        for key in getattr(args.get("order"), "expressions", ()):
            self.operands(key, named if isinstance(key.this, exp.Column) and not key.this.table else scope)
        windowed = any(isinstance(n, exp.Window) for output in node.expressions for n in _within(output))
        if self.aggregates(node, scope) or args.get("distinct") or windowed or args.get("qualify"):
            self.traced &= not rows
        return Table("", scope.outputs, node.is_star and any(table.open for table in scope.tables))

    def output(self, node: exp.Expr, scope: Scope) -> list[Column]:
        """The columns that one item of a select list gives."""
        span = self.span(node)
        if isinstance(node, exp.Star | exp.Column) and node.is_star:
            star, qualifier = node if isinstance(node, exp.Star) else node.this, node.args.get("table")
            if qualifier and not scope.named(qualifier.name):
                scope.resolve(self.ref(qualifier), self.ref(qualifier), self.findings)
            but = {column_key(name.name) for name in star.args.get("except_") or ()}
            columns = scope.starred(qualifier.name if qualifier else None)
            return [Column(c.name, c.type, span, starred=True) for c in columns if c.key not in but]
        self.operands(node, scope)
        if isinstance(node, exp.Aliases):
            return [Column(name.name, None, span) for name in node.expressions]
        name = node.alias_or_name if isinstance(node, exp.Alias | exp.Column) else ""
        key = column_key(name)
        return [Column(name if key == key_of(name) else key, self.type(node), span)]

    def table(self, node: exp.Expr, scope: Scope) -> None:
        """Add what one item of a FROM clause gives."""
        match node:
            case exp.Table(this=exp.Identifier() as name) if not node.db and not node.args.get("version"):
                known = scope.ctes.get(key_of(name.name))
                table = known or names.view_of(self.ref(name), self.classes, self.findings)
                if not known and not table.open:
                    self.reads[name.meta["start"]] = table.name
                table = Table(table.name, table.columns, table.open or bool(node.args.get("pivots")))
                if sample := node.args.get("sample"):
                    sql_types.report_unsteady("tablesample", self.span(sample), self.findings)
            case exp.Subquery(this=exp.Query() as inner) | exp.Lateral(this=exp.Subquery() as inner):
                table = self.query(inner, scope.ctes, scope if node.key == "lateral" else None, rows=scope.rows)
            case exp.Subquery(this=exp.Table() as inner):
                return self.table(inner, scope)
            case exp.Lateral() | exp.Values():
                self.operands(node, scope)
                row = node.expressions[0].expressions if node.expressions else ()
                table = Table("", [Column(f"col{i + 1}") for i in range(len(row))], open=not row)
            case _:
                message, proposal = "a SELECT reads event classes only", "declare a class for what it holds"
                self.error("E263", message, self.span(node), "not an event class", proposal)
                table = Table("", open=True)
        scope.tables.append(_renamed(node, table))
        for join in node.args.get("joins") or ():
            self.joined(join, scope)

    def joined(self, node: exp.Expr, scope: Scope) -> None:
        """Add a table by FROM, JOIN or LATERAL VIEW."""
        left, using = len(scope.tables), node.args.get("using")
        self.table(node if isinstance(node, exp.Lateral) else node.this, scope)
        if using or node.args.get("method") == "NATURAL":
            scope.join([self.ref(name) for name in using] if using else None, left, self.findings)
        self.operands(node.args.get("on"), scope)
        if node.args.get("kind") in ("SEMI", "ANTI"):
            del scope.tables[left:]

    def operands(self, root: exp.Expr | None, scope: Scope) -> None:
        """Resolve every name of an expression and look at its functions, sub-queries included."""
        for node in _within(root):
            match node:
                case exp.Query():
                    self.query(node, scope.ctes, scope, rows=False)
                case exp.Column(this=exp.Identifier()):
                    self.column(node, scope)
                case exp.Window():
                    self.windowed.add(id(_bare(node.this)))
                case exp.Placeholder() | exp.Parameter() if node.name != NOW_PARAMETER:
                    self.error("E117", "the SELECT cannot be read: NOW is its only parameter", self.span(node), "")
                case exp.QueryTransform():
                    sql_types.report_unsteady("transform", self.span(node), self.findings)
                case _:
                    self.function(node)
        for node in _within(root):
            if isinstance(node, exp.Predicate | exp.Where | exp.Having):
                kinds = [self.type(operand) for operand in node.iter_expressions()]
                expected = [] if isinstance(node, exp.Predicate) else [BOOLEAN]
                sql_types.check_alike([*expected, *kinds], partial(self.span, node), self.findings)

    def column(self, node: exp.Column, scope: Scope) -> None:
        parts = [self.ref(part) for part in node.parts]
        qualifier, name = (parts[0], parts[1]) if len(parts) > 1 else (None, parts[0])
        if meaning := scope.resolve(qualifier, name, self.findings):
            self.meaning[id(node)] = meaning if len(parts) < 3 else (meaning[0], Column(node.name))

    def function(self, node: exp.Expr) -> None:
        name = self.written(node) if isinstance(node, exp.Func) else ""
        order = node.find_ancestor(exp.Window, exp.ArraySort, exp.Query)
        ordered = isinstance(order, exp.ArraySort) or isinstance(node.this, exp.Order)
        ordered |= isinstance(order, exp.Window) and bool(order.args.get("order"))
        if name in sql_types.UNSTEADY_FUNCTIONS or (name in sql_types.ROW_ORDER_FUNCTIONS and not ordered):
            sql_types.report_unsteady(name, self.span(node), self.findings)

    def written(self, node: exp.Func) -> str:
        """The name of a function as written, without regard to case."""
        start, end = node.meta.get("start"), node.meta.get("end", 0)
        return (node.sql_name() if start is None else self.source.sql[start : end + 1].strip("`")).casefold()

    def is_aggregate(self, node: exp.Expr) -> bool:
        """Whether a node aggregates over a group; over a window does not count."""
        apart = isinstance(node, exp.Anonymous) and self.written(node) in sql_types.AGGREGATES_APART
        return (apart or isinstance(node, exp.AggFunc)) and id(node) not in self.windowed

    def aggregates(self, node: exp.Select, scope: Scope) -> bool:
        """Whether a SELECT aggregates; if so, each of its columns has to be grouped or inside an aggregate."""
        group = node.args.get("group")
        for clause in [node.args.get("where"), group, *(join.args.get("on") for join in node.args.get("joins") or ())]:
            for wrong in filter(self.is_aggregate, _within(clause)):
                self.error("E260", "an aggregate cannot stand here", self.span(wrong), "over what?", "use HAVING")
        clauses = [*node.expressions, node.args.get("having"), node.args.get("order")]
        if group is None and not any(map(self.is_aggregate, (n for clause in clauses for n in _within(clause)))):
            return False
        outputs = {column_key(output.alias_or_name): output for output in node.expressions}
        opened = exp.Group | exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple | exp.Paren
        keys = list(group.dfs(prune=lambda key: not isinstance(key, opened))) if group else []
        if group and group.args.get("all"):
            keys = [output for output in node.expressions if not any(map(self.is_aggregate, _within(output)))]
        scope.grouped = set()
        for key in keys:
            if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(node.expressions):
                key = node.expressions[int(key.name) - 1]
            elif isinstance(key, exp.Column) and self.meaning.get(id(key), (key,))[0] is None:
                key = outputs.get(column_key(key.name), key)
            scope.grouped.add(self.shape(key))
        for clause in clauses:
            self.check_grouped(clause, scope)
        return True

    def check_grouped(self, node: exp.Expr | None, scope: Scope) -> None:
        if node is None or isinstance(node, exp.Query | exp.Anonymous) or self.is_aggregate(_bare(node)):
            return
        kinds = {shape[0] for shape in scope.grouped or ()}
        if (isinstance(node, exp.Column) or type(node) in kinds) and self.shape(node) in (scope.grouped or ()):
            return
        if isinstance(node, exp.Column | exp.Star):
            meaning = self.meaning.get(id(node))
            if node.is_star or (meaning and meaning[0] in scope.tables):
                message = f"`{node.sql('spark')}` is neither grouped nor aggregated"
                proposal = "add it to GROUP BY, or take MAX(…), MIN(…) or another aggregate of it"
                self.error("E260", message, self.span(node), "one of many", proposal)
            return
        for child in node.iter_expressions():
            self.check_grouped(child, scope)

    def shape(self, node: Any) -> tuple[object, ...]:
        """What makes two expressions the same: their structure, and what their columns mean."""
        if isinstance(node, exp.Alias | exp.Paren):
            return self.shape(node.this)
        if isinstance(node, exp.Column) and (meaning := self.meaning.get(id(node))):
            return names.column_shape(meaning)
        if isinstance(node, exp.Expr):
            return (type(node), *((key, self.shape(value)) for key, value in node.args.items() if value))
        return tuple(map(self.shape, node)) if isinstance(node, list) else (node,)

    def type(self, node: exp.Expr) -> Type | None:
        """The type of an expression in Spark, where it is certain."""
        match node:
            case exp.Alias() | exp.Paren() | exp.Window() | exp.Filter():
                return self.type(node.this)
            case exp.Column() | exp.Query():
                return self.meaning[id(node)][1].type if id(node) in self.meaning else None
            case exp.Literal():
                return STRING if node.is_string else sql_types.number_type(node.name)
            case exp.Predicate() | exp.Connector() | exp.Not() | exp.Boolean():
                return BOOLEAN
            case exp.Placeholder():
                return TIMESTAMP if node.name == NOW_PARAMETER else None
            case exp.Cast():
                sizes = [int(size.name) for size in node.to.expressions if size.name.isdecimal()]
                return sql_types.cast_type(node.to.this.value, sizes)
            case exp.Case():
                values = [self.type(branch.args["true"]) for branch in node.args["ifs"]]
                values.append(self.type(node.args["default"]) if node.args.get("default") else NULL)
                return reduce(lambda a, b: a and b and common_type(a, b), values)
            case _:
                returns = getattr(Spark.EXPRESSION_METADATA.get(type(node), {}).get("returns"), "value", "")
                operands = list(map(self.type, node.iter_expressions()))
                return sql_types.applied_type(type(node).__name__, operands, sql_types.SQL_TYPES.get(returns))

    def occurrence(self, tree: exp.Query, result: Table) -> tuple[str, bool]:
        """The occurrence time as SQL, and whether it is over the result of the query, not its FROM clause."""
        time = self.time(self.source.occurring_at)
        columns, whole = names.time_columns(time), Scope({}, tables=[result])
        scopes = [self.scopes[id(part)] for part in _parts(tree)]
        if len(scopes) > 1 and all(c.qualifier is None and whole.find(None, c.name.text) for c in columns):
            return names.time_sql(time, whole, self.findings), True
        apart = tree.find(exp.Except, exp.Intersect) or any(scope.grouped is not None for scope in scopes)
        if len(scopes) > 1 and (apart or any(column.qualifier for column in columns)):
            proposal = "give the parts a name: SELECT … FROM (SELECT … UNION SELECT …) tab OCCURRING AT tab.occTime"
            message = "OCCURRING AT of several SELECTs means a column of their result"
            self.error("E258", message, self.source.occurring_at.span, "not in the result", proposal)
            return "", False
        return [*(names.time_sql(time, scope, self.findings) for scope in scopes), ""][0], False

    def time(self, node: s.Scalar) -> names.TimeExpression:
        match node:
            case s.Name(qualifier=qualifier, name=name):
                refs = [Ref(part.text, part.span) for part in (qualifier, name) if part]
                return names.TimeColumn(refs[0] if qualifier else None, refs[-1])
            case (
                s.Binary(operator="+" | "-" as sign, left=time, right=s.DurationLiteral() as by)
                | s.Binary(operator="+" as sign, left=s.DurationLiteral() as by, right=time)
            ):
                return names.Shifted(self.time(time), sign, f"INTERVAL '{by.count}' {_UNITS[by.unit]}")
            case s.Call(function=function, arguments=(_, *_) as times) if function.key in ("max", "min"):
                return names.Extreme(function.key == "max", tuple(map(self.time, times)))
            case _:
                self.error("E258", "events cannot occur at this", node.span, "not a time column", OCCURRING_FORMS)
                return names.Extreme(True, ())


def _within(root: exp.Expr | None) -> Iterator[exp.Expr]:
    """The nodes of an expression, sub-queries and columns unopened."""
    closed = exp.Query, exp.Column
    return root.dfs(prune=lambda node: isinstance(node, closed)) if root is not None else iter(())


def _bare(node: exp.Expr) -> exp.Expr:
    """A function without FILTER, WITHIN GROUP and the like."""
    return _bare(node.this) if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls) else node


def _parts(query: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs that a query unites, itself if it is one."""
    nodes = query.dfs(prune=lambda node: not isinstance(node, exp.SetOperation | exp.Subquery))
    return (node for node in nodes if isinstance(node, exp.Select))


def _renamed(node: exp.Expr, table: Table) -> Table:
    """The table under the alias, if any, that a node of the FROM clause gives it and its columns."""
    alias = node.args.get("alias")
    given = [name.name for name in alias.args.get("columns") or ()] if alias else []
    types = [column.type for column in table.columns] + [None] * len(given)
    columns = [Column(name, kind) for name, kind in zip(given, types, strict=False)]
    return Table(node.alias or table.name, columns or table.columns, table.open and not given, table.name)
