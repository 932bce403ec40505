"""What a detector's buffer lets through, against a naive model: someone who applies what is forwarded knows it all."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury import limits
from augury.algebra.wiring import Detection, Forward, SourceKind
from augury.detectors.buffer import BufferState, Found, Rule, buffered, loaded_buffer, saved_buffer
from augury.detectors.sensor import Item
from augury.detectors.shape import event_of, shape_of
from tests.acting.sensing import PROGRAM

DETECTION = Detection("deliveries", "Delivery", SourceKind.HTTP, "http://a")
SHAPE = shape_of(PROGRAM, DETECTION)
CHANGED = Rule("deliveries", SHAPE, Forward.CHANGED)
WITHDRAWS = Rule("deliveries", SHAPE, Forward.CHANGED, withdraws=True)
ALL = Rule("deliveries", SHAPE)


def found(listing: dict[str, Any], now_us: int = 0) -> list[Found]:
    items = (Item({"resource": name, "amount": amount}) for name, amount in listing.items())
    return [Found(event) for item in items if (event := event_of(SHAPE, item, now_us)) is not None]


def told(events: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(e["resource"], "gone" if e.get("occ_time", 0) is None else e["amount"]) for e in events]


LOOKS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), max_size=6),
        st.sampled_from(["whole", "part", "crash"]),
    ),
    max_size=12,
)


@settings(max_examples=300)
@given(looks=LOOKS, withdraws=st.booleans(), forward=st.sampled_from(Forward))
def test_who_applies_what_is_forwarded_knows_what_the_source_shows(looks, withdraws, forward):
    rule = Rule("deliveries", SHAPE, forward, withdraws)
    state, ids = BufferState(1), set()
    view: dict[object, object] = {}
    for now_us, (listing, kind) in enumerate(looks, 2):
        before = dict(view)
        events, after = buffered(rule, state, found(listing, now_us), now_us, whole=kind == "whole")
        if kind == "crash":
            continue  # neither the events nor the state were kept: the next look starts from the same state
        state = loaded_buffer(saved_buffer(after))
        for event in events:
            assert event["event_id"] not in ids
            ids.add(event["event_id"])
            if event.get("occ_time", 0) is None:
                del view[event["resource"]]  # only what is there is ever withdrawn
            else:
                view[event["resource"]] = event["amount"]
        gone = set(before) - set(listing) if withdraws and kind == "whole" else set()
        assert view == {name: a for name, a in {**before, **listing}.items() if name not in gone}
        if forward is Forward.ALL:
            assert len(events) == len(listing) + len(gone)
        elif withdraws:
            changed = [name for name, amount in listing.items() if before.get(name) != amount]
            assert len(events) == len(changed) + len(gone)


def test_what_changes_back_is_a_new_version():
    state, ids = BufferState(1), []
    for amount in (1, 2, 1):
        events, state = buffered(CHANGED, state, found({"milk": amount}), 5, whole=True)
        ids += [event["event_id"] for event in events]
    assert len(set(ids)) == 3


def test_what_vanished_and_comes_back_is_new():
    state, all_told = BufferState(1), []
    for listing in ({"milk": 1}, {}, {"milk": 1}):
        events, state = buffered(WITHDRAWS, state, found(listing), 5, whole=True)
        all_told += told(events)
    assert all_told == [("milk", 1), ("milk", "gone"), ("milk", 1)]


def test_a_withdrawal_names_the_key_and_no_time():
    _, state = buffered(WITHDRAWS, BufferState(1), found({"milk": 1}), 5, whole=True)
    (event,), _ = buffered(WITHDRAWS, state, [], 1_000_000, whole=True)
    del event["event_id"]
    assert event == {"event": "Delivery", "resource": "milk", "occ_time": None, "det_time": "1970-01-01T00:00:01Z"}


def test_a_listing_that_breaks_off_withdraws_nothing():
    _, state = buffered(WITHDRAWS, BufferState(1), found({"milk": 1, "eggs": 2}), 5, whole=True)
    events, state = buffered(WITHDRAWS, state, found({"eggs": 3}), 6, whole=False)
    assert told(events) == [("eggs", 3)]
    events, _ = buffered(WITHDRAWS, state, found({"eggs": 3}), 7, whole=True)
    assert told(events) == [("milk", "gone")]


def test_the_same_number_written_differently_is_no_change():
    state = BufferState(1)
    _, state = buffered(CHANGED, state, found({"milk": Decimal("1.50")}), 5, whole=True)
    for amount in (1.5, Decimal("1.5"), Decimal("15E-1")):
        events, state = buffered(CHANGED, state, found({"milk": amount}), 5, whole=True)
        assert events == []
    events, _ = buffered(CHANGED, state, found({"milk": "1.5"}), 5, whole=True)
    assert len(events) == 1


def test_equal_looks_after_equal_states_give_equal_ids():
    for rule in (ALL, CHANGED, WITHDRAWS):
        once, _ = buffered(rule, BufferState(7), found({"milk": 1}), 5, whole=True)
        again, _ = buffered(rule, BufferState(7), found({"milk": 1}), 5, whole=True)
        later, _ = buffered(rule, BufferState(8), found({"milk": 1}), 5, whole=True)
        assert once == again
        assert once[0]["event_id"] != later[0]["event_id"]


def test_an_id_of_the_source_and_a_place_in_it_count():
    own = Found({"event": "Delivery", "resource": "milk", "event_id": "7"})
    placed = Found({"event": "Delivery", "resource": "milk"}, "file:17")
    first, _ = buffered(ALL, BufferState(1), [own, placed], 5, whole=False)
    again, _ = buffered(ALL, BufferState(2, 40), [own, placed], 9, whole=False)
    assert first[0]["event_id"] == "7"
    assert [event["event_id"] for event in first] == [event["event_id"] for event in again]


def test_a_source_that_withdraws_by_itself_is_told_once():
    event = {"event": "Delivery", "resource": "milk", "occ_time": None}
    _, state = buffered(WITHDRAWS, BufferState(1), found({"milk": 1}), 5, whole=True)
    events, state = buffered(WITHDRAWS, state, [Found(event)], 6, whole=True)
    assert told(events) == [("milk", "gone")]
    assert buffered(WITHDRAWS, state, [Found(event)], 7, whole=True)[0] == []
    assert buffered(WITHDRAWS, state, [], 7, whole=True)[0] == []


def test_memory_has_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "DETECTOR_KEYS_MAX", 2)
    _, state = buffered(CHANGED, BufferState(1), found({"a": 1, "b": 1, "c": 1}), 5, whole=False)
    events, _ = buffered(CHANGED, state, found({"b": 1, "c": 1, "a": 1}), 6, whole=False)
    assert told(events) == [("a", 1)]  # forgotten, and so it is new again
