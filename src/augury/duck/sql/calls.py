"""Functions of strings and times: how DuckDB is asked for what Spark means by each.

In: a call as sqlglot reads it, and the translator of its operands. Out: its value. A function without a row in
`CALLS` is not run in process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from augury import types as t
from augury.duck.sql.values import Value, joined, refused

if TYPE_CHECKING:
    from augury.duck.sql.expressions import Expressions

_PARTS: Final[dict[type[exp.Expr], str]] = {
    exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.DayOfMonth: "day", exp.Hour: "hour",
    exp.Minute: "minute", exp.Second: "second", exp.Quarter: "quarter", exp.DayOfYear: "dayofyear",
}  # fmt: skip
_TRUNCATIONS: Final = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"), "QUARTER": "quarter", "WEEK": "week", "DAY": "day", "DD": "day",
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"), "HOUR": "hour", "MINUTE": "minute", "SECOND": "second",
    "MILLISECOND": "millisecond", "MICROSECOND": "microsecond",
}  # fmt: skip


# ---- strings


def _text(of: Expressions, node: Any) -> Value:
    """An operand as a string."""
    return of.converted(of.of(node), t.STRING)


def _concat(of: Expressions, node: exp.Concat) -> Value:
    values = [_text(of, one) for one in node.expressions]
    return joined(f"({' || '.join(v.sql for v in values)})", t.STRING, *values)


def _dpipe(of: Expressions, node: exp.DPipe) -> Value:
    values = [_text(of, one) for one in node.flatten()]
    return joined(f"({' || '.join(v.sql for v in values)})", t.STRING, *values)


def _length(of: Expressions, node: exp.Length) -> Value:
    value = _text(of, node.this)
    return Value(f"CAST(length({value.sql}) AS INTEGER)", t.INT, value.fails)


def _upper(of: Expressions, node: exp.Upper | exp.Lower) -> Value:
    word = "upper" if isinstance(node, exp.Upper) else "lower"
    return of.functions.call(word, t.STRING, _text(of, node.this))


def _trim(of: Expressions, node: exp.Trim) -> Value:
    word = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    letters = _text(of, node.expression) if node.args.get("expression") else Value("' '", t.STRING)
    value = _text(of, node.this)
    return joined(f"{word}({value.sql}, {letters.sql})", t.STRING, value, letters)


def _substring(of: Expressions, node: exp.Substring) -> Value:
    value, start = _text(of, node.this), _place(of, node, "start")
    first = f"CASE WHEN {start.sql} = 0 THEN 1 ELSE {start.sql} END"
    if node.args.get("length") is None:
        return joined(f"substring({value.sql}, {first})", t.STRING, value, start)
    length = _place(of, node, "length")
    # DuckDB reads a negative length backwards.
    count = f"CASE WHEN {length.sql} < 0 THEN 0 ELSE {length.sql} END"
    return joined(f"substring({value.sql}, {first}, {count})", t.STRING, value, start, length)


def _place(of: Expressions, node: exp.Substring, which: str) -> Value:
    value = of.of(node.args[which])
    if value.type == t.BIGINT:
        raise refused(node, "SUBSTRING takes an INT in process, not a BIGINT")
    return of.converted(value, t.INT)


def _startswith(of: Expressions, node: exp.StartsWith | exp.EndsWith | exp.Contains) -> Value:
    word = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}[type(node).__name__]
    values = [_text(of, one) for one in (node.this, node.expression)]
    return joined(f"{word}({values[0].sql}, {values[1].sql})", t.BOOLEAN, *values)


# ---- times


def _time(of: Expressions, node: Any, *, day: bool = False) -> Value:
    """An operand as a moment, or as a day."""
    value = of.of(node)
    if day or not isinstance(value.type, t.Date):
        return of.converted(value, t.DATE if day else t.TIMESTAMP)
    return value


def _part(of: Expressions, word: str, operand: Any) -> Value:
    value = _time(of, operand)
    return Value(f"CAST({word}({value.sql}) AS INTEGER)", t.INT, value.fails)


def _dayofweek(of: Expressions, node: exp.DayOfWeek) -> Value:
    value = _time(of, node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this, day=True)
    return Value(f"CAST(dayofweek({value.sql}) + 1 AS INTEGER)", t.INT, value.fails)


def _extract(of: Expressions, node: exp.Extract) -> Value:
    word = node.name.lower()
    if word not in _PARTS.values() or word == "second":
        raise refused(node, f"EXTRACT({word.upper()} …) is not run in process")
    return _part(of, word, node.expression)


def _tsordstodate(of: Expressions, node: exp.TsOrDsToDate) -> Value:
    if node.args.get("format"):
        raise refused(node, "TO_DATE takes no format in process")
    return _time(of, node.this, day=True)


def _tsordsadd(of: Expressions, node: exp.TsOrDsAdd) -> Value:
    value, count = _time(of, node.this, day=True), of.converted(of.of(node.expression), t.INT)
    if node.args["unit"].name.upper() != "DAY":
        raise refused(node, "only days are added to a DATE by a function in process")
    return Value(f"({value.sql} + {count.sql})", t.DATE, fails=True)


def _addmonths(of: Expressions, node: exp.AddMonths) -> Value:
    value, count = _time(of, node.this, day=True), of.converted(of.of(node.expression), t.INT)
    return joined(f"CAST(({value.sql} + to_months({count.sql})) AS DATE)", t.DATE, value, count)


def _lastday(of: Expressions, node: exp.LastDay) -> Value:
    value = _time(of, node.this, day=True)
    return Value(f"last_day({value.sql})", t.DATE, value.fails)


def _datediff(of: Expressions, node: exp.DateDiff) -> Value:
    if node.args.get("unit") and node.args["unit"].name.upper() not in ("DAY", "DAYS"):
        raise refused(node, "DATEDIFF counts days in process")
    later, earlier = (_time(of, one, day=True) for one in (node.this, node.expression))
    return joined(f"CAST(({later.sql} - {earlier.sql}) AS INTEGER)", t.INT, later, earlier)


def _timestamptrunc(of: Expressions, node: exp.TimestampTrunc) -> Value:
    value, unit = _time(of, node.this), _TRUNCATIONS.get(node.args["unit"].name.upper())
    if unit is None:
        raise refused(node, "this unit is not known in process")
    value = of.converted(value, t.TIMESTAMP)
    return Value(f"date_trunc('{unit}', {value.sql})", t.TIMESTAMP, value.fails)


def _datetrunc(of: Expressions, node: exp.DateTrunc) -> Value:
    value, unit = _time(of, node.this, day=True), _TRUNCATIONS.get(node.args["unit"].name.upper())
    if unit not in ("year", "quarter", "month", "week"):
        raise refused(node, "this unit is not known in process")
    return Value(f"CAST(date_trunc('{unit}', {value.sql}) AS DATE)", t.DATE, value.fails)


def _unixmicros(of: Expressions, node: exp.UnixMicros) -> Value:
    value = of.converted(_time(of, node.this), t.TIMESTAMP)
    return Value(f"epoch_us({value.sql})", t.BIGINT, value.fails)


def _part_of(of: Expressions, node: exp.Expr) -> Value:
    return _part(of, _PARTS[type(node)], node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this)


CALLS: Final[dict[type[exp.Expr], Callable[[Expressions, Any], Value]]] = {
    **dict.fromkeys(_PARTS, _part_of),
    exp.Concat: _concat,
    exp.DPipe: _dpipe,
    exp.Length: _length,
    exp.Upper: _upper,
    exp.Lower: _upper,
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.StartsWith: _startswith,
    exp.EndsWith: _startswith,
    exp.Contains: _startswith,
    exp.DayOfWeek: _dayofweek,
    exp.Extract: _extract,
    exp.TsOrDsToDate: _tsordstodate,
    exp.TsOrDsAdd: _tsordsadd,
    exp.AddMonths: _addmonths,
    exp.LastDay: _lastday,
    exp.DateDiff: _datediff,
    exp.TimestampTrunc: _timestamptrunc,
    exp.DateTrunc: _datetrunc,
    exp.UnixMicros: _unixmicros,
}
