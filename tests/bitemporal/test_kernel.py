"""The columnar ticks of classes against the reference: what fires in the corpus, the table of primitives, random cases.

The kernel is handed what the reference accepted, derived and purged, tick by tick, so that conditions, timers and views
are compared, and nothing else; which versions there are is compared elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from augury.algebra.program import Program
from augury.event import EventClass, key_of
from augury.kernels.bitemporal import ClassState, Fired, Versions, class_state, keys_of, purge, step, watch
from augury.kernels.columns import arrow_type
from augury.kernels.reference.bitemporal import Run, Version, run
from tests.bitemporal.corpus import Case, cases, cells, program_of, raws_of, until_of
from tests.bitemporal.duck import selects_of
from tests.bitemporal.generate import generate

Row = tuple[int, str, int, str, tuple[object, ...], tuple[object, ...]]
"""Tick, class, place of the statement, action, key, arguments."""


def wanted(of: Run) -> list[Row]:
    """What fires in a run of the reference."""
    found: list[Row] = []
    for tick in of.ticks:
        for action in tick.actions:
            version = action.version
            found.append(
                (tick.tick, version.event_class, action.statement - 1, action.name, version.key, action.arguments)
            )
    return found


def fired(program: Program, of: Run) -> Iterator[Row]:
    """What the kernel says of the same ticks."""
    chronon_us = program.settings.chronon_us
    states = {p.event_class.name: class_state(watch(p.event_class, p.statements)) for p in program.classes}
    for tick in of.ticks:
        for plan in program.classes:
            name, state = plan.event_class.name, states[plan.event_class.name]
            versions = [one for one in (*tick.read, *tick.published) if key_of(one.event_class) == key_of(name)]
            seen = _versions(plan.event_class, versions) if versions else None
            yield from _rows(tick.tick, plan.event_class, step(state, seen, tick.tick, chronon_us)[1])
        for gone in tick.purged:
            _purge(states[gone.event_class], gone)


def _versions(event_class: EventClass, versions: Sequence[Version]) -> Versions:
    kinds = [arrow_type(attribute.type) for attribute in event_class.attributes]
    columns = [[version.values[i] for version in versions] for i in range(len(kinds))]
    values = tuple(_array(column, kind) for column, kind in zip(columns, kinds, strict=True))
    occ = np.array([0 if one.occ_time is None else one.occ_time for one in versions], np.int64)
    det = np.array([one.det_time for one in versions], np.int64)
    withdrawn = np.array([one.occ_time is None for one in versions], np.bool_)
    seq = np.array([one.seq or 0 for one in versions], np.int64)
    # The reference knows an event of a class without a key by what it says it is.
    keys = keys_of(event_class, values, seq) if event_class.key else [one.key for one in versions]
    return Versions(values, occ, det, seq, withdrawn, keys)


def _array(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def _purge(state: ClassState, gone: Version) -> None:
    event_class = state.view.watch.event_class
    (key,) = (
        keys_of(event_class, _versions(event_class, [gone]).values, np.zeros(1, np.int64))
        if event_class.key
        else [gone.key]
    )
    purge(state.view, np.array([state.view.slots[key]]))


def _rows(tick: int, event_class: EventClass, of: Fired) -> Iterator[Row]:
    columns = [[_plain(argument) for argument in one.arguments] for one in of.groups]
    for group, row in zip(of.group.tolist(), of.row.tolist(), strict=True):
        one = of.groups[group]
        arguments = tuple(column[row] for column in columns[group])
        yield tick, event_class.name, one.statement, one.name, _key(one.keys[row]), arguments


def _key(key: Any) -> tuple[object, ...]:
    return key if isinstance(key, tuple) else (key,)


def _plain(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.view(pa.int64())
    found: list[Any] = column.to_pylist()
    return found


def agreed(program: Program, of: Run) -> int:
    """Compare; how many actions fire."""
    found, expected = list(fired(program, of)), wanted(of)
    assert Counter(map(repr, found)) == Counter(map(repr, expected))
    return len(expected)


def _of_case(case: Case) -> tuple[Program, Run]:
    program = program_of(case)
    return program, run(program, selects_of(program), raws_of(case, program), until_of(case))


@pytest.mark.parametrize("case", [*cases(), *cells()], ids=lambda case: str(case["name"]))
def test_a_case_of_the_contract_fires_what_the_reference_fires(case: Case) -> None:
    agreed(*_of_case(case))


@pytest.mark.parametrize("fifty", range(8))
def test_four_hundred_seeds(fifty: int) -> None:
    count = 0
    for seed in range(fifty * 50, fifty * 50 + 50):
        g = generate(seed)
        count += agreed(g.program, run(g.program, g.selects, g.raws, g.until))
    assert count > 50
