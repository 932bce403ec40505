"""Transactions: what is posted inside is there as a whole or not at all, in order, and seen by nobody before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import augury
from augury.engine.ports import Post
from augury.local.making import NotBound
from augury.local.methods import Mode
from augury.local.running import LocalEngine
from augury.local.store.errors import StoreFailed
from augury.local.store.memory import MemoryStore
from augury.local.transactions import NobodyAnswers, Transaction, TransactionOver
from tests.triggers.test_methods import HOUR, Ticking

PROGRAM = augury.compile(
    """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS N (n INT, stage STRING) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Begun (transaction STRING, account INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ended (transaction STRING, events INT, reason STRING) ID () LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Keyed (account INT) ID (account) LIFESPAN (1d);
"""
)


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(PROGRAM, environment=Ticking()) as opened:
        yield opened


def posted(engine: LocalEngine) -> list[int]:
    """The numbers of all that was posted, in order of `seq`."""
    engine.advance_to(2 * HOUR)
    return [row["n"] for row in engine.history("N").to_pylist()]


def n(number: int) -> dict[str, Any]:
    return {"event": "N", "n": number}


# ---- the law -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A post, or a call of a method that posts under a mode."""

    number: int
    mode: Mode | None


@dataclass(frozen=True)
class Block:
    """A transaction, how it ends, and the five numbers of its own events."""

    number: int
    inside: tuple[Call | Block, ...]
    end: str


Step = Call | Block
MODES = [None, *(mode for mode in Mode if mode is not Mode.INSTEAD_OF)]
CALLS = st.builds(Call, st.integers(0, 999), st.sampled_from(MODES))
ENDS = st.sampled_from(["commit", "abort", "raise"])
STEPS = st.recursive(
    CALLS, lambda inner: st.builds(Block, st.integers(1, 99), st.lists(inner, max_size=4).map(tuple), ENDS)
)


class Left(Exception):
    """What a block raises."""


def do(engine: LocalEngine, steps: Sequence[Step]) -> None:
    for step in steps:
        match step:
            case Call(number, None):
                engine.post(n(number))
            case Call(number, mode):
                assert mode is not None
                augury.event_method(**{mode.value: "N"})(lambda n: None)(number)
            case Block(number, inside, end):
                try:
                    do_block(engine, number, inside, end)
                except Left:
                    assert end == "raise"


def do_block(engine: LocalEngine, number: int, inside: Sequence[Step], end: str) -> None:
    stages = dict.fromkeys(["begin", "before_commit", "after_commit", "before_abort", "after_abort"], "N")
    with engine.transaction(**stages, values={"n": -number}) as transaction:
        do(engine, inside)
        if end == "abort":
            transaction.abort()
        if end == "raise":
            raise Left


@dataclass
class Box:
    """Where events of the model go: posted in order, and those that wait for the commit."""

    posted: list[int]
    last: list[int]


def expected(steps: Sequence[Step], engine: list[int], box: Box | None) -> None:
    here = engine if box is None else box.posted
    for step in steps:
        match step:
            case Call(number, Mode.DETACHED):
                engine.append(number)
            case Call(number, Mode.ON_COMMIT) if box is not None:
                box.last.append(number)
            case Call(number, _):
                here.append(number)
            case Block(number, inside, end):
                here.append(-number)
                inner = Box([], [])
                expected(inside, engine, inner)
                here.append(-number)  # before commit, or before abort
                if end == "commit" and box is not None:
                    here += inner.posted
                    box.last += inner.last
                elif end == "commit":
                    here += inner.posted + inner.last
                here.append(-number)


@settings(max_examples=80, deadline=None)
@given(st.lists(STEPS, max_size=5))
def test_what_is_committed_is_there_in_order_and_nothing_else(steps: list[Step]) -> None:
    should: list[int] = []
    expected(steps, should, None)
    with LocalEngine(PROGRAM, environment=Ticking()) as engine:
        with engine.active():
            do(engine, steps)
        assert posted(engine) == should


# ---- one by one ----------------------------------------------------------------------------------------------


def test_nobody_sees_what_is_posted_before_it_is_committed(tmp_path: Path) -> None:
    with LocalEngine(PROGRAM, str(tmp_path / "a.db"), environment=Ticking()) as engine:
        with engine.transaction():
            assert engine.post(n(1)) is None
            assert engine.post_all([n(2), {"event": "M"}]) == [None, 'there is no event class "M"']
            engine.flush()
            assert engine._store.waiting() == []
            engine.advance_to(HOUR + 10_000_000)
        assert [place for place, _ in engine._store.waiting()] == [1, 2]
        assert posted(engine) == [1, 2]


def test_an_event_is_what_it_was_when_it_was_posted(engine: LocalEngine) -> None:
    event = n(1)
    with engine.transaction():
        engine.post(event)
        event["n"] = 2
    assert posted(engine) == [1]


def test_what_can_be_no_event_is_refused_inside_and_the_rest_goes_on(engine: LocalEngine) -> None:
    with engine.transaction():
        with pytest.raises(augury.PostRefused, match="`n` is an INT"):
            engine.post({"event": "N", "n": "x"})
        engine.post(n(1))
    assert posted(engine) == [1]


def raise_in(transaction: Transaction, error: BaseException) -> None:
    with transaction:
        transaction.engine.post(n(3))
        raise error


def test_its_own_events_say_what_became_of_it(engine: LocalEngine) -> None:
    stages = {"begin": "Begun", "after_commit": "Ended", "before_abort": "Ended"}
    with engine.transaction(**stages, values={"Account": 7}) as one:
        engine.post_all([n(1), n(2)])
    two = engine.transaction(**stages)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="too much"):
        raise_in(two, ValueError("too much"))
    with engine.transaction(**stages) as three:  # type: ignore[arg-type]
        three.abort("enough")
    assert posted(engine) == [1, 2]
    begun = [(row["transaction"], row["account"]) for row in engine.history("Begun").to_pylist()]
    assert begun == [(one.name, 7), (two.name, None), (three.name, None)]
    ended = [(row["transaction"], row["events"], row["reason"]) for row in engine.history("Ended").to_pylist()]
    assert ended == [(one.name, 2, None), (two.name, 1, "too much"), (three.name, 0, "enough")]


