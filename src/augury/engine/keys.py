"""By which values the events of a MATCH or COMPOSITE fall apart: those of different values never make one occurrence.

In: a detector and the classes of its history. Out: the classes whose events it looks at, and keys, each an attribute of
every one of them; or why there is none. Every key tells events apart by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from augury.algebra import composite as c
from augury.algebra.expression import Apply, Expression, Feed, MatchOperator, Primitive, Some, Variable
from augury.algebra.scalar import Field
from augury.event import EventClass, key_of
from augury.kernels import composite, match
from augury.kernels.composite.scalars import variable_places
from augury.kernels.match.leaves import code_of, keyed_places, looks_back
from augury.types import Type


@dataclass(frozen=True, slots=True)
class Key:
    """An attribute of each class that is looked at, all of one type; `always` are classes that every occurrence has.

    `is_variable` says that a variable of this name has the value, else PARTITION BY names the attribute.
    """

    name: str
    type: Type
    places: tuple[tuple[int, str], ...]
    is_variable: bool
    always: frozenset[str] = frozenset()

    def carried(self, feeds: Iterable[Feed], event_class: EventClass) -> str | None:
        """The attribute of the class made that has the value in all its events."""
        for feed in feeds:
            attribute = event_class.attribute(feed.attribute)
            if attribute is not None and attribute.type == self.type and self._is_fed(feed):
                return attribute.name
        return None

    def _is_fed(self, feed: Feed) -> bool:
        value = feed.value
        if not isinstance(value, Field) or key_of(value.name) != key_of(self.name) or value.type != self.type:
            return False
        return not value.scope if self.is_variable else key_of(value.scope) in self.always


@dataclass(frozen=True, slots=True)
class Apart:
    """The classes, by code, that a unit looks at, and the keys by which it falls apart, or why there is none."""

    read: tuple[int, ...]
    keys: tuple[Key, ...] = ()
    reason: str = ""


NO_VARIABLE = "no variable joins its events, and there is no PARTITION BY"
LOOKS_BACK = "PREV looks at events of other values"


def match_ways(detector: match.Detector, classes: Sequence[EventClass], *, counted: bool = False) -> Apart:
    """Of a MATCH; `counted` says that rows come with their positions, so that events of others need not be seen."""
    plan = detector.plan
    history = history_codes(plan.over, plan.partition_by, classes)
    if plan.partition_by:
        return Apart(history, partition_keys(plan.partition_by, history, classes, _always(plan.expression)))
    keyed = ", ".join(f"`{variable.name}`" for variable in detector.keyed)
    if hears_all(detector):
        return Apart(history, reason=f"events of other values of {keyed} matter to it" if keyed else NO_VARIABLE)
    # Only now: a leaf may stand for a part that is set apart, and then it is of no class.
    named = {code_of(classes, leaf.event_class) for leaf in detector.alphabet.leaves}
    sent = tuple(code for code in history if code in named)
    if counts(detector) and not counted:
        return Apart(history, reason="it counts the events between those it is made of")
    if looks_back(leaf.mask for leaf in detector.alphabet.leaves):
        return Apart(sent, reason=LOOKS_BACK)
    if not keyed:
        alone = tuple(_alone(detector, classes))
        return Apart(sent, alone, "" if alone else NO_VARIABLE)
    if not _each_names_one(detector):
        return Apart(sent, reason=f"not every event that it reads names one value of {keyed}")
    return Apart(sent, tuple(_variable_keys(detector, classes)))


def hears_all(detector: match.Detector) -> bool:
    """Whether events matter that no leaf is true of, or that only a part which is set apart can tell."""
    return detector.listens or bool(detector.inner)


def counts(detector: match.Detector) -> bool:
    """Whether it matters how many events lie between those that some leaf is true of."""
    tables = detector.tables
    if hears_all(detector) or tables is None:
        return False
    return not (tables.delta.size and bool(tables.quiet[:, detector.other].all()))


def _variable_keys(detector: match.Detector, classes: Sequence[EventClass]) -> Iterable[Key]:
    found: dict[str, dict[int, str]] = {variable.name: {} for variable in detector.keyed}
    for leaf in detector.alphabet.leaves:
        code = code_of(classes, leaf.event_class)
        for name, places in keyed_places(leaf, detector.keyed).items():
            found[name][code] = classes[code].attributes[places[0]].name
    return (Key(v.name, v.type, tuple(found[v.name].items()), is_variable=True) for v in detector.keyed)


def _alone(detector: match.Detector, classes: Sequence[EventClass]) -> Iterable[Key]:
    """The variables of an expression that takes place at every event of a class by itself."""
    expression = detector.plan.expression
    while isinstance(expression, Some):
        expression = expression.operand
    if isinstance(expression, Primitive):
        code = code_of(classes, expression.event_class)
        for variable in detector.variables:
            _, place = detector.carried[variable.name]
            name = classes[code].attributes[place].name
            yield Key(variable.name, variable.type, ((code, name),), is_variable=True)


def _each_names_one(detector: match.Detector) -> bool:
    """Whether all leaves of a class have all keyed variables, at the same attributes: as `streams.is_simple` asks."""
    places: dict[str, list[dict[str, list[int]]]] = {}
    for leaf in detector.alphabet.leaves:
        places.setdefault(key_of(leaf.event_class), []).append(keyed_places(leaf, detector.keyed))
    alike = all(other == of_class[0] for of_class in places.values() for other in of_class)
    return alike and all(len(of_class[0]) == len(detector.keyed) for of_class in places.values())


def composite_ways(detector: composite.Detector, classes: Sequence[EventClass]) -> Apart:
    """Of a COMPOSITE."""
    plan = detector.plan
    named = {code_of(classes, leaf.event_class) for leaf in detector.leaves}
    sent = tuple(code for code in history_codes(plan.over, plan.partition_by, classes) if code in named)
    if plan.partition_by:
        return Apart(sent, partition_keys(plan.partition_by, sent, classes, _always_in(plan.expression)))
    if not plan.keys:
        return Apart(sent, reason=NO_VARIABLE)
    if looks_back(leaf.mask for leaf in detector.leaves):
        return Apart(sent, reason=LOOKS_BACK)
    # A version that names only some of the values belongs to many graphs: what it names always is enough to cut by.
    found = [key for variable in plan.keys if (key := _variable_key(detector, variable, classes)) is not None]
    names = ", ".join(f"`{variable.name}`" for variable in plan.keys)
    return Apart(sent, tuple(found), "" if found else f"not every event that it reads names one value of {names}")


def _variable_key(detector: composite.Detector, variable: Variable, classes: Sequence[EventClass]) -> Key | None:
    """The attribute of each class that has the value of a variable at all leaves of the class; None without one."""
    places: dict[int, set[int]] = {}
    for leaf in detector.leaves:
        code = code_of(classes, leaf.event_class)
        here = {at for at, _ in variable_places(leaf).get(key_of(variable.name), ())}
        places[code] = places.get(code, here) & here
    if not all(places.values()):
        return None
    first = sorted((code, classes[code].attributes[min(at)].name) for code, at in places.items())
    return Key(variable.name, variable.type, tuple(first), is_variable=True)


# ---- histories and partitions ------------------------------------------------------------------------------------


def partition_keys(
    partition_by: Sequence[str],
    history: Sequence[int],
    classes: Sequence[EventClass],
    always: frozenset[str] = frozenset(),
) -> tuple[Key, ...]:
    """The attributes that PARTITION BY names, of the classes that are in a partition."""
    found = []
    for name in partition_by:
        attributes = [(code, classes[code].attribute(name)) for code in history]
        there = [(code, attribute) for code, attribute in attributes if attribute is not None]
        places = tuple((code, attribute.name) for code, attribute in there)
        # As `initial_state` has it: the type of the first class of the history that has the attribute.
        found.append(Key(name, there[0][1].type, places, is_variable=False, always=always))
    return tuple(found)


def history_codes(
    over: Sequence[str] | None, partition_by: Sequence[str], classes: Sequence[EventClass]
) -> tuple[int, ...]:
    """The classes whose events are in the history, or in one of its partitions."""
    named = range(len(classes)) if over is None else sorted(code_of(classes, name) for name in over)
    return tuple(code for code in named if all(classes[code].attribute(name) is not None for name in partition_by))


_JOINING = frozenset({MatchOperator.AND, MatchOperator.RELATIVE, MatchOperator.PRIOR, MatchOperator.SEQUENCE})


def _always(expression: Expression) -> frozenset[str]:
    """Classes that have a constituent in every occurrence tuple of a MATCH; perhaps not all of them."""
    match expression:
        case Primitive(event_class=name):
            return frozenset({key_of(name)})
        case Apply(operator=operator, operands=operands) if operator in _JOINING:
            return frozenset[str]().union(*map(_always, operands))
        case Some(operand=operand):
            return _always(operand)
        case _:
            return frozenset()


def _always_in(expression: c.Composite) -> frozenset[str]:
    """The same of a COMPOSITE."""
    match expression:
        case Primitive(event_class=name):
            return frozenset({key_of(name)})
        case c.Node(operator=c.CompositeOperator.AND | c.CompositeOperator.SEQUENCE, operands=operands):
            return frozenset[str]().union(*map(_always_in, operands))
        case c.Scoped(operand=operand) | c.Bounded(operand=operand) | c.Plus(operand=operand):
            return _always_in(operand)
        case c.Repeat(operand=operand, count=count) if count > 0:
            return _always_in(operand)
        case _:
            return frozenset()
