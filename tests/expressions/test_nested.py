"""Random nested expressions, well typed, on every evaluator against the oracle."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury import types as t
from augury.algebra import scalar as s
from augury.algebra.operators import Operator, TypeProblem, castable, result_type
from augury.algebra.scalar import TimingPrimitive
from tests.expressions.evaluators import EVALUATORS, same
from tests.expressions.oracle import MICROSECOND, Value, outcome
from tests.expressions.samples import MONEY, SAMPLES, SPELLINGS

ROWS = 5
DEPTH = 4
NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000)

LEAVES: list[s.Scalar] = [
    *(s.Field(scope, f"{str(kind).lower()}", kind) for scope in ("", "NEW") for kind in SAMPLES),
    s.Previous("amount", 2, MONEY),
    s.Timing(TimingPrimitive.LATE, 0, 86_400_000_000),
    s.Now(),
]

# Which operators give a type, and over which types of operands.
WAYS: dict[t.Type, dict[Operator, list[tuple[t.Type, ...]]]] = {}
THREE: list[t.Type] = [t.BOOLEAN, t.INT, MONEY, t.DOUBLE, t.STRING, t.TIMESTAMP]
for _types in [*product(SAMPLES), *product(SAMPLES, repeat=2), *product(THREE, repeat=3)]:
    for _operator in Operator:
        if not isinstance(_result := result_type(_operator, _types), TypeProblem):
            WAYS.setdefault(_result, {}).setdefault(_operator, []).append(_types)
OPERATORS = {operator: [kind for kind, ways in WAYS.items() if operator in ways] for operator in Operator}


def values(kind: t.Type) -> st.SearchStrategy[Value]:
    """Mostly the edges, sometimes anything."""
    edges = st.sampled_from(SAMPLES[kind])
    match kind:
        case t.Int():
            return edges | st.integers(-(2**31), 2**31 - 1) | st.integers(-9, 9)
        case t.BigInt():
            return edges | st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
        case t.Decimal(precision, scale):
            unscaled = st.integers(-(10**precision) + 1, 10**precision - 1) | st.integers(-9, 9)
            return edges | unscaled.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))
        case t.Double():
            return edges | st.floats()
        case t.String(length):
            text = st.sampled_from(SPELLINGS) | st.text(st.characters(max_codepoint=0x17F, exclude_categories=["Cs"]))
            return edges | text.map(lambda word: word[:length])
        case t.Timestamp():
            return edges | st.datetimes(datetime(1, 1, 1), datetime.max)
        case t.Date():
            return edges | st.dates()
        case t.Duration():
            return edges | st.integers(-(2**63), 2**63 - 1).map(lambda n: n * MICROSECOND)
        case _:
            return edges


@st.composite
def constants(draw: st.DrawFn, kind: t.Type) -> s.Scalar:
    value = draw(values(kind))
    if value is None and draw(st.booleans()):
        return s.Constant(None, t.NULL)
    if isinstance(value, datetime):
        return s.Constant((value - datetime(1970, 1, 1)) // MICROSECOND, kind)
    return s.Constant(value // MICROSECOND if kind == t.DURATION and value is not None else value, kind)


@st.composite
def leaf(draw: st.DrawFn, kind: t.Type) -> s.Scalar:
    known = [found for found in LEAVES if found.type == kind]
    return draw(st.sampled_from(known)) if draw(st.integers(0, 3)) else draw(constants(kind))


@st.composite
def typed(draw: st.DrawFn, kind: t.Type, depth: int) -> s.Scalar:
    """An expression of a sample type: a leaf, an operator that gives it, a CAST or a CASE."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(leaf(kind))
    shape = draw(st.sampled_from(["operator", "operator", "operator", "cast", "case"]))
    found: s.Scalar | TypeProblem
    if shape == "operator" and kind in WAYS:
        return draw(applied(draw(st.sampled_from(sorted(WAYS[kind]))), kind, depth))
    if shape == "case":
        count = draw(st.integers(1, 2))
        branches = [(draw(typed(t.BOOLEAN, depth - 1)), draw(typed(kind, depth - 1))) for _ in range(count)]
        found = s.case(tuple(branches), draw(typed(kind, depth - 1)) if draw(st.booleans()) else None)
    else:
        source = draw(st.sampled_from([source for source in SAMPLES if castable(source, kind)]))
        found = s.cast(draw(typed(source, depth - 1)), kind)
    assert not isinstance(found, TypeProblem)
    return found


@st.composite
def applied(draw: st.DrawFn, operator: Operator, kind: t.Type, depth: int) -> s.Scalar:
    types = draw(st.sampled_from(WAYS[kind][operator]))
    operands = [draw(typed(operand, depth - 1)) for operand in types]
    found = s.apply(operator, tuple(operands))
    if isinstance(found, TypeProblem) or found.type != kind:
        # A NULL literal fits other rules too: time - NULL is a duration. Then it needs its type.
        given = zip(operands, types, strict=True)
        found = s.apply(operator, tuple(s.Constant(None, k) if o.type == t.NULL else o for o, k in given))
    assert not isinstance(found, TypeProblem)
    return found


@st.composite
def expressions(draw: st.DrawFn) -> s.Scalar:
    """Any operator on top, whatever type it gives; sometimes cast to another."""
    operator = draw(st.sampled_from(Operator))
    found = draw(applied(operator, draw(st.sampled_from(OPERATORS[operator])), DEPTH))
    targets = [target for target in SAMPLES if castable(found.type, target)]
    if not targets or draw(st.booleans()):
        return found
    cast = s.cast(found, draw(st.sampled_from(targets)))
    assert not isinstance(cast, TypeProblem)
    return cast


@pytest.mark.parametrize("evaluator", EVALUATORS, ids=lambda evaluator: evaluator.__name__)
@settings(max_examples=120, deadline=None)
@given(expression=expressions(), data=st.data())
def test_nested_expressions(evaluator, expression, data):
    used = sorted(s.leaves(expression), key=s.dump)
    table = {leaf: data.draw(st.lists(values(leaf.type), min_size=ROWS, max_size=ROWS)) for leaf in used}
    (outcomes,) = evaluator([expression], table, NOW, ROWS)
    for index, got in enumerate(outcomes):
        row = {leaf: column[index] for leaf, column in table.items()}
        expected = outcome(expression, row, NOW)
        assert same(got, expected), (s.dump(expression), row)


@given(expression=expressions())
@settings(max_examples=30, deadline=None)
def test_walk_reaches_everything_and_dump_is_one_line(expression):
    nodes = list(s.walk(expression))
    assert nodes[0] is expression
    assert len(nodes) == 1 + sum(len(list(s.walk(child))) for child in s.children(expression))
    assert s.fields(expression) <= s.leaves(expression) <= set(nodes)
    # Line breaks stand in string constants only.
    texts = [str(node.value) for node in nodes if isinstance(node, s.Constant)]
    assert "\n" not in s.dump(expression) or any("\n" in text for text in texts)
