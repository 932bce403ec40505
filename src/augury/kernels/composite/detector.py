"""A plan made ready to run: its graph, the operators of its context, and the values that anything asks for.

In: a plan. Out: a detector that serves any number of states. It has no event.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from augury import limits
from augury.algebra.composite import CompositePlan
from augury.algebra.expression import Aggregate, Primitive
from augury.algebra.scalar import Field
from augury.event import key_of
from augury.graphs import Graph, NotYet, graph_of
from augury.graphs.graph import BoundedNode
from augury.kernels.composite.flat.tables import Flat, flat_of
from augury.kernels.composite.protocol import CONTEXTS, Evaluation
from augury.kernels.composite.scalars import TIMES, Tests, equal_variables, fields_asked


@dataclass(frozen=True, slots=True)
class Detector:
    """What runs a COMPOSITE class: operators that go step by step, or `flat` tables where the graph allows it.

    `inert` are sets of leaves found to leave an empty graph empty, as what closes a sequence does before anything has
    opened it; None where that depends on more than the leaves.
    """

    plan: CompositePlan
    graph: Graph
    evaluation: Evaluation
    tests: Tests
    asked: frozenset[Field]
    variables: frozenset[str]
    flat: Flat | None
    inert: set[tuple[int, ...]] | None = None

    @property
    def leaves(self) -> tuple[Primitive, ...]:
        """The classes as they stand in the expression, from left to right."""
        return self.graph.leaves

    def is_time(self, field: Field) -> bool:
        """Whether a field is a time that versions have anyway; by occurrence det_time is a value like others."""
        times = TIMES if self.plan.by_occurrence is None else TIMES[:1]
        return bool(field.scope) and field.name in times

    def fingerprint(self) -> str:
        """The same for plans whose states fit each other."""
        plan = self.plan
        asked = sorted(f"{key_of(one.scope)}.{one.name}" for one in self.asked)
        rest = (str(plan.context), self.flat is None, plan.partition_by, plan.over, asked, sorted(self.variables))
        return hashlib.sha256(f"{self.graph.fingerprint()} {rest}".encode()).hexdigest()


def detector_of(plan: CompositePlan, flat: bool = True) -> Detector:
    """Compile a plan; raises `NotYet` for what cannot be run. Without `flat` it goes step by step: slower, the same."""
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
    evaluation = CONTEXTS[plan.context](graph, tests)
    tables = flat_of(graph, evaluation.taking) if flat else None
    inert: set[tuple[int, ...]] | None = set() if plan.keys and not _depends_on_values(graph) else None
    return Detector(plan, graph, evaluation, tests, frozenset(asked), frozenset(variables), tables, inert)


def _depends_on_values(graph: Graph) -> bool:
    """Whether what a version does to an empty graph may depend on more than the leaves it fits."""
    scopes = (getattr(node, "scope", None) for node in graph.nodes)
    has_where = any(scope is not None and scope.wheres for scope in scopes)
    return has_where or any(isinstance(node, BoundedNode) for node in graph.nodes)
