"""Variables that a negation binds in several places, inside a sub-history: `relative(A, !prior(K(X), L(X)))`.

No automaton tells all values of X apart, but a machine that is stepped through can: for each value that the history
has had it holds the state of the automaton for that value, and one state for all others. Such a variable is *open*, and
so is every machine made of one. A letter then says besides its symbol which values its event has; machines that are
not open do not look at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from augury.algebra.expression import Expression, Primitive, Some, Variable, freed, parts, walk
from augury.algebra.inner import open_variables
from augury.automata.alphabet import Alphabet, alphabet_over
from augury.automata.automaton import Language, Unbuilt

NO_VALUE = -1
_BITS = 40
"""How many bits of a letter hold the number of one value."""


@dataclass(frozen=True, slots=True)
class Saying:
    """An attribute whose value letters say: that of a leaf at which an open variable stands."""

    leaf: Primitive
    place: int
    variable: Variable


def said(numbers: tuple[int, ...]) -> int:
    """What a letter says besides its symbol: the number of the value of each `Saying`, NO_VALUE for none."""
    return sum(number + 1 << _BITS * i for i, number in enumerate(numbers))


def value_said(what: int, index: int) -> int:
    """The number of one of these values."""
    return (what >> _BITS * index & (1 << _BITS) - 1) - 1


def sayings(expression: Expression) -> tuple[Saying, ...]:
    """What the letters of a settled expression have to say, in order of appearance."""
    names = open_variables(expression)
    found = (
        Saying(_closed(part, names), place, names[binding.name])
        for part in parts(expression)
        if isinstance(part, Primitive)
        for place, binding in enumerate(part.bindings)
        if isinstance(binding, Variable) and binding.name in names
    )
    return tuple(dict.fromkeys(found))


def _closed(part: Primitive, names: dict[str, Variable]) -> Primitive:
    found = freed(part, names)
    assert isinstance(found, Primitive)
    return found


def inner_alphabet(some: Some, outer: Alphabet) -> Alphabet:
    """The symbols of what a Some binds, for one value of its variable."""
    deeper = open_variables(some.operand)
    leaves = dict.fromkeys(_closed(node, deeper) for node in walk(some.operand) if isinstance(node, Primitive))
    return alphabet_over(leaves, has_start=any(symbol.is_start for symbol in outer.symbols))


def for_some_value(some: Some, e: Language, inner: Alphabet, outer: Alphabet, says: tuple[Saying, ...]) -> Language:
    """Where E takes place for some value of the variable; `e` is the language for one value, over the inner symbols.

    A state is that for values not met yet, and those of the values met that differ from it.
    """
    name = some.variables[0].name
    reader = _Reader(name, inner, outer, says, len(e.variables))
    begun: tuple[Any, frozenset[tuple[int, Any]]] = (e.initial, frozenset())

    def step(state: tuple[Any, frozenset[tuple[int, Any]]], letter: int) -> tuple[Any, frozenset[tuple[int, Any]]]:
        before, known = state[0], dict(state[1])
        met = reader.values(letter)
        unmet = reader.closed(letter, None)
        rest = e.step(before, unmet)
        moved = {v: e.step(known.get(v, before), reader.closed(letter, v)) for v in met}
        moved |= {v: e.step(s, unmet) for v, s in known.items() if v not in moved}
        return rest, frozenset((v, s) for v, s in moved.items() if s != rest)

    def accepts(state: tuple[Any, frozenset[tuple[int, Any]]]) -> bool:
        return e.accepts(state[0]) or any(e.accepts(s) for _, s in state[1])

    return Unbuilt(len(outer.symbols), e.variables, begun, step, accepts, is_open=True)


class _Reader:
    """Letters of the outer alphabet as those of the inner one, for a value of the variable."""

    def __init__(self, name: str, inner: Alphabet, outer: Alphabet, says: tuple[Saying, ...], marks: int) -> None:
        self.size, self.inner_size, self.marks = len(outer.symbols), len(inner.symbols), marks
        self.symbol_of = {symbol.leaves: i for i, symbol in enumerate(inner.symbols) if not symbol.is_start}
        self.start_of = {i: symbol.is_start for i, symbol in enumerate(outer.symbols)}
        self.inner_start = next((i for i, symbol in enumerate(inner.symbols) if symbol.is_start), -1)
        number = {leaf: i for i, leaf in enumerate(outer.leaves)}
        every = {says_one.variable.name: says_one.variable for says_one in says}
        # Of each inner leaf: its number among the outer leaves, and which sayings have to be the value.
        demands = []
        for leaf in inner.leaves:
            own = [i for i, b in enumerate(leaf.bindings) if isinstance(b, Variable) and b.name == name]
            base = _closed(leaf, every)
            wanted = [i for i, s in enumerate(says) if s.leaf == base and s.variable.name == name and s.place in own]
            demands.append((number[_closed(leaf, {name: every[name]})], tuple(wanted)))
        self.true_of: list[list[tuple[int, tuple[int, ...]]]] = [
            [(i, wanted) for i, (leaf, wanted) in enumerate(demands) if leaf in symbol.leaves]
            for symbol in outer.symbols
        ]

    def _parts(self, letter: int) -> tuple[int, int]:
        return divmod(letter >> self.marks, self.size)

    def values(self, letter: int) -> set[int]:
        """The values of the variable at which this event is not like any other."""
        what, symbol = self._parts(letter)
        return {value_said(what, i) for _, wanted in self.true_of[symbol] for i in wanted} - {NO_VALUE}

    def closed(self, letter: int, value: int | None) -> int:
        """The letter for one value of the variable; None is a value that no event has."""
        what, symbol = self._parts(letter)
        if self.start_of[symbol]:
            inner = self.inner_start
        else:
            true = self.true_of[symbol]
            inner = self.symbol_of[
                frozenset(i for i, wanted in true if all(value_said(what, w) == value for w in wanted))
            ]
        return (what * self.inner_size + inner) << self.marks | letter & (1 << self.marks) - 1
