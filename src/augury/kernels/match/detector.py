"""A MATCH → the tables that a walk over columns reads: leaves, variables, the runs of tuples and their automaton.

Nothing here reads events. A variable that stands in one place, under operators that only join, takes its value from
the event in that place (*carried*); any other needs a history of its own per value (*keyed*): see `streams`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from augury import limits
from augury.algebra.expression import (
    Aggregate,
    Apply,
    Choice,
    Expression,
    MatchOperator,
    MatchPlan,
    Place,
    Primitive,
    Some,
    Variable,
    freed,
    joins_only,
    parts,
)
from augury.algebra.inner import open_variables, undecidable_prefix
from augury.automata.alphabet import Alphabet, alphabet_of
from augury.automata.build import Builder
from augury.automata.kinds import Kind, kinds_of, may_come
from augury.automata.opened import Saying, sayings
from augury.automata.runs import FINAL, Runs, either
from augury.automata.tuples import of_kind, places_of, remembering, tuples_of
from augury.kernels.match.inner import set_apart
from augury.kernels.match.unnamed import demand_of, shape_of

Op = MatchOperator
CONSTITUENT = 1
"""The mark of an event that is part of a tuple; variable i that it binds is 2 << i."""


Given = dict[int, list[tuple[int, int]]]
"""By state after a move the states before it whose tuples it may take, each with whether the event is marked."""


@dataclass(frozen=True, slots=True)
class Programs:
    """What a move of the automaton does to the tuples of states: instructions from `first[q * symbols + s]` on.

    Each gives `target` (FINAL: what is found) the tuple of `source` (-1: none), with the event added if it has a mark;
    one that is `rival` only if it is better than what an instruction before gave it.
    """

    first: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    source: npt.NDArray[np.int32]
    mark: npt.NDArray[np.int32]
    rival: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tables:
    """The runs as arrays, and the automaton of the sets of states that runs are in.

    Moves of state c at symbol s stand at `first[c * symbols + s]` up to the next; `delta[q, s]` and `quiet[q, s]`:
    nothing changes, nothing is marked and nothing ends. Without an automaton (too many sets) `delta` is empty.
    Reading OTHER again and again repeats itself: after `tail` times with that period (0: not found to).
    """

    states: int
    symbols: int
    initial: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    mark: npt.NDArray[np.int32]
    delta: npt.NDArray[np.int32]
    quiet: npt.NDArray[np.bool_]
    programs: Programs
    tail: int
    period: int


@dataclass(frozen=True, slots=True)
class Detector:
    """A MATCH made ready; `tables` is None where the runs are too many to be written down, and are stepped through."""

    plan: MatchPlan
    alphabet: Alphabet
    variables: tuple[Variable, ...]
    keyed: tuple[Variable, ...]
    carried: Mapping[str, tuple[str, int]]
    """Of each carried variable the class and the attribute, by number, that it takes its value from."""
    runs: Runs
    tables: Tables | None
    symbol_of: Mapping[frozenset[int], int]
    other: int
    listens: bool
    """Whether events that no leaf is true of matter: they may be marked, or the expression take place at them."""
    ambiguous: bool
    """Whether two tuples may have the same events, and differ in what variables they bind."""
    repeats: bool
    """Whether two runs may mark the same events and meet."""
    inner: tuple[Detector, ...]
    """What the leaves are found by that are true of events of any class."""
    says: tuple[Saying, ...]
    """Which values letters say besides their symbol: those of open variables."""
    kinds: tuple[Kind, ...]
    """The kinds of values that a prefix tells apart; the last mark of a tuple says for which kind it holds."""

    @property
    def keeps_all(self) -> bool:
        """Whether every tuple has to be kept, not only the best of those with one future."""
        plan = self.plan
        filtered = plan.where is not None or plan.within_us is not None
        return filtered or self.ambiguous or plan.choice is Choice.ALL or aggregates(plan)

    @property
    def kind_shift(self) -> int:
        """The bit of a mark from which on it is the number of a kind, from 1."""
        return len(self.variables) + 1

    def fingerprint(self) -> str:
        """What the state of this detector is filed under: equal for equal machines, whatever their names."""
        plan = self.plan
        if self.runs.size is None:
            machine: object = shape_of(plan.expression)
        else:
            machine = [[self.runs.moves(s, a) for a in range(self.runs.symbols)] for s in range(self.runs.size)]
        keyed = [str(v.type) for v in self.keyed]
        symbols = [(sorted(symbol.leaves), symbol.is_start) for symbol in self.alphabet.symbols]
        clauses = (plan.within_us, self.keeps_all, plan.choice.value, len(plan.partition_by), plan.over is None)
        inner = [detector.fingerprint() for detector in self.inner]
        classes = [leaf.event_class for leaf in self.alphabet.leaves]
        carried = sorted((classes.index(name), place) for name, place in self.carried.values())
        initial = self.runs.initial if self.tables is not None else ()
        leaves = [demand_of(leaf, self.alphabet) for leaf in self.alphabet.leaves]
        text = repr((machine, initial, keyed, symbols, leaves, clauses, carried, inner))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def aggregates(plan: MatchPlan) -> bool:
    """Whether an attribute is fed by an aggregate over all tuples."""
    return any(isinstance(feed.value, Aggregate) for feed in plan.feeds)


def detector_of(plan: MatchPlan, *, tuples: bool = True) -> Detector:
    """Compile a MATCH; raises one of the REFUSALS of this package where there is no such machine.

    Without `tuples` it says only where the expression takes place.
    """
    expression = plan.expression
    assert undecidable_prefix(expression) is None, "analysis has refused it"
    variables = expression.variables if isinstance(expression, Some) else ()
    whole, apart = set_apart(expression.operand if isinstance(expression, Some) else expression)
    inner = tuple(detector_of(replace(_PLACES_ONLY, expression=e, **_history(plan)), tuples=False) for e in apart)
    places = _places(whole)
    single = {v.name: places[v.name][0] for v in variables if len(places[v.name]) == 1}
    named = parts(whole)
    carried = {name: _place_of(name, named[part]) for name, part in single.items() if joins_only(whole, part)}
    keyed = tuple(v for v in variables if v.name not in carried)
    body = freed(whole, carried)
    says = sayings(body)
    alphabet = alphabet_of(freed(body, open_variables(body)))
    bits = {v.name: 2 << i for i, v in enumerate(variables)}

    def mark_of(part: int) -> int:
        node = named[part]
        bound = node.bindings if isinstance(node, Primitive) else ()
        return CONSTITUENT | sum({bits[b.name] for b in bound if isinstance(b, Variable)})

    runs, kinds = _runs(body, alphabet, says, mark_of if tuples else None, len(variables) + 1)
    runs = remembering(runs, sum(bits.values()))
    symbol_of = {symbol.leaves: i for i, symbol in enumerate(alphabet.symbols) if not symbol.is_start}
    other = symbol_of[frozenset()]
    listens = runs.size is None or _listens(runs, other)
    ambiguous, repeats = (True, True) if runs.size is None or kinds else _ambiguity(runs)
    tables = None if runs.size is None else _tables(runs, other, recent=plan.choice is not Choice.EARLIEST)
    return Detector(
        *(plan, alphabet, variables, keyed, carried, runs, tables, symbol_of, other),
        *(listens, ambiguous, repeats, inner, says, kinds),
    )


def _runs(
    body: Expression, alphabet: Alphabet, says: tuple[Saying, ...], mark_of: Callable[[int], int] | None, shift: int
) -> tuple[Runs, tuple[Kind, ...]]:
    """The machine; where a prefix asks which values are equal, one beside the other for each kind of values."""
    make = places_of if mark_of is None else partial(tuples_of, mark_of=mark_of)
    kinds = kinds_of(body)
    if not kinds:
        return make(body, Builder(alphabet, says)), ()
    each = [
        of_kind(make(body, Builder(alphabet, says, may_come(alphabet, kind))), number << shift)
        for number, kind in enumerate(kinds, 1)
    ]
    return either(*each), kinds


_PLACES_ONLY = MatchPlan(Apply(Op.NULL), None, (), None, None, None, Choice.RECENT, ())


def _history(plan: MatchPlan) -> dict[str, Any]:
    return {"over": plan.over, "partition_by": plan.partition_by}


# ---- variables -----------------------------------------------------------------------------------


def _places(expression: Expression) -> dict[str, list[int]]:
    """For each variable the numbers of the parts that bind it, once for each attribute."""
    found: dict[str, list[int]] = {}
    for number, part in enumerate(parts(expression)):
        for binding in part.bindings if isinstance(part, Primitive) else ():
            if isinstance(binding, Variable):
                found.setdefault(binding.name, []).append(number)
    return found


def _place_of(name: str, part: Primitive | Place) -> tuple[str, int]:
    """The class and attribute at which a variable stands in a part."""
    assert isinstance(part, Primitive)
    place = next(i for i, b in enumerate(part.bindings) if isinstance(b, Variable) and b.name == name)
    return part.event_class, place


# ---- tables --------------------------------------------------------------------------------------


def _listens(runs: Runs, other: int) -> bool:
    assert runs.size is not None
    return any(q == FINAL or m for s in range(runs.size) for q, m in runs.moves(s, other))


def _ambiguity(runs: Runs) -> tuple[bool, bool]:
    """Whether two runs that mark the same events can differ in other bits, and whether two runs can be the same."""
    pairs = {(p, q, False) for p, q in product(runs.initial, repeat=2) if p < q}
    pairs |= {(p, p, False) for p in runs.initial}
    waiting = list(pairs)
    ambiguous = repeats = False
    while waiting:
        p, q, differ = waiting.pop()
        for letter in range(runs.symbols):
            moves = list(enumerate(runs.moves(p, letter))), list(enumerate(runs.moves(q, letter)))
            for (i, (t, m)), (j, (u, n)) in product(*moves):
                if t == u == FINAL:
                    # Where the expression takes place is a constituent anyway.
                    m, n = m | CONSTITUENT, n | CONSTITUENT
                if (m ^ n) & CONSTITUENT or (p == q and not differ and i > j):
                    continue
                apart = differ or m != n
                same_run = p == q and not differ and i == j
                ambiguous |= t == u and apart
                repeats |= t == u and not apart and not same_run
                if (t == FINAL) != (u == FINAL) or t == FINAL:
                    continue
                following = (t, u, apart)
                if following not in pairs:
                    pairs.add(following)
                    waiting.append(following)
        if len(pairs) > limits.AUTOMATON_STATES_MAX:
            return True, True
    return ambiguous, repeats


def _tables(runs: Runs, other: int, *, recent: bool) -> Tables:
    assert runs.size is not None
    first, target, mark = [0], [], []
    for state, symbol in product(range(runs.size), range(runs.symbols)):
        for t, m in runs.moves(state, symbol):
            target.append(t)
            mark.append(m)
        first.append(len(target))
    sets, delta, quiet = _subsets(runs)
    tail, period = _repetition(runs, other)
    int32 = np.int32
    return Tables(
        runs.size,
        runs.symbols,
        np.array(runs.initial, int32),
        np.array(first, int32),
        np.array(target, int32),
        np.array(mark, int32),
        delta,
        quiet,
        _programs(runs, sets if len(delta) else [], recent=recent),
        tail,
        period,
    )


def _programs(runs: Runs, sets: list[frozenset[int]], *, recent: bool) -> Programs:
    return programs_of(_given(runs, states, symbol, recent) for states, symbol in product(sets, range(runs.symbols)))


def _given(runs: Runs, states: frozenset[int], symbol: int, recent: bool) -> Given:
    given: Given = {s: [] for s in sorted(states)}
    for s in sorted(states):
        for t, m in runs.moves(s, symbol):
            given.setdefault(t, []).append((s, m))
    if not recent:
        return given
    # A tuple that ends with this event is more recent than one that does not.
    return {t: [one for one in found if one[1] or t == FINAL] or found for t, found in given.items()}


def programs_of(moves: Iterable[Given]) -> Programs:
    """What each move does, one after the other: of each state which states' tuples it may take, and which it marks."""
    first, target, source, mark, rival = [0], [], [], [], []
    for given in moves:
        for t, sources in given.items():
            if sources == [(t, 0)]:
                continue
            for number, (s, m) in enumerate(sources or [(-1, 0)]):
                target.append(t)
                source.append(s)
                mark.append(m)
                rival.append(number > 0)
        first.append(len(target))
    int32 = np.int32
    return Programs(
        np.array(first, int32),
        np.array(target, int32),
        np.array(source, int32),
        np.array(mark, int32),
        np.array(rival, np.bool_),
    )


