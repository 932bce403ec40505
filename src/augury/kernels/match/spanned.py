"""One step of streams that events move without naming them: the rows that name one, and the history of all others.

In: the streams that rows name, and the symbol of every row to whoever it does not name. Out: tuples, and the state at
the end of the rows: every stream of a partition that has rows has read them all. `walk_spans` does it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from augury.algebra.expression import Choice
from augury.kernels.batch import Integers
from augury.kernels.match.collect import Candidates
from augury.kernels.match.detector import Detector
from augury.kernels.match.state import MatchState, Nodes, with_streams
from augury.kernels.match.streams import Touched
from augury.kernels.match.walk import group

Symbols = npt.NDArray[np.int32]


def spanned(
    detector: Detector,
    state: MatchState,
    touch: Touched,
    named: Symbols,
    unnamed: Symbols,
    partition: Integers,
    offset: int,
) -> Candidates:
    """Move the streams; `named` has a symbol for each row of `touch`, `unnamed` and `partition` one for every row."""
    from augury.kernels.match.walk_spans import walk_spans

    tables, nodes, streams = detector.tables, state.nodes, state.streams
    assert tables is not None
    with_streams(state, detector, touch.origin)
    # The histories of partitions lie one after the other.
    row = np.argsort(partition, kind="stable")
    place = np.empty(len(row), np.int64)
    place[row] = np.arange(len(row))
    ends = np.cumsum(np.bincount(partition, minlength=len(state.length)))
    lows, highs = np.concatenate([[0], ends])[streams.partition], ends[streams.partition]
    active = np.flatnonzero(highs > lows)
    state.last[active] = state.length[streams.partition[active]]
    order, begins = group(touch.stream, len(state.at))
    begins = np.concatenate([begins[active], begins[-1:]])
    does = tables.programs
    bits = np.array([2 << detector.variables.index(v) for v in detector.keyed], np.int32)
    *after, event, stream, head = walk_spans(
        *(active, lows[active], highs[active], begins, named[order], place[touch.row[order]]),
        *(unnamed[row], row + offset, state.at, state.heads),
        *(tables.delta, does.first, does.target, does.source, does.mark, does.rival),
        *(detector.plan.choice is not Choice.EARLIEST, streams.bound, bits),
        *(nodes.ref, nodes.marks, nodes.prev, nodes.length, nodes.count),
    )
    state.nodes = Nodes(*after)
    return Candidates(event, stream, head)
