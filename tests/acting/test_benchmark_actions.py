"""The benchmark of deliveries runs, over few of them: its figures are there and say nothing, its checks hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "actions.py"


def test_the_benchmark_of_deliveries_runs_and_settles_everything() -> None:
    ran = subprocess.run([sys.executable, str(BENCHMARK), "160", "1"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    first, *runs = ran.stdout.splitlines()[:4]
    assert first == "160 deliveries to 16 targets, against 80 to the healthy 8"
    for line in runs:
        assert re.search(r"^ +\d+ targets: p95 +\d+\.\d\d s; .*\"healthy delivered\": \d+", line), line
    settled, *dead, ratio = ran.stdout.splitlines()[4:]
    assert settled == "all settled: 24 delivered once, and as dead letters:"
    assert dead == [
        "  6 dripping: given up after 2 tries: no answer within 2 s",
        "  6 failing: given up after 2 tries: answered 500 Internal Server Error",
        "  6 hanging: given up after 2 tries: no answer within 2 s",
        "  6 redirecting: answered 307 Temporary Redirect to /elsewhere: redirects are not followed, "
        "bind the action to where it is",
    ]
    assert re.search(r"p95 of healthy deliveries, median of 1: .*×, at most 1\.5× is wanted$", ratio), ratio
