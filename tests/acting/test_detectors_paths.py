"""Paths into JSON, and what an item becomes as an event."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from augury.algebra.wiring import Detection, SourceKind
from augury.api import compile as compile_program
from augury.detectors.paths import ABSENT, BadPath, found_at, parse_field, parse_path, value_at
from augury.detectors.sensor import BadDetector, Item
from augury.detectors.shape import event_of, shape_of
from tests.acting.sensing import PROGRAM

DOCUMENT: dict[str, object] = {"a": {"b": [{"c": 1}, {"c": 2}, {}]}, "none": [], "null": None, "odd name": {"it's": 3}}
DELIVERY = Detection("Delivery", "Delivery", SourceKind.HTTP, "http://a")


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("$.a.b[*].c", [1, 2]),
        ("a.b[*]", [{"c": 1}, {"c": 2}, {}]),
        ("$", [DOCUMENT]),
        ("$['a']['b'][-1]", [{}]),
        ("$.a.b[1].c", [2]),
        ("$['odd name'][\"it's\"]", [3]),
        ("$['odd name']['it\\'s']", [3]),
        ("$.none[*]", []),
        ("$.null", [None]),
        ("$.a.x", None),
        ("$.a.b[9]", None),
        ("$.a[*]", None),
        ("$.null[*]", None),
        ("$ . a . b [ 0 ] . c ", [1]),
    ],
)
def test_a_path_leads_somewhere(path, there):
    assert found_at(parse_path(path), DOCUMENT) == there


def test_one_value():
    assert value_at(parse_field("a.b[0].c"), DOCUMENT) == 1
    assert value_at(parse_field("null"), DOCUMENT) is None
    assert value_at(parse_field("a.c"), DOCUMENT) is ABSENT


@pytest.mark.parametrize(
    ("path", "at"),
    [("", 0), ("a..b", 1), ("$.a[?(@.b)]", 3), ("a.b[", 3), ("a b", 2), ("$$", 1), ("a['b]", 1), ("1a", 0), ("$a", 1)],
)
def test_a_bad_path_is_pointed_at(path, at):
    with pytest.raises(BadPath) as error:
        parse_path(path)
    message, shown, mark = str(error.value).split("\n")
    assert "$.deliveries[*]" in message
    assert shown == f"  {path}"
    assert mark.index("^") == at + 2


def test_a_field_is_one_value():
    with pytest.raises(BadPath, match=r"write \[0\]"):
        parse_field("a[*]")


def event(item: Item, **more: Any) -> dict[str, object] | None:
    return event_of(shape_of(PROGRAM, replace(DELIVERY, **more)), item, 1_000_000)


def test_fields_and_names_make_an_event():
    item = Item({"Item": "milk", "amount": Decimal("2"), "due": "2026-01-01", "other": 7})
    assert event(item, fields=(("resource", "Item"), ("occTime", "due"))) == {
        "event": "Delivery",
        "resource": "milk",
        "amount": Decimal("2"),
        "occ_time": "2026-01-01",
        "det_time": "1970-01-01T00:00:01Z",
    }


def test_what_is_spelled_out_gets_its_type():
    item = Item({"RESOURCE": "12", "amount": " 2.50 ", "occ_time": "1767258000"}, is_text=True)
    found = event(item)
    assert found is not None
    assert (found["resource"], found["amount"], found["occ_time"]) == ("12", Decimal("2.50"), 1767258000)
    found = event(Item({"resource": "milk", "amount": "two"}, is_text=True))
    assert found is not None
    assert found["amount"] == "two"  # for the engine to refuse, with the reason


def test_only_an_event_withdraws_or_names_its_class():
    row = {"event": "Other", "resource": "milk", "occ_time": None}
    assert event(Item(row, is_event=True)) is None
    as_item = event(Item(row))
    assert as_item is not None
    assert "occ_time" not in as_item
    assert (event(Item({**row, "event": "delivery"}, is_event=True)) or {}).get("occ_time", 0) is None


def test_foreign_names_go_as_the_source_has_them():
    program = compile_program(
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS Stock (item VARCHAR, n INT) ID (item) LIFESPAN (1d);"
        "SOURCE Stock FROM COLUMNS (article AS item, ts AS occ_time);"
    )
    shape = shape_of(program, Detection("Stock", "Stock", SourceKind.HTTP, "http://a"))
    found = event_of(shape, Item({"article": "milk", "n": 3, "ts": 5}), 0)
    assert found == {"event": "Stock", "article": "milk", "n": 3, "ts": 5, "det_time": "1970-01-01T00:00:00Z"}
    assert shape.key == ("article",)


def test_an_unknown_attribute_is_refused():
    with pytest.raises(BadDetector, match="it has resource, amount"):
        shape_of(PROGRAM, replace(DELIVERY, fields=(("amout", "a"),)))
