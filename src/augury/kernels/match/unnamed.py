"""Leaves and expressions without the names that a program gives them, for fingerprints.

What an attribute is called in a mask stays: a mask over another attribute is another mask.
"""

from __future__ import annotations

from augury.algebra.expression import Apply, Equate, Exists, Expression, Nth, Place, Primitive, Some, Variable
from augury.algebra.scalar import dump
from augury.automata.alphabet import Alphabet


def demand_of(leaf: Primitive, alphabet: Alphabet) -> tuple[object, ...]:
    """What a leaf asks of an event, with numbers for classes and variables."""
    classes = list(dict.fromkeys(one.event_class for one in alphabet.leaves))
    names = [b.name for one in alphabet.leaves for b in one.bindings if isinstance(b, Variable)]
    bound = tuple(("variable", names.index(b.name)) if isinstance(b, Variable) else repr(b) for b in leaf.bindings)
    return classes.index(leaf.event_class), bound, None if leaf.mask is None else dump(leaf.mask)


def shape_of(expression: Expression) -> object:
    """An expression without names: what a machine that is not written down is told apart by."""
    names: dict[str, int] = {}

    def number(name: str) -> int:
        return names.setdefault(name, len(names))

    def shape(node: Expression) -> object:
        match node:
            case Primitive(event_class=event_class, bindings=bindings, mask=mask):
                bound = tuple(number(f"${b.name}") if isinstance(b, Variable) else repr(b) for b in bindings)
                return number(f"{event_class}()"), bound, None if mask is None else dump(mask)
            case Place(variable=x):
                return number(x)
            case Apply(operator=operator, operands=operands):
                return (operator.value, *map(shape, operands))
            case Nth(count=count, every=every, operand=operand):
                return count, every, shape(operand)
            case Equate(operand=operand, variable=x) | Exists(operand=operand, variable=x):
                return type(node).__name__, number(x), shape(operand)
            case Some(variables=variables, operand=operand):
                return tuple(number(f"${v.name}") for v in variables), shape(operand)

    return shape(expression)
