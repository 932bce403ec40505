"""`augury fmt`: where comments and blank lines go, and that nothing else changes."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

from augury.diagnostics import Findings
from augury.language.formatter import format_text
from augury.language.lexer import lex
from augury.language.parser import parse

CASES = {
    "comments between statements stay": """
        -- head


        -- of the file

        SET CHRONON 1s;
        -- above
        SET ARCHIVE ON;   -- beside
        -- below



        DEFINE A = B;

        -- the end
        ==
        -- head

        -- of the file

        SET CHRONON 1s;
        -- above
        SET ARCHIVE ON;  -- beside
        -- below

        DEFINE A = B;

        -- the end
        """,
    "statements of several lines are set apart": """
        SET CHRONON 1s;
        CREATE COMPLEX EVENT CLASS E () ID () AS SELECT 1
          OCCURRING AT NOW; SET ARCHIVE ON; SET ARCHIVE OFF;
        -- why
        CREATE COMPLEX EVENT CLASS E () ID () AS SELECT
          1 OCCURRING AT NOW;
        -- what
        SET CHRONON 1s;
        CREATE COMPLEX EVENT CLASS E () ID () AS SELECT
          1 OCCURRING AT NOW;
        ==
        SET CHRONON 1s;
        CREATE COMPLEX EVENT CLASS E () ID () AS SELECT 1 OCCURRING AT NOW;
        SET ARCHIVE ON;
        SET ARCHIVE OFF;
        -- why
        CREATE COMPLEX EVENT CLASS E () ID ()
          AS SELECT
          1
             OCCURRING AT NOW;

        -- what
        SET CHRONON 1s;

        CREATE COMPLEX EVENT CLASS E () ID ()
          AS SELECT
          1
             OCCURRING AT NOW;
        """,
    "comments of clauses keep the clauses apart": """
        RULE R (a INT)  -- who
          -- when
          CONDITION a > 1
          ACTION f();     -- what
        ==
        RULE R (a INT)  -- who
          -- when
          CONDITION a > 1
          ACTION f();  -- what
        """,
    "comments of attributes keep the attributes apart": """
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Order (
          account INT,   -- who
          -- how many
          quantity INT,
          price NUMERIC  -- of one
        ) ID (account) LIFESPAN (1d);
        ==
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Order (
            account INT,  -- who
            -- how many
            quantity INT,
            price NUMERIC)  -- of one
          ID (account) LIFESPAN (1d);
        """,
    "comments of operands keep the operands apart": """
        DEFINE A =
          B          -- this
          AND C      -- or that
          AND D;     -- or both
        ==
        DEFINE A =
          B  -- this
          AND C  -- or that
          AND D;  -- or both
        """,
    "a comment where no line ends goes to the nearest place where one does": """
        SET -- one
          CHRONON -- two
          -- three
          1s -- four
          ;
        DEFINE A
          -- five
          = B
          -- six
          ;
        ==
        SET CHRONON 1s;  -- one
        -- two
        -- three
        -- four
        -- five
        DEFINE A =
          -- six
          B;
        """,
    "parentheses that go and types that move": """
        TRIGGER t (int v1, -- first
                   NUMERIC(10, 2) v2) -- second
          TRIGGEREVENT E1
          COMPOSITEEVENT ANY (1, -- any of
              A{0,}, -- these
              (B)) -- two
          RULESTRUC ((R1() -- the one
              > R2())) -- the other
          on failure -- if
          stop;
        ==
        TRIGGER t (
            v1 int,  -- first
            v2 NUMERIC(10, 2))  -- second
          TRIGGEREVENT E1
          COMPOSITEEVENT ANY{1,  -- any of
                             A*,  -- these
                             B}  -- two
          RULESTRUC R1  -- the one
                    > R2  -- the other
          ON FAILURE STOP;  -- if
        """,
    "comments in SQL belong to it": """
        CREATE COMPLEX EVENT CLASS E () ID () -- before
          AS -- within
          SELECT 1 -- a
          -- b
          OCCURRING AT NOW -- after
          + 5m;
        ==
        CREATE COMPLEX EVENT CLASS E () ID ()  -- before
          AS SELECT 1 -- a
          -- b
             OCCURRING AT NOW  -- within
                          -- after
                          + 5m;
        """,
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_formatted(case):
    written, _, expected = dedent(case).strip("\n").partition("\n==\n")
    assert format_text(written) == expected + "\n"
    assert format_text(expected) == expected + "\n"


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("", ""),
        (" \n\n", ""),
        ("-- only", "-- only\n"),
        ("\ufeff;;SET A 1;;\r\n\r\n;SET B 2; -- x  \r\n", "SET A 1;\n\nSET B 2;  -- x\n"),
        ("SET A 1;SET B 2;-- b\n-- c", "SET A 1;\nSET B 2;  -- b\n-- c\n"),
        ("SET A\n\n\n1;", "SET A 1;\n"),
        ("SET A '-- no\n\ncomment';", "SET A '-- no\n\ncomment';\n"),
    ],
)
def test_small_texts(text, formatted):
    assert format_text(text) == formatted
    assert format_text(formatted) == formatted


def test_a_text_with_mistakes_is_not_formatted_and_all_of_them_are_named():
    text = "-- a\nSET CHRONON;\nDEFINE A = ;\nSET A 1;\n"
    findings = Findings()
    parse(text, findings)
    assert len(findings.sorted()) == 2
    assert format_text(text) == findings.sorted()


MESSY = {
    "class": "create mutable subscribed event class X(a INT, `b c` numeric(1,2)) id (a) lifespan(-1)"
    " on ((a)=+1 or not(b)) and c do f((a)), POST g(), on late(1h,2d) do h('it''s', - (2), -0);",
    "match": "create complex event class X () id () as match (∃x ((A(_, -1)[(a) >= 2]) = x) ∧ ¬(B)) /+ ((<3> C) * D)"
    " over(A,B) partition by a,b order by occurrence allowing 1h where ((a)) between 1 and 2 within 5m"
    " collect max(q) as `with`, count(*) as n return a /+ b as c, cast(a as `with`) as d;",
    "composite": "create complex event class X () id ()"
    " as composite ((A) seq any(2, (B), (C{0,}), A{3,}) | not(B)[A,(C)]) & at [06 06 1999 9 20 0]"
    " (A > B within 5m where (a)) > periodic*(A,[5m],(B)) + 5m context recent;",
    "trigger": "trigger t (int a, b(3) c) triggerevent A or B compositeevent (A)"
    " rulestruc ((R1()), (R2 > (R3))) returns int : R1;",
    "others": "set a true; define f() = ((A)); source A from columns (a as b); rule group g();;"
    " create clock event class M at '0 9' zone 'x';",
}


@pytest.mark.parametrize("comment", [" -- x\n", "\n-- x\n"], ids=["at the end of a line", "on its own"])
@pytest.mark.parametrize("text", MESSY.values(), ids=MESSY.keys())
def test_a_comment_may_stand_between_any_two_tokens(text, comment):
    program = parse(text, Findings()).program
    assert program.statements
    for token in lex(text, Findings()).tokens:
        commented = text[: token.start_pos] + comment + text[token.start_pos :]
        formatted = format_text(commented)
        assert isinstance(formatted, str)
        again = parse(formatted, Findings())
        assert again.program == program
        assert [found.text for found in again.comments] == ["-- x"]
        assert format_text(formatted) == formatted


def calls_while_formatting(text):
    count = 0

    def note(*_):
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        formatted = format_text(text)
    finally:
        sys.setprofile(None)
    assert isinstance(formatted, str)
    return count


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "SET A 1;" * n,
        lambda n: "-- x\n" * n,
        lambda n: "DEFINE A" + "\n-- x" * n + "\n = B;",
        lambda n: "RULE GROUP g (" + "a, -- x\n" * n + "b);",
        lambda n: "DEFINE A = A(" + "b, " * n + "c -- x\n);",
        lambda n: f"CREATE COMPLEX EVENT CLASS E () ID () AS SELECT {'a, ' * n} b OCCURRING AT NOW;",
    ],
    ids=["statements", "comments", "comments in a statement", "comments in a list", "arguments", "SQL"],
)
def test_the_work_grows_with_the_length_of_the_text(make):
    calls_while_formatting(make(1))
    assert calls_while_formatting(make(400)) < 2.2 * calls_while_formatting(make(200))
