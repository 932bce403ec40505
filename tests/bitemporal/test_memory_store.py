"""The store in memory says what the store on SQL says, and costs next to nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.algebra.program import Program
from augury.engine.ports import Post, Snapshot, Store
from augury.engine.ticked import ClassVersions, Ticked
from augury.local.store.errors import AlreadyCommitted
from augury.local.store.memory import MemoryStore
from augury.local.store.sql import open_store
from tests.bitemporal.stored import ORDERS, SECOND, class_of, orders, program, tick_at, versions

RETAIN = "SET HISTORY RETAIN 2s;\n" + ORDERS

CASES = st.lists(  # of each tick: versions of Order (account, change, event_id), pings, and whether 0 is purged
    st.tuples(
        st.lists(
            st.tuples(
                st.integers(0, 3) | st.none(),
                st.sampled_from(["announce", "change", "withdraw"]),
                st.none() | st.integers(0, 5).map(str),
            ),
            max_size=4,
        ),
        st.integers(0, 2),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def ticks_of(of: Program, case: Sequence[tuple[list[tuple[Any, str, str | None]], int, bool]]) -> list[Ticked]:
    """Ticks with the versions of a case; the newest version of account 0 is purged at some."""
    found, number, pings, newest = [], 1, 1, None
    for n, (rows, pinged, purging) in enumerate(case, 1):
        given = [{"account": a, "change": c, "event_id": i, "item": f"{n}"} for a, c, i in rows]
        read: list[ClassVersions] = [orders(of, *given, number=number, tick=n)] if given else []
        if pinged:
            hosts = [{"host": None} for _ in range(pinged)]
            read.append(versions(class_of(of, "Ping"), hosts, number=pings, det_time=tick_at(n) - SECOND))
        zero = [row for row, (a, c, _) in enumerate(rows) if a == 0]
        if zero and rows[zero[-1]][1] != "withdraw":
            newest = read[0].at(np.array(zero[-1:]))
        elif zero:
            newest = None
        gone = (newest,) if purging and newest is not None else ()
        newest = None if gone else newest
        found.append(Ticked(tick_at(n), number, read=tuple(read), purged=gone))
        number, pings = number + len(rows), pings + pinged
    return found


def told(store: Store, of: Program, after: int | None) -> list[Any]:
    """Everything that a store says."""
    order, ping = class_of(of, "Order"), class_of(of, "Ping")
    read = [
        (tick, [(v.event_class.name, v.number.tolist(), v.keys, v.change.tolist(), v.values.to_pylist()) for v in read])
        for tick, read in store.read_after(after)
    ]
    ids = store.known_ids(order, ["0", "1", "5", "7"])
    tables = [store.history(one).to_pylist() for one in (order, ping)]
    return [store.last_tick(), read, ids, tables, list(store.snapshots()), store.waiting()]


@settings(max_examples=40)
@given(CASES, st.integers(0, 8), st.booleans())
def test_both_stores_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, case: Any, after: int, retaining: bool
) -> None:
    of = program(RETAIN if retaining else ORDERS)
    ticks = ticks_of(of, case)
    memory = MemoryStore(of)
    with open_store(str(tmp_path_factory.mktemp("both") / "s.db"), of) as sql:
        stores: list[Store] = [memory, sql]
        for store in stores:
            places = store.append([Post(tick_at(1), "{}"), Post(tick_at(2), "[]")])
            store.commit(ticks[:1], taken=places[:1], snapshot=Snapshot(ticks[0].tick, b"1"))
            store.commit(ticks[1:])
        assert told(memory, of, tick_at(after)) == told(sql, of, tick_at(after))
        assert told(memory, of, None) == told(sql, of, None)


def test_what_was_committed_is_refused() -> None:
    of = program()
    store = MemoryStore(of)
    store.commit([Ticked(tick_at(1), 0)])
    for ticks in ([Ticked(tick_at(1), 0)], [Ticked(tick_at(2), 0), Ticked(tick_at(2), 0)]):
        with pytest.raises(AlreadyCommitted):
            store.commit(ticks)
    assert store.last_tick() == tick_at(1)


def test_places_are_never_given_twice_and_three_snapshots_stay() -> None:
    store = MemoryStore(program())
    first = store.append([Post(1, "a")])
    for n in range(1, 6):
        store.commit([Ticked(tick_at(n), 0)], taken=first, snapshot=Snapshot(tick_at(n), bytes([n])))
    assert store.append([Post(2, "b"), Post(3, "c")]) == [first[0] + 1, first[0] + 2]
    assert [one.tick for one in store.snapshots()] == [tick_at(5), tick_at(4), tick_at(3)]


def test_a_commit_keeps_what_it_is_given_and_takes_no_time(tmp_path: Path) -> None:
    of = program()
    read = versions(class_of(of, "Ping"), [{"host": "a", "event_id": "x"}] * 20_000)
    store, taken = MemoryStore(of), []
    for n in range(1, 6):  # in one of them Python may collect garbage
        ticks = [Ticked(tick_at(n), 0, read=(read,))]
        began = time.process_time()
        store.commit(ticks)
        taken.append(time.process_time() - began)
    assert min(taken) < 0.3e-6 * len(read)
    assert next(store.read_after(None))[1][0] is read
    assert isinstance(store.history(read.event_class), pa.Table)
