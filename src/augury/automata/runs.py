"""Which events make an expression take place: a nondeterministic machine whose runs are the occurrence tuples.

A move reads a letter and may mark it: the event is then a constituent. A run that reaches FINAL says that the
expression takes place at the last letter, with the marked events. Marks are bit sets whose meaning the caller gives.
Runs that are in one state have the same future, so that a kernel needs to keep only the best of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any, Final

from augury import limits
from augury.automata import operations as on
from augury.automata.automaton import Language

FINAL: Final = -1
Move = tuple[Any, int]
"""Where a run goes, and the marks of the letter it reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The machine; `moves(state, letter)`. Letters are numbered as those of an Automaton."""

    symbols: int
    variables: tuple[str, ...]
    initial: tuple[Any, ...]
    moves: Callable[[Any, int], tuple[Move, ...]]
    size: int | None = None
    """How many states there are; None where they have not been counted, because they are too many."""
    is_open: bool = False
    """Whether they look at the values that a letter says (`opened`): then letters cannot be listed, nor states."""
    uses: float = math.inf
    """How many letters, marked ones or the last, a run has at most."""


def tabulated(runs: Runs, limit: int = limits.AUTOMATON_STATES_MAX) -> Runs:
    """The same runs over states 0 … n−1 that can all still end, equal ones merged; as it was, if there are too many."""
    try:
        table = None if runs.is_open else _explored(runs, limit)
    except TooManyRuns:
        table = None  # in some history; the one at hand may do without
    if table is None:
        return runs
    names, rows = table
    alive = _alive(rows)
    kept = [[tuple(m for m in cell if m[0] == FINAL or m[0] in alive) for cell in row] for row in rows]
    block = _merged(kept)
    number: dict[int, int] = {}
    for state in range(len(rows)):
        if state in alive:
            number.setdefault(block[state], len(number))
    merged: list[tuple[tuple[Move, ...], ...]] = [()] * len(number)
    for state in alive:
        row = ({(t if t == FINAL else number[block[t]], m) for t, m in cell} for cell in kept[state])
        merged[number[block[state]]] = tuple(tuple(sorted(cell)) for cell in row)
    initial = tuple(sorted({number[block[names[s]]] for s in runs.initial if names[s] in alive}))
    letters = runs.symbols << len(runs.variables)
    return replace(runs, initial=initial, moves=lambda s, a: merged[s][a % letters], size=len(merged))


def _made(
    of: tuple[Runs | Language, ...],
    variables: tuple[str, ...],
    initial: tuple[Any, ...],
    moves: Callable[[Any, int], tuple[Move, ...]],
    uses: float,
) -> Runs:
    """Runs that are made of others."""
    is_open = any(one.is_open for one in of)
    return tabulated(Runs(of[0].symbols, variables, initial, moves, is_open=is_open, uses=uses))


def _explored(runs: Runs, limit: int) -> tuple[dict[Hashable, int], list[list[tuple[Move, ...]]]] | None:
    number: dict[Hashable, int] = {}
    queue: list[Any] = []
    for state in runs.initial:
        if state not in number:
            number[state] = len(queue)
            queue.append(state)
    rows: list[list[tuple[Move, ...]]] = []
    letters = runs.symbols << len(runs.variables)
    for state in queue:
        row = []
        for letter in range(letters):
            cell = []
            for target, mark in runs.moves(state, letter):
                if target != FINAL and target not in number:
                    if len(queue) >= limit:
                        return None
                    number[target] = len(queue)
                    queue.append(target)
                cell.append((FINAL if target == FINAL else number[target], mark))
            row.append(tuple(dict.fromkeys(cell)))
        rows.append(row)
    return number, rows


def _alive(rows: list[list[tuple[Move, ...]]]) -> set[int]:
    """The states from which a run can still end."""
    into: dict[int, set[int]] = {}
    for state, row in enumerate(rows):
        for target, _ in chain.from_iterable(row):
            into.setdefault(target, set()).add(state)
    alive: set[int] = set()
    stack = [FINAL]
    while stack:
        for state in into.get(stack.pop(), ()):
            if state not in alive:
                alive.add(state)
                stack.append(state)
    return alive


def _merged(rows: list[list[tuple[Move, ...]]]) -> list[int]:
    """States by what can be done from them, as far as moves tell: equal numbers for equal states."""
    block = [0] * len(rows)
    while True:
        seen: dict[Hashable, int] = {}
        following = []
        for state, row in enumerate(rows):
            look = (block[state], *(frozenset((t if t == FINAL else block[t], m) for t, m in cell) for cell in row))
            following.append(seen.setdefault(look, len(seen)))
        if len(seen) == len(set(block)):
            return block
        block = following


# ---- how the operators make them -----------------------------------------------------------------


def unmarked(language: Language) -> Runs:
    """Where an expression takes place, with no event to show for it."""

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        following = language.step(state, letter)
        return ((following, 0), (FINAL, 0)) if language.accepts(following) else ((following, 0),)

    return _made((language,), language.variables, (language.initial,), moves, 1)


def ending_in(symbols: int, variables: tuple[str, ...], mark_of: Callable[[int], int | None]) -> Runs:
    """Words whose last letter is wanted, marked so; None is a letter that is not."""

    letters = symbols << len(variables)

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        mark = mark_of(letter % letters)
        return ((0, 0),) if mark is None else ((0, 0), (FINAL, mark))

    return Runs(symbols, variables, (0,), moves, 1, uses=1)


def _aligned(*parts: Runs) -> list[Runs]:
    variables = tuple(sorted({v for part in parts for v in part.variables}))
    return [_lifted(part, variables) for part in parts]


def _lifted(runs: Runs, variables: tuple[str, ...]) -> Runs:
    if runs.variables == variables:
        return runs
    narrow = on.narrowing(runs.variables, variables)
    return replace(runs, variables=variables, moves=lambda s, a: runs.moves(s, narrow(a)))


def both(first: Runs, second: Runs) -> Runs:
    """A run of each side that end together; an event is marked by either."""
    e, f = _aligned(first, second)

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        found = []
        for (p, m), (q, n) in product(e.moves(state[0], letter), f.moves(state[1], letter)):
            if (p == FINAL) == (q == FINAL):
                found.append((FINAL if p == FINAL else (p, q), m | n))
        return tuple(found)

    return _made((e, f), e.variables, tuple(product(e.initial, f.initial)), moves, e.uses + f.uses)


def either(*parts: Runs) -> Runs:
    """A run of any."""
    sides = _aligned(*parts)

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        side, inner = state
        found = sides[side].moves(inner, letter)
        return tuple((q if q == FINAL else (side, q), m) for q, m in found)

    initial = tuple((i, s) for i, side in enumerate(sides) for s in side.initial)
    return _made(tuple(sides), sides[0].variables, initial, moves, max(side.uses for side in sides))


def followed(first: Runs, second: Runs) -> Runs:
    """A run of E, and after its end one of F."""
    e, f = _aligned(first, second)

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        side, inner = state
        if side:
            return tuple((q if q == FINAL else (1, q), m) for q, m in f.moves(inner, letter))
        return tuple(
            (after, m)
            for q, m in e.moves(inner, letter)
            for after in ([(1, s) for s in f.initial] if q == FINAL else [(0, q)])
        )

    return _made((e, f), e.variables, tuple((0, s) for s in e.initial), moves, e.uses + f.uses)


def repeated(e: Runs) -> Runs:
    """One run of E after another."""

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        return tuple(
            (after, m) for q, m in e.moves(state, letter) for after in ((FINAL, *e.initial) if q == FINAL else (q,))
        )

    return _made((e,), e.variables, e.initial, moves, math.inf)


def in_each_stretch(inner: Runs, opening: Runs, delimiter: Language) -> Runs:
    """A run of E, and then one of F that meets no further E."""
    f, e = _aligned(inner, opening)
    stop = on.lifted(delimiter, e.variables) if delimiter.variables != e.variables else delimiter

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        side, at, of_runs = state
        at = stop.step(at, letter)
        if side:
            if stop.accepts(at):
                return ()
            return tuple((q if q == FINAL else (1, at, q), m) for q, m in f.moves(of_runs, letter))
        return tuple(
            (after, m)
            for q, m in e.moves(of_runs, letter)
            for after in ([(1, at, s) for s in f.initial] if q == FINAL else [(0, at, q)])
        )

    initial = tuple((0, stop.initial, s) for s in e.initial)
    return _made((f, e, stop), e.variables, initial, moves, e.uses + f.uses)


def marked_last(e: Runs, variable: str) -> Runs:
    """`E = x`: runs whose last event is x."""
    (e,) = _aligned_with(e, variable)
    place = e.variables.index(variable)

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        found = e.moves(state, letter)
        return found if letter >> place & 1 else tuple(move for move in found if move[0] != FINAL)

    return _made((e,), e.variables, e.initial, moves, e.uses)


def projected(e: Runs, variable: str, among: Iterable[int]) -> Runs:
    """`EXISTS x E`: runs that call exactly one event x."""
    (e,) = _aligned_with(e, variable)
    markable = frozenset(among)
    rest = tuple(v for v in e.variables if v != variable)
    widened = on.widening(e.variables.index(variable))

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        inner, seen = state
        plain, marked = widened(letter)
        found: list[Move] = [((q, seen), m) for q, m in e.moves(inner, plain) if q != FINAL]
        found += [(q, m) for q, m in e.moves(inner, plain) if q == FINAL and seen]
        if not seen and (letter >> len(rest)) % e.symbols in markable:
            found += [(q if q == FINAL else (q, True), m) for q, m in e.moves(inner, marked)]
        return tuple(found)

    return _made((e,), rest, tuple((s, False) for s in e.initial), moves, e.uses)


def _aligned_with(e: Runs, variable: str) -> tuple[Runs]:
    return (_lifted(e, tuple(sorted({*e.variables, variable}))),)


# ---- runs that use other runs --------------------------------------------------------------------
#
# A pipe and `<n> E` use several events of E, and E has a tuple for each. All these runs of E begin with the history,
# so they are guessed from its beginning: a state holds those that have not ended yet, each to end at an event of its
# own. Two that are in one state but marked different events are still two, so their number is bounded only by that of
# the events still to be used.

Pending = tuple[Any, ...]


class TooManyRuns(Exception):
    """An expression uses so many events of a part that has a tuple for each that they cannot be kept apart."""


def _still_used(runs: Runs) -> dict[Any, float]:
    """For each state how many marked or last letters a run from there can meet at most; without a bound infinity."""
    assert runs.size is not None
    ahead: dict[Any, set[tuple[Any, int]]] = {s: set() for s in range(runs.size)}
    for state in ahead:
        for letter in range(runs.symbols << len(runs.variables)):
            ahead[state] |= {(q, int(m != 0 or q == FINAL)) for q, m in runs.moves(state, letter)}
    most: dict[Any, float] = {FINAL: 0, **dict.fromkeys(ahead, 0)}
    for _ in range(len(most) + 1):
        before = dict(most)
        for state, moves in ahead.items():
            most[state] = max((most[q] + used for q, used in moves), default=0)
        if before == most:
            return most
    # What still grows lies on, or leads to, a cycle with a use in it.
    for _ in range(len(most)):
        for state, moves in ahead.items():
            if most[state] > before[state] or any(most[q] == float("inf") for q, _ in moves):
                most[state] = float("inf")
    return most


def piped(first: Runs, passing: Language, second: Runs) -> Runs:
    """`E | F`: a run of F over the events where E takes place, and one of E for each event that it uses."""
    e, f = _aligned(first, second)
    gate = on.lifted(passing, e.variables) if passing.variables != e.variables else passing
    room = _still_used(f) if f.size is not None else {}

    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        at, inner, pending = state
        at = gate.step(at, letter)
        found: list[Move] = []
        for q, mark in f.moves(inner, letter) if gate.accepts(at) else ((inner, 0),):
            if q == FINAL:
                found += [(FINAL, mark | m) for p, m in _one_ending(e, pending, letter, 0)]
            else:
                after = (_one_ending if mark else _going_on)(e, pending, letter, room.get(q, f.uses))
                found += [((at, q, p), mark | m) for p, m in after if p]
        return tuple(dict.fromkeys(found))

    initial = tuple((gate.initial, s, p) for s in f.initial for p in _beginnings(e) if len(p) <= room.get(s, f.uses))
    return _made((e, f, gate), e.variables, initial, moves, e.uses * f.uses)


def counted(e: Runs, passing: Language, count: int, *, every: bool) -> Runs:
    """`<n> E`, with a run of E for each of the n; of EVERY those of the last round."""
    gate = passing

    # Rounds before the last are counted without an end; `in_last` is set at the first event of the last one.
    def moves(state: Any, letter: int) -> tuple[Move, ...]:
        at, seen, in_last, pending = state
        at = gate.step(at, letter)
        onward = list(_going_on(e, pending, letter, count - (seen if in_last else 0)))
        if not gate.accepts(at):
            return tuple(((at, seen, in_last, p), m) for p, m in onward)
        found: list[Move] = []
        if in_last or seen == 0:
            for p, m in _one_ending(e, pending, letter, count - seen - 1):
                if seen + 1 == count:
                    found.append((FINAL, m))
                elif p:
                    found.append(((at, seen + 1, True, p), m))
        if every and not in_last:
            found += [((at, (seen + 1) % count, False, p), m) for p, m in onward]
        return tuple(dict.fromkeys(found))

    initial = tuple((gate.initial, 0, False, p) for p in _beginnings(e) if len(p) <= count)
    return _made((e, gate), e.variables, initial, moves, count * e.uses)


def _beginnings(e: Runs) -> Iterator[Pending]:
    """Runs that begin in different states are different."""
    return chain.from_iterable(combinations(e.initial, size) for size in range(1, len(e.initial) + 1))


def _going_on(e: Runs, pending: Pending, letter: int, most: float) -> Iterator[tuple[Pending, int]]:
    """What becomes of runs that all go on, at most so many; one may turn out to be several with the same events."""
    spare = most - len(pending) + 1
    choices = [_some([move for move in e.moves(r, letter) if move[0] != FINAL], spare) for r in pending]
    return _distinct(choices, most)


def _one_ending(e: Runs, pending: Pending, letter: int, most: float) -> Iterator[tuple[Pending, int]]:
    """The same where one of them ends."""
    spare = most - len(pending) + 2
    going = [_some([move for move in e.moves(r, letter) if move[0] != FINAL], spare) for r in pending]
    for i, r in enumerate(pending):
        # The one that ends may have been several, too.
        choices = [[(), *moves] if i == j else moves for j, moves in enumerate(going)]
        for mark in {m for q, m in e.moves(r, letter) if q == FINAL}:
            for after, m in _distinct(choices, most):
                yield after, m | mark


def _some(moves: list[Move], most: float) -> list[tuple[Move, ...]]:
    """Every choice of one or more of these, but not more than so many."""
    sizes = range(1, int(min(len(moves), most)) + 1)
    if sum(math.comb(len(moves), size) for size in sizes) > limits.RUN_CHOICES_MAX:
        raise TooManyRuns
    return list(chain.from_iterable(combinations(moves, size) for size in sizes))


def _distinct(choices: list[list[tuple[Move, ...]]], most: float) -> Iterator[tuple[Pending, int]]:
    """Each combination once, with what it marks."""
    if math.prod(map(len, choices)) > limits.RUN_CHOICES_MAX:
        raise TooManyRuns
    seen = set()
    for groups in product(*choices):
        each = list(chain.from_iterable(groups))
        if len(each) > most:
            continue
        if len(each) > limits.PENDING_RUNS_MAX:
            raise TooManyRuns
        mark = 0
        for _, m in each:
            mark |= m
        after = tuple(sorted((q for q, _ in each), key=repr))
        if (after, mark) not in seen:
            seen.add((after, mark))
            yield after, mark
