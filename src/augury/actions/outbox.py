"""Where actions wait: the port, and its two kinds, in the memory of the process and in the store of an engine.

In: what became of actions. Out: those that may be tried now. Of an event only the first that waits may, among those
that somebody carries out. What is due, and to whom it goes, `deliver` decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from augury.engine.ticked import Action
from augury.event import key_of
from augury.history.raw import whole_json
from augury.local.store.waiting import Known, Listed, Looked, Noted, Page, State, Waiting, Wanted

if TYPE_CHECKING:
    from augury.local.store.outbox import SqlOutbox

_T = TypeVar("_T")


class Outbox(Protocol):
    """Actions that wait, and what has become of the others."""

    async def look(self) -> Looked:
        """What there is to do."""
        ...

    async def fresh(self, action: str, known: Known, after: int, limit: int) -> Page:
        """Actions of a name with a greater id that were never tried; those that wait for others left out."""
        ...

    async def due(self, action: str, known: Known, at_us: int, limit: int) -> list[Waiting]:
        """Actions of a name that were tried and are due again."""
        ...

    async def note(self, noted: Sequence[Noted], known: Known) -> list[Waiting]:
        """Keep what became of actions, all or nothing, and give those that only waited for them."""
        ...

    async def close(self) -> None:
        """Let go of what is held."""
        ...


class StoredOutbox:
    """The outbox of a store. One thread does all its work, so that answers come in the order of the questions."""

    def __init__(self, kept: SqlOutbox) -> None:
        """Take an outbox that is open."""
        self._kept = kept
        self._thread = ThreadPoolExecutor(1, "augury outbox")

    async def look(self) -> Looked:
        """What there is to do."""
        return await self._do(self._kept.look)

    async def fresh(self, action: str, known: Known, after: int, limit: int) -> Page:
        """Actions that were never tried."""
        return await self._do(lambda: self._kept.fresh(action, known, after, limit))

    async def due(self, action: str, known: Known, at_us: int, limit: int) -> list[Waiting]:
        """Actions that are due again."""
        return await self._do(lambda: self._kept.due(action, known, at_us, limit))

    async def note(self, noted: Sequence[Noted], known: Known) -> list[Waiting]:
        """Keep what became of actions."""
        return await self._do(lambda: self._kept.note(noted, known))

    async def close(self) -> None:
        """Let go of the store."""
        await self._do(self._kept.close)
        self._thread.shutdown()

    async def _do(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class MemoryOutbox:
    """Actions in the memory of the process, for tests and simulations: every question goes over all of them."""

    def __init__(self, actions: Iterable[Action] = ()) -> None:
        """Take actions, in their order."""
        self._all: dict[int, Listed] = {}
        self._known: set[str] = set()
        self.add(actions)

    def add(self, actions: Iterable[Action]) -> None:
        """Let actions wait, as those of a tick; one that is there already is passed over."""
        for action in actions:
            if action.idempotency_key in self._known:
                continue
            self._known.add(action.idempotency_key)
            row = Waiting(
                len(self._all) + 1,
                action.idempotency_key,
                action.name,
                whole_json(action.arguments),
                action.event,
                whole_json(action.key),
                action.tick,
                action.seq,
            )
            self._all[row.id] = Listed(row, State.WAITING, "", None, None)

    async def look(self) -> Looked:
        """What there is to do."""
        due: dict[str, int] = {}
        for one in self._waiting():
            if one.next_at is not None:
                due[one.action.action] = min(one.next_at, due.get(one.action.action, one.next_at))
        return Looked(len(self._all), tuple(sorted({one.action.action for one in self._waiting()})), due)

    async def fresh(self, action: str, known: Known, after: int, limit: int) -> Page:
        """Actions that were never tried."""
        of_name = [one for one in self._waiting() if one.action.action == action]
        some = [one for one in of_name if after < one.action.id <= known.last_id][:limit]
        first = self._first(known)
        free = [one.action for one in some if one.next_at is None and one.action.id in first]
        return Page(free, some[-1].action.id if len(some) == limit else None)

    async def due(self, action: str, known: Known, at_us: int, limit: int) -> list[Waiting]:
        """Actions that are due again."""
        first = self._first(known)
        found = [
            (one.next_at, one.action.id, one.action)
            for one in self._waiting()
            if one.action.action == action and one.next_at is not None and one.next_at <= at_us
            if one.action.id in first and one.action.id <= known.last_id
        ]
        return [row for _, _, row in sorted(found, key=lambda row: row[:2])[:limit]]

    async def note(self, noted: Sequence[Noted], known: Known) -> list[Waiting]:
        """Keep what became of actions."""
        for one in noted:
            was = self._all[one.waiting.id]
            row = _tried(was.action, one.attempts)
            if one.state is State.WAITING and was.state is not State.WAITING:
                self._all[row.id] = Listed(row, was.state, one.reason, one.tried_at, None)
            else:
                self._all[row.id] = Listed(row, one.state, one.reason, one.tried_at, one.next_at)
        settled = {one.waiting.event_known_by for one in noted if one.state is not State.WAITING}
        first = self._first(known)
        untried = (one.action for one in self._waiting() if one.next_at is None and one.action.action in known.names)
        return [row for row in untried if row.id in first and row.id <= known.last_id and row.event_known_by in settled]

    async def close(self) -> None:
        """Nothing is held."""

    def listed(self, wanted: Wanted) -> Iterator[Listed]:
        """The actions asked for, in order."""
        return (one for one in list(self._all.values()) if _is_wanted(one, wanted))

    def retry(self, wanted: Wanted, at_us: int) -> int:
        """Let actions that were not delivered be tried at once; gives how many."""
        chosen = [one for one in self.listed(wanted) if one.state is not State.DELIVERED]
        for one in chosen:
            row = _tried(one.action, 0)
            self._all[row.id] = Listed(row, State.WAITING, one.reason, one.tried_at, at_us)
        return len(chosen)

    def drop(self, wanted: Wanted, at_us: int) -> int:
        """Let actions that wait or are dead never be tried again; gives how many."""
        chosen = [one for one in self.listed(wanted) if one.state in (State.WAITING, State.DEAD)]
        for one in chosen:
            self._all[one.action.id] = Listed(one.action, State.DROPPED, one.reason, one.tried_at, None)
        events = {one.action.event_known_by for one in chosen}
        for one in list(self._waiting()):
            if one.action.event_known_by in events:
                self._all[one.action.id] = Listed(one.action, one.state, one.reason, one.tried_at, at_us)
        return len(chosen)

    def _waiting(self) -> Iterator[Listed]:
        return (one for one in self._all.values() if one.state is State.WAITING)

    def _first(self, known: Known) -> set[int]:
        first: dict[object, int] = {}
        for one in self._waiting():
            if one.action.action in known.names:
                first.setdefault(one.action.event_known_by, one.action.id)
        return set(first.values())


def _tried(row: Waiting, attempts: int) -> Waiting:
    return Waiting(
        row.id, row.idempotency_key, row.action, row.arguments, row.event, row.key, row.tick, row.seq, attempts
    )


def _is_wanted(one: Listed, wanted: Wanted) -> bool:
    return (
        (not wanted.states or one.state in wanted.states)
        and (not wanted.keys or one.action.idempotency_key in wanted.keys)
        and (wanted.action is None or key_of(one.action.action) == key_of(wanted.action))
        and (wanted.event is None or key_of(one.action.event) == key_of(wanted.event))
    )
