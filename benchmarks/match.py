"""How fast is MATCH? From Parquet to occurrences, against reading and sorting, and against hand-written SQL.

Everything is measured in one run, as ratios, because machines differ and are noisy:

- a keyed MATCH over 10 M events and 10,000 keys, in process, against reading the same columns and sorting them by key;
- the same pattern in SQL on DuckDB, on the same file;
- the walk alone, in events per CPU second;
- 100 different expressions over the same events against one;
- expressions that events of other values matter to, with twice and four times the values at as many events;
- a new process's first batch; memory per key; the time to compile the examples of the Ode paper.

    .venv/bin/python benchmarks/match.py [EVENTS] [--part NAME]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KEYS = 10_000
RUNS = 3
ROOT = Path(__file__).parents[1]

CLASSES = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Login (card INT, amount INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Withdrawal (card INT, amount INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Transfer (card INT, amount INT) ID () LIFESPAN (1d);
"""
MATCH = "prior(Login(C, _), Withdrawal(C, _)[amount > 900], Transfer(C, _)[amount > 900])"

# Each large transfer after a large withdrawal after a login of the same card, with the latest of each: as MATCH.
SQL = """
WITH steps AS (
  SELECT seq, card, event, amount,
    max(CASE WHEN event = 'Login' THEN seq END) OVER before AS login
  FROM read_parquet('{path}')
  WINDOW before AS (PARTITION BY card ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), withdrawn AS (
  SELECT seq, event, amount,
    max(CASE WHEN event = 'Withdrawal' AND amount > 900 AND login IS NOT NULL THEN seq END) OVER before AS withdrawal
  FROM steps
  WINDOW before AS (PARTITION BY card ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT seq, withdrawal FROM withdrawn WHERE event = 'Transfer' AND amount > 900 AND withdrawal IS NOT NULL ORDER BY seq
"""


def make_events(path: Path, count: int, keys: int = KEYS) -> None:
    """A file of events in order of time, each class a third."""
    random = np.random.default_rng(7)
    names = pa.array(["Login", "Withdrawal", "Transfer"])
    codes = pa.array(random.integers(0, 3, count).astype(np.int8))
    table = pa.table(
        {
            "event": pa.DictionaryArray.from_arrays(codes, names),
            "seq": pa.array(np.arange(1, count + 1)),
            "det_time": pa.array(np.arange(count) * 1_000 + 1_700_000_000_000_000).view(pa.timestamp("us", "UTC")),
            "card": pa.array(random.integers(0, keys, count).astype(np.int32)),
            "amount": pa.array(random.integers(0, 1000, count).astype(np.int32)),
        }
    )
    pq.write_table(table, path)


def timed(run: Callable[[], object]) -> tuple[float, float, object]:
    """CPU seconds, wall seconds and what came out."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = run()
    return time.process_time() - cpu, time.perf_counter() - wall, found


def medians(runs: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float, object]]:
    """The median CPU and wall seconds of each, run in turns after one turn that is not counted."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    last: dict[str, object] = {}
    for turn in range(RUNS + 1):
        for name, run in runs.items():
            cpu, wall, found = timed(run)
            # What came out is let go, or every run would pay for memory that no run before it gave back.
            last = {**last, name: found} if turn == RUNS else {}
            del found
            if turn:
                taken[name].append((cpu, wall))
    return {
        name: (statistics.median(m[0] for m in each), statistics.median(m[1] for m in each), last[name])
        for name, each in taken.items()
    }


def program_of(*matches: str):
    import augury

    found = "".join(
        f"CREATE COMPLEX EVENT CLASS T{i} (C INT) ID () AS MATCH {match};\n" for i, match in enumerate(matches)
    )
    return augury.compile(CLASSES + found)


def detected(program, path: Path):
    from augury.local.engine import detect
    from augury.local.kernel import match_kernel
    from augury.local.sources import read_events

    return detect(program, read_events(str(path)), match_kernel)


def read_and_sort(path: Path, how: str) -> int:
    table = pq.read_table(path, columns=["event", "seq", "det_time", "card", "amount"])
    if how == "lexsort":
        card, seq = (table.column(name).to_numpy() for name in ("card", "seq"))
        return len(np.lexsort((seq, card)))
    return len(pc.sort_indices(table, sort_keys=[("card", "ascending"), ("seq", "ascending")]))


