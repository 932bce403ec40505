"""The short notation of suites: `Withdrawal(card=1, amount=950) at 10s seen 12s` → a `Said`.

In: a text, where it stands in the suite, and the start that offsets count from. Out: a `Said`, or a `Misread` with the
place and what to do. It knows no program: whether there is such a class is not asked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, NamedTuple

from augury.clock import UNIT_US
from augury.diagnostics import Span, closest
from augury.trying.suite import CHANGES, REPEATS_MAX, Argument, Kind, Said
from augury.trying.suite_values import OPERATORS, Anything, Constant, Formula, Offset, Value, iso_us

_LENGTHS: Final = r"\d+(?:\.\d+)?(?:ms|us|d|h|m|s)"
_TOKEN: Final = re.compile(
    rf"""\s*(?:
      (?P<text>'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")
    | (?P<name>`[^`]+`)
    | (?P<iso>\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)
    | (?P<offset>(?:{_LENGTHS})+(?!\w))
    | (?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{{1,3}})?(?!\w))
    | (?P<rest>\.\.\.|…)
    | (?P<word>[^\W\d]\w*)
    | (?P<mark>[(),=+*/%-])
    | (?P<odd>\S)
    )""",
    re.VERBOSE,
)
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|us|d|h|m|s)")
_SIZES: Final = {**UNIT_US, "ms": 1_000, "us": 1}
_TIMES_US: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 1 to 9999."""

_NESTING_MAX: Final = 50
_CLAUSES: Final = ("at", "seen", "every", "times", "id", "rejected", "for")


class Misread(Exception):
    """A text that is not as it should be: what is wrong, where in the text, and what to do."""

    def __init__(self, message: str, span: Span, *helps: str) -> None:
        """Keep it."""
        super().__init__(message)
        self.span = span
        self.helps = helps


class Token(NamedTuple):
    """A word of the notation, as it is written, and its place in the text."""

    kind: str
    text: str
    span: Span


def length_us(text: str) -> int | None:
    """The microseconds of `1h30m`, `-5s` or `0`; None if it is no length of time."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if digits == "0":
        return 0
    if len(digits) > 60 or not re.fullmatch(f"(?:{_LENGTHS})+", digits):
        return None
    total = sum(Decimal(count) * _SIZES[unit] for count, unit in _LENGTH.findall(digits))
    return sign * int(total) if total == int(total) else None


def time_us(text: str, start_us: int) -> int | None:
    """A time as suites write it: an offset from the start, or an ISO time; None if it is none, or too far off."""
    length = length_us(text.strip())
    found = iso_us(text.strip()) if length is None else start_us + length
    return found if found is not None and _TIMES_US[0] <= found <= _TIMES_US[1] else None


def read_said(text: str, kind: Kind, start_us: int) -> Said:
    """What a short line says, with places in the text itself; raises `Misread`."""
    return _Reader(text, start_us).said(kind)


def read_value(text: str, start_us: int) -> Value:
    """What a value by itself says; raises `Misread`."""
    reader = _Reader(text, start_us)
    value = reader.value()
    reader.expect_end()
    return value


def constant_of(text: str) -> Constant | None:
    """TRUE, FALSE or NULL, however they are spelled."""
    word = text.casefold()
    found = {"true": True, "false": False, "null": None}
    return Constant(found[word], text) if word in found else None


@dataclass(slots=True)
class _Reader:
    """Goes over a text word by word."""

    text: str
    start_us: int
    tokens: list[Token] = field(init=False)
    place: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        """Cut the text into words."""
        self.tokens = []
        for found in _TOKEN.finditer(self.text):
            kind = found.lastgroup or "odd"
            token = Token(kind, found[kind], Span(*found.span(kind)))
            if kind == "odd":
                raise _odd(token)
            self.tokens.append(token)
        self.tokens.append(Token("end", "", Span(len(self.text), len(self.text))))

    # ---- words -----------------------------------------------------------------------------------

    @property
    def now(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        token = self.now
        self.place += token.kind != "end"
        return token

    def takes(self, text: str) -> bool:
        if self.now.kind not in ("mark", "word", "rest") or self.now.text.casefold() != text:
            return False
        self.place += 1
        return True

    def expect_end(self) -> None:
        if self.now.kind != "end":
            raise Misread(f"`{self.now.text}` is not understood here", self.now.span, _ABOUT_QUOTES)

    # ---- lines -----------------------------------------------------------------------------------

    def said(self, kind: Kind) -> Said:
        change = self.take().text.casefold() if self.is_prefix() else None
        name = self.take()
        if name.kind not in ("word", "name"):
            what = {Kind.ACTION: "an action", Kind.FIRING: "a firing"}.get(kind, "an event")
            raise Misread(f"{what} begins with its name", name.span, "write Name(attribute=value, …) at 10s")
        arguments, is_open = self.arguments() if self.takes("(") else (None, False)
        plain = name.text.strip("`")
        said = Said(kind, plain, name.span, name.span, self.text.strip(), arguments, is_open, change)
        said = self.clauses(said)
        return replace(said, span=Span(self.tokens[0].span.start, self.tokens[self.place - 1].span.end))

    def is_prefix(self) -> bool:
        """Whether the line begins with `withdraw` or the like, and not with a name that is called so."""
        if self.now.kind != "word" or self.now.text.casefold() not in CHANGES:
            return False
        after, next_but_one = (self.tokens[min(self.place + i, len(self.tokens) - 1)] for i in (1, 2))
        is_clause = after.kind == "word" and after.text.casefold() in _CLAUSES and next_but_one.text != "("
        return after.kind in ("word", "name") and not is_clause

    def arguments(self) -> tuple[tuple[Argument, ...], bool]:
        found: list[Argument] = []
        if self.takes(")"):
            return (), False
        while True:
            if self.takes("...") or self.takes("…"):
                self.close()
                return tuple(found), True
            found.append(self.argument())
            if not self.takes(","):
                self.close()
                return tuple(found), False

    def close(self) -> None:
        if not self.takes(")"):
            raise Misread("a `)` is missing", self.now.span, _ABOUT_QUOTES)

    def argument(self) -> Argument:
        first, named = self.now, self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        name = None
        if first.kind in ("word", "name") and named.kind == "mark" and named.text == "=":
            name = first.text.strip("`")
            self.place += 2
        value = self.value()
        return Argument(name, value, first.span.to(self.tokens[self.place - 1].span))

    def clauses(self, said: Said) -> Said:
        seen: set[str] = set()
        while self.now.kind != "end":
            word = self.take()
            name = word.text.casefold()
            if word.kind != "word" or name not in _CLAUSES:
                meant = closest(word.text, _CLAUSES) if word.kind == "word" else None
                helps = [f"did you mean `{meant}`?"] if meant else [_ABOUT_CLAUSES]
                raise Misread(f"`{word.text}` is not understood here", word.span, *helps)
            if name in seen:
                raise Misread(f"`{name}` is said twice", word.span, "leave one of them out")
            seen.add(name)
            said = self.clause(said, name)
        if ("every" in seen) != ("times" in seen):
            raise Misread("`every` and `times` go together", said.name_span, "write every 5s times 10")
        return said

    def clause(self, said: Said, name: str) -> Said:
        match name:
            case "at":
                return replace(said, at_us=self.time())
            case "seen":
                return replace(said, seen_us=self.time())
            case "every":
                return replace(said, every_us=self.every())
            case "times":
                return replace(said, times=self.times())
            case "id":
                token = self.take()
                if token.kind not in ("word", "text", "number"):
                    raise Misread("an id is missing", token.span, "write id 'a-1'")
                return replace(said, event_id=_text_of(token) if token.kind == "text" else token.text)
            case "rejected":
                return replace(said, is_rejected=True)
            case _:
                return replace(said, about=self.about())

    def about(self) -> Said:
        name = self.take()
        if name.kind not in ("word", "name"):
            raise Misread("the class of an event is missing", name.span, "write for Delivery(resource=milk)")
        arguments, is_open = self.arguments() if self.takes("(") else (None, False)
        span = name.span.to(self.tokens[self.place - 1].span)
        written = self.text[span.start : span.end]
        return Said(Kind.EVENT, name.text.strip("`"), name.span, span, written, arguments, is_open)

    # ---- times -----------------------------------------------------------------------------------

    def time(self) -> int:
        sign, token = self.sign(), self.take()
        span = Span(sign.span.start, token.span.end) if sign else token.span
        found = time_us(self.text[span.start : span.end].replace(" ", "") if sign else token.text, self.start_us)
        if token.kind == "end" or found is None:
            raise Misread(f"`{token.text}` is no time" if token.text else "a time is missing", span, ABOUT_TIMES)
        return found

    def sign(self) -> Token | None:
        return self.take() if self.now.kind == "mark" and self.now.text in "+-" else None

    def every(self) -> int:
        token = self.take()
        found = length_us(token.text) if token.kind == "offset" else None
        if not found:
            raise Misread("`every` takes a length of time", token.span, "write every 5s times 10")
        return found

    def times(self) -> int:
        token = self.take()
        if token.kind != "number" or not token.text.isdigit() or not 1 <= int(token.text[:9]) <= REPEATS_MAX:
            raise Misread(f"`times` takes a whole number from 1 to {REPEATS_MAX:,}", token.span, "write times 10")
        return int(token.text)

    # ---- values ----------------------------------------------------------------------------------

    def value(self) -> Value:
        token = self.now
        after = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        is_alone = not (after.kind == "mark" and after.text in OPERATORS)
        match token.kind:
            case "text":
                self.take()
                return Constant(_text_of(token), token.text)
            case "iso":
                self.take()
                return Constant(token.text, token.text)
            case "offset":
                return self.offset("")
            case "word" | "name" if token.text.casefold() != "n" and is_alone:
                self.take()
                if token.text == "_":
                    return Anything()
                text = token.text.strip("`")
                return constant_of(token.text) or Constant(text, token.text)
            case "mark" if token.text in "+-" and after.kind == "offset":
                return self.offset(self.take().text)
            case _:
                return self.number()

    def offset(self, sign: str) -> Offset:
        token = self.take()
        length, moment = length_us(sign + token.text), time_us(sign + token.text, self.start_us)
        if length is None or moment is None:
            raise Misread(f"`{token.text}` is too long, or too fine: times are exact to the microsecond", token.span)
        return Offset(length, moment, sign + token.text)

    def number(self) -> Value:
        first = self.now
        steps: list[Decimal | str] = []
        self.sum(steps)
        written = self.text[first.span.start : self.tokens[self.place - 1].span.end]
        match steps:
            case [Decimal() as number]:
                return Constant(number, written)
            case [Decimal() as number, "neg"]:
                return Constant(-number, written)
            case _:
                return Formula(tuple(steps), written)

    def sum(self, steps: list[Decimal | str]) -> None:
        self.chain(steps, "+-", lambda: self.chain(steps, "*/%", lambda: self.factor(steps)))

    def chain(self, steps: list[Decimal | str], operators: str, operand: Callable[[], Any]) -> None:
        operand()
        while self.now.kind == "mark" and self.now.text in operators:
            operator = self.take().text
            operand()
            steps.append(operator)

    def factor(self, steps: list[Decimal | str]) -> None:
        token = self.take()
        self.depth += 1
        if self.depth > _NESTING_MAX:
            raise Misread("this is nested too deeply", token.span)
        match token:
            case Token("number", text):
                steps.append(Decimal(text))
            case Token("word", "n" | "N"):
                steps.append("n")
            case Token("mark", "-"):
                self.factor(steps)
                steps.append("neg")
            case Token("mark", "("):
                self.sum(steps)
                self.close()
            case Token("end"):
                raise Misread("a value is missing", token.span, _ABOUT_QUOTES)
            case _:
                raise Misread(f"`{token.text}` is no value here", token.span, _ABOUT_QUOTES)
        self.depth -= 1


ABOUT_TIMES: Final = "write an offset from the start, such as 90s, 1h30m or -5m, or a time: 2026-01-01T09:00:00Z"
_ABOUT_QUOTES: Final = "a text of more than letters, digits and _ stands between quotes: card='C-1001'"
_ABOUT_CLAUSES: Final = (
    "after an event stand: at T, seen T, every D times N, id X, rejected; after an action or firing: for E, at T"
)


def _odd(token: Token) -> Misread:
    if token.text in "'\"`":
        return Misread(f"a {token.text} is missing: the text never ends", token.span, "a ' inside a text is written ''")
    return Misread(f"`{token.text}` is not understood here", token.span, _ABOUT_QUOTES)


def _text_of(token: Token) -> str:
    if token.text[0] == "'":
        return token.text[1:-1].replace("''", "'")
    try:
        found = json.loads(token.text, strict=False)
    except ValueError:
        raise Misread(f"{token.text} has a \\ that means nothing", token.span, 'write \\\\, or \\" and \\n') from None
    assert isinstance(found, str), "it stands between quotes"
    return found
