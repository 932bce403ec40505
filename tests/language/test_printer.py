"""The canonical form: spellings, parentheses, quoting, and how statements are laid out."""

from __future__ import annotations

from decimal import Decimal
from textwrap import dedent

import pytest

from augury import limits
from augury.diagnostics import Findings
from augury.language import syntax as s
from augury.language.layout import COLUMNS, Break, Remarks, group, lay_out, listed
from augury.language.parser import parse, parse_composite, parse_match, parse_scalar
from augury.language.printer import print_composite, print_match, print_program, print_scalar, print_statement


def read(parse_part, text):
    findings = Findings()
    node = parse_part(text, findings)
    assert findings.sorted() == ()
    return node


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("A and(B)", "A AND B"),
        ("A ^ B ∨ C", "A AND B OR C"),
        ("(A OR B) AND C", "(A OR B) AND C"),
        ("A OR (B AND C)", "A OR B AND C"),
        ("A AND (B AND C)", "A AND B AND C"),
        ("(A | B) | C", "A | B | C"),
        ("A | (B | C)", "A | (B | C)"),
        ("(A /+ B) / C", "A /+ B / C"),
        ("A /+ (B / C)", "A /+ (B / C)"),
        ("(A / B) | (C / D)", "A / B | C / D"),
        ("A * (B * C)", "A * (B * C)"),
        ("(A * B) * C", "A * B * C"),
        ("NOT(A)", "!A"),
        ("!(A AND B)", "!(A AND B)"),
        ("! (<3>A)", "!<3> A"),
        ("(!A) = x", "!A = x"),
        ("!(A = x)", "!(A = x)"),
        ("(A = x) = y", "A = x = y"),
        ("every< 3 >(A=x)", "EVERY <3> (A = x)"),
        ("REL + (A)", "relative+(A)"),
        ("SEQ(A, PRIOR(B), FirstAfter(A, B, C))", "sequence(A, prior(B), firstAfter(A, B, C))"),
        ("ANY and FIRST and START and null", "any AND first AND start AND NULL"),
        # EXISTS reaches as far right as it can
        ("∃x (A AND B)", "EXISTS x A AND B"),
        ("(∃x A) AND B", "(EXISTS x A) AND B"),
        ("A AND (∃x B)", "A AND EXISTS x B"),
        ("A AND (∃x B) AND C", "A AND (EXISTS x B) AND C"),
        ("A | B AND (∃x C)", "A | B AND EXISTS x C"),
        ("(A AND ∃x B) | C", "A AND (EXISTS x B) | C"),
        ("(A | ∃x B) * C", "(A | EXISTS x B) * C"),
        ("!(∃x A) AND B", "!(EXISTS x A) AND B"),
        ("!(∃x A)", "!EXISTS x A"),
        ("<2>(∃x A) = y", "<2> (EXISTS x A) = y"),
        ("prior((∃x A), (B))", "prior(EXISTS x A, B)"),
        # classes
        ("A ( x ,_, - 1, 'it''s' )[a>1]", "A(x, _, -1, 'it''s')[a > 1]"),
        ("A()", "A()"),
        ("A(date '2026-01-01', NULL, x = y)", "A(date '2026-01-01', NULL, x = y)"),
    ],
)
def test_match(text, printed):
    assert print_match(read(parse_match, text)) == printed
    assert read(parse_match, printed) == read(parse_match, text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("A SEQ B", "A > B"),
        ("(A > B) > C", "A > B > C"),
        ("A > (B > C)", "A > (B > C)"),
        ("A and (B and C)", "A & (B & C)"),
        ("(A or B) or C", "A | B | C"),
        ("A or (B or C)", "A | (B | C)"),
        ("A > (B | (C & D))", "A > B | C & D"),
        ("((A > B) | C) & D", "((A > B) | C) & D"),
        ("not A", "!A"),
        ("!(A{3})", "!(A{3})"),
        ("!(!A)", "!(!A)"),
        ("any (2, A, (B), (C > D), (!A), A{2})", "ANY{2, A, B, (C > D), (!A), A{2}}"),
        ("at [06 06 1999 9 20 0] A", "AT [1999-06-06T09:20:00Z] A"),
        ("by [06-10-1999] (A & B)", "BY [1999-06-10] (A & B)"),
        ("between [1999 6 6 9 20 0] [1999-06-10] (A)", "BETWEEN [1999-06-06T09:20:00Z] [1999-06-10] A"),
        ("AT [1999-06-06] (A + 5m)", "AT [1999-06-06] (A + 5m)"),
        ("!(B) [A, C]", "NOT(B)[A, C]"),
        ("NOT(A > B)[A > B, (C)]", "NOT(A > B)[A > B, C]"),
        ("A { 3 }", "A{3}"),
        ("A{3,}", "A{3,}"),
        ("A{0,}", "A*"),
        ("A{0}", "A{0}"),
        ("(A | B)* + 5M", "(A | B)* + 5m"),
        ("(A > B within 5m where A.x=B.x)", "(A > B WITHIN 5m WHERE A.x = B.x)"),
        ("(A WITHIN 5m) > (B WHERE a)", "(A WITHIN 5m) > (B WHERE a)"),
        ("aperiodic*(A, B, C) | APERIODIC(A, B > C, D)", "APERIODIC*(A, B, C) | APERIODIC(A, B > C, D)"),
        ("PERIODIC (A, [5m], B) > periodic * (A, [1h], B)", "PERIODIC(A, [5m], B) > PERIODIC*(A, [1h], B)"),
    ],
)
def test_composite(text, printed):
    assert print_composite(read(parse_composite, text)) == printed
    assert read(parse_composite, printed) == read(parse_composite, text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a and (b or c)", "a AND (b OR c)"),
        ("(a and b) or c", "a AND b OR c"),
        ("not (a and b)", "NOT (a AND b)"),
        ("not (a = b)", "NOT a = b"),
        ("(not a) = b", "(NOT a) = b"),
        ("(a = b) = c", "(a = b) = c"),
        ("a=b", "a = b"),
        ("a!=b", "a <> b"),
        ("(a - b) - c", "a - b - c"),
        ("a - (b - c)", "a - (b - c)"),
        ("a * (b + c) / d", "a * (b + c) / d"),
        ("a || (b || c)", "a || (b || c)"),
        ("-(a + b)", "-(a + b)"),
        ("- - a", "- -a"),
        ("a - - 1", "a - -1"),
        ("-(-1)", "- -1"),
        ("+1", "1"),
        ("(-a) * b", "-a * b"),
        ("a is not null", "a IS NOT NULL"),
        ("(a is null) is null", "(a IS NULL) IS NULL"),
        ("a not in(1,2)", "a NOT IN (1, 2)"),
        ("a between b and (c) and d", "a BETWEEN b AND c AND d"),
        ("a not between (b and c) and d", "a NOT BETWEEN (b AND c) AND d"),
        ("a like 'x%'", "a LIKE 'x%'"),
        ("count( * )", "count(*)"),
        ("f( a,b )", "f(a, b)"),
        ("cast(a as numeric(10,2))", "CAST(a AS numeric(10, 2))"),
        ("case when a then b else c end", "CASE WHEN a THEN b ELSE c END"),
        ("now-5D", "NOW - 5d"),
        ("true or false or null", "TRUE OR FALSE OR NULL"),
    ],
)
def test_scalar(text, printed):
    assert print_scalar(read(parse_scalar, text)) == printed
    assert read(parse_scalar, printed) == read(parse_scalar, text)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (1, "1"),
        (-1, "-1"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1"), "1."),
        (Decimal("0.0000001"), "0.0000001"),
        (1.0, "1.0e0"),
        (-0.5, "-0.5e0"),
        (1e22, "1e+22"),
        (1e-7, "1e-07"),
        ("it's", "'it''s'"),
        (True, "TRUE"),
        (None, "NULL"),
    ],
)
def test_literals(value, printed):
    assert print_scalar(s.Literal(value)) == printed
    assert read(parse_scalar, printed) == s.Literal(value)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("amount", "amount"),
        ("Order", "Order"),
        ("名前", "名前"),
        ("order by", "`order by`"),
        ("Any", "`Any`"),
        ("ﬁrst", "`ﬁrst`"),  # its capitals are FIRST
        ("seq", "`seq`"),
        ("_", "`_`"),
        ("_1", "_1"),
        ("1a", "`1a`"),
        ("a`b", "`a``b`"),
    ],
)
def test_a_name_is_quoted_only_where_it_has_to_be(text, printed):
    assert print_match(s.EventRef(s.Ident(text))) == printed


