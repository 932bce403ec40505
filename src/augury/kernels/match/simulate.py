"""The walk of a machine that is too large to be written down: runs are stepped through as symbols come.

The same tuples and occurrences as the compiled walks have, without tables and without numba. Every stream reads every
row, because which rows change nothing is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from augury import limits
from augury.algebra.expression import Choice
from augury.automata.runs import FINAL
from augury.kernels.batch import Integers
from augury.kernels.match.collect import Candidates
from augury.kernels.match.detector import CONSTITUENT, Detector
from augury.kernels.match.state import TIME_MAX, TIME_MIN, MatchState, Nodes, Run, TooManyTuples
from augury.kernels.match.streams import Touched


@dataclass(slots=True)
class _Chains:
    """The nodes while they grow."""

    nodes: Nodes
    ref: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    prev: list[int] = field(default_factory=list)

    def add(self, ref: int, marks: int, prev: int) -> int:
        self.ref.append(ref)
        self.marks.append(marks)
        self.prev.append(prev)
        return self.nodes.count + len(self.ref) - 1

    def events(self, head: int) -> tuple[tuple[int, int], ...]:
        """The events of a tuple with their marks, earliest first."""
        found = []
        while head:
            i = head - self.nodes.count
            new = i >= 0
            found.append(
                (self.ref[i], self.marks[i]) if new else (int(self.nodes.ref[head]), int(self.nodes.marks[head]))
            )
            head = self.prev[i] if new else int(self.nodes.prev[head])
        return tuple(reversed(found))

    def grown(self) -> Nodes:
        old, count = self.nodes, self.nodes.count
        length = list(old.length[:count])
        for prev in self.prev:
            length.append(length[prev] + 1)
        return Nodes(
            np.concatenate([old.ref[:count], np.array(self.ref, np.int64)]),
            np.concatenate([old.marks[:count], np.array(self.marks, np.int32)]),
            np.concatenate([old.prev[:count], np.array(self.prev, np.int32)]),
            np.array(length, np.int32),
            count + len(self.ref),
        )


def simulated(
    detector: Detector,
    state: MatchState,
    touch: Touched,
    symbol: npt.NDArray[np.int32],
    offset: int,
    purged: Integers,
    tick: Integers,
    said: Sequence[int] | None,
) -> Candidates:
    """Step the runs of every stream through its rows; `said` is what each row's letter says besides its symbol."""
    for source in touch.origin.tolist():
        begun = [Run(s, 0, TIME_MAX, TIME_MIN, TIME_MAX) for s in detector.runs.initial]
        state.unbuilt.append(list(state.unbuilt[source]) if source >= 0 else begun)
    chains = _Chains(state.nodes)
    found: list[tuple[int, int, int]] = []
    for i in np.argsort(touch.stream, kind="stable").tolist():
        stream, row, letter = int(touch.stream[i]), int(touch.row[i]), int(symbol[i])
        event = row + offset
        if said is not None:
            letter += said[row] * detector.runs.symbols
        runs, ended = _moved(detector, state, state.unbuilt[stream], letter, event, chains, purged, tick)
        state.unbuilt[stream] = runs
        found += [(event, stream, head) for head in ended]
    state.nodes = chains.grown()
    columns = np.array(found, np.int64).reshape(-1, 3)
    return Candidates(columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].astype(np.int32))


def _moved(
    detector: Detector,
    state: MatchState,
    runs: list[Run],
    letter: int,
    event: int,
    chains: _Chains,
    purged: Integers,
    tick: Integers,
) -> tuple[list[Run], list[int]]:
    """The runs after a letter, and the tuples of those that have ended."""
    within = detector.plan.within_us
    new: dict[Any, Run] = {}
    ended: list[int] = []
    occ_time = int(state.events.occ_time[event])
    for run in runs:
        for target, mark in detector.runs.moves(run.state, letter) if run.until >= tick[event] else ():
            moved = Run(target, run.head, run.least, run.most, run.until)
            if mark or target == FINAL:
                least, most = min(run.least, occ_time), max(run.most, occ_time)
                until = min(run.until, int(purged[event]))
                if (within is not None and most - least > within) or until < tick[event]:
                    continue
                head = chains.add(event, mark | CONSTITUENT, run.head)
                moved = Run(target, head, least, most, until)
            if target == FINAL:
                ended.append(moved.head)
                continue
            key = (target, chains.events(moved.head)) if detector.keeps_all else target
            if key not in new or (not detector.keeps_all and _is_better(detector, chains, moved, new[key])):
                new[key] = moved
    if len(new) > limits.TUPLES_MAX:
        raise TooManyTuples
    return list(new.values()), ended


def _is_better(detector: Detector, chains: _Chains, run: Run, than: Run) -> bool:
    mine, other = ([e for e, _ in chains.events(r.head)] for r in (run, than))
    if detector.plan.choice is Choice.EARLIEST:
        # Where one has no further event, its next one is later than any.
        return [*mine, TIME_MAX] < [*other, TIME_MAX]
    return mine[::-1] > other[::-1]
