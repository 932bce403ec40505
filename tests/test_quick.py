"""`augury test` and `augury simulate` answer within a second: what they load, and what they cost.

Times are CPU seconds of processes of their own, each beside those of loading NumPy and pyarrow on the same machine at
the same time: a slow or busy machine is slow at both. One such pair is enough, for noise only adds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SOURCE = ROOT / "src" / "augury"

# Each takes a third of a second to load, or starts a JVM.
NEVER = {"numba", "pandas", "pyspark", "sqlalchemy", "aiohttp"}

RUNS = 7
SECONDS_MAX = 1.0
TIMES_MAX = 10
"""On a slow machine: so many times what loading NumPy and pyarrow costs, a seventh of a second on a quick one."""

LOADED = """
import sys
from augury.cli import main
try:
    main()
except SystemExit as ended:
    code = ended.code
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
raise SystemExit(code)
"""


def simulate(example: str) -> list[str]:
    folder = EXAMPLES / example
    return ["simulate", str(folder / f"{example}.bicepl"), "--events", str(folder / "events.jsonl")]


def suite(example: str) -> list[str]:
    return ["test", str(EXAMPLES / example / "tests.yaml")]


COMMANDS = [simulate(example) for example in ("card", "discount", "groceries", "orders", "parcels")]
COMMANDS += [suite(example) for example in ("card", "discount", "groceries", "orders")]


def has_selects(command: list[str]) -> bool:
    programs = Path(command[1]).parent.glob("*.bicepl")
    return any(re.search(r"\bAS\s+SELECT\b", program.read_text("utf-8")) for program in programs)


def named(command: list[str]) -> str:
    return f"{command[0]} {Path(command[1]).parent.name}"


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_no_compiler_no_pandas_no_jvm_and_duckdb_for_selects_alone(command: list[str]) -> None:
    ran = subprocess.run([sys.executable, "-c", LOADED, *command], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    *complaints, last = ran.stderr.splitlines()
    loaded = set(last.split())
    assert not complaints
    assert "pyarrow" in loaded
    assert not loaded & NEVER
    assert ("duckdb" in loaded) == has_selects(command)


def test_examples_with_and_without_selects_are_among_them() -> None:
    assert {has_selects(command) for command in COMMANDS} == {True, False}


@pytest.mark.parametrize("command", [suite("groceries"), simulate("groceries")], ids=named)
def test_it_takes_less_than_a_second(command: list[str], tmp_path: Path) -> None:
    cache = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    cache.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed Augury is compiled
    taken = []
    for _ in range(RUNS):
        ours = cpu_seconds([sys.executable, "-m", "augury", *command], cache)
        taken.append((ours, cpu_seconds([sys.executable, "-c", "import numpy, pyarrow"], cache)))
        if ours < max(SECONDS_MAX, TIMES_MAX * taken[-1][1]):
            return
    pytest.fail(str(taken))


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_numba_is_loaded_in_one_place() -> None:
    importing = re.compile(r"^\s*(from|import) numba\b", re.MULTILINE)
    homes = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if importing.search(path.read_text("utf-8"))
    }
    assert homes == {"kernels/compiled.py"}
