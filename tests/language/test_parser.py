"""What texts mean, against trees built by hand: precedence, every statement, names, times, literals."""

from __future__ import annotations

import logging
from decimal import Decimal
from itertools import combinations

import lark
import pytest
from lark import Lark

from augury.clock import Moment
from augury.diagnostics import Findings
from augury.language import parser
from augury.language import syntax as s
from augury.language.builder import Callbacks
from augury.language.lexer import CONTEXTUAL, RESERVED
from augury.language.parser import parse, parse_composite, parse_match, parse_scalar
from augury.language.statements import Builder
from augury.language.syntax import CompositeOperator as C
from augury.language.syntax import Ident, Literal, Name, TypeRef
from augury.language.syntax import MatchOperator as M


def read(parse_part, text):
    findings = Findings()
    node = parse_part(text, findings)
    assert findings.sorted() == ()
    return node


def statement(text):
    (found,) = read(parse, text).program.statements
    return found


def codes(text):
    findings = Findings()
    parse(text, findings)
    return [diagnostic.code for diagnostic in findings.sorted()]


# ---- short spellings for trees ---------------------------------------------------------------------------

A, B, C1, D = (s.EventRef(Ident(letter)) for letter in "ABCD")
a, b, c = (Name(None, Ident(letter)) for letter in "abc")


def ids(*words):
    return tuple(Ident(word) for word in words)


def m(operator, *operands):
    return s.MatchApply(operator, operands)


def k(operator, *operands):
    return s.CompositeApply(operator, operands)


def op(operator, left, right):
    return s.Binary(operator, left, right)


def minutes(count):
    return s.DurationLiteral(count, "m")


# ---- MATCH -------------------------------------------------------------------------------------------------

LOOSEST_FIRST = [
    ("|", lambda left, right: m(M.PIPE, left, right)),
    ("/", lambda left, right: m(M.AFTER_FIRST, left, right)),
    ("OR", lambda left, right: m(M.OR, left, right)),
    ("AND", lambda left, right: m(M.AND, left, right)),
    ("*", lambda left, right: m(M.SERIES, left, right)),
]


@pytest.mark.parametrize(("loose", "tight"), list(combinations(LOOSEST_FIRST, 2)), ids=lambda operator: operator[0])
def test_precedence_of_match_operators(loose, tight):
    (weak, make_weak), (strong, make_strong) = loose, tight
    assert read(parse_match, f"A {weak} B {strong} C") == make_weak(A, make_strong(B, C1))
    assert read(parse_match, f"A {strong} B {weak} C") == make_weak(make_strong(A, B), C1)
    assert read(parse_match, f"(A {weak} B) {strong} C") == make_strong(make_weak(A, B), C1)


