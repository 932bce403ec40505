"""Errors count only where they were looked at; NULL, errors and truth otherwise."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from augury import types as t
from augury.algebra import scalar as s
from augury.algebra.operators import Operator
from augury.algebra.scalar import Reason
from augury.diagnostics import Span
from augury.kernels.columns import arrow_type, evaluate, holds
from tests.expressions.evaluators import EVALUATORS
from tests.expressions.oracle import Failed, outcome

every_evaluator = pytest.mark.parametrize("evaluator", EVALUATORS, ids=lambda evaluator: evaluator.__name__)


def built(operator: Operator, *operands: s.Scalar) -> s.Scalar:
    found = s.apply(operator, operands)
    assert isinstance(found, s.Apply), found
    return found


def number(value: int) -> s.Scalar:
    found = s.literal(value)
    assert isinstance(found, s.Constant)
    return found


def cased(*branches: tuple[s.Scalar, s.Scalar], default: s.Scalar | None = None) -> s.Scalar:
    found = s.case(branches, default)
    assert isinstance(found, s.Case)
    return found


TRUE, FALSE = s.Constant(True, t.BOOLEAN), s.Constant(False, t.BOOLEAN)
NULL = s.Constant(None, t.BOOLEAN)
BY_ZERO = built(Operator.EQ, built(Operator.DIVIDE, number(1), number(0)), number(1))
TOO_LARGE = built(Operator.EQ, built(Operator.ADD, number(2**31 - 1), number(1)), number(1))
# Beside it a number has no digit before the point: 1 cannot be promoted.
ALL_FRACTION = s.Constant(Decimal("0.5"), t.Decimal(38, 38))
ZERO, LARGE = Failed(Reason.DIVISION_BY_ZERO), Failed(Reason.OVERFLOW)

AND, OR, NOT, IF = Operator.AND, Operator.OR, Operator.NOT, Operator.IF
COALESCE, IN, EQ = Operator.COALESCE, Operator.IN, Operator.EQ

CASES = [
    (built(AND, FALSE, BY_ZERO), False),
    (built(AND, TRUE, BY_ZERO), ZERO),
    (built(AND, NULL, BY_ZERO), ZERO),
    (built(AND, BY_ZERO, FALSE), ZERO),
    (built(AND, BY_ZERO, TOO_LARGE), ZERO),
    (built(AND, TOO_LARGE, BY_ZERO), LARGE),
    (built(AND, NULL, FALSE, BY_ZERO), False),
    (built(AND, NULL, TRUE, BY_ZERO), ZERO),
    (built(AND, NULL, TRUE), None),
    (built(OR, TRUE, BY_ZERO), True),
    (built(OR, FALSE, BY_ZERO), ZERO),
    (built(OR, NULL, BY_ZERO), ZERO),
    (built(OR, BY_ZERO, TRUE), ZERO),
    (built(OR, NULL, TRUE, BY_ZERO), True),
    (built(OR, built(AND, FALSE, BY_ZERO), TRUE), True),
    (built(NOT, BY_ZERO), ZERO),
    (built(NOT, built(AND, FALSE, BY_ZERO)), True),
    (built(COALESCE, TRUE, BY_ZERO), True),
    (built(COALESCE, NULL, BY_ZERO), ZERO),
    (built(COALESCE, BY_ZERO, TRUE), ZERO),
    (built(COALESCE, NULL, FALSE, BY_ZERO), False),
    (built(IF, TRUE, FALSE, BY_ZERO), False),
    (built(IF, TRUE, BY_ZERO, FALSE), ZERO),
    (built(IF, FALSE, BY_ZERO, TRUE), True),
    (built(IF, NULL, BY_ZERO, TRUE), True),
    (built(IF, BY_ZERO, TRUE, TRUE), ZERO),
    (cased((FALSE, BY_ZERO), (TRUE, TRUE), (BY_ZERO, BY_ZERO), default=BY_ZERO), True),
    (cased((NULL, BY_ZERO), default=FALSE), False),
    (cased((BY_ZERO, TRUE), (TRUE, TOO_LARGE)), ZERO),
    (cased((FALSE, TRUE), (TOO_LARGE, TRUE)), LARGE),
    (cased((FALSE, TRUE)), None),
    (built(IN, number(1), number(1), built(Operator.DIVIDE, number(1), number(0))), True),
    (built(IN, number(2), number(1), built(Operator.DIVIDE, number(1), number(0))), ZERO),
    (built(IN, number(2), number(1), number(3)), False),
    (built(IN, number(2), number(1), s.Constant(None, t.INT)), None),
    (built(IN, number(1), number(1), s.Constant(None, t.INT)), True),
    (built(IN, s.Constant(None, t.INT), number(1)), None),
    (built(EQ, NULL, BY_ZERO), ZERO),
    (built(EQ, BY_ZERO, TOO_LARGE), ZERO),
    (built(EQ, TOO_LARGE, BY_ZERO), LARGE),
    (built(Operator.IS_NULL, BY_ZERO), ZERO),
    (built(Operator.NULLIF, TRUE, BY_ZERO), ZERO),
    (built(Operator.GREATEST, NULL, TRUE, BY_ZERO), ZERO),
    (built(Operator.GREATEST, number(1), ALL_FRACTION), LARGE),
    (built(Operator.GREATEST, number(1), built(IF, BY_ZERO, ALL_FRACTION, ALL_FRACTION)), ZERO),
    (built(COALESCE, ALL_FRACTION, number(1)), Decimal("0.5")),
    (built(COALESCE, s.Constant(None, t.INT), number(1), ALL_FRACTION), LARGE),
    (built(Operator.DIVIDE, s.Constant(None, t.INT), number(0)), None),
]


@every_evaluator
@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[s.dump(expression) for expression, _ in CASES])
def test_an_error_counts_where_it_was_looked_at(evaluator, expression, expected):
    assert outcome(expression, {}) == expected
    assert evaluator([expression], {}, None, 2) == [[expected, expected]]


def test_neighbours_of_an_error_go_on():
    divisor = s.Field("", "divisor", t.INT)
    ratio = built(Operator.DIVIDE, number(10), divisor)
    large = built(Operator.GT, ratio, number(3))
    guarded = built(AND, built(Operator.NE, divisor, number(0)), large)
    columns: dict[s.Leaf, pa.Array] = {divisor: pa.array([2, 0, None, 5], pa.int32())}
    bare = evaluate(large, columns, None, 4)
    assert bare.values.to_pylist() == [True, None, None, False]
    assert bare.errors.to_pylist() == [None, Reason.DIVISION_BY_ZERO, None, None]
    assert holds(bare).tolist() == [True, False, False, False]
    assert evaluate(guarded, columns, None, 4).errors.null_count == 4


def test_null_does_not_hold():
    assert holds(evaluate(s.Constant(None, t.NULL), {}, None, 2)).tolist() == [False, False]


def test_a_column_is_found_wherever_the_leaf_was_written():
    leaf = s.Field("NEW", "x", t.INT, Span(3, 8))
    columns: dict[s.Leaf, pa.Array] = {s.Field("NEW", "x", t.INT): pa.array([1], pa.int32())}
    assert evaluate(leaf, columns, None, 1).values.to_pylist() == [1]


def test_now_is_the_tick_or_a_tick_per_row():
    ticks = pa.array([1, 2], pa.int64()).view(arrow_type(t.TIMESTAMP))
    later = built(Operator.GT, s.Now(), s.Constant(1, t.TIMESTAMP))
    assert evaluate(later, {}, 2, 2).values.to_pylist() == [True, True]
    assert evaluate(later, {}, ticks, 2).values.to_pylist() == [False, True]


def test_a_column_of_the_wrong_shape_is_our_mistake():
    leaf = s.Field("", "x", t.INT)
    with pytest.raises(AssertionError, match="no storage of INT"):
        evaluate(leaf, {leaf: pa.array([1], pa.int64())}, None, 1)
    with pytest.raises(AssertionError, match="1 rows, not 2"):
        evaluate(leaf, {leaf: pa.array([1], pa.int32())}, None, 2)
    with pytest.raises(AssertionError, match="NOW needs the tick"):
        evaluate(s.Now(), {}, None, 1)
