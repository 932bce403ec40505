"""The symbols an expression tells apart: the minterms of its leaves, and OTHER for every event it does not name.

A leaf is a class with bindings and a mask; for an event and a value of each variable it is true or false. A symbol says
which leaves are true, so symbols exclude each other however masks overlap. An event at which none is true is OTHER, of
whatever class it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from augury.algebra.expression import Anything, Apply, Expression, MatchOperator, Primitive, walk
from augury.algebra.scalar import Constant, dump


@dataclass(frozen=True, slots=True)
class Symbol:
    """Events of a class at which just these leaves, at least one, are true; no class is OTHER, or the start."""

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

    def at(self, event_class: str, true: Iterable[int]) -> int:
        """The symbol of an event of a class at which just these leaves are true."""
        wanted = frozenset(true)
        symbol = Symbol(event_class, wanted) if wanted else Symbol(None)
        return self.symbols.index(symbol)

    def names(self) -> list[str]:
        """A short name for each symbol."""
        return [self._name(symbol) for symbol in self.symbols]

    def _name(self, symbol: Symbol) -> str:
        if symbol.is_start:
            return "start"
        if symbol.event_class is None:
            return "OTHER"
        conditions = [condition(leaf) for leaf in self.leaves if leaf.event_class == symbol.event_class]
        if not any(conditions):
            return symbol.event_class
        true = [c for i in sorted(symbol.leaves) if (c := condition(self.leaves[i]))]
        return f"{symbol.event_class}{'∧'.join(true)}" if true else f"other {symbol.event_class}"


def alphabet_of(expression: Expression) -> Alphabet:
    """The symbols of an expression, deterministic in its text."""
    leaves = dict.fromkeys(node for node in walk(expression) if isinstance(node, Primitive))
    return alphabet_over(leaves, has_start=names_start(expression))


def names_start(expression: Expression) -> bool:
    """Whether `start` stands in an expression."""
    return any(isinstance(n, Apply) and n.operator is MatchOperator.START for n in walk(expression))


def alphabet_over(leaves: Iterable[Primitive], *, has_start: bool = False) -> Alphabet:
    """The symbols that these leaves tell apart, deterministic in their order."""
    ordered = tuple(leaves)
    classes = dict.fromkeys(leaf.event_class for leaf in ordered if not is_found(leaf))
    symbols = [Symbol(name, true) for name in classes for true in _minterms(name, ordered)]
    symbols.append(Symbol(None))
    for number, leaf in enumerate(ordered):
        if is_found(leaf):
            symbols += [Symbol(symbol.event_class, symbol.leaves | {number}) for symbol in symbols]
    if has_start:
        symbols.append(Symbol(None, is_start=True))
    return Alphabet(ordered, tuple(symbols))


FOUND = "?"


def found_leaf(number: int) -> Primitive:
    """A leaf that is true of events of any class: whoever reads the events has to find out of which."""
    return Primitive(f"{FOUND}{number}")


def is_found(leaf: Primitive) -> bool:
    """Whether a leaf is such a one."""
    return leaf.event_class.startswith(FOUND)


def number_of(leaf: Primitive) -> int:
    """The number of such a leaf."""
    return int(leaf.event_class.removeprefix(FOUND))


def has_at_most(leaves: Iterable[Primitive], count: int) -> bool:
    """Whether the leaves tell no more than so many kinds of event apart; found out without listing more than those."""
    ordered = tuple(leaves)
    total = 1
    for name in dict.fromkeys(leaf.event_class for leaf in ordered):
        own = [(i, condition(leaf)) for i, leaf in enumerate(ordered) if leaf.event_class == name]
        total -= all(demanded for _, demanded in own)  # then the empty set is OTHER
        chosen: list[tuple[int, ...]] = [()]
        for i, demanded in own:
            chosen = _with_another(chosen, i, ordered) if demanded else chosen
            if total + len(chosen) > count:
                return False
        total += len(chosen)
    return total <= count


def _minterms(event_class: str, leaves: tuple[Primitive, ...]) -> list[frozenset[int]]:
    """The sets of leaves that an event of the class can satisfy and no other, the largest first; not the empty one."""
    own = [i for i, leaf in enumerate(leaves) if leaf.event_class == event_class]
    always = [i for i in own if not condition(leaves[i])]
    chosen: list[tuple[int, ...]] = [()]
    for i in own:
        chosen = chosen if i in always else _with_another(chosen, i, leaves)
    chosen.sort(key=lambda some: (-len(some), some))
    entailed = {i: [j for j in own if _entails(leaves[i], leaves[j])] for i in own}
    sets = [true for some in chosen if (true := frozenset([*always, *some]))]
    return [true for true in sets if all(true.issuperset(entailed[i]) for i in true)]


def _with_another(chosen: list[tuple[int, ...]], leaf: int, leaves: tuple[Primitive, ...]) -> list[tuple[int, ...]]:
    """The sets with and without one more leaf: of a hundred constants of one attribute a hundred sets, not 2^100."""
    return chosen + [(*some, leaf) for some in chosen if _compatible([leaves[i] for i in (*some, leaf)])]


def _compatible(leaves: list[Primitive]) -> bool:
    """Whether one event can satisfy all: not if two constants at one attribute differ."""
    constants: dict[int, Constant] = {}
    for leaf in leaves:
        for position, binding in enumerate(leaf.bindings):
            if isinstance(binding, Constant) and _differ(constants.setdefault(position, binding), binding):
                return False
    return True


def _entails(leaf: Primitive, other: Primitive) -> bool:
    """Whether an event at which a leaf is true is one at which the other, of the same class, is true too."""
    if other.mask is not None and other.mask != leaf.mask:
        return False
    mine = leaf.bindings or (Anything(),) * len(other.bindings)
    return all(isinstance(b, Anything) or b == a for a, b in zip(mine, other.bindings, strict=False))


def _differ(first: Constant, second: Constant) -> bool:
    """Whether no value is both; what is written in two types may become one value of the attribute."""
    a, b = first.value, second.value
    comparable = type(a) is type(b) or a is None or b is None or {type(a), type(b)} == {int, Decimal}
    return comparable and a != b


def condition(leaf: Primitive) -> str:
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
