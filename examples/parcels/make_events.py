"""Two days of a parcel service: some 200,000 events, by a seed, as files of Parquet in a folder.

    python examples/parcels/make_events.py FOLDER [--parcels 34000] [--seed 7]

Every parcel is promised, goes from depot to depot, and is handed over; of some the promise is moved or cancelled, some
get lost, come back, find nobody at home, or are reported hours late, wrongly, or twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

FIRST_DAY = np.datetime64("2026-03-02T06:00:00", "s").astype(np.int64)
HOUR = 3600
FILES = 8
DEPOTS = np.array(["Wien", "Linz", "Graz", "Salzburg", "Innsbruck", "Villach", "Wels", "Krems"])
NO_TIME = np.int64(np.iinfo(np.int64).min)
"""Instead of an occ_time: the version withdraws its event."""

NO_PARCEL = 0

Seconds = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64]
Texts = npt.NDArray[np.str_]


class Events:
    """Events of all classes, gathered class by class; what a class has not got is NULL."""

    def __init__(self) -> None:
        """Begin with none."""
        self.tables: list[pa.Table] = []

    def add(self, event: str, occ: Seconds, det: Seconds, parcel: Numbers, **texts: Texts) -> None:
        """Events of one class, a row each in all columns; times in seconds."""
        occ_time = pa.array(occ, mask=occ == NO_TIME).cast(pa.timestamp("s", "UTC"))
        columns = {
            "event": pa.array([event] * len(parcel), pa.string()),
            "occ_time": occ_time,
            "det_time": pa.array(det).cast(pa.timestamp("s", "UTC")),
            "parcel": pa.array(parcel.astype(np.int32), mask=parcel == NO_PARCEL),
        }
        for name in ("customer", "depot", "courier"):
            columns[name] = pa.array(texts[name], pa.string()) if name in texts else pa.nulls(len(parcel), pa.string())
        self.tables.append(pa.table(columns))

    def in_order(self) -> pa.Table:
        """All of them, as they were detected."""
        return pa.concat_tables(self.tables).sort_by([("det_time", "ascending"), ("parcel", "ascending")])


def make(count: int, seed: int) -> pa.Table:
    """The events of so many parcels."""
    random, events = np.random.default_rng(seed), Events()
    parcel = np.arange(1, count + 1)
    posted = FIRST_DAY + random.integers(0, 12 * HOUR, count)
    promised = FIRST_DAY + (24 + 3 + random.integers(0, 9, count)) * HOUR
    customer = np.char.add("C-", random.integers(1, count // 3 + 2, count).astype(str))
    cancelled = chance(random, count, 0.01)
    promised = promise(random, events, parcel, customer, posted, promised, cancelled)
    kept = np.flatnonzero(~cancelled)
    journey(random, events, parcel[kept], posted[kept])
    doorstep(random, events, parcel[kept], promised[kept])
    mistakes(random, events, count)
    return events.in_order()


def chance(random: np.random.Generator, count: int, share: float) -> npt.NDArray[np.bool_]:
    """Which of so many."""
    return random.random(count) < share


def promise(
    random: np.random.Generator,
    events: Events,
    parcel: Numbers,
    customer: Texts,
    posted: Seconds,
    promised: Seconds,
    cancelled: npt.NDArray[np.bool_],
) -> Seconds:
    """The promises, those that are moved by some hours, and those that are cancelled; gives the last word."""
    events.add("Promise", promised, posted, parcel, customer=customer)
    again = np.flatnonzero(chance(random, len(parcel), 0.005))  # the same line twice: absorbed
    events.add("Promise", promised[again], posted[again], parcel[again], customer=customer[again])
    moved = np.flatnonzero(~cancelled & chance(random, len(parcel), 0.04))
    later = promised.copy()
    later[moved] += random.integers(1, 5, len(moved)) * HOUR
    told = promised[moved] - random.integers(1, 4, len(moved)) * HOUR
    events.add("Promise", later[moved], told, parcel[moved], customer=customer[moved])
    gone = np.flatnonzero(cancelled)
    told = posted[gone] + random.integers(HOUR // 4, 2 * HOUR, len(gone))
    events.add("Promise", np.full(len(gone), NO_TIME), told, parcel[gone], customer=customer[gone])
    return later


def journey(random: np.random.Generator, events: Events, parcel: Numbers, posted: Seconds) -> None:
    """Two rides by lorry; some parcels are found hours later, or never, or are unloaded where they began."""
    count = len(parcel)
    here = random.integers(0, len(DEPOTS), count)
    at = posted + random.integers(HOUR // 2, 2 * HOUR, count)
    lost = np.zeros(count, np.bool_)
    for _ in range(2):
        there = (here + random.integers(1, 4, count)) % len(DEPOTS)  # two rides do not lead back
        there = np.where(chance(random, count, 0.004), here, there)
        hours = np.where(chance(random, count, 0.01), random.uniform(6.5, 11, count), random.uniform(1, 4, count))
        arrived = at + (hours * HOUR).astype(np.int64)
        some = np.flatnonzero(~lost)
        events.add("Loaded", at[some], scanned(random, at[some]), parcel[some], depot=DEPOTS[here[some]])
        lost |= chance(random, count, 0.002)
        some = np.flatnonzero(~lost)
        events.add("Unloaded", arrived[some], scanned(random, arrived[some]), parcel[some], depot=DEPOTS[there[some]])
        here, at = there, arrived + random.integers(HOUR // 2, 2 * HOUR, count)


def doorstep(random: np.random.Generator, events: Events, parcel: Numbers, promised: Seconds) -> None:
    """What couriers report: in vain, handed over, late, and not at all as it was."""
    count = len(parcel)
    courier = np.char.add("K", np.char.zfill(random.integers(1, 400, count).astype(str), 3))
    handed = promised + (random.normal(-0.3, 0.5, count) * HOUR).astype(np.int64)
    handed += np.where(chance(random, count, 0.04), random.integers(HOUR, 5 * HOUR, count), 0)
    vain = np.flatnonzero(chance(random, count, 0.08))
    for _ in range(2):
        events.add("Attempt", handed[vain], scanned(random, handed[vain]), parcel[vain], courier=courier[vain])
        handed[vain] += random.integers(HOUR, 3 * HOUR, len(vain))
        vain = vain[chance(random, len(vain), 0.2)]
    reported = scanned(random, handed)
    offline = chance(random, count, 0.03)
    reported += np.where(offline, random.integers(HOUR, 6 * HOUR, count), 0)
    events.add("Handover", handed, reported, parcel, courier=courier)
    # It was the parcel of a neighbour: withdrawn, and handed over in the end.
    wrong = np.flatnonzero(chance(random, count, 0.005))
    known = reported[wrong] + random.integers(HOUR // 2, 3 * HOUR, len(wrong))
    events.add("Handover", np.full(len(wrong), NO_TIME), known, parcel[wrong], courier=courier[wrong])
    again = known + random.integers(HOUR // 2, 2 * HOUR, len(wrong))
    events.add("Handover", again, scanned(random, again), parcel[wrong], courier=courier[wrong])
    # The clock of the scanner was wrong: it was earlier than reported.
    clock = np.setdiff1d(np.flatnonzero(chance(random, count, 0.01)), wrong)
    known = reported[clock] + random.integers(HOUR, 3 * HOUR, len(clock))
    events.add("Handover", handed[clock] - 2 * HOUR, known, parcel[clock], courier=courier[clock])


def scanned(random: np.random.Generator, at: Seconds) -> Seconds:
    """When we hear of what happened at a time: within two minutes."""
    return at + random.integers(1, 120, len(at))


def mistakes(random: np.random.Generator, events: Events, count: int) -> None:
    """Rows that are refused: reports without a parcel, and a withdrawal of what nobody has reported."""
    some = max(count // 5000, 1)
    at = FIRST_DAY + random.integers(24 * HOUR, 36 * HOUR, some)
    events.add("Handover", at, scanned(random, at), np.full(some, NO_PARCEL), courier=np.full(some, "K000"))
    unknown = count + 1 + np.arange(some)
    events.add("Handover", np.full(some, NO_TIME), at, unknown, courier=np.full(some, "K000"))


def write(table: pa.Table, folder: Path) -> None:
    """The events as files by time; the names put them in order."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = -(-table.num_rows // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * rows, rows), folder / f"part-{number + 1:02d}.parquet")


def main() -> None:
    """Read the command line, and write."""
    parser = argparse.ArgumentParser(description="Make the events of a parcel service.")
    parser.add_argument("folder", type=Path, help="where to write the files")
    parser.add_argument("--parcels", type=int, default=34_000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    table = make(given.parcels, given.seed)
    write(table, given.folder)
    print(f"{table.num_rows:,} events in {given.folder}")


if __name__ == "__main__":
    main()
