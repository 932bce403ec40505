"""The verbs that try programs out, and run, in a world of their own: files that exist nowhere else, and a seed."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from augury.actions.settings import SettingsError, settings_file, settings_in
from augury.cli import app
from augury.datafiles import Unreadable
from augury.environment import RealFiles
from augury.local.sources import read_events
from augury.simulated import Faults, World

PROGRAM = """
SET CHRONON 1m;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Low (resource STRING, amount INT) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Urgent (resource STRING) ID (resource) LIFESPAN (1d)
  AS MATCH Low(resource, a) WHERE a < 5
  ON ANNOUNCEMENT DO informOwner(NEW.resource);
"""
ROWS = [("milk", 3), ("tea", 40), ("rice", 1)]
EVENTS = "".join(
    json.dumps({"event": "Low", "occ_time": f"2026-01-01T09:0{number}:00Z", "resource": resource, "amount": amount})
    + "\n"
    for number, (resource, amount) in enumerate(ROWS)
)
SUITE = """
program: ../low.bicepl
tests:
  - name: little milk is urgent
    events:
      - Low(resource=milk, amount=3) at 0m
    expect:
      - Urgent(resource=milk) at 0m
"""
LACKING = SUITE.replace("Urgent(resource=milk)", "Urgent(resource=tea)")
SEEDS = range(10)

SIMULATE = ("simulate", "low.bicepl", "--events", "events", "--output", "ndjson")
WHY = ("why", "low.bicepl", "--events", "events/low.jsonl", "--event", "Urgent", "--key", "milk")
WHY_NOT = ("why-not", "low.bicepl", "--events", "events/low.jsonl", "--event", "Urgent", "--key", "tea")
RUN = ("run", "low.bicepl", "--events", "events/low.jsonl", "--rejected", "rejected.jsonl")
TEST = ("test", "suites/low.yaml", "--output", "json")
UPDATE = ("test", "suites/lacking.yaml", "--update")
VERBS = [SIMULATE, (*SIMULATE[:-1], "html", "--to", "page.html"), WHY, WHY_NOT, RUN, TEST, UPDATE]


def world(seed: int, unreadable: float = 0.0) -> World:
    found = World(seed)
    found.files.write("low.bicepl", PROGRAM.encode())
    found.files.write("events/low.jsonl", EVENTS.encode())
    found.files.write("suites/low.yaml", SUITE.encode())
    found.files.write("suites/lacking.yaml", LACKING.encode())
    found.faults = Faults(unreadable=unreadable)
    return found


@dataclass(frozen=True)
class Said:
    """What a verb said, and what files it left."""

    exit_code: int
    out: str
    err: str
    left: dict[str, bytes]


def said(verb: tuple[str, ...], among: World) -> Said:
    result = CliRunner().invoke(app, verb, obj=among)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    among.faults = Faults()
    names = ("page.html", "rejected.jsonl", "suites/lacking.yaml")
    left = {name: among.files.read(name) for name in names if Path(name).name in among.files.names(_folder(name))}
    return Said(result.exit_code, result.stdout, result.stderr, left)


def _folder(name: str) -> str:
    return str(Path(name).parent)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this world is on the disk."""
    monkeypatch.chdir(tmp_path)


