"""A process that writes to a lake, for tests that race or kill it: `writing.py loop|again|race|create|full LAKE`.

`loop` commits until it is killed, `race` commits so many times against others, `full` until the disk refuses.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from augury.lake import AlreadyCommitted, Kind, Lake, LakeFailed, StaleWriter, Upkeep, Writer, compaction
from tests.lake.made import ORDER, orders, put


def say(*words: object) -> None:
    print(*words, flush=True)


def one_commit(lake: Lake, writer: Writer) -> int:
    """Two files of rows, a state, and now and then compaction, all in one commit; gives its number."""
    commit = writer.next_commit
    state = lake.files.write_bytes("state", "Order/0", b"%d" % commit * 100)
    tables = [orders(commit * 10, 3, commit), orders(commit * 10 + 3, 2, commit)]
    done = compaction(lake.files, writer.snapshot(), fan_in=4) if commit % 3 == 0 else Upkeep()
    tag = f"{commit:020d}"
    added = tuple(lake.files.write_table(Kind.HISTORY, ORDER, table, tag=tag) for table in tables)
    last_tick = 1_767_268_800_000_000 + commit * 1_000_000
    said = {"state": {"Order/0": state}, "last_tick": last_tick, "last_seq": commit * 10 + 4}
    writer.commit(writer.manifest(added=added + done.added, removed=done.removed, **said))
    return commit


def loop(lake: Lake) -> None:
    say("ready")
    sys.stdin.readline()
    writer = lake.writer()
    while True:
        say(one_commit(lake, writer))


def again(lake: Lake) -> None:
    """At each line start a process of its own that commits until it is killed; it need not import everything anew."""
    say("ready")
    while sys.stdin.readline():
        child = os.fork()
        if not child:
            try:
                say("pid", os.getpid())
                writer = lake.writer()
                while True:
                    say(one_commit(lake, writer))
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        say("dead by", os.WTERMSIG(status) if os.WIFSIGNALED(status) else "itself")


def race(lake: Lake, wins: int) -> None:
    """Commit against others: whoever is refused takes the lake over and tries again."""
    say("ready")
    sys.stdin.readline()
    writer = lake.writer()
    while wins:
        try:
            say("won", one_commit(lake, writer))
            wins -= 1
        except (AlreadyCommitted, StaleWriter) as refused:
            say(type(refused).__name__)
            writer = lake.writer()


def create(lake: Lake, rounds: int, name: str) -> None:
    """Create the same files as others at the same time."""
    say("ready")
    for number in range(rounds):
        sys.stdin.readline()
        say(lake.storage.create(f"manifests/race-{number}", f"{name} {number}\n".encode() * 1000))


def full(lake: Lake) -> None:
    """Commit until the disk is full, make room, and go on."""
    writer = lake.writer()
    ballast = Path(lake.path).parent / "ballast"
    held_rows = sum(entry.rows for entry in lake.snapshot().files)
    first = 1
    while True:
        try:
            put(writer, lake.files, orders(first, 300, writer.next_commit))
        except LakeFailed as failed:
            say(failed)
            break
        first += 300
    held = writer.next_commit - 1
    again = Lake.open(lake.path)
    assert again.last_commit() == held
    assert sum(entry.rows for entry in again.snapshot().files) == held_rows + first - 1
    assert not list(Path(lake.path).rglob(".tmp-*"))
    ballast.unlink()
    put(writer, lake.files, orders(first, 300, writer.next_commit))
    assert Lake.open(lake.path).last_commit() == held + 1
    say("went on after", held)


def main() -> None:
    what, path, *more = sys.argv[1:]
    lake = Lake.open(path)
    match what:
        case "loop":
            loop(lake)
        case "again":
            again(lake)
        case "race":
            race(lake, int(more[0]))
        case "create":
            create(lake, int(more[0]), more[1])
        case "full":
            full(lake)
        case _:
            raise SystemExit(f"what is {what}?")


if __name__ == "__main__":
    main()
