"""Variables that are bound inside a negation, and what a prefix asks about values.

A variable bound inside a negation may stand there once, so that any value will do, or in several places: then its
values have to be told apart, and it is *open*. Nothing here knows how that is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import assert_never

from augury.algebra.expression import (
    Anything,
    Apply,
    Binding,
    Equate,
    Exists,
    Expression,
    MatchOperator,
    Nth,
    Place,
    Primitive,
    Some,
    Variable,
    freed,
    joins_only,
    parts,
    renamed,
    walk,
)

_OWN = "#"


def written_name(variable: Variable) -> str:
    """What a variable is called in the program, whether it has a name of its own or not."""
    return variable.name.partition(_OWN)[0]


def with_open_variables(expression: Expression) -> Expression:
    """Inner variables settled: one for which any value will do is freed, any other has a `Some` and a name of its own.

    Any value will do for a variable that stands in one place, under operators that join.
    """
    numbers = count()

    def settled(node: Expression) -> Expression:
        match node:
            case Primitive() | Place():
                return node
            case Apply(operands=operands):
                return replace(node, operands=tuple(map(settled, operands)))
            case Nth() | Equate() | Exists():
                return replace(node, operand=settled(node.operand))
            case Some(variables=variables, operand=operand):
                inside = settled(operand)
                any_will_do = {v.name for v in variables if _any_will_do(inside, v.name)}
                inside = freed(inside, any_will_do)
                for variable in variables:
                    if variable.name not in any_will_do:
                        own = replace(variable, name=f"{variable.name}{_OWN}{next(numbers)}")
                        inside = Some((own,), renamed(inside, variable.name, own.name))
                return inside
            case _:
                assert_never(node)

    return settled(expression)


def _any_will_do(expression: Expression, name: str) -> bool:
    places = list(_places(expression, name))
    return len(places) <= 1 and all(joins_only(expression, place) for place in places)


def _places(expression: Expression, name: str) -> Iterator[int]:
    """The numbers of the parts at which a variable stands, once for each attribute."""
    for number, part in enumerate(parts(expression)):
        for binding in part.bindings if isinstance(part, Primitive) else ():
            if isinstance(binding, Variable) and binding.name == name:
                yield number


def open_variables(expression: Expression) -> dict[str, Variable]:
    """The open variables of a settled expression, by name."""
    return {v.name: v for node in walk(expression) if isinstance(node, Some) for v in node.variables}


def prefixes(expression: Expression) -> Iterator[Apply]:
    """The prefixes in an expression."""
    return (node for node in walk(expression) if isinstance(node, Apply) and node.operator is MatchOperator.PREFIX)


def rivals(prefix: Expression) -> list[set[Binding]]:
    """For each attribute the variables and constants beside each other, if there is a variable among them."""
    at: dict[tuple[str, int], set[Binding]] = {}
    for part in (node for node in walk(prefix) if isinstance(node, Primitive)):
        for place, binding in enumerate(part.bindings):
            if not isinstance(binding, Anything):
                at.setdefault((part.event_class, place), set()).add(binding)
    return [found for found in at.values() if len(found) > 1 and any(isinstance(b, Variable) for b in found)]


def undecidable_prefix(expression: Expression) -> Apply | None:
    """A prefix of which nobody can say whether it holds: what may come depends on values that a negation binds.

    There are ever new values, and how those to come are alike makes a difference.
    """
    body = with_open_variables(expression.operand if isinstance(expression, Some) else expression)
    for prefix in prefixes(body):
        if any(isinstance(node, Some) for node in walk(prefix)):
            return prefix
    negations = (node for node in walk(body) if isinstance(node, Some))
    return next((prefix for some in negations for prefix in prefixes(some) if rivals(prefix)), None)
