"""Histories of the reference as batches of columns, cut anywhere; the classes are those of `generate`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.algebra.expression import MatchPlan
from augury.event import Attribute, ClassKind, EventClass
from augury.kernels.batch import ASSERT, WITHDRAW, Batch, Occurrences
from augury.kernels.columns import arrow_type
from augury.kernels.match import detector_of, initial_state, step
from augury.kernels.reference import Event
from augury.kernels.reference import Occurrence as Expected
from augury.types import INT


def event_class(name: str, attributes: Sequence[Attribute] = (), lifespan_us: int | None = None) -> EventClass:
    return EventClass(name, ClassKind.SUBSCRIBED, False, tuple(attributes), (), lifespan_us)


CLASSES = (
    event_class("A"),
    event_class("B"),
    event_class("K", (Attribute("k", INT), Attribute("v", INT))),
    event_class("Z"),
)


def batch(history: Sequence[Event], classes: tuple[EventClass, ...] = CLASSES) -> Batch:
    """The events as columns."""
    number = {c.name: i for i, c in enumerate(classes)}
    rows: list[list[Event]] = [[] for _ in classes]
    places = []
    for event in history:
        of = rows[number[event.event_class]]
        places.append(len(of))
        of.append(event)
    tables = tuple(
        pa.table({a.name: pa.array([e.values[a.name] for e in rows[i]], arrow_type(a.type)) for a in c.attributes})
        for i, c in enumerate(classes)
    )
    return Batch(
        classes,
        column([number[e.event_class] for e in history], np.int16),
        column(places, np.int64),
        column([e.seq for e in history], np.int64),
        column([e.occ_time or 0 for e in history], np.int64),
        column([e.det_time for e in history], np.int64),
        column([WITHDRAW if e.occ_time is None else ASSERT for e in history], np.uint8),
        tables,
        tuple(None for _ in classes),
    )


def column(values: Sequence[int], kind: type[np.generic]) -> npt.NDArray[Any]:
    """Values that nobody may write, as those of a file are."""
    found = np.array(values, kind)
    found.flags.writeable = False
    return found


def detected(
    plan: MatchPlan,
    history: Sequence[Event],
    cuts: Sequence[int] = (),
    classes: tuple[EventClass, ...] = CLASSES,
    chronon_us: int = 1_000_000,
    into: EventClass | None = None,
    *,
    tuples: bool = True,
) -> list[Expected]:
    """What the kernel finds, the history cut into batches before these places; or only where it finds something."""
    complex_class = into or found_class(plan)
    detector = detector_of(plan, tuples=tuples)
    state = initial_state(detector, classes)
    found: list[Expected] = []
    bounds = [0, *sorted(cuts), len(history)]
    for begin, end in pairwise(bounds):
        state, occurrences = step(detector, state, batch(history[begin:end], classes), complex_class, chronon_us)
        found += expected(occurrences)
    return found


def found_class(plan: MatchPlan) -> EventClass:
    """The class of what a plan finds, its attributes of the types that feed them."""
    attributes = tuple(Attribute(f.attribute, INT if f.value is None else f.value.type) for f in plan.feeds)
    return EventClass("Found", ClassKind.COMPLEX, False, attributes, (), None)


def expected(occurrences: Occurrences) -> list[Expected]:
    """Occurrences as the reference gives them."""
    values = occurrences.values.to_pylist() if occurrences.values.num_columns else [{}] * len(occurrences)
    return [
        Expected(int(s), int(o), int(d), v, tuple(c))
        for s, o, d, v, c in zip(
            occurrences.seq,
            occurrences.occ_time,
            occurrences.det_time,
            values,
            occurrences.constituents.to_pylist(),
            strict=True,
        )
    ]
