"""The text of a suite → YAML nodes that know their places, or what is wrong with the YAML.

In: a `Source`. Out: mappings, lists and scalars with spans. What stands between the parentheses of `Name(…)` is kept
from YAML, to which a comma, a colon or a quote there would mean something else. It knows nothing of suites.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import yaml

from augury.diagnostics import Findings, Source, Span

_HIDDEN: Final = ",'\"[]{}:#&*!|>%@`?\\"
_HIDING: Final = {ord(char): 0xF8A0 + i for i, char in enumerate(_HIDDEN)}
_SHOWING: Final = {hidden: char for char, hidden in _HIDING.items()}
"""Characters of the private use area, one for each that YAML might take for its own: places stay as they are."""

_BEGIN: Final = re.compile(
    r"(?:(?<=- )|(?<=: )|(?<=[\[,\n]))[ \t]*(?:(?:withdraw|change|announce)[ \t]+)?[^\W\d]\w*(?=\()", re.IGNORECASE
)
_FOR: Final = re.compile(r"[ \t]+for[ \t]+[^\W\d]\w*(?=\()", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text; `offset` is where its first character stands, or None where it is not written as it reads."""

    text: str
    span: Span
    is_plain: bool
    offset: int | None


@dataclass(frozen=True, slots=True)
class Items:
    """A list; `is_alias` says that it stands elsewhere, too."""

    items: tuple[Node, ...]
    span: Span
    is_flow: bool
    is_alias: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and its value."""

    name: str
    name_span: Span
    value: Node


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping, with the column in which its names begin."""

    entries: tuple[Entry, ...]
    span: Span
    is_flow: bool
    indent: int


Node = Scalar | Items | Entries


def read_yaml(source: Source, findings: Findings) -> Node | None:
    """The document of a text; None where there is none, and findings say why."""
    text = hidden(source.text)
    try:
        node = _document(text)
        if node is None:
            findings.error("E540", "the suite is empty", Span(0, 0), helps=["it begins with program: FILE.bicepl"])
            return None
        return _Nodes(source.text, findings).node(node, 0)
    except yaml.reader.ReaderError as error:
        place = min(error.position, len(text))
        message = f"the character U+{ord(text[place]) if place < len(text) else 0:04X} cannot stand in a suite"
        helps = ['write it between double quotes, as "\\u00e9"']
        findings.error("E540", message, Span(place, min(place + 1, len(text))), helps=helps)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = min(mark.index if mark else 0, len(text))
        message = f"this is no YAML: {shown(error.problem or error.context or 'it cannot be read')}"
        helps = ["between brackets, quote what holds a comma; or write an entry a line, after `- `"]
        findings.error("E540", message, Span(place, min(place + 1, len(text))), helps=helps)
    except RecursionError:
        findings.error("E540", "the suite is nested too deeply", Span(0, 0))
    return None


def _document(text: str) -> yaml.Node | None:
    loader = yaml.SafeLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def hidden(text: str) -> str:
    """The text with what stands between the parentheses of `Name(…)` hidden from YAML; as long as before."""
    if any(chr(code) in text for code in _SHOWING):
        return text
    pieces, done = [], 0
    while begin := _BEGIN.search(text, done):
        end = begin.end()
        while (closing := _closing(text, end)) is not None:
            pieces += [text[done : end + 1], text[end + 1 : closing].translate(_HIDING)]
            done = closing
            more = _FOR.match(text, closing + 1)
            if more is None:
                break
            end = more.end()
        if done < begin.end():
            pieces.append(text[done : begin.end()])
            done = begin.end()
    return "".join([*pieces, text[done:]])


def shown(text: str) -> str:
    """The text as it was written."""
    return text.translate(_SHOWING)


def _closing(text: str, opening: int) -> int | None:
    """Where the parenthesis closes that opens there, in the same line; quotes hide what stands in them."""
    depth, quote, place = 0, "", opening
    while place < len(text) and text[place] != "\n":
        char = text[place]
        if quote:
            place += char == "\\" and quote == '"'
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
            if not depth:
                return place
        place += 1
    return None


_DEPTH_MAX: Final = 20


@dataclass(slots=True)
class _Nodes:
    """Makes nodes of YAML's."""

    text: str
    findings: Findings

    def node(self, node: yaml.Node, depth: int, after: int = 0) -> Node:
        """A node; what begins before `after` is an alias of something above."""
        span = Span(node.start_mark.index, self._end(node))
        is_alias = span.start < after
        if depth > _DEPTH_MAX:
            raise RecursionError
        match node:
            case yaml.ScalarNode():
                return self.scalar(node, span)
            case yaml.SequenceNode():
                items = tuple(self.node(item, depth + 1, span.start) for item in node.value)
                return Items(items, span, bool(node.flow_style), is_alias)
            case yaml.MappingNode():
                return self.entries(node, span, depth)
            case _:
                raise AssertionError("YAML has no other nodes")

    def entries(self, node: yaml.MappingNode, span: Span, depth: int) -> Entries:
        found: dict[str, Entry] = {}
        for key, value in node.value:
            key_span = Span(key.start_mark.index, self._end(key))
            if not isinstance(key, yaml.ScalarNode):
                self.findings.error("E540", "a name is a word, and not a list", key_span)
                continue
            name = shown(key.value)
            if name in found:
                self.findings.error("E540", f"`{name}` is said twice", key_span, helps=["leave one of them out"])
                continue
            found[name] = Entry(name, key_span, self.node(value, depth + 1, key_span.start))
        return Entries(tuple(found.values()), span, bool(node.flow_style), node.start_mark.column)

    def scalar(self, node: yaml.ScalarNode, span: Span) -> Scalar:
        text = shown(node.value)
        offset = span.start + (0 if node.style is None else 1)
        as_it_reads = self.text[offset : offset + len(text)] == text
        return Scalar(text, span, node.style is None, offset if as_it_reads else None)

    def _end(self, node: yaml.Node) -> int:
        """YAML has a block end where the next thing begins: blanks and comments between are not part of it."""
        start, end = node.start_mark.index, node.end_mark.index
        if not isinstance(node, yaml.CollectionNode) or node.flow_style:
            return int(end)
        last = [self._end(one[1] if isinstance(one, tuple) else one) for one in node.value[-1:]]
        return max([start, *last]) if all(one >= start for one in last) else int(end)
