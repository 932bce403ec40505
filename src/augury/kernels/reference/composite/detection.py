"""A whole COMPOSITE over a history: partitions, graphs per value, time, and what feeds the attributes.

In: a plan, the history it may see, and how far the clock went. Out: occurrences in order. A timer due at T comes before
the versions with det_time ≥ T, and after the version that set it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from augury.algebra.composite import CompositePlan, walk
from augury.algebra.composite import Context as ContextName
from augury.algebra.expression import Aggregate, Primitive, Variable
from augury.algebra.scalar import Value
from augury.event import key_of
from augury.kernels.reference.composite.chronicle import Chronicle
from augury.kernels.reference.composite.continuous import Continuous
from augury.kernels.reference.composite.cumulative import Cumulative
from augury.kernels.reference.composite.forms import Form
from augury.kernels.reference.composite.graph import NodeByNode
from augury.kernels.reference.composite.lowering import form_of
from augury.kernels.reference.composite.occurrence import CompositeOccurrence, Operand, Point
from augury.kernels.reference.composite.protocol import Context
from augury.kernels.reference.composite.recent import Recent
from augury.kernels.reference.composite.setting import Setting
from augury.kernels.reference.composite.unrestricted import Unrestricted
from augury.kernels.reference.detection import OrderByOccurrenceUnsupported
from augury.kernels.reference.history import Event, History, NoValue, Scope, comparable

CONTEXTS: Mapping[ContextName, Context] = {
    ContextName.RECENT: Recent(),
    ContextName.CHRONICLE: NodeByNode(Chronicle()),
    ContextName.CONTINUOUS: NodeByNode(Continuous()),
    ContextName.CUMULATIVE: NodeByNode(Cumulative()),
    ContextName.UNRESTRICTED: NodeByNode(Unrestricted()),
}


def composite_occurrences(
    plan: CompositePlan,
    history: Iterable[Event],
    lifespans_us: Mapping[str, int | None] | None = None,
    *,
    until_us: int,
    chronon_us: int = 1_000_000,
    key: Sequence[str] = (),
) -> list[CompositeOccurrence]:
    """All occurrences up to a time, in the order of their places, then the attributes of `key`, constituents, values.

    `history` has the versions of all classes of the program that may be seen, in order; those detected after
    `until_us` are left out, and timers due by then fire. A class that `lifespans_us` does not name never expires.
    """
    if plan.by_occurrence is not None:
        raise OrderByOccurrenceUnsupported("ORDER BY OCCURRENCE")
    over = None if plan.over is None else {key_of(name) for name in plan.over}
    seen = [
        event
        for event in history
        if event.occ_time is not None
        and event.det_time <= until_us
        and (over is None or key_of(event.event_class) in over)
    ]
    leaves = tuple(node for node in walk(plan.expression) if isinstance(node, Primitive))
    form = form_of(plan)
    found: list[tuple[tuple[Any, ...], CompositeOccurrence]] = []
    for part in _partitions(seen, plan.partition_by):
        events = History.of(event for _, event in part)
        numbers = [number for number, _ in part]
        for values in _graphs(plan.keys, leaves, events):
            setting = Setting(Scope(events, values=values), leaves, lifespans_us or {}, chronon_us, until_us)
            for operand in _run(form, setting, CONTEXTS[plan.context]):
                if _is_of_graph(setting, operand):
                    made = _occurrence(plan, setting, operand)
                    found.append((_order(operand.end, numbers, seen, made, key), made))
    return [made for _, made in sorted(found, key=lambda each: each[0])]


def _run(form: Form, setting: Setting, context: Context) -> Iterator[Operand]:
    """All that takes place in one graph, in order."""
    detector = context.detector(form, setting)
    count = len(setting.events)
    for place in range(count + 1):
        last = setting.until_us if place == count else setting.events[place].det_time
        while (time := detector.next_due()) is not None and time <= last:
            yield from detector.step(setting.timer(time, place))
        if place < count:
            yield from detector.step(setting.arrival(place))


# ---- partitions and graphs -----------------------------------------------------------------------


def _partitions(events: Sequence[Event], attributes: Sequence[str]) -> list[list[tuple[int, Event]]]:
    """The events, numbered, of each value combination; an event without the attributes is in none."""
    parts: dict[tuple[object, ...], list[tuple[int, Event]]] = {}
    for number, event in enumerate(events):
        if all(map(event.has, attributes)):
            values = tuple(comparable(event.value(name)) for name in attributes)
            parts.setdefault(values, []).append((number, event))
    return list(parts.values())


def _graphs(
    keys: Sequence[Variable], leaves: Sequence[Primitive], history: History
) -> Iterator[dict[str, tuple[object, Any]]]:
    """The values of each graph: every one that versions have where the variable stands, and one that none has."""
    choices = []
    for index, variable in enumerate(keys):
        met = [
            comparable(list(event.values.values())[position], variable.type)
            for leaf in leaves
            for position, binding in enumerate(leaf.bindings)
            if isinstance(binding, Variable) and binding.name == variable.name
            for event in history.events
            if event.event_class == leaf.event_class
        ]
        choices.append([(value, variable.type) for value in (*dict.fromkeys(met), NoValue(index))])
    for chosen in product(*choices):
        yield dict(zip((variable.name for variable in keys), chosen, strict=True))


def _is_of_graph(setting: Setting, operand: Operand) -> bool:
    """What binds no value of a variable takes place in the graph of none, and so once."""
    bound = setting.variables(operand)
    return all((name in bound) != isinstance(value, NoValue) for name, (value, _) in setting.scope.values.items())


# ---- occurrences ---------------------------------------------------------------------------------


def _occurrence(plan: CompositePlan, setting: Setting, operand: Operand) -> CompositeOccurrence:
    values: dict[str, Value] = {}
    for feed in plan.feeds:
        assert not isinstance(feed.value, Aggregate), "COLLECT belongs to MATCH"
        values[feed.attribute] = None if feed.value is None else setting.value(feed.value, operand)
    place, is_timer, _ = operand.end
    events = [setting.events[part.place] for part in operand.parts]
    return CompositeOccurrence(
        None if is_timer else setting.events[place].seq,
        operand.occ_time,
        operand.det_time,
        values,
        tuple(sorted({seq for event in events for seq in (event.constituents or (event.seq,))})),
        tuple((event.seq, part.leaf) for event, part in zip(events, operand.parts, strict=True)),
    )


def _order(
    end: Point, numbers: Sequence[int], seen: Sequence[Event], made: CompositeOccurrence, key: Sequence[str]
) -> tuple[Any, ...]:
    """A place in the order of all partitions: a timer comes after all versions before its time, and its own."""
    place, is_timer, time = end
    number = numbers[place]
    if is_timer:
        number = max(number, sum(event.det_time < time for event in seen) - 1)
    return (
        (number, is_timer, time),
        [_ordered(made.values[name]) for name in key],
        made.constituents,
        [_ordered(value) for value in made.values.values()],
        made.occ_time,
    )


def _ordered(value: Any) -> tuple[bool, bool, Any]:
    """Least first; NaN is greater than every number, and NULL comes last."""
    is_nan = value != value
    return value is None, is_nan, None if value is None or is_nan else value