def test_the_verbs_run_over_files_that_exist_only_in_a_world(tmp_path: Path) -> None:
    found = {" ".join(verb): said(verb, world(1)) for verb in VERBS}
    assert [one.exit_code for one in found.values()] == [0] * len(VERBS)
    simulated = [json.loads(line) for line in found[" ".join(SIMULATE)].out.splitlines()]
    assert [one["event"] for tick in simulated for one in tick["derived"]] == ["Urgent", "Urgent"]
    assert "milk" in found[" ".join(WHY)].out
    assert "tea" in found[" ".join(WHY_NOT)].out
    assert found[" ".join(RUN)].left["rejected.jsonl"] == b""
    assert found[" ".join(RUN)].out.count('"action": "informOwner"') == 2
    assert found[" ".join(VERBS[1])].left["page.html"].startswith(b"<!doctype html>")
    assert b"Urgent(resource='milk')" in found[" ".join(UPDATE)].left["suites/lacking.yaml"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_seed_gives_a_run_again_with_all_that_failed(verb: tuple[str, ...]) -> None:
    runs = [said(verb, world(seed, unreadable=0.2)) for seed in SEEDS]
    assert [said(verb, world(seed, unreadable=0.2)) for seed in SEEDS] == runs
    well = said(verb, world(1))
    failed = [one for one in runs if one != well]
    assert 0 < len(failed) < len(runs)
    for one in failed:
        assert one.exit_code == 2
        assert "it cannot be used just now" in one.err + one.out
        assert "[E503]" in one.err or "[E510]" in one.err or '"E503"' in one.out
        assert one.left.items() <= (well.left | {"suites/lacking.yaml": LACKING.encode()}).items()


def test_standard_input_is_that_of_the_world() -> None:
    verb = tuple("-" if word == "events/low.jsonl" else word for word in WHY)
    among = world(1)
    among.stdin = io.BytesIO(EVENTS.encode())
    assert said(verb, among).out == said(WHY, world(1)).out
    closed = said(verb, world(1))
    assert (closed.exit_code, "standard input is closed" in closed.err) == (2, True)
    among.stdin = io.BytesIO(PROGRAM.encode())
    assert said(("simulate", "-", *SIMULATE[2:]), among).out == said(SIMULATE, world(1)).out


def test_a_file_that_is_not_there_and_a_folder_are_told_apart() -> None:
    for name, code in (("none.bicepl", "E500"), ("suites", "E501")):
        for verb in (("simulate", name, "--events", "events"), ("test", name)):
            found = said(verb, world(1))
            assert (found.exit_code, f"error[{code}]" in found.err) == (2, True), found.err
    found = said((*WHY[:3], "none.jsonl", *WHY[4:]), world(1))
    assert (found.exit_code, "there is no file `none.jsonl`" in found.err) == (2, True)


def test_files_of_every_format_are_read_in_a_world() -> None:
    among = world(1)
    columns = {"resource": [name for name, _ in ROWS], "amount": [amount for _, amount in ROWS]}
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    among.files.write("more/low.parquet", sink.getvalue())
    among.files.write("more/low.csv", b"resource,amount\nsalt,2\n")
    csv, table = read_events("more", among)
    assert [csv.source, table.source] == ["more/low.csv", "more/low.parquet"]
    assert table.table.to_pydict() == columns  # type: ignore[union-attr]
    among.faults = Faults(unreadable=1.0)
    with pytest.raises(Unreadable, match="cannot be read: it cannot be used just now"):
        list(read_events("more", among))


def test_a_file_may_break_off_while_it_is_read() -> None:
    class Once(World):
        """Opening goes well, and one piece more."""

        left = 3

        def happens(self, chance: float) -> bool:
            """The fourth time."""
            self.left -= chance > 0
            return self.left < 0

    among = Once(1)
    among.files.write("low.jsonl", EVENTS.encode() * 2_000)
    among.faults = Faults(unreadable=0.5)
    with pytest.raises(Unreadable, match=r"breaks off after line [\d,]+: it cannot be used just now"):
        list(read_events("low.jsonl", among))


def test_settings_are_read_in_a_world() -> None:
    among = World(1)
    assert settings_file(None, Path("programs"), environment=among) is None
    among.files.write("programs/augury.toml", b'[actions]\ncommands = ["date"]\n')
    file = settings_file(None, Path("programs"), environment=among)
    assert settings_in(file, among).commands == ("date",)
    among.faults = Faults(unreadable=1.0)
    assert settings_file(None, environment=among) == Path("augury.toml"), "it cannot be known, so reading it tells"
    with pytest.raises(SettingsError, match="cannot be read: it cannot be used just now"):
        settings_in(file, among)
    among.faults = Faults()
    among.files.write("augury.toml", b"[actions]\xff")
    with pytest.raises(SettingsError, match=r"`augury\.toml` cannot be read: it is not UTF-8: byte 0xff at offset 9"):
        settings_in(Path("augury.toml"), among)


def test_a_file_is_rewritten_where_links_lead_with_the_rights_it_has(tmp_path: Path) -> None:
    file, link = tmp_path / "a.txt", tmp_path / "b.txt"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    RealFiles().write(str(link), b"new")
    assert (link.is_symlink(), file.read_bytes(), file.stat().st_mode & 0o777) == (True, b"new", 0o640)
    RealFiles().write("/dev/null", b"gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(IsADirectoryError):
        RealFiles().write(str(tmp_path), b"")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.txt", "b.txt"]
