"""Events by methods: which event, when, with which values; threads and tasks do not mix; mistakes are told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

import augury
from augury.environment import Machine
from augury.kernels.firing import Switched
from augury.local.making import NotBound
from augury.local.methods import Mode, NoActiveEngine
from augury.local.running import LocalEngine
from augury.local.transactions import NobodyAnswers

PROGRAM = augury.compile(
    """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Placed (account INT, quantity INT, desk STRING, result INT) ID ()
  LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Asked (account INT) ID () LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Price (stock STRING, price NUMERIC(10, 2), time TIMESTAMP, open BOOLEAN)
  ID (stock) LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Claim (account INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT) ID () LIFESPAN (1d);
CREATE CLOCK EVENT CLASS Beat EVERY 1h;
RULE Judge (account INT) CONDITION account > 1 ACTION judge(account), POST Approved(account);
TRIGGER Each (account INT) TRIGGEREVENT Claim RULESTRUC Judge(account);
TRIGGER Pair (account INT) TRIGGEREVENT Claim COMPOSITEEVENT Claim{2} CONTEXT CHRONICLE
  RULESTRUC Judge(account) RETURNS INT : Judge;
TRIGGER Twin (account INT) TRIGGEREVENT Claim COMPOSITEEVENT Claim{2} CONTEXT CHRONICLE
  RULESTRUC Judge(account) RETURNS INT : Judge;
