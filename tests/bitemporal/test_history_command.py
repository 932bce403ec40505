"""`augury history` from the outside: questions, forms of output, exit codes."""

from __future__ import annotations

import csv
import io
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from augury.cli import app
from augury.engine.ticked import Ticked
from augury.history.raw import Rejected
from augury.local.shown import ROWS_DRAWN_MAX, drawn
from augury.local.store.sql import open_store
from tests.bitemporal.stored import class_of, orders, program, tick_at, versions

OF = program()
DEAR = class_of(OF, "Dear")
ORDERS = [
    {"account": 1, "item": 'tea, "green"', "price": Decimal("9.50")},
    {"account": 2, "item": "", "weight": float("nan")},
]
TICKS = [
    Ticked(tick_at(1), 2, read=(orders(OF, *ORDERS, number=1, tick=1),)),
    Ticked(
        tick_at(2),
        4,
        read=(
            orders(
                OF,
                {"account": 1, "item": "\x1b[31mcoffee\0", "change": "change"},
                {"account": 2, "change": "withdraw"},
                number=3,
                tick=2,
            ),
        ),
        derived=(versions(DEAR, [{"account": 1, "seq": 3, "constituents": [1, 3]}], det_time=tick_at(2) - 1),),
        rejected=Rejected(("f.jsonl:9",), ("Order",), ("no account",), ("{}",)),
    ),
]


@pytest.fixture
def url(store_url: str) -> str:
    with open_store(store_url, OF) as store:
        store.commit(TICKS)
    return store_url


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "store.db")
    with open_store(path, OF) as store:
        store.commit(TICKS)
    return path


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["history", *args])


