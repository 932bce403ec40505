"""`augury.Client` against a real server: what is posted is there once, what is asked comes back typed, live is live."""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import augury
from augury.client import Client, Problem
from augury.client.told import Refused
from augury.server.tokens import Role
from tests.server.clients import Asked, asked
from tests.server.scripted import serving

PROGRAM = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT, quantity INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Performed (account INT, price NUMERIC(20, 10)) ID () LIFESPAN (1d)
  ON ANNOUNCEMENT DO tell(new.account, new.price);
CREATE COMPLEX EVENT CLASS Complete (account INT, price NUMERIC(20, 10)) ID (account)
  AS MATCH prior(Ordered(account, _), Performed(account, price));
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with asked(tmp_path_factory.mktemp("server"), PROGRAM) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Asked) -> Client:
    return server.client


def ordered(account: int, quantity: int = 1) -> dict[str, Any]:
    return {"event": "Ordered", "account": account, "quantity": quantity}


def performed(account: int, price: str = "1.5") -> dict[str, Any]:
    return {"event": "Performed", "account": account, "price": Decimal(price)}


def wait_for(client: Client, account: int) -> None:
    """Until all that was posted before is read: an order is completed."""
    with closing(client.live_occurrences("Complete")) as feed:
        client.post_all([ordered(account), performed(account)])
        next(row for row in feed if row["account"] == account)


# ---- events ------------------------------------------------------------------------------------------------------


def test_events_are_posted_one_by_one_in_batches_and_as_a_stream(client: Client) -> None:
    client.post(ordered(1, 10))
    client.post('{"event": "Ordered", "account": 1, "quantity": 11}')
    batch = client.post_all([ordered(1, 12), {"event": "Nope"}, ordered(1, 13)])
    stream = client.stream(ordered(1, quantity) if quantity != 15 else "no" for quantity in range(14, 17))
    assert (batch.accepted, batch.refused) == (2, (Refused(2, 'there is no event class "Nope"'),))
    assert (stream.accepted, [one.line for one in stream.refused]) == (2, [2])
    wait_for(client, 2)
    rows = client.history("ordered").to_pylist()
    assert [row["quantity"] for row in rows if row["account"] == 1] == [10, 11, 12, 13, 14, 16]
    assert len({row["event_id"] for row in rows}) == len(rows)


def test_batches_are_cut_and_refusals_are_counted_through(client: Client) -> None:
    events = [ordered(3, n) if n % 1000 else {"event": "Nope"} for n in range(1, 2_502)]
    told = client.post_all(iter(events))
    assert told.accepted == 2_499
    assert [one.line for one in told.refused] == [1_000, 2_000]


def test_one_that_is_refused_is_a_problem(client: Client) -> None:
    with pytest.raises(Problem, match=r"there is no event class \"Orderd\"; did you mean `Ordered`\?") as raised:
        client.post({"event": "Orderd"})
    assert raised.value.status == 422


class Cutting:
    """A way to a server on which the first answers are lost."""

    def __init__(self, url: str, lost: int) -> None:
        self._port, self._lost = int(url.rpartition(":")[2]), lost
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                with connection, socket.create_connection(("127.0.0.1", self._port)) as there:
                    self._pass_on(connection, there)

    def _pass_on(self, connection: socket.socket, there: socket.socket) -> None:
        while True:
            ready, _, _ = select.select([connection, there], [], [])
            if there in ready and self._lost:
                self._lost -= 1
                return
            for one, other in ((connection, there), (there, connection)):
                if one in ready:
                    if not (content := one.recv(1_000_000)):
                        return
                    other.sendall(content)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


def test_an_event_whose_answer_was_lost_is_posted_again_and_is_there_once(server: Asked, client: Client) -> None:
    with closing(Cutting(server.url, 2)) as cutting, Client(cutting.url, server.token, timeout_seconds=10) as unlucky:
        unlucky.post(ordered(4, 99))
    wait_for(client, 5)
    quantities = [row["quantity"] for row in client.history("Ordered").to_pylist() if row["account"] == 4]
    assert quantities == [99]


# ---- what is known -------------------------------------------------------------------------------------------------


