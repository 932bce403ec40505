"""The long form of suites: `{event: Login, card: 2, at: 20s}`, or a line that `augury run` printed → a `Said`.

In: a mapping of YAML. Out: the same `Said` as the short notation gives; raises `Misread` with places in the suite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from augury.diagnostics import closest
from augury.trying.suite import CHANGES, REPEATS_MAX, Argument, Kind, Said
from augury.trying.suite_notation import ABOUT_TIMES, Misread, constant_of, length_us, read_value, time_us
from augury.trying.suite_values import Constant, Formula, Value
from augury.trying.suite_yaml import Entries, Entry, Items, Node, Scalar

_OTHER_NAMES: Final = {"occ_time": "at", "det_time": "seen", "tick": "at", "event_id": "id"}
_OF_EVENTS: Final = {
    "event",
    "at",
    "seen",
    "change",
    "seq",
    "constituents",
    "id",
    "every",
    "times",
    "withdraw",
    "rejected",
}
_OF_ACTIONS: Final = ("action", "args", "event", "key", "trigger", "rule", "at", "tick")
_OF_FIRINGS: Final = ("trigger", "args", "event", "key", "seq", "constituents", "at", "tick")


def read_long(node: Entries, kind: Kind, start_us: int, text: str, *, is_given: bool) -> Said:
    """What a mapping says; `text` is that of the suite. Raises `Misread`."""
    reader = _Reader(node, start_us, text[node.span.start : node.span.end])
    names = {entry.name for entry in node.entries}
    if "action" in names and not is_given:
        if kind not in (Kind.ACTION, Kind.EITHER):
            raise Misread("this is an action", node.span, "actions are expected under `expect_actions`")
        return reader.action()
    if "trigger" in names and not is_given and kind in (Kind.FIRING, Kind.EITHER):
        return reader.firing()
    if kind is Kind.FIRING:
        raise Misread("this does not say which trigger fired", node.span, "add trigger: Name")
    if "event" not in names:
        what = "action" if kind is Kind.ACTION else "event"
        meant = closest("event", names)
        helps = [f"did you mean `event` by `{meant}`?"] if meant else [f"add {what}: Name"]
        raise Misread(f"this does not say of which {what} it is", node.span, *helps)
    if kind is Kind.ACTION:
        raise Misread("this is an event", node.span, "events are expected under `expect`; add action: name")
    return reader.event(is_given=is_given)


@dataclass(slots=True)
class _Reader:
    """Reads one mapping."""

    node: Entries
    start_us: int
    written: str

    def event(self, *, is_given: bool) -> Said:
        known: dict[str, Entry] = {}
        rest: list[Entry] = []
        for entry in self.node.entries:
            meaning = entry.name if entry.name == "tick" else _OTHER_NAMES.get(entry.name, entry.name)
            if meaning in known:
                raise Misread(f"`{meaning}` is said twice, as `{entry.name}` too", entry.name_span)
            if meaning in _OF_EVENTS:
                known[meaning] = entry
            else:
                rest.append(entry)
        name = _text(known["event"])
        times = _count(known.get("times"), 1, REPEATS_MAX)
        is_gone = _is_true(known.get("withdraw")) or (is_given and _is_null(known.get("at")))
        return Said(
            Kind.EVENT,
            name.text,
            name.span,
            self.node.span,
            self.written,
            tuple(self.argument(entry, is_repeated=times > 1) for entry in rest),
            change="withdraw" if is_gone else _change(known.get("change")),
            at_us=self.time(known.get("at")),
            seen_us=self.time(known.get("seen")),
            every_us=_length(known.get("every"), known.get("times")),
            times=times,
            event_id=_text(known["id"]).text if "id" in known else None,
            is_rejected=_is_true(known.get("rejected")),
            seq=_count(known["seq"], 0, 1 << 62) if "seq" in known else None,
            constituents=_counts(known["constituents"]) if "constituents" in known else None,
        )

    def action(self) -> Said:
        found = self.entries(_OF_ACTIONS, "an action")
        trigger, rule = (_text(found[name]).text if name in found else None for name in ("trigger", "rule"))
        return replace(self.done(Kind.ACTION, found["action"], found), trigger=trigger, rule=rule)

    def firing(self) -> Said:
        found = self.entries(_OF_FIRINGS, "a firing")
        return replace(
            self.done(Kind.FIRING, found["trigger"], found),
            seq=_count(found["seq"], 0, 1 << 62) if "seq" in found else None,
            constituents=_counts(found["constituents"]) if "constituents" in found else None,
        )

    def entries(self, known: Sequence[str], what: str) -> dict[str, Entry]:
        """What a mapping says by name; `tick` is another word for `at`."""
        found: dict[str, Entry] = {}
        for entry in self.node.entries:
            if entry.name not in known:
                meant = closest(entry.name[:200], known)
                helps = f"did you mean `{meant}`?" if meant else f"it has {', '.join(known)}"
                raise Misread(f"{what} has no `{entry.name}`", entry.name_span, helps)
            meaning = "at" if entry.name == "tick" else entry.name
            if meaning in found:
                raise Misread("`at` is said twice, as `tick` too", entry.name_span)
            found[meaning] = entry
        return found

    def done(self, kind: Kind, named: Entry, found: Mapping[str, Entry]) -> Said:
        """What actions and firings have in common: arguments, the event, and the time."""
        name = _text(named)
        arguments = None
        if "args" in found:
            items = found["args"].value
            if not isinstance(items, Items):
                raise Misread("`args` is a list", found["args"].name_span)
            arguments = tuple(Argument(None, self.value(item), item.span) for item in items.items)
        about = self.about(found.get("event"), found.get("key"))
        at_us = self.time(found.get("at"))
        span, written = self.node.span, self.written
        return Said(kind, name.text, name.span, span, written, arguments, at_us=at_us, about=about)

    def about(self, event: Entry | None, key: Entry | None) -> Said | None:
        if event is None:
            if key is not None:
                raise Misread("`key` needs an `event` beside it", key.name_span)
            return None
        name = _text(event)
        arguments = None
        if key is not None:
            if not isinstance(key.value, Entries):
                raise Misread("`key` is a mapping", key.name_span, "write key: {resource: milk}")
            arguments = tuple(self.argument(entry) for entry in key.value.entries)
        return Said(Kind.EVENT, name.text, name.span, name.span, name.text, arguments)

    # ---- values ----------------------------------------------------------------------------------

    def argument(self, entry: Entry, *, is_repeated: bool = False) -> Argument:
        return Argument(entry.name, self.value(entry.value, is_repeated=is_repeated), entry.name_span)

    def value(self, node: Node, *, is_repeated: bool = False) -> Value:
        """A value of YAML: quoted it is a text, else what the short notation would take it for, or the words."""
        if not isinstance(node, Scalar):
            raise Misread("a value is a number, a text, true, false or null", node.span)
        if not node.is_plain:
            return Constant(node.text, node.text)
        if node.text in ("", "~"):
            return Constant(None, "NULL")
        try:
            found = constant_of(node.text) or read_value(node.text, self.start_us)
        except Misread:
            return Constant(node.text, node.text)
        return Constant(node.text, node.text) if isinstance(found, Formula) and not is_repeated else found

    def time(self, entry: Entry | None) -> int | None:
        if entry is None or _is_null(entry):
            return None
        text = _text(entry)
        found = time_us(text.text, self.start_us)
        if found is None:
            raise Misread(f"`{text.text}` is no time", text.span, ABOUT_TIMES)
        return found


def _text(entry: Entry) -> Scalar:
    if not isinstance(entry.value, Scalar) or not entry.value.text:
        raise Misread(f"`{entry.name}` is a text", entry.name_span)
    return entry.value


def _is_null(entry: Entry | None) -> bool:
    if entry is None or not isinstance(entry.value, Scalar) or not entry.value.is_plain:
        return False
    return entry.value.text.casefold() in ("", "~", "null")


def _is_true(entry: Entry | None) -> bool:
    if entry is None:
        return False
    match constant_of(_text(entry).text):
        case Constant(bool() as truth):
            return truth
        case _:
            raise Misread(f"`{entry.name}` is true or false", entry.value.span)


def _change(entry: Entry | None) -> str | None:
    if entry is None:
        return None
    text = _text(entry)
    if text.text not in CHANGES:
        raise Misread(f"there is no change `{text.text}`", text.span, f"it is one of {', '.join(CHANGES)}")
    return text.text


def _length(entry: Entry | None, times: Entry | None) -> int:
    if entry is None:
        if times is not None:
            raise Misread("`times` needs an `every` beside it", times.name_span, "add every: 5s")
        return 0
    text = _text(entry)
    found = length_us(text.text)
    if found is None or found <= 0:
        raise Misread("`every` is a length of time", text.span, "write every: 5s")
    return found


def _count(entry: Entry | None, least: int, most: int) -> int:
    if entry is None:
        return 1
    text = _text(entry)
    if not (text.text.isascii() and text.text.isdigit()) or not least <= int(text.text[:20]) <= most:
        raise Misread(f"`{entry.name}` is a whole number from {least:,} to {most:,}", text.span)
    return int(text.text)


def _counts(entry: Entry) -> tuple[int, ...]:
    items = entry.value.items if isinstance(entry.value, Items) else None
    if items is None or not all(isinstance(one, Scalar) and one.text.isascii() and one.text.isdigit() for one in items):
        raise Misread("`constituents` is a list of whole numbers", entry.name_span, "write constituents: [3, 7]")
    return tuple(int(one.text[:20]) for one in items if isinstance(one, Scalar))
