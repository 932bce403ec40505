"""Which COMPOSITE classes of a program one run serves: those whose expressions differ in nothing but what they give.

In: a program. Out: runs, in the order in which they can take place; plain data. Consumption is never shared: each run
keeps its own graphs, and two runs have nothing in common but masks and columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from augury.algebra.composite import AbsentFor, CompositePlan, Periodic, Plus, walk
from augury.algebra.expression import Primitive, Variable
from augury.algebra.program import ClassPlan, Program
from augury.algebra.scalar import Field
from augury.event import key_of
from augury.kernels.batch import Batch, Occurrences
from augury.kernels.composite.detector import detector_of
from augury.kernels.composite.state import initial_state
from augury.kernels.composite.step import step_into
from augury.kernels.match.shared import Shared

FLAT_ROWS_MIN = 20_000
"""Below that many rows going step by step takes less time than compiling the walk, once; the results are the same."""


@dataclass(frozen=True, slots=True)
class Run:
    """One expression with what feeds all of its classes, and the classes with this expression, as they are declared."""

    plan: CompositePlan
    members: tuple[ClassPlan, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(member.event_class.name for member in self.members)

    @property
    def has_timers(self) -> bool:
        """Whether the clock may complete events, or bring operands about."""
        return any(isinstance(node, Plus | AbsentFor | Periodic) for node in walk(self.plan.expression))


def runs_of(program: Program) -> tuple[Run, ...]:
    """The runs of all COMPOSITE classes; those of equal expressions read the same classes, so they can go together."""
    declared = {key_of(plan.event_class.name): number for number, plan in enumerate(program.classes)}
    groups: dict[CompositePlan, list[int]] = {}
    for number in (declared[key_of(name)] for layer in program.strata for name in layer):
        plan = program.classes[number].derivation
        if isinstance(plan, CompositePlan):
            numbered = {name: str(i) for i, name in enumerate(_variables(plan))}
            groups.setdefault(_renamed(replace(plan, feeds=()), numbered), []).append(number)
    return tuple(_run([program.classes[number] for number in sorted(group)]) for group in groups.values())


def _run(members: list[ClassPlan]) -> Run:
    """The run of classes whose expressions differ in the names of variables only: it has those of the first."""
    first = _plan(members[0])
    alike = []
    for member in members:
        plan = _plan(member)
        names = dict(zip(_variables(plan), _variables(first), strict=True))
        alike.append(replace(member, derivation=replace(first, feeds=_renamed(plan.feeds, names))))
    feeds = tuple(feed for member in alike for feed in _plan(member).feeds)
    return Run(replace(first, feeds=feeds), tuple(alike))


def _plan(member: ClassPlan) -> CompositePlan:
    assert isinstance(member.derivation, CompositePlan)
    return member.derivation


def _variables(plan: CompositePlan) -> list[str]:
    """The variables of an expression as they appear, by the names that they are matched by."""
    leaves = (node for node in walk(plan.expression) if isinstance(node, Primitive))
    bound = (binding for leaf in leaves for binding in leaf.bindings)
    return list(dict.fromkeys(str(key_of(one.name)) for one in bound if isinstance(one, Variable)))


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A plan, or a part of one, with other names for variables."""
    match value:
        case Variable(name=name) | Field(scope="", name=name):
            return replace(value, name=names[key_of(name)])
        case Primitive(bindings=bindings):
            # What has no scope in a mask is an attribute, not a variable.
            return replace(value, bindings=_renamed(bindings, names))
        case tuple():
            return tuple(_renamed(each, names) for each in value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: _renamed(getattr(value, f.name), names) for f in fields(value)})
        case _:
            return value


def occurrences_in(
    run: Run, history: Batch, chronon_us: int, end_us: int, shared: Shared | None = None
) -> list[Occurrences]:
    """What a run finds in a whole history up to a time, class by class; raises `NotYet`."""
    detector = detector_of(run.plan, flat=len(history) >= FLAT_ROWS_MIN)
    state = initial_state(detector, history.classes)
    into = [(member.event_class, _plan(member).feeds) for member in run.members]
    state, found = step_into(detector, state, history, into, chronon_us, end_us, shared=shared)
    return [replace(occurrences, dropped=state.dropped) for occurrences in found]
