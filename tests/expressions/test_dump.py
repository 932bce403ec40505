"""The canonical text of expressions, and what is said when types do not fit."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal

import pytest

from augury import types as t
from augury.algebra import scalar as s
from augury.algebra.operators import FUNCTIONS, SYMBOLS, Operator, TypeProblem, result_type
from augury.algebra.scalar import Constant, Field, Now, Previous, Scalar, Timing, TimingPrimitive
from augury.diagnostics import Span

O = Operator  # noqa: E741
DAY_US = 86_400_000_000


def do(operator: Operator, *operands: Scalar) -> Scalar:
    found = s.apply(operator, operands)
    assert isinstance(found, s.Apply), found
    return found


def lit(value: s.LiteralValue) -> Scalar:
    found = s.literal(value)
    assert isinstance(found, Constant), found
    return found


def when(*branches: tuple[Scalar, Scalar], default: Scalar | None = None) -> Scalar:
    found = s.case(branches, default)
    assert isinstance(found, s.Case), found
    return found


def cast(operand: Scalar, target: t.Type) -> Scalar:
    found = s.cast(operand, target)
    assert isinstance(found, s.Cast), found
    return found


amount = Field("", "amount", t.INT)
a, b, c = (Field("", name, t.INT) for name in "abc")
p, q, r = (Field("", name, t.BOOLEAN) for name in "pqr")
name = Field("", "name", t.String(30))
new, old = Field("NEW", "occ_time", t.TIMESTAMP), Field("OLD", "occ_time", t.TIMESTAMP)
hour = Constant(3_600_000_000, t.DURATION)

GOLDEN = [
    (
        do(O.AND, do(O.GT, amount, lit(1000)), do(O.GT, new, old)),
        "amount > 1000 AND NEW.occ_time > OLD.occ_time",
    ),
    # logic
    (do(O.OR, do(O.AND, p, q), r), "p AND q OR r"),
    (do(O.AND, do(O.OR, p, q), r), "(p OR q) AND r"),
    (do(O.AND, p, do(O.AND, q, r)), "p AND q AND r"),
    (do(O.NOT, do(O.AND, p, q)), "NOT (p AND q)"),
    (do(O.AND, do(O.NOT, p), q), "NOT p AND q"),
    (do(O.NOT, do(O.NOT, p)), "NOT NOT p"),
    (do(O.NOT, do(O.EQ, a, b)), "NOT a = b"),
    (do(O.EQ, do(O.NOT, p), q), "(NOT p) = q"),
    (do(O.EQ, do(O.LT, a, b), p), "(a < b) = p"),
    # tests
    (do(O.IS_NULL, a), "a IS NULL"),
    (do(O.NOT, do(O.IS_NULL, a)), "a IS NOT NULL"),
    (do(O.IS_NULL, do(O.ADD, a, b)), "a + b IS NULL"),
    (do(O.IS_NULL, do(O.OR, p, q)), "(p OR q) IS NULL"),
    (do(O.IN, a, lit(1), do(O.ADD, b, lit(2))), "a IN (1, b + 2)"),
    (do(O.NOT, do(O.IN, a, lit(1))), "a NOT IN (1)"),
    (do(O.LIKE, name, lit("a\\_%")), "name LIKE 'a\\_%'"),
    (do(O.NOT, do(O.LIKE, name, lit("it's"))), "name NOT LIKE 'it''s'"),
    # arithmetic
    (do(O.SUBTRACT, do(O.SUBTRACT, a, b), c), "a - b - c"),
    (do(O.SUBTRACT, a, do(O.SUBTRACT, b, c)), "a - (b - c)"),
    (do(O.ADD, a, do(O.MULTIPLY, b, c)), "a + b * c"),
    (do(O.MULTIPLY, do(O.ADD, a, b), c), "(a + b) * c"),
    (do(O.DIVIDE, a, do(O.MODULO, b, c)), "a / (b % c)"),
    (do(O.NEGATE, do(O.ADD, a, b)), "-(a + b)"),
    (do(O.MULTIPLY, do(O.NEGATE, a), b), "-a * b"),
    (do(O.SUBTRACT, a, do(O.NEGATE, b)), "a - -b"),
    (do(O.NEGATE, do(O.NEGATE, a)), "-(-a)"),
    (do(O.NEGATE, lit(-1)), "-(-1)"),
    (do(O.SUBTRACT, Now(), hour), "NOW - 1h"),
    (do(O.CONCAT, name, lit("-"), do(O.LOWER, name)), "name || '-' || LOWER(name)"),
    (do(O.CONCAT, name), "CONCAT(name)"),
    # functions
    (do(O.SUBSTRING, name, lit(1), do(O.ADD, a, b)), "SUBSTRING(name, 1, a + b)"),
    (do(O.IF, do(O.OR, p, q), a, b), "IF(p OR q, a, b)"),
    (cast(do(O.ADD, a, b), t.Decimal(12, 2)), "CAST(a + b AS NUMERIC(12,2))"),
    (when((p, a), (q, b), default=c), "CASE WHEN p THEN a WHEN q THEN b ELSE c END"),
    (do(O.ADD, when((p, a)), b), "CASE WHEN p THEN a END + b"),
    # leaves
    (Field("Order", "quantity", t.INT), "Order.quantity"),
    (Field("", "in", t.INT), "`in`"),
    (Field("", "late", t.INT), "`late`"),
    (Field("two words", "a`b", t.INT), "`two words`.`a``b`"),
    (Field("", "größe", t.INT), "größe"),
    (Previous("rate", 2, t.INT), "PREV(rate, 2)"),
    (Timing(TimingPrimitive.CHANGE), "CHANGE"),
    (Timing(TimingPrimitive.LATE, 5 * 3_600_000_000, DAY_US), "LATE(5h, 1d)"),
    (Timing(TimingPrimitive.LATE, None, DAY_US), "LATE(_, 1d)"),
    # constants read back as the type they have
    (lit(None), "NULL"),
    (lit(True), "TRUE"),
    (lit(2**31), "2147483648"),
    (lit(10**20), "100000000000000000000"),
    (lit(Decimal("1.50")), "1.50"),
    (lit(1000.0), "1000e0"),
    (lit(1e300), "1e+300"),
    (lit(-1.5), "-1.5e0"),
    (Constant(5, t.BIGINT), "CAST(5 AS BIGINT)"),
    (Constant(-(2**31), t.INT), "CAST(-2147483648 AS INT)"),
    (Constant(Decimal(5), t.Decimal(38, 18)), "CAST(5 AS NUMERIC(38,18))"),
    (Constant("x", t.String(3)), "CAST('x' AS VARCHAR(3))"),
    (Constant(None, t.INT), "CAST(NULL AS INT)"),
    (Constant(math.nan, t.DOUBLE), "CAST('nan' AS DOUBLE)"),
    (Constant(-math.inf, t.DOUBLE), "CAST('-inf' AS DOUBLE)"),
    (Constant(0, t.TIMESTAMP), "TIMESTAMP '1970-01-01T00:00:00Z'"),
    (Constant(date(2026, 1, 31), t.DATE), "DATE '2026-01-31'"),
    (Constant(5 * DAY_US, t.DURATION), "5d"),
    (Constant(-90 * 60_000_000, t.DURATION), "-90m"),
    (do(O.NEGATE, Constant(-DAY_US, t.DURATION)), "-(-1d)"),
    (Constant(1_500_000, t.DURATION), "1.5s"),
]


@pytest.mark.parametrize(("expression", "text"), GOLDEN, ids=[text for _, text in GOLDEN])
def test_dump(expression, text):
    assert s.dump(expression) == text


def test_fields_are_listed_wherever_they_stand():
    expression = when((do(O.GT, a, Previous("a", 1, t.INT)), cast(b, t.BIGINT)), default=do(O.ADD, a, lit(1)))
    assert s.fields(expression) == {a, b}
    assert s.leaves(expression) == {a, b, Previous("a", 1, t.INT)}


def test_where_it_was_written_is_no_part_of_its_meaning():
    assert Field("", "x", t.INT, Span(1, 2)) == Field("", "x", t.INT, Span(5, 6))
    assert hash(Now(Span(1, 4))) == hash(Now())
    assert do(O.ADD, a, b) != do(O.ADD, b, a)


# ---- types that do not fit -------------------------------------------------------------------------

SUM = "`+` takes numbers, durations, or a time and a duration"
LIKE = "takes two values of like types"

PROBLEMS: list[tuple[Operator, tuple[Scalar, ...], str, int, str | None]] = [
    (O.ADD, (name, a), f"{SUM}; here VARCHAR(30) and INT", 0, "CAST(name AS INT)"),
    (O.ADD, (new, old), f"{SUM}; here TIMESTAMP and TIMESTAMP", 1, None),
    (O.GT, (a, lit("5")), f"`>` {LIKE}; here INT and STRING", 1, "CAST('5' AS INT)"),
    (O.GT, (name, a), f"`>` {LIKE}; here VARCHAR(30) and INT", 0, "CAST(name AS INT)"),
    (O.LT, (new, a), f"`<` {LIKE}; here TIMESTAMP and INT", 1, "CAST(a AS TIMESTAMP)"),
    (O.EQ, (name, new), f"`=` {LIKE}; here VARCHAR(30) and TIMESTAMP", 0, "CAST(name AS TIMESTAMP)"),
    (O.GT, (hour, a), f"`>` {LIKE}; here DURATION and INT", 1, "a * 1s"),
    (O.AND, (p, a, q), "`AND` takes truth values; here BOOLEAN, INT and BOOLEAN", 1, "CAST(a AS BOOLEAN)"),
    (O.NEGATE, (name,), "`-` takes a number or a duration; here VARCHAR(30)", 0, "CAST(name AS DOUBLE)"),
    (O.LENGTH, (a,), "`LENGTH` takes a string; here INT", 0, "CAST(a AS STRING)"),
    (O.YEAR, (hour,), "`YEAR` takes a time; here DURATION", 0, None),
    (O.CONCAT, (name, do(O.ADD, a, b)), "`CONCAT` takes strings; here VARCHAR(30) and INT", 1, "CAST(a + b AS STRING)"),
    (O.LEAST, (a, name), "`LEAST` takes values of like types; here INT and VARCHAR(30)", 1, "CAST(name AS INT)"),
    (O.ABS, (a, b), "`ABS` takes 1 operand; here 2", 1, None),
    (O.AND, (p,), "`AND` takes at least 2 operands; here 1", 0, None),
    (O.SUBSTRING, (name,), "`SUBSTRING` takes 2 or 3 operands; here 1", 0, None),
    (O.COALESCE, (), "`COALESCE` takes at least 1 operand; here 0", 0, None),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "operands", "message", "operand", "proposal"), PROBLEMS)
def test_problems_point_and_propose(operator, operands, message, operand, proposal):
    assert s.apply(operator, operands) == TypeProblem(message, operand, proposal)


def test_a_proposal_fits():
    for operator, operands, _, blamed, proposal in PROBLEMS:
        if proposal and proposal.startswith("CAST"):
            others = [operand.type for operand in operands]
            others[blamed] = next(kind for kind in (t.INT, t.DOUBLE, t.STRING, t.TIMESTAMP, t.BOOLEAN, t.String(30))
                                  if f"AS {kind})" in proposal)  # fmt: skip
            assert not isinstance(result_type(operator, others), TypeProblem)


def test_problems_of_casts_cases_and_literals():
    assert s.cast(Field("", "day", t.DATE), t.INT) == TypeProblem("there is no CAST from DATE to INT", 0)
    assert s.case(((a, b),)) == TypeProblem("WHEN takes a truth value; here INT", 0)
    assert s.case(((p, a), (q, name)), lit(1)) == TypeProblem(
        "the values of a CASE are of like types; here VARCHAR(30) beside INT", 3
    )
    assert s.literal(10**38) == TypeProblem("a number has at most 38 digits; here 39", 0)
    assert s.literal(Decimal("0." + "1" * 39)) == TypeProblem("a number has at most 38 digits; here 39", 0)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, t.NULL),
        (False, t.BOOLEAN),
        (2**31 - 1, t.INT),
        (2**31, t.BIGINT),
        (-(2**31), t.INT),
        (2**63 - 1, t.BIGINT),
        (2**63, t.Decimal(19, 0)),
        (10**38 - 1, t.Decimal(38, 0)),
        (Decimal("1.5"), t.Decimal(2, 1)),
        (Decimal(".50"), t.Decimal(2, 2)),
        (Decimal("0.05"), t.Decimal(2, 2)),
        (Decimal("10.0"), t.Decimal(3, 1)),
        (Decimal(0), t.Decimal(1, 0)),
        (1e3, t.DOUBLE),
        ("x", t.STRING),
    ],
)
def test_types_of_literals(value, kind):
    assert lit(value).type == kind


def test_the_words_of_the_language():
    assert {"ABS", "COALESCE", "CONCAT", "SECOND"} <= set(FUNCTIONS)
    assert not {"AND", "IN", "+", "unary -"} & set(FUNCTIONS)
    assert SYMBOLS["||"] is Operator.CONCAT
    assert SYMBOLS["-"] is Operator.SUBTRACT
    assert {FUNCTIONS.get(op.value) or SYMBOLS.get(op.value) for op in Operator} >= set(Operator) - {
        O.NEGATE,
        O.IS_NULL,
    }
