"""A program run in pieces, in process: what engines of slots do together, as one ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from augury.algebra.program import Program
from augury.duck.selects import runnable
from augury.engine.ledger import Ledger, joined, ledger_of
from augury.engine.plan import engine_plan
from augury.engine.sharded import (
    Slots,
    absorbing,
    accepted,
    det_times,
    identified,
    numbered,
    numbers_of,
    provisionally,
    shared_ids,
    slots_of,
    split,
    to_absorb,
)
from augury.engine.state import EngineState, initial
from augury.engine.tick import Ports, ticks
from augury.engine.ticked import Ticked
from augury.history.arrivals import Arrivals, arrivals
from augury.kernels.reference.bitemporal import Raw
from tests.bitemporal.local import Known, raw_rows


def in_one(program: Program, raws: Sequence[Raw], until: int) -> Ledger:
    """What one engine does."""
    plan = engine_plan(program)
    came = arrivals(program, [raw_rows(program, raws)])
    return joined(program, [ledger_of(program, list(_ticks(program, initial(plan), came, until)))])


def in_pieces(program: Program, raws: Sequence[Raw], until: int, buckets: int) -> tuple[Slots, Ledger]:
    """What the engines of all slots do, and which slots there are."""
    came = arrivals(program, [raw_rows(program, raws)])
    slots = slots_of(program, buckets)
    if len(slots) == 1:
        return slots, in_one(program, raws, until)
    parts = split(slots, came)
    first = min((tick for tick, _ in came.by_tick(program.settings.chronon_us)), default=None)
    absorbed: set[int] = set()
    shared = shared_ids(row for slot, part in parts.items() for row in identified(slots, slot, part))
    while True:
        given = {slot: absorbing(part, absorbed) for slot, part in parts.items()}
        dry = _all(slots, {slot: provisionally(part) for slot, part in given.items()}, until, first)
        versions = {slot: accepted(done) for slot, done in enumerate(dry)}
        more = to_absorb(shared, np.concatenate([*versions.values()]), absorbed)
        if more is None:
            break
        absorbed.add(more)
    timed = {slot: (at, det_times(parts.get(slot, Arrivals()), at)) for slot, at in versions.items()}
    numbers = numbers_of(timed, 0)
    done = _all(slots, {slot: numbered(part, *numbers[slot]) for slot, part in given.items()}, until, first)
    return slots, joined(program, [ledger_of(program, one) for one in done])


def _all(slots: Slots, parts: Mapping[int, Arrivals], until: int, first: int | None) -> Iterator[list[Ticked]]:
    for slot in range(len(slots)):
        program = slots.program_of(slot)
        state = initial(engine_plan(program), slots.after_number(slot))
        yield list(_ticks(program, state, parts.get(slot, Arrivals()), until, first, settles=False))


def _ticks(
    program: Program,
    state: EngineState,
    came: Arrivals,
    until: int,
    first: int | None = None,
    *,
    settles: bool = True,
) -> Iterator[Ticked]:
    known = Known()
    ports = Ports(runnable(program), known)
    for one in ticks(engine_plan(program), state, came, until, ports, first=first, settles=settles):
        known.note(one)
        yield one
