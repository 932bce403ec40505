"""What reading remembers between batches: values by number, and the last events that PREV may ask for.

In and out of both kinds of state; it knows no graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from augury.event import EventClass
from augury.kernels.columns import arrow_type
from augury.kernels.composite.detector import Detector
from augury.kernels.match.leaves import Tail, partition_types
from augury.kernels.match.streams import Numbers, no_numbers


@dataclass(slots=True)
class Known:
    """What reading remembers: the values of partitions and shared variables by number, and how many versions it saw."""

    partitions: list[Numbers]
    values: list[Numbers]
    tails: dict[int, Tail] = field(default_factory=dict)
    places: int = 0


def nothing_known(detector: Detector, classes: tuple[EventClass, ...]) -> tuple[list[Numbers], list[Numbers]]:
    """The partitions, and the values of the shared variables, before the first version."""
    kinds = partition_types(classes, detector.plan.over, detector.plan.partition_by)
    partitions = [no_numbers(arrow_type(kind)) for kind in kinds]
    partitions += [no_numbers(pa.int64()) for _ in kinds[1:]]
    return partitions, [no_numbers(arrow_type(v.type)) for v in detector.plan.keys]