@pytest.mark.parametrize(("word", "make"), LOOSEST_FIRST, ids=lambda x: x if isinstance(x, str) else "")
def test_infix_operators_of_match_associate_to_the_left(word, make):
    tree = read(parse_match, f"A {word} B {word} C")
    assert tree == (m(M[word], A, B, C1) if word in ("AND", "OR") else make(make(A, B), C1))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("A / B /+ C", m(M.BETWEEN_EACH, m(M.AFTER_FIRST, A, B), C1)),
        ("A /+ B / C", m(M.AFTER_FIRST, m(M.BETWEEN_EACH, A, B), C1)),
        ("A / (B / C)", m(M.AFTER_FIRST, A, m(M.AFTER_FIRST, B, C1))),
        ("A AND (B AND C)", m(M.AND, A, B, C1)),
        ("A OR (B OR C) OR D", m(M.OR, A, B, C1, D)),
        # `=` binds tighter than the infix operators and looser than the prefix ones
        ("A * B = x", m(M.SERIES, A, s.Equate(B, Ident("x")))),
        ("!A = x", s.Equate(m(M.NOT, A), Ident("x"))),
        ("!(A = x)", m(M.NOT, s.Equate(A, Ident("x")))),
        ("<3> A = x", s.Equate(s.Nth(3, False, A), Ident("x"))),
        ("A = x = y", s.Equate(s.Equate(A, Ident("x")), Ident("y"))),
        # prefix operators
        ("!A AND B", m(M.AND, m(M.NOT, A), B)),
        ("!!A", m(M.NOT, m(M.NOT, A))),
        ("<3> !A * B", m(M.SERIES, s.Nth(3, False, m(M.NOT, A)), B)),
        ("EVERY <2> <3> A", s.Nth(2, True, s.Nth(3, False, A))),
        # EXISTS reaches as far right as it can
        ("EXISTS x A | B", s.Exists(Ident("x"), m(M.PIPE, A, B))),
        ("A AND EXISTS x B OR C", m(M.AND, A, s.Exists(Ident("x"), m(M.OR, B, C1)))),
        ("A AND (EXISTS x B) OR C", m(M.OR, m(M.AND, A, s.Exists(Ident("x"), B)), C1)),
        ("!EXISTS x A = y", m(M.NOT, s.Exists(Ident("x"), s.Equate(A, Ident("y"))))),
        ("(EXISTS x A) = y", s.Equate(s.Exists(Ident("x"), A), Ident("y"))),
        ("EXISTS x EXISTS y A", s.Exists(Ident("x"), s.Exists(Ident("y"), A))),
        ("prior(EXISTS x A, B)", m(M.PRIOR, s.Exists(Ident("x"), A), B)),
        ("<2> EXISTS x A / B", s.Nth(2, False, s.Exists(Ident("x"), m(M.AFTER_FIRST, A, B)))),
        # words
        ("NULL", m(M.NULL)),
        ("any", m(M.ANY)),
        ("first", m(M.FIRST)),
        ("start", m(M.START)),
        ("relative(A, B)", m(M.RELATIVE, A, B)),
        ("relative+(A)", m(M.RELATIVE_PLUS, A)),
        ("relative + (A)", m(M.RELATIVE_PLUS, A)),
        ("rel+(A)", m(M.RELATIVE_PLUS, A)),
        ("prior(A, B, C)", m(M.PRIOR, A, B, C1)),
        ("sequence(A)", m(M.SEQUENCE, A)),
        ("seq(A, B)", m(M.SEQUENCE, A, B)),
        ("firstAfter(A, B, C)", m(M.FIRST_AFTER, A, B, C1)),
        ("before(A)", m(M.BEFORE, A)),
        ("happened(A)", m(M.HAPPENED, A)),
        ("prefix(A)", m(M.PREFIX, A)),
        # classes
        ("A()", s.EventRef(Ident("A"), ())),
        ("A(_)", s.EventRef(Ident("A"), (s.Wildcard(),))),
        ("A(`_`)", s.EventRef(Ident("A"), (s.EventRef(Ident("_")),))),
        ("A[a > 1]", s.EventRef(Ident("A"), None, op(">", a, Literal(1)))),
        ("A(B)[a]", s.EventRef(Ident("A"), (B,), a)),
        (
            "A(1, -2.50, 'it''s', TRUE, DATE '2026-01-01')",
            s.EventRef(
                Ident("A"),
                (
                    Literal(1),
                    Literal(Decimal("-2.50")),
                    Literal("it's"),
                    Literal(True),
                    s.TypedLiteral(Ident("DATE"), "2026-01-01"),
                ),
            ),
        ),
        ("A(NULL, B OR C)", s.EventRef(Ident("A"), (m(M.NULL), m(M.OR, B, C1)))),
    ],
)  # fmt: skip
def test_match_expressions(text, tree):
    assert read(parse_match, text) == tree


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("A ^ B", "A AND B"),
        ("A ∧ B", "A AND B"),
        ("A & B", "A AND B"),
        ("A and B", "A AND B"),
        ("A ∨ B", "A OR B"),
        ("¬A", "!A"),
        ("NOT A", "!A"),
        ("∃x A", "EXISTS x A"),
        ("∃x∃y A ∧ ¬B", "EXISTS x EXISTS y A AND !B"),
        ("A == x", "A = x"),
        ("PRIOR(A, B)", "prior(A, B)"),
        ("FIRSTAFTER(A, B, C)", "firstAfter(A, B, C)"),
        ("((A))", "A"),
        ("A -- a comment\n AND B", "A AND B"),
    ],
)
def test_other_spellings_in_match(text, plain):
    assert read(parse_match, text) == read(parse_match, plain)


# ---- COMPOSITE ---------------------------------------------------------------------------------------------

