"""`augury serve` on a disk that is full: it says so, loses nothing that it promised, and goes on when there is room."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lake.test_faults import NAMESPACE, own_disk
from tests.server.asking import JSON, Answer, Server
from tests.server.conftest import Serve

SHOP = """
SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Paid (account INT, remark STRING) ID () LIFESPAN (5d);
CREATE COMPLEX EVENT CLASS Twice (account INT) ID (account) LIFESPAN (5d)
  AS MATCH prior(Paid(account, _), Paid(account, _));
"""
DISK_MEGABYTES = 12
SECONDS_MAX = 10.0
FULL = ("the disk is full", "No space left on device")


def on_own_disk(folder: Path) -> tuple[str, ...]:
    """What starts a server that alone sees a small disk, in the folder `disk`."""
    (folder / "disk").mkdir()
    script = folder / "mount.sh"
    mount = f'mount -t tmpfs -o size={DISK_MEGABYTES}m t "{folder}/disk"'
    script.write_text(f'set -e\n{mount}\nexec "$@"\n')
    return *NAMESPACE, "sh", str(script)


def fill(file: Path) -> None:
    """Write until there is no room left, not even for a byte."""

    def write(size: int) -> None:
        while True:
            ballast.write(b"\0" * size)

    with file.open("wb", buffering=0) as ballast:
        for size in (1 << 16, 1 << 10, 1):
            with pytest.raises(OSError, match="No space left"):
                write(size)


def until(is_so: Callable[[], bool], what: str) -> None:
    over = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < over, what
        time.sleep(0.05)


class Payer:
    """Posts events one by one, and remembers which were acknowledged."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.count = 0
        self.acknowledged: list[str] = []

    def pay(self) -> Answer:
        self.count += 1
        return self.send(f"e{self.count}")

    def send(self, event_id: str, wait: str = "durable") -> Answer:
        about = {"event": "Paid", "event_id": event_id, "account": self.count % 5, "remark": "x" * 3_000}
        answer = self.server.ask("POST", f"/v1/events?wait={wait}", json.dumps(about), JSON)
        if answer.status == 200:
            self.acknowledged.append(event_id)
        return answer

    def history(self) -> list[str]:
        rows = self.server.ask("GET", "/v1/classes/Paid/history?limit=10000").json["rows"]
        return [row["event_id"] for row in rows]


@own_disk
def test_on_a_full_disk_nothing_is_promised_and_it_goes_on_by_itself(tmp_path: Path, serve: Serve) -> None:
    server = serve(SHOP, store=str(tmp_path / "disk" / "a.db"), before=on_own_disk(tmp_path))
    payer = Payer(server)
    disk = Path(f"/proc/{server.process.pid}/root{tmp_path}/disk")  # nobody else sees what is mounted there
    assert (disk / "a.db").exists()
    assert not (tmp_path / "disk" / "a.db").exists()
    assert [payer.pay().status for _ in range(50)] == [200] * 50
    until(lambda: payer.history() == payer.acknowledged, "what was posted is read")

    fill(disk / "ballast")
    until(lambda: payer.pay().status == 507, "the disk is full")
    for _ in range(30):
        answer = payer.pay()
        assert answer.status in (200, 507), answer.body  # a little room may be found in what SQLite has already
        assert answer.status == 200 or any(words in answer.json["detail"] for words in FULL)
    time.sleep(2.5)  # ticks come meanwhile, and cannot be kept either
    answer = payer.send("waits", "read")
    assert (answer.status, "retry-after" in answer.headers) == (507, True), answer.body
    assert (server.ask("GET", "/health").status, server.ask("GET", "/ready").status) == (200, 503)
    assert set(payer.history()) <= set(payer.acknowledged)

    (disk / "ballast").unlink()
    until(lambda: payer.pay().status == 200, "there is room again")
    assert payer.send("waits", "read").status == 200
    assert [payer.pay().status for _ in range(20)] == [200] * 20
    assert server.ask("GET", "/ready").status == 200
    until(lambda: len(payer.history()) >= len(payer.acknowledged), "what was acknowledged is read")
    assert sorted(payer.history()) == sorted(payer.acknowledged), "all that was promised, and nothing else"
    twice = server.ask("GET", "/v1/occurrences?name=Twice&limit=10000").json["rows"]
    assert len({row["account"] for row in twice}) == 5
    assert server.end() == 0
