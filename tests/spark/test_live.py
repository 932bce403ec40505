"""A watch at work: silence, micro-batches with many ticks or part of one, sinks, stopping; and damaged stores.

Here the query runs in the session of the tests; drivers that are killed stand in `test_recovery`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from augury.algebra.program import Program
from augury.api import compile
from augury.engine.ledger import lines
from augury.engine.plan import CannotRun
from augury.history.raw import RawRows
from augury.lake import CorruptFile, Lake, LakeExists, Manifest, NewerFormat
from augury.lake.manifest import checked_json, manifest_name
from augury.spark.changing import CannotGoOn
from augury.spark.committed import ledger_in
from augury.spark.keeping import OtherProgram
from augury.spark.replaying import watching, write_pieces
from augury.spark.session import NoSpark
from augury.spark.sinks import Committed
from augury.spark.sources_lines import SourceError
from augury.spark.stepping import slots_on_spark
from augury.spark.watch import Watch, wall_clock, watch
from tests.spark.test_metrics import scraped

SECOND = 1_000_000

QUIET = """
SET CHRONON 1h;
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID () LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Quiet (k INT) ID () LIFESPAN (1d) AS COMPOSITE A(k) > !B(k) WITHIN 5s CONTEXT CHRONICLE;
"""


def until(holds: Callable[[], Any], seconds: float) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def manifests(store: Path) -> list[Manifest]:
    return list(Lake.open(store).manifests())


# ---- silence ---------------------------------------------------------------------------------------------------------


def test_ticks_go_on_while_all_sources_are_silent(spark: SparkSession, tmp_path: Path) -> None:
    program, source, store = compile(QUIET), tmp_path / "source", tmp_path / "lake"
    source.mkdir()
    stream = spark.readStream.schema("event string, k int, note string").parquet(str(source))
    with watch(program, stream, store=store, chronon="1s", buckets=2, metrics_port=0) as running:
        # The first batch of a session takes as long as many later ones.
        for name, other in (("B", "Unknown"), ("A", "A")):
            rows = {"event": [name, other], "k": pa.array([1, 2], pa.int32()), "note": ["x", "y"]}
            pq.write_table(pa.table(rows), tmp_path / "some.tmp")
            (tmp_path / "some.tmp").rename(source / f"{name}.parquet")
            until(lambda: name in ledger_in(program, running.keeper.lake, manifests(store)).versions, 120)  # noqa: B023
        until(lambda: "Quiet" in ledger_in(program, running.keeper.lake, manifests(store)).versions, 120)
        before = len(manifests(store))
        ticked = running.keeper.last_tick
        assert ticked is not None
        until(lambda: (running.keeper.last_tick or 0) >= ticked + 3 * SECOND, 120)
        assert len(manifests(store)) == before, "ticks at which nothing is due commit nothing"
        assert running.failure is None
        assert running.metrics is not None
        shown = scraped(running.metrics)
        assert (shown["augury_read_total"], shown["augury_rejected_total"]) == (3, 1)
        assert 0 <= shown["augury_lag_seconds"] < 60
        assert shown["augury_commit_seconds"] > 0
        assert shown["augury_state_bytes"] > 0
        # What no class has is not even read.
        assert "ReadSchema: struct<event:string,k:int>" in running.query._jsq.explainInternal(False)
    found = ledger_in(program, Lake.open(store), manifests(store)).versions
    assert found["Quiet"]["k"].to_pylist() == [1, 2]
    (due,) = {moment.timestamp() for moment in found["Quiet"]["occ_time"].to_pylist()}
    assert {moment.timestamp() + 5 for moment in found["A"]["occ_time"].to_pylist()} == {due}
    (fired,) = [one for one in manifests(store) if any(entry.event_class == "Quiet" for entry in one.added)]
    committed = (store / manifest_name(fired.commit)).stat().st_mtime
    batch = max(one.seconds["all"] for one in manifests(store)[1:])
    assert due <= committed <= due + 2 + batch, "two chronons, and one batch"


# ---- ticks and micro-batches -----------------------------------------------------------------------------------------

STORED = """
SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, v INT) ID (k) LIFESPAN (1m)
  ON ANNOUNCEMENT DO came(new.k), ON ONTIME DO due(new.k, new.v);
