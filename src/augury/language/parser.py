"""Tokens → syntax: one LALR parser, statement by statement, so that one mistake does not hide the next.

In: a text. Out: the statements that could be read, the comments, and a diagnostic for every statement that could not.
"""

from __future__ import annotations

import bisect
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from lark import Lark, Token, UnexpectedToken
from lark.lexer import Lexer

from augury import limits
from augury.diagnostics import Diagnostic, Findings, Span
from augury.language import syntax as s
from augury.language.builder import DEPTH_MAX, Callbacks, Misuse, too_deep
from augury.language.explain_syntax import CLOSER_OF, CLOSERS, syntax_error
from augury.language.lexer import CONTEXTUAL, RESERVED, Lexed, give_up, lex, unquote
from augury.language.statements import Builder

_STARTERS = frozenset({"CREATE", "DEFINE", "SET", "TRIGGER"})
_WEAK_STARTERS = frozenset({"RULE", "SOURCE", "BIND", "DETECT"})
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
    unread_names: frozenset[str] = frozenset()
    """The names, without regard to case, in statements that could not be read: one of them may declare it."""


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
    unread: set[str] = set()
    for piece in _pieces(lexed):
        found = list(_parse_piece(piece, findings))
        statements += found
        if not found:
            unread.update(unquote(token.value).casefold() for token in piece.tokens if token.type == "NAME")
        if findings.count() >= limits.SYNTAX_ERRORS_MAX:
            give_up(piece.tokens[-1].end_pos or 0, findings)
            break
    return Parsed(s.Program(tuple(statements)), lexed.comments, frozenset(unread))


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


@dataclass(frozen=True, slots=True)
class _Piece:
    """The tokens before one `;`, the place of that `;` if there is one, and where a token could not be read."""

    tokens: Sequence[Token]
    end: int | None
    unread: Sequence[int]


def _pieces(lexed: Lexed) -> Iterator[_Piece]:
    start, begin = 0, 0
    for i, token in enumerate(lexed.tokens):
        if token.type == "SEMI":
            end = token.start_pos or 0
            if i > start:
                yield _Piece(lexed.tokens[start:i], end, _between(lexed.unread, begin, end))
            start, begin = i + 1, end
    if start < len(lexed.tokens):
        yield _Piece(lexed.tokens[start:], None, _between(lexed.unread, begin, math.inf))


def _between(places: Sequence[int], start: int, end: float) -> Sequence[int]:
    return places[bisect.bisect_left(places, start) : bisect.bisect_left(places, end)]


def _parse_piece(piece: _Piece, findings: Findings) -> Iterator[s.Statement]:
    """Read a statement; where a `;` was forgotten, go on at the next one."""
    tokens, start, stop = piece.tokens, 0, piece.tokens[-1].end_pos or 0
    if (opener := _too_deep(tokens)) is not None:
        findings.add(too_deep(Span(opener.start_pos or 0, opener.end_pos or 0)))
        return
    while start < len(tokens) and findings.count() < limits.SYNTAX_ERRORS_MAX:
        try:
            statement = _run("statement", (tokens[i] for i in range(start, len(tokens))) if start else tokens)
        except UnexpectedToken as error:
            at = next((i for i in range(start, len(tokens)) if tokens[i] is error.token), len(tokens))
            restart = _next_statement(tokens, start, at)
            whole = _whole_statement(tokens[start:restart]) if restart < len(tokens) else None
            if whole is not None:
                after = tokens[restart - 1].end_pos or 0
                findings.error(
                    "E114", "a `;` is missing between two statements", Span(after, after), "expected `;` here"
                )
                if isinstance(whole, Diagnostic):
                    findings.add(whole)
                elif not piece.unread:
                    yield whole
            elif not _follows_from_unread(error, piece.unread):
                findings.add(syntax_error(error, tokens[start : at + 2], stop))
            start = restart
        except Misuse as error:
            findings.add(error.diagnostic)
            return
        else:
            if piece.end is None:
                findings.error("E114", "the last statement has no `;`", Span(stop, stop), "expected `;` here")
            if not piece.unread:  # a statement that lacks a part would only bring about mistakes that are none
                yield statement
            return


def _too_deep(tokens: Sequence[Token]) -> Token | None:
    """The bracket that is opened inside too many others: worth a look before the parser piles them all up."""
    depth = 0
    for token in tokens:
        if token.type in CLOSER_OF:
            depth += 1
            if depth > DEPTH_MAX:
                return token
        elif token.type in CLOSERS:
            depth -= 1
    return None


def _whole_statement(tokens: Sequence[Token]) -> s.Statement | Diagnostic | None:
    """The statement that these tokens are, or what is wrong with it; None if they are not one."""
    try:
        return cast("s.Statement", _run("statement", tokens))
    except UnexpectedToken:
        return None
    except Misuse as error:
        return error.diagnostic


def _follows_from_unread(error: UnexpectedToken, unread: Sequence[int]) -> bool:
    """Whether something before the surprise could not be read, and has been reported: likely its cause."""
    if error.token.type == "$END":
        return bool(unread)
    return any(at < (error.token.start_pos or 0) for at in unread)


def _next_statement(tokens: Sequence[Token], start: int, at: int) -> int:
    """Where, at or after the error, a new statement seems to start; the end if nowhere."""
    for i in range(max(at, start + 1), len(tokens)):
        if tokens[i].type in _STARTERS:
            # CREATE and the like cannot be anything else; SET, DEFINE and TRIGGER neither: all are reserved.
            return i
        if tokens[i].type in _WEAK_STARTERS and i == at and i + 1 < len(tokens):
            return i
    return len(tokens)


def _run(start: str, tokens: Iterable[Token]) -> Any:
    with _lock:
        lark, builder = _lark()
        builder.reset()
        try:
            return lark.parse(tokens, start=start)
        finally:
            builder.reset()
