"""Aggregates and window functions of Spark SQL for DuckDB, with Spark's types.

In: a function's node, and what follows it (FILTER, OVER) as text. Out: its value, None where there is no such function
here. Those that depend on the order of rows are taken over windows only.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from augury import types as t
from augury.duck.sql import kinds as k
from augury.duck.sql.expressions import Expressions
from augury.duck.sql.kinds import duck_type
from augury.duck.sql.values import Functions, Value, converted, refused
from augury.types import Decimal

_RANKS: Final = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank"}
_SHARES: Final = {"PercentRank": "percent_rank", "CumeDist": "cume_dist"}
_FRAMED: Final = {"FirstValue": "first_value", "LastValue": "last_value", "First": "first_value", "Last": "last_value"}


def aggregated(node: exp.Expr, suffix: str, of: Expressions) -> Value | None:
    """An aggregate or window function; `suffix` is its FILTER and OVER."""
    over = " OVER (" in suffix
    nulls = ""
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        nulls = " IGNORE NULLS" if isinstance(node, exp.IgnoreNulls) else ""
        node = node.this
    name = type(node).__name__
    if over and name in _RANKS and not node.expressions:
        return Value(f"CAST({_RANKS[name]}(){suffix} AS INTEGER)", t.INT)
    if over and name in _SHARES and not node.expressions:
        return Value(f"{_SHARES[name]}(){suffix}", t.DOUBLE)
    if over and name == "Ntile":
        count = of.converted(of.of(node.this), t.INT)
        return Value(f"CAST(ntile({count.sql}){suffix} AS INTEGER)", t.INT, fails=True)
    if over and name in ("Lag", "Lead"):
        return _shifted(node, suffix, nulls, of)
    if over and name in _FRAMED:
        value = of.of(node.this)
        return Value(f"{_FRAMED[name]}({value.sql}{nulls}){suffix}", value.type, value.fails)
    return _aggregate(node, suffix, of) if not nulls else None


def _shifted(node: exp.Expr, suffix: str, nulls: str, of: Expressions) -> Value:
    value, offset, default = of.of(node.this), node.args.get("offset"), node.args.get("default")
    parts = [value.sql, of.converted(of.of(offset), t.INT).sql if offset is not None else "1"]
    if default is not None and not isinstance(default, exp.Null):
        value, other = of.alike([value, of.of(default)], node)
        parts = [value.sql, parts[1], other.sql]
    word = "lag" if isinstance(node, exp.Lag) else "lead"
    return Value(f"{word}({', '.join(parts)}{nulls}){suffix}", value.type, value.fails)


def _aggregate(node: exp.Expr, suffix: str, of: Expressions) -> Value | None:
    match node:
        case exp.Count(this=exp.Star()):
            return Value(f"count(*){suffix}", t.BIGINT)
        case exp.Count() if not node.expressions:
            distinct, value = _operand(node, of)
            return Value(f"count({distinct}{value.sql}){suffix}", t.BIGINT, value.fails)
        case exp.CountIf():
            return Value(f"CAST(count_if({of.truth(node.this).sql}){suffix} AS BIGINT)", t.BIGINT, fails=True)
        case exp.LogicalAnd() | exp.LogicalOr():
            word = "bool_and" if isinstance(node, exp.LogicalAnd) else "bool_or"
            return Value(f"{word}({of.truth(node.this).sql}){suffix}", t.BOOLEAN, fails=True)
        case exp.Min() | exp.Max() if not node.expressions:
            _, value = _operand(node, of)
            return Value(f"{node.key}({value.sql}){suffix}", value.type, value.fails)
        case exp.Sum():
            distinct, value = _operand(node, of)
            return _total(node, distinct, value, suffix, of.functions)
        case exp.Avg():
            distinct, value = _operand(node, of)
            return _mean(node, distinct, value, suffix, of.functions)
        case _:
            return None


def _operand(node: exp.Expr, of: Expressions) -> tuple[str, Value]:
    """What is aggregated, and whether equal values count once."""
    if not isinstance(node.this, exp.Distinct):
        return "", of.of(node.this)
    if len(node.this.expressions) != 1:
        raise refused(node, "DISTINCT of several columns is not counted in process")
    return "DISTINCT ", of.of(node.this.expressions[0])


def _total(node: exp.Expr, distinct: str, value: Value, suffix: str, functions: Functions) -> Value:
    if isinstance(value.type, t.String | t.Null):
        value = converted(value, t.DOUBLE, functions)
    kind = k.total_type(value.type)
    if kind is None:
        raise refused(node, f"there is no SUM of {value.type}")
    return Value(f"CAST(sum({distinct}{value.sql}){suffix} AS {duck_type(kind)})", kind, fails=True)


def _mean(node: exp.Expr, distinct: str, value: Value, suffix: str, functions: Functions) -> Value:
    if isinstance(value.type, Decimal):
        total = _total(node, distinct, value, suffix, functions)
        count = Value(f"CAST(count({distinct}{value.sql}){suffix} AS DECIMAL(20,0))", Decimal(20, 0))
        # No rows have the mean NULL: NULL / 0.
        return functions.call("divide", k.mean_type(value.type), total, count)
    if not k.is_number(value.type) and not isinstance(value.type, t.String | t.Null):
        raise refused(node, f"the AVG of {value.type} is not run in process")
    value = converted(value, t.DOUBLE, functions)
    return Value(f"avg({distinct}{value.sql}){suffix}", t.DOUBLE, fails=True)
