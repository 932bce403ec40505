"""Variables that a negation binds in several places: `!prior(Order(I), Cancel(I))`, for no value of I.

No automaton tells all values apart. But where such a part looks at the whole history, it takes place at the same events
whatever is around it: it is detected by itself, and stands in the expression as a leaf that is true of those events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from augury.algebra.expression import (
    Apply,
    Equate,
    Exists,
    Expression,
    MatchOperator,
    Nth,
    Place,
    Primitive,
    Some,
    Variable,
    walk,
)
from augury.algebra.inner import with_open_variables
from augury.automata.alphabet import found_leaf, names_start

Op = MatchOperator

# Which operands look at the history that the operator itself looks at; all, where it is not written.
_WHOLE: Mapping[Op, tuple[int, ...]] = {
    Op.RELATIVE: (0,),
    Op.RELATIVE_PLUS: (),
    Op.PIPE: (0,),
    Op.AFTER_FIRST: (1,),
    Op.BETWEEN_EACH: (1,),
    Op.FIRST_AFTER: (0,),
    Op.PREFIX: (),
}


def set_apart(expression: Expression) -> tuple[Expression, tuple[Some, ...]]:
    """The expression, inner variables settled, with leaves for the parts that are detected by themselves; and those.

    Variables of parts that look at a sub-history, or at what is bound outside, stay open.
    """
    found: list[Some] = []

    def apart(node: Expression, is_whole: bool) -> Expression:
        match node:
            case Primitive() | Place():
                return node
            case Apply(operator=operator, operands=operands):
                whole = [is_whole and i in _WHOLE.get(operator, (i,)) for i in range(len(operands))]
                return replace(node, operands=tuple(apart(o, w) for o, w in zip(operands, whole, strict=True)))
            case Nth(operand=operand) | Equate(operand=operand) | Exists(operand=operand):
                return replace(node, operand=apart(operand, is_whole))
            case Some():
                if not is_whole or not _is_closed(node):
                    return node
                found.append(_of_all(node))
                return found_leaf(len(found) - 1)

    return apart(with_open_variables(expression), True), tuple(found)


def _of_all(some: Some) -> Some:
    """One Some for those that stand right inside each other."""
    variables, operand = some.variables, some.operand
    while isinstance(operand, Some):
        variables, operand = variables + operand.variables, operand.operand
    return replace(some, variables=variables, operand=operand)


def _is_closed(some: Some) -> bool:
    """Whether nothing inside is bound outside, nor tells an EXISTS outside that it ranges over the start."""
    if names_start(some):
        return False
    bound = {v.name for node in walk(some) if isinstance(node, Some) for v in node.variables}
    events = {node.variable for node in walk(some) if isinstance(node, Exists)}
    for node in walk(some):
        match node:
            case Place(variable=x) | Equate(variable=x) if x not in events:
                return False
            case Primitive(bindings=bindings):
                if any(isinstance(b, Variable) and b.name not in bound for b in bindings):
                    return False
            case _:
                pass
    return True
