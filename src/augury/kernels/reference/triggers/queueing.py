"""The queue of what rules post, among the versions from outside (LANGUAGE.md section 7).

In: raw versions in the order of processing, and a firing. Out: the same with its posts where they belong, and the
firing with what became of them. It knows nothing of triggers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from augury.kernels.firing import Firing, Posted, Refusal
from augury.kernels.reference.bitemporal import Raw, Reason, Version
from augury.kernels.reference.bitemporal.detecting import Place
from augury.kernels.reference.bitemporal.posting import det_time_of
from augury.kernels.reference.triggers.happening import READ, Happening

Cause = tuple[int, int]
"""What an event was posted by: the number of the firing, and of the post among those that it made."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A raw version in the order of processing; `cause` is None for one from outside, `depth` counts posts."""

    raw: Raw
    cause: Cause | None = None
    depth: int = 0


def posts_of(firing: Firing) -> list[Posted]:
    """What a firing posts, in the order of the rule structure."""
    return [deed for call in firing.calls for deed in call.deeds if isinstance(deed, Posted)]


def raw_of(posted: Posted) -> Raw:
    """A posted event as it comes in: it happens when it is detected."""
    return Raw(posted.event_class, posted.values, posted.det_time, posted.det_time)


def _index_of(place: Place, happened: Happening) -> int | None:
    """The entry whose version was read at a place; None for the clock, timers and SELECTs."""
    if place[1] != READ or place[2][0] in happened.clock_seqs:
        return None
    versions = ((index, one) for index, one in happened.became.items() if isinstance(one, Version))
    return next(index for index, one in versions if one.seq == place[2][0])


def depth_at(place: Place, happened: Happening, entries: Sequence[Entry]) -> int:
    """How many posts led to what happens at a place; what the clock brings begins anew."""
    index = _index_of(place, happened)
    return 0 if index is None else entries[index].depth


def inserted(entries: Sequence[Entry], new: Sequence[Entry], place: Place, happened: Happening) -> list[Entry]:
    """Posts come after what triggered them and after what was posted before them, and before all else from outside."""
    index = _index_of(place, happened)
    if index is None:
        at = next((i for i, one in enumerate(entries) if det_time_of(one.raw) >= place[0]), len(entries))
    else:
        at = index + 1
    while at < len(entries) and entries[at].cause is not None and det_time_of(entries[at].raw) == place[0]:
        at += 1
    return [*entries[:at], *new, *entries[at:]]


def settled(firing: Firing, number: int, happened: Happening, entries: Sequence[Entry], *, is_deep: bool) -> Firing:
    """A firing with what became of its posts."""
    index_of = {entry.cause: index for index, entry in enumerate(entries) if entry.cause is not None}
    made = iter(range(len(posts_of(firing))))

    def became(posted: Posted) -> Posted:
        place = next(made)
        if posted.refused is not None:
            return posted
        if is_deep:
            return replace(posted, refused=Refusal.TOO_DEEP)
        index = index_of[number, place]
        if index not in happened.became:
            return posted
        match happened.became[index]:
            case None:
                return replace(posted, refused=Refusal.DUPLICATE)
            case Version(seq=seq):
                return replace(posted, seq=seq)
            case Reason():
                return replace(posted, refused=Refusal.IMMUTABLE)

    calls = tuple(
        replace(call, deeds=tuple(became(deed) if isinstance(deed, Posted) else deed for deed in call.deeds))
        for call in firing.calls
    )
    return replace(firing, calls=calls)
