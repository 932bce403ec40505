"""What happens, in order: versions as they are read, and the complex events that they and the clock complete.

In: a program, raw versions in the order of processing, how far the clock goes. Out: every version at its place, and
what became of each raw one. The bitemporal reference does the work; here its result is put into one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import Cron, Every, Program
from augury.algebra.select import SelectPlan
from augury.event import EventClass
from augury.kernels.reference.bitemporal import Raw, Reason, Run, Select, Version, run
from augury.kernels.reference.bitemporal.detecting import (
    Item,
    Place,
    detected_item,
    occurrences,
    read_item,
    selected_item,
)
from augury.kernels.reference.bitemporal.ticks import tick_of

TIMED, SELECTED, READ = 0, 1, 2
"""What the second number of a place says: the clock completed it, a SELECT announced it, it was read."""


@dataclass(frozen=True, slots=True)
class Happening:
    """A run of the bitemporal reference as one order.

    `items` are the versions of all classes by place; `became` has for each raw version, by its index, the version
    that it became, why it was refused, or None for a duplicate. One that no tick reads is not in it.
    """

    run: Run
    items: tuple[Item, ...]
    became: Mapping[int, Version | Reason | None]
    classes: Mapping[str, EventClass]
    clock_seqs: frozenset[int]
    chronon_us: int
    until: int


def happening(program: Program, selects: Mapping[str, Select], raws: Sequence[Raw], until: int) -> Happening:
    """All that happens up to a tick. Raw versions have both times, and stand in the order in which they are read."""
    ran = run(program, selects, raws, until)
    classes = {plan.event_class.name: plan.event_class for plan in program.classes}
    clocks = {plan.event_class.name for plan in program.classes if isinstance(plan.derivation, Cron | Every)}
    read = [version for tick in ran.ticks for version in tick.read]
    items = _items(program, classes, ran, until)
    return Happening(
        ran,
        tuple(sorted(items, key=lambda item: (item.place, item.order))),
        _became(raws, ran, [version for version in read if version.event_class not in clocks]),
        classes,
        frozenset(version.seq for version in read if version.event_class in clocks if version.seq is not None),
        program.settings.chronon_us,
        until,
    )


def _items(program: Program, classes: Mapping[str, EventClass], ran: Run, until: int) -> list[Item]:
    """Every version at its place; those of MATCH and COMPOSITE are found again, for a run does not say where."""
    plans = {plan.event_class.name: (number, plan) for number, plan in enumerate(program.classes)}
    published = [version for tick in ran.ticks for version in tick.published]
    items = [read_item(version) for tick in ran.ticks for version in tick.read]
    for name in (name for layer in program.strata for name in layer):
        number, plan = plans[name]
        versions = [version for version in published if version.event_class == name]
        match plan.derivation:
            case SelectPlan():
                items += [selected_item(version, number) for version in versions]
            case MatchPlan() | CompositePlan():
                found = occurrences(plan, classes, items, until, program.settings.chronon_us)
                pairs = zip(found, versions, strict=True)
                items += [detected_item(one, version, number, classes[name]) for one, version in pairs]
            case _:
                pass
    return items


def _became(raws: Sequence[Raw], ran: Run, read: Sequence[Version]) -> dict[int, Version | Reason | None]:
    """Versions are read in the order of the raw ones; what was refused or absorbed is told by the row itself."""
    refused = {id(one.raw): one.reason for tick in ran.ticks for one in tick.rejected}
    absorbed = {id(raw) for tick in ran.ticks for raw in tick.absorbed}
    accepted = iter(read)
    found: dict[int, Version | Reason | None] = {}
    for index, raw in enumerate(raws):
        if id(raw) in refused:
            found[index] = refused[id(raw)]
        elif id(raw) in absorbed:
            found[index] = None
        elif (version := next(accepted, None)) is not None:
            found[index] = version
    return found


def now_at(place: Place, chronon_us: int) -> int:
    """NOW: a version is read by the tick at the end of its chronon; timers and SELECTs belong to the tick they meet."""
    time, kind, *_ = place
    return tick_of(time, chronon_us) if kind == READ else -(-time // chronon_us) * chronon_us


def last_purge(place: Place, chronon_us: int) -> int:
    """The last tick that has purged before something happens: a tick purges after its timers and SELECTs."""
    time, kind, *_ = place
    return (time if kind == READ else time - 1) // chronon_us * chronon_us
