"""The outbox of a store on SQL: which actions wait, and what has become of those that were tried.

`open_outbox` is for whoever carries actions out, beside the one process that writes ticks. Each `note` is one short
transaction. What waits for one action is found without going over what waits for others, however much that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from augury.local.store import catalogue
from augury.local.store import tables as s
from augury.local.store.database import Database, database, failing
from augury.local.store.errors import NoStore
from augury.local.store.migrations import require_present
from augury.local.store.waiting import NO_KEY, Known, Listed, Looked, Noted, Page, State, Waiting, Wanted

_ROWS_AT_ONCE: Final = 1_000
_IDS_AT_ONCE: Final = 500
_NO_KEY: Final[sa.ColumnElement[str]] = sa.literal_column(f"'{NO_KEY}'")
_COLUMNS: Final = tuple(
    s.outbox.c[name]
    for name in ("id", "idempotency_key", "action", "arguments", "event", "key", "tick", "seq", "trigger", "rule")
)


def open_outbox(url: str, *, alone: bool) -> SqlOutbox:
    """The outbox of the store at a path or URL; an older store gets the tables that it lacks.

    `alone` is for who carries actions out: a second one raises `StoreInUse`. Raises also `NoStore`, `StoreMismatch` and
    `StoreFailed`.
    """
    held = database(url)
    try:
        if not held.exists():
            raise NoStore(f"there is no store `{held.place}`")
        with failing(held.place):
            engine = held.beside(alone)
            with engine.begin() as connection:
                if not catalogue.has_catalogue(connection):
                    raise NoStore(f"`{held.place}` holds no store of Augury")
                require_present(connection)
                catalogue.add_outbox(connection)
        return SqlOutbox(held, engine)
    except BaseException:
        held.close()
        raise


class SqlOutbox:
    """The outbox of a store; one thread at a time may use it."""

    def __init__(self, database: Database, writer: sa.Engine) -> None:
        """Take a database that holds a store."""
        self.database = database
        self._writer = writer
        self._names_at: int | None = None
        self._names: tuple[str, ...] = ()

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    # ---- for whoever carries actions out ----------------------------------------------------------------------

    def look(self) -> Looked:
        """What there is to do."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            last = connection.execute(sa.select(sa.func.max(s.outbox.c.id))).scalar() or 0
            if last != self._names_at:
                self._names, self._names_at = tuple(_names(connection)), last
            d = s.deliveries.c
            soonest = sa.func.min(d.next_at, type_=s.Moment())
            due = sa.select(d.action, soonest).where(d.next_at.isnot(None)).group_by(d.action)
            return Looked(last, self._names, dict(map(tuple, connection.execute(due).all())))

    def fresh(self, action: str, known: Known, after: int, limit: int) -> Page:
        """Actions of a name with a greater id that were never tried; those that have to wait for others left out."""
        some = (
            sa.select(*_COLUMNS)
            .where(s.IS_WAITING, s.outbox.c.action == action, s.outbox.c.id > after)
            .where(s.outbox.c.id <= known.last_id)
            .order_by(s.outbox.c.id)
            .limit(limit)
            .subquery("some")
        )
        d = s.deliveries.c
        statement = (
            sa.select(*some.c, d.attempts, d.next_at, _is_first(some, known))
            .join_from(some, s.deliveries, d.id == some.c.id, isouter=True)
            .order_by(some.c.id)
        )
        with failing(self.database.place), self.database.readers().begin() as connection:
            rows = connection.execute(statement).all()
        free = [_waiting(row) for row in rows if row[-1] and row[-2] is None]
        return Page(free, rows[-1][0] if len(rows) == limit else None)

    def due(self, action: str, known: Known, at_us: int, limit: int) -> list[Waiting]:
        """Actions of a name that were tried and are due again at a time, those that are due first first."""
        d = s.deliveries.c
        statement = (
            sa.select(*_COLUMNS, d.attempts)
            .join_from(s.deliveries, s.outbox, d.id == s.outbox.c.id)
            .where(d.action == action, d.next_at <= at_us, s.IS_WAITING, _is_first(s.outbox, known))
            .where(d.id <= known.last_id)
            .order_by(d.next_at, d.id)
            .limit(limit)
        )
        with failing(self.database.place), self.database.readers().begin() as connection:
            return [_waiting(row) for row in connection.execute(statement)]

    def note(self, noted: Sequence[Noted], known: Known) -> list[Waiting]:
        """Keep what became of actions, and give those that only waited for them."""
        if not noted:
            return []
        settled = [one for one in noted if one.state is not State.WAITING]
        with failing(self.database.place), self._writer.begin() as connection:
            if settled:
                same = s.outbox.c.id == sa.bindparam("its_id")
                changed = s.outbox.update().where(same).values(state=sa.bindparam("its_state"))
                rows = [{"its_id": one.waiting.id, "its_state": one.state.value} for one in settled]
                connection.execute(changed, rows)
            _keep(connection, noted)
            _forget_dropped(connection, [one.waiting.id for one in noted if one.state is State.WAITING])
            return _next_of(connection, [one.waiting for one in settled], known)

    # ---- for people ----------------------------------------------------------------------------------------------

    def listed(self, wanted: Wanted, after: int = 0) -> Iterator[Listed]:
        """The actions asked for after an id, in order."""
        d = s.deliveries.c
        while True:
            statement = (
                sa.select(*_COLUMNS, d.attempts, s.outbox.c.state, d.reason, d.tried_at, d.next_at)
                .join_from(s.outbox, s.deliveries, d.id == s.outbox.c.id, isouter=True)
                .where(s.outbox.c.id > after, *_asked(wanted))
                .order_by(s.outbox.c.id)
                .limit(_ROWS_AT_ONCE)
            )
            with failing(self.database.place), self.database.readers().begin() as connection:
                rows = connection.execute(statement).all()
            for row in rows:
                yield Listed(_waiting(row), State(row.state), row.reason or "", row.tried_at, row.next_at)
            if len(rows) < _ROWS_AT_ONCE:
                return
            after = rows[-1].id

    def known(self, wanted: Wanted) -> tuple[list[str], list[str], list[str]]:
        """Which of the keys asked for there are, and the names of all actions and of all classes they are of."""
        of_key = s.outbox.c.idempotency_key.in_(wanted.keys)
        asked = [sa.select(s.outbox.c.idempotency_key).where(of_key)]
        asked += [sa.select(column).distinct().order_by(column) for column in (s.outbox.c.action, s.outbox.c.event)]
        with failing(self.database.place), self.database.readers().begin() as connection:
            keys, actions, events = (list(connection.execute(one).scalars()) for one in asked)
        return keys, actions, events

    def retry(self, wanted: Wanted, at_us: int) -> int:
        """Let actions that are dead, dropped or waiting for their next try be tried at once, as if for the first time.

        Gives how many there are.
        """
        again = tuple(state for state in State if state is not State.DELIVERED)
        with failing(self.database.place), self._writer.begin() as connection:
            ids = _ids(connection, wanted, again)
            _set_state(connection, ids, State.WAITING)
            _wake(connection, ids, at_us, {"attempts": 0})
        return len(ids)

    def drop(self, wanted: Wanted, at_us: int) -> int:
        """Let actions that wait or are dead never be tried again; gives how many there are."""
        with failing(self.database.place), self._writer.begin() as connection:
            ids = _ids(connection, wanted, (State.WAITING, State.DEAD))
            _set_state(connection, ids, State.DROPPED)
            for some in _parts(ids):
                connection.execute(s.deliveries.update().where(s.deliveries.c.id.in_(some)).values(next_at=None))
            _wake(connection, _after(connection, ids), at_us, {})
        return len(ids)


