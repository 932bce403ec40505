"""Which event a `seq` is a version of: against plain dictionaries, and how much of it a long run keeps."""

from __future__ import annotations

import random

import numpy as np
import pytest

from augury.api import compile
from augury.duck.selects import runnable
from augury.engine import traces
from augury.engine.plan import engine_plan
from augury.engine.snapshot import saved_state
from augury.engine.state import initial
from augury.engine.tick import Ports, ticks
from augury.engine.traces import NOWHERE, Traced
from augury.history.arrivals import arrivals
from augury.history.raw import RawRows


def numbers(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("seed", range(200))
def test_versions_are_found_as_in_a_dictionary(seed: int) -> None:
    chance = random.Random(seed)
    traced, model, seq = Traced(), dict[int, int](), 0
    for _ in range(chance.randint(1, 12)):
        rows = []
        for _ in range(chance.randint(0, 8)):
            seq += chance.randint(1, 3)
            slot, ends = chance.choice([NOWHERE, 0, 1, 2, 3, 70]), chance.random() < 0.2
            rows.append((seq, slot, ends))
            if ends:
                model = {number: at for number, at in model.items() if at != slot}
            elif slot != NOWHERE:
                model[seq] = slot
        traced.note(
            *(np.array(column) for column in zip(*rows, strict=True))
            if rows
            else (numbers([]),) * 2 + (numbers([]) > 0,)
        )
        if chance.random() < 0.3:
            left = [chance.choice([0, 1, 2, 3, 70, 900])]
            traced.forget(numbers(left))
            model = {number: at for number, at in model.items() if at not in left}
        if chance.random() < 0.3:
            held = [number for number in model if chance.random() < 0.6]
            traced.keep(numbers(held), None)
            model = {number: model[number] for number in held}
        if chance.random() < 0.2:
            traced.keep(numbers(sorted(model)), None)
            traced = Traced(traced.seq, traced.slot)
        asked = numbers(list(range(seq + 2)))
        assert traced.slots_of(asked).tolist() == [model.get(number, NOWHERE) for number in asked.tolist()]


PROGRAM = """
SET CHRONON 1s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Login (card INT) ID (card) LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Withdrawal (card INT, amount INT) ID (card) LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Found (card INT) ID (card) LIFESPAN (1d)
  AS {expression};
"""


@pytest.mark.parametrize(
    "expression",
    [
        "MATCH prior(Login(card), Withdrawal(card, _)[amount > 90])",
        "COMPOSITE Login(card) > Withdrawal(card, _) CONTEXT CHRONICLE",
        "COMPOSITE Login(card) & Withdrawal(card, _) WHERE Withdrawal.amount > 90",
    ],
)
def test_events_that_change_for_ever_take_no_more_room(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "SPARE", 64)
    program = compile(PROGRAM.format(expression=expression))
    plan, chance = engine_plan(program), random.Random(1)
    state, kept, sizes = initial(plan), [], []
    for tick in range(120):
        events = [
            {"event": "Login", "det_time": tick, "card": card}
            if chance.random() < 0.4
            else {"event": "Withdrawal", "det_time": tick, "card": card, "amount": chance.randrange(100)}
            for card in (chance.randrange(20) for _ in range(40))
        ]
        came = arrivals(program, [RawRows(f"{tick:03d}", events, range(len(events)))])
        for _ in ticks(plan, state, came, (tick + 1) * 1_000_000, Ports(runnable(program))):
            pass
        kept.append(len(state.traces))
        sizes.append(len(saved_state(plan, state)) if tick % 10 == 9 else 0)
    assert max(kept[60:]) <= 1.2 * max(kept[:60])
    assert max(sizes[60:]) <= 1.2 * max(sizes[:60])