def test_classes_are_typed(client: Client) -> None:
    assert [one.name for one in client.classes()] == ["Ordered", "Performed", "Complete"]
    found = client.event_class("COMPLETE")
    assert (found.kind, found.mutable, found.key, found.lifespan) == ("complex", True, ("account",), "1d")
    assert [(one.name, one.type) for one in found.attributes] == [("account", "INT"), ("price", "NUMERIC(20,10)")]


def test_a_history_is_what_an_engine_would_say(server: Asked, client: Client) -> None:
    client.post(performed(6, "1.0000000001"))
    wait_for(client, 7)
    start, end = datetime(2000, 1, 1), datetime.now(UTC) + timedelta(days=1)
    from augury.local.store.asking import Question, ask

    for times, same in [
        ({}, Question("Performed")),
        ({"known_at": end}, Question("Performed", known_at=end.isoformat())),
        ({"as_of": end.isoformat(), "known_at": "now"}, Question("Performed", as_of=end.isoformat(), known_at="now")),
        ({"diff": (start, end)}, Question("Performed", between=(start.isoformat(), end.isoformat()))),
    ]:
        table = client.history("Performed", **times)  # type: ignore[arg-type]
        assert table.to_pylist() == ask(str(server.server.folder / "a.db"), same).table.to_pylist()
        assert table.num_rows
    assert client.history("Performed", known_at=start).num_rows == 0
    prices = client.history("Performed")["price"].to_pylist()
    assert Decimal("1.0000000001") in prices


def test_occurrences_come_page_by_page(client: Client) -> None:
    wait_for(client, 8)
    every = list(client.occurrences())
    feed = client.occurrences("complete", limit=1)
    assert [row["number"] for row in feed] == [1]
    assert list(client.occurrences(after=feed.cursor)) == every[1:]
    assert isinstance(every[-1]["price"], Decimal)
    with pytest.raises(Problem, match="no complex class called `Ordered`"):
        list(client.occurrences("Ordered"))


def test_what_was_refused_and_what_is_to_be_done_is_listed(client: Client) -> None:
    client.post_all([{"event": "Never"}, performed(9, "2.25")])
    wait_for(client, 10)
    assert "Never" in [row["event"] for row in client.rejected()]
    found = [row for row in client.actions(states=["waiting"], action="tell") if row["args"][0] == 9]
    assert [row["args"] for row in found] == [[9, Decimal("2.25")]]
    assert client.action(found[0]["key"]) == found[0]
    assert client.drop_actions(found[0]["key"]) == 1
    assert client.retry_actions(states=["delivered"]) == 0
    assert client.action(found[0]["key"])["state"] == "dropped"
    with pytest.raises(Problem, match="there is no action `none`"):
        client.action("none")


# ---- programs ------------------------------------------------------------------------------------------------------


def test_programs_are_checked_and_explained(client: Client) -> None:
    checked = augury.check("CREATE COMPLEX EVENT CLASS A (x INT) ID (x) AS MATCH B(x);")
    told = client.check("CREATE COMPLEX EVENT CLASS A (x INT) ID (x) AS MATCH B(x);")
    assert (told.ok, told.diagnostics) == (False, checked.diagnostics)
    assert client.check(PROGRAM).ok
    assert client.program() == PROGRAM
    assert client.explain(PROGRAM, "Complete").startswith("class Complete")
    assert client.explain(PROGRAM, "Complete", stage="automaton", form="dot").startswith("digraph")
    assert client.code("E203").startswith("E203: ")
    with pytest.raises(Problem) as raised:
        client.explain("SET CHRONON;")
    assert [one.code for one in raised.value.diagnostics] == ["E100"]


# ---- operation -----------------------------------------------------------------------------------------------------


def test_how_the_server_is_doing(client: Client) -> None:
    assert client.health()
    assert client.ready().ready
    assert client.detectors() == {}
    assert "augury_ticks" in client.metrics()
    assert client.pause()["paused"]
    assert not client.resume()["paused"]
    with pytest.raises(Problem, match="carries out no actions"):
        client.pause("delivery")
    with pytest.raises(Problem, match="there is no detector `x`"):
        client.pause_detector("x")


