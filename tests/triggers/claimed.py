"""A history with what rules have posted in it, judged by the slow reference in one go.

`triggered` works everything out anew for every firing that posts, which is out of reach for hundreds of events. Where
it is claimed which versions are posts, one pass is enough: what fires over all of them, and whether just that is
posted, in the places where it belongs. What a wrong post would change comes after it, so a claim that holds is the
truth. Only for programs whose posts are never refused, without turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from augury.algebra.program import Program
from augury.kernels.firing import Firing, Functions, Posted
from augury.kernels.reference.bitemporal import Raw, Version
from augury.kernels.reference.bitemporal.detecting import Place
from augury.kernels.reference.bitemporal.posting import det_time_of
from augury.kernels.reference.triggers import DEPTH_MAX, Triggered
from augury.kernels.reference.triggers.happening import Happening, happening
from augury.kernels.reference.triggers.queueing import Entry, _index_of, depth_at, posts_of, raw_of
from augury.kernels.reference.triggers.running import _look, _moments, _occurrences, _rank, _Rules, _Used
from augury.kernels.reference.triggers.turning import lives
from tests.bitemporal.duck import selects_of


class NotSo(AssertionError):
    """A claim that does not hold; the message says where."""


@dataclass(frozen=True)
class Claim:
    """An accepted version, with both times, and whether a rule has posted it."""

    raw: Raw
    is_posted: bool


def judged(
    program: Program, claims: Sequence[Claim], until: int, functions: Functions, depth_max: int = DEPTH_MAX
) -> Triggered:
    """All firings over claimed versions, which stand in the order of their `seq`; raises `NotSo`."""
    entries = [Entry(replace(claim.raw)) for claim in claims]  # each is an object of its own
    end = until // program.settings.chronon_us * program.settings.chronon_us
    happened = happening(program, selects_of(program), [entry.raw for entry in entries], end)
    assert len(happened.became) == len(entries), "every version was read"
    rules = _Rules(program, (), {name.lower(): function for name, function in functions.items()}, depth_max)
    judging = _Judging(entries, happened, [claim.is_posted for claim in claims], depth_max)
    all_lives = lives(program, ())
    found = {id(life): _Used(_occurrences(life, happened)) for life in all_lives}
    firings = []
    for moment in _moments(rules, all_lives, happened, found):
        for life in sorted(all_lives, key=lambda life: _rank(rules, life, moment.place)):
            firing = _look(rules, life, moment, happened, found[id(life)])
            if firing is not None:
                firings.append(judging.fired(firing, moment.place))
    judging.ended()
    return Triggered(tuple(firings), happened.run)


class _Judging:
    def __init__(self, entries: list[Entry], happened: Happening, posted: Sequence[bool], depth_max: int) -> None:
        self._entries, self._happened, self._depth_max = entries, happened, depth_max
        self._order = [at for at, is_posted in enumerate(posted) if not is_posted]
        """By their indices, those from outside and, where they belong, the posts seen so far."""
        self._posted = frozenset(at for at, is_posted in enumerate(posted) if is_posted)
        self._waiting: dict[int, deque[int]] = {}
        for at in sorted(self._posted):
            self._waiting.setdefault(det_time_of(entries[at].raw), deque()).append(at)

    def fired(self, firing: Firing, place: Place) -> Firing:
        """A firing with the numbers of the versions that it posted."""
        depth = depth_at(place, self._happened, self._entries) + 1
        posts = [posted for posted in posts_of(firing) if posted.refused is None]
        assert not posts or depth <= self._depth_max, "posts are never refused"
        at = [self._claimed(posted, firing, depth) for posted in posts]
        self._insert(at, place)
        numbers = iter(at)

        def became(posted: Posted) -> Posted:
            version = self._happened.became[next(numbers)]
            assert isinstance(version, Version), f"posts are never refused: {version}"
            return replace(posted, seq=version.seq)

        calls = tuple(
            replace(call, deeds=tuple(became(one) if isinstance(one, Posted) else one for one in call.deeds))
            for call in firing.calls
        )
        return replace(firing, calls=calls)

    def _claimed(self, posted: Posted, firing: Firing, depth: int) -> int:
        waiting = self._waiting.get(posted.det_time)
        if not waiting:
            raise NotSo(f"{firing.trigger} posts {posted}, which is not there")
        at = waiting.popleft()
        if self._entries[at].raw != raw_of(posted):
            raise NotSo(f"{firing.trigger} posts {posted}, and there is {self._entries[at].raw}")
        self._entries[at] = replace(self._entries[at], depth=depth)
        return at

    def _insert(self, new: Sequence[int], place: Place) -> None:
        """As `queueing.inserted` has it."""
        index = _index_of(place, self._happened)
        if index is None:
            times = [det_time_of(self._entries[one].raw) for one in self._order]
            at = next((number for number, time in enumerate(times) if time >= place[0]), len(times))
        elif index in self._order:
            at = self._order.index(index) + 1
        else:
            raise NotSo(f"{self._entries[index].raw} is there before what posts it")
        while at < len(self._order) and self._order[at] in self._posted and self._det_time(at) == place[0]:
            at += 1
        self._order[at:at] = new

    def _det_time(self, number: int) -> int:
        return det_time_of(self._entries[self._order[number]].raw)

    def ended(self) -> None:
        """Nothing else was posted, and all of it stands where it belongs."""
        left = [self._entries[at].raw for waiting in self._waiting.values() for at in waiting]
        if left:
            raise NotSo(f"nothing posts {left[0]}")
        wrong = [at for number, at in enumerate(self._order) if number != at]
        if wrong:
            raise NotSo(f"{self._entries[wrong[0]].raw} is not where it belongs")
