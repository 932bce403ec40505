"""The machine lacks something: one sentence, with the command that mends it, before anything is made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / "tools" / "setup.sh"


def look(
    folder: Path, programs: dict[str, str], script: Path = SETUP, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the look at the machine with these programs before all others on the PATH."""
    for name, body in programs.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
        path.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PYTHON", "VIRTUAL_ENV")}
    environment |= {"PATH": f"{folder}:{os.environ['PATH']}", **variables}
    command = ["sh", str(script), "machine"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(("says", "found"), [("1.8.0_392", "8"), ("11.0.2", "11"), ("16.0.1", "16")])
def test_a_java_that_is_too_old(tmp_path: Path, says: str, found: str) -> None:
    sentence = one_sentence(look(tmp_path, {"java": f"echo 'openjdk version \"{says}\"' >&2"}))
    assert f"Java {found}" in sentence
    assert "Java 17 or newer" in sentence
    assert "mend it with" in sentence


def test_a_java_that_is_new_enough(tmp_path: Path) -> None:
    done = look(tmp_path, {"java": "echo 'openjdk version \"21.0.1\" 2023-10-17' >&2"})
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_java_home_that_holds_none(tmp_path: Path) -> None:
    assert "Java" in one_sentence(look(tmp_path, {}, JAVA_HOME=str(tmp_path / "nowhere")))


def test_a_python_that_is_too_old(tmp_path: Path) -> None:
    """In a tree of its own: where .venv is ready, the machine's Python is not asked for any more."""
    copy = tmp_path / "tree" / "tools" / "setup.sh"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(SETUP.read_bytes())
    old = 'case "$*" in *"%d.%d.%d"*) echo 3.8.10 ;; *) echo 8 ;; esac'
    fakes = {"java": "echo 'openjdk version \"17.0.1\"' >&2", "python3.8": old}
    done = look(tmp_path, fakes, script=copy, PYTHON=str(tmp_path / "python3.8"))
    sentence = one_sentence(done)
    assert "Python 3.11" in sentence
    assert "3.8" in sentence
