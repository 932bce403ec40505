"""Expressions of Spark SQL → text that DuckDB reads with the same meaning, every type and conversion spelled out.

In: nodes of sqlglot, and what columns and sub-queries mean. Out: text with its Spark type. A node that is not known
here is refused by `Untranslatable`: nothing is handed on in the hope that it means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sqlglot import exp

from augury import limits
from augury import types as t
from augury.algebra.select import NOW_PARAMETER
from augury.duck.sql import kinds as k
from augury.duck.sql.calls import CALLS
from augury.duck.sql.kinds import DAYS, Days, SqlType, Untranslatable, duck_type, meeting
from augury.duck.sql.values import (
    Functions,
    Value,
    cast_target,
    converted,
    interval,
    joined,
    literal,
    months_of,
    quoted,
    refused,
)
from augury.types import Decimal


class Names(Protocol):
    """What the names in an expression mean."""

    def column(self, node: exp.Column) -> Value:
        """The column that a name stands for."""
        ...

    def subquery(self, node: exp.Expr) -> tuple[str, list[SqlType]]:
        """A sub-query in an expression, and the types of its columns."""
        ...

    def window(self, node: exp.Window) -> str:
        """The OVER of a window function, a named one looked up."""
        ...


_COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip
_ARITHMETIC: Final[dict[type[exp.Expr], tuple[str, str]]] = {
    exp.Add: ("add", "+"), exp.Sub: ("subtract", "-"), exp.Mul: ("multiply", "*"), exp.Div: ("divide", "/"),
    exp.Mod: ("modulo", "%"), exp.IntDiv: ("quotient", "//"),
}  # fmt: skip


_LOOKED_AT: Final = {
    *("this", "expression", "expressions", "negate", "is_string", "low", "high", "query", "ifs", "default"),
    *("true", "false", "start", "length", "position", "offset", "big_int", "safe", "coalesce", "unit", "to"),
    *("decimals", "ignore_nulls", "partition_by", "order", "spec", "alias", "over", "table"),
}
"""What nodes are made of, by sqlglot's names."""