EVENING = Moment(1999, 6, 6, 21, 20, 0)
NIGHT = Moment(1999, 6, 10, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        # `>`, then `|`, then `&`, then the rest
        ("A > B | C", k(C.SEQUENCE, A, k(C.OR, B, C1))),
        ("A | B > C", k(C.SEQUENCE, k(C.OR, A, B), C1)),
        ("A | B & C", k(C.OR, A, k(C.AND, B, C1))),
        ("A & B | C", k(C.OR, k(C.AND, A, B), C1)),
        ("A > B & C", k(C.SEQUENCE, A, k(C.AND, B, C1))),
        ("(A > B) & C", k(C.AND, k(C.SEQUENCE, A, B), C1)),
        # to the left; only `|` is flat
        ("A > B > C", k(C.SEQUENCE, k(C.SEQUENCE, A, B), C1)),
        ("A > (B > C)", k(C.SEQUENCE, A, k(C.SEQUENCE, B, C1))),
        ("A & B & C", k(C.AND, k(C.AND, A, B), C1)),
        ("A | B | C", k(C.OR, A, B, C1)),
        # factors
        ("A > !B > C", k(C.SEQUENCE, k(C.SEQUENCE, A, k(C.NOT, B)), C1)),
        ("A & !B", k(C.AND, A, k(C.NOT, B))),
        ("!(A > B)", k(C.NOT, k(C.SEQUENCE, A, B))),
        ("ANY{2, A, B, C}", s.AnyOf(2, (A, B, C1))),
        ("ANY (1, A, (B > C))", s.AnyOf(1, (A, k(C.SEQUENCE, B, C1)))),
        ("ANY{1, A{2}, B*}", s.AnyOf(1, (s.Repeat(A, 2, False), s.Repeat(B, 0, True)))),
        ("AT [1999 06 06 21 20 0] A & B", k(C.AND, s.TimeBound("AT", EVENING, EVENING, A), B)),
        ("BY [1999 06 10 0 0 0] (A > B)", s.TimeBound("BY", None, NIGHT, k(C.SEQUENCE, A, B))),
        ("BETWEEN [1999 06 06 21 20 0] [1999 06 10 0 0 0] A", s.TimeBound("BETWEEN", EVENING, NIGHT, A)),
        ("NOT(B)[A, C]", s.NotBetween(B, A, C1)),
        ("!(B)[A, C]", s.NotBetween(B, A, C1)),
        ("NOT(A | B)[A, A + 5m]", s.NotBetween(k(C.OR, A, B), A, s.Plus(A, minutes(5)))),
        ("NOT (B) & A", k(C.AND, k(C.NOT, B), A)),
        # behind a primary
        ("A{3}", s.Repeat(A, 3, False)),
        ("A{3,}", s.Repeat(A, 3, True)),
        ("A*", s.Repeat(A, 0, True)),
        ("A{0,}", s.Repeat(A, 0, True)),
        ("A + 5m", s.Plus(A, minutes(5))),
        ("(A > B){2} + 1m + 2m", s.Plus(s.Plus(s.Repeat(k(C.SEQUENCE, A, B), 2, False), minutes(1)), minutes(2))),
        # primaries
        ("(A > B WITHIN 5m)", s.Scoped(k(C.SEQUENCE, A, B), minutes(5), None)),
        ("(A WHERE a = b)", s.Scoped(A, None, op("=", a, b))),
        ("(A WITHIN 5m WHERE a)", s.Scoped(A, minutes(5), a)),
        ("APERIODIC(A, B > C, D)", s.Aperiodic(A, k(C.SEQUENCE, B, C1), D, False)),
        ("APERIODIC*(A, B, C)", s.Aperiodic(A, B, C1, True)),
        ("PERIODIC(A, [5m], B)", s.Periodic(A, minutes(5), B, False)),
        ("PERIODIC*(A, [5m], B)", s.Periodic(A, minutes(5), B, True)),
        ("A(B, _)[a]", s.EventRef(Ident("A"), (B, s.Wildcard()), a)),
    ],
)  # fmt: skip
def test_composite_expressions(text, tree):
    assert read(parse_composite, text) == tree


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("A SEQ B", "A > B"),
        ("A SEQUENCE B", "A > B"),
        ("A OR B", "A | B"),
        ("A ∨ B", "A | B"),
        ("A AND B", "A & B"),
        ("A ∧ NOT B", "A & !B"),
        ("any{1, A}", "ANY{1, A}"),
        ("(A)", "A"),
    ],
)
def test_other_spellings_in_composite(text, plain):
    assert read(parse_composite, text) == read(parse_composite, plain)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("1999 06 07 9 20 0", Moment(1999, 6, 7, 9, 20, 0)),
        ("06 07 1999 9 20 0", Moment(1999, 6, 7, 9, 20, 0)),
        ("06-07-1999", Moment(1999, 6, 7, whole_day=True)),
        ("1999-06-07", Moment(1999, 6, 7, whole_day=True)),
        ("1999-06-07T09:20:00Z", Moment(1999, 6, 7, 9, 20, 0)),
        ("1999-06-07T09:20:00", Moment(1999, 6, 7, 9, 20, 0)),
        ("1999-06-07T09:20:00+02:00", Moment(1999, 6, 7, 7, 20, 0)),
        (" 0001-01-01 ", Moment(1, 1, 1, whole_day=True)),
    ],
)
def test_times(written, moment):
    assert read(parse_composite, f"BY [{written}] A") == s.TimeBound("BY", None, moment, A)


