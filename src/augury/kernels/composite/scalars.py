"""WHERE over the constituents of an occurrence, and which values of a version anything asks for.

In: a graph and what feeds the attributes. Out: which values to read, and tests over occurrences. It knows no node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from augury.algebra.expression import Primitive, Variable
from augury.algebra.scalar import Field, Leaf, Scalar, leaves
from augury.event import key_of
from augury.graphs.graph import Graph, Scope
from augury.kernels.columns import Evaluated, arrow_type, evaluate, holds
from augury.kernels.composite.occurrence import Occ
from augury.kernels.match.leaves import stored

TIMES = ("occ_time", "det_time")


def variable_key(place: int, name: str) -> str:
    """Under which name a version has what a variable at a place stands for; no attribute is called so."""
    return f"{place}/{name.casefold()}"


def attribute_key(name: str) -> str:
    """Under which name a version has an attribute."""
    return str(key_of(name))


@dataclass(slots=True)
class Tests:
    """Scalars over occurrences of a graph; counts those that were in error."""

    primitives: Sequence[Primitive]
    errors: int = 0
    _places: dict[str, dict[int, str]] = field(default_factory=dict)

    def passes(self, scope: Scope, one: Occ) -> bool:
        """Whether an occurrence is short enough, has equal values where it must, and every WHERE holds."""
        if scope.within_us is not None and one.most - one.least > scope.within_us:
            return False
        if scope.equal and not self.agree(scope, one):
            return False
        return all(self._holds(where, one) for where in scope.wheres)

    def agree(self, scope: Scope, *occs: Occ) -> bool:
        """Whether some occurrences have equal values where a scope asks for it."""
        return all(self._equal(group, occs) for group in scope.equal)

    def _equal(self, group: tuple[tuple[int, int], ...], occs: Sequence[Occ]) -> bool:
        found = []
        for version, leaf in (part for one in occs for part in one.parts):
            for of, at in group:
                if of == leaf:
                    binding = self.primitives[leaf].bindings[at]
                    assert isinstance(binding, Variable)
                    found.append(version.values[variable_key(at, binding.name)])
        # NaN equals NaN here, as it does where a graph is kept per value.
        return all(value == found[0] or (value != value and found[0] != found[0]) for value in found[1:])

    def _holds(self, where: Scalar, one: Occ) -> bool:
        evaluated = self.evaluated(where, [one])
        self.errors += len(evaluated.errors) - int(evaluated.errors.null_count)
        return bool(holds(evaluated)[0])

    def evaluated(self, scalar: Scalar, found: Sequence[Occ]) -> Evaluated:
        """A scalar over variables and constituents, for each occurrence."""
        columns: dict[Leaf, pa.Array] = {}
        for leaf in leaves(scalar):
            assert isinstance(leaf, Field)
            values = [self.value(leaf, one) for one in found]
            columns[leaf] = stored(pa.array(values, arrow_type(leaf.type)), leaf.type)
        return evaluate(scalar, columns, None, len(found))

    def value(self, wanted: Field, one: Occ) -> Any:
        """A variable, or an attribute of a class: that of the latest constituent that has it."""
        if not wanted.scope:
            places = self.bound_at(wanted.name)
            for version, leaf in reversed(one.parts):
                if leaf in places:
                    return version.values[places[leaf]]
            return None
        name = key_of(wanted.scope)
        for version, _ in reversed(one.parts):
            if version.name == name:
                if wanted.name == "occ_time":
                    return version.occ_time
                key = attribute_key(wanted.name)
                return version.values.get(key, version.det_time) if wanted.name == "det_time" else version.values[key]
        return None

    def bound_at(self, name: str) -> dict[int, str]:
        """For each leaf that binds a variable, the name of its value."""
        name = key_of(name)
        if name not in self._places:
            self._places[name] = {
                leaf: variable_key(at, binding.name)
                for leaf, primitive in enumerate(self.primitives)
                for at, binding in enumerate(primitive.bindings)
                if isinstance(binding, Variable) and key_of(binding.name) == name
            }
        return self._places[name]


def fields_asked(graph: Graph, others: Iterable[Scalar]) -> set[Field]:
    """The variables and attributes that a WHERE of the graph or one of the other scalars reads."""
    scopes = [scope for node in graph.nodes if (scope := getattr(node, "scope", None)) is not None]
    scalars = [*others, *(where for scope in scopes for where in scope.wheres)]
    return {leaf for scalar in scalars for leaf in leaves(scalar) if isinstance(leaf, Field)}


def equal_variables(graph: Graph) -> set[str]:
    """The variables that nodes compare."""
    found = set()
    for node in graph.nodes:
        for group in getattr(node, "scope", Scope()).equal:
            for leaf, at in group:
                binding = graph.leaves[leaf].bindings[at]
                assert isinstance(binding, Variable)
                found.add(key_of(binding.name))
    return found


def variable_places(leaf: Primitive) -> dict[str, list[tuple[int, Variable]]]:
    """For each variable of a leaf where it stands."""
    found: dict[str, list[tuple[int, Variable]]] = {}
    for at, binding in enumerate(leaf.bindings):
        if isinstance(binding, Variable):
            found.setdefault(key_of(binding.name), []).append((at, binding))
    return found
