"""Text → tokens: one pass of one regular expression, with two raw islands.

The islands are the SQL after `AS` (up to OCCURRING or `;`) and the times between brackets after AT, BY and
BETWEEN. Comments are kept apart, for the formatter. It knows words, not grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lark import Token

from augury import limits
from augury.diagnostics import Findings, Mark, Span
from augury.language.syntax import Comment

# Words that are keywords everywhere: to use one as a name, backquote it.
RESERVED = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IS",
        "IN",
        "LIKE",
        "BETWEEN",
        "NULL",
        "TRUE",
        "FALSE",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST",
        "AS",
        "NOW",
        "CREATE",
        "DEFINE",
        "SET",
        "TRIGGER",
        "SELECT",
        "OCCURRING",
        "ON",
        "DO",
        "WHERE",
        "WITHIN",
        "RETURN",
        "COLLECT",
        "CONTEXT",
        "OVER",
        "PARTITION",
        "MATCH",
        "COMPOSITE",
        "LIFESPAN",
        "MUTABLE",
        "IMMUTABLE",
        "SUBSCRIBED",
        "COMPLEX",
        "RELATIVE",
        "PRIOR",
        "SEQUENCE",
        "FIRST",
        "ANY",
        "EVERY",
        "EXISTS",
        "PREFIX",
        "BEFORE",
        "HAPPENED",
        "FIRSTAFTER",
        "START",
        "APERIODIC",
        "PERIODIC",
        "AT",
        "BY",
        "SEQ",
        "REL",
        "TRIGGEREVENT",
        "COMPOSITEEVENT",
        "RULESTRUC",
        "RETURNS",
        "CONDITION",
        "ACTION",
        "ALTERNATIVEACTION",
        "POST",
    ]
)
# Words that mean something in one place only, and are names everywhere else (LANGUAGE.md itself has a class `Order`).
CONTEXTUAL = frozenset(
    [
        "ORDER",
        "OCCURRENCE",
        "ALLOWING",
        "ID",
        "EVENT",
        "CLASS",
        "CLOCK",
        "ZONE",
        "SOURCE",
        "FROM",
        "COLUMNS",
        "RULE",
        "GROUP",
        "OFF",
        "WITH",
        "BIND",
        "TO",
        "ENV",
        "DETECT",
        "ITEMS",
        "FIELDS",
        "NEXT",
        "FORWARD",
        "WITHDRAW",
        "FAILURE",
    ]
)
_ALIASES = {"SEQ": "SEQUENCE", "REL": "RELATIVE"}
_SYMBOLS = {
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "{": "LBRACE",
    "}": "RBRACE",
    ",": "COMMA",
    ";": "SEMI",
    ".": "DOT",
    ":": "COLON",
    "=": "EQ",
    "==": "EQ",
    "<>": "NE",
    "!=": "NE",
    "<=": "LE",
    ">=": "GE",
    "<": "LT",
    ">": "GT",
    "+": "PLUS",
    "-": "MINUS",
    "*": "STAR",
    "/": "SLASH",
    "/+": "SLASHPLUS",
    "%": "PERCENT",
    "|": "BAR",
    "||": "CONCAT",
    "&": "AND",
    "^": "AND",
    "∧": "AND",
    "∨": "OR",
    "!": "NOT",
    "¬": "NOT",
    "∃": "EXISTS",
}

_TOKEN = re.compile(
    r"""
      (?P<space>[\s\ufeff]+)
    | (?P<comment>--[^\n]*)
    | (?P<duration>[0-9]+[dhmsDHMS](?!\w))
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?!\w))
    | (?P<badnumber>[0-9]\w*)
    | (?P<word>[^\W\d]\w*)
    | (?P<quoted>`(?:[^`\n]|``)[^`\n]*(?:``[^`\n]*)*`)
    | (?P<string>'[^']*(?:''[^']*)*')
    | (?P<doubled>"[^"\n]*")
    | (?P<symbol>\|\||/\+|<>|!=|<=|>=|==|[()\[\]{},;.:=<>+\-*/%|&^∧∨!¬∃])
    | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)
# What matters inside SQL: where strings, names and comments start and end, brackets, and the two ways out.
_SQL = re.compile(
    r"""(?P<space>\s+) | --[^\n]* | (?P<quote>['"`]|/\*)
    | (?P<open>\() | (?P<close>\)) | (?P<end>;) | (?P<word>\w+) | .""",
    re.VERBOSE | re.DOTALL,
)
_SQL_QUOTED = {
    "'": re.compile(r"[^'\\]*(?:(?:\\.|'')[^'\\]*)*'", re.DOTALL),
    '"': re.compile(r'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL),
    "`": re.compile(r"[^`]*`"),
    "/*": re.compile(r".*?\*/", re.DOTALL),
}
"""What follows the start of a string, name or comment up to its end."""
_TIME_OPENERS = frozenset({"AT", "BY", "BETWEEN"})


@dataclass(frozen=True, slots=True)
class Lexed:
    """The tokens of a text, its comments, and the places where a token could not be read."""

    tokens: tuple[Token, ...]
    comments: tuple[Comment, ...]
    unread: tuple[int, ...] = ()


def lex(text: str, findings: Findings) -> Lexed:
    """Cut a text into tokens; what cannot be read is reported and left out."""
    tokens: list[Token] = []
    comments: list[Comment] = []
    unread: list[int] = []
    never_closed: set[str] = set()
    position, length, match = 0, len(text), _TOKEN.match
    while position < length and len(unread) < limits.SYNTAX_ERRORS_MAX:
        found = match(text, position)
        assert found is not None, "the last alternative takes any character"
        kind, end = found.lastgroup, found.end()
        if kind == "space":
            position = end
            continue
        if kind == "comment":
            comments.append(Comment(found.group().rstrip(), Span(position, end)))
            position = end
            continue
        value = found.group()
        if kind == "symbol":
            name = _SYMBOLS[value]
            if name == "LSQB" and _opens_time(tokens):
                start, position = position, _time(text, position, tokens, findings)
                unread += [start] if tokens[-1].type != "TIME" or tokens[-1].start_pos != start else []
                continue
        elif kind == "word":
            upper = value.upper()
            name = _ALIASES.get(upper, upper) if upper in RESERVED or upper in CONTEXTUAL else "NAME"
            if name in ("SELECT", "WITH") and tokens and tokens[-1].type == "AS":
                position = _sql(text, position, tokens, never_closed)
                continue
            if value == "_":
                name = "UNDERSCORE"
        elif kind in ("duration", "number", "string"):
            name = kind.upper()
        elif kind == "quoted":
            name = "NAME"
        elif kind == "doubled":
            name, value = "STRING", _single_quoted(value, position, findings)
        else:
            torn = _torn(tokens) if value == "'" else None
            unread.append(position if torn is None else torn.start)
            _unreadable(kind or "", value, position, text, torn, findings)
            # An unfinished string or name would make a mistake of every word after it.
            end = _line_end(text, position) if value in "'`\"" else end
            position = end
            continue
        tokens.append(Token(name, value, start_pos=position, end_pos=end))
        position = end
    if position < length:
        give_up(position, findings)
    return Lexed(tuple(tokens), tuple(comments), tuple(sorted(unread)))


def unquote(value: str) -> str:
    """A name without its backquotes, a string without its quotes."""
    mark = value[0]
    return value[1:-1].replace(mark * 2, mark) if mark in "'`" else value


def _opens_time(tokens: list[Token]) -> bool:
    if not tokens:
        return False
    if tokens[-1].type in _TIME_OPENERS:
        return True
    return len(tokens) > 1 and tokens[-1].type == "TIME" and tokens[-2].type == "BETWEEN"


def _time(text: str, start: int, tokens: list[Token], findings: Findings) -> int:
    stop = _line_end(text, start)
    end = text.find("]", start, stop)
    if end < 0:
        findings.error(
            "E107",
            "the time between brackets has no end",
            Span(start, stop),
            "no `]` on this line",
            helps=["close it: [1999-06-06T09:20:00Z]"],
        )
        return stop
    tokens.append(Token("TIME", text[start : end + 1], start_pos=start, end_pos=end + 1))
    return end + 1


def _sql(text: str, start: int, tokens: list[Token], never_closed: set[str]) -> int:
    """Take the SQL from `start` up to OCCURRING outside parentheses, or to the end of the statement.

    A quote that is not closed counts for nothing; `never_closed` notes its kind, because no later one is closed either.
    """
    depth, position, end = 0, start, start
    while position < len(text):
        found = _SQL.match(text, position)
        assert found is not None, "the last alternative takes any character"
        kind = found.lastgroup
        if kind == "end" or (kind == "word" and depth <= 0 and found.group().upper() == "OCCURRING"):
            break
        depth += (kind == "open") - (kind == "close")
        position = found.end()
        if kind == "quote" and (mark := found.group()) not in never_closed:
            closed = _SQL_QUOTED[mark].match(text, position)
            position = position if closed is None else closed.end()
            never_closed |= {mark} if closed is None else set()
        if kind != "space":
            end = position
    tokens.append(Token("SQL", text[start:end], start_pos=start, end_pos=end))
    return position


def give_up(position: int, findings: Findings) -> None:
    """Report that there are too many mistakes to go on."""
    findings.error(
        "E100",
        f"more than {limits.SYNTAX_ERRORS_MAX:,} places cannot be read",
        Span(position, position),
        "the rest is left out",
        helps=["is this a program at all?"],
    )


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


# What is meant by a character that word processors put in, or that other languages use.
_MEANT = {
    **dict.fromkeys("“”‘’„‚«»´", "strings stand between straight single quotes: '…'"),
    **dict.fromkeys("≥⩾", "write `>=`"),
    **dict.fromkeys("≤⩽", "write `<=`"),
    **dict.fromkeys("−–", "write `-`"),
    "≠": "write `<>`",
    "×": "write `*`",
    "÷": "write `/`",
    "—": "a comment starts with two hyphens: `--`",
    "#": "a comment starts with two hyphens: `--`",
}
_UNITS = (("s", "second"), ("m", "minute"), ("h", "hour"), ("d", "day"))
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _single_quoted(value: str, position: int, findings: Findings) -> str:
    """Report a string between double quotes, and go on as if it stood between single ones."""
    meant = "'" + value[1:-1].replace("'", "''") + "'"
    span = Span(position, position + len(value))
    helps = [f"write {meant}"]
    findings.error("E102", "double quotes are not used here", span, "strings stand between single quotes", helps=helps)
    return meant


def _torn(tokens: list[Token]) -> Span | None:
    """The first line of the last string of several lines: a quote that is missing there makes one too many below."""
    found = next((t for t in reversed(tokens) if t.type == "STRING" and "\n" in t.value), None)
    return None if found is None else Span(found.start_pos or 0, (found.start_pos or 0) + found.value.index("\n"))


def _unreadable(kind: str, value: str, position: int, text: str, torn: Span | None, findings: Findings) -> None:
    span = Span(position, position + len(value))
    if kind == "badnumber":
        findings.error(
            "E103",
            f"`{value}` is neither a number nor a duration nor a name",
            span,
            "a name does not start with a digit",
            helps=[_meant_duration(value) or "durations are written 5d, 10h, 15m, 30s"],
        )
    elif value in "'`\"":
        what = "name" if value == "`" else "string"
        findings.error(
            "E102",
            f"this {what} is not closed",
            torn or Span(position, _line_end(text, position)),
            "it starts here",
            others=[Mark(Span(position, position + 1), "or else the one that starts here")] if torn else [],
            helps=["close it, and use single quotes: '…'" if value == '"' else f"close it with {value}"],
        )
    else:
        shown = f"`{value}`" if value.isprintable() else f"U+{ord(value):04X}"
        help_text = _MEANT.get(value, "leave it out, or put it between the quotes of a string '…' or a name `…`")
        findings.error("E101", f"the character {shown} has no meaning here", span, "unexpected", helps=[help_text])


def _meant_duration(value: str) -> str | None:
    """A proposal for `5min` and `1h30m`."""
    digits, unit = re.fullmatch(r"([0-9]*)(.*)", value, re.DOTALL).groups()  # type: ignore[union-attr]
    known = next((u for u, word in _UNITS if len(unit) > 1 and f"{word}s".startswith(unit.lower())), None)
    if known is not None or unit.lower() in ("hr", "hrs"):
        return f"did you mean `{digits}{known or 'h'}`?"
    parts = re.findall(r"([0-9]{1,9})([dhms])", value.lower())
    if "".join(count + name for count, name in parts) != value.lower():
        return None
    smallest = min((name for _, name in parts), key=_SECONDS.__getitem__)
    total = sum(int(count) * _SECONDS[name] for count, name in parts) // _SECONDS[smallest]
    return f"a duration has one unit: write {total}{smallest}"
