"""Tokens → syntax: one LALR parser, statement by statement, so that one mistake does not hide the next.

In: a text. Out: the statements that could be read, the comments, and a diagnostic for every statement that could not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from lark import Lark, Token, UnexpectedToken
from lark.lexer import Lexer

from augury import limits
from augury.diagnostics import Findings, Span
from augury.language import syntax as s
from augury.language.builder import Callbacks, Misuse
from augury.language.explain_syntax import syntax_error
from augury.language.lexer import CONTEXTUAL, RESERVED, Lexed, lex
from augury.language.statements import Builder

_STARTERS = frozenset({"CREATE", "DEFINE", "SET", "TRIGGER"})
_WEAK_STARTERS = frozenset({"RULE", "SOURCE"})
_OTHER_TERMINALS = (
    "NAME NUMBER STRING DURATION TIME SQL UNDERSCORE LPAR RPAR LSQB RSQB LBRACE RBRACE COMMA DOT COLON "
    "EQ NE LE GE LT GT PLUS MINUS STAR SLASH SLASHPLUS PERCENT BAR CONCAT"
)


class _Given(Lexer):
    """Hands the parser the tokens it is given."""

    def __init__(self, _conf: object) -> None:
        """Take what lark passes, and need none of it."""

    def lex(self, data: Any) -> Iterator[Token]:  # type: ignore[override]
        """The tokens as they are."""
        return iter(data)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text says, as far as it could be read."""

    program: s.Program
    comments: tuple[s.Comment, ...]


_lock = threading.Lock()
_tables: list[str] = []


def keep_tables_in(file: str) -> None:
    """Let the parse tables be kept in a file of the user's own: building them takes longer than most programs."""
    _tables[:] = [file]


@cache
def _lark() -> tuple[Lark, Builder]:
    grammar = files("augury.language").joinpath("bicepl.lark").read_text("utf-8")
    words = sorted((RESERVED | CONTEXTUAL) - {"SEQ", "REL", "SELECT", "WITH"} | {"WITH"})
    declared = f"\n%declare {' '.join(words)} {_OTHER_TERMINALS}\n"
    builder = Builder()
    starts = ["statement", "match", "composite", "scalar"]
    lark = Lark(
        grammar + declared,
        parser="lalr",
        lexer=_Given,
        start=starts,
        transformer=Callbacks(builder),
        keep_all_tokens=True,
        maybe_placeholders=True,
        cache=_tables[0] if _tables else False,
    )
    return lark, builder


def parse(text: str, findings: Findings) -> Parsed:
    """Read a program; what is wrong goes into the findings, what is right into the result."""
    if len(text) > limits.PROGRAM_CHARACTERS_MAX:
        findings.error(
            "E402",
            f"the program is longer than {limits.PROGRAM_CHARACTERS_MAX:,} characters",
            Span(0, 0),
            "",
            helps=["split it into several programs; is this a data file?"],
        )
        return Parsed(s.Program(()), ())
    lexed = lex(text, findings)
    statements: list[s.Statement] = []
    for tokens, end in _statements(lexed, len(text)):
        statements.extend(_parse_statement(tokens, end, findings))
    return Parsed(s.Program(tuple(statements)), lexed.comments)


def parse_match(text: str, findings: Findings) -> s.MatchExpression | None:
    """Read one MATCH expression."""
    return cast("s.MatchExpression | None", _parse_alone("match", text, findings))


def parse_composite(text: str, findings: Findings) -> s.CompositeExpression | None:
    """Read one COMPOSITE expression."""
    return cast("s.CompositeExpression | None", _parse_alone("composite", text, findings))


def parse_scalar(text: str, findings: Findings) -> s.Scalar | None:
    """Read one scalar expression."""
    return cast("s.Scalar | None", _parse_alone("scalar", text, findings))


def _parse_alone(start: str, text: str, findings: Findings) -> Any:
    tokens = lex(text, findings).tokens
    try:
        return _run(start, tokens)
    except UnexpectedToken as error:
        findings.add(syntax_error(error, tokens, len(text)))
    except Misuse as error:
        findings.add(error.diagnostic)
    return None


def _statements(lexed: Lexed, length: int) -> Iterator[tuple[Sequence[Token], int | None]]:
    """The tokens of each statement, with the place of its `;`, or None if the text ends without one."""
    start = 0
    for i, token in enumerate(lexed.tokens):
        if token.type == "SEMI":
            if i > start:
                yield lexed.tokens[start:i], token.start_pos
            start = i + 1
    if start < len(lexed.tokens):
        yield lexed.tokens[start:], None


def _parse_statement(tokens: Sequence[Token], end: int | None, findings: Findings) -> Iterable[s.Statement]:
    """Read one statement; where a `;` was forgotten, go on at the next statement."""
    stop = tokens[-1].end_pos or 0
    try:
        node = _run("statement", tokens)
    except UnexpectedToken as error:
        restart = _next_statement(error, tokens)
        if restart is None:
            findings.add(syntax_error(error, tokens, stop))
            return []
        before, after = tokens[:restart], tokens[restart:]
        span = Span(tokens[restart - 1].end_pos or 0, tokens[restart - 1].end_pos or 0)
        missing = len(before) > 1 and _is_complete(before)
        if missing:
            findings.error("E114", "a `;` is missing between two statements", span, "expected `;` here")
            return [
                *_parse_statement(before, None if end is None else span.end, findings),
                *_parse_statement(after, end, findings),
            ]
        findings.add(syntax_error(error, tokens, stop))
        return _parse_statement(after, end, findings)
    except Misuse as error:
        findings.add(error.diagnostic)
        return []
    if end is None:
        findings.error("E114", "the last statement has no `;`", Span(stop, stop), "expected `;` here")
    return [node]


def _is_complete(tokens: Sequence[Token]) -> bool:
    try:
        _run("statement", tokens)
    except UnexpectedToken:
        return False
    except Misuse:
        return True
    return True


def _next_statement(error: UnexpectedToken, tokens: Sequence[Token]) -> int | None:
    """The index at or after the error at which a new statement seems to start."""
    at = getattr(error.token, "start_pos", None)
    for i, token in enumerate(tokens):
        if i == 0 or at is None or (token.start_pos or 0) < at:
            continue
        if token.type in _STARTERS:
            # CREATE and the like cannot be anything else; SET, DEFINE and TRIGGER neither: all are reserved.
            return i
        if token.type in _WEAK_STARTERS and token is error.token and i + 1 < len(tokens):
            return i
    return None


def _run(start: str, tokens: Sequence[Token]) -> Any:
    with _lock:
        lark, builder = _lark()
        builder.reset()
        try:
            return lark.parse(tokens, start=start)
        finally:
            builder.reset()