def _subsets(runs: Runs) -> tuple[list[frozenset[int]], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """The automaton of the sets of states; empty if there are more than the limit."""
    initial = frozenset(runs.initial)
    number = {initial: 0}
    queue = [initial]
    rows: list[list[int]] = []
    quiets: list[list[bool]] = []
    for states in queue:
        row, still = [], []
        for symbol in range(runs.symbols):
            moves = [(s, t, m) for s in states for t, m in runs.moves(s, symbol)]
            following = frozenset(t for _, t, _ in moves if t != FINAL)
            if following not in number:
                if len(queue) >= limits.AUTOMATON_STATES_MAX:
                    return [], np.zeros((0, runs.symbols), np.int32), np.zeros((0, runs.symbols), np.bool_)
                number[following] = len(queue)
                queue.append(following)
            row.append(number[following])
            still.append(sorted(moves) == [(s, s, 0) for s in sorted(states)])
        rows.append(row)
        quiets.append(still)
    shape = (-1, runs.symbols)
    return queue, np.array(rows, np.int32).reshape(shape), np.array(quiets, np.bool_).reshape(shape)


_POWERS_MAX = 256


def _repetition(runs: Runs, other: int) -> tuple[int, int]:
    """After how many OTHER events runs repeat themselves, and every how many; by powers of the relation."""
    assert runs.size is not None
    step = [frozenset(t for t, _ in runs.moves(s, other) if t != FINAL) for s in range(runs.size)]
    power = tuple(frozenset({s}) for s in range(runs.size))
    met: dict[tuple[frozenset[int], ...], int] = {}
    for times in range(_POWERS_MAX):
        if power in met:
            return met[power], times - met[power]
        met[power] = times
        power = tuple(frozenset().union(*(step[t] for t in reached)) for reached in power)
    return 0, 0
