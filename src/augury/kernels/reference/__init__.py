"""The slow oracle of MATCH: the definitions of the paper as code, histories in, positions and occurrences out.

Written from the language contract and from Gehani, Jagadish and Shmueli (VLDB 1992), never optimised, and independent
of every other kernel: whatever runs faster has to give the same answers. `definitions` holds the operators that are
defined by others, `positions` the others, `prefix` what may still come, `tuples` which events make an expression take
place, `detection` the clauses around it.
"""

from augury.kernels.reference.detection import Occurrence, OrderByOccurrenceUnsupported, detect
from augury.kernels.reference.history import Event
from augury.kernels.reference.positions import positions
from augury.kernels.reference.tuples import OccurrenceTuple, occurrence_tuples

__all__ = [
    "Event",
    "Occurrence",
    "OccurrenceTuple",
    "OrderByOccurrenceUnsupported",
    "detect",
    "occurrence_tuples",
    "positions",
]