# ---- scalars -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a OR b AND c", s.Logical("OR", (a, s.Logical("AND", (b, c))))),
        ("a AND (b AND c)", s.Logical("AND", (a, b, c))),
        ("NOT a AND b", s.Logical("AND", (s.Unary("NOT", a), b))),
        ("NOT a = b", s.Unary("NOT", op("=", a, b))),
        ("a + b = c", op("=", op("+", a, b), c)),
        ("a - b - c", op("-", op("-", a, b), c)),
        ("a - (b - c)", op("-", a, op("-", b, c))),
        ("a + b * c", op("+", a, op("*", b, c))),
        ("a || b % c", op("||", a, op("%", b, c))),
        ("a /+ b", op("/", a, b)),
        ("-a * b", op("*", s.Unary("-", a), b)),
        ("a - -1", op("-", a, Literal(-1))),
        ("- -1", s.Unary("-", Literal(-1))),
        ("+a", a),
        ("a != b", op("<>", a, b)),
        ("a == b", op("=", a, b)),
        ("a BETWEEN b AND c AND a", s.Logical("AND", (s.Between(a, b, c, False), a))),
        ("a NOT BETWEEN b AND c", s.Between(a, b, c, True)),
        ("a IS NULL", s.IsNull(a, False)),
        ("a IS NOT NULL", s.IsNull(a, True)),
        ("a IN (b, 1)", s.InList(a, (b, Literal(1)), False)),
        ("a NOT IN (b)", s.InList(a, (b,), True)),
        ("a LIKE 'x%'", s.Like(a, Literal("x%"), False)),
        ("a NOT LIKE b", s.Like(a, b, True)),
        ("NEW.a", Name(Ident("NEW"), Ident("a"))),
        ("`NEW`.`order by`", Name(Ident("NEW"), Ident("order by"))),
        ("NOW - 5d", op("-", s.Now(), s.DurationLiteral(5, "d"))),
        ("f()", s.Call(Ident("f"), ())),
        ("COUNT(*)", s.Call(Ident("COUNT"), (), True)),
        ("LATE(5h, 1D)", s.Call(Ident("LATE"), (s.DurationLiteral(5, "h"), s.DurationLiteral(1, "d")))),
        ("CAST(a AS NUMERIC(10, 2))", s.Cast(a, TypeRef(Ident("NUMERIC"), (10, 2)))),
        ("CASE WHEN a THEN b END", s.Case(((a, b),), None)),
        ("case when a then b when b then c else a end", s.Case(((a, b), (b, c)), a)),
        ("TIMESTAMP '2026-01-01'", s.TypedLiteral(Ident("TIMESTAMP"), "2026-01-01")),
        ("TRUE", Literal(True)),
        ("null", Literal(None)),
        ("'it''s'", Literal("it's")),
        ("'two\nlines'", Literal("two\nlines")),
    ],
)
def test_scalar_expressions(text, tree):
    assert read(parse_scalar, text) == tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("007", 7),
        ("-0", 0),
        ("1.50", Decimal("1.50")),
        ("1.", Decimal("1")),
        (".5", Decimal("0.5")),
        ("-.5", Decimal("-0.5")),
        ("1e3", 1000.0),
        ("1.5E-3", 0.0015),
        ("9" * 80, 10**80 - 1),
        ("-" + "1234567890" * 5 + ".5", Decimal("-" + "1234567890" * 5 + ".5")),
        ("." + "1" * 79, Decimal("." + "1" * 79)),
        ("0." + "1" * 79, Decimal("." + "1" * 79)),
    ],
)
def test_numbers_are_exact(text, value):
    assert read(parse_scalar, text) == Literal(value)


