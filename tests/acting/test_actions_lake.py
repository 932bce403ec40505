"""The outbox of a lake: what commits hold is carried out at least once, in order, also by who is killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from augury.actions.binding import CannotCarryOut, Surroundings
from augury.actions.carrying import Carrying, require_bound
from augury.api import compile
from augury.engine.ledger import ledger_of
from augury.event import key_of
from augury.history.values import moment_us
from augury.lake import Kind, Lake, Writer, compaction, vacuum
from augury.lake.manifest import manifest_name
from augury.local.running import LocalEngine
from augury.local.store.errors import NoStore, StoreInUse, StoreMismatch
from augury.local.store.lake_outbox import DELIVERIES, outbox_at
from augury.local.store.waiting import Listed, State, Wanted

TEXT = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Account (account INT, rest INT) ID (account) LIFESPAN (30d)
  ON FUTURE OR NOT FUTURE DO tell(new.account, new.rest), warn(new.account);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Claim (account INT, amount INT) ID (account, amount) LIFESPAN (30d);
RULE Approve (account INT, amount INT) CONDITION amount <= 10
  ACTION approve(account, amount) ALTERNATIVEACTION escalate(account, amount);
TRIGGER Pay (account INT, amount INT) TRIGGEREVENT Claim RULESTRUC Approve(account, amount);
"""
START_US = moment_us("2026-03-01T09:00:00Z")
SECOND = 1_000_000


class Made:
    """A lake with a commit for each second: an account that changes, and a claim."""

    def __init__(self, path: Path) -> None:
        self.path, self.program = path, compile(TEXT)
        self.engine = LocalEngine(self.program)
        chronon_us = self.program.settings.chronon_us
        self.lake = Lake.create(path, program_text=TEXT, chronon_us=chronon_us, buckets=2)
        self.writer: Writer = self.lake.writer()
        self.seconds = 0

    def commit(self, account: int = 1, columns: tuple[str, ...] = ()) -> None:
        """One more; without some of the columns, as an older Augury wrote them."""
        self.seconds += 1
        end = START_US + self.seconds * SECOND
        det = (end - SECOND // 2) / SECOND
        self.engine.post({"event": "Account", "det_time": det, "account": account, "rest": self.seconds})
        self.engine.post({"event": "Claim", "det_time": det, "account": account, "amount": self.seconds})
        done = ledger_of(self.program, list(self.engine.advance_to(end)))
        table = done.actions.drop_columns(list(columns))
        added = [self.lake.files.write_table(Kind.ACTIONS, "", table, tag=f"{self.seconds:012d}")]
        self.writer.commit(self.writer.manifest(added=tuple(added), last_tick=end))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "lake")


def listed(place: Path) -> list[Listed]:
    outbox = outbox_at(str(place), alone=False)
    try:
        return list(outbox.listed(Wanted()))
    finally:
        outbox.close()


def told(found: list[Listed]) -> list[tuple[str, list[Any]]]:
    return [(one.action.action, json.loads(one.action.arguments)) for one in found]


def test_every_commit_is_taken_over_once_and_in_order(made: Made) -> None:
    assert listed(made.path) == []
    made.commit()
    first = listed(made.path)
    assert told(first) == [("tell", [1, 1]), ("warn", [1]), ("approve", [1, 1])]
    assert [(one.action.trigger, one.action.rule) for one in first] == [(None, None)] * 2 + [("Pay", "Approve")]
    outbox = outbox_at(str(made.path), alone=True)
    made.commit()
    made.commit(2)
    assert outbox.look().last_id == 9
    assert outbox.look().last_id == 9
    outbox.close()
    found = listed(made.path)
    assert told(found)[3:6] == [("tell", [1, 2]), ("warn", [1]), ("approve", [1, 2])]
    assert len({one.action.idempotency_key for one in found}) == len(found) == 9
    assert found[:3] == first


def test_files_that_were_merged_and_removed_are_taken_over_all_the_same(made: Made) -> None:
    for _ in range(3):
        made.commit()
    assert len(listed(made.path)) == 9
    for _ in range(9):
        made.commit()
    done = compaction(made.lake.files, made.writer.snapshot())
    assert done.removed
    made.writer.commit(made.writer.manifest(added=done.added, removed=done.removed))
    assert vacuum(made.lake, 0.0, commits_kept=1, now_seconds=time.time() + 60).paths
    assert (made.path / DELIVERIES).exists()
    assert [arguments for action, arguments in told(listed(made.path)) if action == "tell"] == [
        [1, number] for number in range(1, 13)
    ]


def test_a_lake_that_has_gone_back_is_taken_over_from_there(made: Made) -> None:
    for _ in range(4):
        made.commit()
    assert len(listed(made.path)) == 12
    for commit in (3, 4):
        (made.path / manifest_name(commit)).unlink()
    again = Made.__new__(Made)
    again.path, again.program, again.lake = made.path, made.program, Lake.open(made.path)
    again.engine, again.writer, again.seconds = LocalEngine(made.program), again.lake.writer(), 2
    again.commit(7)
    found = told(listed(made.path))
    assert len(found) == 15
    assert found[12] == ("tell", [7, 3])


