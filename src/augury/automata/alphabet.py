"""The symbols an expression tells apart: the minterms of its leaves, and OTHER for every event it does not name.

A leaf is a class with bindings and a mask; for an event and a value of each variable it is true or false. A symbol says
which leaves are true, so symbols exclude each other however masks overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from augury.algebra.expression import Anything, Apply, Expression, MatchOperator, Primitive, walk
from augury.algebra.scalar import Constant, dump


@dataclass(frozen=True, slots=True)
class Symbol:
    """Events of a class at which just these leaves are true; no class is OTHER, or the start if `is_start`."""

    event_class: str | None
    leaves: frozenset[int] = frozenset()
    is_start: bool = False


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The leaves of an expression, in order of appearance, and its symbols."""

    leaves: tuple[Primitive, ...]
    symbols: tuple[Symbol, ...]

    def where(self, leaf: Primitive) -> list[int]:
        """The symbols at which a leaf is true."""
        index = self.leaves.index(leaf)
        return [i for i, symbol in enumerate(self.symbols) if index in symbol.leaves]

    def names(self) -> list[str]:
        """A short name for each symbol."""
        return [self._name(symbol) for symbol in self.symbols]

    def _name(self, symbol: Symbol) -> str:
        if symbol.is_start:
            return "start"
        if symbol.event_class is None:
            return "OTHER"
        conditions = [_condition(leaf) for leaf in self.leaves if leaf.event_class == symbol.event_class]
        if not any(conditions):
            return symbol.event_class
        true = [c for i in sorted(symbol.leaves) if (c := _condition(self.leaves[i]))]
        return f"{symbol.event_class}{'∧'.join(true)}" if true else f"other {symbol.event_class}"


def alphabet_of(expression: Expression) -> Alphabet:
    """The symbols of an expression, deterministic in its text."""
    leaves = tuple(dict.fromkeys(node for node in walk(expression) if isinstance(node, Primitive)))
    classes = dict.fromkeys(leaf.event_class for leaf in leaves)
    symbols = [symbol for name in classes for symbol in _minterms(name, leaves)]
    symbols.append(Symbol(None))
    if any(isinstance(n, Apply) and n.operator is MatchOperator.START for n in walk(expression)):
        symbols.append(Symbol(None, is_start=True))
    return Alphabet(leaves, tuple(symbols))


def _minterms(event_class: str, leaves: tuple[Primitive, ...]) -> Iterator[Symbol]:
    own = [i for i, leaf in enumerate(leaves) if leaf.event_class == event_class]
    always = [i for i in own if not _condition(leaves[i])]
    sometimes = [i for i in own if i not in always]
    for size in range(len(sometimes), -1, -1):
        for chosen in combinations(sometimes, size):
            if _compatible([leaves[i] for i in chosen]):
                yield Symbol(event_class, frozenset([*always, *chosen]))


def _compatible(leaves: list[Primitive]) -> bool:
    """Whether one event can satisfy all: not if two constants at one attribute differ."""
    constants: dict[int, Constant] = {}
    for leaf in leaves:
        for position, binding in enumerate(leaf.bindings):
            if isinstance(binding, Constant) and constants.setdefault(position, binding) != binding:
                return False
    return True


def _condition(leaf: Primitive) -> str:
    """What a leaf demands of an event of its class; empty for nothing."""
    bound = ""
    if any(not isinstance(binding, Anything) for binding in leaf.bindings):
        bound = "(" + ", ".join(_binding(binding) for binding in leaf.bindings) + ")"
    return bound + ("" if leaf.mask is None else f"[{dump(leaf.mask)}]")


def _binding(binding: object) -> str:
    match binding:
        case Anything():
            return "_"
        case Constant():
            return dump(binding)
        case _:
            return str(getattr(binding, "name", binding))
