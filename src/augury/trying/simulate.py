"""A program run over events on a virtual clock, tick by tick, with everything there is to see at each.

In: a program and what came. Out: a `Shown` a tick. The ticks are the engine's own; this only looks at what they did
and left. It prints nothing and waits for nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from augury.algebra.program import Program
from augury.algebra.scalar import dump
from augury.duck.selects import DuckSelects, runnable
from augury.engine.actions import key_ranks
from augury.engine.known import KnownIds
from augury.engine.plan import EnginePlan, engine_plan, ticks_too_often
from augury.engine.state import EngineState, initial
from augury.engine.tick import Ports, require_few_due, ticks
from augury.engine.ticked import Action, FiredTrigger, Ticked
from augury.environment import Environment
from augury.history.arrivals import Arrivals, arrived
from augury.history.coming import came
from augury.history.raw import Rejected
from augury.history.refusing import told
from augury.history.schedule import TooManyDue
from augury.local.sources import read_events
from augury.trying.firings import triggered
from augury.trying.shown import Acted, Derived, Refused, Shown
from augury.trying.simulate_pending import pending
from augury.trying.simulate_record import EventKey, Noted, Record, Version
from augury.trying.why_conditions import look_at, values_of
from augury.trying.why_events import why_of


@dataclass(slots=True)
class Simulation:
    """A program at work on a virtual clock: `ticks` moves it on, and `record` has all that happened.

    `tells_why` is False for whoever asks for no reasons.
    """

    program: Program
    came: Arrivals
    until_us: int | None = None
    tells_why: bool = True
    selects: DuckSelects = field(init=False)
    plan: EnginePlan = field(init=False)
    state: EngineState = field(init=False)
    record: Record = field(init=False)
    rejected: Rejected = field(init=False, default_factory=Rejected)
    """What was refused though no tick was ever done."""
    refused: list[Refused] = field(init=False, default_factory=list)
    acts: list[tuple[Action, EventKey]] = field(init=False, default_factory=list)
    """Every action of a statement so far, with the event that it fired for."""
    firings: list[FiredTrigger] = field(init=False, default_factory=list)
    _is_over: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Begin before the first tick; raises `CannotRun`."""
        self.selects = runnable(self.program)
        self.plan = engine_plan(self.program, flat=False)  # of flat arrays nobody can tell what waits
        self.state = initial(self.plan)
        self.record = Record(self.plan)

    def done(self) -> Iterator[Ticked]:
        """Every tick that has something to do, as the engine gives it; raises `CannotRun`."""
        ids = KnownIds()
        if self.until_us is None and not len(self.came):
            self.rejected = told(self.came.refusals, self.came.place)
        try:
            require_few_due(self.plan, self.state, self.came, self.until_us)
            ports = Ports(self.selects, ids)
            for ticked in ticks(self.plan, self.state, self.came, self.until_us, ports, is_replay=True):
                ids.note(ticked)
                yield ticked
        except TooManyDue as error:
            raise ticks_too_often(self.program, error) from None

    def run(self) -> Record:
        """Go to the end, if it has not been reached, and give the record; raises `CannotRun`."""
        if not self._is_over:
            for ticked in self.done():
                self._noted(ticked)
            self._is_over = True
        return self.record

    def ticks(self) -> Iterator[Shown]:
        """Every tick that has something to do, and all there is to see at it; raises `CannotRun`."""
        for number, ticked in enumerate(self.done(), 1):
            yield self._shown(number, ticked, self._noted(ticked))
        self._is_over = True

    def _noted(self, ticked: Ticked) -> Noted:
        noted = self.record.note(ticked)
        rejected = ticked.rejected
        columns = (rejected.place, rejected.event, rejected.reason, rejected.raw)
        self.refused += [Refused(*row) for row in zip(*columns, strict=True)]
        acts = (action for action in ticked.action_rows() if action.trigger is None)
        self.firings += ticked.firings
        self.acts += zip(acts, _events(self.record, ticked), strict=True)
        return noted

    def _shown(self, number: int, ticked: Ticked, noted: Noted) -> Shown:
        acts = sum(len(one.fired) for one in ticked.actions)
        return Shown(
            number,
            ticked.tick,
            tuple(noted.read),
            tuple(self.refused[len(self.refused) - len(ticked.rejected) :]),
            ticked.absorbed,
            tuple(self._derived(one) for one in noted.derived),
            tuple(acted_of(self.record, *one) for one in self.acts[len(self.acts) - acts :]),
            tuple(triggered(self.program, one) for one in ticked.firings),
            tuple(noted.purged),
            tuple((one.event_class, one.reason) for one in ticked.failed),
            dict(ticked.warnings),
            dict(ticked.errors),
            pending(self.plan, self.state, self.record),
        )

    def _derived(self, version: Version) -> Derived:
        return Derived(version, *why_of(self.record, version)) if self.tells_why else Derived(version, None)


def _events(record: Record, ticked: Ticked) -> Iterator[EventKey]:
    """The event of each action of a tick, in the order of `action_rows`, which names them by their attributes only."""
    for of_class in ticked.actions:
        place = record.place_of(of_class.event_class.name)
        assert place is not None, "it is a class of the program"
        fired, ranked = of_class.fired, key_ranks(of_class.event_class)
        rows = []
        for group, row in zip(fired.group.tolist(), fired.row.tolist(), strict=True):
            one = fired.groups[group]
            rows.append(((ranked(one.keys[row]), one.statement, one.action), one.keys[row]))
        yield from ((place, key) for _, key in sorted(rows, key=lambda found: found[0]))


def acted_of(record: Record, action: Action, event: EventKey) -> Acted:
    """An action with the version that it fired for, and what its condition and arguments looked at."""
    look = look_at(record, event, action.tick)
    assert look is not None, "an action fires for an event that is there"
    statement = record.plan.classes[event[0]].statements[action.statement - 1]
    values = values_of(look, statement.condition, action.name)
    for argument in statement.actions[action.place - 1].arguments:
        values |= values_of(look, argument, action.name)
    return Acted(action, look.new, dump(statement.condition), values)


def simulation(
    program: Program,
    events: str,
    until_us: int | None = None,
    *,
    tells_why: bool = True,
    environment: Environment | None = None,
) -> Simulation:
    """A simulation of the events of a file; raises `CannotRun` and `Unreadable`."""
    rows = came(program, read_events(events, environment), until_us=until_us)
    return Simulation(program, arrived(program, rows), until_us, tells_why)
