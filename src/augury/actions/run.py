"""What `augury actions` does: carries out what waits in a store, lists it, lets it be tried again, or drops it.

In: the URL of a store or a lake, and words. Out: counts and lines. It prints nothing itself.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from augury.actions.binding import CannotCarryOut, Surroundings, Wired, wire
from augury.actions.deliver import Counts, Deliverer, Ends
from augury.actions.lines import action_line
from augury.actions.outbox import StoredOutbox
from augury.clock import show_time
from augury.diagnostics import closest
from augury.environment import Environment, real
from augury.event import key_of
from augury.history.raw import whole_json
from augury.local.store.lake_outbox import outbox_at
from augury.local.store.waiting import Listed, State, Wanted

if TYPE_CHECKING:
    import pyarrow as pa

    from augury.local.store.outbox import SqlOutbox


async def carry_out(
    url: str, around: Surroundings, ends: Ends, tell: Callable[[str], None], deliveries: str | None = None
) -> Counts:
    """Carry out what waits in a store or a lake, until that end, or until the process is asked to end.

    `tell` gets a sentence for what a user should know; `deliveries` is the database of a lake, as `outbox_at` has it.
    Raises `CannotCarryOut`, and what `outbox_at` raises.
    """
    async with real() as environment, delivering(url, around, environment, tell, deliveries) as deliverer:
        with _asked_to_stop(deliverer.ask_to_stop):
            await deliverer.run(ends)
        return deliverer.counts


@asynccontextmanager
async def delivering(
    url: str,
    around: Surroundings,
    environment: Environment,
    tell: Callable[[str], None],
    deliveries: str | None = None,
) -> AsyncIterator[Deliverer]:
    """Who carries out what waits in a store or a lake, as long as it is used; raises what `carry_out` raises."""
    wired = wire(around, environment)
    try:
        require_usable(wired, tell, "it waits in the outbox")
        outbox = StoredOutbox(outbox_at(url, deliveries, alone=True))
        try:
            yield Deliverer(outbox, wired.carriers, environment, report=tell)
        finally:
            await outbox.close()
    finally:
        await wired.close()


def require_usable(wired: Wired, tell: Callable[[str], None], then: str) -> None:
    """Raise `CannotCarryOut` for bindings that cannot be used, and tell what becomes of actions without one."""
    if wired.problems:
        raise CannotCarryOut(wired.problems)
    for name in wired.unbound:
        tell(f"the action `{name}` has no executor: {then}")


@dataclass(frozen=True, slots=True)
class Would:
    """An action that waits, and who would carry it out; `target` is None where nobody would."""

    listed: Listed
    target: str | None


async def would_carry_out(
    url: str, around: Surroundings, tell: Callable[[str], None], deliveries: str | None = None
) -> list[Would]:
    """What `carry_out` would do with what waits in a store or a lake, in order, and to whom: nothing of it is done.

    Bindings are looked at as they would be: functions are imported, variables read. Nothing is connected to, no row
    is changed, and somebody else may be at work on the store. Raises what `carry_out` raises.
    """
    async with real() as environment:
        wired = wire(around, environment)
        try:
            require_usable(wired, tell, "it would wait in the outbox")
            targets = {key_of(name): carrier.executor.target for name, carrier in wired.carriers.items()}
            with opened(url, deliveries) as outbox:
                waiting = list(outbox.listed(Wanted((State.WAITING,))))
            return [Would(one, targets.get(key_of(one.action.action))) for one in waiting]
        finally:
            await wired.close()


def would_line(one: Would) -> str:
    """One JSON object: that of `augury actions ls`, and `to`, whom it would go to."""
    return action_line(one.listed, {"to": whole_json(one.target)})


def would_table(found: Sequence[Would]) -> pa.Table:
    """What would be done, for people."""
    import pyarrow as pa

    columns: dict[str, list[str | int]] = {
        "action": [f"{row.action}{_in_brackets(row.arguments)}" for row in (one.listed.action for one in found)],
        "event": [one.listed.action.event for one in found],
        "of": [one.listed.action.key for one in found],
        "to": [one.target or "nobody: it waits" for one in found],
        "tries": [one.listed.action.attempts for one in found],
        "not before": ["" if one.listed.next_at is None else show_time(one.listed.next_at) for one in found],
    }
    kinds = [pa.int64() if name == "tries" else pa.string() for name in columns]
    return pa.table([pa.array(one, kind) for one, kind in zip(columns.values(), kinds, strict=True)], list(columns))


@contextmanager
def _asked_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM let what is under way come to its end."""
    loop = asyncio.get_running_loop()
    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
    try:
        for one in signals:
            loop.add_signal_handler(one, stop)
    except (ValueError, RuntimeError):  # not the main thread: whoever has it decides
        signals = ()
    try:
        yield
    finally:
        for one in signals:
            loop.remove_signal_handler(one)


@contextmanager
def opened(url: str, deliveries: str | None = None) -> Iterator[SqlOutbox]:
    """The outbox of a store or a lake, beside whoever writes or delivers."""
    outbox = outbox_at(url, deliveries, alone=False)
    try:
        yield outbox
    finally:
        outbox.close()


def misspelt(outbox: SqlOutbox, wanted: Wanted) -> list[str]:
    """What is asked for and not in the outbox at all, a sentence each: keys, the name of an action, and of a class."""
    keys, actions, events = outbox.known(wanted)
    found = [f"there is no action with the key `{key}`" for key in wanted.keys if key not in keys]
    for what, name, names in (("action", wanted.action, actions), ("action of a class", wanted.event, events)):
        if name is None or key_of(name) in map(key_of, names):
            continue
        meant = closest(name, names)
        help_ = f"did you mean `{meant}`?" if meant else f"there are {', '.join(names)}" if names else "it is empty"
        found.append(f"the outbox has no {what} `{name}`: {help_}")
    return found


def lines(url: str, wanted: Wanted, deliveries: str | None = None) -> Iterator[str]:
    """The actions asked for, a JSON object a line."""
    with opened(url, deliveries) as outbox:
        for one in outbox.listed(wanted):
            yield action_line(one)


def table(url: str, wanted: Wanted, rows_max: int, deliveries: str | None = None) -> tuple[pa.Table, int]:
    """The first of the actions asked for, for people, and how many there are."""
    import pyarrow as pa

    shown: list[tuple[object, ...]] = []
    count = 0
    with opened(url, deliveries) as outbox:
        for one in outbox.listed(wanted):
            count += 1
            if len(shown) < rows_max:
                row = one.action
                what = f"{row.action}{_in_brackets(row.arguments)}"
                due = "" if one.next_at is None else show_time(one.next_at)
                known = (row.idempotency_key, one.state.value, row.attempts, what, row.event, row.key)
                shown.append((*known, due, one.reason))
    names = ("key", "state", "tries", "action", "event", "of", "next try", "reason")
    columns = zip(*shown, strict=True) if shown else ([] for _ in names)
    kinds = [pa.int64() if name == "tries" else pa.string() for name in names]
    return pa.table([pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)], names), count


def _in_brackets(arguments: str) -> str:
    return f"({arguments[1:-1]})"
