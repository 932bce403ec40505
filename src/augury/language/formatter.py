"""Text → the same program in its canonical form, with all its comments: what `augury fmt` prints.

Comments between statements stay where they are. One inside a statement moves to where the canonical form lets a
line end, and makes it end there: the next such place if it stood at the end of a line, else the last.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lark import Token

from augury.diagnostics import Diagnostic, Findings
from augury.language.layout import Doc, Remarks, flatten, lay_out
from augury.language.lexer import lex
from augury.language.parser import parse
from augury.language.printer import statement_doc
from augury.language.syntax import Comment, Program, Statement


def format_text(text: str) -> str | tuple[Diagnostic, ...]:
    """The canonical form of a text, or the diagnostics that say why it cannot be read."""
    findings = Findings()
    program = parse(text, findings).program
    if findings.has_errors():
        return findings.sorted()
    return _assembled(_paragraphs(text, program))


# ---- between statements ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """A comment or a statement that starts a line, and whether the text has a blank line before it."""

    text: str
    blank_before: bool
    is_statement: bool


def _assembled(paragraphs: Iterable[_Paragraph]) -> str:
    """Blank lines stay, one at a time; statements of several lines are set apart."""
    parts: list[str] = []
    before: _Paragraph | None = None
    for paragraph in paragraphs:
        if before is not None:
            is_long = "\n" in before.text or (paragraph.is_statement and "\n" in paragraph.text)
            apart = paragraph.blank_before or (before.is_statement and is_long)
            parts.append("\n" if apart else "")
        parts += [paragraph.text, "\n"]
        before = paragraph
    return "".join(parts)


def _paragraphs(text: str, program: Program) -> Iterator[_Paragraph]:
    lexed = lex(text, Findings())
    comments = deque(lexed.comments)
    position = 0

    def blank_before(start: int) -> bool:
        return text.count("\n", position, start) > 1

    for statement, tokens, limit in _statements(program, lexed.tokens, len(text)):
        start, end = tokens[0].start_pos or 0, tokens[-1].end_pos or 0
        for comment in _taken(comments, start):
            yield _Paragraph(comment.text, blank_before(comment.span.start), False)
            position = comment.span.end
        blank = blank_before(start)
        doc = statement_doc(statement)
        above, remarks, beside = _placed(text, doc, tokens, _taken(comments, end))
        for line in above:
            yield _Paragraph(line, blank, False)
            blank = False
        line_end = text.find("\n", end, limit)
        on_last_line = _taken(comments, limit if line_end < 0 else line_end)
        position = on_last_line[-1].span.end if on_last_line else end
        beside += [comment.text for comment in on_last_line]
        yield _Paragraph("  ".join([lay_out(doc, remarks), *beside[:1]]), blank, True)
        for line in beside[1:]:
            yield _Paragraph(line, False, False)
    for comment in comments:
        yield _Paragraph(comment.text, blank_before(comment.span.start), False)
        position = comment.span.end


def _statements(
    program: Program, tokens: Sequence[Token], length: int
) -> Iterator[tuple[Statement, Sequence[Token], int]]:
    """Each statement with its tokens, up to its `;`, and the place where the next one starts."""
    groups: list[list[Token]] = []
    ended = True
    for token in tokens:
        is_end = token.type == "SEMI"
        if not ended:
            groups[-1].append(token)
        elif not is_end:
            groups.append([token])
        ended = is_end
    starts = [group[0].start_pos or 0 for group in groups]
    return zip(program.statements, groups, [*starts[1:], length][: len(groups)], strict=True)


def _taken(comments: deque[Comment], before: int) -> list[Comment]:
    taken: list[Comment] = []
    while comments and comments[0].span.start < before:
        taken.append(comments.popleft())
    return taken


# ---- inside a statement ------------------------------------------------------------------------------------

# What the canonical form may leave out, add or write differently; all other tokens are the same, one for one.
_LOOSE = frozenset({"LPAR", "RPAR", "LBRACE", "RBRACE", "PLUS", "MINUS"})


def _firm(tokens: Sequence[Token]) -> list[int]:
    """Where the tokens start that a text has in common with its canonical form."""
    return [
        token.start_pos or 0
        for i, token in enumerate(tokens)
        if token.type not in _LOOSE and not (token.type == "COMMA" and _ends_star(tokens, i))
    ]


def _ends_star(tokens: Sequence[Token], comma: int) -> bool:
    """Whether a comma is that of `E{0,}`, which is `E*`."""
    count, closing = tokens[comma - 1], tokens[comma + 1]
    return closing.type == "RBRACE" and count.type == "NUMBER" and not count.value.strip("0")


def _placed(
    text: str, doc: Doc, tokens: Sequence[Token], comments: Sequence[Comment]
) -> tuple[list[str], dict[int, Remarks], list[str]]:
    """Comments of a statement that go above it, those at its breaks, and those that go beside its end.

    Both texts are seen as their firm tokens: a place is the number of these before it. A comment goes to the
    break at its own place or, if there is none, to the nearest; none is moved past another.
    """
    if not comments:
        return [], {}, []
    flat = flatten(doc)
    firm, printed = _firm(tokens), _firm(lex(flat.text, Findings()).tokens)
    assert len(firm) == len(printed), "the canonical form has the same firm tokens"
    breaks = {bisect_left(printed, at): i for i, (at, place) in enumerate(flat.breaks) if not place.bare}
    places = list(breaks)
    starts = [token.start_pos or 0 for token in tokens]
    found: list[list[tuple[str, bool]]] = [[] for _ in range(len(places) + 2)]
    slot = 0
    for comment in comments:
        at = comment.span.start
        place = bisect_left(firm, at)
        ended = tokens[bisect_left(starts, at) - 1].end_pos or 0
        at_end = text.find("\n", ended, at) < 0
        wanted = bisect_left(places, place) + 1 if at_end else bisect_right(places, place)
        slot = max(slot, wanted)
        found[slot].append((comment.text, at_end))
    above, *between, beside = found
    remarks = {breaks[place]: _remarks(here) for place, here in zip(places, between, strict=True) if here}
    return [line for line, _ in above], remarks, [line for line, _ in beside]


def _remarks(comments: Sequence[tuple[str, bool]]) -> Remarks:
    (first, at_end), *others = comments
    lines = [line for line, _ in others]
    return Remarks(first, tuple(lines)) if at_end else Remarks(None, (first, *lines))
