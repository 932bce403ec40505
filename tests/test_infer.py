"""`augury infer`: each format, each guess, each way in which data is broken; and that a draft fits its data."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from augury import limits
from augury import types as t
from augury.api import check
from augury.diagnostics import Findings, Severity
from augury.infer import Draft, infer
from augury.language import syntax as s
from augury.language.formatter import format_text
from augury.language.parser import parse

NOON = "2026-01-01T12:00:00Z"


def statements_of(draft: Draft) -> tuple[s.Statement, ...]:
    """The statements of a draft, which has to parse, pass `check` and be as `fmt` would have it."""
    findings = Findings()
    parsed = parse(draft.program, findings)
    assert findings.sorted() == (), draft.program
    assert check(draft.program).diagnostics == (), draft.program
    assert not draft.program or format_text(draft.program) == draft.program
    return parsed.program.statements


def classes_of(draft: Draft) -> dict[str, s.SubscribedClass]:
    return {x.name.text: x for x in statements_of(draft) if isinstance(x, s.SubscribedClass)}


def mappings_of(draft: Draft) -> dict[str, str]:
    sources = [x for x in statements_of(draft) if isinstance(x, s.SourceStatement)]
    return {c.foreign.text: c.name.text for source in sources for c in source.columns}


def types_of(class_: s.SubscribedClass) -> dict[str, str]:
    return {a.name.text: str(type_of(a.type)) for a in class_.attributes}


def type_of(ref: s.TypeRef) -> t.Type:
    found = t.parse_type(ref.name.text, ref.parameters)
    assert found is not None
    return found


def key_of(class_: s.SubscribedClass) -> tuple[str, ...]:
    return tuple(name.text for name in class_.key)


def only(draft: Draft) -> s.SubscribedClass:
    (class_,) = classes_of(draft).values()
    return class_


def jsonl(folder: Path, *rows: Any, name: str = "orders.jsonl") -> Draft:
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return infer(file)


def csv_of(folder: Path, text: str, name: str = "orders.csv") -> Draft:
    file = folder / name
    file.write_text(text, "utf-8")
    return infer(file)


def parquet_of(folder: Path, table: pa.Table, name: str = "orders.parquet") -> Draft:
    parquet.write_table(table, folder / name)
    return infer(folder / name)


def noted(draft: Draft, words: str) -> bool:
    """Whether a note says so, and a comment of the program too."""
    program = " ".join(draft.program.replace("\n--", "").split())
    return any(words in note for note in draft.notes) and words in program


# ---- whole drafts ----------------------------------------------------------------------------------------


def test_a_draft_of_json_lines_reads_exactly_so(tmp_path):
    draft = jsonl(
        tmp_path,
        {"event": "Order", "ts": NOON, "order_id": 1, "amount": 9.5, "from": "A", "tags": ["x"]},
        {"event": "Order", "ts": NOON, "order_id": 2, "amount": 10, "from": None},
        {"event": "Delivery", "occ_time": NOON, "resource": "milk", "amount": 4},
        {"event": "Delivery", "occ_time": None, "resource": "milk"},
    )
    assert draft.program == (
        "-- Drafted by `augury infer` from orders.jsonl, 4 rows: guesses to check.\n"
        "\n"
        "-- Order: 2 rows.\n"
        "-- Key: `order_id` is different in all 2 rows, but there are few.\n"
        "-- LIFESPAN (1d) is a default, not read from the data: set it to how long it counts.\n"
        "-- `ts` is taken for occ_time by its name.\n"
        "-- `tags` is left out: it holds arrays.\n"
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Order (order_id INT, amount DOUBLE, from STRING)\n"
        "  ID (order_id) LIFESPAN (1d);\n"
        "\n"
        "SOURCE Order FROM COLUMNS (ts AS occ_time);\n"
        "\n"
        "-- Delivery: 2 rows.\n"
        "-- Key: every row names `resource`, among them 1 withdrawal (occ_time is null).\n"
        "-- LIFESPAN (30d) is a default, not read from the data: set it to how long it may still change.\n"
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS Delivery (resource STRING, amount INT)\n"
        "  ID (resource) LIFESPAN (30d);\n"
    )
    assert len(statements_of(draft)) == 3
    assert draft.problems == ()
    assert (draft.rows_read, draft.rows_skipped) == (4, 0)


def test_every_note_is_a_comment_of_the_program(tmp_path):
    draft = csv_of(tmp_path, "id;zip;n\n1;007;x\n2;010;5\n")
    assert len(draft.notes) >= 4
    for note in draft.notes:
        assert noted(draft, note.removeprefix("Orders: "))


# ---- formats ---------------------------------------------------------------------------------------------

ROWS = [{"event": "Order", "occ_time": NOON, "id": 1}, {"event": "Order", "occ_time": NOON, "id": 2}]
AS_JSON = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
AS_CSV = f"event,occ_time,id\nOrder,{NOON},1\nOrder,{NOON},2\n".encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.jsonl", AS_JSON),
        ("data.ndjson", AS_JSON),
        ("data.json", AS_JSON),
        ("DATA.JSONL", AS_JSON),
        ("data.jsonl.gz", gzip.compress(AS_JSON, mtime=0)),
        ("data.jsonl.gz", AS_JSON),
        ("data.csv", AS_CSV),
        ("data.csv", AS_CSV.replace(b"\n", b"\r\n")),
        ("data.tsv", AS_CSV.replace(b",", b"\t")),
        ("data.csv", AS_CSV.replace(b",", b";")),
        ("data.csv.gz", gzip.compress(AS_CSV, mtime=0)),
        ("data.csv", gzip.compress(AS_CSV, mtime=0)),
        ("data", AS_JSON),
        ("data.log", AS_CSV),
        ("data.bin", gzip.compress(AS_JSON, mtime=0)),
        ("data.jsonl", b"\xef\xbb\xbf" + AS_JSON),
        ("data.csv", b"\xef\xbb\xbf" + AS_CSV),
        ("data.jsonl", b"\n\n" + AS_JSON.replace(b"\n", b"\n\n")),
        ("data.json", json.dumps(ROWS, indent=2).encode()),
    ],
)
def test_a_text_format_is_recognised(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    draft = infer(tmp_path / name)
    assert draft.problems == ()
    assert types_of(classes_of(draft)["Order"]) == {"id": "INT"}
    assert key_of(only(draft)) == ("id",)
    assert draft.rows_read == 2


@pytest.mark.parametrize("name", ["data.parquet", "data.pq", "data"])
def test_parquet_is_recognised(tmp_path, name):
    draft = parquet_of(tmp_path, pa.Table.from_pylist(ROWS), name)
    assert types_of(classes_of(draft)["Order"]) == {"id": "BIGINT"}


def test_a_json_array_is_taken_with_a_note(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps(ROWS))
    assert noted(infer(tmp_path / "data.json"), "one object a line")


def test_another_separator_is_noted(tmp_path):
    assert noted(csv_of(tmp_path, "a|b\n1|2\n"), "separated by `|`")


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("orders-2026.jsonl", "Orders2026"),
        ("card_payments.jsonl.gz", "CardPayments"),
        ("2026.jsonl", "2026"),
        ("start.jsonl", "Start"),
        ("größe.jsonl", "Größe"),
        ("---.jsonl", "Events"),
        ("a.b.jsonl", "AB"),
    ],
)
def test_without_event_the_class_is_named_after_the_file(tmp_path, name, class_name):
    draft = jsonl(tmp_path, {"occ_time": NOON, "id": 1}, name=name)
    assert list(classes_of(draft)) == [class_name]
    assert noted(draft, "no `event` field")


def test_an_event_column_splits_classes(tmp_path):
    draft = csv_of(tmp_path, f"event,occ_time,a,b\nA,{NOON},1,\nB,{NOON},,x\n")
    assert {name: types_of(c) for name, c in classes_of(draft).items()} == {
        "A": {"a": "INT", "b": "STRING"},
        "B": {"a": "STRING", "b": "STRING"},
    }


def test_odd_class_names_are_quoted_and_case_does_not_matter(tmp_path):
    rows = [{"event": name, "occ_time": NOON} for name in ("Order", "ORDER", "select", "a b", "b`c", "_", "x-1")]
    draft = jsonl(tmp_path, *rows)
    assert list(classes_of(draft)) == ["Order", "select", "a b", "b`c", "_", "x-1"]
    assert noted(draft, "spelt `ORDER`, `Order`")


def test_reserved_fields_are_no_attributes(tmp_path):
    row = {"event": "A", "event_id": "e1", "occ_time": NOON, "det_time": NOON, "seq": 1, "change": "announce",
           "constituents": [1], "Det_Time": None, "x": 1}  # fmt: skip
    draft = jsonl(tmp_path, row)
    assert types_of(only(draft)) == {"x": "INT"}
    assert mappings_of(draft) == {}
    assert noted(draft, "`change` is left out")


# ---- a folder --------------------------------------------------------------------------------------------


def test_a_folder_is_read_file_by_file(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(AS_JSON)
    (tmp_path / "b.csv").write_text("id,x\n1,2\n")
    (tmp_path / "readme.txt").write_text("hello")
    (tmp_path / "_SUCCESS").write_text("")
    parquet.write_table(pa.table({"y": ["v"]}), tmp_path / "c.parquet")
    draft = infer(tmp_path)
    assert sorted(classes_of(draft)) == ["B", "C", "Order"]
    assert noted(draft, "readme.txt")
    assert "_SUCCESS" not in draft.program


def test_parts_of_one_whole_are_one_class(tmp_path):
    folder = tmp_path / "payments"
    folder.mkdir()
    (folder / "part-00000-abc.csv").write_text("id,x\n1,2\n")
    (folder / "part-00001-def.csv").write_text("id,x\n2,2.5\n")
    (folder / "refund-2026-01.csv").write_text("id,x\n1,2\n")
    (folder / "refund-2026-02.csv").write_text("id,x\n2,3\n")
    classes = classes_of(infer(folder))
    assert {name: types_of(c) for name, c in classes.items()} == {
        "Payments": {"id": "INT", "x": "DOUBLE"},
        "refund".title(): {"id": "INT", "x": "INT"},
    }


def test_each_file_of_a_folder_gets_its_share_of_rows(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("id\n" + "".join(f"{i}\n" for i in range(100)))
    draft = infer(tmp_path, rows_max=50)
    assert draft.rows_read == 50
    assert noted(draft, "Only the first 25 rows of `b.csv`")


def test_one_bad_file_of_a_folder_does_not_stop_the_others(tmp_path):
    (tmp_path / "a.parquet").write_text("nonsense")
    (tmp_path / "b.csv").write_text("id\n1\n")
    draft = infer(tmp_path)
    assert list(classes_of(draft)) == ["B"]
    assert [(p.code, p.severity) for p in draft.problems] == [("E510", Severity.WARNING)]


# ---- types -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([True, False], "BOOLEAN"),
        ([1, -5], "INT"),
        ([1, 2**31], "BIGINT"),
        ([-(2**31), 2**31 - 1], "INT"),
        ([2**63 - 1], "BIGINT"),
        ([1, 2**63], "NUMERIC(38,0)"),
        ([10**38], "STRING"),
        ([1, 1.5], "DOUBLE"),
        ([2.0], "DOUBLE"),
        ([2**40, 1.5], "DOUBLE"),
        ([1, None], "INT"),
        (["x"], "STRING"),
        (["12"], "STRING"),
        (["2026-01-01T10:00:00Z", "2026-01-01 10:00", "2026-01-01T10:00:00.123456+02:00"], "TIMESTAMP"),
        (["2026-01-01"], "DATE"),
        (["2026-01-01", "2026-01-01T10:00:00"], "TIMESTAMP"),
        (["2026-02-30"], "STRING"),
        (["2026-01-01T25:00:00Z"], "STRING"),
        (["0001-01-01T00:00:00+05:00"], "STRING"),
        (["2026-01-01", "soon"], "STRING"),
        ([1, True], "STRING"),
        ([1, "x"], "STRING"),
        ([None], "STRING"),
        (["a\nb", "\x00\ud800"], "STRING"),
    ],
)
def test_the_type_of_json_values(tmp_path, values, type_):
    draft = jsonl(tmp_path, *({"occ_time": NOON, "v": value} for value in values))
    assert types_of(only(draft)) == {"v": type_}


@pytest.mark.parametrize(
    ("cells", "type_"),
    [
        (["1", "-2", ""], "INT"),
        (["0"], "INT"),
        (["3000000000"], "BIGINT"),
        (["1.50", "2"], "DOUBLE"),
        (["1e3"], "DOUBLE"),
        (["1e999"], "STRING"),
        (["9" * 38], "NUMERIC(38,0)"),
        (["9" * 39], "STRING"),
        (["00123", "12345"], "STRING"),
        (["+4366412345"], "STRING"),
        (["true", "FALSE"], "BOOLEAN"),
        (["yes"], "STRING"),
        (["2026-01-01T10:00:00Z"], "TIMESTAMP"),
        (["2026-01-01"], "DATE"),
        (["NaN"], "STRING"),
        (["1", "NA"], "STRING"),
        (['"a,b"', '"c""d"', '"e\nf"'], "STRING"),
    ],
)
def test_the_type_of_csv_cells(tmp_path, cells, type_):
    text = "occ_time,v\n" + "".join(f"{NOON},{cell}\n" for cell in cells)
    draft = csv_of(tmp_path, text)
    assert draft.problems == ()
    assert types_of(only(draft)) == {"v": type_}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, "x"], "`v` is STRING, for it mixes INT (`1`, line 1 of orders.jsonl) and text (`x`, line 2"),
        ([True, 1.5, "x"], "mixes BOOLEAN (`True`"),
        ([None], "always empty"),
        ([{"a": 1}], "`v` is left out: it holds objects."),
        ([1, [2]], "`v` is left out: it holds arrays besides plain values."),
        ([2**60, 0.5], "rounds its largest whole numbers"),
        ([math.nan], "NaN or Infinity"),
        (["2026-01-01", NOON], "midnight in UTC"),
    ],
)
def test_doubts_about_a_type_are_noted(tmp_path, values, words):
    assert noted(jsonl(tmp_path, *({"occ_time": NOON, "v": value} for value in values)), words)


def test_leading_zeros_are_noted(tmp_path):
    assert noted(csv_of(tmp_path, f"occ_time,zip\n{NOON},00123\n"), "leading zeros of `00123`")


ARROW_TYPES = [
    (pa.bool_(), True, "BOOLEAN"),
    (pa.int8(), 1, "INT"),
    (pa.uint16(), 1, "INT"),
    (pa.int32(), 1, "INT"),
    (pa.uint32(), 1, "BIGINT"),
    (pa.int64(), 1, "BIGINT"),
    (pa.uint64(), 1, "NUMERIC(20,0)"),
    (pa.float32(), 1.0, "DOUBLE"),
    (pa.float64(), 1.0, "DOUBLE"),
    (pa.decimal128(12, 2), Decimal("1.25"), "NUMERIC(12,2)"),
    (pa.decimal256(60, 2), Decimal("1.25"), "DOUBLE"),
    (pa.string(), "2026-01-01", "STRING"),
    (pa.large_string(), "x", "STRING"),
    (pa.dictionary(pa.int32(), pa.string()), "x", "STRING"),
    (pa.timestamp("ns", "UTC"), 1_700_000_000_000_000_001, "TIMESTAMP"),
    (pa.timestamp("us"), datetime(2026, 1, 1), "TIMESTAMP"),
    (pa.date32(), date(2026, 1, 1), "DATE"),
    (pa.null(), None, "STRING"),
]


@pytest.mark.parametrize(("arrow", "value", "type_"), ARROW_TYPES, ids=lambda x: str(x))
def test_the_type_of_parquet_columns(tmp_path, arrow, value, type_):
    column = pa.array([value, None], arrow)
    draft = parquet_of(tmp_path, pa.table({"occ_time": [NOON, NOON], "v": column}))
    assert types_of(only(draft)) == {"v": type_}
    # The schema counts, whatever the values.
    empty = parquet_of(tmp_path, pa.table({"occ_time": [NOON], "v": pa.nulls(1, arrow)}))
    assert types_of(only(empty)) == {"v": type_}


@pytest.mark.parametrize(
    ("arrow", "value", "words"),
    [
        (pa.list_(pa.int32()), [1], "arrays"),
        (pa.struct([("a", pa.int32())]), {"a": 1}, "objects"),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], "objects"),
        (pa.binary(), b"x", "bytes"),
        (pa.time64("us"), 1, "times of day"),
    ],
)
def test_parquet_columns_that_no_attribute_can_hold_are_left_out(tmp_path, arrow, value, words):
    table = pa.table({"event": ["A"], "occ_time": [NOON], "v": pa.array([value], arrow), "w": [1]})
    draft = parquet_of(tmp_path, table)
    assert types_of(only(draft)) == {"w": "BIGINT"}
    assert noted(draft, f"`v` is left out: it holds {words}")
    alone = parquet_of(tmp_path, table.select(["v"]))
    assert types_of(only(alone)) == {}
    assert alone.rows_read == 1


def test_an_empty_parquet_file_still_has_its_schema(tmp_path):
    draft = parquet_of(tmp_path, pa.table({"ts": pa.array([], pa.timestamp("us")), "id": pa.array([], pa.int32())}))
    assert types_of(only(draft)) == {"id": "INT"}
    assert mappings_of(draft) == {"ts": "occ_time"}
    assert key_of(only(draft)) == ()


def test_parquet_columns_with_dots_or_one_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["x"]), pa.array([True])], ["a.b", "c", "a"])
    assert types_of(only(parquet_of(tmp_path, table))) == {"a.b": "BIGINT", "c": "STRING", "a": "BOOLEAN"}
    twice = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], ["a", "a"])
    draft = parquet_of(tmp_path, twice)
    assert types_of(only(draft)) == {"a": "BIGINT"}
    assert noted(draft, "several columns of one name")


# ---- keys ------------------------------------------------------------------------------------------------


def drafted_key(folder: Path, columns: dict[str, Sequence[Any]], event: str = "Order") -> tuple[bool, tuple[str, ...]]:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    # A det_time of its own keeps rows that are otherwise equal from being one event delivered twice.
    times = [f"2026-01-01T12:00:{i % 60:02d}.{i:06d}Z" for i in range(len(rows))]
    draft = jsonl(folder, *({"event": event, "det_time": x, **row} for x, row in zip(times, rows, strict=True)))
    class_ = only(draft)
    assert sum("Key: " in note for note in draft.notes) == 1
    return class_.mutable, key_of(class_)


@pytest.mark.parametrize(
    ("columns", "mutable", "key"),
    [
        ({"id": [1, 2, 3], "x": [1, 1, 1]}, False, ("id",)),
        ({"id": [1]}, False, ("id",)),
        ({"customer_id": [1]}, False, ()),
        ({"x": [1, 2, 3]}, False, ()),
        ({"orderId": [1, 2, 3]}, False, ("orderId",)),
        ({"customer_id": [1, 1, 2], "order_id": [1, 2, 3]}, False, ("order_id",)),
        ({"customer_id": [3, 1, 2], "order_id": [1, 2, 3]}, False, ("order_id",)),
        ({"order_no": ["a", "b"]}, False, ("order_no",)),
        ({"id": [1, 2, 1]}, True, ("id",)),
        ({"order_id": [1, 2, 1, 1, 1]}, True, ("order_id",)),
        ({"parcel_id": [1, 2, 1]}, True, ("parcel_id",)),
        ({"customer_id": [1, 1, 1, 2, 1]}, False, ()),
        ({"id": [1] * 30}, False, ()),
        ({"order_id": [1, 1, 2], "line": [1, 2, 1]}, False, ("order_id", "line")),
        ({"store_id": [1, 1, 2], "till_id": [1, 2, 1]}, False, ("store_id", "till_id")),
        ({"store_id": [1, 1, 1, 2], "day": ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-01"]}, False,
         ("store_id", "day")),
        ({"id": [-1, -2]}, False, ("id",)),
        ({"id": [1, None, 3]}, False, ()),
        ({"id": [1.5, 2.5]}, False, ()),
        ({"ticket": [f"t{i}" for i in range(30)]}, False, ("ticket",)),
        ({"ticket": list(range(30))}, False, ("ticket",)),
        ({"amount": [(7 * i) % 31 for i in range(30)]}, False, ()),
        ({"text": [f"{'x' * 50}{i}" for i in range(30)]}, False, ()),
    ],
)  # fmt: skip
def test_the_key(tmp_path, columns, mutable, key):
    assert drafted_key(tmp_path, columns) == (mutable, key)


def test_a_row_delivered_twice_repeats_no_key(tmp_path):
    row = {"event": "Order", "occ_time": NOON, "id": 1}
    class_ = only(jsonl(tmp_path, row, row, {**row, "id": 2}))
    assert (class_.mutable, key_of(class_)) == (False, ("id",))
    named = {"event": "Order", "event_id": "e", "id": 1}
    class_ = only(jsonl(tmp_path, {**named, "x": 1}, {**named, "x": 2}))
    assert (class_.mutable, key_of(class_)) == (False, ("id",))


@pytest.mark.parametrize(
    ("rows", "mutable", "key"),
    [
        ([{"id": 1, "x": 1}, {"id": 1, "occ_time": None}], True, ("id",)),
        ([{"resource": "a", "x": 1}, {"resource": "a", "occ_time": None}], True, ("resource",)),
        ([{"a": 1, "b": 2, "x": 3}, {"a": 1, "b": 2, "occ_time": None}], True, ("a", "b")),
        ([{"a": 1, "b": 2, "x": 3}, {"a": 1, "b": 2, "x": 3, "occ_time": None}], False, ()),
        ([{"id": 1, "occ_time": None}, {"id": 2, "occ_time": None}], False, ("id",)),
    ],
)
def test_withdrawals_make_a_class_mutable(tmp_path, rows, mutable, key):
    class_ = only(jsonl(tmp_path, *({"event": "E", "occ_time": NOON, **row} for row in rows)))
    assert (class_.mutable, key_of(class_)) == (mutable, key)


# ---- times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "mapped"),
    [
        ({"ts": NOON}, {"ts": "occ_time"}),
        ({"timestamp": NOON, "received_at": NOON}, {"timestamp": "occ_time", "received_at": "det_time"}),
        ({"created_at": NOON, "Event-Time": NOON}, {"Event-Time": "occ_time"}),
        ({"occTime": NOON, "ingestedAt": NOON}, {"occTime": "occ_time", "ingestedAt": "det_time"}),
        ({"ts": NOON, "occ_time": NOON}, {}),
        ({"ts": NOON, "det_time": NOON}, {"ts": "occ_time"}),
        ({"ts": 1_767_000_000}, {"ts": "occ_time"}),
        ({"ts": 1_767_000_000.25}, {"ts": "occ_time"}),
        ({"ts": 1_767_000_000_000}, {}),
        ({"time": 12}, {}),
        ({"time": "12:30"}, {}),
        ({"ts": "soon"}, {}),
        ({"date": "2026-01-01"}, {"date": "occ_time"}),
        ({"pickup": NOON, "x": 1}, {"pickup": "occ_time"}),
        ({"received_at": NOON, "pickup": NOON}, {"received_at": "det_time"}),
    ],
)
def test_times_under_foreign_names(tmp_path, row, mapped):
    draft = jsonl(tmp_path, {"event": "E", **row})
    assert mappings_of(draft) == mapped
    assert not set(types_of(only(draft))) & set(mapped)


def test_why_a_column_is_no_time_is_noted(tmp_path):
    millis = jsonl(tmp_path, {"event": "E", "ts": 1_767_000_000_000})
    assert noted(millis, "counts milliseconds")
    assert types_of(only(millis)) == {"ts": "BIGINT"}
    assert noted(jsonl(tmp_path, {"event": "E", "x": 1}), "No field tells the time")
    empty = csv_of(tmp_path, f"event,ts\nE,{NOON}\nE,\n")
    assert mappings_of(empty) == {}
    assert noted(empty, "would withdraw events")
    assert noted(jsonl(tmp_path, {"event": "E", "ts": NOON}, {"event": "E"}), "missing in 1 row")


def test_parquet_times_are_mapped_whether_typed_or_text(tmp_path):
    typed = pa.table({"ts": pa.array([datetime(2026, 1, 1, tzinfo=UTC)]), "received_at": [NOON]})
    assert mappings_of(parquet_of(tmp_path, typed)) == {"ts": "occ_time", "received_at": "det_time"}


# ---- names -----------------------------------------------------------------------------------------------


def test_odd_attribute_names_are_quoted(tmp_path):
    names = ["select", "order", "id", "from", "a b", "1st", "_", "x`y", "ünï", "a.b", "now", "--c", "with", "tab\tbed"]
    draft = jsonl(tmp_path, {"event": "E", "occ_time": NOON, **dict.fromkeys(names, 1)})
    assert list(types_of(only(draft))) == names


def test_names_that_cannot_be_written_are_left_out(tmp_path):
    draft = jsonl(tmp_path, {"event": "E", "occ_time": NOON, "": 1, "a\nb": 1, "c\ud800": 1, "d\x07": 1, "ok": 1})
    assert types_of(only(draft)) == {"ok": "INT"}
    assert noted(draft, "`a\ufffdb` is left out: its name cannot be written")
    assert noted(draft, "has no name")
    draft.program.encode("utf-8")
    assert noted(jsonl(tmp_path, {"event": "a\nb"}, {"event": "ok"}), "The class `a\ufffdb` is left out")


def test_names_equal_but_for_case_are_told_apart(tmp_path):
    draft = jsonl(
        tmp_path, {"event": "E", "occ_time": NOON, "amount": 1, "Amount": "x", "AMOUNT_2": True, "with": 1, "With": 2}
    )
    assert types_of(only(draft)) == {
        "amount": "INT", "Amount_3": "STRING", "AMOUNT_2": "BOOLEAN", "with": "INT", "With_2": "INT",
    }  # fmt: skip
    assert mappings_of(draft) == {"Amount": "Amount_3", "With": "With_2"}
    assert noted(draft, "differs from `amount` in case only")


def test_a_second_column_of_one_name_is_noted(tmp_path):
    draft = csv_of(tmp_path, f"occ_time,a,a\n{NOON},1,x\n")
    assert types_of(only(draft)) == {"a": "INT"}
    assert noted(draft, "several columns of one name")


# ---- bad rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"{broken", "line 2: it is not JSON (Expecting property name"),
        (b"[1, 2]", "line 2: it is an array, not an object"),
        (b"42", "line 2: it is the value `42`, not an object"),
        (b'{"event": "A", "x": "\xff"}', "line 2: it is not UTF-8"),
        (b'{"event": 5}', "line 2: its `event` is not the name of a class"),
        (b'{"x": 5}', "line 2: it has no `event`, though others have"),
        (b'{"event": null}', "line 2: it has no `event`, though others have"),
        (b"[" * 100_000, "line 2: it is nested too deeply"),
        (b'{"event": "A", "x": ' + b"9" * 5000 + b"}", "line 2: "),
    ],
)
def test_a_bad_row_is_counted_and_its_neighbours_go_on(tmp_path, bad, words):
    good = b'{"event": "A", "x": 1}'
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([good, bad, good, bad, good]))
    draft = infer(tmp_path / "a.jsonl")
    (problem,) = draft.problems
    assert problem.code == "E511"
    assert problem.severity is Severity.WARNING
    assert f"2 rows of `a.jsonl` were skipped, the first on {words}" in problem.message
    assert problem.helps
    assert (draft.rows_read, draft.rows_skipped) == (3, 2)
    assert types_of(only(draft)) == {"x": "INT"}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"1,2,3", "line 3: it has 3 cells, the header 2"),
        (b"1", "line 3: it has 1 cells, the header 2"),
        (b"1,\xfc", "line 3: it is not UTF-8"),
        (b"1," + b"x" * 200_000, "line 3: field larger than field limit"),
    ],
)
def test_a_bad_csv_row_is_counted_and_its_neighbours_go_on(tmp_path, bad, words):
    (tmp_path / "a.csv").write_bytes(b"id,x\n" + b"\n".join([b"1,2", bad, b"2,3"]))
    draft = infer(tmp_path / "a.csv")
    (problem,) = draft.problems
    assert f"1 row of `a.csv` was skipped, on {words}" in problem.message
    assert draft.rows_read == 2
    assert types_of(only(draft)) == {"id": "INT", "x": "INT"}


def test_lines_are_counted_through_quoted_cells(tmp_path):
    draft = csv_of(tmp_path, 'id,x\n1,"a\nb\nc"\n\n2\n3,y\n')
    assert "on line 6: it has 1 cells" in draft.problems[0].message


def test_a_line_that_is_too_long_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "INFER_LINE_BYTES_MAX", 100)
    (tmp_path / "a.jsonl").write_text(f'{{"x": 1}}\n{{"x": "{"y" * 1000}"}}\n{{"x": 2}}\n')
    draft = infer(tmp_path / "a.jsonl")
    assert "on line 2: it is longer than 100 bytes" in draft.problems[0].message
    assert types_of(only(draft)) == {"x": "INT"}


def test_rows_max_bounds_what_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n' * 10 + '{"x": "text"}\n' * 10)
    draft = infer(tmp_path / "a.jsonl", rows_max=10)
    assert types_of(only(draft)) == {"x": "INT"}
    assert noted(draft, "Only the first 10 rows of `a.jsonl` were read")
    assert not any("Only the first" in note for note in infer(tmp_path / "a.jsonl", rows_max=20).notes)


def test_too_many_classes_are_cut(tmp_path):
    draft = jsonl(tmp_path, *({"event": f"E{i}", "occ_time": NOON} for i in range(210)))
    assert len(classes_of(draft)) == 200
    assert noted(draft, "more than 200 values; 10 rows")


# ---- bad files -------------------------------------------------------------------------------------------

GOOD_PARQUET = io.BytesIO()
parquet.write_table(pa.table({"x": list(range(1000))}), GOOD_PARQUET)


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("a.jsonl", b"", "E511", "is empty"),
        ("a.jsonl", b" \n\n", "E511", "is empty"),
        ("a.csv", b"", "E511", "is empty"),
        ("a.csv", b"id,x\n", "E511", "has no rows"),
        ("a.parquet", b"", "E511", "is empty"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0), "E511", "is empty"),
        ("a.jsonl", b"not json\nat all\n", "E511", "2 rows of `a.jsonl` were skipped, the first on line 1"),
        ("a.json", b"[1, 2, 3]", "E511", "item 1: it is the value `1`, not an object"),
        ("a.json", b'[{"a": 1},', "E511", "line 1: it is not JSON"),
        ("a.json", b"[]", "E511", "has no rows"),
        ("a.json", b'{\n "a": 1\n}\n', "E511", "3 rows"),
        ("a.csv", b"id\n1,2\n", "E511", "it has 2 cells"),
        ("a.parquet", b"id,x\n1,2\n", "E510", "is not Parquet"),
        ("a.parquet", b"PAR1garbagePAR1", "E510", "no Parquet that can be read"),
        ("a.parquet", GOOD_PARQUET.getvalue()[:-30], "E510", "no Parquet that can be read"),
        ("a.csv", GOOD_PARQUET.getvalue(), "E512", "is Parquet"),
        ("a.parquet.gz", gzip.compress(GOOD_PARQUET.getvalue(), mtime=0), "E512", "Parquet inside gzip"),
        ("a.jsonl", bytes(range(256)), "E512", "is binary"),
        ("a.dat", bytes(range(256)), "E512", "is binary"),
        ("a.csv", "id,x\n1,2\n".encode("utf-16"), "E512", "is UTF-16"),
        ("a.csv", b'{"a": 1}\n', "E512", "looks like JSON"),
        ("a.txt", b"hello world\n", "E512", "is not recognised"),
        ("a.csv", b"id,\xfc\n1,2\n", "E510", "header of `a.csv` is not UTF-8"),
        ("a.jsonl.gz", gzip.compress(AS_JSON, mtime=0)[:5], "E510", "cannot be read"),
        ("a.jsonl.gz", b"\x1f\x8bnonsense", "E510", "cannot be read"),
    ],
)
def test_a_file_that_gives_nothing_is_a_problem(tmp_path, name, content, code, words):
    (tmp_path / name).write_bytes(content)
    draft = infer(tmp_path / name)
    assert draft.program == ""
    (problem,) = draft.problems
    assert problem.code == code
    assert words in problem.message
    assert problem.helps
    assert problem.severity is Severity.ERROR


def test_a_path_that_gives_nothing_is_a_problem(tmp_path):
    (missing,) = infer(tmp_path / "none.jsonl").problems
    assert (missing.code, missing.severity) == ("E510", Severity.ERROR)
    (empty,) = infer(tmp_path).problems
    assert (empty.code, empty.severity) == ("E511", Severity.ERROR)
    (null,) = infer(tmp_path / "a\0b.jsonl").problems
    assert null.code == "E510"


def test_a_large_json_array_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "INFER_ARRAY_BYTES_MAX", 10)
    (tmp_path / "a.json").write_text(json.dumps(ROWS))
    (problem,) = infer(tmp_path / "a.json").problems
    assert problem.code == "E512"
    assert "jq -c" in problem.helps[0]


def test_a_file_that_breaks_off_keeps_its_rows(tmp_path):
    rows = b"".join(b'{"x": %d, "y": "%d"}\n' % (i, i * 7919) for i in range(50_000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(rows, mtime=0)[:-5000])
    draft = infer(tmp_path / "a.jsonl.gz")
    assert types_of(only(draft)) == {"x": "INT", "y": "STRING"}
    assert "E510" in {problem.code for problem in draft.problems}
    content = bytearray(GOOD_PARQUET.getvalue())
    content[4:200] = b"\xff" * 196
    (tmp_path / "a.parquet").write_bytes(content)
    (problem,) = infer(tmp_path / "a.parquet").problems
    assert "breaks off" in problem.message


# ---- laws ------------------------------------------------------------------------------------------------


def plain(value: Any) -> bool:
    """Whether a whole number is written as numbers are: no sign of plus, no leading zeros."""
    return str(value) == "-0" or str(int(value)) == str(value)


def fits(value: Any, type_: t.Type) -> bool:
    """Whether a JSON value or the text of a cell can be stored in an attribute, said once more and plainly."""
    match type_:
        case t.Boolean():
            return isinstance(value, bool) or str(value).lower() in ("true", "false")
        case t.Int():
            return not isinstance(value, bool) and abs(int(value)) <= 2**31 and plain(value)
        case t.BigInt():
            return not isinstance(value, bool) and abs(int(value)) <= 2**63 and plain(value)
        case t.Decimal(precision=p, scale=scale):
            return abs(Decimal(str(value))) < Decimal(10) ** (p - scale)
        case t.Double():
            return not isinstance(value, bool) and math.isfinite(float(value))
        case t.Timestamp() | t.Date():
            moment = datetime.fromisoformat(value)
            return isinstance(type_, t.Timestamp) or (len(value) == 10 and moment.hour == 0)
        case _:
            return True


WHOLE = st.integers(-(10**40), 10**40) | st.integers(-(2**33), 2**33) | st.integers(-5, 5)
TIMES = st.datetimes(min_value=datetime(1800, 1, 1), max_value=datetime(2300, 1, 1))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    WHOLE,
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["00123", "+5", "1e5", "1.", "-0", "NaN", "0x1", "2026-02-30", "true", "1_000", "١٢"]),
    TIMES.map(lambda x: x.isoformat() + "Z"),
    TIMES.map(lambda x: x.date().isoformat()),
)
COLUMN = st.one_of(*(st.lists(one, min_size=1, max_size=6) for one in (
    VALUES, WHOLE, st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none() | WHOLE,
)))  # fmt: skip
NAMES = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["id", "Id", "select", "ts", "occTime", "change"]
)
LAW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # fmt: skip


def rows_of(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [{name: column[i] for name, column in table.items() if i < len(column)} for i in range(6)]


def check_fit(draft: Draft, rows: Sequence[dict[str, Any]]) -> None:
    class_ = only(draft)
    mapped = {name: foreign for foreign, name in mappings_of(draft).items()}
    for attribute in class_.attributes:
        column = mapped.get(attribute.name.text, attribute.name.text)
        for row in rows:
            if row.get(column) is not None:
                assert fits(row[column], type_of(attribute.type)), (column, row[column], draft.program)
    if class_.key and not class_.mutable:
        keys = [tuple(row.get(mapped.get(k.text, k.text)) for k in class_.key) for row in rows]
        assert len(set(map(repr, keys))) == len(keys)


@LAW
@given(st.dictionaries(NAMES.filter(lambda n: n.casefold() != "event"), COLUMN, max_size=5))
def test_a_draft_parses_and_fits_its_json(tmp_path, table):
    rows = rows_of(table)
    draft = jsonl(tmp_path, *rows)
    assert draft.problems == ()
    check_fit(draft, rows)


@LAW
@given(st.dictionaries(NAMES.filter(lambda n: n.casefold() != "event"), COLUMN, min_size=1, max_size=5))
def test_a_draft_parses_and_fits_its_csv(tmp_path, table):
    rows = [{name: "" if (v := row.get(name)) is None else str(v) for name in table} for row in rows_of(table)]
    with open(tmp_path / "a.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(table)
        writer.writerows(row.values() for row in rows)
    draft = infer(tmp_path / "a.csv")
    if draft.program:
        read = [{name: cell or None for name, cell in row.items()} for row in rows if any(row.values())]
        check_fit(draft, read)


@LAW
@given(st.binary(max_size=200), st.sampled_from([".jsonl", ".csv", ".parquet", ".jsonl.gz", ""]))
def test_any_bytes_give_a_draft_or_a_problem(tmp_path, content, ending):
    (tmp_path / f"a{ending}").write_bytes(content)
    draft = infer(tmp_path / f"a{ending}")
    assert draft.program or draft.problems
    statements_of(draft)


@LAW
@given(st.text('{}[]",:\n\\ul1e.-tr;\t', max_size=60), st.sampled_from([".json", ".csv"]))
def test_nearly_right_text_gives_a_draft_or_a_problem(tmp_path, content, ending):
    (tmp_path / f"a{ending}").write_text(content, "utf-8")
    draft = infer(tmp_path / f"a{ending}")
    assert draft.program or draft.problems
    statements_of(draft)
