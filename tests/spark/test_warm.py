"""JVMs that start sooner: with the classes that were kept, and without them where they do not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from augury.spark.session import require_java
from augury.spark.warm import archive_path, options

START = """
from augury.spark.session import session
spark = session("local[1]")
told = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
print([str(one) for one in told if "SharedArchive" in str(one)], spark.range(3).count())
"""


def test_classes_that_do_not_fit_are_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    archive = archive_path(require_java())
    assert archive.is_relative_to(tmp_path)
    assert options(archive) == ""
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"torn" * 10_000)
    done = subprocess.run(
        [sys.executable, "-c", START], capture_output=True, text=True, timeout=200, env=dict(os.environ), check=True
    )
    assert done.stdout == f"['-XX:SharedArchiveFile={archive}'] 3\n"


def test_another_java_has_classes_of_its_own() -> None:
    assert archive_path("one") != archive_path("another")


def test_the_same_java_with_options_from_the_environment_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    told = require_java()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC")
    assert require_java() == told
