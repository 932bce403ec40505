"""How fast is detection on Spark, beside reading and shuffling the same columns, and beside window functions?

Everything is measured in one run, as ratios, because machines differ and are noisy: CPU seconds are those of the whole
tree of processes (driver, JVM, Python workers), from Parquet to Parquet, medians of runs in turns:

- 10 M events of 10,000 keys, a keyed MATCH: over a stored history (`numbered`), and where `seq` has to be given;
- the baseline: read the same columns, shuffle them by the key, write nothing;
- the same pattern as window functions of Spark, over the numbered events;
- the same where the classes have a key (`ID (card)`), so that which rows are versions is found out as `seq`
  is given: `keyed_assigned`;
- a COMPOSITE over the same keys; 20 MATCH classes over the same key; all of it in one core against two;
- the same MATCH without its key, in ranges of the history (`unkeyed`), and in one partition (`in_one`); with a number
  to give, `unkeyed_assigned` and `in_one_assigned`.

    .venv/bin/python benchmarks/spark.py [EVENTS] [--only NAME …] [--runs N] [--master local[2]] [--data FOLDER]
      [--long]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from match import CLASSES, KEYS, MATCH, make_events

FILES = 8
PARTITIONS = 4
COLUMNS = ["event", "seq", "det_time", "card", "amount"]
# A card has many events: all of them change one, and none is refused.
KEYED = CLASSES.replace("IMMUTABLE", "MUTABLE").replace("ID ()", "ID (card)")
UNKEYED = "prior(Login[amount > 500], Withdrawal[amount > 900], Transfer[amount > 900])"
COMPOSITE = "Login(C, _) > Withdrawal(C, _)[amount > 900] > Transfer(C, _)[amount > 900] CONTEXT CHRONICLE"

# Each large transfer after a large withdrawal after a login of the same card, with the latest of each: as MATCH.
WINDOWS = """
WITH steps AS (
  SELECT seq, det_time, card, event, amount, max(CASE WHEN event = 'Login' THEN seq END) OVER (
    PARTITION BY card ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS login
  FROM events
), withdrawn AS (
  SELECT seq, det_time, card, event, amount, max(
    CASE WHEN event = 'Withdrawal' AND amount > 900 AND login IS NOT NULL THEN struct(seq, login) END) OVER (
    PARTITION BY card ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS found
  FROM steps
)
SELECT 'T0' AS event, seq, det_time, array(found.login, found.seq, seq) AS constituents, card AS C
FROM withdrawn WHERE event = 'Transfer' AND amount > 900 AND found IS NOT NULL
"""


WORKERS: dict[tuple[int, str], int] = {}
"""What Python workers had used when they were seen last, by process and its start."""


def cpu_seconds() -> float:
    """What this process and all below it have used, those that have ended included."""
    stats: dict[int, tuple[str, list[str]]] = {}
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            before, _, after = (process / "stat").read_text("utf-8", "replace").rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = after.split()
        stats[int(process.name)] = (before.partition("(")[2], fields)
        children.setdefault(int(fields[1]), []).append(int(process.name))
    total, waiting = 0, [(os.getpid(), False, False)]
    while waiting:
        pid, is_daemon, is_worker = waiting.pop()
        name, fields = stats[pid]
        # What forks workers does not wait for them: who is idle for a minute ends, and nobody has its seconds.
        if is_worker:
            WORKERS[pid, fields[19]] = sum(map(int, fields[11:15]))
        else:
            total += sum(map(int, fields[11:15]))
        waiting += [(child, name == "java", is_daemon or is_worker) for child in children.get(pid, [])]
    return (total + sum(WORKERS.values())) / os.sysconf("SC_CLK_TCK")


def program_of(*derivations: str, classes: str = CLASSES):
    import augury

    found = "".join(f"CREATE COMPLEX EVENT CLASS T{i} (C INT) ID () AS {d};\n" for i, d in enumerate(derivations))
    return augury.compile(classes + found)


def twenty() -> list[str]:
    """Other masks each, and as many found in all as few: what is measured is detecting."""
    shape = "MATCH prior(Login(C, _)[amount > {a}], Withdrawal(C, _)[amount > {b}], Transfer(C, _)[amount > {c}])"
    return [shape.format(a=900 + i, b=980 - i, c=960 + i) for i in range(20)]


def cases(spark, data: Path, out: Path) -> dict[str, Callable[[], object]]:
    """What is run, by name; each reads the files and writes what it finds."""
    from augury.spark.detect import detect

    one, composite, many = program_of(f"MATCH {MATCH}"), program_of(f"COMPOSITE {COMPOSITE}"), program_of(*twenty())
    unkeyed = program_of(f"MATCH {UNKEYED}")
    keyed = program_of(f"MATCH {MATCH}", classes=KEYED)

    def events(*without: str):
        frame = spark.read.parquet(str(data))
        return frame.select([name for name in COLUMNS if name not in without])

    def detected(program, name: str, **options) -> None:
        options = {"partitions": PARTITIONS} | options
        with detect(program, events(*options.pop("without", ())), **options) as found:
            found.events.write.mode("overwrite").parquet(str(out / name))

    def windows() -> None:
        events().createOrReplaceTempView("events")
        spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
        spark.sql(WINDOWS).write.mode("overwrite").parquet(str(out / "windows"))

    return {
        "baseline": lambda: events().repartition(PARTITIONS, "card").write.format("noop").mode("overwrite").save(),
        "numbered": lambda: detected(one, "numbered", numbered=True),
        "assigned": lambda: detected(one, "assigned", without=("seq",)),
        "keyed_assigned": lambda: detected(keyed, "keyed_assigned", without=("seq",)),
        "windows": windows,
        "composite": lambda: detected(composite, "composite", numbered=True),
        "twenty": lambda: detected(many, "twenty", numbered=True),
        "unkeyed": lambda: detected(unkeyed, "unkeyed", numbered=True),
        "in_one": lambda: detected(unkeyed, "in_one", numbered=True, partitions=1),
        "unkeyed_assigned": lambda: detected(unkeyed, "unkeyed_assigned", without=("seq",)),
        "in_one_assigned": lambda: detected(unkeyed, "in_one_assigned", without=("seq",), partitions=1),
    }


def measured(runs: dict[str, Callable[[], object]], times: int) -> dict[str, tuple[float, float]]:
    """The median CPU and wall seconds of each, run in turns after one turn that is not counted."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for turn in range(times + 1):
        for name, run in runs.items():
            cpu, wall = cpu_seconds(), time.perf_counter()
            run()
            spent = cpu_seconds() - cpu, time.perf_counter() - wall
            print(f"    turn {turn} {name:<10} {spent[0]:6.2f} CPU s {spent[1]:6.2f} s", flush=True)
            if turn:
                taken[name].append(spent)
    return {n: (statistics.median(m[0] for m in e), statistics.median(m[1] for m in e)) for n, e in taken.items()}


TARGETS = {
    "numbered": ("baseline", "2.5×, at most 3.2×"),
    "assigned": ("baseline", "4.5×"),
    "keyed_assigned": ("baseline", "4.5×"),
    "composite": ("baseline", "4×"),
    "twenty": ("numbered", "3×"),
    "unkeyed": ("in_one", "2× CPU at most: all is read twice"),
    "unkeyed_assigned": ("in_one_assigned", "2× CPU at most: all is read twice"),
}


def show(found: dict[str, tuple[float, float]]) -> None:
    for name, (cpu, wall) in found.items():
        print(f"  {name:<10} {cpu:6.2f} CPU s {wall:6.2f} s")
    pairs = [(name, base, target) for name, (base, target) in TARGETS.items()]
    for name, base, target in [*pairs, ("numbered", "windows", "below 1×"), ("assigned", "windows", "below 1×")]:
        if name in found and base in found:
            cpu, wall = (a / b for a, b in zip(found[name], found[base], strict=True))
            print(f"  {name} / {base}: {cpu:.2f}× CPU, {wall:.2f}× wall   (target {target})")


def same(out: Path, *names: str) -> None:
    """Ways to find one thing find the same: MATCH, numbered or not, and window functions; ranges and one partition."""
    tables = [pq.read_table(out / name, columns=["seq", "constituents"]) for name in names]
    rows = [sorted(zip(*table.to_pydict().values(), strict=True)) for table in tables]
    assert all(found == rows[0] for found in rows), "all find the same"
    print(f"  {len(rows[0]):,} occurrences, the same with constituents of {', '.join(names)}")


def make_data(folder: Path, count: int) -> None:
    """The events of `match.py`, in order of time, as some files."""
    folder.mkdir(parents=True)
    make_events(folder / "all", count)
    table = pq.read_table(folder / "all")
    (folder / "all").unlink()
    for i in range(FILES):
        begin, end = count * i // FILES, count * (i + 1) // FILES
        part = table.slice(begin, end - begin)
        at = part.schema.get_field_index("event")
        part = part.set_column(at, "event", part.column("event").cast("string"))
        pq.write_table(part, folder / f"part-{i:03}.parquet")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", nargs="?", type=int, default=10_000_000)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--long", action="store_true", help="a JVM with both of its compilers")
    arguments = parser.parse_args()
    from augury.spark.session import session

    with tempfile.TemporaryDirectory() as folder:
        data = (arguments.data or Path(folder) / "events") / str(arguments.events)
        if not data.exists():
            make_data(data, arguments.events)
        spark, out = session(arguments.master, is_long=arguments.long), Path(folder) / "out"
        every = cases(spark, data, out)
        chosen = {name: run for name, run in every.items() if not arguments.only or name in arguments.only}
        print(f"{arguments.events:,} events of {KEYS:,} keys on {arguments.master}; medians of {arguments.runs}")
        show(measured(chosen, arguments.runs))
        for names in (
            ("numbered", "assigned", "windows"),
            ("assigned", "keyed_assigned"),
            ("unkeyed", "in_one", "unkeyed_assigned"),
        ):
            if set(names) <= set(chosen):
                same(out, *names)
        spark.stop()


if __name__ == "__main__":
    main()