CREATE COMPLEX EVENT CLASS Twice (k INT) ID () LIFESPAN (1m) AS MATCH prior(A(k, _), A(k, _));
"""


def event(second: float, k: int, **more: Any) -> dict[str, Any]:
    return {"event": "A", "k": k, "v": k, "det_time": 1_767_258_000 + second} | more


def put(source: Path, program: Program, name: str, *rows: dict[str, Any], first: int = 0) -> None:
    """A micro-batch for the stream."""
    folder = source.with_name(f"{name}.pieces")
    folder.mkdir()
    raw = RawRows("events", list(rows), range(first, first + len(rows)), None, [json.dumps(row) for row in rows])
    assert write_pieces(folder, slots_on_spark(program, 2), [raw], None, ()) == 1
    when = 1 + len(list(source.iterdir()))  # Spark reads files by when they were written
    os.utime(folder / "00000001.parquet", (when, when))
    (folder / "00000001.parquet").rename(source / f"{name}.parquet")
    folder.rmdir()


def over(spark: SparkSession, program: Program, source: Path, store: Path) -> Watch:
    return watching(spark, program, source, str(store), 2)


def told(program: Program, store: Path) -> list[str]:
    return list(lines(program, ledger_in(program, Lake.open(store), manifests(store))))


def test_a_batch_holds_many_ticks_or_part_of_one_and_what_waits_survives(spark: SparkSession, tmp_path: Path) -> None:
    program, source, store = compile(STORED), tmp_path / "source", tmp_path / "lake"
    source.mkdir()
    many = [event(4 * n, n % 5) for n in range(40)]
    put(source, program, "1", *many)
    with over(spark, program, source, store) as running:
        running.query.processAllAvailable()
        (first,) = manifests(store)
        assert ledger_in(program, Lake.open(store), [first]).versions["A"]["tick"].unique().to_pylist()[3:]
        assert first.waiting, "the last chronon is not over"
        read = first.last_seq
        put(source, program, "2", event(157, 7, event_id="x"), first=40)
        running.query.processAllAvailable()
        second = manifests(store)[1]
        assert second.last_seq == read, "no chronon was over"
        assert len(second.waiting) > 1
    # The id lies with a row that waits, and comes again in another slot, once in the same chronon and once later.
    again = [event(158, k, event_id="x") for k in (8, 9)] + [event(171, k, event_id="x") for k in (10, 14)]
    put(source, program, "3", *again, first=41)
    with over(spark, program, source, store) as running:
        assert running.keeper.manifest == second
        running.finish()
    at_once = tmp_path / "at once"
    at_once.mkdir()
    put(at_once, program, "all", *many, event(157, 7, event_id="x"), *again)
    with over(spark, program, at_once, tmp_path / "other") as running:
        running.finish()
    expected = told(program, tmp_path / "other")
    assert sum('"came"' in line for line in expected) == 6
    assert told(program, store) == expected


def test_rows_of_a_time_to_come_wait_without_a_commit_or_a_file(spark: SparkSession, tmp_path: Path) -> None:
    """A source whose clock is ahead: each tick till then costs nothing."""
    program, source, store = compile(STORED), tmp_path / "source", tmp_path / "lake"
    source.mkdir()
    now = [1_767_258_000 * SECOND]
    stream = spark.readStream.schema("slot int, code int, packed binary").parquet(str(source))
    put(source, program, "1", event(3, 1), event(65, 2))
    with watch(program, stream, store=store, clock=lambda: now[0], buckets=2) as running:
        running.query.processAllAvailable()
        for seconds in (10, 20, 30, 60, 61, 69):
            now[0] = (1_767_258_000 + seconds) * SECOND
            before = hashes(store)
            manifest = running.advance()
            assert (manifest is None) == (seconds > 10)
            assert (hashes(store) == before) == (seconds > 10)
        now[0] = (1_767_258_000 + 70) * SECOND
        assert running.advance() is not None
    found = ledger_in(program, Lake.open(store), manifests(store)).versions["A"]
    assert found["k"].to_pylist() == [1, 2]


# ---- sinks and stopping ----------------------------------------------------------------------------------------------


def test_a_sink_that_failed_is_told_again_of_the_same_commit(spark: SparkSession, tmp_path: Path) -> None:
    program, source, store = compile(STORED), tmp_path / "source", tmp_path / "lake"
    source.mkdir()
    put(source, program, "1", event(0, 1), event(11, 2))
    put(source, program, "2", event(21, 3), event(31, 4), first=2)
    heard: list[tuple[int, list[str]]] = []
    fails = [True]

    def sink(committed: Committed) -> None:
        heard.append((committed.commit, [row["line"] for row in committed.actions.collect()]))
        if fails and committed.commit == 2:
            fails.pop()
            raise ConnectionError("nobody listens")

    def watched() -> Watch:
        stream = spark.readStream.schema("slot int, code int, packed binary").option("maxFilesPerTrigger", 1)
        frame = stream.parquet(str(source))
        return watch(program, frame, store=store, clock="data", buckets=2, sinks=[sink])

    with watched() as running, pytest.raises(ConnectionError, match="nobody listens"):
        running.finish()
    with watched() as running:
        running.finish()
    assert [commit for commit, _ in heard] == [1, 2, 2, 3]
    assert heard[1] == heard[2]
    by_commit = dict(heard)
    assert [line for commit in sorted(by_commit) for line in by_commit[commit]] == [
        line for line in told(program, store) if line.startswith('{"action"')
    ]


def test_a_sink_that_failed_is_told_again_also_by_a_changed_program(spark: SparkSession, tmp_path: Path) -> None:
    source, store = tmp_path / "source", tmp_path / "lake"
    source.mkdir()
    put(source, compile(STORED), "1", event(0, 1), event(11, 2))
    heard: list[tuple[int, list[str]]] = []

    def sink(committed: Committed) -> None:
        heard.append((committed.commit, [row["line"] for row in committed.actions.collect()]))
        if len(heard) == 1:
            raise ConnectionError("nobody listens")

    def watched(text: str) -> Watch:
        stream = spark.readStream.schema("slot int, code int, packed binary").parquet(str(source))
        return watch(compile(text), stream, store=store, clock="data", buckets=2, sinks=[sink])

    with watched(STORED) as running, pytest.raises(ConnectionError, match="nobody listens"):
        running.await_termination(60)
    # The lake goes over to the new program by a commit of its own, which does not hide the one that was not told.
    watched(f"{STORED} CREATE COMPLEX EVENT CLASS Other (k INT) ID () AS MATCH A(k, _);").stop()
    assert [commit for commit, _ in heard] == [1, 1, 2]
    assert heard[0] == heard[1]
    assert heard[0][1]
    # Nor does one that has the class no longer of which it tells.
    watched("SET CHRONON 10s; CREATE MUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID (k) LIFESPAN (1m);").stop()
    assert heard[3] == heard[0]


def test_a_watch_stops_though_more_comes(spark: SparkSession, tmp_path: Path) -> None:
    program = compile("CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID () LIFESPAN (1s);")
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    stream = rate.selectExpr("'A' AS event", "CAST(value AS INT) AS k")
    for wanted in (1, 3):
        running = watch(program, stream, store=tmp_path / "lake", buckets=1)
        until(lambda: running.progress.commit >= wanted, 120)  # noqa: B023
        stopper = threading.Thread(target=running.stop, daemon=True)
        stopper.start()
        stopper.join(120)
        assert not stopper.is_alive(), "it hangs"
        assert running.await_termination(1)
    found = ledger_in(program, Lake.open(tmp_path / "lake"), manifests(tmp_path / "lake"))
    keys = sorted(found.versions["A"]["k"].to_pylist())
    assert keys == list(range(len(keys))), "each came once"
    assert wall_clock() > SECOND


def test_over_spark_connect_it_says_where_to_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = spark.readStream.format("rate").load()
    with monkeypatch.context() as connected:
        connected.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        with pytest.raises(NoSpark, match="does not run over Spark Connect"):
            watch(compile(QUIET), stream, store=tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


# ---- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source and a store that has three commits."""
    folder = tmp_path_factory.mktemp("whole")
    program, source = compile(STORED), folder / "source"
    source.mkdir()
    for number in range(3):
        put(source, program, str(number), *(event(20 * number + 3 * n, n) for n in range(6)), first=6 * number)
    with over(spark, program, source, folder / "lake") as running:
        running.query.processAllAvailable()
    assert len(manifests(folder / "lake")) == 3
    return folder


