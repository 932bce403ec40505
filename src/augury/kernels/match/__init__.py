"""MATCH over columns: tables compiled from the algebra, one walk over many keys, a state that is a value.

In: a plan and batches of versions. Out: occurrences. `detector` compiles, `leaves` and `streams` turn rows into
symbols, `walk` and `walk_all` move, `collect` chooses, `state` remembers.
"""

from collections.abc import Mapping
from types import MappingProxyType

from augury.automata.kinds import TooManyKinds
from augury.automata.runs import TooManyRuns
from augury.kernels.match.detector import Detector, detector_of
from augury.kernels.match.shared import Shared
from augury.kernels.match.state import MatchState, TooManyTuples, held_seqs, initial_state
from augury.kernels.match.step import step
from augury.kernels.match.streams import TooManyStreams

REFUSALS: Mapping[type[Exception], str] = MappingProxyType(
    {
        TooManyKinds: "a prefix of so many variables that may be equal",
        TooManyRuns: "so many events of a part that has a tuple for each",
        TooManyTuples: "so many open tuples",
        TooManyStreams: "so many combinations of values",
    }
)
"""What `detector_of` (the first three) and `step` raise for an expression they cannot run, and what it needs."""

__all__ = [
    "REFUSALS",
    "Detector",
    "MatchState",
    "Shared",
    "TooManyStreams",
    "TooManyTuples",
    "detector_of",
    "held_seqs",
    "initial_state",
    "step",
]
