"""What of a program can run apart: classes that have nothing to do with each other, and events that never meet.

In: an engine's plan. Out: `Shard`s. The classes of a shard are run together, by an engine of their own; `by` names
attributes of each of them such that events with different values there never meet, so that a shard falls into any
number of buckets, each with an engine that sees its events only. What falls into no buckets is put together in one
shard, with the reason. So are all classes that triggers have to do with: these see versions in one order. Where a rule
posts, all classes are one shard, for what is posted is numbered among all that comes in. It runs nothing.

That events never meet is known of a unit (a MATCH, COMPOSITE or SELECT) by its *ways*: an attribute of every class that
it reads, and of the one it makes if that carries it on. A way of a shard is one that all its units have in common, and
in which every class with a key has an attribute of the key: so all versions of an event lie in one bucket.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from augury import types as t
from augury.algebra.composite import CompositePlan
from augury.algebra.expression import Feed, MatchPlan
from augury.algebra.program import ClassPlan, Program
from augury.algebra.select import SelectPlan, Whole
from augury.engine.keys import Apart, composite_ways, match_ways
from augury.engine.occurrence_state import has_timers, wanted
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit, SelectUnit, Unit
from augury.engine.select_parts import parts_of
from augury.engine.trigger_plan import classes_of, rule_calls
from augury.engine.unit_kernels import by_occurrence, history_classes, places_of
from augury.event import ClassKind, EventClass, key_of

_WAYS_MAX: Final = 16
"""Ways to cut a shard that are looked for: more would only name the same events by more attributes."""

Way = Mapping[int, str]
"""By place of a class the attribute whose values tell apart what never meets."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Classes that run together, by their places in the program; `by` is empty where they run in one piece."""

    places: tuple[int, ...]
    by: tuple[tuple[int, tuple[str, ...]], ...] = ()
    reason: str = ""

    def columns(self, place: int) -> tuple[str, ...]:
        """The attributes of a class by which its events are told apart; none where they are not."""
        return dict(self.by).get(place, ())


def shards_of(plan: EnginePlan, *, whole_selects: bool = False) -> tuple[Shard, ...]:
    """The shards in order of their first classes; what cannot be cut comes last, in one.

    With `whole_selects` components that have a SELECT are not cut, and are together in a shard of their own.
    """
    if plan.clocks:
        name = plan.received_classes[plan.clocks[0][0]].name
        return (Shard(tuple(range(len(plan.classes))), reason=f"`{name}` is posted by the clock, to all"),)
    posting = next((unit.trigger.name for unit in plan.triggers if unit.posts), None)
    if posting is not None:
        reason = f"trigger `{posting}` posts events, which are numbered among those of all classes"
        return (Shard(tuple(range(len(plan.classes))), reason=reason),)
    cut: list[Shard] = []
    whole: list[Shard] = []
    selected: list[int] = []
    for places in _components(plan):
        if whole_selects and holds_select(plan.program, places):
            selected += places
            continue
        by, reason = _cut(plan, places)
        (cut if by else whole).append(Shard(places, by, reason))
    if whole:
        together = tuple(sorted(place for shard in whole for place in shard.places))
        cut.append(Shard(together, reason="; ".join(dict.fromkeys(shard.reason for shard in whole))))
    if selected:
        cut.append(Shard(tuple(sorted(selected)), reason="its SELECTs are queries over all of their views"))
    return tuple(cut)


def holds_select(program: Program, places: Collection[int]) -> bool:
    """Whether some of these classes are SELECTs."""
    return any(isinstance(program.classes[place].derivation, SelectPlan) for place in places)


def program_of(program: Program, shard: Shard) -> Program:
    """The part of a program that a shard runs; all triggers are in one shard, with the rules that they call."""
    if len(shard.places) == len(program.classes):
        return program
    names = {key_of(program.classes[place].event_class.name) for place in shard.places}
    classes = tuple(_without_others(program.classes[place], names) for place in shard.places)
    layers = (tuple(name for name in layer if key_of(name) in names) for layer in program.strata)
    strata = tuple(layer for layer in layers if layer)
    rules = {key_of(rule.name): rule for rule in program.rules}
    triggers = tuple(one for one in program.triggers if classes_of(one, rules) <= names)
    called = {key_of(call.rule) for one in triggers for call in rule_calls(one.structure)}
    return replace(
        program,
        classes=classes,
        strata=strata,
        rules=tuple(rule for name, rule in rules.items() if name in called),
        groups={},
        triggers=triggers,
        text="",
    )


