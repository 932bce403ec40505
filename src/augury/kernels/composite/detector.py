"""A plan made ready to run: its graph, the operators of its context, and the values that anything asks for.

In: a plan. Out: a detector that serves any number of states. It has no event.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from augury import limits
from augury.algebra.composite import CompositePlan
from augury.algebra.expression import Aggregate, Primitive, Variable
from augury.algebra.scalar import Field
from augury.event import key_of
from augury.graphs import Graph, NotYet, graph_of
from augury.kernels.composite.protocol import CONTEXTS, Evaluation
from augury.kernels.composite.scalars import Tests, equal_variables, fields_asked


@dataclass(frozen=True, slots=True)
class Detector:
    """What runs a COMPOSITE class."""

    plan: CompositePlan
    graph: Graph
    evaluation: Evaluation
    tests: Tests
    asked: frozenset[Field]
    variables: frozenset[str]

    @property
    def leaves(self) -> tuple[Primitive, ...]:
        """The classes as they stand in the expression, from left to right."""
        return self.graph.leaves

    def fingerprint(self) -> str:
        """The same for plans whose states fit each other."""
        plan = self.plan
        asked = sorted(f"{key_of(one.scope)}.{one.name}" for one in self.asked)
        rest = (str(plan.context), plan.partition_by, plan.over, asked, sorted(self.variables))
        return hashlib.sha256(f"{self.graph.fingerprint()} {rest}".encode()).hexdigest()


def detector_of(plan: CompositePlan) -> Detector:
    """Compile a plan; raises `NotYet` for what cannot be run."""
    if plan.by_occurrence is not None:
        raise NotYet("ORDER BY OCCURRENCE")
    graph = graph_of(plan)
    leaves = graph.leaves
    if len(leaves) > limits.COMPOSITE_LEAVES_MAX:
        raise NotYet(f"more than {limits.COMPOSITE_LEAVES_MAX} classes in one expression")
    if plan.context not in CONTEXTS:
        raise NotYet(f"the context {plan.context}")
    tests = Tests(leaves)
    fed = [feed.value for feed in plan.feeds]
    asked = fields_asked(graph, [value for value in fed if value is not None and not isinstance(value, Aggregate)])
    variables = {key_of(one.name) for one in asked if not one.scope} | equal_variables(graph)
    return Detector(plan, graph, CONTEXTS[plan.context](graph, tests), tests, frozenset(asked), frozenset(variables))


def variable_places(leaf: Primitive) -> dict[str, list[tuple[int, Variable]]]:
    """For each variable of a leaf where it stands."""
    found: dict[str, list[tuple[int, Variable]]] = {}
    for at, binding in enumerate(leaf.bindings):
        if isinstance(binding, Variable):
            found.setdefault(key_of(binding.name), []).append((at, binding))
    return found
