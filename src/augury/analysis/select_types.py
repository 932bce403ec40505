"""Functions and types of Spark SQL, as far as a check needs them: which are not steady, what types come out.

By sqlglot's names of operators, functions and types, as words; it knows neither sqlglot nor where a name stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal as Exact
from decimal import InvalidOperation
from typing import Final

from augury import types
from augury.algebra.operators import Operator, TypeProblem, result_type
from augury.algebra.scalar import literal
from augury.diagnostics import Findings, Span
from augury.types import Decimal, Type, common_type


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CLOCK_FUNCTIONS: Final = _words("current_timestamp now current_date curdate current_time localtimestamp getdate")
UNSTEADY_FUNCTIONS: Final = CLOCK_FUNCTIONS | _words(
    """rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id
    input_file_name input_file_block_start input_file_block_length current_user session_user user
    current_catalog current_database current_schema current_timezone version reflect try_reflect java_method"""
)
"""Functions that do not give the same value for the same rows."""

ROW_ORDER_FUNCTIONS: Final = _words(
    "first first_value last last_value any_value collect_list collect_set array_agg group_concat"
)
"""Aggregates that depend on the order of rows: steady only where an order is given."""


def report_unsteady(name: str, span: Span, findings: Findings) -> None:
    """Say why a function is not deterministic, and what to take instead."""
    why, helps = "it differs from run to run", []
    if name in CLOCK_FUNCTIONS:
        helps = ["write NOW, the time of the tick, without parentheses"]
    elif name in ROW_ORDER_FUNCTIONS:
        why, helps = "rows have no order", ["take MIN(…) or MAX(…), or give an order: sort_array(collect_list(…))"]
    findings.error("E311", f"`{name}` is not deterministic: {why}", span, "not deterministic", helps=helps)


AGGREGATES_APART: Final = _words(
    "every some std mean try_avg try_sum histogram_numeric bitmap_and_agg count_min_sketch hll_sketch_agg"
)
"""Aggregates of Spark that sqlglot takes for any function."""

SQL_TYPES: Final[dict[str, Type]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT"), types.INT),
    **dict.fromkeys(("FLOAT", "DOUBLE"), types.DOUBLE),
    **dict.fromkeys(("VARCHAR", "TEXT", "CHAR"), types.STRING),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"), types.TIMESTAMP),
    "BOOLEAN": types.BOOLEAN, "BIGINT": types.BIGINT, "DATE": types.DATE,
    "INTERVAL": types.DURATION, "NULL": types.NULL,
}  # fmt: skip
"""Types of SQL by sqlglot's names; decimals have parameters and are not among them."""

_OPERATORS: Final = {
    "Add": Operator.ADD, "Sub": Operator.SUBTRACT, "Mul": Operator.MULTIPLY, "Div": Operator.DIVIDE,
    "Mod": Operator.MODULO, "Neg": Operator.NEGATE, "Abs": Operator.ABS, "Nullif": Operator.NULLIF,
    "Coalesce": Operator.COALESCE, "Greatest": Operator.GREATEST, "Least": Operator.LEAST, "If": Operator.IF,
}  # fmt: skip
_OTHERWISE_TYPED: Final = frozenset({"Round", "PercentileDisc", "TimestampDiff", "DatetimeDiff", "TimeDiff"})


def check_alike(kinds: list[Type | None], place: Callable[[], Span], findings: Findings) -> None:
    """Report types that have nothing in common; Spark takes strings for whatever they stand beside."""
    known = [kind for kind in kinds if kind is not None and not isinstance(kind, types.String)]
    if other := next((kind for kind in known[1:] if common_type(known[0], kind) is None), None):
        helps = ["5d, 10h, 15m, 30s are durations"] if types.DURATION in known else []
        findings.error("E266", f"{known[0]} and {other} do not go together", place(), f"{other}", helps=helps)


def number_type(text: str) -> Type | None:
    """The type of a number as written: whole ones by size, `1.5` exact, `1e3` DOUBLE."""
    try:
        value = float(text) if "e" in text.lower() else Exact(text) if "." in text else int(text)
    except (ValueError, InvalidOperation):  # sqlglot takes more for numbers than Spark does
        return None
    constant = literal(value)
    return None if isinstance(constant, TypeProblem) else constant.type


def cast_type(name: str, sizes: list[int]) -> Type | None:
    """The type that CAST gives, by sqlglot's name; a bare DECIMAL of Spark has ten digits."""
    if name != "DECIMAL":
        return SQL_TYPES.get(name)
    precision, scale = (*sizes, *(10, 0)[len(sizes) :])
    return Decimal(precision, scale) if 0 <= scale <= precision <= types.PRECISION_MAX and precision else None


def applied_type(function: str, operands: Iterable[Type | None], usual: Type | None) -> Type | None:
    """The type of an operator or function by sqlglot's name; `usual` is what sqlglot's own table says.

    That table is wrong for Spark where it says DOUBLE for exact numbers, and silent on differences of times.
    """
    given = list(operands)
    known = [one for one in given if one is not None]
    match function, given:
        case "Count", _:
            return types.BIGINT
        case "Sum", [Decimal(precision, scale)]:
            return Decimal(min(types.PRECISION_MAX, precision + 10), scale)
        case "Avg", [Decimal(precision, scale)]:
            return Decimal(min(types.PRECISION_MAX, precision + 4), min(types.PRECISION_MAX, scale + 4))
        case "Sum" | "Avg", [one]:
            whole = types.BIGINT if function == "Sum" else types.DOUBLE
            return whole if one in (types.INT, types.BIGINT) else one if one in (types.DOUBLE, types.DURATION) else None
        case (("Add" | "Sub"), _) if types.DATE in given and types.DURATION in given:
            return None  # a DATE for whole days, else a TIMESTAMP
        case (("Min" | "Max" | "Lag" | "Lead" | "FirstValue" | "LastValue" | "Distinct"), [one, *_]):
            return one
        case _ if function in _OPERATORS:
            result = result_type(_OPERATORS[function], known) if len(known) == len(given) else None
            return None if isinstance(result, TypeProblem) else result
        case _:
            return None if function in _OTHERWISE_TYPED else usual
