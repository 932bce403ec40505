"""How fast is COMPOSITE, beside MATCH over the same events, and does an event cost more the longer the history is?

Everything is measured in one run, as ratios, because machines differ and are noisy:

- `A > B` per key in CHRONICLE and RECENT against the keyed MATCH `prior(A(K), B(K))`, 10 M events of 10,000 keys, from
  Parquet to occurrences, in process;
- the kernels alone over a tenth of the events and over all of them, in ten batches each: CPU time an event, and what
  the state takes as bytes.

    .venv/bin/python benchmarks/composite.py [EVENTS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from match import detected, medians

KEYS = 10_000
CLASSES = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID () LIFESPAN (1d);
"""
FOUND = {
    "MATCH": "AS MATCH prior(A(K), B(K))",
    "CHRONICLE": "AS COMPOSITE A(K) > B(K) CONTEXT CHRONICLE",
    "RECENT": "AS COMPOSITE A(K) > B(K) CONTEXT RECENT",
}


def program_of(name: str):
    import augury

    return augury.compile(f"{CLASSES}CREATE COMPLEX EVENT CLASS Found (K INT) ID () {FOUND[name]};")


def make_events(path: Path, count: int) -> None:
    """A file of events in order of time; fewer A's than B's, or ever more would wait for one."""
    random = np.random.default_rng(7)
    codes = pa.array((random.random(count) < 0.6).astype(np.int8))
    table = pa.table(
        {
            "event": pa.DictionaryArray.from_arrays(codes, pa.array(["A", "B"])),
            "det_time": pa.array(np.arange(count) * 1_000 + 1_700_000_000_000_000).view(pa.timestamp("us", "UTC")),
            "k": pa.array(random.integers(0, KEYS, count).astype(np.int32)),
        }
    )
    pq.write_table(table, path)


def end_to_end(path: Path, count: int) -> None:
    programs = {name: program_of(name) for name in FOUND}
    found = medians({name: lambda p=program: detected(p, path) for name, program in programs.items()})
    print(f"`A > B` per key, from Parquet to occurrences, {count:,} events of {KEYS:,} keys; medians of three")
    base_cpu, base_wall, _ = found["MATCH"]
    for name, (cpu, wall, result) in found.items():
        ratio = "" if name == "MATCH" else f"   {cpu / base_cpu:.2f}× CPU, {wall / base_wall:.2f}× wall of MATCH (4×)"
        print(f"  {name:<10} {cpu:6.2f} CPU s {wall:6.2f} s {len(result.occurrences[0]):>10,} found{ratio}")


def alone(name: str, path: Path, count: int) -> tuple[float, int]:
    """CPU time of the kernel over the first events in ten batches, and the bytes of the state after them."""
    from augury.history.accept import accept
    from augury.kernels.composite import detector_of, initial_state, step
    from augury.kernels.composite.saved import saved
    from augury.local.sources import tables_of

    program = program_of(name)
    plan = program.class_plan("Found")
    batch = accept(program, tables_of(pq.read_table(path).slice(0, count))).batch
    detector = detector_of(plan.derivation)
    state = initial_state(detector, batch.classes)
    begin = time.process_time()
    for part in range(10):
        cut = batch.part(count * part // 10, count * (part + 1) // 10)
        state, _ = step(detector, state, cut, plan.event_class, 1_000_000, int(cut.det_time[-1]))
    return time.process_time() - begin, len(saved(state, detector, batch.classes))


def longer(path: Path, count: int) -> None:
    print(f"the kernel alone, in ten batches: {count // 10:,} events, and {count:,}")
    for name in ("CHRONICLE", "RECENT"):
        alone(name, path, 10_000)
        few, few_bytes = alone(name, path, count // 10)
        many, many_bytes = alone(name, path, count)
        growth = many / few / 10
        print(
            f"  {name:<10} {few / count * 1e10:5.0f} ns an event, then {many / count * 1e9:5.0f}: {growth:.2f}×"
            f"; state {few_bytes / KEYS:,.0f} bytes a key, then {many_bytes / KEYS:,.0f}"
        )


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        make_events(path, count)
        end_to_end(path, count)
        longer(path, count)


if __name__ == "__main__":
    main()
