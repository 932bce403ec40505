"""What a tick did, as one value: whoever keeps it writes all of it, or nothing.

In: nothing. Out: columns of versions, actions, refusals and counts. It knows neither how a tick works nor any store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.event import EventClass
from augury.history.raw import Rejected
from augury.kernels.batch import Integers
from augury.kernels.bitemporal import Fired
from augury.kernels.firing import Firing


@dataclass(frozen=True, slots=True)
class ClassVersions:
    """Versions of one class in the order of its history; a row each in all columns.

    `number` counts the versions of the class from 1, so that it names a version for ever. `values` has a column per
    attribute, named and stored as declared. `change` is ANNOUNCE, CHANGE or WITHDRAWN of
    `history.versions`; a withdrawal has an `occ_time` of no meaning. `seq` is the number of a subscribed version, or
    of the one that completed a complex event; 0 or less where there is none. `constituents` are lists of the `seq`
    of subscribed versions, None for a subscribed or clock class. `keys` are Python values, equal for versions of one
    event: a value, or a tuple where the key has several attributes; of a class with `ID ()` a number of the event, or
    for a SELECT its values, and then `event_number` has that of the version which announced it.
    `event_id` and `source_time` (what a late version claimed as det_time, else NULL) may be None: of no row.
    """

    event_class: EventClass
    number: Integers
    values: pa.Table
    seq: Integers
    occ_time: Integers
    det_time: Integers
    change: npt.NDArray[np.uint8]
    keys: Sequence[Any]
    constituents: pa.Array | None = None
    event_id: pa.Array | None = None
    source_time: pa.Array | None = None
    event_number: Integers | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self.seq)

    def at(self, rows: Integers) -> ClassVersions:
        """Some of the versions, in the order given."""
        taken = pa.array(rows)

        def of(column: pa.Array | None) -> pa.Array | None:
            return None if column is None else column.take(taken)

        return ClassVersions(
            self.event_class,
            self.number[rows],
            self.values.take(taken) if self.values.num_columns else self.values,
            self.seq[rows],
            self.occ_time[rows],
            self.det_time[rows],
            self.change[rows],
            [self.keys[row] for row in rows.tolist()],
            of(self.constituents),
            of(self.event_id),
            of(self.source_time),
            None if self.event_number is None else self.event_number[rows],
        )


@dataclass(frozen=True, slots=True)
class ClassActions:
    """The actions that fired for events of one class."""

    event_class: EventClass
    fired: Fired


@dataclass(frozen=True, slots=True)
class Action:
    """One action: its name, arguments, the event it fired for, by which statement, and a key that is its own for ever.

    `statement` and `place` count from 1: the statements of the class, and the actions of the statement. What a rule did
    when a trigger fired has the names of both, the statement 0, and its place among all that the firing did.
    """

    name: str
    arguments: tuple[Any, ...]
    event: str
    key: Mapping[str, Any]
    tick: int
    statement: int
    place: int
    seq: int | None
    idempotency_key: str
    trigger: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class FiredTrigger:
    """A trigger that fired: its how-manieth firing it is, and the key of the triggering event, as plain values.

    Where the clock triggered, the event is the last constituent. `number` counts the firings of the name for ever;
    `actions` are those that wait to be carried out, while others ran at once.
    """

    number: int
    event: str
    key: Mapping[str, Any]
    firing: Firing
    actions: tuple[Action, ...] = ()


class Phase(StrEnum):
    """The phases of a tick, in their order."""

    READ = "read"
    DERIVE = "derive"
    DECIDE = "decide"
    PURGE = "purge"


@dataclass(frozen=True, slots=True)
class Failure:
    """A SELECT class that could not be evaluated at a tick, and why; its rows stay as they were."""

    event_class: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """What one tick did. Classes stand in the order of declaration; those without a row are left out.

    `read` are versions of subscribed and clock classes, `derived` those of complex ones; `purged` the current versions
    of events that have left. `warnings` counts rows of SELECT classes that did not count, and `errors` conditions,
    arguments, masks and the like that had no value, by class. `seconds` says how long each phase took. `firings` are
    those of triggers, in order; `posts` what their rules posted at the tick itself, as texts, for the next to read.
    """

    tick: int
    last_seq: int
    read: tuple[ClassVersions, ...] = ()
    derived: tuple[ClassVersions, ...] = ()
    actions: tuple[ClassActions, ...] = ()
    rejected: Rejected = field(default_factory=Rejected)
    absorbed: int = 0
    purged: tuple[ClassVersions, ...] = ()
    failed: tuple[Failure, ...] = ()
    warnings: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    errors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    seconds: Mapping[Phase, float] = field(default_factory=lambda: MappingProxyType({}))
    firings: tuple[FiredTrigger, ...] = ()
    posts: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """How many versions were read and derived, actions fired, events refused, absorbed and purged."""
        return {
            "read": sum(map(len, self.read)),
            "derived": sum(map(len, self.derived)),
            "actions": sum(len(one.fired) for one in self.actions) + sum(len(one.actions) for one in self.firings),
            "rejected": len(self.rejected),
            "absorbed": self.absorbed,
            "purged": sum(map(len, self.purged)),
        }

    def action_rows(self) -> Iterator[Action]:
        """Every action of the tick: by class, key, statement, place in it; then those of rules, firing by firing."""
        from augury.engine.actions import actions_of

        yield from (action for action, _ in actions_of(self))
        for fired in self.firings:
            yield from fired.actions