@dataclass(slots=True)
class Expressions:
    """The translator of the expressions of one SELECT."""

    names: Names
    functions: Functions
    aggregate: Callable[[exp.Expr, str], Value | None]

    def of(self, node: exp.Expr) -> Value:
        """An expression; refused where sqlglot says more about it than is looked at here."""
        if unknown := next((name for name, value in node.args.items() if value and name not in _LOOKED_AT), None):
            raise refused(node, f"{unknown.upper().strip('_')} is not run in process here")
        value = self._of(node)
        if len(value.sql) > limits.PROGRAM_CHARACTERS_MAX:
            raise Untranslatable("this SELECT grows too long for DuckDB")
        return Value(f"(NOT {value.sql})", t.BOOLEAN, value.fails) if node.args.get("negate") else value

    def _of(self, node: exp.Expr) -> Value:
        match node:
            case exp.Alias() | exp.Paren():
                return self.of(node.this)
            case exp.Column():
                return self.names.column(node)
            case exp.Literal():
                return literal(node)
            case exp.Null():
                return Value("NULL", t.NULL)
            case exp.Boolean():
                return Value("TRUE" if node.this else "FALSE", t.BOOLEAN)
            case exp.Placeholder() if node.name == NOW_PARAMETER:
                return Value(f"make_timestamp(CAST(${NOW_PARAMETER} AS BIGINT))", t.TIMESTAMP)
            case exp.Interval():
                return interval(node)
            case exp.And() | exp.Or():
                return self.connected(node)
            case exp.Not():
                value = self.truth(node.this)
                return Value(f"(NOT {value.sql})", t.BOOLEAN, value.fails)
            case _ if type(node) in _COMPARISONS:
                return self.compared(_COMPARISONS[type(node)], self.of(node.this), self.of(node.expression), node)
            case _ if type(node) in _ARITHMETIC:
                return self.arithmetic(node)
            case _ if type(node) in CALLS:
                return CALLS[type(node)](self, node)
            case exp.Window():
                return self.windowed(node)
            case exp.Filter():
                where = self.truth(node.expression.this)
                return self.aggregated(node.this, f" FILTER (WHERE {where.sql})")
            case exp.AggFunc():
                return self.aggregated(node, "")
            case _:
                known = getattr(self, f"_{type(node).__name__.lower()}", None)
                if known is None:
                    name = (
                        node.name
                        if isinstance(node, exp.Anonymous)
                        else node.sql_name()
                        if isinstance(node, exp.Func)
                        else ""
                    )
                    what = f"the function {name.upper()}" if name else f"this form ({node.key.upper()})"
                    raise refused(node, f"{what} is not run in process")
                found: Value = known(node)
                return found

    def truth(self, node: exp.Expr) -> Value:
        """A condition."""
        return self.converted(self.of(node), t.BOOLEAN)

    def converted(self, value: Value, target: SqlType) -> Value:
        """The value as another type."""
        return converted(value, target, self.functions)

    def alike(self, values: Sequence[Value], node: exp.Expr) -> list[Value]:
        """The values as the type that all meet in."""
        kind: SqlType | None = values[0].type
        for value in values[1:]:
            kind = meeting(kind, value.type) if kind is not None else None
        if kind is None:
            raise refused(node, f"{' and '.join(dict.fromkeys(str(v.type) for v in values))} do not go together")
        return [self.converted(value, kind) for value in values]

    def aggregated(self, node: exp.Expr, suffix: str) -> Value:
        value = self.aggregate(node, suffix)
        if value is None:
            raise refused(
                node,
                f"the aggregate {node.sql_name() if isinstance(node, exp.Func) else node.key} is not run in process",
            )
        return value

    def windowed(self, node: exp.Window) -> Value:
        inner, suffix = node.this, ""
        if isinstance(inner, exp.Filter):
            suffix = f" FILTER (WHERE {self.truth(inner.expression.this).sql})"
            inner = inner.this
        return self.aggregated(inner, f"{suffix} OVER ({self.names.window(node)})")

    # ---- truth

    def connected(self, node: exp.Connector) -> Value:
        """AND, OR: left to right where an operand may fail, for DuckDB looks at them in an order of its own."""
        kind = type(node)
        operands = [self.truth(one) for one in node.flatten()]
        plain = f" {'AND' if kind is exp.And else 'OR'} ".join(one.sql for one in operands)
        fails = any(one.fails for one in operands)
        if not any(one.fails for one in operands[1:]):
            return Value(f"({plain})", t.BOOLEAN, fails)
        form = "WHEN NOT {} THEN FALSE" if kind is exp.And else "WHEN {} THEN TRUE"
        tests = " ".join(form.format(one.sql) for one in operands[:-1])
        return Value(f"CASE {tests} ELSE ({plain}) END", t.BOOLEAN, fails=True)

    def compared(self, operator: str, left: Value, right: Value, node: exp.Expr) -> Value:
        a, b = self.alike([left, right], node)
        return Value(f"({a.sql} {operator} {b.sql})", t.BOOLEAN, a.fails or b.fails)

    def _is(self, node: exp.Is) -> Value:
        value, wanted = self.of(node.this), node.expression
        if not isinstance(wanted, exp.Null | exp.Boolean):
            raise refused(node, "this test is not run in process")
        word = "NULL" if isinstance(wanted, exp.Null) else "TRUE" if wanted.this else "FALSE"
        return Value(f"({value.sql} IS {word})", t.BOOLEAN, value.fails)

    def _between(self, node: exp.Between) -> Value:
        value, low, high = self.alike([self.of(node.this), self.of(node.args["low"]), self.of(node.args["high"])], node)
        return joined(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", t.BOOLEAN, value, low, high)

    def _in(self, node: exp.In) -> Value:
        if query := node.args.get("query"):
            return self._in_query(node, query)
        if not node.expressions:
            raise refused(node, "this IN is not run in process")
        value, *items = self.alike([self.of(node.this), *map(self.of, node.expressions)], node)
        return joined(f"({value.sql} IN ({', '.join(i.sql for i in items)}))", t.BOOLEAN, value, *items)

    def _in_query(self, node: exp.In, query: exp.Expr) -> Value:
        value = self.of(node.this)
        sql, kinds = self.names.subquery(query)
        if len(kinds) != 1 or meeting(value.type, kinds[0]) != kinds[0]:
            kind = meeting(value.type, kinds[0]) if len(kinds) == 1 else None
            if kind is None:
                raise refused(node, "this IN is not run in process")
            item = converted(Value("item", kinds[0]), kind, self.functions)
            sql = f"SELECT {item.sql} FROM ({sql}) AS items(item)"
            return Value(f"({self.converted(value, kind).sql} IN ({sql}))", t.BOOLEAN, fails=True)
        return Value(f"({self.converted(value, kinds[0]).sql} IN ({sql}))", t.BOOLEAN, fails=True)

    def _exists(self, node: exp.Exists) -> Value:
        sql, _ = self.names.subquery(node.this)
        return Value(f"EXISTS ({sql})", t.BOOLEAN, fails=True)

    def _subquery(self, node: exp.Subquery) -> Value:
        sql, kinds = self.names.subquery(node)
        if len(kinds) != 1:
            raise refused(node, "a sub-query in an expression has one column")
        return Value(f"({sql})", kinds[0], fails=True)

    def _escape(self, node: exp.Escape) -> Value:
        if not isinstance(node.this, exp.Like) or len(node.expression.name) != 1:
            raise refused(node, "this ESCAPE is not run in process")
        return self._like(node.this, node.expression.name)

    def _like(self, node: exp.Like, escape: str = "\\") -> Value:
        value, pattern = (self.converted(self.of(one), t.STRING) for one in (node.this, node.expression))
        if not isinstance(node.expression, exp.Literal):
            raise refused(node, "LIKE takes a pattern as written, not one from a column, in process")
        rest = node.expression.name.replace(escape * 2, "").replace(f"{escape}%", "").replace(f"{escape}_", "")
        if escape in rest:
            raise refused(node, f"Spark takes `{escape}` in a pattern only before %, _ and itself")
        return Value(f"({value.sql} LIKE {pattern.sql} ESCAPE {quoted(escape)})", t.BOOLEAN, value.fails)

    # ---- arithmetic

    def arithmetic(self, node: exp.Expr) -> Value:
        operation, symbol = _ARITHMETIC[type(node)]
        months = next((i for i in (node.this, node.expression) if isinstance(i, exp.Interval) and months_of(i)), None)
        if months is not None:
            other = node.expression if months is node.this else node.this
            return self.by_months(node, self.of(other), months_of(months) * (-1 if operation == "subtract" else 1))
        left, right = self.of(node.this), self.of(node.expression)
        if any(k.is_duration(v.type) or isinstance(v.type, t.Timestamp | t.Date) for v in (left, right)):
            return self.times(operation, left, right, node)
        left, right = (self._numeric(value, other) for value, other in ((left, right), (right, left)))
        if isinstance(left.type, t.Double) or isinstance(right.type, t.Double):
            left, right = (self.converted(value, t.DOUBLE) for value in (left, right))
            if operation == "quotient":
                raise refused(node, "DIV takes whole and exact numbers")
            fails = left.fails or right.fails or operation in ("divide", "modulo")
            return Value(f"({left.sql} {symbol} {right.sql})", t.DOUBLE, fails)
        if not (k.is_number(left.type) and k.is_number(right.type)):
            raise refused(node, f"{left.type} and {right.type} do not go together")
        if isinstance(left.type, Decimal) or isinstance(right.type, Decimal):
            return self.exact(operation, symbol, self._exact(left), self._exact(right))
        if operation == "divide":
            left, right = (self.converted(value, t.DOUBLE) for value in (left, right))
            return Value(f"({left.sql} / {right.sql})", t.DOUBLE, fails=True)
        wide = operation == "quotient" or t.BIGINT in (left.type, right.type)
        kind = t.BIGINT if wide else t.INT
        left, right = (self.converted(value, kind) for value in (left, right))
        if operation == "modulo":
            # DuckDB takes the least number % -1 for an overflow, in its own type.
            return Value(f"CAST((CAST({left.sql} AS HUGEINT) % {right.sql}) AS {duck_type(kind)})", kind, fails=True)
        return Value(f"({left.sql} {symbol} {right.sql})", kind, fails=True)

    def _numeric(self, value: Value, other: Value) -> Value:
        """A string or NULL beside a number as a number."""
        if isinstance(value.type, t.Null):
            return self.converted(value, other.type if k.is_number(other.type) else t.DOUBLE)
        if isinstance(value.type, t.String):
            return self.converted(value, t.BIGINT if k.is_whole(other.type) else t.DOUBLE)
        return value

    def _exact(self, value: Value) -> Value:
        """A number as a decimal; a whole number as written has just its own digits."""
        kind = Decimal(value.digits, 0) if value.digits else k.as_decimal(value.type)
        return self.converted(value, kind)

    def exact(self, operation: str, symbol: str, left: Value, right: Value) -> Value:
        """Arithmetic of decimals: by DuckDB where it cannot but be exact, else by ours."""
        a, b = k.as_decimal(left.type), k.as_decimal(right.type)
        if operation == "quotient":
            return self.functions.call(operation, t.BIGINT, left, right)
        result = k.exact_result(operation, a, b)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        if operation in ("add", "subtract") and whole + result.scale + 1 <= t.PRECISION_MAX:
            left, right = (self.converted(value, result) for value in (left, right))
            sql = f"({left.sql} {symbol} {right.sql})"
            return Value(f"CAST({sql} AS {duck_type(result)})", result, left.fails or right.fails)
        if operation == "multiply" and a.precision + b.precision < t.PRECISION_MAX:
            # DuckDB gives a product of two narrow decimals a narrow type, and overflows.
            wide = f"CAST({left.sql} AS DECIMAL({t.PRECISION_MAX},{a.scale}))"
            fails = left.fails or right.fails
            return Value(f"CAST(({wide} * {right.sql}) AS {duck_type(result)})", result, fails)
        return self.functions.call(operation, result, left, right)

    def times(self, operation: str, left: Value, right: Value, node: exp.Expr) -> Value:
        """Arithmetic of moments, days and durations."""
        fails = left.fails or right.fails
        time = (t.Timestamp, t.Date)
        if isinstance(left.type, t.String) and isinstance(right.type, time):
            left = self.converted(left, right.type)
        if isinstance(right.type, t.String) and isinstance(left.type, time):
            right = self.converted(right, left.type)
        match operation, left.type, right.type:
            case "subtract", t.Date(), t.Date():
                return Value(f"(({left.sql} - {right.sql}) * 86400000000)", DAYS, fails)
            case "subtract", t.Timestamp() | t.Date(), t.Timestamp() | t.Date():
                return Value(f"({self._micros(left)} - {self._micros(right)})", t.DURATION, fails)
            case "add", t.Duration() | Days(), t.Timestamp() | t.Date():
                return self.times(operation, right, left, node)
            case (("add" | "subtract"), t.Date(), Days()):
                days = f"CAST({right.sql} // 86400000000 AS INTEGER)"
                return Value(f"({left.sql} {'+' if operation == 'add' else '-'} {days})", t.DATE, fails)
            case (("add" | "subtract"), t.Timestamp() | t.Date(), t.Duration() | Days()):
                sign = "+" if operation == "add" else "-"
                return Value(f"make_timestamp({self._micros(left)} {sign} {right.sql})", t.TIMESTAMP, fails)
            case (("add" | "subtract"), t.Duration() | Days(), t.Duration() | Days()):
                kind = DAYS if left.type == right.type == DAYS else t.DURATION
                return Value(f"({left.sql} {'+' if operation == 'add' else '-'} {right.sql})", kind, fails=True)
            case (("add" | "subtract"), t.Date(), t.Int()):
                return Value(f"({left.sql} {'+' if operation == 'add' else '-'} {right.sql})", t.DATE, fails=True)
            case "multiply", t.Duration() | Days(), t.Int() | t.BigInt():
                return Value(f"({left.sql} * {self.converted(right, t.BIGINT).sql})", t.DURATION, fails=True)
            case "multiply", t.Int() | t.BigInt(), t.Duration() | Days():
                return self.times(operation, right, left, node)
            case _:
                raise refused(node, f"{operation} of {left.type} and {right.type} is not run in process")

    def _micros(self, value: Value) -> str:
        return f"epoch_us({self.converted(value, t.TIMESTAMP).sql})"

    def by_months(self, node: exp.Expr, time: Value, months: int) -> Value:
        if not isinstance(time.type, t.Timestamp | t.Date) or isinstance(node, exp.Mul | exp.Div):
            raise refused(node, "months and years are added to times only")
        sql = f"({time.sql} + to_months(CAST({months} AS INTEGER)))"
        return Value(f"CAST({sql} AS {duck_type(time.type)})", time.type, time.fails)

    def _neg(self, node: exp.Neg) -> Value:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return literal(node.this, negative=True)
        if isinstance(node.this, exp.Interval):
            value = interval(node.this)
            return Value(f"(-{value.sql})", value.type)
        value = self._number(node)
        return Value(f"(-{value.sql})", value.type, fails=True)

    def _abs(self, node: exp.Abs) -> Value:
        value = self._number(node)
        return Value(f"abs({value.sql})", value.type, fails=True)

    def _number(self, node: exp.Expr) -> Value:
        value = self._numeric(self.of(node.this), Value("", t.DOUBLE))
        if not k.is_number(value.type) and not k.is_duration(value.type):
            raise refused(node, f"{value.type} is no number")
        return value

    def _ceil(self, node: exp.Ceil | exp.Floor) -> Value:
        value = self._number(node)
        if node.args.get("decimals") is not None or k.is_duration(value.type):
            raise refused(node, "CEIL and FLOOR take one number in process")
        sql = f"{'ceil' if isinstance(node, exp.Ceil) else 'floor'}({value.sql})"
        match value.type:
            case Decimal(precision, scale):
                kind: SqlType = Decimal(min(t.PRECISION_MAX, precision - scale + 1), 0)
                return (
                    Value(f"CAST({sql} AS {duck_type(kind)})", kind, value.fails)
                    if scale
                    else self.converted(value, kind)
                )
            case _:
                # Of an INT and a BIGINT, too, Spark makes a BIGINT.
                return (
                    Value(f"CAST({sql} AS BIGINT)", t.BIGINT, fails=True)
                    if value.type == t.DOUBLE
                    else self.converted(value, t.BIGINT)
                )

    _floor = _ceil

    def _round(self, node: exp.Round) -> Value:
        value, places = self._number(node), node.args.get("decimals")
        count = int(places.name) if isinstance(places, exp.Literal) and places.is_int else 0 if places is None else -1
        if count < 0 or not isinstance(value.type, Decimal | t.Int | t.BigInt):
            raise refused(node, "ROUND takes an exact number and a count of digits in process")
        if not isinstance(value.type, Decimal):
            return value
        precision, scale = value.type.precision, min(value.type.scale, count)
        kind = Decimal(min(t.PRECISION_MAX, precision - value.type.scale + scale + 1), scale)
        return self.converted(value, kind)

    # ---- choosing

    def _coalesce(self, node: exp.Coalesce) -> Value:
        values = self.alike([self.of(one) for one in (node.this, *node.expressions)], node)
        return joined(f"COALESCE({', '.join(v.sql for v in values)})", values[0].type, *values)

    def _greatest(self, node: exp.Greatest | exp.Least) -> Value:
        values = self.alike([self.of(one) for one in (node.this, *node.expressions)], node)
        word = "greatest" if isinstance(node, exp.Greatest) else "least"
        return joined(f"{word}({', '.join(v.sql for v in values)})", values[0].type, *values)

    _least = _greatest

    def _nullif(self, node: exp.Nullif) -> Value:
        value = self.of(node.this)
        equal = self.compared("=", value, self.of(node.expression), node)
        return joined(f"CASE WHEN {equal.sql} THEN NULL ELSE {value.sql} END", value.type, value, equal)

    def _if(self, node: exp.If) -> Value:
        default = node.args.get("false")
        return self.chosen([(self.truth(node.this), self.of(node.args["true"]))], default, node)

    def _case(self, node: exp.Case) -> Value:
        branches = []
        for branch in node.args["ifs"]:
            test = self.truth(branch.this) if node.this is None else self.compared(
                "=", self.of(node.this), self.of(branch.this), node
            )  # fmt: skip
            branches.append((test, self.of(branch.args["true"])))
        return self.chosen(branches, node.args.get("default"), node)

    def chosen(self, branches: list[tuple[Value, Value]], default: exp.Expr | None, node: exp.Expr) -> Value:
        last = Value("NULL", t.NULL) if default is None else self.of(default)
        *values, last = self.alike([*(value for _, value in branches), last], node)
        tests = [test for test, _ in branches]
        parts = " ".join(f"WHEN {a.sql} THEN {b.sql}" for a, b in zip(tests, values, strict=True))
        return joined(f"CASE {parts} ELSE {last.sql} END", last.type, *tests, *values, last)

    # ---- casts

    def _trycast(self, node: exp.Cast) -> Value:
        """CAST; sqlglot calls Spark's own so, and sets `safe` for a TRY_CAST."""
        if node.args.get("safe"):
            raise refused(node, "TRY_CAST is not run in process")
        return self.converted(self.of(node.this), cast_target(node))

    _cast = _trycast
