"""Events that were posted, on their way to their tick: written to the store in groups, and then waiting there.

In: events as mappings or lines of JSON, from any number of threads. Out: rows by their places, for `history.arrivals`.
What cannot be read is kept like the rest, with the reason, so that a tick can put it among the rejected events.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from threading import Lock
from time import perf_counter
from typing import Any, Final

from augury import limits
from augury.algebra.program import Program
from augury.clock import show_time
from augury.engine.ports import Post, Store
from augury.event import TIME_ATTRIBUTES, key_of
from augury.history.arrivals import arrivals
from augury.history.json_lines import read_line
from augury.history.plain import plainly_fine
from augury.history.raw import RAW_SHOWN_MAX, Broken, RawRows, whole_json

Row = Mapping[str, Any] | Broken

_GATHERING_SECONDS_MIN: Final = 0.0005
_GATHERING_SECONDS_MAX: Final = 0.005
"""Between these, who writes waits for others as long as the last write took, if there were some lately."""

POSTED: Final = "posted"
"""What posts are called where they came from, before their places."""

_UNTIMED: Final = -1
"""What stands for the time of reading where there is no clock."""


class PostRefused(ValueError):
    """An event that can be no version of any class, whatever else is there; the message says why."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A post that waits; `det_time` is when it was read, None where it says itself when it was detected."""

    row: Row
    det_time: int | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """An event that is durable, and its place among all that were posted."""

    place: int


@dataclass(slots=True, eq=False)
class _Ticket:
    """A post on its way to the store."""

    line: str
    row: Row
    is_fine: bool
    """Whether nothing is against the row, whatever the time of reading; where it is False, nothing is known."""
    is_awaited: bool
    is_asked: bool = False
    """Whether its thread wants to know what becomes of it, too."""
    place: int | None = None
    error: BaseException | None = None
    wake: Lock = field(default_factory=Lock)
    """Held while its thread waits."""
    asleep: deque[_Ticket] | None = None
    """Once it is known what became of it, those of its group who are not awake yet."""
    is_left: bool = False
    """Whether its thread was interrupted and waits no more."""