@pytest.mark.parametrize("text", ["9" * 81, "1e999", "." + "1" * 80])
def test_a_number_that_is_too_long_is_refused(text):
    assert codes(f"RULE r () CONDITION a = {text} ACTION f();") == ["E110"]


# ---- statements --------------------------------------------------------------------------------------------

X = Ident("X")
WHOLE_CLAUSES = s.Clauses(
    over=ids("A", "B"),
    partition_by=ids("a", "b"),
    order_by=s.OrderByOccurrence(s.DurationLiteral(1, "h")),
    where=op(">", a, b),
    within=minutes(5),
    collect=s.Collect(Ident("ALL")),
    context=Ident("RECENT"),
    returned=(s.Returned(a, Ident("n")), s.Returned(op("+", a, b), Ident("o"))),
)
AGGREGATES = (
    s.Returned(s.Call(Ident("MAX"), (Name(None, Ident("q")),)), Ident("top")),
    s.Returned(s.Call(Ident("COUNT"), (), True), Ident("n")),
)


def attribute(name, type_name, *parameters):
    return s.Attribute(Ident(name), TypeRef(Ident(type_name), parameters))


def call(name, *arguments, post=False):
    return s.ActionCall(Ident(name), arguments, post)


def complex_class(source, *ons):
    return s.ComplexClass(X, (), (), None, source, ons)


