"""SQL, from and to a real PostgreSQL: types, changes, restarts, connections that are lost, passwords."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from augury.actions.deliver import Carrier, Deliverer, Ends
from augury.actions.delivery import Again, Delivered, Outcome
from augury.actions.outbox import StoredOutbox
from augury.actions.sql import Sql
from augury.algebra.wiring import Forward, SourceKind
from augury.detectors.sensor import SourceFailed
from augury.environment import real
from augury.local.store.outbox import open_outbox
from tests.acting.sensing import Remembers, detection, look, made, running, until
from tests.acting.targets import action, delivery, fill

PASSWORD = "hush-0815"


def execute(url: str, *statements: str) -> list[Any]:
    """What the last statement gives."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def stock(url: str, query: str = "SELECT item AS resource, amount, due FROM stock ORDER BY item") -> Any:
    due = (("occ_time", "due"),)
    return detection(SourceKind.SQL, url, items=query, fields=due, forward=Forward.CHANGED, withdraws=True)


# ---- detectors -----------------------------------------------------------------------------------------------------


def test_rows_that_come_change_and_go_over_restarts(tmp_path: Path, postgres_url: str) -> None:
    sink = Remembers()
    steps = (
        "CREATE TABLE stock (item text PRIMARY KEY, amount numeric(12, 4), due timestamptz);"
        "INSERT INTO stock VALUES ('milk', 2, '2026-01-01 10:00+01'), ('eggs', 6.25, NULL)",
        "SELECT 1",
        "UPDATE stock SET amount = 1.5, due = due + interval '1 hour' WHERE item = 'milk'",
        "DELETE FROM stock WHERE item = 'eggs'",
    )
    for step in steps:
        execute(postgres_url, step)
        look(tmp_path / "state", stock(postgres_url), sink=sink)
    told = [(e["resource"], e.get("amount"), e.get("occ_time", "-")) for e in sink.events]
    assert told == [
        ("eggs", Decimal("6.2500"), "-"),
        ("milk", 2, "2026-01-01T09:00:00Z"),
        ("milk", Decimal("1.5"), "2026-01-01T10:00:00Z"),
        ("eggs", None, None),
    ]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12345678901234567890.123456789", Decimal("12345678901234567890.123456789")),
        ("9007199254740993::bigint", 9007199254740993),
        ("0.1::double precision", Decimal("0.1")),
        ("true", True),
        ("'2026-01-01 10:00:00.5+01'::timestamptz", "2026-01-01T09:00:00.500000Z"),
        ("'2026-01-01'::date", "2026-01-01"),
        ("'5f0c2a36-1f1b-4b6e-8a68-0d1f0a3b4c5d'::uuid", "5f0c2a36-1f1b-4b6e-8a68-0d1f0a3b4c5d"),
        ("'Grüße ''\"'::text", "Grüße '\""),
        ("NULL::int", None),
    ],
)
def test_values_of_all_types_become_json(tmp_path: Path, postgres_url: str, expression: str, value: object) -> None:
    sink = look(
        tmp_path, detection(SourceKind.SQL, postgres_url, items=f"SELECT 'a' AS resource, {expression} AS amount")
    )
    [(found,)] = sink.values("amount")
    assert (found, type(found)) == (value, type(value))


def test_a_value_inside_json_is_taken_by_its_path(tmp_path: Path, postgres_url: str) -> None:
    query = """SELECT '{"name": "milk", "sizes": [{"n": 2.50}]}'::jsonb AS it"""
    fields = (("resource", "it.name"), ("amount", "it.sizes[0].n"))
    sink = look(tmp_path, detection(SourceKind.SQL, postgres_url, items=query, fields=fields))
    assert sink.values("resource", "amount") == [("milk", Decimal("2.5"))]


def test_nothing_is_written_by_a_query(tmp_path: Path, postgres_url: str) -> None:
    execute(postgres_url, "CREATE TABLE stock (item text)", "INSERT INTO stock VALUES ('milk')")
    query = "DELETE FROM stock RETURNING item AS resource"
    look(tmp_path, detection(SourceKind.SQL, postgres_url, items=query))
    assert execute(postgres_url, "SELECT count(*) FROM stock") == [(1,)]