class Posts:
    """The posts of an engine; any number of threads may use it. `clock` gives the time of reading, None for none."""

    def __init__(self, program: Program, store: Store, clock: Callable[[], int | None]) -> None:
        """Take up what waits in the store."""
        self._program, self._store, self._clock = program, store, clock
        self._det_fields = _det_fields(program)
        self._is_fine = plainly_fine(program)
        self._writing, self._leading = Lock(), Lock()
        self._leader: _Ticket | None = None
        self._is_gathering, self._expected, self._write_seconds = False, 1, 0.0
        self._queue: deque[_Ticket] = deque()
        self._waiting: dict[int, Kept] = {}
        self._in_steps: set[int] = set()
        self._last = 0
        self._doubtful: list[_Ticket] | None = []
        self.asked: set[int] = set()
        """The places of posts whose answers somebody waits for: known before anybody can read them."""
        self._settle()

    def turn_to(self, program: Program) -> None:
        """Take events of another program from now on; what waits is read as that one says."""
        with self._writing:
            self._program, self._det_fields, self._is_fine = program, _det_fields(program), plainly_fine(program)
            self._doubtful = self._doubtful or []

    def post(self, event: Mapping[str, Any] | str, *, wait: bool, ask: bool = False) -> Receipt | None:
        """Write an event, with those of others who wait; or leave it to the next who does."""
        ticket = self._ticket(event, wait)
        ticket.is_asked = ask
        if not wait:
            with self._leading:
                self._queue.append(ticket)
            return None
        ticket.wake.acquire()
        with self._leading:
            self._queue.append(ticket)
            # Who completes the group writes it, for it is awake; who has waited for that goes on sleeping.
            if self._leader is None or (self._is_gathering and self._is_complete()):
                self._leader, self._is_gathering = ticket, True
        try:
            self._wait(ticket)
        except BaseException:
            self._leave(ticket)
            raise
        if ticket.error is not None:
            raise ticket.error
        assert ticket.place is not None
        return Receipt(ticket.place)

    def post_all(self, events: Iterable[Mapping[str, Any] | str]) -> list[str | None]:
        """Write events in their order, as one; for each why it is refused, or None. Raises what the store does."""
        tickets = [self._ticket(event, True) for event in events]
        for ticket in tickets:
            ticket.is_left = True  # whoever writes them, nobody sleeps; what cannot be written is not kept for later
        with self._leading:
            self._queue.extend(tickets)
        self.flush()
        failed = next((one.error for one in tickets if one.error and not isinstance(one.error, PostRefused)), None)
        if failed is not None:  # another wrote them along with its own, and could not
            raise failed
        return [None if ticket.error is None else str(ticket.error) for ticket in tickets]

    def checked(self, event: Mapping[str, Any] | str) -> str:
        """An event as the line of JSON that it is now; raises `PostRefused` for what can be none, and keeps nothing."""
        ticket, now = self._ticket(event, False), self._clock()
        row = self._timed(ticket.row, _UNTIMED if now is None else now).row
        if not ticket.is_fine and (refused := self._read([row], [ticket.line], [0])[1]):
            raise PostRefused(refused[0])
        return ticket.line

    def _ticket(self, event: Mapping[str, Any] | str, wait: bool) -> _Ticket:
        line, row = _line(event)
        return _Ticket(line, row, not isinstance(row, Broken) and self._is_fine(row), wait)

    # ---- taking turns ------------------------------------------------------------------------------

    def _wait(self, ticket: _Ticket) -> None:
        """Until the event is written; and lead if it comes to that, also if `flush` has written it meanwhile.

        Who waits sleeps until its event is written: if all had to pass a lock, those done would stand in the way of
        those who come next, and groups would be of one.
        """
        while self._leader is ticket or ticket.asleep is None:
            if self._leader is not ticket:
                ticket.wake.acquire()
            elif self._gathered(ticket):
                self._lead(ticket)
        _wake_next(ticket.asleep)

    def _gathered(self, ticket: _Ticket) -> bool:
        """Give those who posted lately a moment to come again: one write for all costs little more.

        False if one of them leads now.
        """
        if not self._is_complete():
            seconds = min(max(self._write_seconds, _GATHERING_SECONDS_MIN), _GATHERING_SECONDS_MAX)
            ticket.wake.acquire(timeout=seconds)
        with self._leading:
            if self._leader is not ticket:
                return False
            self._is_gathering = False
            return True

    def _is_complete(self) -> bool:
        return len(self._queue) >= self._expected

    def _lead(self, ticket: _Ticket) -> None:
        """Write what is in the queue, and hand the lead to one of those who came meanwhile."""
        try:
            with self._writing:
                self._write(ticket)
        finally:
            self._hand_over(ticket)

    def _hand_over(self, ticket: _Ticket) -> None:
        with self._leading:
            if self._leader is not ticket:
                return
            heir = next((one for one in self._queue if one.is_awaited and not one.is_left), None)
            self._leader, self._is_gathering = heir, heir is not None
        if heir is not None:
            _wake(heir)

    def _leave(self, ticket: _Ticket) -> None:
        """What others count on is done also if the thread was interrupted, as by Ctrl-C, while it waited."""
        with self._leading:
            ticket.is_left = True
            asleep = ticket.asleep
        self._hand_over(ticket)
        _wake_next(asleep)

    def _tell(self, tickets: Sequence[_Ticket], writer: _Ticket | None) -> None:
        """Let those who wait know that they are done; who writes is awake.

        Each of them wakes one other on its way out, beginning with who writes: if all woke at once, each would sleep a
        second time, for its turn to run Python, and be woken from that only when the one before it sleeps.
        """
        with self._leading:
            asleep = deque(one for one in tickets if one.is_awaited and one is not writer and not one.is_left)
            for ticket in tickets:
                ticket.asleep = asleep
        if writer is None or writer.asleep is not asleep:
            _wake_next(asleep)

    def flush(self) -> None:
        """Write what was posted without waiting; raises what the store does, and then it is still there."""
        with self._writing:
            error = self._write(None)
        if error is not None:
            raise error

    def waiting(self) -> dict[int, Kept]:
        """What is durable and nobody has read, by place, ascending; which of them are asked for is known by then."""
        with self._writing:
            self._settle()
            return dict(self._waiting)

    def read_in_step(self, places: Iterable[int]) -> None:
        """A step has read these: they are the store's until a tick is committed, and nobody's to read."""
        with self._writing:
            for place in places:
                self._waiting.pop(place, None)
                self._in_steps.add(place)

    def in_steps(self) -> list[int]:
        """The places of what steps have read since the last tick that was committed."""
        return sorted(self._in_steps)

    def taken(self, places: Iterable[int]) -> None:
        """A committed tick has taken these."""
        with self._writing:
            for place in places:
                self._waiting.pop(place, None)
                self._in_steps.discard(place)

    def look_again(self) -> None:
        """What the store says counts, not what is remembered here: what steps have read is to be read again, too."""
        with self._writing:
            self._in_steps.clear()
            self._doubtful = self._doubtful or []

    # ---- writing; only for who holds the lock ------------------------------------------------------

    def _write(self, writer: _Ticket | None) -> BaseException | None:
        """Write all that is in the queue as one transaction; gives what the store raised. Who writes is awake."""
        begun, tickets = perf_counter(), list[_Ticket]()
        try:
            self._settle()
            tickets = self._popped()
            if not tickets:
                return None
            now = self._clock()
            det_time = _UNTIMED if now is None else now
            timed = [self._timed(ticket.row, det_time) for ticket in tickets]
            lines = [ticket.line for ticket in tickets]
            unsure = [n for n, ticket in enumerate(tickets) if not ticket.is_fine]
            rows, reasons = self._read([one.row for one in timed], lines, unsure)
            lines = [_broken_line(r) if isinstance(r, Broken) else line for r, line in zip(rows, lines, strict=True)]
        except BaseException as error:
            tickets = tickets or self._popped()
            self._put_back([ticket for ticket in tickets if not ticket.is_awaited])
            return self._failed(tickets, error, writer)
        # Until it says so, they may be there all the same, if only the answer was lost: `_settle` finds out.
        self._doubtful = [ticket for ticket in tickets if not ticket.is_awaited]
        try:
            places = self._store.append([Post(det_time, line) for line in lines])
        except BaseException as error:
            return self._failed(tickets, error, writer)
        self._waiting.update(zip(places, _kept(rows, timed), strict=True))
        asked = (n for n, ticket in enumerate(tickets) if ticket.is_asked and n not in reasons)
        self.asked.update(places[n] for n in asked)
        self._last, self._doubtful = places[-1], None
        # Those who wait now may come again, and those who came meanwhile are there.
        self._expected = sum(ticket.is_awaited and not ticket.is_left for ticket in tickets) + len(self._queue)
        self._write_seconds = perf_counter() - begun
        for number, (ticket, place) in enumerate(zip(tickets, places, strict=True)):
            if number in reasons:
                ticket.error = PostRefused(reasons[number])
            else:
                ticket.place = place
        self._tell(tickets, writer)
        return None

    def _failed(self, tickets: Sequence[_Ticket], error: BaseException, writer: _Ticket | None) -> BaseException:
        awaited = [ticket for ticket in tickets if ticket.is_awaited]
        for ticket in awaited:
            ticket.error = error
        self._tell(awaited, writer)
        return error

    def _popped(self) -> list[_Ticket]:
        with self._leading:  # who looks for an heir must not find one that is on its way already
            return [self._queue.popleft() for _ in range(len(self._queue))]

    def _put_back(self, tickets: Sequence[_Ticket]) -> None:
        with self._leading:
            self._queue.extendleft(reversed(tickets))

    def _settle(self) -> None:
        """Where it is in doubt what the store has, look: a group was written as a whole, or not at all."""
        if self._doubtful is None:
            return
        kept = self._store.waiting()
        unread = [(place, post) for place, post in kept if place not in self._in_steps]
        timed = [self._timed(_parsed(post.line), post.det_time) for _, post in unread]
        rows, _ = self._read([one.row for one in timed], [post.line for _, post in unread], range(len(unread)))
        if not kept or kept[-1][0] <= self._last:
            self._put_back(self._doubtful)
        self._waiting = {place: one for (place, _), one in zip(unread, _kept(rows, timed), strict=True)}
        self._last = max([self._last, *(place for place, _ in kept)])
        self._doubtful = None

    # ---- reading -----------------------------------------------------------------------------------

    def _read(self, rows: list[Row], lines: Sequence[str], unsure: Sequence[int]) -> tuple[list[Row], dict[int, str]]:
        """Rows with their lines, and by number why some are refused whatever else is there; only those not sure are."""
        try:
            return rows, self._refused(rows, unsure)
        except Exception:
            # One of them is more than the reading can take: the others must not suffer from it.
            rows = rows.copy()
            for number in unsure:
                rows[number] = self._readable(rows[number], lines[number])
            return rows, self._refused(rows, unsure)

    def _timed(self, row: Row, det_time: int) -> Kept:
        """The row with the time of reading, if it names none and there is one."""
        if isinstance(row, Broken) or det_time == _UNTIMED:
            return Kept(row, None)
        timed = self._with_time(row, det_time)
        return Kept(timed, None if timed is row else det_time)

    def _with_time(self, row: Mapping[str, Any], now: int) -> Mapping[str, Any]:
        """The row with the time of reading, if it names none."""
        name = next((value for field, value in row.items() if key_of(field) == "event"), None)
        fields = self._det_fields.get(key_of(name) if isinstance(name, str) else "", _DET_FIELDS)
        named = [field for field in row if key_of(field) in fields]
        if any(row[field] is not None for field in named):
            return row
        told = "det_time" if "det_time" in fields else min(fields, default=None)
        if told is None:
            return row  # SOURCE has every name of it mean something else
        return {**{field: value for field, value in row.items() if field not in named}, told: show_time(now)}

    def _refused(self, rows: Sequence[Row], unsure: Sequence[int]) -> dict[int, str]:
        doubtful = [n for n in unsure if isinstance(row := rows[n], Broken) or not self._is_fine(row)]
        if not doubtful:
            return {}
        came = arrivals(self._program, [RawRows("posted", [rows[n] for n in doubtful], doubtful)])
        return {doubtful[refusal.position]: refusal.reason for refusal in came.refusals}

    def _readable(self, row: Row, line: str) -> Row:
        try:
            self._refused([row], [0])
        except Exception as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else f"it cannot be read: {error}"
            return Broken(why, line[:RAW_SHOWN_MAX])
        return row


