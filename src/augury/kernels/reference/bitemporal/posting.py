"""Events of the clock, among the versions that come in (LANGUAGE.md section 2).

In: the clock classes of a program, raw versions with their times, and from when to when the clock goes. Out: what is
to be read, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from augury.algebra.program import ClassPlan, Cron, Every
from augury.clock import EPOCH, microseconds_of
from augury.kernels.reference.bitemporal.version import Raw


@dataclass(frozen=True, slots=True)
class Posted:
    """An event of the clock: it happens, and is known, when it is due."""

    event_class: str
    time: int


def in_order(plans: Sequence[ClassPlan], raws: Sequence[Raw], since_us: int, until_us: int) -> list[Raw | Posted]:
    """Versions in order of det_time; of one det_time events of the clock first, classes as declared."""
    posted = [
        Posted(plan.event_class.name, time)
        for plan in plans
        if isinstance(plan.derivation, Cron | Every)
        for time in due(plan.derivation, since_us, until_us)
    ]
    return sorted([*posted, *raws], key=det_time_of)


def det_time_of(incoming: Raw | Posted) -> int:
    """When it is detected."""
    if isinstance(incoming, Posted):
        return incoming.time
    assert incoming.det_time is not None
    return incoming.det_time


def due(schedule: Cron | Every, since_us: int, until_us: int) -> Iterable[int]:
    """The times t with since ≤ t < until at which an event is due, ascending; a period counts from the epoch."""
    match schedule:
        case Every(period_us=period_us):
            return range(since_us + -since_us % period_us, until_us, period_us)
        case Cron(pattern=pattern, zone=zone):
            return sorted({time for time in _cron(pattern, zone, since_us, until_us) if since_us <= time < until_us})


def _cron(pattern: str, zone: str, since_us: int, until_us: int) -> Iterator[int]:
    from cronsim import CronSim

    # It looks for times after a given one, in whole seconds.
    start: datetime = EPOCH + timedelta(microseconds=since_us) - timedelta(minutes=1)
    for moment in CronSim(pattern, start.astimezone(ZoneInfo(zone))):
        time = microseconds_of(moment)
        if time >= until_us:
            return
        yield time
