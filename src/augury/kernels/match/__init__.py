"""MATCH over columns: tables compiled from the algebra, one walk over many keys, a state that is a value.

In: a plan and batches of versions. Out: occurrences. `detector` compiles, `leaves` and `streams` turn rows into
symbols, `walk` and `walk_all` move, `collect` chooses, `state` remembers.
"""

from augury.kernels.match.detector import Detector, PrefixOfValues, detector_of
from augury.kernels.match.shared import Shared
from augury.kernels.match.state import MatchState, TooManyTuples, initial_state
from augury.kernels.match.step import step
from augury.kernels.match.streams import TooManyStreams

__all__ = [
    "Detector",
    "MatchState",
    "PrefixOfValues",
    "Shared",
    "TooManyStreams",
    "TooManyTuples",
    "detector_of",
    "initial_state",
    "step",
]
