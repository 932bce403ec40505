"""COMPOSITE over columns: an event graph per key, advanced version by version, with timers in between.

In: a plan and batches of versions. Out: occurrences. `graphs` has the nodes, `network` runs them, a module per context
says which operands go together; `reading` turns rows into versions at leaves, `state` and `saved` remember.
"""

from augury.graphs import NotYet
from augury.kernels.composite import chronicle, continuous, cumulative, recent, unrestricted
from augury.kernels.composite.detector import Detector, detector_of
from augury.kernels.composite.protocol import CONTEXTS
from augury.kernels.composite.state import CompositeState, held_seqs, initial_state
from augury.kernels.composite.step import step
from augury.kernels.composite.timed import TooManyPeriods

# Importing a context enters it.
_ENTERED = (chronicle, continuous, cumulative, recent, unrestricted)

__all__ = [
    "CONTEXTS",
    "CompositeState",
    "Detector",
    "NotYet",
    "TooManyPeriods",
    "detector_of",
    "held_seqs",
    "initial_state",
    "step",
]
