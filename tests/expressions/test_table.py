"""Every operator over every type it takes, with NULL, the extremes, zero and NaN, on every evaluator.

What it does not take is refused. The expected values come from `oracle`, the expected types from `type_oracle`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import product

import pytest

from augury import types as t
from augury.algebra import operators
from augury.algebra import scalar as s
from augury.algebra.operators import Operator, TypeProblem, result_type
from tests.expressions import type_oracle
from tests.expressions.evaluators import EVALUATORS, Evaluator, Table, same
from tests.expressions.oracle import Value, outcome
from tests.expressions.samples import BARE, DOUBLES, FRACTION, MONEY, PATTERNS, SAMPLES, SPELLINGS, TEXTS, TYPES, WHOLE

ONE_OF_EACH: list[t.Type] = [
    t.BOOLEAN,
    t.INT,
    t.BIGINT,
    MONEY,
    t.DOUBLE,
    t.STRING,
    t.TIMESTAMP,
    t.DATE,
    t.DURATION,
    t.NULL,
]

every_evaluator = pytest.mark.parametrize("evaluator", EVALUATORS, ids=lambda evaluator: evaluator.__name__)


def table_of(types: Sequence[t.Type], at_most: int = 20) -> tuple[list[s.Field], Table, int]:
    """A field per type, and every combination of their sample values."""
    fields = [s.Field("", f"x{i}", kind) for i, kind in enumerate(types)]
    rows = list(product(*(SAMPLES.get(kind, [None])[:at_most] for kind in types)))
    return fields, {field: [row[i] for row in rows] for i, field in enumerate(fields)}, len(rows)


def admitted(fields: Sequence[s.Field]) -> Iterator[s.Scalar]:
    for operator in Operator:
        expression = s.apply(operator, tuple(fields))
        if not isinstance(expression, TypeProblem):
            yield expression


def check(evaluator: Evaluator, expressions: Sequence[s.Scalar], table: Table, rows: int) -> None:
    found = evaluator(expressions, table, None, rows)
    wrong = []
    for expression, outcomes in zip(expressions, found, strict=True):
        for index, got in enumerate(outcomes):
            row = {leaf: values[index] for leaf, values in table.items()}
            expected = outcome(expression, row)
            if not same(got, expected):
                wrong.append(f"{s.dump(expression)} at {list(row.values())}: {got!r}, expected {expected!r}")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:20])


# ---- values ----------------------------------------------------------------------------------------


@every_evaluator
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_one_operand(evaluator, kind):
    fields, table, rows = table_of([kind])
    check(evaluator, list(admitted(fields)), table, rows)


@every_evaluator
@pytest.mark.parametrize("left", TYPES, ids=str)
def test_two_operands(evaluator, left):
    for right in TYPES:
        fields, table, rows = table_of([left, right])
        expressions = list(admitted(fields))
        if expressions:
            check(evaluator, expressions, table, rows)


@every_evaluator
@pytest.mark.parametrize("first", ONE_OF_EACH, ids=str)
def test_three_operands(evaluator, first):
    for others in product(ONE_OF_EACH, repeat=2):
        fields, table, rows = table_of([first, *others], at_most=4)
        expressions = list(admitted(fields))
        if expressions:
            check(evaluator, expressions, table, rows)


@every_evaluator
@pytest.mark.parametrize("source", TYPES, ids=str)
def test_casts(evaluator, source):
    (field,), table, rows = table_of([source])
    casts = [s.cast(field, target) for target in SAMPLES]
    check(evaluator, [cast for cast in casts if not isinstance(cast, TypeProblem)], table, rows)


@every_evaluator
@pytest.mark.parametrize("target", [kind for kind in SAMPLES if kind != t.DURATION], ids=str)
def test_casts_of_odd_texts_and_doubles(evaluator, target):
    for kind, values in ((t.STRING, SPELLINGS), (t.DOUBLE, [*DOUBLES, *(-x for x in DOUBLES)])):
        field = s.Field("", "x", kind)
        cast = s.cast(field, target)
        if not isinstance(cast, TypeProblem):
            check(evaluator, [cast], {field: values}, len(values))


def check_all(evaluator: Evaluator, operator: Operator | t.Type, *columns: tuple[t.Type, Sequence[Value]]) -> None:
    """An operator, or a cast to a type, over every combination of the given values."""
    fields = [s.Field("", f"x{i}", kind) for i, (kind, _) in enumerate(columns)]
    rows = list(product(*(values for _, values in columns)))
    built = s.apply(operator, tuple(fields)) if isinstance(operator, Operator) else s.cast(fields[0], operator)
    assert not isinstance(built, TypeProblem)
    check(evaluator, [built], {field: [row[i] for row in rows] for i, field in enumerate(fields)}, len(rows))


@every_evaluator
def test_substrings_of_all_positions(evaluator):
    texts = (t.STRING, ["", "a", "abc", "äß𝒜d", None])
    places = [*range(-5, 6), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), None]
    check_all(evaluator, Operator.SUBSTRING, texts, (t.BIGINT, places), (t.BIGINT, places))
    check_all(evaluator, Operator.SUBSTRING, texts, (t.BIGINT, places))


@every_evaluator
def test_patterns(evaluator):
    for operator in (Operator.LIKE, Operator.STARTSWITH, Operator.ENDSWITH, Operator.CONTAINS):
        check_all(evaluator, operator, (t.STRING, TEXTS), (t.STRING, PATTERNS))


@every_evaluator
def test_decimals_become_the_nearest_double(evaluator):
    chance = random.Random(20260101)
    for kind in (t.Decimal(17, 2), BARE, WHOLE, FRACTION, t.Decimal(20, 10)):
        largest = 10**kind.precision - 1
        unscaled = [chance.randint(-largest, largest) // 10 ** chance.randrange(kind.precision) for _ in range(300)]
        numbers = [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -kind.scale)) for n in unscaled]
        check_all(evaluator, t.DOUBLE, (kind, numbers))


@every_evaluator
def test_the_table_complains(evaluator):
    """The check itself can fail: an evaluator that is wrong in one row is found."""

    def wrong(expressions, table, now, rows):
        found = evaluator(expressions, table, now, rows)
        found[0][-1] = "nonsense"
        return found

    fields, table, rows = table_of([t.INT, t.INT])
    with pytest.raises(AssertionError, match="1 wrong"):
        check(wrong, list(admitted(fields)), table, rows)


@every_evaluator
def test_no_rows_are_no_trouble(evaluator):
    for types in [*product(ONE_OF_EACH), *product(ONE_OF_EACH, repeat=2), (t.STRING, t.INT, t.INT)]:
        fields = [s.Field("", f"x{i}", kind) for i, kind in enumerate(types)]
        expressions = list(admitted(fields))
        casts = (s.cast(fields[0], target) for target in SAMPLES)
        expressions += [cast for cast in casts if isinstance(cast, s.Cast)]
        assert evaluator(expressions, {field: [] for field in fields}, None, 0) == [[] for _ in expressions]


# ---- types -----------------------------------------------------------------------------------------


def check_types(operator: Operator, types: Sequence[t.Type]) -> None:
    found = result_type(operator, types)
    if t.NULL in types:
        # NULL fits every type: the operator takes it where it takes some type in its place.
        choices = [SAMPLES if kind == t.NULL else [kind] for kind in types]
        expected = any(type_oracle.given(operator, choice) is not None for choice in product(*choices))
        assert isinstance(found, TypeProblem) != expected, (operator, types, found)
    else:
        wanted = type_oracle.given(operator, types)
        assert found == wanted or (wanted is None and isinstance(found, TypeProblem)), (operator, types, found)
    if isinstance(found, TypeProblem):
        assert 0 <= found.operand <= len(types)
        assert f"`{operators.spelling(operator)}` takes " in found.message


@pytest.mark.parametrize("operator", Operator)
def test_what_an_operator_takes_and_gives(operator):
    for types in [*product(TYPES), *product(TYPES, repeat=2), *product(ONE_OF_EACH, repeat=3)]:
        check_types(operator, types)


def test_every_operator_is_taken_by_some_types():
    for operator in Operator:
        tries = [*product(TYPES), *product(TYPES, repeat=2), *product(ONE_OF_EACH, repeat=3)]
        assert any(not isinstance(result_type(operator, types), TypeProblem) for types in tries)


def test_which_casts_there_are():
    for source, target in product(SAMPLES, repeat=2):
        field = s.Field("", "x", source)
        assert isinstance(s.cast(field, target), s.Cast) == type_oracle.castable(source, target)
    assert all(isinstance(s.cast(s.Constant(None, t.NULL), target), s.Cast) for target in SAMPLES)
    assert all(isinstance(s.cast(s.Field("", "x", kind), t.NULL), TypeProblem) for kind in TYPES)


def test_decimal_types_of_all_shapes():
    shapes: list[t.Type] = [
        t.INT,
        t.BIGINT,
        MONEY,
        BARE,
        WHOLE,
        FRACTION,
        t.Decimal(1, 1),
        t.Decimal(20, 10),
        t.Decimal(38, 6),
    ]
    arithmetic = [Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.DIVIDE, Operator.MODULO]
    for operator, a, b in product([*arithmetic, Operator.COALESCE, Operator.LEAST], shapes, shapes):
        check_types(operator, [a, b])