STATEMENTS = [
    (
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS X (a INT, b VARCHAR(30)) ID (a, b) LIFESPAN (5d);",
        s.SubscribedClass(
            X, False, (attribute("a", "INT"), attribute("b", "VARCHAR", 30)), ids("a", "b"), s.DurationLiteral(5, "d")
        ),
    ),
    (
        "create mutable subscribed event class X () id () lifespan (-1)"
        " on CHANGE and a > b do f('x', NEW.a), g(), on LATE do h();",
        s.SubscribedClass(
            X, True, (), (), s.Forever(),
            (
                s.OnStatement(
                    s.Logical("AND", (Name(None, Ident("CHANGE")), op(">", a, b))),
                    (call("f", Literal("x"), Name(Ident("NEW"), Ident("a"))), call("g")),
                ),
                s.OnStatement(Name(None, Ident("LATE")), (call("h"),)),
            ),
        ),
    ),
    (
        "CREATE COMPLEX EVENT CLASS X () ID () AS SELECT a\n FROM b -- no; OCCURRING here\n OCCURRING AT a + 5m"
        " ON ONTIME DO f();",
        complex_class(
            s.SelectSource("SELECT a\n FROM b -- no; OCCURRING here", op("+", a, minutes(5))),
            s.OnStatement(Name(None, Ident("ONTIME")), (call("f"),)),
        ),
    ),
    (
        "CREATE COMPLEX EVENT CLASS X () ID () AS with t AS (SELECT ';' AS occurring) SELECT * FROM t OCCURRING AT a;",
        complex_class(s.SelectSource("with t AS (SELECT ';' AS occurring) SELECT * FROM t", a)),
    ),
    (
        "CREATE COMPLEX EVENT CLASS X () ID () LIFESPAN (5m) AS MATCH A;",
        s.ComplexClass(X, (), (), minutes(5), s.MatchSource(A)),
    ),
    (
        "CREATE COMPLEX EVENT CLASS X () ID () AS MATCH A OVER (A, B) PARTITION BY a, b ORDER BY OCCURRENCE ALLOWING 1h"
        " WHERE a > b WITHIN 5m COLLECT ALL CONTEXT RECENT RETURN a AS n, a + b AS o;",
        complex_class(s.MatchSource(A, WHOLE_CLAUSES)),
    ),
    (
        "CREATE COMPLEX EVENT CLASS X () ID () AS MATCH A OVER () ORDER BY OCCURRENCE"
        " COLLECT MAX(q) AS top, COUNT(*) AS n;",
        complex_class(
            s.MatchSource(A, s.Clauses(over=(), order_by=s.OrderByOccurrence(), collect=s.Collect(None, AGGREGATES)))
        ),
    ),
    (
        "CREATE COMPLEX EVENT CLASS X () ID () AS COMPOSITE A > B CONTEXT CHRONICLE;",
        complex_class(s.CompositeSource(k(C.SEQUENCE, A, B), s.Clauses(context=Ident("CHRONICLE")))),
    ),
    ("CREATE CLOCK EVENT CLASS X AT '0 9 * * 1-5';", s.ClockClass(X, Literal("0 9 * * 1-5"), None, None)),
    (
        "CREATE CLOCK EVENT CLASS X AT '0 9' ZONE 'Europe/Vienna' LIFESPAN (-1) ON FUTURE DO f();",
        s.ClockClass(
            X, Literal("0 9"), Literal("Europe/Vienna"), None, s.Forever(),
            (s.OnStatement(Name(None, Ident("FUTURE")), (call("f"),)),),
        ),
    ),
    ("CREATE CLOCK EVENT CLASS X EVERY 5m;", s.ClockClass(X, None, None, minutes(5))),
    ("SET CHRONON 15m;", s.SetStatement(ids("CHRONON"), minutes(15))),
    ("SET ARCHIVE ON;", s.SetStatement(ids("ARCHIVE"), Literal(True))),
    ("SET ARCHIVE OFF;", s.SetStatement(ids("ARCHIVE"), Literal(False))),
    ("SET ARCHIVE false;", s.SetStatement(ids("ARCHIVE"), Literal(False))),
    ("SET HISTORY RETAIN 30d;", s.SetStatement(ids("HISTORY", "RETAIN"), s.DurationLiteral(30, "d"))),
    ("SET DEPTH 5;", s.SetStatement(ids("DEPTH"), Literal(5))),
    ("set a 'b';", s.SetStatement(ids("A"), Literal("b"))),
    ("SET OFF OFF OFF;", s.SetStatement(ids("OFF", "OFF"), Literal(False))),
    ("DEFINE X = A AND B;", s.Definition(X, (), m(M.AND, A, B))),
    ("DEFINE X() = A;", s.Definition(X, (), A)),
    (
        "DEFINE X(I, E) = prior(I, E);",
        s.Definition(X, ids("I", "E"), m(M.PRIOR, s.EventRef(Ident("I")), s.EventRef(Ident("E")))),
    ),
    (
        "SOURCE Order FROM COLUMNS (acct AS account, ts AS occ_time, `a b` AS `with`);",
        s.SourceStatement(
            Ident("Order"),
            (
                s.ColumnMapping(*ids("acct", "account")),
                s.ColumnMapping(*ids("ts", "occ_time")),
                s.ColumnMapping(*ids("a b", "with")),
            ),
        ),
    ),
    (
        "RULE X (a INT) CONDITION a > b ACTION f(a), POST G(a, b) ALTERNATIVEACTION h();",
        s.Rule(
            X, (attribute("a", "INT"),), op(">", a, b), (call("f", a), call("G", a, b, post=True)), (call("h"),)
        ),
    ),
    ("RULE X () ACTION f();", s.Rule(X, (), None, (call("f"),), ())),
    ("RULE X () ALTERNATIVEACTION f();", s.Rule(X, (), None, (), (call("f"),))),
    ("RULE GROUP X (R1, R2);", s.RuleGroup(X, ids("R1", "R2"))),
    ("RULE Group () ACTION f();", s.Rule(Ident("Group"), (), None, (call("f"),), ())),
    (
        "TRIGGER X (int v1, v2 STRING) TRIGGEREVENT A OR B COMPOSITEEVENT A > B CONTEXT CHRONICLE"
        " RULESTRUC R1(a) > ((R2 > R3, R4()), R5) ON FAILURE continue RETURNS int : R1;",
        s.Trigger(
            X,
            (attribute("v1", "int"), attribute("v2", "STRING")),
            ids("A", "B"),
            s.CompositeSource(k(C.SEQUENCE, A, B), s.Clauses(context=Ident("CHRONICLE"))),
            s.OneAfterTheOther(
                (
                    s.RuleCall(Ident("R1"), (a,)),
                    s.SideBySide(
                        (
                            s.SideBySide(
                                (
                                    s.OneAfterTheOther((s.RuleCall(Ident("R2")), s.RuleCall(Ident("R3")))),
                                    s.RuleCall(Ident("R4")),
                                )
                            ),
                            s.RuleCall(Ident("R5")),
                        )
                    ),
                )
            ),
            Ident("CONTINUE"),
            s.Returns(TypeRef(Ident("int")), Ident("R1")),
        ),
    ),
    (
        "TRIGGER X () COMPOSITEEVENT A RULESTRUC R1 > R2, R3;",
        s.Trigger(
            X, (), (), s.CompositeSource(A),
            s.SideBySide(
                (s.OneAfterTheOther((s.RuleCall(Ident("R1")), s.RuleCall(Ident("R2")))), s.RuleCall(Ident("R3")))
            ),
            None,
            None,
        ),
    ),
    ("BIND f TO LOG;", s.Binding(ids("f"), Ident("LOG"), ())),
    ("bind f, g to log with (Level = 3);", s.Binding(
        ids("f", "g"), Ident("LOG"), (), None, (s.Option(Ident("Level"), Literal(3)),)
    )),
    ("BIND f TO COMMAND 'a' ENV 'B' 'it''s';", s.Binding(
        ids("f"), Ident("COMMAND"), (Literal("a"), s.FromEnvironment("B"), Literal("it's"))
    )),
    ("BIND f TO EVENT A WITH (x = -1.5, y = 10s, z = TRUE, u = 'v', e = ENV 'E');", s.Binding(
        ids("f"), Ident("EVENT"), (), Ident("A"),
        (
            s.Option(Ident("x"), Literal(Decimal("-1.5"))),
            s.Option(Ident("y"), s.DurationLiteral(10, "s")),
            s.Option(Ident("z"), Literal(True)),
            s.Option(Ident("u"), Literal("v")),
            s.Option(Ident("e"), s.FromEnvironment("E")),
        ),
    )),
    ("BIND f TO `event` 'A';", s.Binding(ids("f"), Ident("EVENT"), (Literal("A"),))),
    ("DETECT A FROM FILE 'a.jsonl';", s.Detection(Ident("A"), None, Ident("FILE"), Literal("a.jsonl"))),
    (
        "detect A as x from http env 'U' every 5m items '$.a' fields (a = 'b', occ_time = 'c') next 'n'"
        " forward changed withdraw vanished with (pages = 3);",
        s.Detection(
            Ident("A"), Ident("x"), Ident("HTTP"), s.FromEnvironment("U"),
            s.DetectClauses(
                minutes(5), Literal("$.a"),
                (s.FieldPath(Ident("a"), Literal("b")), s.FieldPath(Ident("occ_time"), Literal("c"))),
                Literal("n"), Ident("CHANGED"), Ident("VANISHED"), (s.Option(Ident("pages"), Literal(3)),),
            ),
        ),
    ),
    (
        "BIND to, bind, env TO EVENT with WITH (with = ENV 'env');",
        s.Binding(
            ids("to", "bind", "env"), Ident("EVENT"), (), Ident("with"),
            (s.Option(Ident("with"), s.FromEnvironment("env")),),
        ),
    ),
    (
        "DETECT from AS fields FROM NATS 'a' FIELDS (fields = 'b') FORWARD with WITHDRAW forward WITH (next = 1);",
        s.Detection(
            Ident("from"), Ident("fields"), Ident("NATS"), Literal("a"),
            s.DetectClauses(
                fields=(s.FieldPath(Ident("fields"), Literal("b")),), forward=Ident("WITH"), withdraw=Ident("FORWARD"),
                options=(s.Option(Ident("next"), Literal(1)),),
            ),
        ),
    ),
]  # fmt: skip


