"""Automata in, automata out: the operators of the algebra as constructions on languages of non-empty words.

Every result is minimal and numbered in order of discovery, so that equal languages give equal automata. A construction
that would pass the limit of states raises `TooManyStates`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from augury import limits
from augury.automata.automaton import Automaton
from augury.automata.minimise import minimise

_S = TypeVar("_S", bound=Hashable)


class TooManyStates(Exception):
    """The automaton of an expression is too large to be built; simulate its parts instead."""


def build(
    symbols: int,
    variables: tuple[str, ...],
    initial: _S,
    step: Callable[[_S, int], _S],
    accepts: Callable[[_S], bool],
) -> Automaton:
    """The minimal automaton of a machine given by its steps; the initial state stands for the empty word."""
    letters = symbols << len(variables)
    # The empty word is in no language, so the start is a state of its own until minimising says otherwise.
    number: dict[tuple[_S, bool], int] = {(initial, True): 0}
    queue = [(initial, True)]
    rows: list[tuple[int, ...]] = []
    for state, _ in queue:
        row = []
        for letter in range(letters):
            following = (step(state, letter), False)
            if following not in number:
                if len(number) >= limits.AUTOMATON_STATES_MAX:
                    raise TooManyStates
                number[following] = len(queue)
                queue.append(following)
            row.append(number[following])
        rows.append(tuple(row))
    accepting = tuple(not is_start and accepts(state) for state, is_start in queue)
    return minimise(Automaton(symbols, variables, tuple(rows), accepting))


def ending_in(symbols: int, wanted: Iterable[int]) -> Automaton:
    """Words whose last symbol is one of the wanted."""
    accepted = frozenset(wanted)
    return build(symbols, (), False, lambda _, letter: letter in accepted, bool)


def of_length_one(symbols: int) -> Automaton:
    """`first`."""
    return build(symbols, (), 0, lambda length, _: min(length + 1, 2), lambda length: length == 1)


def marked(symbols: int, variable: str) -> Automaton:
    """`x`: words whose last event is marked."""
    return build(symbols, (variable,), 0, lambda _, letter: letter & 1, bool)


def lifted(automaton: Automaton, variables: tuple[str, ...]) -> Automaton:
    """The same language over letters with more marks, which it does not look at."""
    if variables == automaton.variables:
        return automaton
    places = [variables.index(v) for v in automaton.variables]
    width = len(variables)
    columns = []
    for letter in range(automaton.symbols << width):
        marks = sum((letter >> place & 1) << i for i, place in enumerate(places))
        columns.append((letter >> width) << len(automaton.variables) | marks)
    delta = tuple(tuple(row[column] for column in columns) for row in automaton.delta)
    return Automaton(automaton.symbols, variables, delta, automaton.accepting)


def aligned(*automata: Automaton) -> tuple[Automaton, ...]:
    """Automata over the marks of all of them."""
    variables = tuple(sorted({v for automaton in automata for v in automaton.variables}))
    return tuple(lifted(automaton, variables) for automaton in automata)


def complement(automaton: Automaton) -> Automaton:
    """`!E`: every non-empty word that is not in the language."""
    return build(
        automaton.symbols,
        automaton.variables,
        0,
        lambda q, a: automaton.delta[q][a],
        lambda q: not automaton.accepting[q],
    )


def combined(first: Automaton, second: Automaton, accepts: Callable[[bool, bool], bool]) -> Automaton:
    """Words by whether they are in the one and in the other language."""
    e, f = aligned(first, second)
    return build(
        e.symbols,
        e.variables,
        (0, 0),
        lambda q, a: (e.delta[q[0]][a], f.delta[q[1]][a]),
        lambda q: accepts(e.accepting[q[0]], f.accepting[q[1]]),
    )


def intersection(first: Automaton, second: Automaton) -> Automaton:
    """`E AND F`."""
    return combined(first, second, lambda x, y: x and y)


def union(first: Automaton, second: Automaton) -> Automaton:
    """`E OR F`."""
    return combined(first, second, lambda x, y: x or y)


def concatenation(first: Automaton, second: Automaton) -> Automaton:
    """`relative(E, F)`: a word of E and then a word of F, which sees nothing of what came before."""
    e, f = aligned(first, second)

    def step(state: tuple[int, frozenset[int]], letter: int) -> tuple[int, frozenset[int]]:
        following = e.delta[state[0]][letter]
        inside = frozenset(f.delta[q][letter] for q in state[1])
        return following, inside | {0} if e.accepting[following] else inside

    begin: tuple[int, frozenset[int]] = (0, frozenset())
    return build(e.symbols, e.variables, begin, step, lambda q: any(f.accepting[s] for s in q[1]))


def repetition(automaton: Automaton) -> Automaton:
    """`relative+(E)`: one or more words of E after each other."""
    e = automaton

    def step(state: frozenset[int], letter: int) -> frozenset[int]:
        following = frozenset(e.delta[q][letter] for q in state)
        return following | {0} if any(e.accepting[q] for q in following) else following

    return build(e.symbols, e.variables, frozenset({0}), step, lambda q: any(e.accepting[s] for s in q))


def piped(first: Automaton, second: Automaton) -> Automaton:
    """`E | F`: F reads only the events at which E takes place."""
    e, f = aligned(first, second)

    def step(state: tuple[int, int, bool], letter: int) -> tuple[int, int, bool]:
        outer = e.delta[state[0]][letter]
        passes = e.accepting[outer]
        return outer, f.delta[state[1]][letter] if passes else state[1], passes

    return build(e.symbols, e.variables, (0, 0, False), step, lambda q: q[2] and f.accepting[q[1]])


def counted(automaton: Automaton, count: int, *, every: bool) -> Automaton:
    """`<n> E`, or `EVERY <n> E`."""
    e = automaton

    def step(state: tuple[int, int, bool], letter: int) -> tuple[int, int, bool]:
        following, seen = e.delta[state[0]][letter], state[1]
        if not e.accepting[following]:
            return following, seen, False
        seen = seen % count + 1 if every else min(seen + 1, count + 1)
        return following, seen, seen == count

    return build(e.symbols, e.variables, (0, 0, False), step, lambda q: q[2])


def in_each_stretch(inner: Automaton, delimiter: Automaton) -> Automaton:
    """`F /+ E`: F in the events strictly between one E and the next, and after the last."""
    f, e = aligned(inner, delimiter)
    outside = -1

    def step(state: tuple[int, int], letter: int) -> tuple[int, int]:
        following = e.delta[state[0]][letter]
        if e.accepting[following]:
            return following, 0
        return following, outside if state[1] == outside else f.delta[state[1]][letter]

    # State 0 of F has read nothing, and is never accepting.
    return build(e.symbols, e.variables, (0, outside), step, lambda q: q[1] != outside and f.accepting[q[1]])


def possible(automaton: Automaton, to_come: Iterable[int]) -> Automaton:
    """`prefix(E)`: words that some further word of symbols that may still come makes one of E."""
    assert not automaton.variables, "the operand of prefix has no free correlation variable"
    into: list[set[int]] = [set() for _ in automaton.delta]
    for symbol in to_come:
        for state, row in enumerate(automaton.delta):
            into[row[symbol]].add(state)
    hopeful: set[int] = set()
    stack = [state for state, accepts in enumerate(automaton.accepting) if accepts]
    while stack:
        for state in into[stack.pop()]:
            if state not in hopeful:
                hopeful.add(state)
                stack.append(state)
    return build(automaton.symbols, automaton.variables, 0, lambda q, a: automaton.delta[q][a], hopeful.__contains__)


def projected(automaton: Automaton, variable: str, among: Iterable[int]) -> Automaton:
    """`EXISTS x E`: words in which exactly one event, among these symbols, can be marked so that E takes place."""
    automaton = lifted(automaton, tuple(sorted({*automaton.variables, variable})))
    markable = frozenset(among)
    place = automaton.variables.index(variable)
    rest = tuple(v for v in automaton.variables if v != variable)
    low = (1 << place) - 1

    def widened(letter: int) -> int:
        return letter >> place << place + 1 | letter & low

    def step(state: frozenset[tuple[int, bool]], letter: int) -> frozenset[tuple[int, bool]]:
        plain = widened(letter)
        here = {(automaton.delta[q][plain], seen) for q, seen in state}
        if letter >> len(rest) in markable:
            here |= {(automaton.delta[q][plain | 1 << place], True) for q, seen in state if not seen}
        return frozenset(here)

    return build(
        automaton.symbols,
        rest,
        frozenset({(0, False)}),
        step,
        lambda q: any(seen and automaton.accepting[s] for s, seen in q),
    )
