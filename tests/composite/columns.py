"""Histories of the reference as batches for the COMPOSITE kernel, cut anywhere; its occurrences as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from augury.algebra.composite import CompositePlan
from augury.event import Attribute, ClassKind, EventClass, key_of
from augury.kernels.batch import Batch, Occurrences
from augury.kernels.composite import CompositeState, Detector, detector_of, initial_state, step
from augury.kernels.composite.saved import loaded, saved
from augury.kernels.reference import Event
from augury.types import INT
from tests.match.columns import batch, event_class

Shown = tuple[int | None, int, int, tuple[object, ...], tuple[int, ...]]
"""`seq` (None for a timer), occ_time, det_time, values, constituents."""

PAIR = (Attribute("k", INT), Attribute("v", INT))
CLASSES = (
    event_class("A"),
    event_class("B"),
    event_class("K", PAIR),
    event_class("L", PAIR),
    event_class("Z"),
    event_class("Never"),
)


def living(classes: Sequence[EventClass], lifespans_us: Mapping[str, int | None]) -> tuple[EventClass, ...]:
    """The classes with lifespans; one that is not named lives for ever."""
    by_name = {key_of(name): lifespan for name, lifespan in lifespans_us.items()}
    return tuple(replace(c, lifespan_us=by_name.get(key_of(c.name))) for c in classes)


def found_class(plan: CompositePlan) -> EventClass:
    """The class of what a plan finds, its attributes of the types that feed them."""
    attributes = tuple(Attribute(f.attribute, INT if f.value is None else f.value.type) for f in plan.feeds)
    return EventClass("Found", ClassKind.COMPLEX, False, attributes, (), None)


def detected(
    plan: CompositePlan,
    history: Sequence[Event],
    *,
    until_us: int,
    cuts: Sequence[int] = (),
    untils: Sequence[int] = (),
    classes: tuple[EventClass, ...] = CLASSES,
    chronon_us: int = 1_000_000,
    into: EventClass | None = None,
    through_bytes: bool = False,
) -> list[Shown]:
    """What the kernel finds, the history cut into batches before these places.

    After each batch the clock goes as far as `untils` says, but not past the next version. With `through_bytes` the
    state is saved and loaded in between.
    """
    detector = detector_of(plan)
    state = initial_state(detector, classes)
    seen = [event for event in history if event.det_time <= until_us]
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(seen)), len(seen)]
    found: list[Shown] = []
    for number, (begin, end) in enumerate(pairwise(bounds)):
        clock = until_us
        if end < len(seen):
            clock = max((event.det_time for event in seen[:end]), default=0)
            wanted = untils[number] if number < len(untils) else clock
            clock = min(max(clock, wanted), seen[end].det_time)
        state, occurrences = _stepped(
            detector, state, batch(seen[begin:end], classes), into or found_class(plan), chronon_us, clock
        )
        found += shown(occurrences)
        if through_bytes:
            state = loaded(saved(state, detector, classes), detector, classes)
    return found


def _stepped(
    detector: Detector, state: CompositeState, part: Batch, into: EventClass, chronon_us: int, clock: int
) -> tuple[CompositeState, Occurrences]:
    return step(detector, state, part, into, chronon_us, clock)


def shown(occurrences: Occurrences) -> list[Shown]:
    """Occurrences as plain values."""
    values = occurrences.values.to_pylist() if occurrences.values.num_columns else [{}] * len(occurrences)
    columns = zip(
        occurrences.seq.tolist(),
        occurrences.occ_time.tolist(),
        occurrences.det_time.tolist(),
        values,
        occurrences.constituents.to_pylist(),
        strict=True,
    )
    return [(seq if seq > 0 else None, occ, det, tuple(v.values()), tuple(of)) for seq, occ, det, v, of in columns]
