"""A store in the memory of the process: keeps ticks as they are, by reference, and looks into them when it is asked.

For replays, tests and simulations. What it says is what the store on SQL says; nothing of it survives the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from augury.algebra.program import Program
from augury.algebra.rule import Trigger
from augury.clock import show_time
from augury.diagnostics import closest
from augury.engine.firing_rows import firing_rows, firings_of, shape_of
from augury.engine.history_rows import history_of, integers
from augury.engine.ports import Adoption, Post, Snapshot, Torn
from augury.engine.replacing import Held
from augury.engine.ticked import ClassVersions, Ticked
from augury.event import EventClass, key_of
from augury.history.views import current
from augury.kernels.firing import Turned
from augury.local.store.errors import AlreadyCommitted, NoSuchTrigger

SNAPSHOTS_KEPT: Final = 3


class MemoryStore:
    """Keeps what ticks did; an `engine.ports.Store`."""

    def __init__(self, program: Program) -> None:
        """Start with nothing."""
        self.ticks: list[Ticked] = []
        self.program = program
        self._derived: dict[str, list[tuple[int, ClassVersions]]] = {}
        self._purged: dict[str, list[tuple[int, ClassVersions]]] = {}
        self._fired: dict[str, list[dict[str, Any]]] = {}
        self._begun: dict[str, int] = {}
        self._pending: tuple[str, ...] = ()
        self._remembered: dict[str, str] = {}
        self._switches: list[Turned] = []
        self._retain_us = program.settings.retain_us
        self._posts: dict[int, Post] = {}
        self._places = 0
        self._snapshots: list[Snapshot] = []
        self._ids: dict[str, set[str]] = {}
        self._ids_of = 0

    def append(self, posts: Sequence[Post]) -> list[int]:
        """Keep posts until their tick; gives their places, ascending."""
        places = list(range(self._places + 1, self._places + 1 + len(posts)))
        self._places += len(posts)
        self._posts.update(zip(places, posts, strict=True))
        return places

    def waiting(self) -> list[tuple[int, Post]]:
        """The posts that no committed tick has taken, with their places, in order."""
        return list(self._posts.items())

    def commit(self, ticks: Sequence[Ticked], taken: Sequence[int] = (), snapshot: Snapshot | None = None) -> None:
        """Keep what ticks did; raises `AlreadyCommitted`."""
        last = self.last_tick()
        for ticked in ticks:
            if last is not None and ticked.tick <= last:
                raise AlreadyCommitted(
                    f"the tick {show_time(ticked.tick)} cannot be committed: {show_time(last)} already was"
                )
            last = ticked.tick
        self.ticks += ticks
        if ticks:
            self._pending = ticks[-1].posts
            self._remembered.clear()
        for place in taken:
            self._posts.pop(place, None)
        if snapshot is not None:
            others = [one for one in self._snapshots if one.tick != snapshot.tick]
            self._snapshots = sorted([*others, snapshot], key=lambda one: one.tick)[-SNAPSHOTS_KEPT:]

    def last_tick(self) -> int | None:
        """The last tick that was committed."""
        return self.ticks[-1].tick if self.ticks else None

    def snapshots(self) -> Iterator[Snapshot | Torn]:
        """The snapshots that are kept, the newest first."""
        return reversed(self._snapshots)

    def read_after(self, tick: int | None) -> Iterator[tuple[int, tuple[ClassVersions, ...]]]:
        """What each tick after that one read, in order."""
        return ((ticked.tick, ticked.read) for ticked in self.ticks if tick is None or ticked.tick > tick)

    def known_ids(self, event_class: EventClass, event_ids: Sequence[str]) -> set[str]:
        """Those of the ids that a version of this class has."""
        for ticked in self.ticks[self._ids_of :]:
            for versions in (*ticked.read, *ticked.derived):
                if versions.event_id is not None:
                    ids = self._ids.setdefault(key_of(versions.event_class.name), set())
                    ids.update(versions.event_id.drop_null().to_pylist())
        self._ids_of = len(self.ticks)
        known = self._ids.get(key_of(event_class.name))
        return known.intersection(event_ids) if known else set()

    def history(self, event_class: EventClass) -> pa.Table:
        """Every version of a class, in order, with the columns of `history.views`."""
        table = self.everything(event_class)
        last = self.last_tick()
        if self._retain_us is None or last is None:
            return table
        purged = [versions.number for _, versions in self._parts(event_class, "purged")]
        gone = np.concatenate([np.empty(0, np.int64), *purged])
        retained = integers(table["det_time"]) >= last - self._retain_us
        return table.filter(pa.array(retained | current(table, event_class, gone)))

    def everything(self, event_class: EventClass) -> pa.Table:
        """Every version of a class, in order, also what is no longer part of its history."""
        return history_of(event_class, list(self._parts(event_class, "read", "derived")))

    def posts_pending(self) -> tuple[str, ...]:
        """What rules posted at the last committed tick itself, for the next one to read."""
        return self._pending

    def remember(self, values: Mapping[str, str]) -> None:
        """Keep what functions of rules gave back, by call, until a tick is committed."""
        self._remembered.update(values)

    def remembered(self) -> dict[str, str]:
        """What is kept by `remember` since the last commit of a tick."""
        return dict(self._remembered)

    def switch(self, turned: Turned) -> None:
        """Keep that a rule, group or trigger is enabled or disabled."""
        self._switches.append(turned)

    def switched(self) -> list[Turned]:
        """Every switch there was, in order."""
        return list(self._switches)

    def firing_counts(self) -> dict[str, int]:
        """How often each trigger has fired, by name; those that never did are left out."""
        before = {rows[-1]["trigger"]: rows[-1]["number"] for rows in self._fired.values()}
        return before | {fired.firing.trigger: fired.number for ticked in self.ticks for fired in ticked.firings}

    def firings(self, trigger: str, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """The firings of a trigger with a greater number, in order; raises `NoSuchTrigger`."""
        wanted = key_of(trigger)
        found = next((one for one in self.program.triggers if key_of(one.name) == wanted), None)
        if found is None:
            known = tuple(one.name for one in self.program.triggers)
            raise NoSuchTrigger(trigger, closest(trigger, known), known)
        names = shape_of(found.parameters).schema().names
        before = [{name: row.get(name) for name in names} for row in self._fired.get(wanted, ())]
        return [row for row in (*before, *self._rows(found)) if row["number"] > after][:limit]

    def _rows(self, trigger: Trigger) -> list[dict[str, Any]]:
        """The firings since the program was taken over."""
        every = ((ticked.tick, fired) for ticked in self.ticks for fired in ticked.firings)
        some = [(tick, fired) for tick, fired in every if key_of(fired.firing.trigger) == key_of(trigger.name)]
        return firing_rows(firings_of(self.program, trigger, some), shape_of(trigger.parameters))

    def held(self) -> Held:
        """What there is of which class, also of those no longer in the program."""
        parts = [*self._derived.items()]
        every = [(key_of(v.event_class.name), v) for ticked in self.ticks for v in (*ticked.read, *ticked.derived)]
        every += [(name, versions) for name, some in parts for _, versions in some]
        counts: dict[str, int] = {}
        classes = {key_of(plan.event_class.name): plan.event_class for plan in self.program.classes}
        for name, versions in every:
            counts[name] = counts.get(name, 0) + len(versions)
            classes.setdefault(name, versions.event_class)
        return Held(tuple(classes.values()), {name: (n, n) for name, n in counts.items()}, bool(self.ticks))

    def past(self, program: Program) -> Iterator[tuple[int, tuple[ClassVersions, ...]]]:
        """What each committed tick read, in order, of the classes that another program has."""
        there = {key_of(plan.event_class.name) for plan in program.classes}
        for ticked in self.ticks:
            yield ticked.tick, tuple(v for v in ticked.read if key_of(v.event_class.name) in there)

    def adopt(self, adoption: Adoption) -> None:
        """Let another program take the place of the one before."""
        for trigger in self.program.triggers:
            rows = [{**row, "trigger": trigger.name} for row in self._rows(trigger)]
            if rows:
                self._fired.setdefault(key_of(trigger.name), []).extend(rows)
        last = self.last_tick()
        self._begun |= {name: last for name in adoption.begun if last is not None}
        self._derived |= {name: list(parts) for name, parts in adoption.derived.items()}
        anew = adoption.purged or {}
        self._purged |= {name: list(parts) for name, parts in anew.items()}
        self.ticks = [
            replace(
                ticked,
                derived=tuple(v for v in ticked.derived if key_of(v.event_class.name) not in adoption.derived),
                purged=tuple(v for v in ticked.purged if key_of(v.event_class.name) not in anew),
                firings=(),
            )
            for ticked in self.ticks
        ]
        self._snapshots = [] if adoption.snapshot is None else [adoption.snapshot]
        self.program, self._retain_us = adoption.program, adoption.program.settings.retain_us

    def runs(self, program: Program) -> bool:
        """Whether the store is a program's."""
        return self.program.text == program.text

    def begun(self) -> dict[str, int]:
        """By trigger, by the name it is matched by, the tick after which it began; from the first on: left out."""
        return dict(self._begun)

    def close(self) -> None:
        """Nothing is held."""

    def _parts(self, event_class: EventClass, *names: str) -> Iterator[tuple[int, ClassVersions]]:
        wanted = key_of(event_class.name)
        yield from (self._purged if names == ("purged",) else self._derived).get(wanted, ())
        for ticked in self.ticks:
            parts: Any
            for parts in (getattr(ticked, name) for name in names):
                for versions in parts:
                    if key_of(versions.event_class.name) == wanted and len(versions):
                        yield ticked.tick, versions
