"""Hypothesis strategies for every node of `augury.language.syntax`, as the parser can make them.

What it cannot make is left out: an AND right inside an AND, a minus before a positive number, and the like.
Each family is a function of the depth it may still have.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from augury.clock import Moment
from augury.language import syntax as s
from augury.language.lexer import CONTEXTUAL, RESERVED
from augury.types import TYPE_NAMES

MATCH, COMPOSITE = s.MatchOperator, s.CompositeOperator
TYPE_WORDS = {name.casefold() for name in TYPE_NAMES}


def family(build: Callable[[int], SearchStrategy]) -> Callable[[int], SearchStrategy]:
    """Build the strategy of each depth once, and hide what is in it: Hypothesis names strategies by their parts."""
    built = cache(build)

    @st.composite
    def drawn(draw: st.DrawFn, depth: int) -> Any:
        return draw(built(depth))

    return cache(drawn)


# ---- words ---------------------------------------------------------------------------------------------

_ODD_NAMES = ["_", "__", "with", "Order", "id", "ſet", "ﬁrst", "ß", "été", "x y", "`", "a``b", "1a", "--", "a'b", "*/"]
plain_names = st.sampled_from(["A", "B", "C1", "x", "y_2", "amount", "NEW", "occTime", "é", "名前"]).map(s.Ident)
names = (
    plain_names
    | plain_names
    | st.sampled_from([*_ODD_NAMES, *sorted(CONTEXTUAL), "off", "Class"]).map(s.Ident)
    | st.sampled_from(sorted(RESERVED | {word.lower() for word in RESERVED})).map(s.Ident)
    | st.text("aé_1 `'-∧¬\r\t\u2028", min_size=1, max_size=4).map(s.Ident)
)
texts = st.sampled_from(["", "smith", "it's", "''", "0 9 * * 1-5", "a\nb", "-- no comment", "`", "é∧", "\\"]) | st.text(
    "ab'\n-;\\", max_size=4
)
durations = st.builds(s.DurationLiteral, st.integers(0, 3_000_000), st.sampled_from("dhms"))
whole_numbers = st.integers(0, 12) | st.integers(0, 10**80 - 1)
types = st.builds(
    s.TypeRef,
    st.sampled_from(["INT", "int", "VARCHAR", "NUMERIC", "String", "objectX", "DATE"]).map(s.Ident) | names,
    st.lists(st.integers(0, 40), max_size=2).map(tuple),
)
lifespans = durations | st.just(s.Forever())


def several(items: SearchStrategy, least: int = 1, most: int = 3) -> SearchStrategy:
    """A tuple of items."""
    return st.lists(items, min_size=least, max_size=most).map(tuple)


def decimals() -> SearchStrategy[Decimal]:
    """Decimals as they are written: digits, a point, perhaps more digits."""
    digits = st.text("0123456789", max_size=38)
    written = st.builds(lambda sign, whole, part: f"{sign}{whole}.{part}", st.sampled_from(["", "-"]), digits, digits)
    return written.filter(lambda text: text.strip("-") != ".").map(Decimal)


# ---- scalars -------------------------------------------------------------------------------------------

numbers = (
    st.integers(-3, 3)
    | st.integers(-(10**80) + 1, 10**80 - 1)
    | decimals()
    | st.sampled_from([0.0, -0.0, 1.5, 1e300, -1e-7, 1e16, 1e22])
    | st.floats(allow_nan=False, allow_infinity=False)
)
constants = (numbers | st.booleans() | texts).map(s.Literal) | st.builds(s.TypedLiteral, names, texts)
_COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
_ARITHMETIC = ["+", "-", "||", "*", "/", "%"]


def _can_be_negated(operand: s.Scalar) -> bool:
    """A minus before a number is part of the number."""
    match operand:
        case s.Literal(value=int() | float() | Decimal()) if not isinstance(operand.value, bool):
            return str(operand.value).startswith("-")
        case _:
            return True


def _logical(word: str, inner: SearchStrategy[s.Scalar]) -> SearchStrategy[s.Logical]:
    operands = inner.filter(lambda e: not (isinstance(e, s.Logical) and e.operator == word))
    return st.builds(s.Logical, st.just(word), several(operands, 2))


@family
def scalars(depth: int) -> SearchStrategy[s.Scalar]:
    leaves = st.one_of(
        st.builds(s.Name, st.none() | names, names),
        constants,
        st.just(s.Literal(None)),
        durations,
        st.just(s.Now()),
        st.builds(s.Call, names, st.just(()), st.booleans()),
    )
    if depth == 0:
        return leaves
    inner = scalars(depth - 1)
    return st.one_of(
        leaves,
        st.builds(s.Unary, st.just("NOT"), inner),
        st.builds(s.Unary, st.just("-"), inner.filter(_can_be_negated)),
        st.builds(s.Binary, st.sampled_from(_COMPARISONS), inner, inner),
        st.builds(s.Binary, st.sampled_from(_ARITHMETIC), inner, inner),
        st.builds(s.Binary, st.sampled_from(_ARITHMETIC), inner, inner),
        _logical("AND", inner),
        _logical("OR", inner),
        st.builds(s.IsNull, inner, st.booleans()),
        st.builds(s.InList, inner, several(inner), st.booleans()),
        st.builds(s.Between, inner, inner, inner, st.booleans()),
        st.builds(s.Like, inner, inner, st.booleans()),
        calls(depth),
        st.builds(s.Cast, inner, types),
        st.builds(s.Case, several(st.tuples(inner, inner), 1, 2), st.none() | inner),
    )  # fmt: skip


def calls(depth: int) -> SearchStrategy[s.Call]:
    with_arguments = st.builds(s.Call, names, several(scalars(depth - 1), 0))
    return with_arguments | st.builds(s.Call, names, st.just(()), st.just(True))


# ---- MATCH ---------------------------------------------------------------------------------------------


def events(arguments: SearchStrategy) -> SearchStrategy[s.EventRef]:
    return st.builds(s.EventRef, names, st.none() | several(arguments, 0), st.none() | scalars(1))


def _flat(operator: s.MatchOperator, inner: SearchStrategy[s.MatchExpression]) -> SearchStrategy[s.MatchApply]:
    operands = inner.filter(lambda e: not (isinstance(e, s.MatchApply) and e.operator is operator))
    return st.builds(s.MatchApply, st.just(operator), several(operands, 2))


@family
def match_expressions(depth: int) -> SearchStrategy[s.MatchExpression]:
    words = st.sampled_from([MATCH.NULL, MATCH.ANY, MATCH.FIRST, MATCH.START])
    arguments = st.just(s.Wildcard()) | constants
    leaves = events(arguments) | st.builds(s.EventRef, names) | st.builds(s.MatchApply, words, st.just(()))
    if depth == 0:
        return leaves
    inner = match_expressions(depth - 1)
    of_one = st.sampled_from([MATCH.NOT, MATCH.RELATIVE_PLUS, MATCH.BEFORE, MATCH.HAPPENED, MATCH.PREFIX])
    of_two = st.sampled_from([MATCH.PIPE, MATCH.AFTER_FIRST, MATCH.BETWEEN_EACH, MATCH.SERIES, MATCH.RELATIVE])
    of_many = st.sampled_from([MATCH.PRIOR, MATCH.SEQUENCE])
    return st.one_of(
        leaves,
        events(arguments | inner),
        st.builds(s.MatchApply, of_one, st.tuples(inner)),
        st.builds(s.MatchApply, of_two, st.tuples(inner, inner)),
        st.builds(s.MatchApply, of_two, st.tuples(inner, inner)),
        st.builds(s.MatchApply, st.just(MATCH.FIRST_AFTER), st.tuples(inner, inner, inner)),
        st.builds(s.MatchApply, of_many, several(inner)),
        _flat(MATCH.AND, inner),
        _flat(MATCH.OR, inner),
        st.builds(s.Nth, whole_numbers, st.booleans(), inner),
        st.builds(s.Equate, inner, names),
        st.builds(s.Exists, names, inner),
        st.builds(s.Exists, names, inner),
    )  # fmt: skip


# ---- COMPOSITE -----------------------------------------------------------------------------------------

moments = st.datetimes().map(lambda t: Moment(t.year, t.month, t.day, t.hour, t.minute, t.second)) | st.dates().map(
    lambda d: Moment(d.year, d.month, d.day, whole_day=True)
)


def _is_or(node: s.CompositeExpression) -> bool:
    return isinstance(node, s.CompositeApply) and node.operator is COMPOSITE.OR


@family
def composites(depth: int) -> SearchStrategy[s.CompositeExpression]:
    leaves = events(st.just(s.Wildcard()) | constants | match_expressions(1)) | st.builds(s.EventRef, names)
    if depth == 0:
        return leaves
    inner = composites(depth - 1)
    of_two = st.sampled_from([COMPOSITE.SEQUENCE, COMPOSITE.AND])
    return st.one_of(
        leaves,
        st.builds(s.CompositeApply, of_two, st.tuples(inner, inner)),
        st.builds(s.CompositeApply, of_two, st.tuples(inner, inner)),
        st.builds(
            lambda first, others: s.CompositeApply(COMPOSITE.OR, (first, *others)),
            inner.filter(lambda e: not _is_or(e)), several(inner),
        ),
        st.builds(s.CompositeApply, st.just(COMPOSITE.NOT), st.tuples(inner)),
        st.builds(s.AnyOf, whole_numbers, several(inner)),
        st.builds(lambda at, operand: s.TimeBound("AT", at, at, operand), moments, inner),
        st.builds(s.TimeBound, st.just("BY"), st.none(), moments, inner),
        st.builds(s.TimeBound, st.just("BETWEEN"), moments, moments, inner),
        st.builds(s.NotBetween, inner, inner, inner),
        st.builds(s.Repeat, inner, whole_numbers, st.booleans()),
        st.builds(s.Repeat, inner, st.just(0), st.just(True)),
        st.builds(s.Plus, inner, durations),
        st.builds(s.Scoped, inner, durations, st.none() | scalars(1)),
        st.builds(s.Scoped, inner, st.none(), scalars(1)),
        st.builds(s.Aperiodic, inner, inner, inner, st.booleans()),
        st.builds(s.Periodic, inner, durations, inner, st.booleans()),
    )  # fmt: skip


# ---- statements ----------------------------------------------------------------------------------------

DEPTH = 2
conditions = scalars(DEPTH)
returned = st.builds(s.Returned, conditions, names)
collects = st.builds(s.Collect, names) | st.builds(
    s.Collect, st.none(), several(st.builds(s.Returned, calls(DEPTH), names))
)
clauses = st.builds(
    s.Clauses,
    over=st.none() | several(names, 0),
    partition_by=several(names, 0),
    order_by=st.none() | st.builds(s.OrderByOccurrence, st.none() | durations),
    where=st.none() | conditions,
    within=st.none() | durations,
    collect=st.none() | collects,
    context=st.none() | names,
    returned=several(returned, 0),
)
attributes = several(st.builds(s.Attribute, names, types), 0)
keys = several(names, 0)
actions = st.builds(s.ActionCall, names, several(scalars(1), 0), st.booleans())
ons = several(st.builds(s.OnStatement, conditions, several(actions, 1, 2)), 0, 2)
sqls = st.sampled_from(
    [
        "SELECT a FROM b",
        "select shop, COUNT(*) AS n\n     FROM Stock GROUP BY shop",
        "WITH t AS (SELECT 1 AS occurring) SELECT * FROM t",
        "SELECT ';' , \"OCCURRING\", 'it''s', 'a\\'b' FROM `x;y` /* OCCURRING ; */",
        "SELECT a FROM b -- a comment; it's OCCURRING",
        "SELECT a -- one\n  FROM b -- two  ",
        "SELECT '--' FROM b",
    ]
)


def _reads_as_name_and_type(parameter: s.Attribute) -> bool:
    """`date objectX` is a parameter objectX of type date."""
    type_ref = parameter.type
    return parameter.name.key not in TYPE_WORDS or type_ref.name.key in TYPE_WORDS or bool(type_ref.parameters)


parameters = several(st.builds(s.Attribute, names, types).filter(_reads_as_name_and_type), 0)


@family
def structures(depth: int) -> SearchStrategy[s.RuleStructure]:
    rules = st.builds(s.RuleCall, names, several(scalars(1), 0, 2))
    if depth == 0:
        return rules
    inner = structures(depth - 1)
    return rules | st.builds(s.OneAfterTheOther, several(inner, 2)) | st.builds(s.SideBySide, several(inner, 2))


composite_sources = st.builds(s.CompositeSource, composites(DEPTH), clauses)
sources = (
    st.builds(s.SelectSource, sqls, conditions)
    | st.builds(s.MatchSource, match_expressions(DEPTH), clauses)
    | composite_sources
)
texts_literal = texts.map(s.Literal)
settings_values = (st.booleans() | whole_numbers | texts).map(s.Literal) | durations
action_lists = several(actions, 1, 2)
keywords = names.map(lambda word: s.Ident(word.text.upper()))
triggers = st.builds(
    s.Trigger, names, parameters, several(names, 0), st.none() | composite_sources, structures(DEPTH),
    st.none() | keywords, st.none() | st.builds(s.Returns, types, names),
)  # fmt: skip
environment = texts.map(s.FromEnvironment)
texts_or_environment = texts_literal | environment
option_values = (numbers | st.booleans() | texts).map(s.Literal) | durations | environment
options = several(st.builds(s.Option, names, option_values), 0)
detect_clauses = st.builds(
    s.DetectClauses,
    every=st.none() | durations,
    items=st.none() | texts_literal,
    fields=several(st.builds(s.FieldPath, names, texts_literal), 0),
    next_page=st.none() | texts_literal,
    forward=st.none() | keywords,
    withdraw=st.none() | keywords,
    options=options,
)
statements: SearchStrategy[s.Statement] = st.one_of(
    st.builds(s.SubscribedClass, names, st.booleans(), attributes, keys, lifespans, ons),
    st.builds(s.ComplexClass, names, attributes, keys, st.none() | lifespans, sources, ons),
    st.builds(s.ComplexClass, names, attributes, keys, st.none() | lifespans, sources, ons),
    st.builds(s.ClockClass, names, texts_literal, st.none() | texts_literal, st.none(), st.none() | lifespans, ons),
    st.builds(s.ClockClass, names, st.none(), st.none(), durations, st.none() | lifespans, ons),
    st.builds(s.SetStatement, several(names.map(lambda word: s.Ident(word.text.upper())), 1, 2), settings_values),
    st.builds(s.Definition, names, several(names, 0), match_expressions(DEPTH)),
    st.builds(s.SourceStatement, names, several(st.builds(s.ColumnMapping, names, names))),
    st.builds(s.Rule, names, parameters, st.none() | conditions, action_lists, st.just(()) | action_lists),
    st.builds(s.Rule, names, parameters, st.none() | conditions, st.just(()), action_lists),
    st.builds(s.RuleGroup, names, keys),
    triggers.filter(lambda trigger: trigger.events or trigger.composite),
    st.builds(s.Binding, several(names), keywords, several(texts_or_environment, 0), st.none(), options),
    st.builds(s.Binding, several(names), st.just(s.Ident("EVENT")), st.just(()), names, options),
    st.builds(s.Detection, names, st.none() | names, keywords, texts_or_environment, detect_clauses),
)
programs = st.builds(s.Program, several(statements, 0, 2))
