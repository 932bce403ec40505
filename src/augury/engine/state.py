"""What a tick leaves for the next.

In: an engine's plan. Out: an `EngineState`, which ticks change in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from augury.engine.parts import SelectState, select_state
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit, SelectUnit, Unit
from augury.event import EventClass
from augury.kernels import composite, match
from augury.kernels.bitemporal import ClassState, Expiry, class_state

Node = tuple[int, int]
"""A live event: the place of its class, and its slot in the view."""


@dataclass(slots=True)
class Traces:
    """Which live event each `seq` is a version of, for classes whose versions detection may use.

    `seqs` has the numbers of all versions of an event since it was announced. `parts` has, for a live event of a MATCH
    or COMPOSITE class, the constituents of its current version, and `users` the events that have a `seq` among theirs,
    whether the event of that `seq` is still there or not.
    """

    events: dict[int, Node] = field(default_factory=dict)
    seqs: dict[Node, list[int]] = field(default_factory=dict)
    parts: dict[Node, tuple[int, ...]] = field(default_factory=dict)
    users: dict[int, set[Node]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """What is used follows from `parts`."""
        for node, seqs in self.parts.items():
            self._use(node, seqs)

    def note(self, place: int, slot: int, seq: int) -> None:
        """A version of a live event was read."""
        node = (place, slot)
        self.events[seq] = node
        self.seqs.setdefault(node, []).append(seq)

    def made(self, node: Node, seqs: tuple[int, ...]) -> None:
        """A live event has these constituents now."""
        self._unmake(node)
        self.parts[node] = seqs
        self._use(node, seqs)

    def _use(self, node: Node, seqs: tuple[int, ...]) -> None:
        for seq in seqs:
            self.users.setdefault(seq, set()).add(node)

    def _unmake(self, node: Node) -> None:
        for seq in self.parts.pop(node, ()):
            users = self.users[seq]
            users.discard(node)
            if not users:
                del self.users[seq]

    def forget(self, place: int, slots: Iterable[int]) -> None:
        """Events have left."""
        for slot in slots:
            node = (place, slot)
            for seq in self.seqs.pop(node, ()):
                del self.events[seq]
            self._unmake(node)


Detection = match.MatchState | composite.CompositeState | SelectState
"""What a unit remembers."""


@dataclass(slots=True)
class EngineState:
    """The live views, timers, expiries and detection states of a program, after the tick `tick`.

    `failing` are the units of SELECTs that failed when they were last evaluated: they are tried again at every tick.
    """

    classes: list[ClassState]
    expiry: Expiry
    detection: list[Detection]
    traces: Traces = field(default_factory=Traces)
    seq: int = 0
    tick: int | None = None
    failing: set[int] = field(default_factory=set)


def history_classes(plan: EnginePlan, unit: MatchUnit | CompositeUnit) -> tuple[EventClass, ...]:
    """The classes of the history that a unit reads."""
    return (*plan.received_classes, *(plan.classes[place].event_class for place in unit.reads))


def initial(plan: EnginePlan, after_number: int = 0) -> EngineState:
    """Before the first tick; versions are numbered after the number given, so that engines may number differently."""
    classes = [class_state(watched) for watched in plan.watches]
    for one in classes:
        one.view.read = after_number
    return EngineState(
        classes,
        Expiry(plan.lifespans_us),
        [_initial(plan, unit) for unit in plan.units],
    )


def _initial(plan: EnginePlan, unit: Unit) -> Detection:
    match unit:
        case MatchUnit():
            return match.initial_state(unit.detector, history_classes(plan, unit))
        case CompositeUnit():
            return composite.initial_state(unit.detector, history_classes(plan, unit))
        case SelectUnit():
            return select_state(unit, plan.classes[unit.place].event_class)
