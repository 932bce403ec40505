"""One program takes the place of another on a store: what becomes of each thing it has, and what cannot be.

In: both programs, and what the store holds. Out: `Changes`, a value to be shown before anything is done. It touches
neither state nor store; `engine.rebuilding` works out what is to be rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from augury.algebra.composite import walk
from augury.algebra.dump import dump_binding, dump_class, dump_detection, dump_rule, dump_source, dump_trigger
from augury.algebra.expression import MatchPlan, Primitive
from augury.algebra.program import ClassPlan, Program
from augury.algebra.rule import Trigger
from augury.clock import show_duration
from augury.diagnostics import NOWHERE, Diagnostic, Mark
from augury.event import ClassKind, EventClass, key_of


class Kind(StrEnum):
    """What a program is made of."""

    SETTING = "setting"
    CLASS = "class"
    SOURCE = "source"
    RULE = "rule"
    GROUP = "group"
    TRIGGER = "trigger"
    BINDING = "binding"
    DETECTOR = "detector"


class What(StrEnum):
    """What the new program says of a thing, compared with the old one."""

    SAME = "same"
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class State(StrEnum):
    """What becomes of what an engine remembers of a thing; NONE: it remembers nothing."""

    NONE = "none"
    KEPT = "kept"
    REBUILT = "rebuilt"
    BEGINS = "begins"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing of a program; `why` is a sentence for people."""

    kind: Kind
    name: str
    what: What
    state: State
    why: str = ""

    def line(self) -> str:
        """As it is shown."""
        return f"{self.kind} {self.name}: {self.what}" + (f"; {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True)
class Changes:
    """What a change of program does; `refused` says why it cannot be done, and is empty where it can.

    `replays` says that the history is gone over again, to work out what is to be rebuilt.
    """

    each: tuple[Change, ...] = ()
    refused: tuple[Diagnostic, ...] = ()
    replays: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether both programs say the same."""
        return not self.refused and all(one.what is What.SAME for one in self.each)

    def of(self, kind: Kind) -> dict[str, Change]:
        """The changes of things of a kind, by the names that they are matched by."""
        return {key_of(one.name): one for one in self.each if one.kind is kind}

    def lines(self) -> list[str]:
        """What there is to say, a line each: what stays as it is comes as a count."""
        same = sum(one.what is What.SAME and one.state in (State.KEPT, State.NONE) for one in self.each)
        told = [one.line() for one in self.each if one.what is not What.SAME or one.state is State.REBUILT]
        return [*told, f"{same} things stay as they are"] if told else ["nothing changes"]


@dataclass(frozen=True, slots=True)
class Held:
    """What a store holds of a program: its classes, also those no longer in the program, and how much of each.

    `versions` has for each class, by the name it is matched by, how many versions are kept and how many there were.
    """

    classes: tuple[EventClass, ...] = ()
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    has_ticks: bool = False

    def has_history(self, name: str) -> bool:
        """Whether there ever was a version of a class."""
        return self.versions.get(name, (0, 0))[1] > 0


class CannotChange(ValueError):
    """A program that cannot take the place of another; `diagnostics` says why, and what to do. Nothing was changed."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        """Keep the diagnostics."""
        super().__init__("; ".join(diagnostic.message for diagnostic in diagnostics))
        self.diagnostics = diagnostics


def same_classes(old: Program, new: Program, has_history: Callable[[str], bool]) -> frozenset[str]:
    """The classes whose events, known so far, are what the new program would have: by the names they are matched by.

    Those are the classes that come in in both programs, and the complex ones that mean the same, as does all below.
    """
    before = {key_of(plan.event_class.name) for plan in old.classes}
    touched = _touched(old, new, has_history)
    after = {key_of(plan.event_class.name): plan for plan in new.classes}
    return frozenset(n for n, plan in after.items() if n in before and (_is_received(plan) or n not in touched))


def is_whole(new: Program, held: Held) -> bool:
    """Whether all is there that a program's classes have ever read."""
    return not any(_is_received(plan) and _left(plan, held) for plan in new.classes)


def compare(old: Program, new: Program, held: Held) -> Changes:
    """What becomes of everything when `new` takes the place of `old`."""
    classes = list(_classes(old, new, held))
    replays = held.has_ticks and _class_texts(old) != _class_texts(new)
    rebuilt = {key_of(one.name) for one in classes if one.state is State.REBUILT}
    gone = {key_of(one.name) for one in classes if one.what is What.REMOVED}
    each = [
        *_settings(old, new),
        *classes,
        *_plain(Kind.SOURCE, *({s.event_class: dump_source(s) for s in p.sources} for p in (old, new))),
        *_plain(Kind.RULE, *({r.name: dump_rule(r) for r in p.rules} for p in (old, new))),
        *_plain(Kind.GROUP, *({name: ", ".join(of) for name, of in p.groups.items()} for p in (old, new))),
        *_triggers(old, new, rebuilt | gone),
        *_plain(Kind.BINDING, *({b.action: dump_binding(b) for b in p.bindings} for p in (old, new))),
        *_plain(Kind.DETECTOR, *({d.name: dump_detection(d) for d in p.detections} for p in (old, new))),
    ]
    return Changes(tuple(each), tuple(_refusals(old, new, held, replays)), replays)


# ---- classes ----------------------------------------------------------------------------------------


def meaning_of(plan: ClassPlan) -> str:
    """What the events of a class are and how they come about, its statements apart."""
    return dump_class(replace(plan, statements=()))


def difference(old: EventClass, new: EventClass) -> str | None:
    """Why the history of a class cannot be that of another: what is declared otherwise, as the end of a sentence."""
    if old.kind is not new.kind:
        return f"is {old.kind.value} in the store and {new.kind.value} in the program"
    had, has = (
        [f"{key_of(attribute.name)} {attribute.type}" for attribute in event_class.attributes]
        for event_class in (old, new)
    )
    if had != has:
        return f"has the attributes ({', '.join(had)}) in the store and ({', '.join(has)}) in the program"
    if [key_of(name) for name in old.key] != [key_of(name) for name in new.key]:
        return f"has ID ({', '.join(old.key)}) in the store and ID ({', '.join(new.key)}) in the program"
    return None


def _class_texts(program: Program) -> list[str]:
    return [dump_class(plan) for plan in program.classes]


def _touched(old: Program, new: Program, has_history: Callable[[str], bool]) -> set[str]:
    """The classes that are new, mean something else or are gone, and all that is built on such."""
    before = {key_of(plan.event_class.name): plan for plan in old.classes}
    after = {key_of(plan.event_class.name): plan for plan in new.classes}
    touched = {name for name in before.keys() - after.keys() if has_history(name)}
    touched |= {name for name in after.keys() - before.keys() if has_history(name)}
    came_or_went = any(_is_received(before.get(name) or after[name]) for name in touched)
    for name in (key_of(name) for layer in new.strata for name in layer):
        plan, was = after[name], before.get(name)
        is_other = was is None or meaning_of(was) != meaning_of(plan)
        reads_all = isinstance(plan.derivation, MatchPlan) and plan.derivation.over is None
        if is_other or touched & set(map(key_of, plan.reads)) or (reads_all and came_or_went):
            touched.add(name)
    return touched


def _classes(old: Program, new: Program, held: Held) -> Iterator[Change]:
    before = {key_of(plan.event_class.name): plan for plan in old.classes}
    after = {key_of(plan.event_class.name): plan for plan in new.classes}
    touched = _touched(old, new, held.has_history)
    whole = is_whole(new, held)
    for name, plan in after.items():
        yield _class(plan, before.get(name), name in touched, held, whole)
    for name, plan in before.items():
        if name not in after:
            why = "its history stays in the store" if held.has_history(name) else "it has no history"
            yield Change(Kind.CLASS, plan.event_class.name, What.REMOVED, State.LOST, why)


def _is_received(plan: ClassPlan) -> bool:
    return plan.event_class.kind is not ClassKind.COMPLEX


def _class(plan: ClassPlan, was: ClassPlan | None, is_touched: bool, held: Held, whole: bool) -> Change:
    name = plan.event_class.name
    what = What.ADDED if was is None else What.SAME if dump_class(was) == dump_class(plan) else What.CHANGED
    if _is_received(plan) and is_touched:
        if was is None and not held.has_history(key_of(name)):
            return Change(Kind.CLASS, name, what, State.BEGINS, "its events count from now on")
        told = "its history counts again" if was is None else "its history stays"
        return Change(Kind.CLASS, name, what, State.REBUILT, f"{told}, and what is live is worked out from it")
    if is_touched:
        told = "it is" if was is None or what is What.CHANGED else "what it is built on changes: it is"
        history = "the stored history" if whole else "what SET HISTORY RETAIN has left of the history"
        why = f"{told} derived from {history}, and its actions are not carried out for the past"
        return Change(Kind.CLASS, name, what, State.REBUILT, why)
    why = "" if what is What.SAME else "its history stays, and the statements count from the next tick on"
    return Change(Kind.CLASS, name, what, State.KEPT, why)


# ---- all else ---------------------------------------------------------------------------------------


def _settings(old: Program, new: Program) -> Iterator[Change]:
    def said(program: Program) -> dict[str, str]:
        settings = program.settings
        retain = "for ever" if settings.retain_us is None else show_duration(settings.retain_us)
        return {
            "CHRONON": show_duration(settings.chronon_us),
            "ARCHIVE": "on" if settings.archive else "off",
            "HISTORY RETAIN": retain,
        }

    before, after = said(old), said(new)
    for name, text in after.items():
        what = What.SAME if before[name] == text else What.CHANGED
        yield Change(
            Kind.SETTING, name, what, State.NONE, "" if what is What.SAME else f"from {before[name]} to {text}"
        )


def _plain(kind: Kind, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    """Things of which nothing is remembered: they count as soon as they are there."""
    had = {key_of(name): text for name, text in before.items()}
    for name, text in after.items():
        was = had.pop(key_of(name), None)
        what = What.ADDED if was is None else What.SAME if was == text else What.CHANGED
        yield Change(kind, name, what, State.NONE)
    for name in before:
        if key_of(name) in had:
            yield Change(kind, name, What.REMOVED, State.NONE)


def _triggers(old: Program, new: Program, unkept: Iterable[str]) -> Iterator[Change]:
    other = set(unkept)
    had = {key_of(trigger.name): trigger for trigger in old.triggers}
    for trigger in new.triggers:
        yield _trigger(trigger, had.pop(key_of(trigger.name), None), other)
    for trigger in had.values():
        why = "what waited for it is lost; its firings stay in the store"
        yield Change(Kind.TRIGGER, trigger.name, What.REMOVED, State.LOST, why)


def _trigger(trigger: Trigger, was: Trigger | None, unkept: set[str]) -> Change:
    if was is None:
        return Change(Kind.TRIGGER, trigger.name, What.ADDED, State.BEGINS, "it sees what happens from now on")
    if dump_trigger(was) != dump_trigger(trigger):
        why = "it begins anew, and what waited for it is lost; its firings stay, and their count goes on"
        return Change(Kind.TRIGGER, trigger.name, What.CHANGED, State.BEGINS, why)
    if unkept & _classes_named(trigger):
        why = "what it is built on changes: it begins anew, and what waited for it is lost"
        return Change(Kind.TRIGGER, trigger.name, What.SAME, State.BEGINS, why)
    return Change(Kind.TRIGGER, trigger.name, What.SAME, State.KEPT)


def _classes_named(trigger: Trigger) -> set[str]:
    """The classes whose events its expression sees."""
    if trigger.composite is None:
        return set()
    nodes = walk(trigger.composite.expression)
    named = {key_of(node.event_class) for node in nodes if isinstance(node, Primitive)}
    return named | set(map(key_of, trigger.composite.over or ()))


# ---- what cannot be ---------------------------------------------------------------------------------


def _refusals(old: Program, new: Program, held: Held, replays: bool) -> Iterator[Diagnostic]:
    had, has = old.settings.chronon_us, new.settings.chronon_us
    if held.has_ticks and had != has:
        yield _refusal(
            f"the store has ticks every {show_duration(had)}, and the program wants them every {show_duration(has)}",
            "what was read at a tick and what conditions saw there cannot be told anew: leave SET CHRONON as it is, or "
            "replay the events into another store",
        )
    stored = {key_of(one.name): one for one in held.classes}
    for plan in new.classes:
        name, event_class = key_of(plan.event_class.name), plan.event_class
        if name in stored and held.has_history(name) and (why := difference(stored[name], event_class)) is not None:
            yield _refusal(
                f"`{event_class.name}` {why}, and has a history",
                f"declare it as it was, or give what is new another name: `{event_class.name}` may go, and its history "
                "stays",
                event_class,
            )
    if replays:
        yield from _not_known(old, new, held)


def _not_known(old: Program, new: Program, held: Held) -> Iterator[Diagnostic]:
    """Classes that come back though not all of their history is left: the program before knew nothing of them."""
    before = {key_of(plan.event_class.name) for plan in old.classes}
    for plan in new.classes:
        if _is_received(plan) and key_of(plan.event_class.name) not in before and _left(plan, held):
            kept, there_were = held.versions[key_of(plan.event_class.name)]
            yield _refusal(
                f"of {there_were:,} versions of `{plan.event_class.name}` {kept:,} are left by SET HISTORY RETAIN",
                f"`{plan.event_class.name}` was gone, and its state is not known: give it another name, or begin "
                "another store",
                plan.event_class,
            )


def _left(plan: ClassPlan, held: Held) -> bool:
    """Whether versions of a class have left its history."""
    kept, there_were = held.versions.get(key_of(plan.event_class.name), (0, 0))
    return kept < there_were


def _refusal(message: str, proposal: str, about: EventClass | None = None) -> Diagnostic:
    return Diagnostic("E531", message, Mark(NOWHERE if about is None else about.span, "changed"), helps=(proposal,))