STATEMENT_IDS = [f"{i} {text[:30]}" for i, (text, _) in enumerate(STATEMENTS)]


@pytest.mark.parametrize(("text", "tree"), STATEMENTS, ids=STATEMENT_IDS)
def test_statements(text, tree):
    assert statement(text) == tree


@pytest.mark.parametrize(
    ("written", "name", "type_name", "parameters"),
    [
        ("amount INT", "amount", "INT", ()),
        ("INT amount", "amount", "INT", ()),
        ("amount NUMERIC(10, 2)", "amount", "NUMERIC", (10, 2)),
        ("NUMERIC(10, 2) amount", "amount", "NUMERIC", (10, 2)),
        ("date DATE", "date", "DATE", ()),  # both are types: the name comes first
        ("x objectX", "x", "objectX", ()),  # neither is
        ("objectX(3) date", "date", "objectX", (3,)),
    ],
)
def test_parameters_name_first_or_type_first(written, name, type_name, parameters):
    rule = statement(f"RULE r ({written}) ACTION f();")
    assert rule.parameters == (attribute(name, type_name, *parameters),)


@pytest.mark.parametrize("word", sorted(CONTEXTUAL))
def test_a_word_that_is_a_keyword_in_one_place_only_is_a_name_elsewhere(word):
    found = statement(
        f"CREATE COMPLEX EVENT CLASS {word} ({word} INT) ID ({word})"
        f" AS MATCH EXISTS {word} {word}({word})[{word} = {word}.{word}] = {word}"
        f" PARTITION BY {word} WHERE {word}({word}) ON {word} DO {word}({word});"
    )
    name = Ident(word)
    assert (found.name, found.attributes, found.key) == (name, (attribute(word, "INT"),), (name,))
    event = s.EventRef(name, (s.EventRef(name),), op("=", Name(None, name), Name(name, name)))
    assert found.source.expression == s.Exists(name, s.Equate(event, name))
    assert found.statements[0].actions == (call(word, Name(None, name)),)
    assert statement(f"DEFINE {word}({word}) = {word};").parameters == (name,)
    assert statement(f"SOURCE {word} FROM COLUMNS ({word} AS a);").columns[0].foreign == name
    assert statement(f"RULE {word} ({word} INT) ACTION {word}();").name == name
    assert statement(f"RULE GROUP {word} ({word});").rules == (name,)
    assert statement(f"SET {word} {word} 5;").words == (name, name)
    assert statement(f"BIND {word}, {word} TO EVENT {word} WITH ({word} = 1);").event_class == name
    assert statement(f"DETECT {word} AS `{word}` FROM FILE 'x' FIELDS ({word} = 'y');").detector == name


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_a_reserved_word_is_a_name_between_backquotes_only(word):
    assert statement(f"DEFINE `{word}` = `{word}`;").name == Ident(word)
    assert codes(f"DEFINE {word} = A;")
    assert codes(f"DEFINE {word.lower()} = A;")