def test_with_is_quoted_only_after_as():
    text = "SOURCE with FROM COLUMNS (with AS `with`);"
    assert print_statement(read(parse, text).program.statements[0]) == text


# ---- layout ------------------------------------------------------------------------------------------------

LAYOUTS = {
    "one line if it fits": """
        create immutable subscribed event class E ( ) id ( ) lifespan ( -1 );
        ==
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS E () ID () LIFESPAN (-1);
        """,
    "the clauses of a class": """
        CREATE MUTABLE SUBSCRIBED EVENT CLASS Delivery (resource VARCHAR(30), amount NUMERIC) ID
        (resource) LIFESPAN (14d) ON CHANGE AND new.occTime > old.occTime DO informOwner('delayed',
        new.resource, new.occTime), ON LATE DO tell();
        ==
        CREATE MUTABLE SUBSCRIBED EVENT CLASS Delivery (resource VARCHAR(30), amount NUMERIC)
          ID (resource) LIFESPAN (14d)
          ON CHANGE AND new.occTime > old.occTime DO informOwner('delayed', new.resource, new.occTime),
          ON LATE DO tell();
        """,
    "the head of a class stays together if it fits": """
        CREATE COMPLEX EVENT CLASS Complete (I INT, asked INT) ID (I) LIFESPAN (1d) AS MATCH
        prior(Order(I, Q), Perform(I, A)) WHERE A >= Q RETURN Q AS asked;
        ==
        CREATE COMPLEX EVENT CLASS Complete (I INT, asked INT) ID (I) LIFESPAN (1d)
          AS MATCH prior(Order(I, Q), Perform(I, A)) WHERE A >= Q RETURN Q AS asked;
        """,
    "clauses of a source": """
        CREATE COMPLEX EVENT CLASS Complete () ID () AS MATCH prior(Order(I, Q), Perform(I, A))
        PARTITION BY account, branch WHERE A >= Q AND Q > 1000 RETURN Q AS asked;
        ==
        CREATE COMPLEX EVENT CLASS Complete () ID ()
          AS MATCH prior(Order(I, Q), Perform(I, A))
             PARTITION BY account, branch
             WHERE A >= Q AND Q > 1000
             RETURN Q AS asked;
        """,
    "attributes go below the name, together or one a line": """
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS CarReservationConfirmation (reservation VARCHAR(12),
        customer INT) ID () LIFESPAN (1d);
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS E (first_attribute_of_many VARCHAR(300),
        second_attribute_of_many NUMERIC(20, 10), third_attribute TIMESTAMP) ID () LIFESPAN (1d);
        ==
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS CarReservationConfirmation (
            reservation VARCHAR(12), customer INT)
          ID () LIFESPAN (1d);

        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS E (
            first_attribute_of_many VARCHAR(300),
            second_attribute_of_many NUMERIC(20, 10),
            third_attribute TIMESTAMP)
          ID () LIFESPAN (1d);
        """,
    "SQL is kept as it is": """
        CREATE COMPLEX EVENT CLASS E (r VARCHAR(30)) ID (r) AS select   r
               FROM x -- why
         OCCURRING AT x.occTime;
        CREATE COMPLEX EVENT CLASS E () ID () AS SELECT 1 OCCURRING AT NOW;
        ==
        CREATE COMPLEX EVENT CLASS E (r VARCHAR(30)) ID (r)
          AS select   r
               FROM x -- why
             OCCURRING AT x.occTime;

        CREATE COMPLEX EVENT CLASS E () ID () AS SELECT 1 OCCURRING AT NOW;
        """,
    "a long condition and its actions": """
        CREATE CLOCK EVENT CLASS Morning AT '0 9 * * 1-5' ZONE 'Europe/Vienna' ON CHANGE AND
        new.price > old.price OR POSTPONE AND new.price <> old.price OR NOT FIRED DO
        newPrice(new.product, old.price), tell(new.product);
        ==
        CREATE CLOCK EVENT CLASS Morning AT '0 9 * * 1-5' ZONE 'Europe/Vienna'
          ON CHANGE AND new.price > old.price OR POSTPONE AND new.price <> old.price OR NOT FIRED
            DO newPrice(new.product, old.price), tell(new.product);
        """,
    "long expressions break at their outermost operators": """
        DEFINE rally(r, s) = relative+(sequence(first AND r, front, s, front) OR sequence(first AND
        floor, r, front, s, front) OR sequence(first AND r, front));
        CREATE COMPLEX EVENT CLASS E () ID () AS MATCH A WHERE A.first_attribute +
        B.second_attribute > C.third_attribute AND D.fourth = 'something long';
        ==
        DEFINE rally(r, s) =
          relative+(sequence(first AND r, front, s, front)
                    OR sequence(first AND floor, r, front, s, front)
                    OR sequence(first AND r, front));

        CREATE COMPLEX EVENT CLASS E () ID ()
          AS MATCH A
             WHERE A.first_attribute + B.second_attribute > C.third_attribute
                   AND D.fourth = 'something long';
        """,
    "rules and triggers": """
        RULE Approve (int account, amount INT) CONDITION amount <= 1000 ACTION approve(account),
        POST Approved(account, amount) ALTERNATIVEACTION escalate(account, amount);
        RULE R1 () ACTION log('r1');
        TRIGGER sample_trigger (int v1, int v2, String v3) TRIGGEREVENT E1 OR E2 COMPOSITEEVENT E5 >
        (E3 AND E6) CONTEXT CHRONICLE RULESTRUC R1(v1, v2) > ( (R2(v3, v1) > R3(v1), R4), R5 )
        on failure continue RETURNS int : R1;
        trigger t () triggerevent E1 rulestruc R1 > R2( RETURNED( R1 ) );
        ==
        RULE Approve (account int, amount INT)
          CONDITION amount <= 1000
          ACTION approve(account), POST Approved(account, amount)
          ALTERNATIVEACTION escalate(account, amount);

        RULE R1 () ACTION log('r1');

        TRIGGER sample_trigger (v1 int, v2 int, v3 String)
          TRIGGEREVENT E1 OR E2
          COMPOSITEEVENT E5 > E3 & E6
          CONTEXT CHRONICLE
          RULESTRUC R1(v1, v2) > ((R2(v3, v1) > R3(v1), R4), R5)
          ON FAILURE CONTINUE
          RETURNS int : R1;

        TRIGGER t () TRIGGEREVENT E1 RULESTRUC R1 > R2(RETURNED(R1));
        """,
    "the small statements": """
        set chronon 15m; set archive true; rule group g(R1,R2); define f() = A; source Order from
        columns(acct as account);
        ==
        SET CHRONON 15m;
        SET ARCHIVE ON;
        RULE GROUP g (R1, R2);
        DEFINE f = A;
        SOURCE Order FROM COLUMNS (acct AS account);
        """,
}


