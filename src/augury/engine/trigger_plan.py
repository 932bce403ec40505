"""Triggers of a checked program → what steps look at: detectors, triggering classes, the values that rules ask for.

In: a program and the places of its classes. Out: a `TriggerUnit` a trigger, made once. It knows no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from augury.algebra.composite import constituent_classes, walk
from augury.algebra.expression import Feed, Primitive
from augury.algebra.program import Program
from augury.algebra.rule import InOrder, Post, Returned, Rule, RuleCall, SideBySide, Structure, Trigger
from augury.algebra.scalar import Field, Scalar, fields
from augury.event import ClassKind, EventClass, key_of
from augury.kernels import composite
from augury.kernels.composite import Detector


@dataclass(frozen=True, slots=True)
class TriggerUnit:
    """A trigger: the detector of its expression, the complex classes in its history, and which classes trigger.

    `leaves` are the classes that its expression names, negated ones among them. `wanted` are the fields of constituents
    that its structure names; `posts`: one of its rules posts.
    """

    trigger: Trigger
    detector: Detector | None
    reads: tuple[int, ...]
    leaves: frozenset[int]
    triggering: frozenset[int]
    wanted: tuple[Field, ...]
    posts: bool

    @property
    def name(self) -> str:
        """What it is known by."""
        return key_of(self.trigger.name)

    @property
    def by_clock(self) -> bool:
        """Whether an occurrence that a timer completes triggers by itself."""
        return not self.trigger.events


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where a step has to end, for a rule may post there: after rows of some classes, by code; at timers."""

    codes: frozenset[int]
    at_timers: bool


NO_CUTS: Final = Cuts(frozenset(), at_timers=False)


def cuts_of(triggers: Iterable[TriggerUnit], received: Sequence[int]) -> Cuts | None:
    """Where steps end, given the places of the classes that come in; None where no rule posts."""
    posting = [unit for unit in triggers if unit.posts]
    if not posting:
        return None
    codes = {place: code for code, place in enumerate(received)}
    at_timers = any(unit.by_clock or not unit.triggering <= codes.keys() for unit in posting)
    # A timer that a row sets may be due before the next.
    found = codes.values() if at_timers else (codes[place] for unit in posting for place in unit.triggering)
    return Cuts(frozenset(found), at_timers)


def trigger_units(program: Program, places: Mapping[str, int]) -> tuple[TriggerUnit, ...]:
    """The triggers as declared; raises what kernels refuse."""
    rules = {key_of(rule.name): rule for rule in program.rules}
    classes = {key_of(plan.event_class.name): plan.event_class for plan in program.classes}
    return tuple(_unit(trigger, places, classes, rules) for trigger in program.triggers)


def triggers_at(triggers: Sequence[TriggerUnit], place: int) -> tuple[int, ...]:
    """The numbers of the triggers that a class concerns."""
    return tuple(n for n, unit in enumerate(triggers) if place in unit.leaves or place in unit.triggering)


def _unit(
    trigger: Trigger, places: Mapping[str, int], classes: Mapping[str, EventClass], rules: Mapping[str, Rule]
) -> TriggerUnit:
    named = trigger.events or constituents_of(trigger)
    wanted = tuple(sorted({f for s in _arguments(trigger.structure) for f in fields(s) if f.scope}, key=str))
    detector: Detector | None = None
    leaves: frozenset[int] = frozenset()
    reads: tuple[int, ...] = ()
    if trigger.composite is not None:
        plan = trigger.composite
        asked = [*wanted, *(_of_last(trigger, classes) if not trigger.events else ())]
        feeds = tuple(Feed(f"{number}", one) for number, one in enumerate(asked))
        detector = composite.detector_of(replace(plan, feeds=feeds), flat=False)
        leaves = frozenset(places[key_of(leaf.event_class)] for leaf in detector.leaves)
        mentioned = {key_of(node.event_class) for node in walk(plan.expression) if isinstance(node, Primitive)}
        mentioned |= {key_of(name) for name in plan.over or ()}
        reads = tuple(sorted(places[name] for name in mentioned if classes[name].kind is ClassKind.COMPLEX))
    return TriggerUnit(
        trigger,
        detector,
        reads,
        leaves,
        frozenset(places[key_of(name)] for name in named),
        wanted,
        any(_posts(rules[key_of(call.rule)]) for call in rule_calls(trigger.structure)),
    )


def classes_of(trigger: Trigger, rules: Mapping[str, Rule]) -> frozenset[str]:
    """The keys of all classes that a trigger has to do with: those that trigger, its expression's, what its rules post.

    `rules` are by key.
    """
    found = {*trigger.events}
    if trigger.composite is not None:
        found |= {node.event_class for node in walk(trigger.composite.expression) if isinstance(node, Primitive)}
        found |= {*(trigger.composite.over or ())}
    for call in rule_calls(trigger.structure):
        rule = rules[key_of(call.rule)]
        found |= {deed.event_class for deed in (*rule.actions, *rule.alternatives) if isinstance(deed, Post)}
    found |= {one.scope for scalar in _arguments(trigger.structure) for one in fields(scalar) if one.scope}
    return frozenset(map(key_of, found))


def constituents_of(trigger: Trigger) -> tuple[str, ...]:
    """The classes of its expression whose events can be constituents."""
    return () if trigger.composite is None else tuple(sorted(constituent_classes(trigger.composite.expression)))


def _of_last(trigger: Trigger, classes: Mapping[str, EventClass]) -> Iterator[Field]:
    """What a firing by the clock may ask of the last constituent: its parameters, and its key."""
    for name in constituents_of(trigger):
        event_class = classes[key_of(name)]
        keys = {key_of(one) for one in event_class.key}
        for number, attribute in enumerate(event_class.attributes):
            if number < len(trigger.parameters) or key_of(attribute.name) in keys:
                yield Field(event_class.name, attribute.name, attribute.type)


def rule_calls(structure: Structure) -> Iterator[RuleCall]:
    """The rules of a structure, left to right."""
    match structure:
        case RuleCall():
            yield structure
        case InOrder(steps=parts) | SideBySide(branches=parts):
            for part in parts:
                yield from rule_calls(part)


def _arguments(structure: Structure) -> Iterable[Scalar]:
    arguments = (argument for call in rule_calls(structure) for argument in call.arguments)
    return (argument for argument in arguments if not isinstance(argument, Returned))


def _posts(rule: Rule) -> bool:
    return any(isinstance(deed, Post) for deed in (*rule.actions, *rule.alternatives))
