"""The outbox of a lake: the actions that its commits hold, and what became of them, in a database beside it.

In: a lake, and a database, by default the file `deliveries.db` in its folder. Out: an outbox like that of a store. What
the lake has committed is taken over in one transaction with how far that went, so that a crash neither loses an action
nor has it twice; an action is known by its idempotency key. Nothing is written to the lake.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from augury.engine.history_rows import integers
from augury.engine.ledger import ACTIONS
from augury.lake import FileEntry, Kind, Lake, LakeError, NoLake
from augury.lake.manifest import manifest_name
from augury.local.store import tables as s
from augury.local.store.catalogue import add_outbox, has_catalogue, ready
from augury.local.store.database import Database, database, failing
from augury.local.store.errors import NoStore, StoreFailed, StoreMismatch
from augury.local.store.migrations import require_present
from augury.local.store.outbox import SqlOutbox, open_outbox
from augury.local.store.waiting import Listed, Looked, Wanted

DELIVERIES: Final = "deliveries.db"
_OF_STORES: Final = ("sqlite", "postgresql", "postgres")
_LAKE, _COMMIT, _EPOCH, _TICK = "lake", "lake_commit", "lake_epoch", "lake_tick"
_ROWS_AT_ONCE: Final = 1_000


def is_lake(place: str) -> bool:
    """Whether the path or URL of a store is that of a lake."""
    scheme, colon, _ = place.partition("://")
    if colon and scheme != "file":
        return scheme.lower().partition("+")[0] not in _OF_STORES
    return os.path.isdir(place.removeprefix("file://"))


def outbox_at(place: str, deliveries: str | None = None, *, alone: bool) -> SqlOutbox:
    """The outbox of a store, or of a lake with the database in which is kept what became of its actions.

    `alone` is for who carries actions out: a second one raises `StoreInUse`. Raises also `NoStore`, `StoreMismatch` and
    `StoreFailed`.
    """
    if is_lake(place):
        return _lake_outbox(place, deliveries, alone)
    if deliveries is not None:
        raise NoStore(f"`{place}` is no lake: what becomes of the actions of a store is kept in the store itself")
    return open_outbox(place, alone=alone)


def _lake_outbox(place: str, deliveries: str | None, alone: bool) -> LakeOutbox:
    with _of_lake():
        lake = Lake.open(place)
    url = deliveries or _beside(lake.path)
    _made(url, lake)
    held = database(url)
    try:
        with failing(held.place):
            found = LakeOutbox(held, held.beside(alone), lake)
            found.feed()
        return found
    except BaseException:
        held.close()
        raise


def _beside(root: str) -> str:
    if not os.path.isdir(root):
        raise NoStore(
            f"the lake `{root}` is no folder: name a file or a database in which is kept what becomes of its actions "
            "(--deliveries)"
        )
    return os.path.join(root, DELIVERIES)


def _made(url: str, lake: Lake) -> None:
    """Make the database of a lake where there is none; raises `StoreMismatch` where it is of something else."""
    held = database(url)
    try:
        with failing(held.place):
            if not held.exists() or not _has_tables(held):
                with held.writer().begin() as connection:
                    ready(connection)
                    add_outbox(connection)
                    connection.execute(s.settings.insert(), {"name": _LAKE, "value": lake.about.id})
            with held.readers().begin() as connection:
                require_present(connection)
                of = _settings(connection).get(_LAKE)
        if of != lake.about.id:
            what = "is the store of an engine" if of is None else "is of another lake"
            raise StoreMismatch((f"`{held.place}` {what}: name another file or database",))
    finally:
        held.close()


def _has_tables(held: Database) -> bool:
    with held.readers().begin() as connection:
        return has_catalogue(connection)


@dataclass(frozen=True, slots=True)
class _Taken:
    """How far the lake was taken over: a commit, whose it is, and its tick."""

    commit: int
    epoch: int
    tick: int | None


class LakeOutbox(SqlOutbox):
    """The outbox of a lake; whoever looks into it sees what is committed by then."""

    def __init__(self, held: Database, writer: sa.Engine, lake: Lake) -> None:
        """Take a database that was made for the lake."""
        super().__init__(held, writer)
        self._lake = lake
        self._taken: _Taken | None = None

    def look(self) -> Looked:
        """What there is to do."""
        self.feed()
        return super().look()

    def listed(self, wanted: Wanted, after: int = 0) -> Iterator[Listed]:
        """The actions asked for after an id, in order."""
        self.feed()
        return super().listed(wanted, after)

    def feed(self) -> int:
        """Take over what the lake has committed since; gives how many actions."""
        with _of_lake():
            if self._taken is not None:
                following = manifest_name(self._taken.commit + 1)
                if not self._lake.storage.exists(following):
                    return 0
                manifests = list(self._lake.manifests(after=self._taken.commit))
                entries = [e for one in manifests if not one.removed for e in one.added if e.kind is Kind.ACTIONS]
                last = manifests[-1]
                return self._take(entries, _Taken(last.commit, last.epoch, last.last_tick), self._taken)
            snapshot, before = self._lake.snapshot(), self._before()
            if snapshot.manifest is None:
                return 0
            last = snapshot.manifest
            entries = list(snapshot.of(Kind.ACTIONS))
            return self._take(entries, _Taken(last.commit, last.epoch, last.last_tick), before)

    def _before(self) -> _Taken | None:
        """How far it was taken over before; None if the lake has gone back behind that since, or it never was."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            found = _settings(connection)
        if _COMMIT not in found:
            return None
        tick = found[_TICK]
        before = _Taken(int(found[_COMMIT]), int(found[_EPOCH]), int(tick) if tick else None)
        is_there = before.commit <= self._lake.last_commit()
        return before if is_there and self._lake.manifest(before.commit).epoch == before.epoch else None

    def _take(self, entries: Sequence[FileEntry], taken: _Taken, before: _Taken | None) -> int:
        rows = list(self._rows(entries, None if before is None else before.tick))
        told = {_COMMIT: taken.commit, _EPOCH: taken.epoch, _TICK: "" if taken.tick is None else taken.tick}
        with failing(self.database.place), self._writer.begin() as connection:
            insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
            one = insert(s.outbox).on_conflict_do_nothing(index_elements=["idempotency_key"])
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                connection.execute(one, rows[start : start + _ROWS_AT_ONCE])
            connection.execute(s.settings.delete().where(s.settings.c.name.in_(list(told))))
            connection.execute(s.settings.insert(), [{"name": n, "value": str(v)} for n, v in told.items()])
        self._taken = taken
        return len(rows)

    def _rows(self, entries: Sequence[FileEntry], after_tick: int | None) -> Iterator[Mapping[str, Any]]:
        """The actions of files that are of later ticks, in an order in which those of an event follow each other."""
        files = self._lake.files
        tables = [files.read_table(e.path) for e in entries if after_tick is None or (e.max_tick or 0) > after_tick]
        table = pa.concat_tables([ACTIONS.empty_table(), *tables], promote_options="permissive")
        table = table.append_column("of_rule", table["trigger"].is_valid().cast(pa.int8()))
        by = ("tick", "of_rule", "event", "rank", "statement", "place")
        table = table.sort_by([(name, "ascending") for name in by])
        names = [c.name for c in s.outbox.c if c.name in table.column_names and c.name != "tick"]
        for tick, row in zip(integers(table["tick"]).tolist(), table.select(names).to_pylist(), strict=True):
            if after_tick is None or tick > after_tick:
                yield {**row, "tick": tick, "state": "waiting"}


def _settings(connection: sa.Connection) -> dict[str, str]:
    return dict(map(tuple, connection.execute(sa.select(s.settings.c.name, s.settings.c.value)).all()))


@contextmanager
def _of_lake() -> Iterator[None]:
    """What a lake raises, as whoever uses an outbox expects it."""
    try:
        yield
    except NoLake as error:
        raise NoStore(str(error)) from error
    except LakeError as error:
        raise StoreFailed(str(error)) from error
