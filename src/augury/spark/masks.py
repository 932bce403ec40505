"""What of a mask Spark can tell by itself: a leaf of an expression → a scalar that is true wherever the leaf may be.

In: leaves, classes. Out: scalars of AND, OR and plain comparisons, which `feeding` makes Spark expressions of. What is
left out of a mask is looked at by the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from augury import types as t
from augury.algebra.expression import Primitive
from augury.algebra.operators import COMPARISONS, Operator
from augury.algebra.scalar import Apply, Constant, Field, Scalar
from augury.event import EventClass, key_of
from augury.kernels.match.leaves import code_of


def needed(
    leaves: Sequence[Primitive], classes: Sequence[EventClass], codes: Sequence[int]
) -> dict[int, list[Scalar] | None]:
    """By class which rows some leaf may be true of: those of which one of these scalars is; None is all of them."""
    found: dict[int, list[Scalar] | None] = {code: [] for code in codes}
    for leaf in leaves:
        code = code_of(classes, leaf.event_class)
        of_class = found.get(code)
        if of_class is not None:
            told = _of_leaf(leaf, classes[code])
            found[code] = None if told is None else [*of_class, told]
    return found


def _of_leaf(leaf: Primitive, event_class: EventClass) -> Scalar | None:
    known: list[Scalar] = []
    for attribute, binding in zip(event_class.attributes, leaf.bindings, strict=False):
        if isinstance(binding, Constant) and binding.value is not None:
            field = Field("", attribute.name, attribute.type)
            if _is_plain(Operator.EQ, field, binding, event_class):
                known.append(Apply(Operator.EQ, (field, binding), t.Boolean()))
    mask = None if leaf.mask is None else _plain(leaf.mask, event_class)
    return _all(known if mask is None else [*known, mask])


def _all(known: Sequence[Scalar]) -> Scalar | None:
    if len(known) < 2:
        return known[0] if known else None
    return Apply(Operator.AND, tuple(known), t.Boolean())


def _plain(mask: Scalar, event_class: EventClass) -> Scalar | None:
    """The part of a mask that is true wherever it is true or in error; None where that may be anywhere."""
    match mask:
        case Apply(operator=Operator.AND, operands=operands):
            return _all([one for one in (_plain(o, event_class) for o in operands) if one is not None])
        case Apply(operator=Operator.OR, operands=operands):
            known = [one for one in (_plain(o, event_class) for o in operands) if one is not None]
            return Apply(Operator.OR, tuple(known), t.Boolean()) if len(known) == len(operands) else None
        case Apply(operator=operator, operands=(Field() as field, Constant() as constant)) if operator in COMPARISONS:
            return mask if _is_plain(operator, field, constant, event_class) else None
        case _:
            return None


def _is_plain(operator: Operator, field: Field, constant: Constant, event_class: EventClass) -> bool:
    """Whole numbers with whole numbers, and texts with equal texts: what no rounding or collation could change."""
    whole = isinstance(field.type, t.Int | t.BigInt) and isinstance(constant.type, t.Int | t.BigInt)
    text = isinstance(field.type, t.String) and isinstance(constant.value, str) and operator is Operator.EQ
    is_attribute = any(key_of(attribute.name) == key_of(field.name) for attribute in event_class.attributes)
    return (whole or text) and constant.value is not None and is_attribute
