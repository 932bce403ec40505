"""The as-of-now view, against a dictionary of current versions."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from augury.kernels.batch import ASSERT, WITHDRAW, Batch
from augury.kernels.bitemporal import as_of_now, live_slots, purge, read, versions_of
from tests.bitemporal.ticks import events

OLD_X = "ON OLD.x = NEW.x DO same()"


def seen(one, tick, rows):
    """Key, x of NEW, whether there is OLD, and x of OLD, of each event that a tick touches."""
    sight = read(one.state.view, one.versions(rows), tick, one.chronon_us)
    columns = (sight.new["x"].to_pylist(), sight.facts.has_old.tolist(), sight.old["x"].to_pylist())
    return list(zip(sight.keys.tolist(), *columns, strict=True))


def live(one):
    table = as_of_now(one.state.view)
    return dict(zip(table["k"].to_pylist(), table["x"].to_pylist(), strict=True))


def test_an_event_is_announced_and_then_changed():
    one = events(OLD_X)
    assert seen(one, 10, [(50, 5, (1, 7))]) == [(1, 7, False, None)]
    assert seen(one, 20, [(50, 15, (1, 8))]) == [(1, 8, True, 7)]
    assert live(one) == {1: 8}


def test_of_several_versions_in_a_chronon_only_the_last_is_seen_and_old_is_from_before_the_tick():
    one = events(OLD_X)
    seen(one, 10, [(50, 5, (1, 7))])
    assert seen(one, 20, [(50, 11, (1, 8)), (50, 12, (2, 1)), (50, 13, (1, 9))]) == [
        (2, 1, False, None),
        (1, 9, True, 7),
    ]
    assert live(one) == {1: 9, 2: 1}


def test_an_event_announced_and_withdrawn_within_a_chronon_was_never_there():
    one = events(OLD_X)
    assert seen(one, 10, [(50, 5, (1, 7)), (None, 6, (1, None))]) == [(1, None, False, None)]
    assert live(one) == {}


def test_an_event_withdrawn_and_announced_again_within_a_chronon_has_changed():
    one = events(OLD_X)
    seen(one, 10, [(50, 5, (1, 7))])
    assert seen(one, 20, [(None, 15, (1, None)), (60, 16, (1, 8))]) == [(1, 8, True, 7)]
    assert live(one) == {1: 8}


def test_a_withdrawn_event_that_comes_again_has_no_old():
    one = events(OLD_X)
    seen(one, 10, [(50, 5, (1, 7))])
    assert seen(one, 20, [(None, 15, (1, None))]) == [(1, None, True, 7)]
    assert live(one) == {}
    assert seen(one, 30, [(50, 25, (1, 8))]) == [(1, 8, False, None)]


def test_a_purged_event_that_comes_again_has_no_old():
    one = events(OLD_X)
    seen(one, 10, [(50, 5, (1, 7)), (50, 5, (2, 7))])
    purge(one.state.view, np.array([one.state.view.slots[1]]))
    assert live(one) == {2: 7}
    assert seen(one, 20, [(50, 15, (1, 8))]) == [(1, 8, False, None)]


def test_a_slot_is_used_again_only_from_the_next_reading_on():
    one = events(OLD_X)
    view = one.state.view
    seen(one, 10, [(50, 5, (1, 7))])
    seen(one, 20, [(None, 15, (1, None)), (50, 16, (2, 8))])
    assert view.used == 2
    seen(one, 30, [(50, 25, (3, 9))])
    assert view.used == 2
    assert live(one) == {2: 8, 3: 9}


def test_each_version_of_a_class_without_a_key_is_an_event_of_its_own():
    one = events(OLD_X, key="")
    assert [row[2] for row in seen(one, 10, [(50, 5, (1, 7)), (50, 5, (1, 7))])] == [False, False]
    assert len(live_slots(one.state.view)) == 2


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("DOUBLE", [float("nan"), float("nan"), 0.0, -0.0, None, None]),
        ("NUMERIC(38,18)", [Decimal("1.5"), Decimal("1.50"), Decimal(-(10**19)), Decimal(-(10**19)), None, None]),
        ("VARCHAR(9)", ["a", "a", "", "", None, None]),
        ("BOOLEAN", [True, True, False, False, None, None]),
        ("DATE", [date(2026, 1, 1), date(2026, 1, 1), date(1, 1, 1), date(1, 1, 1), None, None]),
    ],
)
def test_keys_are_equal_where_values_are(kind, values):
    one = events(attributes=f"k {kind}, x INT")
    one.tick(10, [(50, 5, (value, 0)) for value in values])
    assert len(one.state.view) == 3
    one.tick(20, [(None, 15, (value, 0)) for value in values[::2]])
    assert len(one.state.view) == 0


def test_the_versions_of_a_class_are_taken_from_a_batch():
    one, other = events(OLD_X), events()
    table = pa.table({"k": pa.array([1, 2], pa.int32()), "x": pa.array([7, 8], pa.int32())})
    batch = Batch(
        (other.event_class, one.event_class),
        np.array([1, 0, 1], np.int16),
        np.array([1, 0, 0]),
        np.array([1, 2, 3]),
        np.array([50, 51, 52]),
        np.array([5, 6, 7]),
        np.array([ASSERT, ASSERT, WITHDRAW], np.uint8),
        (table, table),
        (None, None),
    )
    versions = versions_of(batch, 1)
    assert versions.keys == [2, 1]
    assert (versions.seq.tolist(), versions.occ_time.tolist()) == ([1, 3], [50, 52])
    assert versions.withdrawn.tolist() == [False, True]


def test_a_class_without_attributes_is_one_like_any_other():
    one = events("ON ANNOUNCEMENT DO a()", attributes="", key="")
    numbers = np.array([1, 2])
    kind = np.full(2, ASSERT, np.uint8)
    columns = (np.zeros(2, np.int16), np.arange(2), numbers, numbers + 50, numbers, kind)
    versions = versions_of(Batch((one.event_class,), *columns, (pa.table({}),), (None,)), 0)
    assert versions.keys == [1, 2]
    read(one.state.view, versions, 10, 10)
    assert as_of_now(one.state.view)["seq"].to_pylist() == [1, 2]


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
CHOICES = (
    ("b", "BOOLEAN", [True, False, None]),
    ("i", "INT", [1, -(2**31), None]),
    ("l", "BIGINT", [2**62, -5, None]),
    ("d", "DOUBLE", [1.5, float("inf"), None]),
    ("n", "NUMERIC(38,2)", [Decimal("123456789012345678901234567890.12"), Decimal("-0.01"), None]),
    ("s", "VARCHAR(9)", ["", "ä", "long text", None]),
    ("t", "TIMESTAMP", [MOMENT, None]),
    ("y", "DATE", [date(2026, 1, 2), None]),
)


@pytest.mark.parametrize("seed", range(15))
def test_the_view_and_what_is_read_are_those_of_a_dictionary(seed):
    chance = random.Random(seed)
    kinds = ", ".join(f"{name} {kind}" for name, kind, _ in CHOICES)
    asks = " AND ".join(f"OLD.{name} IS NULL" for name, _, _ in CHOICES)
    two_keys = seed % 2 == 0
    one = events(f"ON {asks} DO a()", attributes=f"k INT, j VARCHAR(5), {kinds}", key="k, j" if two_keys else "k")
    view = one.state.view
    model: dict[Any, Any] = {}
    for tick in range(10, 400, 10):
        rows = []
        for _ in range(chance.randrange(12)):
            occ = None if chance.random() < 0.25 else chance.randrange(500)
            values = [chance.choice(choices) for _, _, choices in CHOICES]
            rows.append((occ, tick - 3, (chance.randrange(8), chance.choice("uv"), *values)))
        first = one.seq
        sight = read(view, one.versions(rows), tick, 10)
        last: dict[Any, Any] = {}
        for seq, (occ, det, written) in enumerate(rows, first):
            key = written[:2] if two_keys else written[0]
            last.pop(key, None)
            last[key] = (occ, det, seq, written)
        assert sight.keys.tolist() == list(last)
        assert sight.new_seq.tolist() == [seq for _, _, seq, _ in last.values()]
        assert sight.facts.has_old.tolist() == [key in model for key in last]
        for row, key in enumerate(last):
            names = [a.name for a in one.event_class.attributes]
            assert tuple(sight.new[name][row].as_py() for name in names) == last[key][3]
            old = model[key][3][2:] if key in model else (None,) * len(CHOICES)
            assert tuple(sight.old[name][row].as_py() for name, _, _ in CHOICES) == old
            if key in model:
                assert sight.facts.old_occ[row] == model[key][0]
        for key, version in last.items():
            model.pop(key, None)
            if version[0] is not None:
                model[key] = version
        gone = [key for key in model if chance.random() < 0.05]
        purge(view, np.array([view.slots[key] for key in gone], np.int64))
        model = {key: version for key, version in model.items() if key not in gone}
        table = as_of_now(view)
        assert table["seq"].to_pylist() == [seq for _, _, seq, _ in model.values()]
        assert list(zip(*(c.to_pylist() for c in table.columns[:10]), strict=True)) == [v for *_, v in model.values()]
        assert table["occ_time"].cast(pa.int64()).to_pylist() == [occ for occ, *_ in model.values()]
        assert set(view.slots) == set(model)
        assert view.used <= 64
