"""Automata in, automata out: the operators of the algebra as constructions on languages of non-empty words.

Every result is minimal and numbered in order of discovery, so that equal languages give equal automata. What would pass
the limit of states stays unbuilt, and so does what is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from augury import limits
from augury.automata.automaton import Automaton, Language, Unbuilt
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


def made(
    symbols: int,
    variables: tuple[str, ...],
    initial: _S,
    step: Callable[[_S, int], _S],
    accepts: Callable[[_S], bool],
    of: tuple[Language, ...] = (),
) -> Language:
    """The minimal automaton of a machine made of others, or the machine itself where it or one of those is too large.

    Of an unbuilt machine only non-empty words are asked, so its initial state need not be one of its own.
    """
    if all(isinstance(one, Automaton) for one in of):
        try:
            return build(symbols, variables, initial, step, accepts)
        except TooManyStates:
            pass
    return Unbuilt(symbols, variables, initial, step, accepts, any(one.is_open for one in of))


def built(language: Language) -> Automaton:
    """The automaton; raises `TooManyStates` where there is none."""
    if isinstance(language, Unbuilt):
        raise TooManyStates
    return language


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


def lifted(language: Language, variables: tuple[str, ...]) -> Language:
    """The same language over letters with more marks, which it does not look at."""
    if variables == language.variables:
        return language
    narrow = narrowing(language.variables, variables)
    if isinstance(language, Automaton):
        columns = list(map(narrow, range(language.symbols << len(variables))))
        delta = tuple(tuple(row[column] for column in columns) for row in language.delta)
        return Automaton(language.symbols, variables, delta, language.accepting)
    step = language.step
    return replace(language, variables=variables, step=lambda q, a: step(q, narrow(a)))


def narrowing(variables: tuple[str, ...], wider: tuple[str, ...]) -> Callable[[int], int]:
    """From a letter with the wider marks to the letter with these marks only."""
    places = [wider.index(v) for v in variables]
    all_marks = (1 << len(wider)) - 1
    of_marks = [sum((marks >> place & 1) << i for i, place in enumerate(places)) for marks in range(all_marks + 1)]
    wide, narrow = len(wider), len(variables)
    return lambda letter: (letter >> wide) << narrow | of_marks[letter & all_marks]


def aligned(*languages: Language) -> tuple[Language, ...]:
    """Languages over the marks of all of them."""
    variables = tuple(sorted({v for language in languages for v in language.variables}))
    return tuple(lifted(language, variables) for language in languages)


def complement(e: Language) -> Language:
    """`!E`: every non-empty word that is not in the language."""
    return made(e.symbols, e.variables, e.initial, e.step, lambda q: not e.accepts(q), (e,))


def combined(first: Language, second: Language, accepts: Callable[[bool, bool], bool]) -> Language:
    """Words by whether they are in the one and in the other language."""
    e, f = aligned(first, second)
    return made(
        e.symbols,
        e.variables,
        (e.initial, f.initial),
        lambda q, a: (e.step(q[0], a), f.step(q[1], a)),
        lambda q: accepts(e.accepts(q[0]), f.accepts(q[1])),
        (e, f),
    )


def intersection(first: Language, second: Language) -> Language:
    """`E AND F`."""
    return combined(first, second, lambda x, y: x and y)


def union(first: Language, second: Language) -> Language:
    """`E OR F`."""
    return combined(first, second, lambda x, y: x or y)


def concatenation(first: Language, second: Language) -> Language:
    """`relative(E, F)`: a word of E and then a word of F, which sees nothing of what came before."""
    e, f = aligned(first, second)
    # A begun F may be in its initial state again without having read a letter of its own: told apart by None.
    begun: frozenset[Any] = frozenset({None})

    def inner(q: Any, letter: int) -> Any:
        return f.step(f.initial if q is None else q, letter)

    def step(state: tuple[Any, frozenset[Any]], letter: int) -> tuple[Any, frozenset[Any]]:
        following = e.step(state[0], letter)
        inside = frozenset(inner(q, letter) for q in state[1])
        return following, inside | begun if e.accepts(following) else inside

    def accepts(state: tuple[Any, frozenset[Any]]) -> bool:
        return any(q is not None and f.accepts(q) for q in state[1])

    nothing: tuple[Any, frozenset[Any]] = (e.initial, frozenset())
    return made(e.symbols, e.variables, nothing, step, accepts, (e, f))


def repetition(e: Language) -> Language:
    """`relative+(E)`: one or more words of E after each other."""

    def step(state: frozenset[Any], letter: int) -> frozenset[Any]:
        following = frozenset(e.step(e.initial if q is None else q, letter) for q in state)
        return following | {None} if any(e.accepts(q) for q in following) else following

    def accepts(state: frozenset[Any]) -> bool:
        return any(q is not None and e.accepts(q) for q in state)

    return made(e.symbols, e.variables, frozenset({None}), step, accepts, (e,))


def piped(first: Language, second: Language) -> Language:
    """`E | F`: F reads only the events at which E takes place."""
    e, f = aligned(first, second)

    def step(state: tuple[Any, Any, bool], letter: int) -> tuple[Any, Any, bool]:
        outer = e.step(state[0], letter)
        passes = e.accepts(outer)
        return outer, f.step(state[1], letter) if passes else state[1], passes

    return made(e.symbols, e.variables, (e.initial, f.initial, False), step, lambda q: q[2] and f.accepts(q[1]), (e, f))


def counted(e: Language, count: int, *, every: bool) -> Language:
    """`<n> E`, or `EVERY <n> E`."""

    def step(state: tuple[Any, int, bool], letter: int) -> tuple[Any, int, bool]:
        following, seen = e.step(state[0], letter), state[1]
        if not e.accepts(following):
            return following, seen, False
        seen = seen % count + 1 if every else min(seen + 1, count + 1)
        return following, seen, seen == count

    return made(e.symbols, e.variables, (e.initial, 0, False), step, lambda q: q[2], (e,))


def in_each_stretch(inner: Language, delimiter: Language) -> Language:
    """`F /+ E`: F in the events strictly between one E and the next, and after the last."""
    f, e = aligned(inner, delimiter)

    # Of F: outside of a stretch, or None where it has read nothing yet.
    outside = "outside"

    def step(state: tuple[Any, Any], letter: int) -> tuple[Any, Any]:
        following = e.step(state[0], letter)
        if e.accepts(following):
            return following, None
        if state[1] == outside:
            return following, outside
        return following, f.step(f.initial if state[1] is None else state[1], letter)

    def accepts(state: tuple[Any, Any]) -> bool:
        return state[1] is not None and state[1] != outside and f.accepts(state[1])

    return made(e.symbols, e.variables, (e.initial, outside), step, accepts, (f, e))


def possible(language: Language, to_come: Iterable[int]) -> Language:
    """`prefix(E)`: words that some further word of symbols that may still come makes one of E."""
    automaton = built(language)
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
    return made(automaton.symbols, automaton.variables, 0, automaton.step, hopeful.__contains__)


def projected(language: Language, variable: str, among: Iterable[int]) -> Language:
    """`EXISTS x E`: words in which exactly one event, among these symbols, can be marked so that E takes place."""
    e = lifted(language, tuple(sorted({*language.variables, variable})))
    markable = frozenset(among)
    rest = tuple(v for v in e.variables if v != variable)
    widened = widening(e.variables.index(variable))

    def step(state: frozenset[tuple[Any, bool]], letter: int) -> frozenset[tuple[Any, bool]]:
        plain, marked = widened(letter)
        here = {(e.step(q, plain), seen) for q, seen in state}
        if (letter >> len(rest)) % e.symbols in markable:
            here |= {(e.step(q, marked), True) for q, seen in state if not seen}
        return frozenset(here)

    return made(
        e.symbols,
        rest,
        frozenset({(e.initial, False)}),
        step,
        lambda q: any(seen and e.accepts(s) for s, seen in q),
        (e,),
    )


def widening(place: int) -> Callable[[int], tuple[int, int]]:
    """From a letter without a mark at a place to the two letters with one: not set, and set."""
    low = (1 << place) - 1

    def widened(letter: int) -> tuple[int, int]:
        plain = letter >> place << place + 1 | letter & low
        return plain, plain | 1 << place

    return widened
