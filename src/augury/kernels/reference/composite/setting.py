"""One graph's view of a history: which version fits which leaf, what has expired, what a test says of an occurrence.

In: the versions of one partition and the values of the shared variables. It knows no operator and no context.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from augury.algebra.expression import Primitive, Variable, freed
from augury.algebra.scalar import Field, Leaf, Scalar, Value
from augury.kernels.reference.composite.occurrence import Operand, Part, Step
from augury.kernels.reference.history import Event, Scope, comparable
from augury.kernels.reference.scalars import value_of


@dataclass(frozen=True, slots=True)
class Setting:
    """The history of one partition, the values of the variables that keep graphs apart, lifespans and the clock."""

    scope: Scope
    leaves: tuple[Primitive, ...]
    lifespans_us: Mapping[str, int | None]
    chronon_us: int
    until_us: int

    @property
    def events(self) -> tuple[Event, ...]:
        """The versions, by place."""
        return self.scope.history.events

    def arrival(self, place: int) -> Step:
        """The step at which a version arrives; a tick at its very det_time has purged before it is read."""
        time = self.events[place].det_time
        return Step((place, 0, 0), place, time, time // self.chronon_us * self.chronon_us)

    def timer(self, time: int, after: int) -> Step:
        """The step of a timer after so many versions; it fires before the tick at its very time purges."""
        return Step((after - 1, 1, time), None, time, (time - 1) // self.chronon_us * self.chronon_us)

    def at_leaf(self, leaf: int, place: int) -> Operand | None:
        """A version as an occurrence of a leaf, if it fits."""
        primitive = self.leaves[leaf]
        if not self.scope.fits(freed_of_unshared(primitive, self.scope.values), place):
            return None
        event = self.events[place]
        assert event.occ_time is not None
        return Operand((Part(place, leaf),), (place, 0, 0), (place, 0, 0), event.occ_time, event.det_time)

    def expired(self, operand: Operand, tick: int) -> bool:
        """Whether a version of it was read, and has expired, before the tick that purges."""
        return any(self._purged(self.events[place], tick) for place in operand.places)

    def _purged(self, event: Event, tick: int) -> bool:
        lifespan_us = self.lifespans_us.get(event.event_class)
        assert event.occ_time is not None
        return lifespan_us is not None and event.det_time < tick and event.occ_time + lifespan_us < tick

    def occ_times(self, operands: Iterable[Operand]) -> list[int]:
        """When the versions happen; a timer is none of them."""
        times = (self.events[place].occ_time for operand in operands for place in operand.places)
        return [time for time in times if time is not None]

    def agree(self, operands: Iterable[Operand], names: frozenset[str]) -> bool:
        """Whether the versions give each of the variables one value."""
        found: dict[str, object] = {}
        for operand in operands:
            for part in operand.parts:
                for variable, value in self._bound(part):
                    plain = comparable(value, variable.type)
                    if variable.name in names and found.setdefault(variable.name, plain) != plain:
                        return False
        return True

    def variables(self, operand: Operand) -> dict[str, Value]:
        """The value of each variable; of several versions that bind one the latest counts."""
        return {variable.name: value for part in operand.parts for variable, value in self._bound(part)}

    def _bound(self, part: Part) -> list[tuple[Variable, Value]]:
        values = self.events[part.place].values.values()
        pairs = zip(self.leaves[part.leaf].bindings, values, strict=False)
        return [(binding, value) for binding, value in pairs if isinstance(binding, Variable)]

    def value(self, scalar: Scalar, operand: Operand) -> Value:
        """A scalar over variables, and over the latest constituent of a class; what is not there is NULL."""
        bound = self.variables(operand)

        def leaf(wanted: Leaf) -> Value:
            assert isinstance(wanted, Field)
            if wanted.scope:
                of_class = [p for p in operand.places if self.events[p].event_class == wanted.scope]
                return self.events[max(of_class)].value(wanted.name) if of_class else None
            return bound.get(wanted.name)

        return value_of(scalar, leaf)


def freed_of_unshared(primitive: Primitive, shared: Iterable[str]) -> Primitive:
    """A leaf in which only the variables that keep graphs apart demand a value."""
    names = {binding.name for binding in primitive.bindings if isinstance(binding, Variable)}
    free = freed(primitive, names - set(shared))
    assert isinstance(free, Primitive)
    return free