def _names(connection: sa.Connection) -> Iterator[str]:
    """The names of actions that wait, from one to the next in the index: SELECT DISTINCT would go over all rows."""
    last = ""
    while True:
        following = sa.select(sa.func.min(s.outbox.c.action, type_=s.Words())).where(
            s.IS_WAITING, s.outbox.c.action > last
        )
        found = connection.execute(following).scalar()
        if found is None:
            return
        yield found
        last = found


def _is_first(row: sa.FromClause, known: Known) -> sa.ColumnElement[bool]:
    """No action of the same event waits before this one, of those that somebody carries out."""
    earlier = s.outbox.alias("earlier")
    is_waiting = earlier.c.state == sa.literal_column("'waiting'")
    # Not a bare column: SQLite would take the index by action, and go over all that wait.
    is_known = sa.func.coalesce(earlier.c.action, "").in_(known.names)
    before = [is_waiting, is_known, earlier.c.id < row.c.id, earlier.c.event == row.c.event]
    same_version = [earlier.c.tick == row.c.tick, earlier.c.seq.is_not_distinct_from(row.c.seq)]
    by_key = sa.exists().where(*before, earlier.c.key == row.c.key)
    by_version = sa.exists().where(*before, earlier.c.key == _NO_KEY, *same_version)
    return sa.and_(sa.or_(row.c.key == _NO_KEY, ~by_key), sa.or_(row.c.key != _NO_KEY, ~by_version))


def _waiting(row: Any) -> Waiting:
    id_, key, action, arguments, event, event_key, tick, seq, trigger, rule, attempts = row[:11]
    return Waiting(id_, key, action, arguments, event, event_key, tick, seq, attempts or 0, trigger, rule)


