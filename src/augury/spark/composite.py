"""How a COMPOSITE expression is to run on Spark: which rows and columns it needs, and by what it may be cut.

In: a run of `kernels.composite.sharing`. Out: a stage. There is a graph per partition and per value of the shared
variables, so rows go by what every leaf names; events of others do not matter, but how far the clock goes does.
"""

from __future__ import annotations

from collections.abc import Sequence

from augury.algebra.expression import Anything
from augury.algebra.scalar import Field, Previous, leaves
from augury.engine.keys import composite_ways, history_codes
from augury.event import EventClass, key_of
from augury.kernels.composite import Detector, NotYet, detector_of
from augury.kernels.composite.sharing import Run
from augury.kernels.match.leaves import code_of, looks_back
from augury.spark.stage import Stage, columns_sent, not_yet, torn


def composite_stage(run: Run, number: int, classes: tuple[EventClass, ...]) -> Stage:
    """The stage of a run over these classes; raises `NotOnSpark`."""
    plan = run.plan
    try:
        detector = detector_of(plan)
    except NotYet as error:
        raise not_yet(str(error), run.members[0].event_class) from None
    named = {code_of(classes, leaf.event_class) for leaf in detector.leaves}
    sent = tuple(code for code in history_codes(plan.over, plan.partition_by, classes) if code in named)
    apart = composite_ways(detector, classes)
    rounded = torn(apart.keys, classes)
    keys, reason = ((), rounded) if rounded else (apart.keys, apart.reason)
    columns = tuple(place for place in _columns(detector, classes) if place[0] in sent)
    leaves_ = None if looks_back(leaf.mask for leaf in detector.leaves) else tuple(detector.leaves)
    found = (number, plan, run.members, classes, sent, columns, keys, reason)
    return Stage(*found, timed=run.has_timers, leaves=leaves_)


def _columns(detector: Detector, classes: Sequence[EventClass]) -> tuple[tuple[int, int], ...]:
    """The attributes that leaves, clauses and what feeds the members name, by class."""
    found: set[tuple[int, str]] = set()
    for leaf in detector.leaves:
        code = code_of(classes, leaf.event_class)
        bound = zip(classes[code].attributes, leaf.bindings, strict=False)
        found |= {(code, key_of(attribute.name)) for attribute, b in bound if not isinstance(b, Anything)}
        fields = [] if leaf.mask is None else leaves(leaf.mask)
        found |= {(code, key_of(field.name)) for field in fields if isinstance(field, Field | Previous)}
    found |= {(code_of(classes, field.scope), key_of(field.name)) for field in detector.asked if field.scope}
    found |= {(code, key_of(name)) for code in range(len(classes)) for name in detector.plan.partition_by}
    return columns_sent(found, classes)