CREATE COMPLEX EVENT CLASS Both (account INT) ID (account) AS MATCH prior(Placed(account, _, _, _), Asked(account));
"""
)
HOUR = 3_600_000_000


class Ticking(Machine):
    """A clock that goes on by a microsecond whenever it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.now = HOUR

    def now_us(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(PROGRAM, environment=Ticking()) as opened:
        yield opened


JUDGED: list[int] = []


def judge(account: int) -> int:
    JUDGED.append(account)
    return account * 100


@pytest.fixture
def judging() -> Iterator[LocalEngine]:
    with LocalEngine(PROGRAM, environment=Ticking(), functions={"judge": judge}) as opened:
        yield opened


def rows(engine: LocalEngine, *names: str) -> list[tuple[Any, ...]]:
    """What became of all that was posted: the class and the values of each version, in order of `seq`."""
    engine.advance_to(2 * HOUR)
    found = []
    for plan in PROGRAM.classes:
        name = plan.event_class.name
        if name in (names or ("Placed", "Asked", "Price")):
            attributes = [attribute.name for attribute in plan.event_class.attributes]
            found += [(row["seq"], name, *(row[a] for a in attributes)) for row in engine.history(name).to_pylist()]
    return [row[1:] for row in sorted(found)]


class Desk:
    def __init__(self, desk: str) -> None:
        self.desk, self.done = desk, list[int]()

    @augury.event_method(before="Asked", after="Placed")
    def place(self, account: int, quantity: int = 7) -> int:
        self.done.append(account)
        return quantity * 2

    def result(self) -> None:
        """A method is no value."""

    @augury.event_method(before="Placed")
    def look(self, account: int) -> None:
        self.done.append(account)


# ---- which event ---------------------------------------------------------------------------------------


def test_before_and_after_a_call_its_arguments_are_posted(engine: LocalEngine) -> None:
    desk = Desk("north")
    with engine.active():
        assert desk.place(1) == 14
        assert desk.place(quantity=3, account=2) == 6
    assert desk.done == [1, 2]
    assert rows(engine) == [
        ("Asked", 1),
        ("Placed", 1, 7, "north", 14),
        ("Asked", 2),
        ("Placed", 2, 3, "north", 6),
    ]


def test_what_neither_the_arguments_nor_the_object_have_is_null(engine: LocalEngine) -> None:
    with engine.active():
        Desk("south").look(5)
    assert rows(engine) == [("Placed", 5, None, "south", None)]


def test_names_are_matched_without_regard_to_case_and_arguments_come_first(engine: LocalEngine) -> None:
    class Other:
        QUANTITY = 9
        account = 1

        @augury.event_method(on="placed")
        def place(self, ACCOUNT: int, **more: str) -> None: ...

    with engine.active():
        Other().place(4, Desk="east")
    assert rows(engine) == [("Placed", 4, 9, "east", None)]


def test_values_of_every_kind_and_the_times_of_an_event_are_passed_on(engine: LocalEngine) -> None:
    noon = datetime(1970, 1, 1, 0, 30, tzinfo=UTC)

    @augury.event_method(on="Price")
    def quote(stock: str, price: Decimal, time: datetime, open: bool, occ_time: datetime | None = None) -> None: ...

    with engine.active():
        quote("ACME", Decimal("12.34"), noon, True)
        quote("ACME", Decimal("12.50"), noon, False, occ_time=noon)
    assert rows(engine) == [
        ("Price", "ACME", Decimal("12.34"), noon, True),
        ("Price", "ACME", Decimal("12.50"), noon, False),
    ]
    assert engine.history("Price")["occ_time"].to_pylist()[1] == noon


def test_a_value_that_does_not_fit_is_refused_before_the_call(engine: LocalEngine) -> None:
    desk = Desk("north")
    with engine.active(), pytest.raises(augury.PostRefused, match='`account` is an INT, and "x" does not fit'):
        desk.place("x")  # type: ignore[arg-type]
    assert desk.done == []


def test_wrong_arguments_of_a_call_post_nothing(engine: LocalEngine) -> None:
    with engine.active(), pytest.raises(TypeError, match="account"):
        Desk("north").place()  # type: ignore[call-arg]
    assert rows(engine) == []


# ---- when ------------------------------------------------------------------------------------------------


def failing(mode: Mode) -> Callable[[int], None]:
    @augury.event_method(**{mode.value: "Asked"})
    def fail(account: int) -> None:
        raise LookupError

    return fail


@pytest.mark.parametrize("mode", Mode)
def test_what_comes_after_a_call_does_not_come_after_one_that_failed(engine: LocalEngine, mode: Mode) -> None:
    with engine.active(), pytest.raises(LookupError):
        failing(mode)(1)
    is_ahead = mode not in (Mode.AFTER, Mode.ON_COMMIT)
    assert rows(engine) == [("Asked", 1)] * is_ahead


def test_what_a_trigger_returns_replaces_the_call(judging: LocalEngine) -> None:
    called = []

    @augury.event_method(instead_of="Claim", after="Placed")
    def limit(account: int) -> int:
        called.append(account)
        return 1

    with judging.active():
        assert [limit(2), limit(3), limit(4), limit(5)] == [1, 300, 1, 500]
        assert [limit(1), limit(1)] == [1, None]
    assert called == [2, 4, 1]
    results = [(row[1], row[4]) for row in rows(judging, "Placed")]
    assert results == [(2, 1), (3, 300), (4, 1), (5, 500), (1, 1), (1, None)]


def test_rules_have_run_before_and_after_the_call(judging: LocalEngine) -> None:
    seen = []

    @augury.event_method(before="Claim", after="Claim")
    def work(account: int) -> None:
        seen.append(len(JUDGED))

    JUDGED.clear()
    with judging.active():
        work(7)
    assert (seen, len(JUDGED)) == ([1], 4)
    assert rows(judging, "Claim", "Approved") == [("Claim", 7), ("Approved", 7), ("Claim", 7), *[("Approved", 7)] * 3]


@pytest.mark.parametrize("mode", [Mode.ON, Mode.DETACHED, Mode.ON_COMMIT])
def test_the_others_wait_for_no_rule(judging: LocalEngine, mode: Mode) -> None:
    JUDGED.clear()
    with judging.active():
        augury.event_method(**{mode.value: "Claim"})(lambda account: None)(7)
    assert JUDGED == []
    judging.advance_to(2 * HOUR)
    assert JUDGED == [7]


def test_in_a_transaction_nothing_can_answer_instead_of_a_call(engine: LocalEngine) -> None:
    @augury.event_method(instead_of="Asked")
    def limit(account: int) -> int:
        return 1

    with engine.transaction() as transaction:
        with pytest.raises(NobodyAnswers, match=r"`.*limit`: nobody reads what is posted inside a transaction"):
            limit(1)
        transaction.abort()


# ---- called by rules -------------------------------------------------------------------------------------------

CALLING = augury.compile(
    """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Claim (account INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Asked (account INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Told (account INT) ID () LIFESPAN (1d);
RULE Work (account INT) ACTION work(account);
RULE Count (account INT) ACTION count(account);
TRIGGER Claimed (account INT) TRIGGEREVENT Claim RULESTRUC Work(account), Work(account);
TRIGGER Heard (account INT) TRIGGEREVENT Asked RULESTRUC Count(account);
"""
)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.INSTEAD_OF])
def test_what_a_rule_calls_posts_and_is_read_after_it(mode: Mode) -> None:
    heard: list[int] = []
    seen: list[list[int]] = []

    @augury.event_method(**{mode.value: "Asked"})
    def work(account: int) -> int:
        seen.append([*heard])
        return account

    functions = {"work": work, "count": heard.append}
    with LocalEngine(CALLING, environment=Ticking(), functions=functions) as engine:
        answer = engine.notify({"event": "Claim", "account": 1})
        assert [call.value for one in answer.firings for call in one.firing.calls] == [1, 1]
        engine.advance_to(2 * HOUR)
        assert (seen, heard) == ([[], []], [1, 1])
        assert engine.history("Asked")["account"].to_pylist() == [1, 1]
        assert engine.history("Claim").num_rows == 1