def hashes(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def last_state(store: Path) -> str:
    """A file of state that the last commit names, and the one before it does not."""
    *_, before, last = manifests(store)
    return sorted({*last.state.values()} - {*before.state.values()})[0]


def torn_manifest(store: Path) -> str:
    path = store / manifest_name(3)
    path.write_bytes(path.read_bytes()[:-30])
    return str(path)


def missing_manifest(store: Path) -> str:
    (store / manifest_name(2)).unlink()
    return str(store / manifest_name(2))


def missing_state(store: Path) -> str:
    path = last_state(store)
    (store / path).unlink()
    return str(store / path)


def torn_state(store: Path) -> str:
    path = store / last_state(store)
    path.write_bytes(path.read_bytes()[:-1])
    return str(path)


def missing_rows(store: Path) -> str:
    path = manifests(store)[-1].waiting[0]
    (store / path).unlink()
    return str(store / path)


def torn_checkpoint(store: Path) -> str:
    path = store / "checkpoint" / "metadata"
    path.write_bytes(path.read_bytes()[:-9])
    return str(path)


DAMAGES: dict[Callable[[Path], str], tuple[str, int]] = {
    torn_manifest: ("is damaged: it is not JSON, or breaks off", 2),
    missing_manifest: ("is missing", 1),
    missing_state: ("is gone", 2),
    torn_state: ("is damaged: its content does not have its checksum", 2),
    missing_rows: ("is gone", 2),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
def test_what_is_damaged_is_named_with_the_last_good_commit(
    spark: SparkSession, whole: Path, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    store = Path(shutil.copytree(whole / "lake", tmp_path / "lake"))
    ticks = [one.last_tick for one in manifests(store)]
    reason, good = DAMAGES[damage]
    path, before = damage(store), hashes(store)
    with pytest.raises(CorruptFile) as caught:
        over(spark, compile(STORED), whole / "source", store)
    told = str(caught.value)
    assert caught.value.last_good == good
    assert told.startswith(f"`{path}` {reason}; ")
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((ticks[good - 1] or 0) / SECOND))
    assert f"the last good commit is {good} at {at}: bring it back from a copy" in told
    assert hashes(store) == before


def test_as_it_says_one_can_go_on_from_the_last_good_commit(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    """The checkpoint of Spark is ahead then, so the batches that are lost are given again."""
    store = Path(shutil.copytree(whole / "lake", tmp_path / "lake"))
    torn_manifest(store)
    (store / manifest_name(3)).unlink()
    program = compile(STORED)
    with over(spark, program, whole / "source", store) as running:
        running.finish()
    at_once = tmp_path / "at once"
    with over(spark, program, whole / "source", at_once) as running:
        running.finish()
    assert told(program, store) == told(program, at_once)


def test_a_damaged_checkpoint_is_named(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(whole / "lake", tmp_path / "lake"))
    path, before = torn_checkpoint(store), hashes(store)
    with pytest.raises(CorruptFile, match="does not say which query it is of; bring it back from a copy, or move"):
        over(spark, compile(STORED), whole / "source", store)
    assert path
    assert hashes(store) == before


def newer(path: Path) -> None:
    said = json.loads(path.read_bytes())
    del said["checksum"]
    content = json.loads(checked_json(said))
    content["format"] = 99
    del content["checksum"]
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    content["checksum"] = hashlib.sha256(plain).hexdigest()
    whole = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    path.write_bytes(whole)


@pytest.mark.parametrize("name", [manifest_name(3), "augury.json"])
def test_a_newer_format_is_refused(spark: SparkSession, whole: Path, tmp_path: Path, name: str) -> None:
    store = Path(shutil.copytree(whole / "lake", tmp_path / "lake"))
    newer(store / name)
    before = hashes(store)
    with pytest.raises(NewerFormat, match="has format 99, and this version of Augury reads format 1: update Augury"):
        over(spark, compile(STORED), whole / "source", store)
    assert hashes(store) == before


def test_a_folder_that_holds_something_else_is_refused(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(LakeExists, match="is not empty and no lake"):
        over(spark, compile(STORED), whole / "source", tmp_path)
    assert hashes(tmp_path) == {"mine.txt": hashlib.sha256(b"mine").hexdigest()}


def test_a_program_that_no_engine_runs_is_refused_before_a_folder_is_made(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("'A' AS event", "CAST(value AS INT) AS k")
    text = STORED + f"CREATE COMPLEX EVENT CLASS C () ID () AS COMPOSITE {' > '.join(['A'] * 63)};"
    with pytest.raises(CannotRun, match="more than 62 classes in one expression yet, as `C` needs it to") as caught:
        watch(compile(text), stream, store=tmp_path / "lake")
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["E313"]
    assert not (tmp_path / "lake").exists()


def test_a_frame_that_is_no_stream_is_refused_before_a_folder_is_made(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("A", 1)], "event string, k int")
    with pytest.raises(SourceError, match="this frame is none: read it by readStream, or give it to detect"):
        watch(compile(STORED), frame, store=tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


OTHERS = {
    "another chronon": (STORED.replace("CHRONON 10s", "CHRONON 5s"), "a chronon has 10s, and in this one 5s: set it"),
    "another key": (STORED.replace("ID (k)", "ID (v)"), "cannot go on with this program: `A` is"),
    "another type": (
        STORED.replace("v INT", "v BIGINT"),
        "Declare them as they were, or give what changed another name",
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_store_of_another_program_is_refused(spark: SparkSession, whole: Path, tmp_path: Path, other: str) -> None:
    store = Path(shutil.copytree(whole / "lake", tmp_path / "lake"))
    before, (text, why) = hashes(store), OTHERS[other]
    with pytest.raises((OtherProgram, CannotGoOn)) as caught:
        over(spark, compile(text), whole / "source", store)
    assert why in str(caught.value)
    assert "another folder" in str(caught.value)
    assert hashes(store) == before


def test_the_same_program_otherwise_written_goes_on(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(whole / "lake", tmp_path / "lake"))
    text = "-- of Monday\n" + STORED.replace("Twice", "TWICE").replace("TWICE", "Twice").replace("\n", "\n\n")
    with over(spark, compile(text), whole / "source", store) as running:
        running.finish()
    last = manifests(store)[-1]
    assert Lake.open(store).program_text(last.program) == text


def test_what_is_damaged_meanwhile_ends_the_watch_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    store, source, program = tmp_path / "lake", tmp_path / "source", compile(STORED)
    source.mkdir()
    for number in range(2):
        put(source, program, str(number), *(event(20 * number + n, n) for n in range(6)), first=6 * number)
    with over(spark, program, source, store) as running:
        running.query.processAllAvailable()
        path = torn_state(store)
        put(source, program, "3", *(event(90 + n, n) for n in range(6)), first=18)
        with pytest.raises(CorruptFile) as caught:
            running.finish()
        assert str(caught.value).startswith(f"`{path}` is damaged")
    assert len(manifests(store)) == 2


def test_hashes_tell_stores_apart(tmp_path: Path) -> None:
    for content, name in itertools.product("ab", "xy"):
        (tmp_path / content).mkdir(exist_ok=True)
        (tmp_path / content / name).write_text(content)
    assert hashes(tmp_path / "a") != hashes(tmp_path / "b")
    assert hashes(tmp_path / "a") == hashes(tmp_path / "a")
