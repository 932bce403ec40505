"""Files that grow, are rotated and cut off; folders into which files are put; a start goes on where the last ended."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from augury import limits
from augury.algebra.wiring import SourceKind
from augury.detectors import following
from augury.detectors.sensor import BadDetector, SourceFailed
from tests.acting.sensing import Remembers, detection, look


def line(sensor: int, heat: float = 1.5, **more: object) -> str:
    return json.dumps({"sensor": sensor, "heat": heat, **more}) + "\n"


class Tail:
    """A file, and detectors that are started anew for every look."""

    def __init__(self, folder: Path, name: str = "readings.jsonl", **more: object) -> None:
        self.path, self.state, self.sink = folder / name, folder / "state", Remembers()
        self.more = more

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def look(self) -> list[object]:
        """The sensors of all readings that came so far."""
        reading = detection(SourceKind.FILE, self.path, event_class="Reading", **self.more)
        look(self.state, reading, sink=self.sink)
        return [sensor for (sensor,) in self.sink.values("sensor")]


@pytest.fixture
def tail(tmp_path: Path) -> Tail:
    return Tail(tmp_path)


def test_lines_are_taken_once_and_when_they_are_whole(tail: Tail) -> None:
    tail.write(line(1) + '{"sensor": 2, ')
    assert tail.look() == [1]
    assert tail.look() == [1]
    tail.write('"heat": 2}\n\n' + line(3))
    assert tail.look() == [1, 2, 3]
    assert len(tail.sink.lines) == 3  # and none of them twice, whatever the ids
    assert tail.sink.values("event", "heat")[0] == ("Reading", Decimal("1.5"))


def test_a_file_that_is_not_there_yet_is_looked_for_again(tail: Tail) -> None:
    with pytest.raises(SourceFailed, match="there is no file"):
        tail.look()
    tail.write(line(1))
    assert tail.look() == [1]


def test_the_rest_of_a_file_that_was_rotated_is_read_first(tail: Tail) -> None:
    tail.write(line(1))
    tail.look()
    tail.write(line(2) + line(3).rstrip("\n"))
    tail.path.rename(tail.path.with_name("readings.jsonl.1"))
    tail.write(line(4))
    assert tail.look() == [1, 2, 3, 4]
    tail.path.rename(tail.path.with_name("readings.jsonl.2"))
    tail.write(line(5))
    assert tail.look() == [1, 2, 3, 4, 5]


def test_a_file_that_was_cut_off_begins_anew(tail: Tail) -> None:
    tail.write(line(1) + line(2))
    tail.look()
    tail.path.write_text(line(3))
    assert tail.look() == [1, 2, 3]


def test_a_file_that_was_cut_off_and_grew_past_the_old_end_begins_anew(tail: Tail) -> None:
    tail.write(line(1))
    tail.look()
    with tail.path.open("r+") as file:
        file.truncate(0)
        file.write(line(2) + line(3) + line(4))
    assert tail.look() == [1, 2, 3, 4]


def test_the_same_line_in_another_file_is_another_event(tail: Tail) -> None:
    tail.write(line(1))
    tail.look()
    other = tail.path.with_name("other")
    other.write_text(line(1))  # while the old one is there, so that it has another number
    other.replace(tail.path)
    assert tail.look() == [1, 1]


def test_lines_of_other_classes_are_left_out_and_broken_ones_are_handed_on(tail: Tail) -> None:
    tail.write(line(1, event="Delivery") + line(2, event="reading") + "{nonsense\n[1]\n" + line(3))
    assert tail.look() == [2, 3]
    assert tail.sink.lines[2:] == ["{nonsense", "[1]"]


def test_a_long_file_is_read_in_parts(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_PART_BYTES", 100)
    tail.write("".join(map(line, range(50))))
    assert tail.look() == list(range(50))


def test_a_line_without_an_end_does_not_stop_the_rest(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_PART_BYTES", 100)
    monkeypatch.setattr(limits, "INFER_LINE_BYTES_MAX", 500)
    tail.write(line(1) + "x" * 2_000)
    assert tail.look() == [1]
    assert len(tail.sink.lines) == 2  # what could be shown of it, for the rejected events
    tail.write("x" * 300 + "\n" + line(2))
    tail.look()
    tail.look()
    tail.look()
    assert tail.look() == [1, 2]


def test_csv_keeps_its_header_over_restarts_and_takes_a_new_one_after_rotation(tmp_path: Path) -> None:
    tail = Tail(tmp_path, "readings.csv")
    tail.write("\ufeffsensor;heat\n1;2.5\n")
    assert tail.look() == [1]
    tail.write('2;"3.5"\n3;4;5\n4;\n')
    assert tail.look() == [1, 2, 4]
    assert tail.sink.values("heat") == [(Decimal("2.5"),), (Decimal("3.5"),), (None,)]
    assert json.loads(tail.sink.lines[-1]) == ["it has 3 cells, the header 2", "3;4;5"]
    tail.path.rename(tmp_path / "readings.csv.1")
    tail.write("heat,sensor\n9,5\n")
    assert tail.look() == [1, 2, 4, 5]


def test_a_format_is_said_where_the_name_does_not_tell(tmp_path: Path) -> None:
    csv = "resource,amount\nmilk,2\n"
    texts = {"csv": csv, "tsv": csv.replace(",", "\t"), "jsonl": '{"resource": "milk", "amount": 2}\n'}
    for kind in (SourceKind.FILE, SourceKind.DIRECTORY):
        for said, text in texts.items():
            folder = tmp_path / f"{kind.value}-{said}"
            folder.mkdir()
            (folder / "a.txt").write_text(text)
            source = folder if kind is SourceKind.DIRECTORY else folder / "a.txt"
            wanted = detection(kind, source, settings=(("format", said),))
            assert look(tmp_path / f"{folder.name}-state", wanted, times=2).values("resource", "amount") == [
                ("milk", 2)
            ]


def test_a_record_of_csv_over_several_lines_waits_for_its_end(tmp_path: Path) -> None:
    path, sink = tmp_path / "news.csv", Remembers()
    news = detection(SourceKind.FILE, path, event_class="News")
    path.write_text('title,link\n"two\nlines",a\n"open\n')
    look(tmp_path / "state", news, sink=sink)
    assert sink.values("title", "link") == [("two\nlines", "a")]
    with path.open("a") as file:
        file.write('closed",b\n')
    look(tmp_path / "state", news, sink=sink)
    assert sink.values("title", "link")[1:] == [("open\nclosed", "b")]


def test_parquet_does_not_grow(tmp_path: Path) -> None:
    with pytest.raises(BadDetector, match="FROM DIRECTORY"):
        look(tmp_path / "state", detection(SourceKind.FILE, "a.parquet"))


# ---- folders ---------------------------------------------------------------------------------------------


class Inbox:
    def __init__(self, folder: Path) -> None:
        self.path, self.state, self.sink = folder / "inbox", folder / "state", Remembers()
        self.path.mkdir()

    def look(self, times: int = 2) -> list[object]:
        """Twice, for a file counts once it was as large at two looks."""
        reading = detection(SourceKind.DIRECTORY, self.path, event_class="Reading")
        look(self.state, reading, times=times, sink=self.sink)
        return [sensor for (sensor,) in self.sink.values("sensor")]


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def test_every_new_file_is_read_once(inbox: Inbox) -> None:
    (inbox.path / "b.jsonl").write_text(line(1) + line(2))
    (inbox.path / "a.csv").write_text("sensor,heat\n3,4.5\n")
    parquet.write_table(pa.table({"sensor": [4, 5], "heat": [1.0, None]}), inbox.path / "c.parquet")
    (inbox.path / "d.jsonl.gz").write_bytes(gzip.compress(line(6).encode()))
    (inbox.path / "e.json").write_text("[" + line(7) + "," + line(8) + "]")
    for name in (".f.jsonl", "_g.jsonl", "notes.txt"):
        (inbox.path / name).write_text(line(99))
    assert inbox.look() == [3, 1, 2, 4, 5, 6, 7, 8]
    assert inbox.look() == [3, 1, 2, 4, 5, 6, 7, 8]
    (inbox.path / "a0.jsonl").write_text(line(9))
    assert inbox.look(1) == [3, 1, 2, 4, 5, 6, 7, 8]
    assert inbox.look(1) == [3, 1, 2, 4, 5, 6, 7, 8, 9]
    assert len(inbox.sink.lines) == 9


def test_a_file_that_is_still_growing_waits(inbox: Inbox) -> None:
    path = inbox.path / "a.jsonl"
    path.write_text(line(1))
    assert inbox.look(1) == []
    path.write_text(line(1) + line(2))
    assert inbox.look(1) == []
    assert inbox.look(1) == [1, 2]


def test_a_file_in_the_place_of_another_is_new(inbox: Inbox) -> None:
    path = inbox.path / "a.jsonl"
    path.write_text(line(1))
    assert inbox.look() == [1]
    (inbox.path / ".new").write_text(line(2))
    (inbox.path / ".new").replace(path)
    assert inbox.look() == [1, 2]


def test_a_large_file_comes_in_parts_and_goes_on_after_a_restart(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DETECTOR_ITEMS_AT_ONCE", 3)
    (inbox.path / "a.jsonl").write_text("".join(map(line, range(10))))
    assert inbox.look() == list(range(10))
    assert len(list(inbox.state.glob("*.events"))) == 0


def test_a_file_that_cannot_be_read_holds_up_no_other(inbox: Inbox) -> None:
    (inbox.path / "a.parquet").write_bytes(b"PAR1 this is none")
    (inbox.path / "b.jsonl").write_text(line(1))
    with pytest.raises(SourceFailed, match=r"a\.parquet"):
        inbox.look(3)
    assert inbox.sink.values("sensor") == [(1,)]
    parquet.write_table(pa.table({"sensor": [2]}), inbox.path / "a.parquet")
    assert inbox.look() == [1, 2]
