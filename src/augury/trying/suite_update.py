"""What was got → the text of a suite in which it is expected; comments and layout stay as they are elsewhere.

In: a source and results. Out: the new text, and what could not be written down. Only lists that say all there is
of a kind (`expect`, `expect_actions`, `expect_firings`) and that do not hold are rewritten, and of them the lines that
hold stay as written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from augury.diagnostics import Source, Span
from augury.trying.suite import EXACT, Expectation, Kind, Said
from augury.trying.suite_bound import BoundTest, Check, Got, Result
from augury.trying.suite_compare import matched, unmet, within
from augury.trying.suite_written import written


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a rewritten list: one that stands in the suite already, or a new one."""

    text: str
    said: Said | None = None


@dataclass(slots=True)
class Update:
    """Edits of a text, and what has to be edited by hand."""

    source: Source
    edits: list[tuple[Span, str]] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text with all edits made."""
        text = self.source.text
        for span, new in sorted(self.edits, key=lambda edit: (edit[0].start, edit[0].end), reverse=True):
            text = text[: span.start] + new + text[span.end :]
        return text

    def line_start(self, place: int) -> int:
        """Where the line begins that a place is in."""
        return self.source.text.rfind("\n", 0, place) + 1

    def line_end(self, place: int) -> int:
        """Where that line ends, before its line break."""
        found = self.source.text.find("\n", place)
        return len(self.source.text) if found < 0 else found

    def refuse(self, span: Span, why: str) -> None:
        """Note what is not rewritten."""
        self.by_hand.append(f"line {self.source.position(span.start)[0]}: {why}")


def updated(source: Source, results: Sequence[Result]) -> Update:
    """The suite with what was got on the first engine of each test."""
    update = Update(source)
    for result in results:
        bound = result.bound
        if result.engine != bound.test.engines[0] or result.is_lacking:
            continue
        if not bound.test.can_fail:
            _add(update, result)
        for check in bound.checks:
            if check.expectation.demand in EXACT and unmet(bound, check, result.ran) is not None:
                _rewrite(update, check.expectation, _entries(bound, check, within(result.ran.got, check)))
    return update


def _entries(bound: BoundTest, check: Check, got: Sequence[Got]) -> list[Entry]:
    """What a list should hold: the lines that hold in their order, new ones after what comes before them."""
    of_got = {id(line): one for one, line in matched(check.wanted, got) if one is not None and line is not None}
    kept = {id(of_got[id(line)].said): line for line in got if id(line) in of_got}
    found: list[tuple[Got, Entry]] = []
    for said in check.expectation.lines:
        if id(said) in kept:
            found.append((kept[id(said)], Entry(said.written, said)))
    for place, line in enumerate(got):
        if id(line) in of_got:
            continue
        before = {id(one) for one in got[:place]}
        after = max((i for i, (one, _) in enumerate(found, 1) if id(one) in before), default=0)
        found.insert(after, (line, Entry(written(line, bound.test.start_us))))
    return [entry for _, entry in found]


def _add(update: Update, result: Result) -> None:
    """Expectations for a test that has none, after all else that it says."""
    test = result.bound.test
    if test.is_inline:
        update.refuse(test.span, "a test between braces is not added to")
        return
    place = update.line_end(test.body_span.end - 1)
    lines = []
    for demand, kind in EXACT.items():
        texts = [written(got, test.start_us) for got in result.ran.got if got.kind is kind]
        if kind is Kind.FIRING and not texts:
            continue  # most programs have no triggers
        lines.append(f"{' ' * test.indent}{demand}:{'' if texts else ' []'}")
        lines += [_item(" " * (test.indent + 2), text) for text in texts]
    update.edits.append((Span(place, place), "".join(f"\n{line}" for line in lines)))


def _rewrite(update: Update, expectation: Expectation, entries: Sequence[Entry]) -> None:
    if expectation.is_shared:
        update.refuse(expectation.key_span, f"`{expectation.demand}` is an alias: its list stands elsewhere")
    elif expectation.is_inline:
        update.edits.append((expectation.span, f"[{', '.join(map(_flow_item, entries))}]"))
    elif expectation.is_flow or not expectation.lines:
        _unfold(update, expectation, entries)
    elif not entries:
        _empty(update, expectation)
    else:
        begin, indent = _begin(update, expectation.lines[0])
        chunks = dict(_chunks(update, expectation.lines))
        lines = [_item(indent, one.text) if one.said is None else chunks[id(one.said)] for one in entries]
        end = update.line_end(expectation.lines[-1].span.end)
        update.edits.append((Span(begin, end), "\n".join(lines)))


def _chunks(update: Update, lines: Sequence[Said]) -> Iterator[tuple[int, str]]:
    """The lines of each entry as they stand, with the comments above."""
    begin, _ = _begin(update, lines[0])
    for said in lines:
        end = update.line_end(said.span.end)
        yield id(said), update.source.text[begin:end]
        begin = end + 1


def _begin(update: Update, first: Said) -> tuple[int, str]:
    """Where the lines of the first entry begin, with comments of its own; and what stands before its dash."""
    text, begin = update.source.text, update.line_start(first.span.start)
    indent = text[begin:].partition("-")[0]
    while begin and text.startswith(f"{indent}#", above := update.line_start(begin - 1)):
        begin = above
    return begin, indent


def _unfold(update: Update, expectation: Expectation, entries: Sequence[Entry]) -> None:
    """A list between brackets, or an empty one, as one with an entry a line."""
    text = update.source.text
    colon = text.index(":", expectation.key_span.end) + 1
    begin, end = max(expectation.span.start, colon), max(expectation.span.end, colon)
    if not text[colon:begin].strip():
        begin = colon
    indent = " " * (update.source.position(expectation.key_span.start)[1] + 1)
    lines = "".join(f"\n{_item(indent, one.text)}" for one in entries)
    update.edits.append((Span(begin, end), lines or " []"))


def _empty(update: Update, expectation: Expectation) -> None:
    """No entry is left."""
    colon = update.source.text.index(":", expectation.key_span.end) + 1
    begin = _begin(update, expectation.lines[0])[0] - 1
    update.edits.append((Span(colon, colon), " []"))
    update.edits.append((Span(max(begin, colon), update.line_end(expectation.lines[-1].span.end)), ""))


def _item(indent: str, text: str) -> str:
    return f"{indent}- {json.dumps(text, ensure_ascii=False) if '`' in text else text}"


def _flow_item(entry: Entry) -> str:
    is_mapping = entry.said is not None and entry.text.startswith("{")
    return entry.text if is_mapping else json.dumps(entry.text, ensure_ascii=False)
