"""What automata decide about expressions: never, everywhere, the same events, only where another does, and a witness.

In: event expressions. Out: truths about every history. Leaves are taken for independent of each other but for what the
alphabet excludes, so `never`, `everywhere`, `equivalent` and `implies` are true of every history when they say so.
Expressions are compared in a canonical form, which depends neither on the order of the text nor on names of variables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import assert_never

from augury import limits
from augury.algebra.expression import (
    Anything,
    Apply,
    Binding,
    Equate,
    Exists,
    Expression,
    Nth,
    Place,
    Primitive,
    Some,
    Variable,
)
from augury.algebra.scalar import Constant
from augury.automata.alphabet import Alphabet, Symbol, alphabet_over, condition
from augury.automata.automaton import Automaton
from augury.automata.build import Compiled, body_of, compile_expression
from augury.automata.minimise import minimise
from augury.automata.operations import TooManyStates
from augury.types import NULL


@dataclass(frozen=True, slots=True)
class Witness:
    """A history, as symbols of the alphabet of both, after which one expression takes place and the other does not."""

    alphabet: Alphabet
    word: tuple[int, ...]
    first_takes_place: bool

    @property
    def history(self) -> tuple[str, ...]:
        """The names of its symbols."""
        names = self.alphabet.names()
        return tuple(names[symbol] for symbol in self.word)


def never(compiled: Compiled) -> bool:
    """Whether the expression takes place at no event of any history."""
    delta, accepting = compiled.automaton.delta, compiled.automaton.accepting
    return not any(accepting[row[letter]] for row in delta for letter in _events(compiled.alphabet))


def everywhere(compiled: Compiled) -> bool:
    """Whether the expression takes place at every event of every history."""
    delta, accepting = compiled.automaton.delta, compiled.automaton.accepting
    return all(accepting[row[letter]] for row in delta for letter in _events(compiled.alphabet))


def equivalent(first: Compiled, second: Compiled) -> bool:
    """Whether two expressions in canonical form take place at the same events of every history."""
    return form_hash(first) == form_hash(second)


def implies(first: Compiled, second: Compiled) -> bool:
    """Whether the second of two expressions in canonical form takes place wherever the first does.

    Like `distinguishing` it raises `TooManyStates` where the two together have too many to be walked through.
    """
    joint = joint_alphabet(first, second)
    sides = [[_projected(joint, one.alphabet)] for one in (first, second)]
    symbols = range(len(joint.symbols))
    return _search((first, second), joint, sides, symbols, lambda one, other: one and not other) is None


def distinguishing(first: Compiled, second: Compiled) -> Witness | None:
    """The shortest history at whose last event one takes place and the other does not.

    None if they are equivalent. Of expressions with variables only histories are looked at in which each variable has
    one value and no event another, so that there None says that no such history tells them apart.
    """
    joint = joint_alphabet(first, second)
    variables = sorted({name for leaf in joint.leaves for _, name in _variables(leaf)})
    hidden = [frozenset(some) for n in range(len(variables) + 1) for some in combinations(variables, n)]
    if len(hidden) > _VALUATIONS_MAX:
        return None
    sides = [[_projected(joint, one.alphabet, names) for names in hidden] for one in (first, second)]
    return _search((first, second), joint, sides, _plain(joint), lambda one, other: one != other)


_VALUATIONS_MAX = 8
"""Ways in which values may be those of the variables or not, each of which is a pair of automata in a product."""


def canonical_hash(expression: Expression) -> str:
    """A hash of where an expression takes place, whatever its spelling: equal for equivalent expressions only."""
    return form_hash(canonical(expression))


def form_hash(compiled: Compiled) -> str:
    """The hash of an expression that is in canonical form already."""
    leaves = "\n".join(printed(leaf) for leaf in compiled.alphabet.leaves)
    return hashlib.sha256(f"{leaves}\n{compiled.automaton.fingerprint()}".encode()).hexdigest()[:16]


def canonical(expression: Expression) -> Compiled:
    """The automaton over the leaves on which it depends, these in alphabetical order; variables are v1, v2, …."""
    return canonical_form(compile_expression(normal(expression)))


def canonical_form(compiled: Compiled) -> Compiled:
    """The canonical form of the automaton of a `normal` expression."""
    old, automaton = compiled.alphabet, compiled.automaton
    order = sorted(range(len(old.leaves)), key=lambda i: printed(old.leaves[i]))
    columns = {
        (symbol.event_class, symbol.leaves): tuple(row[i] for row in automaton.delta)
        for i, symbol in enumerate(old.symbols)
        if not symbol.is_start
    }
    kept = []
    for leaf in order:
        without = _merged(columns, leaf)
        if without is None:
            kept.append(leaf)
        else:
            columns = without
    alphabet = alphabet_over(old.leaves[i] for i in kept)
    found = [columns[symbol.event_class, frozenset(kept[i] for i in symbol.leaves)] for symbol in alphabet.symbols]
    delta = tuple(zip(*found, strict=True))
    return Compiled(alphabet, minimise(Automaton(len(alphabet.symbols), (), delta, automaton.accepting)))


_Columns = dict[tuple[str | None, frozenset[int]], tuple[int, ...]]


def _merged(columns: _Columns, leaf: int) -> _Columns | None:
    """The columns once nobody tells a leaf true from it false; None where that makes a difference."""
    merged: _Columns = {}
    for (event_class, true), column in columns.items():
        rest = true - {leaf}
        if merged.setdefault((event_class if rest else None, rest), column) != column:
            return None
    return merged


def printed(leaf: Primitive) -> str:
    """A leaf as text: its class and what it demands."""
    return leaf.event_class + condition(leaf)


def relevant_classes(compiled: Compiled) -> frozenset[str]:
    """The classes whose events make a difference; equivalent expressions have the same."""
    delta, symbols = compiled.automaton.delta, compiled.alphabet.symbols
    other = symbols.index(Symbol(None))
    return frozenset(
        symbol.event_class
        for i, symbol in enumerate(symbols)
        if symbol.event_class is not None and any(row[i] != row[other] for row in delta)
    )


def joint_alphabet(first: Compiled, second: Compiled) -> Alphabet:
    """The symbols that two expressions in canonical form tell apart between them."""
    leaves = dict.fromkeys((*first.alphabet.leaves, *second.alphabet.leaves))
    return alphabet_over(sorted(leaves, key=printed))


# ---- searching -----------------------------------------------------------------------------------


_States = tuple[tuple[int, ...], tuple[int, ...]]


def _search(
    pair: tuple[Compiled, Compiled],
    joint: Alphabet,
    sides: list[list[list[int]]],
    symbols: Iterable[int],
    wanted: Callable[[bool, bool], bool],
) -> Witness | None:
    """The shortest history after which the two are as wanted, breadth first.

    Of each side there is one run for each reading of the symbols; it takes place where one of them does.
    """

    def step(side: int, states: tuple[int, ...], symbol: int) -> tuple[int, ...]:
        delta = pair[side].automaton.delta
        return tuple(delta[q][reading[symbol]] for q, reading in zip(states, sides[side], strict=True))

    def accepts(side: int, states: tuple[int, ...]) -> bool:
        return any(pair[side].automaton.accepting[q] for q in states)

    begin: _States = ((0,) * len(sides[0]), (0,) * len(sides[1]))
    came_from: dict[_States, tuple[_States, int] | None] = {begin: None}
    queue = [begin]
    tried = list(symbols)
    for at in queue:
        for symbol in tried:
            following = (step(0, at[0], symbol), step(1, at[1], symbol))
            one, other = accepts(0, following[0]), accepts(1, following[1])
            if wanted(one, other):
                return Witness(joint, _word(came_from, at, symbol), one)
            if following not in came_from:
                if len(came_from) >= limits.COMPARISON_STATES_MAX:
                    raise TooManyStates
                came_from[following] = (at, symbol)
                queue.append(following)
    return None


def _word(came_from: dict[_States, tuple[_States, int] | None], at: _States, last: int) -> tuple[int, ...]:
    word = [last]
    while (before := came_from[at]) is not None:
        at, symbol = before
        word.append(symbol)
    return tuple(reversed(word))


def _projected(joint: Alphabet, own: Alphabet, hidden: frozenset[str] = frozenset()) -> list[int]:
    """What each symbol of a joint alphabet is to an expression that has some of its leaves.

    A variable that is hidden has a value that no event has, so that no leaf with it is true.
    """
    seen = {leaf: i for i, leaf in enumerate(own.leaves) if hidden.isdisjoint(name for _, name in _variables(leaf))}
    place = {i: seen[leaf] for i, leaf in enumerate(joint.leaves) if leaf in seen}
    index = {(symbol.event_class, symbol.leaves): i for i, symbol in enumerate(own.symbols)}
    found = []
    for symbol in joint.symbols:
        true = frozenset(place[i] for i in symbol.leaves if i in place)
        found.append(index[symbol.event_class if true else None, true])
    return found


def _plain(alphabet: Alphabet) -> list[int]:
    """The symbols of events that have the values of all the variables of their class, and no constants there."""
    unclear: set[str] = set()
    wanted: dict[str, set[tuple[int, str]]] = {}
    for leaf in alphabet.leaves:
        wanted.setdefault(leaf.event_class, set()).update(_variables(leaf))
    for leaf in alphabet.leaves:
        variables = wanted[leaf.event_class]
        constants = {i for i, binding in enumerate(leaf.bindings) if isinstance(binding, Constant)}
        places = [i for i, _ in variables]
        if len(set(places)) < len(places) or not constants.isdisjoint(places):
            unclear.add(leaf.event_class)
    found = []
    for i, symbol in enumerate(alphabet.symbols):
        has = {pair for leaf in symbol.leaves for pair in _variables(alphabet.leaves[leaf])}
        if symbol.event_class not in unclear and wanted.get(symbol.event_class or "", set()) <= has:
            found.append(i)
    # Of histories of one length that with most events of no meaning is the plainest.
    return sorted(found, key=lambda i: alphabet.symbols[i].event_class is not None)


def _variables(leaf: Primitive) -> list[tuple[int, str]]:
    """The variables of a leaf with the attributes they stand for."""
    return [(i, binding.name) for i, binding in enumerate(leaf.bindings) if isinstance(binding, Variable)]


def _events(alphabet: Alphabet) -> list[int]:
    """The symbols that events have: all but the start."""
    return [i for i, symbol in enumerate(alphabet.symbols) if not symbol.is_start]


# ---- one form for all spellings ------------------------------------------------------------------


def normal(expression: Expression) -> Expression:
    """The body of an expression with its variables named by first appearance, and `A(_, _)` written `A`."""
    return _renamed(body_of(expression), {})


def _renamed(expression: Expression, names: dict[str, str]) -> Expression:
    match expression:
        case Primitive(event_class=event_class, bindings=bindings, mask=mask):
            bound = tuple(_binding(binding, names) for binding in bindings)
            if all(isinstance(binding, Anything) for binding in bound):
                bound = ()
            return Primitive(event_class, bound, mask, expression.span)
        case Place():
            return expression
        case Apply(operands=operands):
            return replace(expression, operands=tuple(_renamed(operand, names) for operand in operands))
        case Nth() | Equate() | Exists() | Some():
            return replace(expression, operand=_renamed(expression.operand, names))
        case _:
            assert_never(expression)


def _binding(binding: Binding, names: dict[str, str]) -> Binding:
    if not isinstance(binding, Variable):
        return binding
    # Of what type a variable is, its places say.
    return Variable(names.setdefault(binding.name, f"v{len(names) + 1}"), NULL)
