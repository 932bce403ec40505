"""What an engine needs of its surroundings: how SELECTs are run, which versions are known, where a tick is kept.

`local` and `spark` implement these; they hold no rule about time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import pyarrow as pa

from augury.algebra.program import ClassPlan, Program
from augury.diagnostics import closest
from augury.engine.replacing import Held
from augury.engine.rows import Rows
from augury.engine.ticked import ClassVersions, Ticked
from augury.event import EventClass
from augury.kernels.firing import Turned

SelectsBy = Literal["duckdb", "spark"]
"""Who runs SELECTs on Spark: DuckDB, in the task of their slot, or Spark itself, from the driver."""


def require_selects_by(word: str) -> None:
    """Raise `ValueError`, with a proposal, where somebody says that another runs SELECTs."""
    known = get_args(SelectsBy)
    if word not in known:
        meant = closest(str(word), known)
        proposal = f"did you mean `{meant}`?" if meant else f"take {' or '.join(f'`{one}`' for one in known)}"
        raise ValueError(f"nothing called `{word}` runs SELECTs: {proposal}")


class SelectFailed(RuntimeError):
    """A SELECT that failed at run time; the message is one sentence for the user."""


class Selects(Protocol):
    """Runs SELECTs."""

    def rows(self, plan: ClassPlan, views: Mapping[str, pa.Table], now_us: int) -> Rows:
        """The rows of a SELECT class over views, by class name; raises `SelectFailed`.

        A view has the declared attributes, occ_time, det_time, and the number of each row.
        """
        ...


class KnownVersions(Protocol):
    """Answers which versions have been accepted at earlier ticks: duplicates are absorbed."""

    def known_ids(self, event_class: EventClass, event_ids: Sequence[str]) -> set[str]:
        """Those of the ids that a version of this class has."""
        ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of an engine after a tick, as bytes."""

    tick: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Post:
    """An event that was posted and waits for its tick, as a line of JSON; `det_time` is when it was read."""

    det_time: int
    line: str


@dataclass(frozen=True, slots=True)
class Adoption:
    """A program that takes the place of the one before, after the last committed tick.

    `derived` are the complex classes whose history is another now, by the names that they are matched by; what they had
    found before is put aside. `purged` are the current versions of events that have left, of classes of which these are
    others now; None: of none. `begun` are the triggers that begin after the last tick.
    """

    program: Program
    derived: Mapping[str, Sequence[tuple[int, ClassVersions]]] = field(default_factory=dict)
    purged: Mapping[str, Sequence[tuple[int, ClassVersions]]] | None = None
    begun: frozenset[str] = frozenset()
    snapshot: Snapshot | None = None


class Store(KnownVersions, Protocol):
    """Keeps what ticks did. What one call writes is there as a whole or not at all, also after a crash."""

    def append(self, posts: Sequence[Post]) -> list[int]:
        """Keep posts until their tick; once it returns they survive a crash. Gives their places, ascending."""
        ...

    def waiting(self) -> list[tuple[int, Post]]:
        """The posts that no committed tick has taken, with their places, in order."""
        ...

    def commit(self, ticks: Sequence[Ticked], taken: Sequence[int] = (), snapshot: Snapshot | None = None) -> None:
        """Keep what ticks did, and with it that these posts have been taken; of snapshots the last three stay.

        A tick that is not after the last one committed is refused.
        """
        ...

    def last_tick(self) -> int | None:
        """The last tick that was committed."""
        ...

    def snapshots(self) -> Iterator[Snapshot | Torn]:
        """The snapshots that are kept, the newest first; `Torn` stands for one that is damaged."""
        ...

    def read_after(self, tick: int | None) -> Iterator[tuple[int, tuple[ClassVersions, ...]]]:
        """What each tick after that one read, in order, also those that read nothing; of all ticks if it is None."""
        ...

    def posts_pending(self) -> tuple[str, ...]:
        """What rules posted at the last committed tick itself (`Ticked.posts`), for the next one to read."""
        ...

    def remember(self, values: Mapping[str, str]) -> None:
        """Keep what functions of rules gave back, by call, until a tick is committed; it survives a crash."""
        ...

    def remembered(self) -> dict[str, str]:
        """What is kept by `remember` since the last commit of a tick."""
        ...

    def switch(self, turned: Turned) -> None:
        """Keep that a rule, group or trigger is enabled or disabled; it survives a crash."""
        ...

    def switched(self) -> list[Turned]:
        """Every switch there was, in order."""
        ...

    def firing_counts(self) -> dict[str, int]:
        """How often each trigger has fired in committed ticks, by name."""
        ...

    def firings(self, trigger: str, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """The firings of a trigger with a greater number, in order, as rows; raises where there is no such trigger."""
        ...

    def held(self) -> Held:
        """What there is of which class, also of those no longer in the program."""
        ...

    def everything(self, event_class: EventClass) -> pa.Table:
        """Every version of a class that is kept, in order, also what is no longer part of its history."""
        ...

    def past(self, program: Program) -> Iterator[tuple[int, tuple[ClassVersions, ...]]]:
        """What each committed tick read, in order, of the classes that another program has."""
        ...

    def adopt(self, adoption: Adoption) -> None:
        """Let another program take the place of the one before, all of it or nothing."""
        ...

    def runs(self, program: Program) -> bool:
        """Whether the store is a program's, as it may be after an `adopt` that failed; it goes on as its, then."""
        ...

    def begun(self) -> dict[str, int]:
        """By trigger, by the name it is matched by, the tick after which it began; from the first on: left out."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...

    def history(self, event_class: EventClass) -> pa.Table:
        """Every version of a class, in order; `history.views` says with which columns."""
        ...


@dataclass(frozen=True, slots=True)
class Torn:
    """A snapshot that cannot be used, and why."""

    tick: int
    reason: str