def lines(*args: str) -> list[dict[str, Any]]:
    done = run(*args, "--output", "ndjson")
    assert (done.exit_code, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_version_as_json_lines(url: str) -> None:
    found = lines("order", "--store", url)
    assert [(row["event"], row["number"], row["change"], row["account"]) for row in found] == [
        ("Order", 1, "announce", 1),
        ("Order", 2, "announce", 2),
        ("Order", 3, "change", 1),
        ("Order", 4, "withdraw", 2),
    ]
    assert found[0]["price"] == 9.5
    assert found[0]["det_time"] == "2026-01-01T09:00:00.500000Z"
    assert found[1]["weight"] == "NaN"
    assert found[2]["item"] == "\x1b[31mcoffee\0"
    assert found[3]["occ_time"] is None
    [dear] = lines("Dear", "--store", url)
    assert dear["constituents"] == [1, 3]


def test_as_known_at_as_of_and_diff(url: str) -> None:
    assert [row["number"] for row in lines("Order", "--store", url, "--known-at", "2026-01-01T09:00:01Z")] == [1, 2]
    assert [row["number"] for row in lines("Order", "--store", url, "--known-at", "now")] == [3]
    assert [row["number"] for row in lines("Order", "--store", url, "--as-of", "1767258000.9")] == []
    at = ("--as-of", "2026-01-01T09:00:00.9Z", "--known-at", "2026-01-01T09:00:01Z")
    assert [row["number"] for row in lines("Order", "--store", url, *at)] == [1, 2]
    found = lines("Order", "--store", url, "--diff", "2026-01-01T09:00:01Z", "now")
    assert [(row["event"], row["change"], row["account"], row["old_item"]) for row in found] == [
        ("Order", "change", 1, 'tea, "green"'),
        ("Order", "withdraw", 2, ""),
    ]


def test_the_logs_and_the_catalogue(url: str) -> None:
    assert [(row["tick"], row["read"], row["derived"]) for row in lines("--ticks", "--store", url)] == [
        ("2026-01-01T09:00:01Z", 2, 0),
        ("2026-01-01T09:00:02Z", 2, 1),
    ]
    assert [(row["place"], row["reason"]) for row in lines("--rejected", "--store", url)] == [
        ("f.jsonl:9", "no account")
    ]
    assert lines("--actions", "--store", url) == []
    assert {row["table"] for row in lines("--catalogue", "--store", url)} == {"Order", "Ping", "Dear", None}
    kinds = [row["kind"] for row in lines("--catalogue", "--store", url)]
    assert set(kinds) == {"subscribed", "complex", "setting"}


def test_csv_tells_nothing_from_an_empty_text(file: str) -> None:
    done = run("Order", "--store", file, "--output", "csv")
    assert done.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert rows[0]["item"] == 'tea, "green"'
    assert rows[0]["price"] == "9.50"
    assert rows[0]["tick"] == "2026-01-01T09:00:01Z"
    second = done.stdout.splitlines()[2]
    assert second.endswith(',2,"",,nan')


def test_parquet_goes_to_a_file(file: str, tmp_path: Path) -> None:
    to = tmp_path / "orders.parquet"
    done = run("Order", "--store", file, "--output", "parquet", "--to", str(to))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert pq.read_table(to)["item"].to_pylist()[1:] == ["", "\x1b[31mcoffee\0", None]
    piped = run("Order", "--store", file, "--output", "parquet")
    assert piped.stdout_bytes[:4] == b"PAR1"


def test_a_table_for_the_eye_is_harmless(file: str) -> None:
    done = run("Order", "--store", file)
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    header, _, first, *_ = done.stdout.splitlines()
    assert header.split()[:4] == ["number", "tick", "change", "seq"]
    assert first.split()[:3] == ["1", "2026-01-01T09:00:01Z", "announce"]
    assert 'tea, "green"' in first


def test_of_a_long_table_the_beginning_is_drawn(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    with open_store(path, OF) as store:
        pings = versions(class_of(OF, "Ping"), [{"host": "h"}] * (ROWS_DRAWN_MAX + 2))
        store.commit([Ticked(tick_at(1), 0, read=(pings,))])
        assert max(map(len, drawn(store.history(pings.event_class), 60).splitlines())) <= 60
    done = run("Ping", "--store", path)
    assert len(done.stdout.splitlines()) == ROWS_DRAWN_MAX + 2
    assert done.stderr == "… and 2 rows more; --output ndjson has them all\n"


def test_an_unknown_class_brings_a_proposal(file: str) -> None:
    done = run("Odrer", "--store", file)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "error: the store has no event class `Odrer`\n  = help: did you mean `Order`?\n"
    assert "it has Order, Ping, Dear" in run("Zebra", "--store", file).stderr


def test_no_store_is_wrong_usage(tmp_path: Path) -> None:
    done = run("Order", "--store", str(tmp_path / "none.db"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no store ")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "x.db").write_text("no database" * 1000)
    done = run("Order", "--store", str(tmp_path / "x.db"))
    assert done.exit_code == 2
    assert "its file is no SQLite database" in done.stderr


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    done = run("Order", "--store", "postgresql://localhost/x")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "pip install 'augury[postgres]'" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("Order",),
        ("--store", "s.db"),
        ("Order", "--ticks", "--store", "s.db"),
        ("--ticks", "--rejected", "--store", "s.db"),
        ("--ticks", "--as-of", "now", "--store", "s.db"),
        ("Order", "--diff", "now", "now", "--as-of", "now", "--store", "s.db"),
        ("Order", "--as-of", "yesterday", "--store", "s.db"),
        ("Order", "--diff", "now", "--store", "s.db"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_moments_in_the_wrong_order_are_wrong_usage(file: str) -> None:
    done = run("Order", "--store", file, "--diff", "now", "2026-01-01T09:00:01Z")
    assert done.exit_code == 2
    assert "the first moment lies after the second" in " ".join(done.stderr.split())


def test_a_store_is_not_written_over(file: str, tmp_path: Path) -> None:
    before = Path(file).read_bytes()
    (tmp_path / "link").symlink_to(file)
    for to in (file, str(tmp_path / "link"), str(tmp_path / "." / Path(file).name)):
        done = run("Order", "--store", file, "--to", to)
        assert (done.exit_code, "is the store, or lies in it" in done.stderr) == (2, True)
    assert Path(file).read_bytes() == before


def test_a_file_that_cannot_be_written(file: str, tmp_path: Path) -> None:
    done = run("Order", "--store", file, "--to", str(tmp_path / "nowhere" / "x.txt"))
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