def test_a_rule_gets_no_answer(engine: LocalEngine) -> None:
    def work(account: int) -> None:
        opened.notify({"event": "Asked", "account": account})

    @augury.event_method(instead_of="Asked")
    def count(account: int) -> None: ...

    with LocalEngine(CALLING, environment=Ticking(), functions={"work": work, "count": count}) as opened:
        for event in ("Claim", "Asked"):
            answer = opened.notify({"event": event, "account": 1})
            deeds = [deed for one in answer.firings for call in one.firing.calls for deed in call.deeds]
            assert deeds
            assert all("the engine waits for this rule" in str(getattr(deed, "failure", None)) for deed in deeds)


def test_a_rule_does_not_let_its_engine_go_on() -> None:
    deeds: dict[int, Callable[[], object]] = {
        1: lambda: opened.advance_to(2 * HOUR),
        2: lambda: opened.switch(Switched.RULE, "Work", False),
        3: lambda: opened.apply(CALLING),
    }
    with LocalEngine(
        CALLING, environment=Ticking(), functions={"work": lambda account: bool(deeds[account]())}
    ) as opened:
        for account in deeds:
            answer = opened.notify({"event": "Claim", "account": account})
            done = [deed for one in answer.firings for call in one.firing.calls for deed in call.deeds]
            assert len(done) == 2
            assert all("InRule: the engine waits" in str(getattr(deed, "failure", None)) for deed in done)
        opened.advance_to(2 * HOUR)
        assert opened.history("Claim")["account"].to_pylist() == [1, 2, 3]


def test_a_rule_may_have_a_transaction_of_its_own() -> None:
    def work(account: int) -> None:
        with opened.transaction(begin="Told", values={"account": account}) as transaction:
            opened.post({"event": "Asked", "account": account})
            if account == 2:
                transaction.abort()

    with LocalEngine(CALLING, environment=Ticking(), functions={"work": work}) as opened:
        for account in (1, 2):
            answer = opened.notify({"event": "Claim", "account": account})
            assert not any(call.failed for one in answer.firings for call in one.firing.calls)
        opened.advance_to(2 * HOUR)
        assert opened.history("Asked")["account"].to_pylist() == [1, 1]
        assert opened.history("Told")["account"].to_pylist() == [1, 1, 2, 2]


# ---- which engine ------------------------------------------------------------------------------------------


def test_without_an_engine_a_call_is_refused() -> None:
    desk = Desk("north")
    with pytest.raises(NoActiveEngine, match=r"`Desk.place`: no engine is active here: call it inside `with engine"):
        desk.place(1)
    assert desk.done == []


def test_the_innermost_engine_is_posted_to(engine: LocalEngine) -> None:
    with LocalEngine(PROGRAM, environment=Ticking()) as other, engine.active():
        with other.active():
            Desk("there").look(1)
        Desk("here").look(2)
        assert rows(other) == [("Placed", 1, None, "there", None)]
    assert rows(engine) == [("Placed", 2, None, "here", None)]


