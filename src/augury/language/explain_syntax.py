"""A parser's surprise → a diagnostic a person can act on: what stood there, what could have, what was meant."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token, UnexpectedToken

from augury.diagnostics import Diagnostic, Mark, Span, closest
from augury.language.lexer import CONTEXTUAL, RESERVED

_SHOWN = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "DURATION": "a duration such as 15m",
    "TIME": "a time between brackets",
    "SQL": "SELECT",
    "UNDERSCORE": "`_`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "COMMA": "`,`",
    "DOT": "`.`",
    "COLON": "`:`",
    "EQ": "`=`",
    "NE": "`<>`",
    "LE": "`<=`",
    "GE": "`>=`",
    "LT": "`<`",
    "GT": "`>`",
    "PLUS": "`+`",
    "MINUS": "`-`",
    "STAR": "`*`",
    "SLASH": "`/`",
    "SLASHPLUS": "`/+`",
    "PERCENT": "`%`",
    "BAR": "`|`",
    "CONCAT": "`||`",
    "$END": "the end of the statement",
}
_OPERATORS = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "EQ",
        "NE",
        "LE",
        "GE",
        "LT",
        "GT",
        "PLUS",
        "MINUS",
        "STAR",
        "SLASH",
        "SLASHPLUS",
        "PERCENT",
        "BAR",
        "CONCAT",
        "IS",
        "IN",
        "LIKE",
        "BETWEEN",
    ]
)
_OPERAND_STARTS = frozenset({"NAME", "LPAR"})
_OPENERS = {"RPAR": ("LPAR", "`(`"), "RSQB": ("LSQB", "`[`"), "RBRACE": ("LBRACE", "`{`")}


def syntax_error(error: UnexpectedToken, tokens: Sequence[Token], end: int) -> Diagnostic:
    """Say what is wrong at the token the parser did not expect."""
    token = error.token
    at_end = token.type == "$END"
    start, stop = (end, end) if at_end else (token.start_pos or 0, token.end_pos or 0)
    span = Span(start, stop)
    expected = set(error.accepts or error.expected)
    helps: list[str] = []
    if not at_end and (meant := _misspelt(token, expected)) is not None:
        helps.append(f"did you mean `{meant}`?")
    if not at_end and "NAME" in expected and token.type in RESERVED:
        helps.append(f"`{token.value}` is a keyword: to use it as a name, write `` `{token.value}` ``")
    if unclosed := _unclosed(tokens, start):
        opened = Mark(Span(unclosed.start_pos or 0, unclosed.end_pos or 0), "opened here")
        closer = next(name for name, (opener, _) in _OPENERS.items() if opener == unclosed.type)
        if closer in expected and at_end:
            return Diagnostic(
                "E115",
                f"{_SHOWN[unclosed.type]} is never closed",
                Mark(span, "the statement ends here"),
                (opened,),
                tuple(helps),
            )
    found = "the end of the statement" if at_end else f"`{_short(str(token.value))}`"
    message = f"{found} is not expected here"
    return Diagnostic("E100", message, Mark(span, _expected(expected)), helps=tuple(helps))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 30 else flat[:29] + "…"


def _misspelt(token: Token, expected: set[str]) -> str | None:
    if token.type != "NAME" or token.value.startswith("`"):
        return None
    keywords = [name for name in expected if name in RESERVED or name in CONTEXTUAL]
    if "SQL" in expected:
        keywords.append("SELECT")
    return closest(str(token.value), keywords)


def _unclosed(tokens: Sequence[Token], before: int) -> Token | None:
    """The innermost bracket still open before a place."""
    stack: list[Token] = []
    for token in tokens:
        if (token.start_pos or 0) >= before:
            break
        if token.type in ("LPAR", "LSQB", "LBRACE"):
            stack.append(token)
        elif token.type in _OPENERS and stack and stack[-1].type == _OPENERS[token.type][0]:
            stack.pop()
    return stack[-1] if stack else None


def _expected(names: set[str]) -> str:
    """At most a handful of possibilities, with whole families under one word."""
    shown: list[str] = []
    rest = set(names)
    if "NAME" in rest:
        rest -= CONTEXTUAL
    if len(rest & _OPERATORS) > 3:
        rest -= _OPERATORS
        shown.append("an operator")
    if rest >= _OPERAND_STARTS and len(rest) > 6:
        return "expected an expression"
    for name in sorted(rest, key=lambda n: (n not in _SHOWN, n)):
        shown.append(_SHOWN.get(name, name))
    if len(shown) > 6:
        shown = [*shown[:6], "…"]
    return "expected " + (" or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown))