def test_who_may_not_is_told(server: Asked) -> None:
    reader = Client(server.url, server.token_for(Role.READ))
    with reader, pytest.raises(Problem, match="it needs the role post") as raised:
        reader.post(ordered(1))
    assert raised.value.status == 403
    with Client(server.url) as nobody, pytest.raises(Problem, match="a token is needed") as raised:
        nobody.classes()
    assert raised.value.status == 401
    with Client(server.url) as nobody:
        assert nobody.health()


def test_a_client_does_not_show_its_token(server: Asked) -> None:
    assert repr(server.client) == f"Client('{server.url}')"


# ---- live ----------------------------------------------------------------------------------------------------------


def test_what_is_told_live_goes_on_over_a_crash(tmp_path: Path) -> None:
    with asked(tmp_path, PROGRAM) as there, closing(there.client.live_occurrences(patience_seconds=60)) as feed:
        client = there.client
        client.post_all([ordered(1), performed(1)])
        accounts = [next(feed)["account"]]
        client.post_all([ordered(2), performed(2)])
        there.server.kill()
        there.server.start()
        client.post_all([ordered(3), performed(3)])
        accounts += [next(feed)["account"] for _ in range(2)]
        assert accounts == [1, 2, 3]
        assert list(client.occurrences(after=feed.cursor)) == []


# ---- every route ---------------------------------------------------------------------------------------------------


def ask_everything(client: Client) -> None:
    """Ask everything once."""
    text = "CREATE …"
    calls = [
        *(lambda: client.notify({}), lambda: client.post({}), lambda: client.post_all([{}]), lambda: client.stream([])),
        *(client.classes, lambda: client.event_class("x"), lambda: client.history("x")),
        *(lambda: list(client.occurrences()), lambda: list(client.firings()), lambda: list(client.rejected())),
        *(lambda: client.live_occurrences(patience_seconds=-1), lambda: client.live_firings(patience_seconds=-1)),
        *(lambda: list(client.actions()), lambda: client.action("x"), lambda: client.retry_actions("x")),
        *(client.triggers, lambda: client.trigger("x"), lambda: client.evaluate("x"), client.rules, client.groups),
        *(lambda: client.rule("x"), lambda: client.group("x"), lambda: client.switch("trigger", "x", True)),
        *(lambda: client.switch("rule", "x", True), lambda: client.switch("group", "x", False)),
        lambda: client.switch("class", "x", False),
        *(lambda: client.check(text), lambda: client.explain(text), lambda: client.code("x"), client.program),
        *(lambda: client.plan(text), lambda: client.apply(text), client.reload),
        *(client.health, client.ready, client.metrics, client.engine, client.pause, client.detectors),
        *(lambda: client.pause("delivery"), lambda: client.pause_detector("x")),
    ]
    for kind in ("class", "rule", "group", "trigger"):
        calls += [lambda k=kind: client.put(k, "x", text), lambda k=kind: client.drop(k, "x")]  # type: ignore[misc]
    for call in calls:
        # What is answered is no answer to the question: here only the question counts.
        with suppress(KeyError, TypeError, IndexError, augury.client.Unreachable, OSError, ValueError):
            call()


def test_there_is_a_method_for_every_route(client: Client) -> None:
    from augury.client.wire import Question

    document = client._json(Question("GET", "/v1/openapi.json"))
    routes = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    with serving() as script, Client(script.url, tries=1) as asking:
        asking._wire._sleep = lambda seconds: None
        ask_everything(asking)
    questions = {(one.method, one.path.partition("?")[0]) for one in script.asked}
    patterns = {(method, path): re.sub(r"\{\w+\}", "[^/]+", path) for method, path in routes}
    unasked = {
        route
        for route, pattern in patterns.items()
        if not any(method == route[0] and re.fullmatch(pattern, path) for method, path in questions)
    }
    unknown = {
        (method, path)
        for method, path in questions
        if not any(method == route[0] and re.fullmatch(pattern, path) for route, pattern in patterns.items())
    }
    assert (unasked, unknown) == ({("GET", "/v1/openapi.json")}, set())