def test_a_table_that_is_gone_for_a_while_is_told_once_and_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    sink, told = Remembers(), list[str]()
    make = "CREATE TABLE stock (item text, amount numeric, due timestamptz)"
    execute(postgres_url, make, "INSERT INTO stock VALUES ('milk', 1, NULL)")

    async def all_of_it() -> None:
        async with real() as environment:
            wanted = stock(postgres_url)
            async with running(made(tmp_path, environment, [wanted], {"e": sink}, report=told.append)):
                await until(lambda: sink.values("resource") == [("milk",)])
                await asyncio.to_thread(execute, postgres_url, "ALTER TABLE stock RENAME TO away")
                await until(lambda: bool(told))
                await asyncio.sleep(0.3)  # it is asked again meanwhile
                await asyncio.to_thread(execute, postgres_url, "INSERT INTO away VALUES ('eggs', 2, NULL)")
                await asyncio.to_thread(execute, postgres_url, "ALTER TABLE away RENAME TO stock")
                await until(lambda: sink.values("resource") == [("milk",), ("eggs",)])

    asyncio.run(all_of_it())
    assert len(told) == 2, told
    assert 'relation "stock" does not exist' in told[0]
    assert told[1] == "detector `Delivery`: it goes on"


# ---- executors -----------------------------------------------------------------------------------------------------


async def tried(executor: Sql, *numbers: int) -> list[Outcome]:
    async with real() as environment:
        return [await executor.carry_out(delivery(number), environment) for number in numbers]


def test_a_connection_that_is_lost_is_made_again_and_no_row_is_there_twice(postgres_url: str) -> None:
    async def all_of_it() -> list[Outcome]:
        executor = Sql(f"{postgres_url}&application_name=executor", "acts", 4, 10)
        outcomes = await tried(executor, 1, 2)
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'executor'"
        assert await asyncio.to_thread(execute, postgres_url, end) == [(True,)]
        for number in (3, 1):
            outcome: Outcome = Again("not tried yet")
            over = time.monotonic() + 60
            while isinstance(outcome, Again):  # the first of them finds out
                assert time.monotonic() < over, f"it is not carried out within 60 s: {outcome}"
                [outcome] = await tried(executor, number)
            outcomes.append(outcome)
        await executor.close()
        return outcomes

    assert asyncio.run(all_of_it()) == [Delivered()] * 4
    found = execute(postgres_url, "SELECT idempotency_key, action, arguments, event_key FROM acts ORDER BY 1")
    assert [(key, name, json.loads(said)) for key, name, said, _ in found] == [
        (f"key-{number}", "tell", ["low", "milk"]) for number in (1, 2, 3)
    ]


def test_many_actions_at_once_make_the_table_once(tmp_path: Path, postgres_url: str) -> None:
    """All begin with no table: one of them makes it, and none becomes a dead letter by that."""
    url = str(tmp_path / "shop.db")
    fill(url, [action(number) for number in range(40)])

    async def all_of_it() -> int:
        async with real() as environment:
            outbox = StoredOutbox(open_outbox(url, alone=True))
            executor = Sql(postgres_url, "acts", 8, 10)
            deliverer = Deliverer(outbox, {"tell": Carrier(executor)}, environment)
            async with asyncio.timeout(120):
                await deliverer.run(Ends.SETTLED)
            await outbox.close()
            await executor.close()
            return deliverer.counts.delivered

    assert asyncio.run(all_of_it()) == 40
    assert execute(postgres_url, "SELECT count(*), count(DISTINCT idempotency_key) FROM acts") == [(40, 40)]


# ---- passwords -----------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(acting_server: str) -> Iterator[str]:
    """A user who needs a password, by the server's own rules; gives a URL with `PASSWORD` in it."""
    [(rules,)] = execute(acting_server, "SHOW hba_file")
    before = Path(rules).read_text()
    Path(rules).write_text(f"host all ann 127.0.0.1/32 scram-sha-256\n{before}")
    make = f"CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'"
    execute(acting_server, make, "GRANT ALL ON SCHEMA public TO ann", "SELECT pg_reload_conf()")
    parts = urlsplit(acting_server)
    yield f"postgresql://ann:{PASSWORD}@127.0.0.1:{parts.port}{parts.path}"
    Path(rules).write_text(before)
    execute(acting_server, "DROP OWNED BY ann", "DROP ROLE ann", "SELECT pg_reload_conf()")


def test_a_password_and_a_wrong_one(tmp_path: Path, guarded: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = guarded.replace(PASSWORD, "guessed-4711")

    async def insert(url: str) -> Outcome:
        executor = Sql(url, "guarded_acts", 2, 10)
        [outcome] = await tried(executor, 1)
        await executor.close()
        return outcome

    refused = asyncio.run(insert(wrong))
    assert isinstance(refused, Again)
    assert 'password authentication failed for user "ann"' in refused.reason
    assert asyncio.run(insert(guarded)) == Delivered()
    query = "SELECT idempotency_key AS resource FROM guarded_acts"
    with pytest.raises(SourceFailed, match="password authentication failed") as failed:
        look(tmp_path / "wrong", detection(SourceKind.SQL, wrong, items=query))
    assert look(tmp_path / "right", detection(SourceKind.SQL, guarded, items=query)).values("resource") == [("key-1",)]
    for password in (PASSWORD, "guessed-4711"):
        assert password not in refused.reason + str(failed.value) + caplog.text
