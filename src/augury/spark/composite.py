"""How a COMPOSITE expression is to run on Spark: which rows and columns it needs, and by what it may be cut.

In: a run of `kernels.composite.sharing`. Out: a stage. There is a graph per partition and per value of the shared
variables, so rows go by what every leaf names; events of others do not matter, but how far the clock goes does.
"""

from __future__ import annotations

from collections.abc import Sequence

from augury.algebra.expression import Anything, Variable
from augury.algebra.scalar import Field, Previous, leaves
from augury.event import EventClass, key_of
from augury.kernels.composite import Detector, NotYet, detector_of
from augury.kernels.composite.scalars import variable_places
from augury.kernels.composite.sharing import Run
from augury.kernels.match.leaves import code_of, looks_back
from augury.spark.stage import Key, Stage, columns_sent, history_codes, not_yet, partition_keys, torn


def composite_stage(run: Run, number: int, classes: tuple[EventClass, ...]) -> Stage:
    """The stage of a run over these classes; raises `NotOnSpark`."""
    plan = run.plan
    try:
        detector = detector_of(plan)
    except NotYet as error:
        raise not_yet(str(error), run.members[0].event_class) from None
    named = {code_of(classes, leaf.event_class) for leaf in detector.leaves}
    sent = tuple(code for code in history_codes(plan.over, plan.partition_by, classes) if code in named)
    keys, reason = _keys(detector, sent, classes)
    columns = tuple(place for place in _columns(detector, classes) if place[0] in sent)
    leaves_ = None if looks_back(leaf.mask for leaf in detector.leaves) else tuple(detector.leaves)
    found = (number, plan, run.members, classes, sent, columns, keys, reason)
    return Stage(*found, timed=run.has_timers, leaves=leaves_)


def _keys(detector: Detector, sent: Sequence[int], classes: Sequence[EventClass]) -> tuple[tuple[Key, ...], str]:
    """The keys of an expression, or why it has none."""
    keys, reason = _cut_by(detector, sent, classes)
    apart = torn(keys, classes)
    return ((), apart) if apart else (keys, reason)


def _cut_by(detector: Detector, sent: Sequence[int], classes: Sequence[EventClass]) -> tuple[tuple[Key, ...], str]:
    plan = detector.plan
    if plan.partition_by:
        return partition_keys(plan.partition_by, sent, classes), ""
    if not plan.keys:
        return (), "no variable joins its events, and there is no PARTITION BY"
    if looks_back(leaf.mask for leaf in detector.leaves):
        return (), "PREV looks at events of other values"
    # A version that names only some of the values belongs to many graphs: what it names always is enough to cut by.
    found = [key for variable in plan.keys if (key := _variable_key(detector, variable, classes)) is not None]
    if not found:
        names = ", ".join(f"`{variable.name}`" for variable in plan.keys)
        return (), f"not every event that it reads names one value of {names}"
    return tuple(found), ""


def _variable_key(detector: Detector, variable: Variable, classes: Sequence[EventClass]) -> Key | None:
    """The attribute of each class that has the value of a variable at all leaves of the class; None without one."""
    places: dict[int, set[int]] = {}
    for leaf in detector.leaves:
        code = code_of(classes, leaf.event_class)
        here = {at for at, _ in variable_places(leaf).get(key_of(variable.name), ())}
        places[code] = places.get(code, here) & here
    if not all(places.values()):
        return None
    first = sorted((code, classes[code].attributes[min(at)].name) for code, at in places.items())
    return Key(variable.name, variable.type, tuple(first))


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
