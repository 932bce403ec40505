"""When events expire, over the class graph.

In: the occ_times of live events, and which events a complex one is made of. Out: at a tick, the events that leave.
The preliminary expiry of an event is the latest of its own occ_time + lifespan and the preliminary expiries of its
constituents; its expiry is the latest of that and the expiries of its dependants.

Neither is kept: the index has for each event a time that is never later than its expiry. What makes an expiry later
costs nothing until that time comes; then it is worked out, and the event leaves or is entered again. Only what makes
one earlier, a version or a withdrawal, has the events concerned looked at again. So purging costs what leaves.

Most events have neither constituents nor dependants; they are handled in whole arrays. It knows no key and no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from augury.kernels.batch import Integers
from augury.kernels.bitemporal.cells import grown
from augury.kernels.bitemporal.due import NEVER, Due
from augury.kernels.columns.column import Mask

Event = tuple[int, int]
"""The place of a class, and the slot of an event in its view."""


@dataclass(frozen=True, slots=True)
class Constituents:
    """What complex events are made of, a row a constituent: `owner` is the place of the complex event, ascending."""

    owner: Integers
    event_class: Integers
    slot: Integers


_GONE: Final = -1
_ROOM_MIN: Final = 64


@dataclass(slots=True)
class Expiry:
    """The expiries of the live events of some classes; `lifespans_us` has one a class, None for ever.

    Inside, an event is a number, its node: slot · classes + class. `own` is occ_time + lifespan, `parts` what a node is
    made of, `users` what is made of it; `joined` are the nodes that have had either. `generation` is that of the
    entry in the index, _GONE for a node that is no live event.
    """

    lifespans_us: Sequence[int | None]
    index: Due = field(default_factory=Due)
    own: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    generation: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    joined: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    users: dict[int, set[int]] = field(default_factory=dict)
    indexed: int = 0

    # ---- what happens to events ----------------------------------------------------------------

    def put(self, event_class: int, slots: Integers, occ_time: Integers) -> None:
        """Events were announced or changed: these are their times now."""
        nodes = slots * len(self.lifespans_us) + event_class
        self._make_room(nodes)
        lifespan_us = self.lifespans_us[event_class]
        own = np.full(len(nodes), NEVER) if lifespan_us is None else occ_time + lifespan_us
        earlier = nodes[self.joined[nodes] & (own < self.own[nodes])]
        self.own[nodes] = own
        self._enter(nodes, own)
        self._look_again(self._with_users(earlier.tolist()))

    def link(self, event_class: int, slots: Integers, constituents: Constituents) -> None:
        """Complex events that were put are made of these events now; of those that are not live nothing is known."""
        if not len(slots):
            return
        classes = len(self.lifespans_us)
        nodes, owner = slots * classes + event_class, constituents.owner
        part = constituents.slot * classes + constituents.event_class
        live = part < len(self.generation)
        live[live] = self.generation[part[live]] != _GONE
        owner, part = owner[live], part[live]
        self.joined[nodes[owner]] = True
        self.joined[part] = True
        parts = np.split(part, np.searchsorted(owner, np.arange(1, len(nodes))))
        for node, made_of in zip(nodes.tolist(), parts, strict=True):
            self._link(node, tuple(dict.fromkeys(made_of.tolist())))

    def _link(self, node: int, parts: tuple[int, ...]) -> None:
        former = set(self._unlink(node)).difference(parts)
        if parts:
            self.parts[node] = parts
        for part in parts:
            self.users.setdefault(part, set()).add(node)
        if former:
            self._look_again([*former, *self._with_users([node])])

    def withdraw(self, event_class: int, slots: Integers) -> None:
        """Events were withdrawn."""
        nodes = slots * len(self.lifespans_us) + event_class
        self._make_room(nodes)
        self.generation[nodes] = _GONE
        concerned: list[int] = []
        for node in nodes[self.joined[nodes]].tolist():
            concerned += self._unlink(node)
            users = self.users.pop(node, set())
            for user in users:
                self.parts[user] = tuple(part for part in self.parts[user] if part != node)
            concerned += self._with_users(users)
        self._look_again(concerned)
        self.joined[nodes] = False

    def parts_of(self, event: Event) -> list[Event]:
        """The live events that an event is made of."""
        return [self._event(node) for node in self.parts.get(self._node(event), ())]

    def users_of(self, events: Iterable[Event]) -> list[Event]:
        """All that is made of these events, directly or not, and they themselves; in no order."""
        return [self._event(node) for node in self._with_users(map(self._node, events))]

    # ---- what leaves ---------------------------------------------------------------------------

    def next_due(self) -> int:
        """The first tick at which something may leave."""
        time = self.index.next_due()
        return NEVER if time == NEVER else time + 1

    def purge(self, tick: int) -> list[Integers]:
        """By class the slots of the events that expired before the tick, ascending; they are forgotten here."""
        due = self.index.pop(tick - 1, self.generation).slot
        joined = self.joined[due]
        leaving = [due[~joined]]
        if joined.any():
            leaving.append(self._expired(due[joined].tolist(), tick))
        nodes = np.sort(np.concatenate(leaving))
        self.generation[nodes] = _GONE
        self.joined[nodes] = False
        classes = len(self.lifespans_us)
        return [nodes[nodes % classes == place] // classes for place in range(classes)]

    def expiry(self, event: Event) -> int:
        """When a live event expires, as things are."""
        return _Worked(self).final(self._node(event))

    def _expired(self, nodes: list[int], tick: int) -> Integers:
        """Those of the nodes that leave; the others are entered again."""
        finals = np.array(list(map(_Worked(self).final, nodes)), np.int64)
        found = np.array(nodes, np.int64)
        leaves = finals < tick
        for node in found[leaves].tolist():
            # Its dependants expire no later, so they leave as well, or have left.
            self._unlink(node)
            self.users.pop(node, None)
        self._enter(found[~leaves], finals[~leaves])
        return found[leaves]

    # ---- the graph -----------------------------------------------------------------------------

    def _node(self, event: Event) -> int:
        event_class, slot = event
        return slot * len(self.lifespans_us) + event_class

    def _event(self, node: int) -> Event:
        slot, event_class = divmod(node, len(self.lifespans_us))
        return event_class, slot

    def _with_users(self, nodes: Iterable[int]) -> set[int]:
        """Nodes and all that is made of them."""
        return _reached(nodes, self.users)

    def _look_again(self, nodes: Iterable[int]) -> None:
        """The expiries of nodes, and so of all that they are made of, may have become earlier."""
        found = np.array(sorted(_reached(nodes, self.parts)), np.int64)
        self._enter(found, self.own[found])

    def _unlink(self, node: int) -> tuple[int, ...]:
        """Take the node from what it is made of; gives that."""
        parts = self.parts.pop(node, ())
        for part in parts:
            users = self.users.get(part)
            if users is not None:
                users.discard(node)
        return parts

    def _enter(self, nodes: Integers, times: Integers) -> None:
        """Enter nodes in the index, in place of the entries they had."""
        numbers = np.arange(self.indexed, self.indexed + len(nodes))
        self.indexed += len(nodes)
        self.generation[nodes] = numbers
        self.index.add(times, nodes, numbers, self.generation)

    def _make_room(self, nodes: Integers) -> None:
        end = int(nodes.max()) + 1 if len(nodes) else 0
        if end <= len(self.own):
            return
        room = max(_ROOM_MIN, 2 * end)
        fresh = len(self.generation)
        self.own, self.joined = grown(self.own, room), grown(self.joined, room)
        self.generation = grown(self.generation, room)
        self.generation[fresh:] = _GONE


def _reached(nodes: Iterable[int], edges: Mapping[int, Iterable[int]]) -> set[int]:
    """Nodes and all that edges lead to from them."""
    waiting, met = list(nodes), set[int]()
    while waiting:
        node = waiting.pop()
        if node not in met:
            met.add(node)
            waiting += edges.get(node, ())
    return met


@dataclass(slots=True)
class _Worked:
    """Expiries as things are, each worked out once; classes are no deeper than the recursion."""

    of: Expiry
    known: dict[int, int] = field(default_factory=dict)
    known_preliminary: dict[int, int] = field(default_factory=dict)

    def preliminary(self, node: int) -> int:
        """The latest of its own and what it is made of."""
        if node not in self.known_preliminary:
            parts = self.of.parts.get(node, ())
            self.known_preliminary[node] = max([int(self.of.own[node]), *map(self.preliminary, parts)])
        return self.known_preliminary[node]

    def final(self, node: int) -> int:
        """The latest of that and of what is made of it."""
        if node not in self.known:
            users = self.of.users.get(node, ())
            self.known[node] = max([self.preliminary(node), *map(self.final, users)])
        return self.known[node]
