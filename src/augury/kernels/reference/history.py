"""Events, the history they make, and what a class with arguments and a mask fits.

In: events in order. Out: for each place of the history, whether a primitive fits it. It knows no operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import product
from typing import Final

from augury.algebra.expression import Apply, Expression, MatchOperator, Primitive, Some, Variable, walk
from augury.algebra.scalar import Constant, Leaf, Previous, Scalar, Timing, Value
from augury.event import key_of
from augury.kernels.reference.scalars import value_of
from augury.types import Double, Timestamp, Type

START: Final = -1
"""The place of `start`, before the first event, which has place 0. It is in every history that is no sub-history."""

Places = tuple[int, ...]
"""A history at hand: places of the whole history, ascending."""


@dataclass(frozen=True, slots=True)
class Event:
    """A version in a history.

    `values` has an entry per attribute, in the order of the class, as `augury.algebra.scalar.Constant` holds them
    (a TIMESTAMP is an int of microseconds). Times are microseconds; no `occ_time` withdraws the event. A complex
    event has the `seq` of the version that completed it, and the constituents that it was made of. In the order of
    occurrence `det_time` is what the clock shows, and `detected` the det_time that masks see.
    """

    seq: int
    event_class: str
    values: Mapping[str, Value]
    occ_time: int | None
    det_time: int
    constituents: tuple[int, ...] = ()
    detected: int | None = None

    def value(self, name: str) -> Value:
        """The attribute of that name, occ_time and det_time among them."""
        if name == "occ_time":
            return self.occ_time
        if name == "det_time":
            return self.det_time if self.detected is None else self.detected
        return next(value for key, value in self.values.items() if key_of(key) == key_of(name))

    def has(self, name: str) -> bool:
        """Whether there is such an attribute."""
        return name in ("occ_time", "det_time") or key_of(name) in map(key_of, self.values)


@dataclass(frozen=True, slots=True)
class Imagined:
    """An event that may still come, as far as an expression can tell it from others; see `prefix`."""

    event_class: str
    values: tuple[object, ...]
    masks: frozenset[Scalar]


@dataclass(frozen=True, slots=True)
class NoValue:
    """A value that differs from all values of all events, and from every other such."""

    number: int


@dataclass(frozen=True)
class History:
    """The whole history of a MATCH, or of one of its partitions: PREV and masks look at it from every sub-history."""

    events: tuple[Event, ...]
    _masks: dict[tuple[Scalar, int], bool] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(events: Iterable[Event]) -> History:
        """Withdrawals are left out."""
        return History(tuple(event for event in events if event.occ_time is not None))

    @property
    def whole(self) -> Places:
        """All places, `start` first."""
        return (START, *range(len(self.events)))

    def satisfies(self, place: int, mask: Scalar) -> bool:
        """Whether a mask is TRUE for an event."""
        if (mask, place) not in self._masks:
            self._masks[mask, place] = value_of(mask, lambda leaf: self._leaf(leaf, place)) is True
        return self._masks[mask, place]

    def _leaf(self, leaf: Leaf, place: int) -> Value:
        event = self.events[place]
        assert not isinstance(leaf, Timing), "a mask has no timing primitive"
        if isinstance(leaf, Previous):
            before = [e for e in self.events[:place] if e.event_class == event.event_class]
            return before[-leaf.offset].value(leaf.name) if len(before) >= leaf.offset else None
        return event.value(leaf.name)


@dataclass(frozen=True, slots=True)
class Scope:
    """What variables stand for: correlation variables for places, attribute variables for values of a type."""

    history: History
    places: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, tuple[object, Type]] = field(default_factory=dict)

    def with_place(self, variable: str, place: int) -> Scope:
        """The innermost EXISTS wins."""
        return replace(self, places={**self.places, variable: place})

    def substitutions(self, some: Some, further: Iterable[object] = ()) -> Iterator[Scope]:
        """One scope per value of each variable that may make a difference: see `values_for`; and the `further` ones.

        Under a prefix a value that only another variable has had makes a difference: an event may come with it twice.
        """
        others: list[object] = [NoValue(len(self.values) + i) for i in range(len(some.variables))]
        shared = [value for v in some.variables for value in self.values_for(v, some.operand)]
        shared += [value for value, _ in self.values.values()]
        if not any(isinstance(node, Apply) and node.operator is MatchOperator.PREFIX for node in walk(some)):
            shared = []
        others = [*shared, *further, *others]
        choices = [
            [(value, v.type) for value in dict.fromkeys([*self.values_for(v, some.operand), *others])]
            for v in some.variables
        ]
        for chosen in product(*choices):
            names = (v.name for v in some.variables)
            yield replace(self, values={**self.values, **dict(zip(names, chosen, strict=True))})

    def values_for(self, variable: Variable, expression: Expression) -> list[object]:
        """The values that events have where the variable stands, and the constants that the expression names.

        All others are alike, and one that no event has stands for them: `A(X) OR B` takes place at B, A or no A. There
        is one for each variable, so that two variables may agree or differ in it.
        """
        nodes = [node for node in walk(expression) if isinstance(node, Primitive)]
        met = [
            comparable(list(event.values.values())[position], variable.type)
            for node in nodes
            for position, binding in enumerate(node.bindings)
            if isinstance(binding, Variable) and binding.name == variable.name
            for event in self.history.events
            if event.event_class == node.event_class
        ]
        named = [comparable(value, variable.type) for value in constants_in(expression)]
        return list(dict.fromkeys([*met, *named]))

    def fits(self, primitive: Primitive, event: int | Imagined) -> bool:
        """Whether an event is of the class, has the values that the arguments demand, and satisfies the mask."""
        if isinstance(event, Imagined):
            values: tuple[object, ...] = event.values
            masked = primitive.mask is None or primitive.mask in event.masks
            is_of_class = event.event_class == primitive.event_class
        else:
            if event == START:
                return False
            version = self.history.events[event]
            values = tuple(version.values.values())
            is_of_class = version.event_class == primitive.event_class
            masked = is_of_class and (primitive.mask is None or self.history.satisfies(event, primitive.mask))
        return is_of_class and masked and all(map(self._demanded, primitive.bindings, values))

    def _demanded(self, binding: object, value: object) -> bool:
        match binding:
            case Constant(value=wanted, type=kind):
                return comparable(wanted, kind) == comparable(value, kind)
            case Variable(name=name):
                chosen, kind = self.values[name]
                return comparable(value, kind) == chosen
            case _:
                return True


def constants_in(expression: Expression) -> list[object]:
    """The values that are written among the arguments of classes."""
    return [
        comparable(binding.value, binding.type)
        for node in walk(expression)
        if isinstance(node, Primitive)
        for binding in node.bindings
        if isinstance(binding, Constant)
    ]


EPOCH_DAY: Final = date(1970, 1, 1)
DAY_US: Final = 86_400_000_000
NAN: Final = "NaN"


def comparable(value: object, kind: Type | None = None) -> object:
    """A form of a value that equals another's if the values do: NULL equals NULL here, and NaN equals NaN."""
    if isinstance(value, datetime):
        raise AssertionError("a TIMESTAMP is an int of microseconds")
    if isinstance(value, date):
        return (value - EPOCH_DAY).days * DAY_US if kind is None or isinstance(kind, Timestamp) else value
    if isinstance(kind, Double) and not isinstance(value, NoValue | str | None):
        value = float(value)  # type: ignore[arg-type]
    return NAN if isinstance(value, float) and math.isnan(value) else value