def test_threads_and_tasks_have_engines_of_their_own() -> None:
    engines = [LocalEngine(PROGRAM, environment=Ticking()) for _ in range(8)]

    def in_a_thread(number: int) -> None:
        with pytest.raises(NoActiveEngine):
            Desk("nowhere").place(0)
        with engines[number].active():
            for account in range(20):
                Desk("thread").place(account, number)

    async def in_a_task(number: int) -> None:
        with engines[number].active():
            for account in range(20):
                await asyncio.sleep(0)
                assert await looked(account, number) == number

    @augury.event_method(before="Asked", after="Placed")
    async def looked(account: int, quantity: int) -> int:
        await asyncio.sleep(0)
        return quantity

    async def all_tasks() -> None:
        await asyncio.gather(*(in_a_task(number) for number in range(4, 8)))

    with engines[0].active(), ThreadPoolExecutor(4) as pool:
        list(pool.map(in_a_thread, range(4)))
    asyncio.run(all_tasks())
    for number, engine in enumerate(engines):
        desk, result = ("thread", 2 * number) if number < 4 else (None, number)
        assert rows(engine) == [
            row for account in range(20) for row in [("Asked", account), ("Placed", account, number, desk, result)]
        ]
        engine.close()


def test_an_async_method_is_answered_by_a_trigger(judging: LocalEngine) -> None:
    @augury.event_method(instead_of="Claim", detached="Placed", on_commit="Asked")
    async def limit(account: int) -> int:
        return 1

    with judging.active():
        assert [asyncio.run(limit(3)), asyncio.run(limit(4))] == [1, 400]
    assert rows(judging) == [
        row for account in (3, 4) for row in [("Placed", account, None, None, None), ("Asked", account)]
    ]


def test_a_method_keeps_its_name_and_its_signature() -> None:
    assert Desk.place.__name__ == "place"
    assert asyncio.iscoroutinefunction(augury.event_method(on="Asked")(asyncio.sleep))


# ---- mistakes ----------------------------------------------------------------------------------------------


def plain(account: int) -> None: ...


def other(number: int) -> None: ...


def yielding(account: int) -> Iterator[int]:
    yield account


@pytest.mark.parametrize(
    ("function", "modes", "message"),
    [
        (
            plain,
            {},
            r"test_methods.py:\d+: `plain`: event_method needs a class to post, by one or more of before=…, on",
        ),
        (staticmethod(plain), {"on": "Asked"}, r"`plain`: event_method takes a function: write @staticmethod above it"),
        (yielding, {"on": "Asked"}, r"`yielding`: a call of a function that yields is no point in time"),
    ],
)
def test_what_cannot_be_decorated_is_told_at_once(function: Any, modes: dict[str, str], message: str) -> None:
    with pytest.raises(NotBound, match=message):
        augury.event_method(**modes)(function)


@pytest.mark.parametrize(
    ("function", "modes", "message"),
    [
        (
            plain,
            {"on": "Askd"},
            r"test_methods.py:\d+: `plain`: there is no event class `Askd`; did you mean `Asked`\?",
        ),
        (plain, {"on": "Zzz"}, r"there is no event class `Zzz`; there is Placed, Asked, Price, Claim, Approved"),
        (plain, {"after": "Both"}, r"`Both` is a complex class: its events are derived, not posted; there is Placed"),
        (plain, {"after": "Beat"}, r"`Beat` is a clock class: its events are posted by the clock"),
        (plain, {"on": "Price"}, r"nothing is called `stock`, which is the key of `Price`; name an argument or an att"),
    ],
)
def test_a_class_that_cannot_be_posted_is_told_before_the_call(
    engine: LocalEngine, function: Any, modes: dict[str, str], message: str
) -> None:
    with engine.active(), pytest.raises(NotBound, match=message):
        augury.event_method(**modes)(function)(account=1)


def test_an_object_that_lacks_the_key_is_told(engine: LocalEngine) -> None:
    class Quote:
        @augury.event_method(on="Price")
        def ask(self) -> None: ...

    quote = Quote()
    with engine.active():
        with pytest.raises(NotBound, match=r"`.*Quote.ask`: nothing is called `stock`"):
            quote.ask()
        quote.stock = "ACME"  # type: ignore[attr-defined]
        quote.ask()
    assert rows(engine) == [("Price", "ACME", None, None, None)]
