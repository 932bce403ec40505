"""Paths into JSON, and what an item becomes as an event."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from augury.algebra.wiring import Detection, SourceKind
from augury.api import check
from augury.api import compile as compile_program
from augury.detectors.opening import opened
from augury.detectors.paths import ABSENT, BadPath, found_at, parse_field, parse_path, value_at
from augury.detectors.sensor import BadDetector, Item
from augury.detectors.shape import event_of, shape_of
from augury.environment import real
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


# ---- what `check` knows of them before anything runs


def checked(detect: str) -> Any:
    declared = (
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS Delivery (resource TEXT, amount INT) ID (resource) LIFESPAN (14d);"
    )
    return check(f"{declared}\nDETECT Delivery FROM {detect};")


TEXTS: tuple[str, ...] = (
    "item",
    "$.a[*]",
    "a[0]['b c']",
    "a..b",
    "td.name",
    "td.name@id",
    "@id",
    "tr:::x",
    "tr >",
    "xpath:./td[2]",
)
TEXTS += ("xpath:./td[", "xpath:count(td) + 1", "a[", "*", "a:not(.b)", "a, b", "$", "[*]", "xpath:")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("clause", ["ITEMS '{}' FIELDS (resource = '@id')", "ITEMS 'tr' FIELDS (resource = '{}')"])
def test_a_page_opens_where_check_finds_nothing_amiss(text: str, clause: str) -> None:
    found = checked(f"HTML 'http://127.0.0.1/' EVERY 1h {clause.format(text)}")
    items = text if "ITEMS '{}'" in clause else "tr"
    path = "@id" if "ITEMS '{}'" in clause else text
    wanted = Detection("d", "Delivery", SourceKind.HTML, "http://127.0.0.1/", 1, items, (("resource", path),))
    assert (found.program is not None) == opens(wanted)


@pytest.mark.parametrize("text", TEXTS)
def test_a_listing_opens_where_check_finds_nothing_amiss(text: str) -> None:
    for clause, more in (
        (f"ITEMS '{quoted(text)}'", {"items": text}),
        (f"FIELDS (resource = '{quoted(text)}')", {"fields": (("resource", text),)}),
        (f"NEXT '{quoted(text)}'", {"next_page": text}),
    ):
        found = checked(f"HTTP 'http://127.0.0.1/' EVERY 1h {clause}")
        wanted = Detection("d", "Delivery", SourceKind.HTTP, "http://127.0.0.1/", 1, **more)
        assert (found.program is not None) == opens(wanted), clause


def quoted(text: str) -> str:
    return text.replace("'", "''")


def opens(wanted: Detection) -> bool:
    """Whether a detector can be made of it."""

    async def work() -> bool:
        async with real() as environment:
            try:
                opened(PROGRAM, environment, [wanted])
            except BadDetector:
                return False
            return True

    return asyncio.run(work())


def test_check_loads_readers_of_pages_only_for_pages() -> None:
    """Everything else is checked without them."""
    script = (
        "import sys\nfrom augury.api import check\n"
        "declared = 'CREATE MUTABLE SUBSCRIBED EVENT CLASS A (b TEXT) ID (b) LIFESPAN (1d);'\n"
        "for detect in sys.argv[1:]:\n"
        "    assert check(declared + detect).program is not None\n"
        "    print(*sorted(sys.modules.keys() & {'lxml', 'cssselect', 'numba', 'duckdb', 'pyarrow'}))\n"
    )
    programs = [
        "DETECT A FROM HTTP 'http://a/' EVERY 1h ITEMS '$.a[*]';",
        "DETECT A FROM HTML 'http://a/' EVERY 1h ITEMS 'tr' FIELDS (b = 'td');",
        "DETECT A FROM HTML 'http://a/' EVERY 1h ITEMS 'xpath://tr' FIELDS (b = 'td');",
    ]
    words = [sys.executable, "-c", script, *programs]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == ["", "cssselect", "cssselect lxml"]
