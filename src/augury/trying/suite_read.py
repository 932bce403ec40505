"""The text of a suite → a `Suite`, or everything in it that is not as it should be.

In: a `Source` that holds YAML. Out: a `Suite`, or diagnostics with lines and columns. It reads no program: whether
there are such classes, attributes and actions is asked by `suite_names`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from augury import limits
from augury.diagnostics import Findings, Source, Span
from augury.trying.suite import ALL_ORDERS, ENGINES, EXACT, Demand, Expectation, Kind, Said, Step, Suite, Test, Unusable
from augury.trying.suite_long import read_long
from augury.trying.suite_notation import ABOUT_TIMES, Misread, read_said, time_us
from augury.trying.suite_yaml import Entries, Entry, Items, Node, Scalar, read_yaml

_T = TypeVar("_T")

START_US: Final = 1_767_225_600_000_000
"""2026-01-01, where a suite does not say from when offsets count."""

_SUITE: Final = ("program", "start", "engines", "tests")
_DEMANDS: Final = tuple(demand.value for demand in Demand)
_STEP: Final = ("events", "advance_to", *_DEMANDS)
_TEST: Final = ("name", "start", "engines", "permutations", "steps", *_STEP)


def read_suite(source: Source) -> Suite | Unusable:
    """What a suite says, or all that is wrong with it."""
    findings = Findings()
    document = read_yaml(source, findings)
    suite = None if document is None else _Suites(source, findings).suite(document)
    if suite is None or findings.has_errors():
        return Unusable(source, findings.sorted())
    return suite


@dataclass(slots=True)
class _Suites:
    """Reads nodes, and notes what is wrong with them."""

    source: Source
    findings: Findings
    start_us: int = START_US

    def wrong(self, message: str, span: Span, *helps: str) -> None:
        """Note an error."""
        self.findings.error("E540", message, span, helps=helps)

    # ---- the whole -------------------------------------------------------------------------------

    def suite(self, document: Node) -> Suite | None:
        found = self.mapping(document, _SUITE, "a suite")
        if found is None:
            return None
        for name in ("program", "tests"):
            if name not in found:
                self.wrong(f"the suite has no `{name}`", Span(0, 0), f"add {name}:")
        self.start_us = self.start(found.get("start"), START_US)
        engines = self.engines(found.get("engines"), ("local",))
        program = self.text(found["program"]) if "program" in found else None
        tests = self.each(found["tests"], lambda node: self.test(node, engines)) if "tests" in found else []
        if "tests" in found and not tests and not self.findings.has_errors():
            self.wrong("there are no tests", found["tests"].name_span, "begin one with `- name: …`")
        if program is None:
            return None
        return Suite(self.source, program.text, program.span, tuple(one for one in tests if one is not None))

    def start(self, entry: Entry | None, default: int) -> int:
        return self.time(entry, default) if entry is not None else default

    def engines(self, entry: Entry | None, default: tuple[str, ...]) -> tuple[str, ...]:
        if entry is None:
            return default
        names = []
        for text in self.each(entry, lambda node: self.scalar(node, "an engine")):
            if text is None:
                continue
            if text.text not in ENGINES:
                self.wrong(f"there is no engine `{text.text}`", text.span, *self.meant(text.text, ENGINES))
            names.append(text.text)
        if not names:
            self.wrong("no engine is named", entry.name_span, f"engines are {', '.join(ENGINES)}")
        return tuple(dict.fromkeys(names))

    # ---- tests -----------------------------------------------------------------------------------

    def test(self, node: Node, engines: tuple[str, ...]) -> Test | None:
        found = self.mapping(node, _TEST, "a test")
        if found is None:
            return None
        assert isinstance(node, Entries), "as `mapping` has seen"
        line_end = self.source.text.find("\n", node.span.start)
        first_line = Span(node.span.start, min(node.span.end, line_end if line_end >= 0 else node.span.end))
        name = self.text(found["name"]) if "name" in found else None
        if "name" not in found:
            self.wrong("the test has no `name`", first_line, "add name: what it shows")
        suite_start, self.start_us = self.start_us, self.start(found.get("start"), self.start_us)
        whole = self.step(found, node.span, node.is_flow)
        steps = self.each(found["steps"], self.steps) if "steps" in found else []
        self.start_us, test_start = suite_start, self.start_us
        return Test(
            " ".join(name.text.split()) if name is not None else "",
            first_line,
            node.span,
            test_start,
            whole,
            tuple(one for one in steps if one is not None),
            self.orders(found.get("permutations")),
            self.engines(found.get("engines"), engines),
            node.indent,
            node.is_flow,
        )

    def orders(self, entry: Entry | None) -> int:
        text = None if entry is None else self.text(entry)
        match text.text if text is not None else "none":
            case "none":
                return 0
            case "all":
                return ALL_ORDERS
            case count if _is_number(count) and 1 < int(count) <= limits.SUITE_ORDERS_MAX:
                return int(count)
            case other:
                assert text is not None
                most = f"{limits.SUITE_ORDERS_MAX:,}"
                message = f"`permutations` is all, none or a number from 2 to {most}, not `{other}`"
                self.wrong(message, text.span, "write permutations: all")
                return 0

    def steps(self, node: Node) -> Step | None:
        found = self.mapping(node, _STEP, "a step")
        if found is None:
            return None
        return self.step(found, node.span, isinstance(node, Entries) and node.is_flow)

    def step(self, found: dict[str, Entry], span: Span, is_inline: bool) -> Step:
        given = found.get("events")
        events = [] if given is None else self.each(given, lambda node: self.line(node, Kind.EVENT, is_given=True))
        ends = found.get("advance_to")
        return Step(
            span,
            tuple(one for one in events if one is not None),
            self.time(ends, self.start_us) if ends is not None else None,
            ends.value.span if ends is not None else None,
            tuple(self.expectation(Demand(name), found[name], is_inline) for name in _DEMANDS if name in found),
        )

    def expectation(self, demand: Demand, entry: Entry, is_inline: bool) -> Expectation:
        kind = EXACT.get(demand, Kind.EITHER)
        lines = self.each(entry, lambda node: self.line(node, kind, is_given=False))
        said = tuple(one for one in lines if one is not None)
        value = entry.value
        is_flow, is_alias = isinstance(value, Items) and value.is_flow, isinstance(value, Items) and value.is_alias
        return Expectation(demand, said, entry.name_span, value.span, is_flow, is_inline, is_alias)

    # ---- lines -----------------------------------------------------------------------------------

    def line(self, node: Node, kind: Kind, *, is_given: bool) -> Said | None:
        try:
            match node:
                case Scalar(text):
                    said = self.placed(read_said(text, kind, self.start_us), node)
                case Entries():
                    said = read_long(node, kind, self.start_us, self.source.text, is_given=is_given)
                case Items(span=span):
                    raise Misread("a line is a text or a mapping, not a list", span)
        except Misread as error:
            span = self.inside(error.span, node) if isinstance(node, Scalar) else error.span
            self.wrong(str(error), span, *error.helps)
            return None
        return said if self.is_fit(said, is_given=is_given) else None

    def is_fit(self, said: Said, *, is_given: bool) -> bool:
        """Whether the line says what one of its kind can, and must."""
        complaint = _about_given(said) if is_given else _about_expected(said)
        if complaint:
            self.wrong(complaint[0], said.span, complaint[1])
        return complaint is None

    def placed(self, said: Said, node: Scalar) -> Said:
        """With places in the suite, instead of in the text."""
        arguments = said.arguments
        if arguments is not None:
            arguments = tuple(replace(one, span=self.inside(one.span, node)) for one in arguments)
        about = None if said.about is None else self.placed(said.about, node)
        span, name_span = self.inside(said.span, node), self.inside(said.name_span, node)
        return replace(said, arguments=arguments, about=about, span=span, name_span=name_span)

    @staticmethod
    def inside(span: Span, node: Scalar) -> Span:
        if node.offset is None:
            return node.span
        return Span(node.offset + span.start, node.offset + span.end)

    # ---- nodes -----------------------------------------------------------------------------------

    def mapping(self, node: Node, names: Sequence[str], what: str) -> dict[str, Entry] | None:
        if not isinstance(node, Entries):
            self.wrong(f"{what} is a mapping with {', '.join(names)}", node.span, f"write {names[0]}: …")
            return None
        for entry in node.entries:
            if entry.name not in names:
                self.wrong(f"{what} has no `{entry.name}`", entry.name_span, *self.meant(entry.name, names))
        return {entry.name: entry for entry in node.entries if entry.name in names}

    def meant(self, word: str, names: Iterable[str]) -> list[str]:
        known = list(names)
        meant = self.findings.closest(word[:200], known)
        return [f"did you mean `{meant}`?"] if meant else [f"known are {', '.join(known)}"]

    def each(self, entry: Entry, read: Callable[[Node], _T]) -> list[_T]:
        match entry.value:
            case Items(items):
                return [read(item) for item in items]
            case Scalar("" | "~" | "null", is_plain=True):
                return []
            case node:
                self.wrong(f"`{entry.name}` is a list", node.span, "write an entry a line, after `- `")
                return []

    def scalar(self, node: Node, what: str) -> Scalar | None:
        if isinstance(node, Scalar) and node.text:
            return node
        self.wrong(f"{what} is a text", node.span)
        return None

    def text(self, entry: Entry) -> Scalar | None:
        value = entry.value
        # What is not there has no place of its own.
        shown = replace(value, span=entry.name_span) if isinstance(value, Scalar) and not value.text else value
        return self.scalar(shown, f"`{entry.name}`")

    def time(self, entry: Entry, default: int) -> int:
        text = self.text(entry)
        if text is None:
            return default
        found = time_us(text.text, self.start_us)
        if found is None:
            self.wrong(f"`{text.text}` is no time", text.span, ABOUT_TIMES)
        return default if found is None else found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10  # Python refuses thousands of digits


def _about_given(said: Said) -> tuple[str, str] | None:
    """What is wrong with an event that is given, and what to do."""
    if said.about is not None:
        return "`for` belongs to actions", "leave it out"
    if said.seq is not None or said.constituents is not None:
        return "an event that comes has no `seq` and no `constituents` yet", "leave them out"
    if said.is_open:
        return "an event that comes is given in full", "leave `...` out: attributes that are not named are NULL"
    if said.change == "withdraw":
        if said.at_us is not None:
            return "a withdrawal happens at no time: it only becomes known", "write seen instead of at"
        return None if said.seen_us is not None else ("it does not say when it was seen", "add seen 10s")
    if said.change is not None:
        return f"whether it is a{'n' * (said.change[0] == 'a')} {said.change} follows from the versions before", (
            "leave the word out; only `withdraw` can be said"
        )
    if said.at_us is None and said.seen_us is None:
        return "it does not say when it happens", "add at 10s, or seen 10s, or both"
    return None


def _about_expected(said: Said) -> tuple[str, str] | None:
    """What is wrong with an event, action or firing that is expected, and what to do."""
    if said.times > 1 or said.every_us:
        return "what is expected is not repeated", "write a line for each"
    if said.event_id is not None or said.is_rejected:
        return "`id` and `rejected` belong to events that come", "leave them out"
    if said.kind is Kind.EVENT and said.about is not None:
        return "`for` belongs to actions", "leave it out"
    if said.kind in (Kind.ACTION, Kind.FIRING) and (said.seen_us is not None or said.change is not None):
        what = "an action" if said.kind is Kind.ACTION else "a firing"
        return f"{what} has one time, that of its tick", "write at, and neither seen nor change"
    return None
