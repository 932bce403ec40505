"""What holds of the events of classes with ORDER BY OCCURRENCE: per event its occurrences, of which the last counts.

In: occurrences as they are found, in order, and how many of them still hold. Out: what changed for which event. It
knows neither histories nor kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from augury.engine.rows import whole
from augury.engine.ticked import ClassVersions
from augury.event import EventClass
from augury.kernels.batch import ASSERT, WITHDRAW, Integers, Occurrences, joined
from augury.kernels.bitemporal import keys_of
from augury.kernels.bitemporal.cells import key_values
from augury.kernels.order import in_order

Identity = tuple[int, Hashable]
"""Which event it is: the place of its class, and its key or what it is made of."""


@dataclass(slots=True, eq=False)
class Stands:
    """An occurrence that was found: `told` is what is said of it, as values that can be compared.

    `order` is the `seq` of the version at which it takes place, 0 for a timer.
    """

    identity: Identity
    number: int
    told: tuple[object, ...]
    found: Occurrences
    row: int
    order: int


Before = dict[Identity, Stands | None]
"""What held of the events that are touched, before something came."""


@dataclass(slots=True)
class Standing:
    """All occurrences that may still fall in the order in which they take place, and by event.

    Those numbered below `base` can no longer fall; of each event the last of them is kept. `events` has for classes
    with `ID ()` the number of the version that announced each event.
    """

    log: list[Stands] = field(default_factory=list)
    base: int = 0
    events: dict[Identity, list[Stands]] = field(default_factory=dict)
    numbers: dict[Identity, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many were found, those that can no longer fall included."""
        return self.base + len(self.log)

    def current(self, identity: Identity) -> Stands | None:
        """What holds of an event."""
        found = self.events.get(identity)
        return found[-1] if found else None

    def push(self, found: Sequence[Stands], before: Before) -> None:
        """These take place after all others; note what held before."""
        for one in found:
            if one.identity not in before:
                before[one.identity] = self.current(one.identity)
            self.add(one)

    def add(self, one: Stands) -> None:
        """It takes place after all others."""
        one.number = self.count
        self.log.append(one)
        self.events.setdefault(one.identity, []).append(one)

    def fall(self, count: int, before: Before) -> None:
        """All but the first so many fall; note what held before."""
        while self.count > count:
            one = self.log.pop()
            if one.identity not in before:
                before[one.identity] = one
            stack = self.events[one.identity]
            stack.pop()
            if not stack:
                del self.events[one.identity]

    def settle(self, count: int, is_there: Callable[[Identity], bool]) -> None:
        """The first so many can no longer fall: of each event the last of them is kept, while the event is there."""
        del self.log[: count - self.base]
        self.base = count
        for identity, stack in list(self.events.items()):
            settled = sum(one.number < count for one in stack)
            del stack[: settled - 1 if settled else 0]
            if len(stack) == 1 and settled and not is_there(identity):
                del self.events[identity]
                self.numbers.pop(identity, None)

    def differences(self, before: Before) -> list[tuple[Stands, int]]:
        """What is to be said of the events touched, each with its kind."""
        said = []
        for identity, old in before.items():
            new = self.current(identity)
            if new is None:
                said += [] if old is None else [(old, WITHDRAW)]
            elif old is None or old.told != new.told:
                said.append((new, ASSERT))
        return said


@dataclass(frozen=True, slots=True)
class Said:
    """Rows that are said of a class, and for each the `seq` of the version at which it takes place."""

    rows: Occurrences
    order: Integers


def rows_said(said: Iterable[tuple[Stands, int]], seq: int, det_time: int) -> dict[int, Said]:
    """What is said at one version or time of the clock, by place of the class: by key and constituents."""
    of: dict[int, list[tuple[Stands, int]]] = {}
    for one in said:
        of.setdefault(one[0].identity[0], []).append(one)
    return {place: _rows(each, seq, det_time) for place, each in of.items()}


def _rows(said: Sequence[tuple[Stands, int]], seq: int, det_time: int) -> Said:
    found = joined([one.found.at(np.array([one.row])) for one, _ in said])
    found = replace(
        found,
        seq=np.full(len(said), seq),
        det_time=np.full(len(said), det_time),
        kind=np.array([kind for _, kind in said], np.uint8),
        errors=0,
        dropped=0,
    )
    order = np.array([one.order for one, _ in said], np.int64)
    if len(said) == 1:
        return Said(found, order)
    columns = [whole(column) for column in found.values.columns]
    lists, nowhere = found.constituents.to_pylist(), np.zeros(len(said), np.int64)
    rows = np.array(in_order(found.event_class, nowhere, lists, columns, found.occ_time), np.int64)
    return Said(found.at(rows), order[rows])


def identities(event_class: EventClass, has_values: bool, found: Occurrences | ClassVersions) -> list[Hashable]:
    """What events are known by: the key; with `ID ()` the constituents, with `has_values` also the attributes."""
    columns = [whole(column) for column in found.values.columns]
    if event_class.key:
        return list(keys_of(event_class, columns, found.seq))
    assert found.constituents is not None, "it is a complex class"
    lists = map(tuple, found.constituents.to_pylist())
    if not has_values or not columns:
        return list(lists)
    return [(*own, *values) for own, *values in zip(lists, *map(key_values, columns), strict=True)]


def stands_of(place: int, names: Sequence[Hashable], found: Occurrences, order: Integers) -> list[Stands]:
    """Occurrences as what may stand of events; they are numbered when they are added."""
    columns = [key_values(whole(column)) for column in found.values.columns]
    told = zip(found.occ_time.tolist(), map(tuple, found.constituents.to_pylist()), *columns, strict=True)
    rows = enumerate(zip(names, told, order.tolist(), strict=True))
    return [Stands((place, name), -1, has, found, row, at) for row, (name, has, at) in rows]


def lists_sorted(lists: pa.Array, numbers: np.ndarray) -> pa.Array:
    """Lists with other numbers in the place of theirs, ascending, each once."""
    sizes = lists.value_lengths().to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(len(lists)), sizes)
    order = np.lexsort((numbers, owner))
    owner, numbers = owner[order], numbers[order]
    if len(numbers) > 1:
        own = np.concatenate([[True], (np.diff(owner) != 0) | (np.diff(numbers) != 0)])
        owner, numbers = owner[own], numbers[own]
    ends = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(lists)))])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(numbers, pa.int64()))
