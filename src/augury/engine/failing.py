"""SELECTs that fail at run time, where the engines of several slots run them: who fails when, as values.

A SELECT that fails for one value keeps the rows of all. Cut by key it runs in the engine of each slot, and what one
slot cannot evaluate the others can. So an engine is given when the SELECTs of its classes fail, be it in another slot,
and keeps their rows at those ticks as if they had failed in it; and it tells when they failed in it by themselves
(`Failures`). What all slots told is put together (`united`) and given to all of them, until what they tell is what they
were given: then they do together what one engine does.

That comes to an end. Whether a SELECT fails by itself at a tick follows from what failed before it: at earlier ticks,
and at the same tick in classes below it. So if two rounds were given the same up to some point, they tell the same up
to that point, and the point included. The first point at which a round tells something else than it was given therefore
lies behind that of the round before (`first_difference`), and there are as many points as ticks, SELECTs and phases.

In: ticks at which SELECTs failed. Out: stretches of ticks. It runs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from augury.algebra.program import Program
from augury.engine.ticked import Phase
from augury.event import key_of

Spans = tuple[tuple[int, int], ...]
"""Stretches of ticks, ascending and apart: from a tick on, up to a time that is not among them."""

Failing = Mapping[tuple[str, Phase], Spans]
"""When a SELECT fails, by class and phase: as the rows of a tick are derived, or are taken anew after its purge."""

Point = tuple[int, int, int]
"""A tick, a phase and a SELECT, in the order in which an engine comes to them."""

_PHASES: Final = (Phase.DERIVE, Phase.PURGE)


@dataclass(slots=True)
class Failures:
    """What the engine of a slot is given of SELECTs that fail, and what it tells of those that fail in it."""

    chronon_us: int
    given: Failing
    _found: dict[tuple[str, Phase], list[tuple[int, int]]] = field(default_factory=dict)

    def until(self, name: str, phase: Phase, tick: int) -> int:
        """Where a SELECT fails at a tick, here or elsewhere, the first tick after it at which it does not; else 0."""
        spans = self.given.get((key_of(name), phase), ())
        at = bisect_right(spans, tick, key=lambda span: span[0]) - 1
        return spans[at][1] if at >= 0 and tick < spans[at][1] else 0

    def note(self, name: str, phase: Phase, tick: int) -> None:
        """A SELECT has failed here, by itself."""
        self._found.setdefault((key_of(name), phase), []).append((tick, tick + self.chronon_us))

    def found(self) -> Failing:
        """What has failed here."""
        return united([{name: tuple(spans) for name, spans in self._found.items()}])


def united(parts: Iterable[Failing]) -> Failing:
    """What fails in any of them."""
    together: dict[tuple[str, Phase], list[tuple[int, int]]] = {}
    for part in parts:
        for name, spans in part.items():
            together.setdefault(name, []).extend(spans)
    return {name: _merged(sorted(spans)) for name, spans in together.items()}


def _merged(spans: list[tuple[int, int]]) -> Spans:
    found: list[tuple[int, int]] = []
    for begin, end in spans:
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return tuple(found)


def first_difference(program: Program, one: Failing, other: Failing) -> Point | None:
    """The first point at which a SELECT fails by one of them, and not by the other."""
    ranks = {key_of(name): rank for rank, name in enumerate(name for layer in program.strata for name in layer)}
    found: list[Point] = []
    for name, phase in {*one, *other}:
        pairs = zip_longest(one.get((name, phase), ()), other.get((name, phase), ()))
        parted = next((pair for pair in pairs if pair[0] != pair[1]), None)
        if parted is not None:
            found.append((_parting(*parted), _PHASES.index(phase), ranks[name]))
    return min(found, default=None)


def _parting(one: tuple[int, int] | None, other: tuple[int, int] | None) -> int:
    """The first tick of which two stretches differ."""
    if one is None or other is None or one[0] != other[0]:
        return min(span[0] for span in (one, other) if span is not None)
    return min(one[1], other[1])
