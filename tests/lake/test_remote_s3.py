"""A lake in a bucket: the same promises as on a disk, kept by a server that speaks S3, over HTTP.

Nobody says how a file is created only where there is none: the kind of path does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from augury.api import compile
from augury.cli import app
from augury.lake import (
    AlreadyCommitted,
    Lake,
    LakeExists,
    LakeFailed,
    NeedsExclusive,
    StaleWriter,
    compaction,
    history,
    vacuum,
)
from augury.lake.systems import storage_of
from augury.lake.vacuum import sweep
from tests.lake.made import SECOND, TEXT, created, filled, orders, put
from tests.lake.s3_server import S3, serving


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with serving(tmp_path_factory.mktemp("s3")) as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.variables.items():
            patch.setenv(name, value)
        yield found


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_bucket_keeps_the_word_of_a_place(s3: S3, scheme: str) -> None:
    storage = storage_of(f"{scheme}://{s3.bucket}/places/{scheme}/")
    assert storage.names("x") == []
    assert list(storage.walk()) == []
    storage.write("x/y/one", b"1")
    storage.write("x/two", memoryview(b"22"))
    assert storage.create("x/four", b"4")
    assert not storage.create("x/four", b"5")
    assert storage.read("x/four") == b"4"
    assert sorted(storage.names("x")) == ["four", "two"]
    assert {(one.path, one.bytes) for one in storage.walk()} == {("x/y/one", 1), ("x/two", 2), ("x/four", 1)}
    assert (storage.exists("x/two"), storage.exists("x/y"), storage.exists("x/no")) == (True, False, False)
    assert storage.full("x/two") == f"{scheme}://{s3.bucket}/places/{scheme}/x/two"
    storage.remove("x/two")
    storage.remove("x/two")
    for reading in (storage.read, storage.open):
        with pytest.raises(FileNotFoundError):
            reading("x/two")


def test_a_uri_may_say_where_the_server_is(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    path = f"s3://{s3.bucket}/said?endpoint_override=127.0.0.1:{s3.port}&scheme=http&region=us-east-1"
    lake = created(path)
    put(lake.writer(), lake.files, orders(1, 3, 1))
    assert Lake.open(path).last_commit() == 1
    assert lake.files.full("augury.json") == f"s3://{s3.bucket}/said/augury.json"


def test_of_many_that_race_for_an_object_one_has_it(s3: S3) -> None:
    path = f"s3://{s3.bucket}/race"
    with ThreadPoolExecutor(8) as pool:
        for number in range(5):
            contents = [b"%d" % one for one in range(8)]
            created_by = list(pool.map(lambda c, n=number: storage_of(path).create(f"m/{n}", c), contents))
            assert created_by.count(True) == 1
            assert storage_of(path).read(f"m/{number}") == contents[created_by.index(True)]


def test_a_lake_is_written_and_asked_there(s3: S3) -> None:
    path = f"s3a://{s3.bucket}/lake"
    filled(path, 3)
    with pytest.raises(LakeExists, match=f"there is a lake at `{path}` already"):
        created(path)
    found = history(path, compile)
    assert found.table("Order").num_rows == 9
    assert found.known_at(found.table("Order")["det_time"].to_pylist()[0]).table("Order").num_rows == 3
    assert history(path, compile, commit=1).table("Order").num_rows == 3
    assert all(one.startswith(f"{path}/history/Order/") for one in found.files("Order"))


def test_the_command_line_asks_it_there(s3: S3) -> None:
    path = f"s3a://{s3.bucket}/asked"
    lake = created(path)
    put(lake.writer(), lake.files, orders(1, 3, 1))
    asked = CliRunner().invoke(app, ["history", "Order", "--store", path, "--output", "ndjson"])
    assert asked.exit_code == 0, asked.output
    assert len(asked.stdout.splitlines()) == 3


def test_one_writer_there(s3: S3) -> None:
    path = f"s3://{s3.bucket}/writers"
    lake = created(path)
    first, second = lake.writer(), Lake.open(path).writer()
    with pytest.raises(StaleWriter, match="somebody else writes to the lake"):
        put(first, lake.files, orders(1, 3, 1))
    put(second, lake.files, orders(1, 3, 1))
    assert lake.last_commit() == 1
    # One that saw nobody newer, and comes too late all the same.
    assert not lake.storage.create("manifests/00000000000000000001.json", b"mine")
    assert lake.snapshot().manifest == second.last
    with pytest.raises(AlreadyCommitted):
        second.commit(second.manifest(commit=1, last_tick=2 * SECOND))


def test_upkeep_there(s3: S3) -> None:
    path = f"s3://{s3.bucket}/upkeep"
    lake = filled(path, 6)
    writer = lake.writer()
    done = compaction(lake.files, writer.snapshot(), fan_in=2)
    assert done.removed
    writer.commit(writer.manifest(added=done.added, removed=done.removed))
    before = history(path, compile).table("Order")
    lake.files.write_bytes("state", "000000000002-00001", b"of somebody who died before commit 2")
    assert sweep(lake).paths == ()
    assert len(sweep(lake, now_seconds=4e9).paths) == 1
    gone = set(vacuum(lake, 0, commits_kept=1, now_seconds=4e9).paths)
    assert gone >= set(done.removed)
    assert not gone & {one.path for one in lake.storage.walk()}
    assert history(path, compile).table("Order") == before


def test_a_store_that_passes_over_the_condition_is_refused(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path_factory.mktemp("deaf"), "deaf") as deaf:
        for name, value in deaf.variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(NeedsExclusive, match=r"takes a PUT with `If-None-Match: .` though the object is there"):
            created(f"s3://{deaf.bucket}/lake")


def test_no_such_bucket_fails_with_what_the_store_says(s3: S3) -> None:
    with pytest.raises(LakeFailed, match=r"the lake `s3://no-such-bucket-here/l` failed to .*bucket does not exist"):
        Lake.create("s3://no-such-bucket-here/l", program_text=TEXT, chronon_us=SECOND, buckets=4)


def test_without_botocore_a_bucket_is_read_and_not_written(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"s3://{s3.bucket}/read-only"
    filled(path, 2)
    monkeypatch.setitem(sys.modules, "botocore", None)
    assert Lake.open(path).last_commit() == 2
    with pytest.raises(NeedsExclusive, match=r"`botocore` is not installed, .* `pip install 'augury\[s3\]'`"):
        Lake.open(path).writer()
