"""When events expire, over the graph of classes (LANGUAGE.md section 5, Lifespan and purging; the paper's section 2.5).

In: the events that are there, what complex events are made of, lifespans. Out: when each expires, None for never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from augury.kernels.reference.bitemporal.version import EventId, Version

MadeOf = Mapping[EventId, frozenset[EventId]]
"""The events that a complex event was joined or united from; nothing for one that is not traced."""


def expiries(
    live: Mapping[EventId, Version], made_of: MadeOf, lifespans_us: Mapping[str, int | None], strata: Sequence[str]
) -> dict[EventId, int | None]:
    """When each event expires; `strata` names every class after all that it reads."""
    by_class: dict[str, list[EventId]] = {name: [] for name in strata}
    for event in live:
        by_class[event[0]].append(event)
    upwards = [event for name in strata for event in by_class[name]]
    preliminary: dict[EventId, int | None] = {}
    for event in upwards:
        constituents = made_of.get(event, frozenset()) & live.keys()
        own = _own(live[event], lifespans_us[event[0]])
        preliminary[event] = _latest([own, *(preliminary[constituent] for constituent in constituents)])
    dependants: dict[EventId, list[EventId]] = {event: [] for event in live}
    for event in live:
        for constituent in made_of.get(event, frozenset()) & live.keys():
            dependants[constituent].append(event)
    final: dict[EventId, int | None] = {}
    for event in reversed(upwards):
        final[event] = _latest([preliminary[event], *(final[dependant] for dependant in dependants[event])])
    return final


def _own(version: Version, lifespan_us: int | None) -> int | None:
    assert version.occ_time is not None
    return None if lifespan_us is None else version.occ_time + lifespan_us


def _latest(times: Iterable[int | None]) -> int | None:
    known = list(times)
    return None if None in known else max(time for time in known if time is not None)
