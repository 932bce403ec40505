"""The table test of scalar expressions over DuckDB: the text of each is put into a SELECT and run in process.

A SELECT fails as a whole, so the rows that are to fail are run one by one, and the rest together. What is to differ is
listed: Spark SQL has types of its own for decimals, and leaves VARCHAR(n) as long as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from augury import types as t
from augury.algebra import scalar as s
from augury.algebra.operators import Operator, TypeProblem
from augury.api import compile
from augury.duck.select import SelectFailed, Translated, Untranslatable, evaluated
from augury.event import EventClass
from tests.bitemporal.queries import START, plan_of
from tests.expressions.evaluators import from_arrow, same, to_arrow
from tests.expressions.oracle import Failed, Value, outcome
from tests.expressions.samples import MONEY, SAMPLES

TYPES: list[t.Type] = [t.BOOLEAN, t.INT, t.BIGINT, MONEY, t.DOUBLE, t.STRING, t.TIMESTAMP, t.DATE]
FAILING_AT_MOST = 3
EXACT = {Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.DIVIDE, Operator.MODULO}

# Spark and the expression language differ here on purpose; docs/expressions.md and docs/select.md say how.
OTHERWISE = {
    Operator.UPPER: "letters that become several",
    Operator.LOWER: "letters that become several",
    Operator.LIKE: "a pattern from a column",
}

REFUSED = {("SUBSTRING(x0, x1)", t.BIGINT)}


def expressions_over(fields: Sequence[s.Field]) -> Iterator[s.Scalar]:
    for operator in Operator:
        found = s.apply(operator, tuple(fields))
        if isinstance(found, TypeProblem) or operator in OTHERWISE or isinstance(found.type, t.Duration | t.Null):
            continue
        if operator in EXACT and isinstance(found.type, t.Decimal):
            continue
        yield found


def translated_as(expression: s.Scalar, fields: Sequence[s.Field]) -> tuple[Translated, EventClass] | None:
    declared = ", ".join(["n INT", *(f"{field.name} {field.type}" for field in fields)])
    text = f"""CREATE MUTABLE SUBSCRIBED EVENT CLASS Row ({declared}) ID (n) LIFESPAN (1d);
    CREATE COMPLEX EVENT CLASS X (n INT, y {expression.type}) ID (n) LIFESPAN (1d)
      AS SELECT n, {s.dump(expression)} AS y FROM Row OCCURRING AT occTime;"""
    program = compile(text)
    try:
        return plan_of(program)[2], program.classes[0].event_class
    except Untranslatable:
        if (s.dump(expression), fields[-1].type) not in REFUSED:
            raise
        return None


def run(made: Translated, fields: Sequence[s.Field], rows: Sequence[tuple[int, tuple[Value, ...]]]) -> dict[int, Any]:
    columns = [pa.array([n for n, _ in rows], pa.int32())]
    columns += [to_arrow([values[i] for _, values in rows], field.type) for i, field in enumerate(fields)]
    times = pa.array([START] * len(rows), pa.timestamp("us", tz="UTC"))
    names = ["n", *(field.name for field in fields), "occ_time", "det_time"]
    found = evaluated(made, {"Row": pa.table([*columns, times, times], names=names)}, 0).attributes
    values = from_arrow(found.column("y").combine_chunks()) if len(rows) else []
    return dict(zip(found.column("n").to_pylist(), values, strict=True))


def differences(expression: s.Scalar, fields: Sequence[s.Field], at_most: int) -> list[str] | None:
    """What is wrong with an expression over all combinations of values; None where it is refused."""
    translation = translated_as(expression, fields)
    if translation is None:
        return None
    made, _ = translation
    rows = list(enumerate(product(*(SAMPLES[field.type][:at_most] for field in fields))))
    wanted = {n: outcome(expression, dict(zip(fields, values, strict=True))) for n, values in rows}
    fine = [row for row in rows if not isinstance(wanted[row[0]], Failed)]
    wrong = []
    try:
        found = run(made, fields, fine)
        wrong += [f"{values}: {found[n]!r}, not {wanted[n]!r}" for n, values in fine if not same(found[n], wanted[n])]
    except SelectFailed as failure:
        wrong.append(f"fails: {failure}")
    for row in [row for row in rows if isinstance(wanted[row[0]], Failed)][:FAILING_AT_MOST]:
        with suppress(SelectFailed):
            wrong.append(f"{row[1]}: {run(made, fields, [row])}, no failure")
    return [f"{s.dump(expression)} of {', '.join(str(f.type) for f in fields)} at {line}" for line in wrong]


def check(fields: Sequence[s.Field], expressions: Iterator[s.Scalar], at_most: int) -> None:
    found = [differences(expression, fields, at_most) for expression in expressions]
    wrong = [line for lines in found if lines for line in lines[:3]]
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:30])


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_one_operand(kind):
    fields = [s.Field("", "x0", kind)]
    check(fields, expressions_over(fields), 30)


@pytest.mark.parametrize("left", TYPES, ids=str)
def test_two_operands(left):
    for right in TYPES:
        fields = [s.Field("", "x0", left), s.Field("", "x1", right)]
        check(fields, expressions_over(fields), 12)


@pytest.mark.parametrize("source", TYPES, ids=str)
def test_casts(source):
    field = s.Field("", "x0", source)
    casts = [s.cast(field, target) for target in TYPES]
    check([field], (cast for cast in casts if not isinstance(cast, TypeProblem)), 30)