def end_to_end(path: Path) -> None:
    import duckdb

    program = program_of(MATCH)
    found = medians(
        {
            "MATCH": lambda: detected(program, path),
            "sort, pyarrow": lambda: read_and_sort(path, "pyarrow"),
            "sort, lexsort": lambda: read_and_sort(path, "lexsort"),
            "DuckDB": lambda: duckdb.sql(SQL.format(path=path)).fetchnumpy(),
        }
    )
    occurrences = found["MATCH"][2].occurrences[0]
    sql = found["DuckDB"][2]
    same = np.array_equal(occurrences.seq, sql["seq"]) and np.array_equal(
        np.array([c[1] for c in occurrences.constituents.to_pylist()]), sql["withdrawal"]
    )
    assert same, "MATCH and SQL find the same"
    print(f"keyed MATCH, from Parquet to {len(occurrences):,} occurrences; medians of {RUNS}")
    for name, (cpu, wall, _) in found.items():
        print(f"  {name:<16} {cpu:6.2f} CPU s {wall:6.2f} s")
    cpu, wall, _ = found["MATCH"]
    sort = min(("sort, pyarrow", "sort, lexsort"), key=lambda name: found[name][0])
    print(f"  MATCH / {sort}: {cpu / found[sort][0]:.2f}× CPU, {wall / found[sort][1]:.2f}× wall   (target 2.5×)")
    print(
        f"  MATCH / DuckDB: {cpu / found['DuckDB'][0]:.2f}× CPU, {wall / found['DuckDB'][1]:.2f}× wall   (target < 1×)"
    )


def walked(detector, symbol, begins, event):
    from augury.kernels.match.walk import walk_automaton

    tables, does = detector.tables, detector.tables.programs
    heads = np.full((KEYS, tables.states), -1, np.int32)
    heads[:, tables.initial] = 0
    at, last, none, one = (
        np.zeros(KEYS, np.int32),
        np.zeros(KEYS, np.int64),
        np.zeros(0, np.int64),
        np.zeros(1, np.int32),
    )
    return walk_automaton(
        *(np.arange(KEYS), begins, symbol, none, event, at, last, heads, tables.delta, tables.quiet),
        *(does.first, does.target, does.source, does.mark, does.rival),
        *(detector.other, tables.tail, tables.period, False, True),
        *(np.zeros(1, np.int64), one, one.copy(), one.copy(), 1),
    )


def walk_alone(count: int) -> None:
    from augury.kernels.match import detector_of

    random = np.random.default_rng(1)
    plan = program_of(MATCH).class_plan("T0")
    detector = detector_of(plan.derivation)
    tables = detector.tables
    kinds = np.array([s for s in range(tables.symbols) if s != detector.other], np.int32)
    print(f"the walk alone, {count:,} events of {KEYS:,} keys; best of {RUNS}")
    # As the benchmark's file has them: a third logins, a tenth of the other two thirds large.
    weights = np.array([1 / 3 if "Login" in name else 1 / 30 for name in (detector.alphabet.names()[k] for k in kinds)])
    drawn = random.choice([*kinds, detector.other], count, p=[*weights, 1 - weights.sum()]).astype(np.int32)
    of_use = random.choice(kinds, count).astype(np.int32)
    for name, symbol in {
        "as run: only rows that touch a stream": drawn[drawn != detector.other],
        "a row for every event": drawn,
        "a row for every event, all of them of use": of_use,
    }.items():
        begins = np.linspace(0, len(symbol), KEYS + 1).astype(np.int64)
        event = np.arange(len(symbol), dtype=np.int64)
        best = float("inf")
        for _ in range(RUNS + 1):
            cpu, _, found = timed(partial(walked, detector, symbol, begins, event))
            best = min(best, cpu)
        print(f"  {name:<42} {count / best / 1e6:5.0f} M events per CPU s, {len(found[5]):,} found   (target 100)")


def many(path: Path) -> None:
    shapes = [
        "prior(Login(C, _)[amount > {a}], Withdrawal(C, _)[amount > {b}])",
        "prior(Login(C, _), Withdrawal(C, _)[amount > {a}], Transfer(C, _)[amount > {b}])",
        "sequence(Login(C, _)[amount > {a}], Transfer(C, _)[amount > {b}])",
        "(<3> Withdrawal(C, _)[amount > {a}]) /+ Login(C, _)[amount > {b}]",
        "firstAfter(Login(C, _)[amount > {a}], Transfer(C, _)[amount > {b}], Withdrawal(C, _))",
    ]
    matches = [shapes[i % 5].format(a=800 + i, b=995 - i) for i in range(100)]
    one, hundred = program_of(MATCH), program_of(*matches)
    detected(one, path)
    cpu_one, wall_one, _ = timed(lambda: detected(one, path))
    cpu_many, wall_many, found = timed(lambda: detected(hundred, path))
    total = sum(map(len, found.occurrences))
    print("100 different expressions over the same events, end to end")
    print(f"  one {cpu_one:.2f} CPU s, {wall_one:.2f} s; 100 {cpu_many:.2f} CPU s, {wall_many:.2f} s; {total:,} found")
    print(f"  100 / one: {cpu_many / cpu_one:.1f}× CPU, {wall_many / wall_one:.1f}× wall   (target 20×)")


