"""Which values are equal, as far as a prefix asks: what may still come depends on it.

`prefix(prior(K(X), K(Y)))`: if X and Y are the same value, one event is both; if not, none is. One machine per *kind*
of values, each with the events that may come for such values, tells; which kind the values of a stream are of, whoever
knows the values has to find out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product

from augury import limits
from augury.algebra.expression import Anything, Binding, Expression, Primitive, Variable
from augury.algebra.inner import prefixes, rivals
from augury.algebra.scalar import Constant
from augury.automata.alphabet import Alphabet, is_found

Kind = Mapping[Binding, int]
"""A number for each variable and constant between which a prefix makes a difference: equal for equal values."""


class TooManyKinds(Exception):
    """Values may be equal in more ways than the limit allows."""


def kinds_of(expression: Expression) -> tuple[Kind, ...]:
    """The ways in which values may be equal or not; none, where no prefix asks."""
    found = {binding for prefix in prefixes(expression) for some in rivals(prefix) for binding in some}
    constants = sorted((b for b in found if isinstance(b, Constant)), key=repr)
    variables = sorted((b for b in found if isinstance(b, Variable)), key=lambda v: v.name)
    if not variables:
        return ()
    numbers: dict[object, int] = {}
    fixed: dict[Binding, int] = {c: numbers.setdefault(c.value, len(numbers)) for c in constants}
    kinds = [fixed]
    for variable in variables:
        kinds = [{**kind, variable: n} for kind in kinds for n in range(max(kind.values(), default=-1) + 2)]
        if len(kinds) > limits.KINDS_OF_VALUES_MAX:
            raise TooManyKinds
    return tuple(kinds)


def may_come(alphabet: Alphabet, kind: Kind) -> list[int]:
    """The symbols of events that there may be, if values are equal as a kind says; masks are taken for independent."""
    possible = {frozenset[int]()}
    for event_class in dict.fromkeys(leaf.event_class for leaf in alphabet.leaves if not is_found(leaf)):
        own = {i: leaf for i, leaf in enumerate(alphabet.leaves) if leaf.event_class == event_class}
        possible |= set(_sets(own, kind))
    found = {i for i, leaf in enumerate(alphabet.leaves) if is_found(leaf)}
    return [i for i, s in enumerate(alphabet.symbols) if not s.is_start and s.leaves - found in possible]


def _sets(own: Mapping[int, Primitive], kind: Kind) -> Iterator[frozenset[int]]:
    """Which leaves of a class are true together, for each combination of values and masks."""
    width = max(len(leaf.bindings) for leaf in own.values())
    at = [{_value(leaf.bindings[i], kind) for leaf in own.values() if leaf.bindings} - {None} for i in range(width)]
    masks = {leaf.mask for leaf in own.values()} - {None}
    subsets = chain.from_iterable(combinations(masks, size) for size in range(len(masks) + 1))
    for satisfied, values in product(list(subsets), product(*([*some, "another"] for some in at))):
        yield frozenset(
            i
            for i, leaf in own.items()
            if (leaf.mask is None or leaf.mask in satisfied)
            and all(_value(b, kind) in (None, value) for b, value in zip(leaf.bindings, values, strict=False))
        )


def _value(binding: Binding, kind: Kind) -> object:
    """A token for the value that is demanded; None for any."""
    if isinstance(binding, Anything):
        return None
    if binding in kind:
        return kind[binding]
    return repr(binding.value) if isinstance(binding, Constant) else f"value of {binding.name}"
