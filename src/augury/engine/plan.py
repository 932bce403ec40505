"""A checked program → what its ticks do: which classes are there, and what derives them in which order.

In: a program. Out: an `EnginePlan`, made once. It knows no event. A class is named by its place in the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from augury import limits
from augury.algebra.composite import CompositePlan
from augury.algebra.expression import Feed, MatchPlan
from augury.algebra.program import ClassPlan, Cron, Every, Program
from augury.algebra.rule import Rule
from augury.algebra.select import ByKey, SelectPlan, Turns
from augury.diagnostics import Diagnostic, Mark, Span
from augury.engine.trigger_plan import Cuts, TriggerUnit, cuts_of, trigger_units, triggers_at
from augury.event import ClassKind, EventClass, key_of
from augury.history.schedule import TooManyDue
from augury.kernels import composite, match
from augury.kernels.bitemporal import Watch, watch
from augury.kernels.composite.sharing import runs_of
from augury.kernels.match.refusals import refusal


class CannotRun(ValueError):
    """A program with something that this engine does not run; `diagnostics` says what and where, and what helps."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        """Keep the diagnostics."""
        super().__init__("; ".join(diagnostic.message for diagnostic in diagnostics))
        for help_ in dict.fromkeys(text for diagnostic in diagnostics for text in diagnostic.helps):
            self.add_note(f"help: {help_}")
        self.diagnostics = diagnostics


@dataclass(frozen=True, slots=True)
class MatchUnit:
    """A MATCH class, and the complex classes whose events stand in its history, as declared."""

    place: int
    detector: match.Detector
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CompositeUnit:
    """The COMPOSITE classes that one event graph serves, with what feeds the attributes of each."""

    places: tuple[int, ...]
    detector: composite.Detector
    into: tuple[tuple[EventClass, tuple[Feed, ...]], ...]
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Turning:
    """When a comparison of an event with NOW may turn: at the value of a column plus an offset."""

    place: int
    column: str
    offset_us: int


@dataclass(frozen=True, slots=True)
class SelectUnit:
    """A SELECT class, and the classes whose views it reads, in the order in which its plan names them.

    `parts` are the columns of each view by which it falls apart, None if it does not, and `part_attributes` the
    attributes that carry their values. `turns` is None if NOW may change its rows at any tick.
    """

    place: int
    select: SelectPlan
    reads: tuple[int, ...]
    chronon_us: int
    parts: tuple[tuple[int, tuple[str, ...]], ...] | None
    part_attributes: tuple[str, ...]
    turns: tuple[Turning, ...] | None


Unit = MatchUnit | CompositeUnit | SelectUnit


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What ticks of a program do.

    `received` are the places of subscribed and clock classes, whose index there is their code in batches; `units`
    derive the others, each after those it reads. `detected_from` are the classes whose events may be constituents
    of what a MATCH or COMPOSITE finds. `clocks` are the codes of clock classes with their schedules, `selects_of` has
    for each place the numbers of the units of the SELECTs that read it. `triggered_from` are the complex classes that
    some trigger looks at, `triggers_of` has for each place the numbers of the triggers that it concerns, and `cuts`
    says where a step ends because a rule may post. `rules` and `event_classes` are by the names they are matched by.
    """

    program: Program
    classes: tuple[ClassPlan, ...]
    received: tuple[int, ...]
    watches: tuple[Watch, ...]
    units: tuple[Unit, ...]
    detected_from: frozenset[int]
    received_classes: tuple[EventClass, ...]
    clocks: tuple[tuple[int, Cron | Every], ...]
    selects_of: tuple[tuple[int, ...], ...]
    triggers: tuple[TriggerUnit, ...] = ()
    triggered_from: tuple[int, ...] = ()
    triggers_of: tuple[tuple[int, ...], ...] = ()
    cuts: Cuts | None = None
    rules: Mapping[str, Rule] = field(default_factory=dict)
    event_classes: Mapping[str, EventClass] = field(default_factory=dict)

    @property
    def chronon_us(self) -> int:
        """The length of a chronon."""
        return self.program.settings.chronon_us

    @property
    def built_on(self) -> frozenset[int]:
        """The places of classes from which others are derived."""
        return frozenset(place for unit in self.units for place in unit.reads)

    @property
    def is_built_on_complex(self) -> bool:
        """Whether a MATCH or COMPOSITE has complex events in its history."""
        return any(unit.reads for unit in self.units if not isinstance(unit, SelectUnit))

    @property
    def lifespans_us(self) -> tuple[int | None, ...]:
        """By place; None for ever."""
        return tuple(plan.event_class.lifespan_us for plan in self.classes)


def engine_plan(program: Program, *, flat: bool | None = None) -> EnginePlan:
    """What ticks of this program do; raises `CannotRun`.

    `flat` has COMPOSITEs go over flat arrays where that is possible: it pays for very many versions a tick. By itself
    those do that go by occurrence, for they go through many versions again at once.
    """
    classes = program.classes
    places = {key_of(plan.event_class.name): place for place, plan in enumerate(classes)}
    received = tuple(p for p, plan in enumerate(classes) if plan.event_class.kind is not ClassKind.COMPLEX)
    units, triggers = tuple(_units(program, places, flat)), _triggers(program, places)
    looked_at = {place for unit in triggers for place in (*unit.reads, *unit.triggering)}
    return EnginePlan(
        program,
        classes,
        received,
        tuple(watch(plan.event_class, plan.statements) for plan in classes),
        units,
        _detected_from(classes, received, units),
        tuple(classes[place].event_class for place in received),
        tuple(_clocks(classes, received)),
        tuple(tuple(_selects_of(units, place)) for place in range(len(classes))),
        triggers,
        tuple(sorted(looked_at.difference(received))),
        tuple(triggers_at(triggers, place) for place in range(len(classes))),
        cuts_of(triggers, received),
        {key_of(rule.name): rule for rule in program.rules},
        {name: classes[place].event_class for name, place in places.items()},
    )