LISTENING = {
    "takes place at events of others": "!happened(Withdrawal(C, _)) /+ Login(C, _)",
    "any event after two": "prior(Login(C, _), any) AND prior(Withdrawal(C, _), any)",
    "a tenth of the events names no value": "prior(Login(C, _), Transfer[amount > 700], Withdrawal(C, _))",
}


def stepped(match: str, keys: int, count: int) -> float:
    """The best CPU time of a step over events of so many values, after one that is not counted."""
    from augury.history.accept import accept
    from augury.kernels.match import detector_of, initial_state, step
    from augury.local.sources import read_events

    program = program_of(match)
    plan = program.class_plan("T0")
    detector = detector_of(plan.derivation)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        make_events(path, count, keys)
        batch = accept(program, read_events(str(path))).batch

    def run() -> object:
        return step(detector, initial_state(detector, batch.classes), batch, plan.event_class, 1_000_000)

    return min([timed(run)[0] for _ in range(RUNS + 1)][1:])


def listening() -> None:
    count, keys = 20_000, (2_000, 4_000, 8_000)
    print(f"events of other values matter: {count:,} events of {' / '.join(f'{k:,}' for k in keys)} values")
    for name, match in LISTENING.items():
        best = [stepped(match, k, count) for k in keys]
        print(f"  {name:<38} {' / '.join(f'{cpu:.2f}' for cpu in best)} CPU s   (target: the last < 2× the first)")


COLD = """
import time, sys; begun = time.perf_counter()
import augury
program = augury.compile({text!r})
compiled = time.perf_counter()
events = [{{"event": "Login", "occ_time": i, "card": i % 7, "amount": i}} for i in range(1000)]
program.detect(events)
first = time.perf_counter()
program.detect(events)
print(f"{{compiled - begun:.2f}} {{first - compiled:.2f}} {{time.perf_counter() - first:.3f}}")
"""


def cold() -> None:
    text = CLASSES + f"CREATE COMPLEX EVENT CLASS T (C INT) ID () AS MATCH {MATCH};"
    print("a new process: import and compile, first batch of 1,000 events, second batch (s)")
    with tempfile.TemporaryDirectory() as cache:
        for name in ("machine code not cached", "machine code cached"):
            env = {**os.environ, "NUMBA_CACHE_DIR": cache}
            done = subprocess.run(
                [sys.executable, "-c", COLD.format(text=text)], env=env, capture_output=True, text=True, check=True
            )
            print(f"  {name:<26} {' / '.join(done.stdout.split())}")


def memory(path: Path) -> None:
    from augury.history.accept import accept
    from augury.kernels.match import detector_of, initial_state, step
    from augury.local.sources import read_events

    program = program_of(MATCH)
    plan = program.class_plan("T0")
    batch = accept(program, read_events(str(path))).batch
    detector = detector_of(plan.derivation)
    state, _ = step(detector, initial_state(detector, batch.classes), batch, plan.event_class, 1_000_000)
    fixed = sum(a.nbytes for a in (state.at, state.last, state.heads, state.streams.partition, state.streams.bound))
    nodes = state.nodes.count * (8 + 4 + 4 + 4)
    events = sum(a.nbytes for a in (state.events.seq, state.events.occ_time, state.events.det_time))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"state after all events, {len(state.at):,} keys")
    each = [f"{size / len(state.at):.0f}" for size in (fixed, nodes, events)]
    print(f"  {each[0]} bytes a key (target 64), and for bindings {each[1]} in nodes and {each[2]} in events' times")
    print(f"  peak of the process {peak:,.0f} MB")


def compile_times() -> None:
    import augury
    from augury.algebra.expression import MatchPlan
    from augury.kernels.match import detector_of

    taken = []
    for path in sorted((ROOT / "examples" / "seeds").glob("ode_*.bicepl")):
        for plan in augury.compile(path.read_text("utf-8")).classes:
            if isinstance(plan.derivation, MatchPlan) and plan.derivation.by_occurrence is None:
                cpu, _, _ = timed(lambda match=plan.derivation: detector_of(match))
                taken.append((cpu * 1000, plan.event_class.name))
    taken.sort()
    worst = ", ".join(f"{name} {ms:.0f}" for ms, name in taken[:-4:-1])
    print(f"compiling the {len(taken)} MATCH classes of the Ode paper to tables, CPU ms each")
    print(f"  median {taken[len(taken) // 2][0]:.1f}; slowest {worst}   (target 50)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", nargs="?", type=int, default=10_000_000)
    parser.add_argument("--part", choices=["end", "walk", "many", "listening", "cold", "memory", "compile"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        make_events(path, arguments.events)
        parts: dict[str, Callable[[], None]] = {
            "compile": compile_times,
            "end": lambda: end_to_end(path),
            "walk": lambda: walk_alone(arguments.events),
            "memory": lambda: memory(path),
            "many": lambda: many(path),
            "listening": listening,
            "cold": cold,
        }
        for name, part in parts.items():
            if arguments.part in (None, name):
                part()


if __name__ == "__main__":
    main()
