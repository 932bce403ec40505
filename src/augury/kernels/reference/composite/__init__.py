"""The slow oracle of COMPOSITE: event graphs and parameter contexts, histories in, occurrences out.

Written from the language contract and from Raghavan (1999), never optimised, and independent of every other kernel.
`lowering` gives the form that all contexts evaluate; `recent` looks at the whole expression; `graph`, `nodes`, `chain`
and `timers` work node by node, by the pairing of one of the other contexts; `detection` has the clauses around it.
"""

from augury.kernels.reference.composite.detection import CONTEXTS, composite_occurrences
from augury.kernels.reference.composite.occurrence import CompositeOccurrence
from augury.kernels.reference.composite.protocol import Context, Detector, Join, Pairing

__all__ = [
    "CONTEXTS",
    "CompositeOccurrence",
    "Context",
    "Detector",
    "Join",
    "Pairing",
    "composite_occurrences",
]