def test_a_transaction_that_is_over_takes_nothing(engine: LocalEngine) -> None:
    with engine.transaction() as transaction:
        transaction.abort()
        with pytest.raises(TransactionOver, match="the transaction was aborted: post outside its block"):
            engine.post(n(1))
        with pytest.raises(TransactionOver):
            transaction.abort()
    with engine.transaction() as transaction:
        pass
    with pytest.raises(TransactionOver, match="the transaction was committed"):
        transaction.post(n(1))
    with pytest.raises(TransactionOver, match="a transaction begins once"), transaction:
        pass
    assert posted(engine) == []


def test_nothing_answers_inside_a_transaction(engine: LocalEngine) -> None:
    with engine.transaction(), pytest.raises(NobodyAnswers, match="notify outside, or post"):
        engine.notify(n(1))
    assert posted(engine) == []


def test_an_interrupted_block_is_aborted(engine: LocalEngine) -> None:
    with pytest.raises(KeyboardInterrupt):
        raise_in(engine.transaction(), KeyboardInterrupt())
    assert posted(engine) == []


def test_transactions_of_two_engines_do_not_mix(engine: LocalEngine) -> None:
    with LocalEngine(PROGRAM, environment=Ticking()) as other:
        with engine.transaction():
            engine.post(n(1))
            with other.transaction() as inner:
                engine.post(n(2))
                other.post(n(3))
                inner.abort()
            other.post(n(4))
        assert posted(other) == [4]
    assert posted(engine) == [1, 2]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ({"begin": "Begn"}, r"engine.transaction\(begin=…\): there is no event class `Begn`; did you mean `Begun`\?"),
        (
            {"after_abort": "Keyed"},
            r"engine.transaction\(after_abort=…\): nothing is called `account`, which is the key",
        ),
    ],
)
def test_a_class_that_cannot_tell_of_it_is_told_at_once(
    engine: LocalEngine, stages: dict[str, Any], message: str
) -> None:
    with pytest.raises(NotBound, match=message):
        engine.transaction(**stages)
    with engine.transaction(before_commit="Keyed", values={"account": 1}):
        pass