def _without_others(plan: ClassPlan, names: Collection[str]) -> ClassPlan:
    """The class without those that stand in its history only, and do not matter to it."""
    derivation = plan.derivation
    if isinstance(derivation, MatchPlan | CompositePlan) and derivation.over is not None:
        derivation = replace(derivation, over=tuple(name for name in derivation.over if key_of(name) in names))
    return replace(plan, derivation=derivation, reads=tuple(name for name in plan.reads if key_of(name) in names))


# ---- classes that belong together --------------------------------------------------------------------------------


def _components(plan: EnginePlan) -> Iterator[tuple[int, ...]]:
    """The classes that units and triggers join, each with all others of its component."""
    home = list(range(len(plan.classes)))

    def found(place: int) -> int:
        while home[place] != place:
            place = home[place]
        return place

    for together in (*(_joined(plan, unit) for unit in plan.units), *([_triggering(plan)] if plan.triggers else [])):
        first, *others = sorted(together)
        for place in others:
            one, other = sorted((found(first), found(place)))
            home[other] = one
    for first in range(len(home)):
        if found(first) == first:
            yield tuple(place for place in range(len(home)) if found(place) == first)


def _joined(plan: EnginePlan, unit: Unit) -> set[int]:
    """The classes that a unit makes and reads; every class of its history, if all events count for it."""
    match unit:
        case SelectUnit():
            return {unit.place, *unit.reads}
        case MatchUnit() | CompositeUnit() if _by_newest(unit):
            codes = (*plan.received, *unit.reads)
            return {*places_of(unit), *(codes[code] for code in np.flatnonzero(wanted(plan, unit)).tolist())}
        case MatchUnit():
            return {unit.place, *_read(plan, unit, match_ways(unit.detector, history_classes(plan, unit)))}
        case CompositeUnit():
            return {*unit.places, *_read(plan, unit, composite_ways(unit.detector, history_classes(plan, unit)))}


def _triggering(plan: EnginePlan) -> set[int]:
    """The classes that triggers have to do with."""
    rules = {key_of(rule.name): rule for rule in plan.program.rules}
    names = frozenset[str]().union(*(classes_of(unit.trigger, rules) for unit in plan.triggers))
    return {place for place, one in enumerate(plan.classes) if key_of(one.event_class.name) in names}


def _read(plan: EnginePlan, unit: MatchUnit | CompositeUnit, apart: Apart) -> list[int]:
    places = (*plan.received, *unit.reads)
    return [places[code] for code in apart.read]


# ---- by what they fall apart -------------------------------------------------------------------------------------


def _cut(plan: EnginePlan, places: Sequence[int]) -> tuple[tuple[tuple[int, tuple[str, ...]], ...], str]:
    """The attributes by which a component falls apart, or why it does not."""
    members = set(places)
    if plan.triggers and members & _triggering(plan):
        return (), f"trigger `{plan.triggers[0].trigger.name}` sees the versions of its classes in one order"
    units = [unit for unit in plan.units if not members.isdisjoint(_made(unit))]
    if not units:
        columns = _of_itself(plan.classes[places[0]].event_class)
        told = f"`{plan.classes[places[0]].event_class.name}` has no attributes"
        return ((places[0], columns),) if columns else (), "" if columns else told
    ways: list[list[Way]] = []
    for unit in units:
        found, reason = _ways(plan, unit)
        if not found:
            return (), f"`{plan.classes[_made(unit)[0]].event_class.name}`: {reason}"
        ways.append(found)
    common = list(islice(_common(ways, {}), _WAYS_MAX))
    fit = [way for way in common if not _misfit(plan, places, units, way)]
    if fit:
        return tuple((place, tuple(dict.fromkeys(w[place] for w in fit if place in w))) for place in places), ""
    names = ", ".join(f"`{plan.classes[place].event_class.name}`" for place in places)
    if not common:
        return (), f"{names} have no key in common"
    return (), _misfit(plan, places, units, common[0])


def _made(unit: Unit) -> tuple[int, ...]:
    return unit.places if isinstance(unit, CompositeUnit) else (unit.place,)


