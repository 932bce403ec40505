"""What ticks did, as tables: what is written, shown and printed, whoever did the ticks and in how many pieces.

In: `Ticked`s of an engine, which may see some of the events only. Out: a `Ledger`; several of them become one, in the
order of the contract, as if one engine had done all; and its lines are those of LANGUAGE section 8.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augury.algebra.program import Program
from augury.algebra.select import SelectPlan
from augury.engine.actions import actions_of, rank_of
from augury.engine.firing_rows import firings_of
from augury.engine.history_rows import history_of, integers, one_chunk, versions_in
from augury.engine.lines import action_line, version_lines
from augury.engine.log_rows import COUNTS, PHASES, action_row, rejected_rows, tick_row
from augury.engine.occurrence_state import is_by_occurrence
from augury.engine.ticked import Action, ClassVersions, FiredTrigger, Ticked
from augury.event import ClassKind, EventClass, key_of
from augury.history.views import system_names
from augury.kernels.batch import Integers
from augury.kernels.columns import arrow_type
from augury.kernels.order import in_order, least_first, places
from augury.types import TIMESTAMP

_MOMENT: Final = arrow_type(TIMESTAMP)

PLACE: Final = "augury_place"
"""The last column of versions in a ledger: the `seq`, also of what has none, so that it can be put in order."""

ACTIONS: Final = pa.schema(
    [
        ("tick", _MOMENT),
        ("event", pa.string()),
        ("key", pa.string()),
        ("action", pa.string()),
        ("arguments", pa.string()),
        ("statement", pa.int32()),
        ("place", pa.int32()),
        ("seq", pa.int64()),
        ("idempotency_key", pa.string()),
        ("rank", pa.string()),
        ("line", pa.string()),
        ("trigger", pa.string()),
        ("rule", pa.string()),
    ]
)
"""Actions: `rank` puts those of a class and tick in order, and behind them what rules did; `line` is what a run prints.
"""

REJECTED: Final = pa.schema([("tick", _MOMENT), *((name, pa.string()) for name in ("place", "event", "reason", "raw"))])
TICKS: Final = pa.schema(
    [
        ("tick", _MOMENT),
        ("last_seq", pa.int64()),
        *((name, pa.int64()) for name in COUNTS),
        *((f"{name}_seconds", pa.float64()) for name in PHASES),
        *((name, pa.string()) for name in ("failed", "warnings", "errors")),
    ]
)
"""The log of ticks; of several engines there is a row each, and what did nothing at a tick has none."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What ticks did: the versions of each class as `history.views` has them and PLACE, by the name of the class.

    Their numbers tell them apart and are not dense; those of subscribed and clock classes are their `seq`.

    `archive` are the current versions of events that have left, with the tick at which they did. `firings` are by the
    name of the trigger, as `engine.firing_rows` has them, in the order of their numbers.
    """

    versions: Mapping[str, pa.Table] = field(default_factory=dict)
    actions: pa.Table = field(default_factory=ACTIONS.empty_table)
    rejected: pa.Table = field(default_factory=REJECTED.empty_table)
    ticks: pa.Table = field(default_factory=TICKS.empty_table)
    archive: Mapping[str, pa.Table] = field(default_factory=dict)
    firings: Mapping[str, pa.Table] = field(default_factory=dict)


def ledger_of(program: Program, ticks: Sequence[Ticked]) -> Ledger:
    """What these ticks of one engine did."""
    return Ledger(
        _histories((one.tick, v) for one in ticks for v in (*one.read, *one.derived)),
        _table([_action(action, rank) for one in ticks for action, rank in _actions(one)], ACTIONS),
        _table([row for one in ticks for row in rejected_rows(one)], REJECTED),
        _table([tick_row(one) for one in ticks], TICKS),
        _histories((one.tick, v) for one in ticks for v in one.purged),
        _firings(program, ticks),
    )


def _actions(ticked: Ticked) -> Iterator[tuple[Action, str]]:
    """The actions of a tick with texts that put them in order: of rules, that of the firings."""
    yield from actions_of(ticked)
    of_rules = (action for fired in ticked.firings for action in fired.actions)
    yield from ((action, f"{at:020d}") for at, action in enumerate(of_rules))


def _firings(program: Program, ticks: Sequence[Ticked]) -> dict[str, pa.Table]:
    found: dict[str, list[tuple[int, FiredTrigger]]] = {}
    for one in ticks:
        for fired in one.firings:
            found.setdefault(key_of(fired.firing.trigger), []).append((one.tick, fired))
    named = ((trigger, found.get(key_of(trigger.name))) for trigger in program.triggers)
    return {trigger.name: firings_of(program, trigger, some) for trigger, some in named if some}


def _histories(parts: Iterable[tuple[int, ClassVersions]]) -> dict[str, pa.Table]:
    found: dict[str, list[tuple[int, ClassVersions]]] = {}
    for tick, versions in parts:
        if len(versions):
            found.setdefault(versions.event_class.name, []).append((tick, versions))
    return {name: _with_place(history_of(some[0][1].event_class, some), some) for name, some in found.items()}


def _with_place(table: pa.Table, parts: Sequence[tuple[int, ClassVersions]]) -> pa.Table:
    seq = pa.array(np.concatenate([versions.seq for _, versions in parts]))
    event_class = parts[0][1].event_class
    if event_class.kind is not ClassKind.COMPLEX:
        # The same whichever engine reads it, also when a program is cut otherwise one day.
        table = _replaced(table, system_names(event_class).number, seq)
    return table.append_column(PLACE, seq)


def _action(action: Action, rank: str) -> dict[str, Any]:
    return {**action_row(action), "rank": rank, "line": action_line(action)}


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = {one.name: [row[one.name] for row in rows] for one in schema}
    return pa.table([_column(columns[one.name], one.type) for one in schema], schema=schema)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Whole numbers of microseconds become times."""
    return pa.array(values, pa.int64()).cast(kind) if kind == _MOMENT else pa.array(values, kind)


