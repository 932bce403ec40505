"""Where parts of an expression take place in a history at hand, and with which events; for one value of each variable.

In: a past and a part. Out: places. A history at hand is a part of the whole one: what is after an event, or what a pipe
lets through. Automata and runs of the parts read it symbol by symbol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from augury.algebra.expression import Expression, Primitive, Some
from augury.automata.alphabet import is_found, names_start
from augury.automata.runs import FINAL, Runs, TooManyRuns
from augury.automata.tuples import tuples_of
from augury.kernels.match.past import Past, Valuation

START: Final = -1
"""The place of `start`, before the first event."""

Places = tuple[int, ...]
"""A history at hand: places of the whole history, ascending."""

Marked = Mapping[str, int]
"""The places that correlation variables stand for."""


class Reading:
    """A past read as symbols."""

    def __init__(self, past: Past, valuation: Valuation) -> None:
        """Read it for these values."""
        self.past = past
        self.letters = past.letters(valuation)
        # Of values that no event has the first kind will do: any of them is a way to fail.
        self.builder = past.question.builders[past.builders(valuation)[0]][1]
        self.start = next((i for i, s in enumerate(past.question.alphabet.symbols) if s.is_start), START)

    @property
    def whole(self) -> Places:
        """All of it, with `start` if the expression names it."""
        return (*([START] if self.start != START else []), *range(len(self.letters)))

    def where(self, part: Expression, at_hand: Places, marked: Marked) -> list[int]:
        """The places of the history at hand at which a part takes place."""
        language = self.builder.build(part)
        state: Any = language.initial
        found = []
        for place, letter in zip(at_hand, self._letters(language.variables, at_hand, marked), strict=True):
            state = language.step(state, letter)
            if language.accepts(state):
                found.append(place)
        return found

    def witness(self, part: Expression, at_hand: Places, place: int, marked: Marked) -> list[int]:
        """The `seq` of the events of the most recent tuple with which a part takes place; at least of the place."""
        upto = tuple(p for p in at_hand if p <= place)
        if isinstance(part, Primitive) and is_found(part):
            return sorted(self.past.seq(p) for p in self.past.found[part][place])
        if names_start(part) or isinstance(part, Some):
            return [self.past.seq(place)]
        runs = tuples_of(part, self.builder, lambda _: 1)
        try:
            found = self._latest(runs, upto, place, marked)
        except TooManyRuns:
            found = ()
        return sorted({self.past.seq(p) for p in {*found, place}})

    def _latest(self, runs: Runs, upto: Places, place: int, marked: Marked) -> tuple[int, ...]:
        """The places of the most recent tuple of a run that ends at a place."""
        now: dict[Any, tuple[int, ...]] = dict.fromkeys(runs.initial, ())
        for p, letter in zip(upto, self._letters(runs.variables, upto, marked), strict=True):
            following: dict[Any, tuple[int, ...]] = {}
            for state, latest_first in now.items():
                for target, mark in runs.moves(state, letter):
                    events = (p, *latest_first) if mark else latest_first
                    if target not in following or following[target] < events:
                        following[target] = events
            now = {q: events for q, events in following.items() if q != FINAL or p == place}
        return now.get(FINAL, ())

    def _letters(self, variables: Sequence[str], at_hand: Places, marked: Marked) -> list[int]:
        found = []
        for place in at_hand:
            marks = sum(1 << i for i, name in enumerate(variables) if marked[name] == place)
            found.append((self.start if place == START else self.letters[place]) << len(variables) | marks)
        return found
