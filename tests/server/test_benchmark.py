"""The benchmark of the server runs, over few posts: its figures are there, and say nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "server.py"


def test_the_benchmark_of_the_server_runs() -> None:
    ran = subprocess.run([sys.executable, str(BENCHMARK), "320", "1"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    first, without, with_, ratio, read, bare = ran.stdout.splitlines()
    assert first.startswith("320 posts of 16 clients")
    for line in (without, with_):
        assert re.search(r": [\d,]+ durable posts a second .* p50 \d+\.\d\d ms, p99 \d+\.\d\d ms", line), line
    assert re.search(r"\d+\.\d\dx \(at most 1\.5x\)", ratio), ratio
    assert "through a trigger and two rules: p50" in read
    assert "the synchronous one takes" in bare