# ---- stores that cannot write ------------------------------------------------------------------------------


class Full(MemoryStore):
    """A store that has no room at some appends."""

    refuses = 0

    def append(self, posts: Sequence[Post]) -> list[int]:
        if self.refuses:
            self.refuses -= 1
            raise StoreFailed("no room")
        return super().append(posts)


def test_a_commit_that_cannot_be_written_is_an_abort() -> None:
    store = Full(PROGRAM)
    with LocalEngine(PROGRAM, store, environment=Ticking()) as engine:
        transaction = engine.transaction(after_abort="Ended")
        transaction.__enter__()
        engine.post(n(1))
        store.refuses = 1
        with pytest.raises(StoreFailed, match="no room"):
            transaction.__exit__(None, None, None)
        engine.post(n(2))
        assert posted(engine) == [2]
        assert [row["reason"] for row in engine.history("Ended").to_pylist()] == ["no room"]


# ---- threads and tasks -------------------------------------------------------------------------------------


def groups_of(numbers: Sequence[int]) -> dict[int, list[int]]:
    """Runs of numbers with the same hundreds; one that comes twice is a mistake."""
    found: dict[int, list[int]] = {}
    last = None
    for number in numbers:
        group = number // 100
        assert group == last or group not in found, "another transaction stands in between"
        found.setdefault(group, []).append(number % 100)
        last = group
    return found


def test_transactions_of_threads_stay_whole(tmp_path: Path) -> None:
    def work(engine: LocalEngine, thread: int) -> list[int]:
        random, kept = Random(thread), []
        for turn in range(25):
            group = thread * 25 + turn
            with engine.transaction() as transaction:
                for number in range(random.randrange(1, 6)):
                    engine.post(n(group * 100 + number))
                if random.random() < 0.3:
                    transaction.abort()
                else:
                    kept.append(group)
        return kept

    with LocalEngine(PROGRAM, str(tmp_path / "a.db"), environment=Ticking()) as engine:
        with ThreadPoolExecutor(8) as pool:
            kept = [group for groups in pool.map(lambda t: work(engine, t), range(8)) for group in groups]
        found = groups_of(posted(engine))
    assert sorted(found) == sorted(kept)
    assert all(numbers == list(range(len(numbers))) for numbers in found.values())


def test_transactions_of_tasks_stay_whole_and_tasks_begun_inside_take_part(engine: LocalEngine) -> None:
    async def inner(number: int) -> None:
        await asyncio.sleep(0)
        engine.post(n(number))

    async def work(group: int) -> None:
        with engine.transaction() as transaction:
            await inner(group * 100)
            await asyncio.gather(*(inner(group * 100 + number) for number in (1, 2)))
            await asyncio.to_thread(engine.post, n(group * 100 + 3))
            if group % 3 == 0:
                transaction.abort()

    async def everything() -> None:
        await asyncio.gather(*(work(group) for group in range(12)))

    asyncio.run(everything())
    assert groups_of(posted(engine)) == {group: [0, 1, 2, 3] for group in range(12) if group % 3}


def test_a_task_that_outlives_its_transaction_is_told(engine: LocalEngine) -> None:
    async def late(over: asyncio.Event) -> None:
        await over.wait()
        with pytest.raises(TransactionOver):
            engine.post(n(1))

    async def everything() -> None:
        over = asyncio.Event()
        with engine.transaction() as transaction:
            task = asyncio.create_task(late(over))
            await asyncio.sleep(0)
            assert isinstance(transaction, Transaction)
        over.set()
        await task

    asyncio.run(everything())
    assert posted(engine) == []