# ---- the grammar itself ------------------------------------------------------------------------------------


def test_every_rule_of_the_grammar_has_a_method():
    grammar, _ = parser._lark()
    inlined = {rule.origin.name for rule in grammar.rules if rule.options.expand1}
    called = {rule.alias or rule.origin.name for rule in grammar.rules}
    needed = {name for name in called - inlined if not name.startswith("_")} - {"statement"}
    assert {name for name in needed if not hasattr(Builder(), name)} == set()
    assert hasattr(Callbacks(Builder()), "match_call")
    with pytest.raises(AttributeError):
        _ = Callbacks(Builder()).no_such_rule


def trees_below(value):
    if isinstance(value, lark.Tree | lark.Token):
        return [value]
    if isinstance(value, tuple):
        return [found for item in value for found in trees_below(item)]
    slots = getattr(value, "__dataclass_fields__", {})
    return [found for field in slots for found in trees_below(getattr(value, field))]


@pytest.mark.parametrize("text", [text for text, _ in STATEMENTS], ids=STATEMENT_IDS)
def test_nothing_of_the_parser_generator_comes_out(text):
    assert trees_below(statement(text)) == []


def test_the_grammar_leaves_nothing_to_the_parser_generator(caplog, monkeypatch):
    """It would resolve a conflict by shifting, silently: `SET ARCHIVE OFF` was once two words without a value."""
    monkeypatch.setattr(parser, "Lark", lambda grammar, **options: Lark(grammar, debug=True, **options))
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        lark.logger.addHandler(caplog.handler)
        parser._lark.__wrapped__()
        lark.logger.removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records if "conflict" in record.getMessage()] == []


def test_a_long_list_of_operands_is_not_deep_and_one_in_brackets_is():
    assert len(read(parse_match, " AND ".join(["A"] * 3000)).operands) == 3000
    assert len(read(parse_scalar, " OR ".join(["a"] * 3000)).operands) == 3000
    assert len(read(parse_composite, " | ".join(["A"] * 3000)).operands) == 3000
    for text, part in (("A | B | (", "match"), ("A | B | (", "composite"), ("a AND b AND (c OR d OR (", "scalar")):
        findings = Findings()
        closing = text.count("(") * 100 * ")"
        assert getattr(parser, f"parse_{part}")(text * 100 + "a" + closing, findings) is None
        assert [diagnostic.code for diagnostic in findings.sorted()] == ["E401"]