def _triggers(program: Program, places: dict[str, int]) -> tuple[TriggerUnit, ...]:
    try:
        return trigger_units(program, places)
    except composite.NotYet as error:
        named = [trigger for trigger in program.triggers if trigger.composite is not None]
        message = f"this engine does not run {error} yet, as a trigger needs it to"
        raise CannotRun((Diagnostic("E313", message, Mark(named[0].span, "cannot be run")),)) from None


def _clocks(classes: Sequence[ClassPlan], received: Sequence[int]) -> Iterator[tuple[int, Cron | Every]]:
    for code, place in enumerate(received):
        derivation = classes[place].derivation
        if isinstance(derivation, Cron | Every):
            yield code, derivation


def _selects_of(units: Sequence[Unit], place: int) -> Iterator[int]:
    for number, unit in enumerate(units):
        if isinstance(unit, SelectUnit) and place in unit.reads:
            yield number


def _units(program: Program, places: dict[str, int], flat: bool | None) -> list[Unit]:
    runs = {key_of(name): run for run in runs_of(program) for name in run.names}
    done: set[str] = set()
    units: list[Unit] = []
    for name in (key_of(name) for layer in program.strata for name in layer):
        place = places[name]
        plan = program.classes[place]
        if name in done:
            continue
        match plan.derivation:
            case MatchPlan() as found:
                with refused_for(plan):
                    units.append(MatchUnit(place, match.detector_of(found), _complex_read(program, plan, places)))
            case CompositePlan():
                run = runs[name]
                done.update(key_of(one) for one in run.names)
                into = tuple((member.event_class, _feeds(member)) for member in run.members)
                at = tuple(places[key_of(one)] for one in run.names)
                with refused_for(plan):
                    is_flat = run.plan.by_occurrence is not None if flat is None else flat
                    detector = composite.detector_of(run.plan, flat=is_flat)
                units.append(CompositeUnit(at, detector, into, _complex_read(program, plan, places)))
            case SelectPlan() as found:
                units.append(_select_unit(program, place, found, places))
            case _:
                pass
    return units


def _select_unit(program: Program, place: int, select: SelectPlan, places: dict[str, int]) -> SelectUnit:
    # sqlglot takes long to import, and most programs do without.
    from augury.engine.select_parts import parts_of
    from augury.engine.select_turns import turns_of

    classes = [plan.event_class for plan in program.classes]
    parts, turns = parts_of(select, classes), turns_of(select, classes)
    of_class = dict(parts.columns) if isinstance(parts, ByKey) else {}
    return SelectUnit(
        place,
        select,
        tuple(places[key_of(one)] for one in select.reads),
        program.settings.chronon_us,
        tuple((places[key_of(name)], columns) for name, columns in of_class.items()) if of_class else None,
        parts.attributes if isinstance(parts, ByKey) else (),
        tuple(Turning(places[key_of(t.event_class)], t.column, t.offset_us) for t in turns.turns)
        if isinstance(turns, Turns)
        else None,
    )


@contextmanager
def refused_for(plan: ClassPlan) -> Iterator[None]:
    """What kernels refuse becomes `CannotRun`, for this class."""
    try:
        yield
    except tuple(match.REFUSALS) as error:
        raise CannotRun((refusal(type(error), plan),)) from None
    except composite.NotYet as error:
        message = f"this engine does not run {error} yet, as `{plan.event_class.name}` needs it to"
        raise CannotRun((Diagnostic("E313", message, Mark(plan.event_class.span, "cannot be run")),)) from None
    except composite.TooManyPeriods:
        raise too_many_periods(plan.event_class.name, plan.event_class.span) from None


def too_many_periods(name: str, span: Span) -> CannotRun:
    """What to raise where PERIODIC of a class or trigger would take place more often than the limit allows."""
    most = f"at most {limits.CLOCK_EVENTS_MAX:,} times after one opening"
    message = f"PERIODIC takes place {most}, and in `{name}` it would more often"
    helps = ("look for a time far from all others, or let the lifespan of what opens it end sooner",)
    return CannotRun((Diagnostic("E405", message, Mark(span, "takes place too often"), helps=helps),))


def ticks_too_often(program: Program, error: TooManyDue) -> CannotRun:
    """What to raise where the clock posts more events than the limit allows."""
    clock = next(plan.event_class for plan in program.classes if plan.event_class.kind is ClassKind.CLOCK)
    helps = ("look for a det_time far from all others, or let the class tick less often",)
    return CannotRun((Diagnostic("E405", str(error), Mark(clock.span, "ticks too often"), helps=helps),))


def _feeds(member: ClassPlan) -> tuple[Feed, ...]:
    assert isinstance(member.derivation, CompositePlan)
    return member.derivation.feeds


def _complex_read(program: Program, plan: ClassPlan, places: dict[str, int]) -> tuple[int, ...]:
    read = {places[key_of(name)] for name in plan.reads}
    return tuple(sorted(p for p in read if program.classes[p].event_class.kind is ClassKind.COMPLEX))


def _detected_from(classes: Sequence[ClassPlan], received: Sequence[int], units: Sequence[Unit]) -> frozenset[int]:
    """Any class that comes in: a history of a MATCH has them all."""
    detects = any(not isinstance(unit, SelectUnit) for unit in units)
    return frozenset(received) if detects else frozenset()
