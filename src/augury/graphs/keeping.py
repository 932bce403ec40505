"""What COMPOSITE classes keep without a bound: warnings, from the algebra alone.

In: a program. Out: a warning for a class that may keep an event for ever because what completes it may never come, and
for one that combines everything that lives. It estimates; what is really kept, the kernel counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from augury.algebra import composite as c
from augury.algebra.expression import Primitive
from augury.algebra.program import ClassPlan, Program
from augury.clock import show_duration
from augury.diagnostics import Diagnostic, Mark, Severity
from augury.event import key_of

Op = c.CompositeOperator
_BYTES_KEPT = 500
_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Kept:
    """A part that waits for others, and how many are beside it."""

    part: c.Composite
    beside: int


def advise(program: Program) -> Iterator[Diagnostic]:
    """A warning for each class that may keep ever more."""
    for plan in program.classes:
        if isinstance(plan.derivation, c.CompositePlan) and plan.derivation.within_us is None:
            yield from _of_class(program, plan, plan.derivation)


def kept(expression: c.Composite, context: c.Context, within: bool = False) -> Iterator[Kept]:
    """The operands that are kept until something else comes, with no WITHIN around them."""
    if isinstance(expression, c.Scoped):
        within = within or expression.within_us is not None
    if not within:
        yield from _waiting(expression, context)
    for child in c.children(expression):
        yield from kept(child, context, within)


def _waiting(expression: c.Composite, context: c.Context) -> Iterator[Kept]:
    recent = context is c.Context.RECENT
    match expression:
        case c.Node(operator=Op.SEQUENCE, operands=(left, _)) if isinstance(left, c.Repeat) and left.open:
            yield Kept(left.operand, 1)
        case c.Node(operator=Op.SEQUENCE | Op.AND, operands=(left, right)) if not recent:
            there = [o for o in (left, right) if not (isinstance(o, c.Node) and o.operator is Op.NOT)]
            for operand in there[: 1 if expression.operator is Op.SEQUENCE else 2] if len(there) > 1 else ():
                yield Kept(operand, 1)
        case c.AnyOf(count=count, operands=operands) if not recent and count > 1:
            for operand in operands:
                yield Kept(operand, count - 1)
        case c.NotBetween(opening=opening) | c.Aperiodic(opening=opening) | c.Periodic(opening=opening) if not recent:
            yield Kept(opening, 1)
        case _:
            return


def _of_class(program: Program, plan: ClassPlan, match: c.CompositePlan) -> Iterator[Diagnostic]:
    found = list(kept(match.expression, match.context))
    for one in found:
        classes = sorted({p.event_class for p in c.walk(one.part) if isinstance(p, Primitive)})
        lifespans = {name: _lifespan_us(program, name) for name in classes}
        for_ever = [name for name, lifespan in lifespans.items() if lifespan is None]
        if len(for_ever) == len(classes):
            yield _for_ever(plan, one, for_ever[0])
            return
    if match.context is c.Context.UNRESTRICTED and found:
        yield _all_combined(program, plan, found)


def _lifespan_us(program: Program, name: str) -> int | None:
    plan = program.class_plan(key_of(name))
    assert plan is not None, "analysis has found the class"
    return plan.event_class.lifespan_us


def _for_ever(plan: ClassPlan, one: Kept, name: str) -> Diagnostic:
    a_day = _A_DAY * _BYTES_KEPT // 1_000_000
    return Diagnostic(
        "W310",
        f"`{plan.event_class.name}` keeps each `{name}` until something completes it, which may be never",
        Mark(one.part.span, "kept without a bound"),
        severity=Severity.WARNING,
        helps=(
            f"one a second that nothing completes is about {a_day} MB a day; beyond a limit the oldest are dropped",
            f"add WITHIN, with the longest time that one may wait, or give `{name}` a LIFESPAN",
        ),
    )


def _all_combined(program: Program, plan: ClassPlan, found: list[Kept]) -> Diagnostic:
    one = found[0]
    names = [p.event_class for p in c.walk(one.part) if isinstance(p, Primitive)]
    lifespans = [lifespan for name in names if (lifespan := _lifespan_us(program, name)) is not None]
    beside = max(kept.beside for kept in found)
    return Diagnostic(
        "W310",
        f"`{plan.event_class.name}` combines every `{names[0]}` of the last {show_duration(max(lifespans))} with "
        "all that goes with it",
        Mark(one.part.span, "combined without a bound"),
        severity=Severity.WARNING,
        helps=(
            f"a thousand of each that live at a time make {1_000 ** (beside + 1):,} occurrences",
            "add WITHIN, or take a context that uses events up: CHRONICLE, CONTINUOUS or CUMULATIVE",
        ),
    )