@pytest.mark.parametrize("case", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_layout(case):
    written, _, expected = dedent(case).strip("\n").partition("\n==\n")
    assert print_program(read(parse, written).program) == expected + "\n"


def test_nothing_is_wider_than_it_has_to_be():
    names = ", ".join(f"attribute_{i}" for i in range(40))
    clauses = f"ID ({names}) AS MATCH A({names}) PARTITION BY {names} ON f({names}) DO g({names})"
    printed = print_program(read(parse, f"CREATE COMPLEX EVENT CLASS E () {clauses};").program)
    assert max(len(line) for line in printed.splitlines()) <= COLUMNS


@pytest.mark.parametrize(
    ("open_", "close"),
    [
        ("!", ""),
        ("prior(", ", B)"),
        ("A | (", ")"),
        ("EXISTS x ", ""),
        ("(", ") = y"),
        ("A(", ")"),
        ("<3> (B AND ", ")"),
    ],
)
def test_the_deepest_expression_that_is_read_is_printed_and_read_back(open_, close):
    texts = (f"DEFINE deep = {open_ * depth}A{close * depth};" for depth in range(2 * limits.NESTING_MAX, 30, -1))
    program = next(program for text in texts if (program := parse(text, Findings()).program).statements)
    assert read(parse, print_program(program)).program == program


# ---- documents ---------------------------------------------------------------------------------------------


def test_a_group_breaks_at_all_of_its_breaks_or_at_none():
    short, long = "x" * 10, "x" * 60
    assert lay_out(group("f(", listed([short, short]), ")")) == f"f({short}, {short})"
    assert lay_out(group("f(", listed([long, long, short]), ")")) == f"f({long},\n  {long},\n  {short})"


def test_what_follows_a_group_has_to_fit_with_it():
    halves = "x" * 49
    assert lay_out((listed([halves, halves[:-1]]), ";")) == f"{halves}, {halves[:-1]};"
    assert lay_out((listed([halves, halves]), ";")) == f"{halves},\n{halves};"


def test_a_remark_breaks_the_groups_around_its_break():
    inner = listed(["c", "d"])
    doc = group("a", Break(), "b", Break(), inner, indent=2)
    assert lay_out(doc) == "a b c, d"
    assert lay_out(doc, {0: Remarks("-- one", ("-- two",))}) == "a  -- one\n  -- two\n  b\n  c, d"
    assert lay_out(doc, {2: Remarks(None, ("-- three",))}) == "a\n  b\n  c,\n  -- three\n  d"
