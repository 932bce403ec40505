"""Augury brought to workers that do not have it: by `--py-files`, from a session, in a packed environment.

Workers run a Python of their own that has what Augury needs and not Augury itself, which is made sure of. What is
shipped is made as docs/spark.md says: a wheel, called augury.zip.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.spark.cluster import ROOT, found_by

SCRIPT = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.appName("shipped").getOrCreate()
import augury, augury.spark.shipped, driver

how, archive, shared = sys.argv[1], sys.argv[2], Path(sys.argv[3])
found = {"driver": augury.__file__}
if how in ("artifact", "pyfile", "refused"):
    empty = spark.readStream.format("rate").load().selectExpr("'Low' AS event")
    program = augury.compile("CREATE MUTABLE SUBSCRIBED EVENT CLASS Low () ID () LIFESPAN (1d);")
    try:
        augury.watch(program, empty, store=shared / "refused")
    except augury.spark.shipped.NotShipped as error:
        found["refused"] = [str(error), error.help, *error.__notes__]
    found["made"] = (shared / "refused").exists()
    if how == "artifact":
        spark.addArtifact(archive, pyfile=True)
    elif how == "pyfile":
        spark.sparkContext.addPyFile(archive)
if how == "refused":
    (shared / "found.json").write_text(json.dumps(found), "utf-8")
    sys.exit()
found["lines"] = driver.groceries_as_stream(spark, Path("examples").absolute(), shared)


def where(_):
    import sys, augury
    return [sys.executable, augury.__file__]


rows = spark.range(0, 2, 1, 2).select(udf(where, "array<string>", useArrow=False)("id")).collect()
found["workers"] = [row[0] for row in rows]
(shared / "found.json").write_text(json.dumps(found), "utf-8")
spark.stop()
"""


@pytest.fixture(scope="module")
def augury_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel under another name."""
    made = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(made)]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = made.glob("augury-*.whl")
    return Path(shutil.copy(wheel, made / "augury.zip"))


def bare(at: Path) -> Path:
    """An environment with all that Augury needs, by a path to it, and without Augury; gives its Python."""
    venv.create(at, symlinks=True)
    packages = next(at.glob("lib/python*/site-packages"))
    # Paths that such a file adds are not searched for files of its kind, so our own editable install does not count.
    (packages / "needs.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python = at / "bin" / "python"
    asked = "import pyspark, numba, duckdb, importlib.util as u; print(u.find_spec('augury'))"
    told = subprocess.run([python, "-c", asked], capture_output=True, text=True, timeout=120, check=True)
    assert told.stdout == "None\n", told.stdout
    return python


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return bare(tmp_path / "bare")


def shipped(folder: Path, how: str, archive: Path | str) -> list[str]:
    (folder / "shipped.py").write_text(SCRIPT)
    return ["shipped.py", how, str(archive), str(folder / "shared")]


def test_a_zip_of_a_wheel_has_what_is_read_beside_the_code(python: Path, augury_zip: Path) -> None:
    asked = (
        "import augury, sys; from augury.catalogue import entries; "
        "program = augury.compile('CREATE MUTABLE SUBSCRIBED EVENT CLASS A () ID () LIFESPAN (1d);'); "
        "print(len(entries()) > 50, len(program.classes) == 1, augury.__file__.startswith(sys.argv[1]))"
    )
    command = [str(python), "-c", asked, str(augury_zip)]
    told = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={"PYTHONPATH": str(augury_zip)}
    )
    assert told.stdout.split() == ["True", "True", "True"], told.stderr


def test_submitted_with_py_files(
    folder: Path, master: str, python: Path, augury_zip: Path, groceries: list[str]
) -> None:
    script = shipped(folder, "submitted", augury_zip)
    options = ["--py-files", str(augury_zip)]
    found = found_by(folder, master, script, options=options, said={"PYSPARK_PYTHON": str(python)})
    assert found["lines"] == groceries
    assert "augury.zip" in found["driver"]
    assert all(one == str(python) and "augury.zip/augury/" in module for one, module in found["workers"])


@pytest.mark.parametrize("how", ["artifact", "pyfile"])
def test_told_what_to_do_and_then_shipped_from_the_session(
    folder: Path, python: Path, augury_zip: Path, groceries: list[str], how: str
) -> None:
    said = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    found = found_by(folder, "local-cluster[2,1,1024]", shipped(folder, how, augury_zip), said=said)
    message, help_, note = found["refused"]
    assert message == f"the Python workers of Spark ({python}) cannot run Augury: No module named 'augury'"
    assert "spark-submit --py-files augury.zip" in help_
    assert note == f"help: {help_}"
    assert found["made"] is False
    assert found["lines"] == groceries
    assert all(one == str(python) and "augury.zip/augury/" in module for one, module in found["workers"])


def test_workers_that_cannot_keep_compiled_code_are_told_of(folder: Path, python: Path, augury_zip: Path) -> None:
    said = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    options = ["--py-files", str(augury_zip), "--conf", "spark.executorEnv.XDG_CACHE_HOME=/dev/null"]
    script = shipped(folder, "refused", augury_zip)
    found = found_by(folder, "local-cluster[1,1,1024]", script, options=options, said=said)
    message, help_, _ = found["refused"]
    assert "cannot run Augury: compiled code cannot be kept: [Errno 20] Not a directory" in message
    assert "spark.executorEnv.XDG_CACHE_HOME=" in help_


def test_a_packed_environment(folder: Path, master: str, augury_zip: Path, groceries: list[str]) -> None:
    bare(folder / "packed")
    with zipfile.ZipFile(augury_zip) as wheel:
        wheel.extractall(next((folder / "packed").glob("lib/python*/site-packages")))
    with tarfile.open(folder / "environment.tar.gz", "w:gz", compresslevel=1) as tar:
        tar.add(folder / "packed", ".")
    shutil.rmtree(folder / "packed")
    options = ["--archives", "environment.tar.gz#environment"]
    said = {"PYSPARK_PYTHON": "./environment/bin/python", "PYSPARK_DRIVER_PYTHON": sys.executable}
    found = found_by(folder, master, shipped(folder, "archive", ""), options=options, said=said)
    assert found["lines"] == groceries
    for executable, module in found["workers"]:
        assert executable.endswith("environment/bin/python")
        assert "/environment/" in module