def _of_itself(event_class: EventClass) -> tuple[str, ...]:
    """What tells the events of a class apart that nothing reads."""
    return event_class.key or tuple(attribute.name for attribute in event_class.attributes)


def _common(ways: Sequence[Sequence[Way]], chosen: Way) -> Iterator[Way]:
    """Every choice of a way for each unit that gives each class one attribute."""
    if not ways:
        yield chosen
        return
    for way in ways[0]:
        if all(key_of(chosen.get(place, name)) == key_of(name) for place, name in way.items()):
            yield from _common(ways[1:], {**chosen, **way})


def _misfit(plan: EnginePlan, places: Sequence[int], units: Sequence[Unit], way: Way) -> str:
    """Why events of a class would be torn apart, or not be found by who reads them; nothing if it fits."""
    read = {place for unit in units for place in _reads(unit)}
    kinds: set[str] = set()
    for place in places:
        event_class = plan.classes[place].event_class
        name = way.get(place)
        if name is None:
            if event_class.key or place in read:
                return f"`{event_class.name}` does not carry on by what its constituents are told apart"
            continue
        if event_class.key and key_of(name) not in map(key_of, event_class.key):
            return f"`{name}`, by which events would be told apart, is not in the key of `{event_class.name}`"
        attribute = event_class.attribute(name)
        assert attribute is not None, "ways name attributes"
        kinds.add(_stored(attribute.type))
    return "" if len(kinds) == 1 else "the attributes by which events would be told apart have different types"


def _reads(unit: Unit) -> tuple[int, ...]:
    return unit.reads


def _stored(of: t.Type) -> str:
    """Types whose equal values are alike in every way that counts for telling them apart."""
    match of:
        case t.Int() | t.BigInt():
            return "whole number"
        case t.String():
            return "text"
        case _:
            return str(of)


def _ways(plan: EnginePlan, unit: Unit) -> tuple[list[Way], str]:
    match unit:
        case SelectUnit():
            return _select_ways(plan, unit)
        case MatchUnit() | CompositeUnit() if whole := _by_newest(unit):
            return [], whole
        case MatchUnit():
            apart = match_ways(unit.detector, history_classes(plan, unit))
            made: tuple[tuple[int, tuple[Feed, ...]], ...] = ((unit.place, unit.detector.plan.feeds),)
        case CompositeUnit():
            apart = composite_ways(unit.detector, history_classes(plan, unit))
            made = tuple((place, feeds) for place, (_, feeds) in zip(unit.places, unit.into, strict=True))
    codes = (*plan.received, *unit.reads)
    found: list[Way] = []
    for key in apart.keys:
        way = {codes[code]: name for code, name in key.places}
        for place, feeds in made:
            carried = key.carried(feeds, plan.classes[place].event_class)
            way |= {} if carried is None else {place: carried}
        found.append(way)
    return found, apart.reason


def _by_newest(unit: MatchUnit | CompositeUnit) -> str:
    """Why what goes by occurrence is looked at as a whole: the newest of all its events may matter to each."""
    order = by_occurrence(unit)
    if order is None:
        return ""
    if order.allowing_us is not None:
        return "what is too old for ALLOWING depends on the newest of all its events"
    return "its timers are due when the newest of all its events has passed them" if has_timers(unit) else ""


def _select_ways(plan: EnginePlan, unit: SelectUnit) -> tuple[list[Way], str]:
    classes = [one.event_class for one in plan.classes]
    if unit.parts is None:
        told = parts_of(unit.select, classes)
        return [], told.reason if isinstance(told, Whole) else "it is looked at as a whole"
    found: list[Way] = []
    for number, attribute in enumerate(unit.part_attributes):
        way = {place: columns[number] for place, columns in unit.parts}
        if all(classes[place].attribute(name) is not None for place, name in way.items()):
            found.append({**way, unit.place: attribute})
    return found, "" if found else "it falls apart by times only"


def received_in(plan: EnginePlan, shard: Shard) -> tuple[int, ...]:
    """The places of the shard's classes that come in from outside."""
    kinds = (ClassKind.SUBSCRIBED, ClassKind.CLOCK)
    return tuple(place for place in shard.places if plan.classes[place].event_class.kind in kinds)
