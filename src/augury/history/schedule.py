"""When the clock posts events: a schedule and a stretch of time → the times that are due in it.

It reads no clock; whoever does, says from when to when. Cron patterns are read in their time zone, as Debian's cron
reads them: a time that a change of the clocks skips is due right after it, and one that comes twice is due once; a
pattern that begins with a star for the minute or the hour follows the time that passes, whatever the clocks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from augury import limits
from augury.algebra.program import Cron, Every

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def times_due(schedule: Cron | Every, since_us: int, until_us: int) -> Iterable[int]:
    """The times t with since ≤ t < until at which an event is due, ascending; microseconds since the epoch."""
    match schedule:
        case Every(period_us=period_us):
            return range(-(-since_us // period_us) * period_us, until_us, period_us)
        case Cron():
            return _cron_times(schedule, since_us, until_us)


class TooManyDue(ValueError):
    """A clock posts more events in a stretch of time than the limit allows; the message names the class."""


def due_at_most(name: str, schedule: Cron | Every, since_us: int, until_us: int) -> Sequence[int]:
    """The times of the events of a clock class; raises `TooManyDue` past the limit."""
    due = times_due(schedule, since_us, until_us)
    found = due if isinstance(due, range) else list(islice(due, limits.CLOCK_EVENTS_MAX + 1))
    if len(found) > limits.CLOCK_EVENTS_MAX:
        most = f"at most {limits.CLOCK_EVENTS_MAX:,} events of a clock class"
        raise TooManyDue(f"a replay has {most}, and from its first to its last version `{name}` has more")
    return found


def _cron_times(schedule: Cron, since_us: int, until_us: int) -> Iterator[int]:
    from cronsim import CronSim

    # It looks for times after a whole second.
    before = (_EPOCH + timedelta(microseconds=since_us - 1)).replace(microsecond=0)
    last = None
    for moment in CronSim(schedule.pattern, before.astimezone(ZoneInfo(schedule.zone))):
        due = (moment - _EPOCH) // _MICROSECOND
        if due >= until_us:
            return
        if due >= since_us and due != last:
            yield due
        last = due
