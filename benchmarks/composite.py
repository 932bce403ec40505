"""How fast is COMPOSITE, beside MATCH over the same events?

`A > B` per key in CHRONICLE (Oldest) and RECENT (Latest) against the keyed MATCH `prior(A(K), B(K))`: kernels alone, in
one run; and whether the cost of an event grows with the length of the history.

    .venv/bin/python benchmarks/composite.py [EVENTS]
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.api import compile
from augury.history.accept import accept
from augury.kernels import composite, match
from augury.local.sources import tables_of

KEYS = 1_000
PROGRAM = compile(
    """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Matched (K INT) ID () AS MATCH prior(A(K), B(K));
CREATE COMPLEX EVENT CLASS Oldest (K INT) ID () AS COMPOSITE A(K) > B(K) CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Latest (K INT) ID () AS COMPOSITE A(K) > B(K) CONTEXT RECENT;
"""
)


def seconds(name: str, count: int) -> tuple[float, int]:
    """The CPU time of a class over so many events, and how many it finds."""
    random = np.random.default_rng(7)
    names = pa.array(["A", "B"])
    events = pa.table(
        {
            "event": pa.DictionaryArray.from_arrays(pa.array(random.integers(0, 2, count).astype(np.int8)), names),
            "det_time": pa.array(np.arange(count) * 1_000 + 1_700_000_000_000_000).view(pa.timestamp("us", "UTC")),
            "k": pa.array(random.integers(0, KEYS, count).astype(np.int32)),
        }
    )
    batch = accept(PROGRAM, tables_of(events)).batch
    plan = PROGRAM.class_plan(name)
    assert plan is not None
    begin = time.process_time()
    if isinstance(plan.derivation, MatchPlan):
        detector = match.detector_of(plan.derivation)
        state = match.initial_state(detector, batch.classes)
        found = match.step(detector, state, batch, plan.event_class, 1_000_000)[1]
    else:
        assert isinstance(plan.derivation, CompositePlan)
        graph = composite.detector_of(plan.derivation)
        kept = composite.initial_state(graph, batch.classes)
        end_us = int(batch.det_time[-1]) + 1
        found = composite.step(graph, kept, batch, plan.event_class, 1_000_000, end_us)[1]
    return time.process_time() - begin, len(found)


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    seconds("Matched", 1_000)
    base, found = seconds("Matched", count)
    print(f"A > B over {count:,} events of {KEYS:,} keys, the kernel alone, CPU s")
    print(f"  MATCH      {base:7.3f}   {count / base / 1e6:8.2f} M events/s   {found:,} found")
    for name in ("Oldest", "Latest"):
        short, _ = seconds(name, count // 4)
        taken, found = seconds(name, count)
        print(
            f"  {name:<10} {taken:7.3f}   {count / taken / 1e6:8.3f} M events/s   {found:,} found"
            f"   {taken / base:.0f}× MATCH (target 4×); an event costs {taken / short / 4:.2f}× as much as in a quarter"
        )


if __name__ == "__main__":
    main()