def _kept(rows: Sequence[Row], timed: Sequence[Kept]) -> list[Kept]:
    """Rows as they are read, with the times that they were given."""
    return [Kept(row, one.det_time) for row, one in zip(rows, timed, strict=True)]


def _wake_next(asleep: deque[_Ticket] | None) -> None:
    """Wake one of those who are done and may not know it."""
    try:
        ticket = asleep.popleft() if asleep else None
    except IndexError:  # another was quicker
        return
    if ticket is not None:
        _wake(ticket)


def _wake(ticket: _Ticket) -> None:
    # It may have been woken before and not run since: once is enough.
    with suppress(RuntimeError):
        ticket.wake.release()


_DET_FIELDS: Final = frozenset(name for name, time in TIME_ATTRIBUTES.items() if time == "det_time")


def _det_fields(program: Program) -> dict[str, frozenset[str]]:
    """By class the fields that say when an event was detected, where SOURCE maps some."""
    found = {}
    for source in program.sources:
        mapped = {key_of(foreign): TIME_ATTRIBUTES.get(key_of(own)) for foreign, own in source.columns}
        plain = {name for name in _DET_FIELDS if name not in mapped}
        found[key_of(source.event_class)] = frozenset(plain | {f for f, own in mapped.items() if own == "det_time"})
    return found


