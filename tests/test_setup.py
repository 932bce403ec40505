"""The machine lacks something: one sentence, with the command that mends it, before anything is made.

And what installs the lock: pip, where uv would not get all that pip is told.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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


# ---- the packages --------------------------------------------------------------------------------


@pytest.fixture
def install() -> ModuleType:
    """The module, which is part of no package."""
    spec = importlib.util.spec_from_file_location("install", SETUP.with_name("install.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options(folder: Path, install: ModuleType, text: str, **variables: str) -> dict[str, str]:
    """What pip, which reads this file, says of its options."""
    (folder / "pip.conf").write_text(text, "utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {"PIP_CONFIG_FILE": str(folder / "pip.conf"), "HOME": str(folder), **variables}
    command = [sys.executable, "-m", "pip", "config", "list"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60)
    return install.configured(told.stdout.splitlines())  # type: ignore[no-any-return]


def test_what_pip_is_told_of_indexes_is_handed_to_uv(tmp_path: Path, install: ModuleType) -> None:
    text = """[global]
index-url = https://of.the.file/simple
timeout = 5
[install]
extra-index-url =
    https://one/simple
    https://other/simple
find-links = /some/wheels /others
"""
    found = options(tmp_path, install, text, PIP_INDEX_URL="https://of.the.environment/simple", PIP_NO_CACHE_DIR="1")
    found.pop("cert", None)  # of the machine
    assert install.for_uv(found) == {
        "UV_DEFAULT_INDEX": "https://of.the.environment/simple",
        "UV_HTTP_TIMEOUT": "5",
        "UV_INDEX": "https://one/simple https://other/simple",
        "UV_FIND_LINKS": "/some/wheels,/others",
        "UV_NO_CACHE": "1",
    }


@pytest.mark.parametrize("option", ["proxy", "client-cert", "trusted-host", "no-index", "constraint"])
def test_where_uv_has_no_word_for_it_pip_installs(tmp_path: Path, install: ModuleType, option: str) -> None:
    assert install.for_uv(options(tmp_path, install, f"[global]\n{option} = a\n")) is None


def test_habits_of_uv_are_left_out(install: ModuleType) -> None:
    there = {"PATH": "/bin", "UV_TARGET": "/elsewhere", "UV_DEFAULT_INDEX": "https://other", "UV_CACHE_DIR": "/cache"}
    made = install.uv_environment(there, {"SSL_CERT_FILE": "/ours"})
    assert made == {
        "PATH": "/bin",
        "UV_CACHE_DIR": "/cache",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "SSL_CERT_FILE": "/ours",
    }


def test_uv_is_one_of_the_packages_with_its_hashes(install: ModuleType) -> None:
    lock = SETUP.parents[1].joinpath("requirements.lock").read_text("utf-8").splitlines()
    first, *others = install.entry_of("uv", lock)
    assert first.startswith("uv==")
    assert sum("--hash=sha256:" in line for line in others) > 5
    assert all(line.startswith(" ") for line in others)


@pytest.mark.parametrize("fails", ["nothing", "pip, for uv", "uv", "uv and pip"])
def test_where_uv_cannot_pip_does(
    tmp_path: Path, install: ModuleType, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Both are scripts here that note that they were called."""
    noted = tmp_path / "noted"

    def script(name: str, status: int) -> str:
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho {name} "$1" >>"{noted}"\nexit {status}\n', "utf-8")
        path.chmod(0o755)
        return str(path)

    pip = script("pip", 1 if "pip" in fails else 0)
    monkeypatch.chdir(SETUP.parents[1])
    monkeypatch.setattr(install, "configured", lambda lines: {})
    monkeypatch.setattr(install, "PIP_INSTALL", (pip,))
    monkeypatch.setattr(install, "uv_is_there", lambda: fails != "pip, for uv")
    monkeypatch.setattr(install, "uv_install", lambda: (script("uv", 1 if "uv" in fails else 0), "lock"))
    assert install.main() == (1 if "pip" in fails else 0)
    called = noted.read_text("utf-8").splitlines()
    by_uv = [] if fails == "pip, for uv" else ["uv lock"]
    assert called == (by_uv if fails == "nothing" else [*by_uv, "pip requirements.lock"])