def test_actions_of_an_older_lake_have_neither_trigger_nor_rule(made: Made) -> None:
    made.commit(columns=("trigger", "rule"))
    made.commit()
    assert len(listed(made.path)) == 6


def test_who_names_the_wrong_database_is_told(made: Made, tmp_path: Path) -> None:
    made.commit()
    other = Made(tmp_path / "other")
    other.commit()
    assert len(listed(other.path)) == 3
    with pytest.raises(StoreMismatch, match="is of another lake: name another"):
        outbox_at(str(made.path), str(other.path / DELIVERIES), alone=False)
    with LocalEngine(made.program, str(tmp_path / "store.db")):
        pass
    with pytest.raises(StoreMismatch, match="is the store of an engine"):
        outbox_at(str(made.path), str(tmp_path / "store.db"), alone=False)
    with pytest.raises(NoStore, match="is no lake: what becomes of the actions"):
        outbox_at(str(tmp_path / "store.db"), "beside.db", alone=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoStore, match="there is no lake at"):
        outbox_at(str(tmp_path / "empty"), alone=False)
    first = outbox_at(str(made.path), alone=True)
    with pytest.raises(StoreInUse, match="delivered from"):
        outbox_at(str(made.path), alone=True)
    first.close()


def test_a_database_elsewhere_keeps_what_became_of_actions(made: Made, postgres_url: str) -> None:
    made.commit()
    for _ in range(2):
        outbox = outbox_at(str(made.path), postgres_url, alone=True)
        assert told(list(outbox.listed(Wanted())))[0] == ("tell", [1, 1])
        assert outbox.drop(Wanted(action="tell"), 0) == (1 if _ == 0 else 0)
        outbox.close()
    assert not (made.path / DELIVERIES).exists()


# ---- carrying out ------------------------------------------------------------------------------------------------

MODULE = """
import os, time
from augury import action

def note(delivery):
    with open(os.environ["NOTED"], "a") as file:
        print(delivery.key, delivery.action, delivery.event, *delivery.arguments, file=file, flush=True)
    time.sleep(0.01)

for name in ("tell", "warn", "approve", "escalate"):
    action(name)(lambda *arguments, delivery: note(delivery))
"""


def test_beside_who_commits_actions_are_carried_out_as_they_come(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "note_lake.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NOTED", str(tmp_path / "noted"))
    bound = "\n".join(f"BIND {name} TO PYTHON 'note_lake:noted';" for name in ("tell", "warn", "approve", "escalate"))
    (tmp_path / "note_lake.py").write_text(MODULE + "\ndef noted(*arguments, delivery):\n    note(delivery)\n")
    around = Surroundings(compile(TEXT + bound))
    require_bound(around)
    with pytest.raises(CannotCarryOut, match="nowhere"):
        require_bound(Surroundings(compile(TEXT + "BIND tell TO PYTHON 'nowhere:at_all';")))
    made.commit()
    carrying = Carrying(str(made.path), around)
    made.commit()
    deadline = time.monotonic() + 60
    while carrying.counts.delivered == 0 and sum(one.state is State.DELIVERED for one in listed(made.path)) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    made.commit()
    carrying.close(settle=True)
    assert carrying.counts.delivered == 9
    assert {one.state for one in listed(made.path)} == {State.DELIVERED}
    lines = (tmp_path / "noted").read_text().splitlines()
    assert [line.split()[1:] for line in lines if " Account " in line] == [
        deed for number in range(1, 4) for deed in (["tell", "Account", "1", str(number)], ["warn", "Account", "1"])
    ]


def test_killed_while_it_carries_out_nothing_is_lost(made: Made, tmp_path: Path) -> None:
    chance = random.Random(3)
    for _ in range(30):
        made.commit(chance.randrange(5))
    (tmp_path / "note_lake.py").write_text(MODULE)
    (tmp_path / "augury.toml").write_text('[actions]\nmodules = ["note_lake"]\n')
    (tmp_path / "pay.bicepl").write_text(TEXT)
    command = [sys.executable, "-m", "augury", "actions", "run", "pay.bicepl", "--store", str(made.path)]
    around = os.environ | {"NOTED": str(tmp_path / "noted"), "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(3):
        process = subprocess.Popen(command, cwd=tmp_path, env=around, stderr=subprocess.PIPE)
        try:
            before = _size(tmp_path / "noted")
            deadline = time.monotonic() + 60
            while _size(tmp_path / "noted") == before and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.002)
            time.sleep(chance.random() * 0.1)
        finally:
            process.kill()
            assert process.stderr is not None
            process.wait()
            process.stderr.close()
    done = subprocess.run(
        [*command, "--once"], cwd=tmp_path, env=around, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = listed(made.path)
    assert {one.state for one in found} == {State.DELIVERED}
    times = Counter(line.split()[0] for line in (tmp_path / "noted").read_text().splitlines())
    assert times.keys() == {one.action.idempotency_key for one in found}
    assert max(times.values()) <= 4
    assert {key_of(one.action.action) for one in found} == {"tell", "warn", "approve", "escalate"}


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