# ---- several -----------------------------------------------------------------------------------------------------


def joined(program: Program, ledgers: Sequence[Ledger]) -> Ledger:
    """What several engines did, each with some of the events, in the order in which one would have done it."""
    classes = {key_of(plan.event_class.name): place for place, plan in enumerate(program.classes)}

    def gathered(parts: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
        found: dict[str, pa.Table] = {}
        for plan in program.classes:
            event_class = plan.event_class
            tables = [part[event_class.name] for part in parts if event_class.name in part]
            if tables:
                table = pa.concat_tables(tables)
                by_key = isinstance(plan.derivation, SelectPlan)
                found[event_class.name] = table.take(pa.array(history_order(event_class, table, by_key=by_key)))
        return found

    versions = gathered([one.versions for one in ledgers])
    actions = pa.concat_tables([ACTIONS.empty_table(), *(one.actions for one in ledgers)])
    named = zip(actions["event"].to_pylist(), actions["trigger"].to_pylist(), strict=True)
    # A program that took the place of another may lack the class of an action that was not told yet.
    last = len(classes)
    place = np.array([classes.get(key_of(n), last) if trigger is None else last for n, trigger in named], np.int64)
    actions = actions.append_column("class", pa.array(place))
    actions = actions.append_column("at", pa.array(_ranks(program, actions, versions), pa.string()))
    actions = actions.sort_by([(name, "ascending") for name in ("tick", "class", "at", "statement", "place")])
    rejected = pa.concat_tables([REJECTED.empty_table(), *(one.rejected for one in ledgers)])
    ticks = pa.concat_tables([TICKS.empty_table(), *(one.ticks for one in ledgers)])
    return Ledger(
        versions,
        actions.drop_columns(["class", "at"]),
        rejected.sort_by("tick"),
        ticks.sort_by("tick"),
        gathered([one.archive for one in ledgers]),
        _all_firings(program, ledgers),
    )


def _all_firings(program: Program, ledgers: Sequence[Ledger]) -> dict[str, pa.Table]:
    """Those of each trigger, which are of one engine, by their numbers."""
    found = {}
    for trigger in program.triggers:
        tables = [one.firings[trigger.name] for one in ledgers if trigger.name in one.firings]
        if tables:
            table = pa.concat_tables(tables)
            found[trigger.name] = table.sort_by(table.column_names[0])
    return found


def _ranks(program: Program, actions: pa.Table, versions: Mapping[str, pa.Table]) -> list[str]:
    """Texts that put actions of a class in order: their ranks, but of events that engines number their places.

    An event whose version is not among these was there before all that are.
    """
    places: dict[str, dict[str, int]] = {}
    for plan in program.classes:
        event_class = plan.event_class
        is_numbered = event_class.kind is ClassKind.COMPLEX and not event_class.key
        is_told_apart = isinstance(plan.derivation, SelectPlan) or is_by_occurrence(plan)
        if is_numbered and not is_told_apart:
            table = versions.get(event_class.name)
            numbers = [] if table is None else table[system_names(event_class).number].to_pylist()
            places[event_class.name] = {rank_of(number): at for at, number in enumerate(numbers)}
    found = []
    for name, rank, trigger in zip(*(actions[c].to_pylist() for c in ("event", "rank", "trigger")), strict=True):
        at = places.get(name, {}).get(rank)
        found.append(
            rank if trigger is not None or name not in places else f"0 {rank}" if at is None else f"1 {at:020d}"
        )
    return found


def history_order(event_class: EventClass, table: pa.Table, *, by_key: bool) -> Integers:
    """The rows of a history in order: by tick, then of subscribed classes by `seq`, of SELECTs by key, else by place.

    What stands at one place is put in order by its key and the rest, as far as those are not of one engine.
    """
    names = system_names(event_class)
    tick = integers(table[names.tick])
    seq = integers(table[PLACE])
    if event_class.kind is not ClassKind.COMPLEX:
        return np.lexsort((seq, tick)).astype(np.int64)
    place = np.zeros(len(tick), np.int64) if by_key else places(seq, integers(table[names.det_time]))
    number = integers(table[names.number])
    order = np.lexsort((number, place, tick))
    at = np.stack([tick[order], place[order]])
    same = (at[:, 1:] == at[:, :-1]).all(axis=0)
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if not len(tied):
        return order.astype(np.int64)
    group = np.cumsum(np.append(True, ~same))[tied]
    some = table.take(pa.array(order[tied]))
    found = order.copy()
    found[tied] = order[tied][_untied(event_class, some, group, by_key)]
    return found.astype(np.int64)


def _untied(event_class: EventClass, table: pa.Table, group: Integers, by_key: bool) -> list[int]:
    """The rows in order, of which those of a group stand at one place; they come in the order of their engines."""
    names = system_names(event_class)
    told_apart = event_class.key or (tuple(a.name for a in event_class.attributes) if by_key else ())
    columns = [table[name].to_pylist() for name in _spelled(event_class, told_apart)]
    ranks = [[least_first(value) for value in row] for row in zip(*columns, strict=True)] or [[]] * len(group)
    groups = group.tolist()
    if by_key or event_class.key:
        # Those of one key are of one engine, which has put them in order.
        return sorted(range(len(groups)), key=lambda row: (groups[row], ranks[row]))
    values = [one_chunk(table[attribute.name]) for attribute in event_class.attributes]
    lists = [found or [] for found in table[names.constituents].to_pylist()]
    occ_time = integers(table[names.occ_time].cast(pa.int64()).fill_null(0))
    return in_order(event_class, group, lists, values, occ_time)


def _spelled(event_class: EventClass, names: Sequence[str]) -> list[str]:
    """Attributes as they are declared."""
    return [attribute.name for name in names if (attribute := event_class.attribute(name)) is not None]


def renumbered(event_class: EventClass, table: pa.Table) -> pa.Table:
    """A history in order whose versions are numbered from 1, and its events by their first versions."""
    names = system_names(event_class)
    before, now = integers(table[names.number]), np.arange(1, table.num_rows + 1)
    if names.event_number is not None and event_class.kind is ClassKind.COMPLEX:
        at = np.argsort(before)
        events = integers(table[names.event_number])
        found = np.minimum(np.searchsorted(before[at], events), max(len(at) - 1, 0))
        events = np.where(before[at][found] == events, now[at][found], events) if len(at) else events
        table = _replaced(table, names.event_number, pa.array(events))
    return _replaced(table, names.number, pa.array(now))


def _replaced(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


# ---- lines -------------------------------------------------------------------------------------------------------


def lines(program: Program, ledger: Ledger) -> Iterator[str]:
    """What a run prints: in order of tick complex events by class, then actions."""
    ticks, texts = [np.empty(0, np.int64)], list[str]()
    for plan in program.classes:
        event_class = plan.event_class
        table = ledger.versions.get(event_class.name)
        if table is not None and event_class.kind is ClassKind.COMPLEX:
            ticks.append(integers(table[system_names(event_class).tick]))
            texts += (line for _, versions in versions_in(event_class, table) for line in version_lines(versions))
    ticks.append(integers(ledger.actions["tick"]))
    texts += ledger.actions["line"].to_pylist()
    for row in np.argsort(np.concatenate(ticks), kind="stable").tolist():
        yield texts[row]


def failures(ledger: Ledger) -> list[tuple[int, str, str]]:
    """Which SELECT failed at which tick, and why, each once: engines of several slots may have reported the same."""
    found: dict[tuple[int, str], str] = {}
    for tick, text in zip(integers(ledger.ticks["tick"]).tolist(), ledger.ticks["failed"].to_pylist(), strict=True):
        for name, reason in json.loads(text).items():
            found.setdefault((tick, name), reason)
    return [(tick, name, reason) for (tick, name), reason in found.items()]


def counted(ledger: Ledger) -> dict[str, int]:
    """How much was read, derived, refused and so on, in all."""
    return {name: pc.sum(ledger.ticks[name]).as_py() or 0 for name in COUNTS}
