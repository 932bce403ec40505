"""A program run in pieces, in process: what engines of slots do together, as one ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from augury.algebra.program import Program
from augury.duck.selects import runnable
from augury.engine.failing import Failing, Failures, united
from augury.engine.ledger import Ledger, joined, ledger_of
from augury.engine.plan import engine_plan
from augury.engine.sharded import (
    Known,
    Slots,
    absorbing,
    accepted,
    det_times,
    identified,
    more_known,
    numbered,
    numbers_of,
    parted,
    provisionally,
    seen_to_fail,
    shared_ids,
    slots_of,
    split,
)
from augury.engine.snapshot import loaded_state, saved_state
from augury.engine.state import EngineState, initial
from augury.engine.tick import Ports, ticks
from augury.engine.ticked import Ticked
from augury.history.arrivals import Arrivals, arrivals
from augury.kernels.reference.bitemporal import Raw
from tests.bitemporal.local import Known as KnownIds
from tests.bitemporal.local import raw_rows


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
    shared = shared_ids(row for slot, part in parts.items() for row in identified(slots, slot, part))
    known = Known(failing={})
    while True:
        given = {slot: absorbing(part, known.absorbed) for slot, part in parts.items()}
        rows = {slot: provisionally(part) for slot, part in given.items()}
        dry, found = _all(slots, {slot: part for slot, (part, _) in rows.items()}, until, first, known)
        none = np.zeros(0, np.int64)
        versions = {slot: accepted(done, rows[slot][1] if slot in rows else none) for slot, done in enumerate(dry)}
        more = more_known(program, known, found, shared, np.concatenate([*versions.values()]))
        if more is None:
            break
        known = more
    timed = {slot: (at, det_times(parts.get(slot, Arrivals()), at)) for slot, at in versions.items()}
    numbers = numbers_of(timed, 0)
    done, again = _all(
        slots, {slot: numbered(part, *numbers[slot]) for slot, part in given.items()}, until, first, known
    )
    assert again == found, "with the numbers the same SELECTs fail"
    return slots, joined(program, [ledger_of(program, one) for one in done])


def in_steps(program: Program, raws: Sequence[Raw], until: int, buckets: int, cut: int) -> Ledger:
    """What the engines of all slots do in two steps, saved and loaded in between; each slot numbers its versions."""
    came = arrivals(program, [raw_rows(program, raws)])
    slots = slots_of(program, buckets)
    plans = [engine_plan(slots.program_of(slot)) for slot in range(len(slots))]
    states: list[bytes] = []
    first = min((tick for tick, _ in came.by_tick(program.settings.chronon_us)), default=None)
    waiting, done = split(slots, came), list[Ledger]()
    for end in (cut, until):
        parts = {slot: parted(part, end) for slot, part in waiting.items()}
        waiting = {slot: later for slot, (_, later) in parts.items()}
        known: Known | None = Known()
        while known is not None:
            told, ended, found = list[Ledger](), list[bytes](), list[Failing]()
            for slot, plan in enumerate(plans):
                state = initial(plan, slots.after_number(slot)) if end == cut else loaded_state(plan, states[slot])
                failures = Failures(plan.chronon_us, known.failing or {}) if slots.shares_selects(slot) else None
                now, _ = parts.get(slot, (Arrivals(), Arrivals()))
                ran = list(_ticks(plan.program, state, now, end, first, settles=False, failures=failures))
                told.append(ledger_of(plan.program, ran))
                ended.append(saved_state(plan, state))
                found += [] if failures is None else [failures.found()]
            known = seen_to_fail(program, known, united(found))
        states = ended
        done += told
    return joined(program, done)


def _all(
    slots: Slots, parts: Mapping[int, Arrivals], until: int, first: int | None, known: Known
) -> tuple[list[list[Ticked]], Failing]:
    done: list[list[Ticked]] = []
    found: list[Failing] = []
    for slot in range(len(slots)):
        program = slots.program_of(slot)
        state = initial(engine_plan(program), slots.after_number(slot))
        failures = None
        if slots.shares_selects(slot):
            failures = Failures(program.settings.chronon_us, known.failing or {})
        came = parts.get(slot, Arrivals())
        done.append(list(_ticks(program, state, came, until, first, settles=False, failures=failures)))
        found += [] if failures is None else [failures.found()]
    return done, united(found)


def _ticks(
    program: Program,
    state: EngineState,
    came: Arrivals,
    until: int,
    first: int | None = None,
    *,
    settles: bool = True,
    failures: Failures | None = None,
) -> Iterator[Ticked]:
    known = KnownIds()
    ports = Ports(runnable(program), known, failures=failures)
    for one in ticks(engine_plan(program), state, came, until, ports, first=first, settles=settles):
        known.note(one)
        yield one