def _keep(connection: sa.Connection, noted: Sequence[Noted]) -> None:
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(s.deliveries)
    new = statement.excluded
    told = {name: new[name] for name in ("attempts", "reason", "tried_at", "next_at")}
    rows = [
        {
            "id": one.waiting.id,
            "action": one.waiting.action,
            "attempts": one.attempts,
            "reason": one.reason,
            "tried_at": one.tried_at,
            "next_at": one.next_at,
        }
        for one in noted
    ]
    connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=told), rows)


def _forget_dropped(connection: sa.Connection, ids: Sequence[int]) -> None:
    """What somebody dropped while it was being tried is not due again."""
    for some in _parts(ids):
        gone = sa.select(s.outbox.c.id).where(s.outbox.c.id.in_(some), s.outbox.c.state != State.WAITING.value)
        connection.execute(s.deliveries.update().where(s.deliveries.c.id.in_(gone)).values(next_at=None))


def _next_of(connection: sa.Connection, settled: Sequence[Waiting], known: Known) -> list[Waiting]:
    """The actions that may go now because these no longer wait; what is due by its time is left to that."""
    before, d = s.outbox.alias("settled"), s.deliveries.c
    untried = ~sa.exists().where(d.id == s.outbox.c.id, d.next_at.isnot(None))
    found: dict[int, Waiting] = {}
    keyed = [one.id for one in settled if one.key != NO_KEY]
    keyless = [one.id for one in settled if one.key == NO_KEY]
    for same, ids in zip(_same_event(before), (keyed, keyless), strict=True):
        for some in _parts(ids):
            statement = sa.select(*_COLUMNS, sa.literal(0)).where(
                before.c.id.in_(some),
                s.IS_WAITING,
                *same,
                s.outbox.c.action.in_(known.names),
                s.outbox.c.id <= known.last_id,
                untried,
                _is_first(s.outbox, known),
            )
            found |= {row[0]: _waiting(row) for row in connection.execute(statement)}
    return [found[id_] for id_ in sorted(found)]


def _same_event(before: sa.FromClause) -> tuple[list[sa.ColumnElement[bool]], list[sa.ColumnElement[bool]]]:
    """Whether an action is of the same event as another: by the key, and without one by the version.

    Each for a statement of its own, so that all events without a key are not gone over.
    """
    event, key = s.outbox.c.event == before.c.event, s.outbox.c.key == before.c.key
    same_version = [s.outbox.c.tick == before.c.tick, s.outbox.c.seq.is_not_distinct_from(before.c.seq)]
    return [event, key, before.c.key != _NO_KEY], [event, s.outbox.c.key == _NO_KEY, key, *same_version]


def _asked(wanted: Wanted) -> list[sa.ColumnElement[bool]]:
    asked: list[sa.ColumnElement[bool]] = []
    if wanted.states:
        asked.append(s.outbox.c.state.in_([state.value for state in wanted.states]))
    if wanted.keys:
        asked.append(s.outbox.c.idempotency_key.in_(wanted.keys))
    for column, name in ((s.outbox.c.action, wanted.action), (s.outbox.c.event, wanted.event)):
        if name is not None:
            asked.append(sa.func.lower(column) == name.lower())
    return asked


def _ids(connection: sa.Connection, wanted: Wanted, states: Sequence[State]) -> list[int]:
    possible = s.outbox.c.state.in_([state.value for state in states])
    return list(connection.execute(sa.select(s.outbox.c.id).where(possible, *_asked(wanted))).scalars())


def _after(connection: sa.Connection, ids: Sequence[int]) -> list[int]:
    """All that wait of the same events."""
    before = s.outbox.alias("before")
    found: set[int] = set()
    for some in _parts(ids):
        for same in _same_event(before):
            later = (before.c.id.in_(some), s.IS_WAITING, s.outbox.c.id > before.c.id, *same)
            found.update(connection.execute(sa.select(s.outbox.c.id).where(*later)).scalars())
    return sorted(found)


def _set_state(connection: sa.Connection, ids: Sequence[int], state: State) -> None:
    for some in _parts(ids):
        connection.execute(s.outbox.update().where(s.outbox.c.id.in_(some)).values(state=state.value))


def _wake(connection: sa.Connection, ids: Sequence[int], at_us: int, also: dict[str, Any]) -> None:
    """Let actions be due: whoever carries them out looks for that now and then, and may be another process."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    for some in _parts(ids):
        values = [s.outbox.c.id, s.outbox.c.action, sa.literal(0), sa.literal("", s.Words), sa.literal(at_us, s.Moment)]
        rows = sa.select(*values).where(s.outbox.c.id.in_(some))
        statement = insert(s.deliveries).from_select(["id", "action", "attempts", "reason", "next_at"], rows)
        told = {"next_at": statement.excluded.next_at, **also}
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=told))


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + _IDS_AT_ONCE] for start in range(0, len(ids), _IDS_AT_ONCE))
