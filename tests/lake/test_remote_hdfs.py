"""A lake in HDFS, over its HTTP interface: the same promises as on a disk, kept by a real namenode and datanode."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from augury.api import compile
from augury.lake import Lake, LakeExists, LakeFailed, NoLake, StaleWriter, compaction, history, vacuum
from augury.lake.systems import storage_of
from tests.lake.hdfs_server import serving
from tests.lake.made import created, filled, orders, put


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        # There whoever started the namenode may do everything.
        patch.delenv("HADOOP_USER_NAME", raising=False)
        with serving(tmp_path_factory.mktemp("hdfs")) as (_, web):
            yield f"webhdfs://{web}"


def test_a_folder_of_hdfs_keeps_the_word_of_a_place(hdfs: str) -> None:
    storage = storage_of(f"{hdfs}/places/with a space/")
    assert storage.names("x") == []
    assert list(storage.walk()) == []
    storage.write("x/y/one", b"1")
    storage.write("x/%5Ftwo", memoryview(b"22"))
    storage.write("x/.tmp-three", b"3")
    assert storage.create("x/four", b"4")
    assert not storage.create("x/four", b"5")
    assert storage.read("x/four") == b"4"
    assert sorted(storage.names("x")) == ["%5Ftwo", "four"]
    there = {("x/y/one", 1), ("x/%5Ftwo", 2), ("x/.tmp-three", 1), ("x/four", 1)}
    assert {(one.path, one.bytes) for one in storage.walk()} == there
    assert [one.path for one in storage.walk("x/y")] == ["x/y/one"]
    assert (storage.exists("x/four"), storage.exists("x/y"), storage.exists("x/no")) == (True, False, False)
    with storage.open("x/%5Ftwo") as source:
        assert source.read() == b"22"
    storage.remove("x/four")
    storage.remove("x/four")
    for reading in (storage.read, storage.open):
        with pytest.raises(FileNotFoundError):
            reading("x/four")


def test_of_many_that_race_for_a_file_one_has_it(hdfs: str) -> None:
    storage, contents = storage_of(f"{hdfs}/race"), [b"%d" % one for one in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for number in range(5):
            created_by = list(pool.map(lambda content, n=number: storage.create(f"m/{n}", content), contents))
            assert created_by.count(True) == 1
            assert storage.read(f"m/{number}") == contents[created_by.index(True)]
    assert sorted(one.path for one in storage.walk()) == [f"m/{number}" for number in range(5)]


def test_a_lake_is_written_asked_and_tidied_up_there(hdfs: str) -> None:
    path = f"{hdfs}/lake"
    lake = filled(path, 6)
    with pytest.raises(LakeExists, match="there is a lake at"):
        created(path)
    before = history(path, compile).table("Order")
    assert before.num_rows == 18
    assert history(path, compile, commit=1).table("Order").num_rows == 3
    writer, second = lake.writer(), Lake.open(path).writer()
    with pytest.raises(StaleWriter):
        put(writer, lake.files, orders(100, 3, 9))
    done = compaction(lake.files, second.snapshot(), fan_in=2)
    second.commit(second.manifest(added=done.added, removed=done.removed))
    assert set(vacuum(lake, 0, commits_kept=1, now_seconds=4e9).paths) >= set(done.removed) > set()
    assert history(path, compile).table("Order") == before


def test_a_path_as_hadoop_has_it_goes_over_http_where_a_variable_says_so(
    hdfs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUGURY_WEBHDFS", hdfs.replace("webhdfs", "http"))
    path = "hdfs://some-service/lakes/named"
    filled(path, 2)
    assert history(path, compile).table("Order").num_rows == 6
    assert all(one.startswith(f"{path}/history/Order/") for one in history(path, compile).files("Order"))
    assert Lake.open(f"{hdfs}/lakes/named").last_commit() == 2


def test_what_cannot_be_reached_is_told(hdfs: str) -> None:
    with pytest.raises(LakeFailed, match=r"failed to read `augury.json`: .*Connection refused"):
        Lake.open("webhdfs://127.0.0.1:1/lake")
    with pytest.raises(NoLake, match="write webhdfs://namenode:9870/folder"):
        Lake.open("webhdfs://127.0.0.1:1/")
    with pytest.raises(NoLake, match=r"`hdfs://h:1/l` cannot be reached: .*; set AUGURY_WEBHDFS=http://namenode:9870"):
        Lake.open("hdfs://h:1/l")
    with pytest.raises(NoLake, match="there is no lake at"):
        Lake.open(f"{hdfs}/nothing")