def _line(event: Mapping[str, Any] | str) -> tuple[str, Row]:
    """An event as a line of JSON, and the row that it says; one that cannot be read as `_broken_line` has it."""
    try:
        if type(event) is dict and (row := _plain(event)) is not None:
            line = _ENCODED(event)
            if line.isascii() and len(line) < _SHORT:
                return line, row
        line = event if isinstance(event, str) else whole_json(event)
    except RecursionError:
        return _broken(Broken("it is nested too deeply", ""))
    except ValueError as error:
        return _broken(Broken(f"it holds a number that is too long: {error}", ""))
    encoded = line.encode("utf-8", "replace").strip()
    if len(encoded) > limits.INFER_LINE_BYTES_MAX:
        too_long = f"it is longer than {limits.INFER_LINE_BYTES_MAX:,} bytes"
        return _broken(Broken(too_long, line[:RAW_SHOWN_MAX]))
    read = read_line(encoded)
    return _broken(read) if isinstance(read, Broken) else (encoded.decode(), read)


def _plain(event: Mapping[str, Any]) -> Row | None:
    """What an event is read as once it is written by Python's own encoder; None where `whole_json` has to write it."""
    row: dict[str, Any] = {}
    for name, value in event.items():
        kind = type(value)
        if type(name) is not str or kind not in _PLAIN:
            return None
        if kind is float:
            if value - value != 0:
                return None
            value = Decimal(repr(value))
        row[name] = value
    return row


_ENCODED: Final[Callable[[object], str]] = json.JSONEncoder(ensure_ascii=False).encode
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_SHORT: Final = 10_000


def _broken(row: Broken) -> tuple[str, Row]:
    return _broken_line(row), row


def _broken_line(row: Broken) -> str:
    """What could not be read, as it is kept: a list, for no event is one."""
    return json.dumps([row.reason, row.text])


def _parsed(line: str) -> Row:
    row = read_line(line.encode())
    return Broken(*json.loads(line)) if isinstance(row, Broken) else row
