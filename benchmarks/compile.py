"""How long does `augury check` take, and does its cost grow linearly with the program?

Prints CPU seconds (median of five fresh processes) for programs of 200, 2,000 and 20,000 classes: a quarter each
subscribed, MATCH, COMPOSITE and SELECT. Linear growth: the cost per class beyond start-up at 100× at most 1.5 times
that at 10×, within one run.
"""

from __future__ import annotations

import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = (200, 2_000, 20_000)
RUNS = 5


def program(classes: int) -> str:
    """A program in which every kind of derivation reads classes declared before it."""
    lines = []
    for i in range(classes // 4):
        lines += [
            f"CREATE MUTABLE SUBSCRIBED EVENT CLASS Order{i} (account INT, quantity INT, place STRING)",
            "  ID (account) LIFESPAN (5d)",
            f"  ON CHANGE AND NEW.occTime > OLD.occTime + 5m DO inform{i}('delayed', NEW.account, NEW.quantity);",
            f"CREATE COMPLEX EVENT CLASS Twice{i} (account INT, most INT) ID (account)",
            f"  AS MATCH prior(Order{i}(account, q, _),",
            f"    !Order{i}[quantity > 10 AND place <> 'x'] AND Order{i}(account, r, _))",
            "  WHERE q < r WITHIN 3h RETURN r AS most;",
            f"CREATE COMPLEX EVENT CLASS Alone{i} (account INT) ID (account)",
            f"  AS COMPOSITE Twice{i}(account, _) > !Order{i}(account, _, _) WITHIN 10m CONTEXT CHRONICLE;",
            f"CREATE COMPLEX EVENT CLASS Sum{i} (account INT, total BIGINT) ID (account) LIFESPAN (3d)",
            f"  AS SELECT o.account, SUM(o.quantity) AS total FROM Order{i} o",
            "  WHERE o.occTime - NOW < 5d GROUP BY o.account",
            "  OCCURRING AT MAX(o.occTime)",
            f"  ON ANNOUNCEMENT DO report{i}(NEW.total);",
        ]
    return "\n".join(lines) + "\n"


def cpu_seconds(path: Path) -> float:
    """CPU seconds of one `augury check` in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "augury", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, print, and fail if a target is missed."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = {}
        for classes in (4, *SIZES):
            path = Path(folder) / f"{classes}.bicepl"
            path.write_text(program(classes), "utf-8")
            seconds[classes] = statistics.median(cpu_seconds(path) for _ in range(RUNS))
    start_up = seconds.pop(4)
    per_class = {n: (s - start_up) / n * 1e3 for n, s in seconds.items()}
    growth = per_class[SIZES[2]] / per_class[SIZES[1]]
    print(f"machine: {platform.machine()}, Python {platform.python_version()}")
    print(f"start-up (4 classes): {start_up:.2f} CPU s")
    for classes, found in seconds.items():
        print(f"{classes:>6} classes: {found:.2f} CPU s, {per_class[classes]:.3f} ms per class beyond start-up")
    print(f"growth per class from {SIZES[1]:,} to {SIZES[2]:,}: {growth:.2f}×")
    print(json.dumps({"start_up": start_up, **{str(n): s for n, s in seconds.items()}, "growth": growth}))
    if seconds[200] > 1.0 or growth > 1.5:
        sys.exit("target missed: 200 classes within 1 CPU s, growth at most 1.5×")


if __name__ == "__main__":
    main()
