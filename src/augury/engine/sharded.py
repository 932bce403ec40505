"""A program run in pieces: which slot each row goes to, and which number each version gets.

In: shards and how many buckets they fall into; rows as they come. Out: rows by slot, a slot being one bucket of one
shard, with an engine of its own. Versions are numbered over all slots, and which rows are versions is known only to the
engine of each: so engines go twice over what came, first to tell which rows they accept (`accepted`), on states that
are thrown away, and then with the numbers (`numbered`). Where there is one slot its engine counts by itself. An id
that rows of several slots have is settled between the two (`to_absorb`), and so is which SELECTs fail in some slot
(`seen_to_fail`): the first pass is repeated until nothing more is to be known (`more_known`). It runs nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from augury.algebra.program import Program
from augury.engine.failing import Failing, Point, first_difference
from augury.engine.plan import EnginePlan, engine_plan
from augury.engine.shards import Shard, holds_select, program_of, shards_of
from augury.engine.ticked import Ticked
from augury.event import key_of
from augury.history.arrivals import Arrivals, ClassRows
from augury.history.buckets import buckets_of
from augury.history.coming import received
from augury.history.typed import Part
from augury.kernels.batch import Integers
from augury.kernels.columns.column import Mask

Moment = tuple[int, int]
"""Where a row stands in the history: its det_time and the position at which it came."""

_NUMBERS_BITS: Final = 38
"""So many bits has the number that the engine of a slot gives to a version of a class."""

SLOTS_MAX: Final = 1 << 13
GENERATIONS_MAX: Final = 1 << 11
"""The rest of 63 bits: slots, and how often a program may be cut otherwise."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a program: of each shard that can be cut as many as there are buckets, of one that cannot one.

    `codes` has for each shard the code among the classes that come in of each of its own such classes, in order.
    """

    program: Program
    shards: tuple[Shard, ...]
    buckets: int
    codes: tuple[tuple[int, ...], ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """The first slot of each shard, and the number of all slots."""
        found = [0]
        for shard in self.shards:
            found.append(found[-1] + (self.buckets if shard.by else 1))
        return tuple(found)

    def __len__(self) -> int:
        """How many there are."""
        return self.starts[-1]

    def shard_of(self, slot: int) -> int:
        """The shard that a slot belongs to."""
        return int(np.searchsorted(self.starts, slot, side="right")) - 1

    def selecting(self) -> tuple[int, ...]:
        """The slots whose engines run SELECTs."""
        return tuple(
            slot for slot in range(len(self)) if holds_select(self.program, self.shards[self.shard_of(slot)].places)
        )

    def shares_selects(self, slot: int) -> bool:
        """Whether engines of other slots run the SELECTs of a slot, too, over other events."""
        shard = self.shards[self.shard_of(slot)]
        return bool(shard.by) and self.buckets > 1 and holds_select(self.program, shard.places)

    def program_of(self, slot: int) -> Program:
        """The part of the program that the engine of a slot runs."""
        return program_of(self.program, self.shards[self.shard_of(slot)])

    def after_number(self, slot: int, generation: int = 0) -> int:
        """From where the engine of a slot numbers the versions of each class: no two give one number."""
        assert slot < SLOTS_MAX, "so many slots are refused"
        assert generation < GENERATIONS_MAX, "so many generations are refused"
        return (generation * SLOTS_MAX + slot) << _NUMBERS_BITS

    def name_of(self, slot: int) -> str:
        """What the state of a slot is filed under: the same for programs that say the same of its classes."""
        shard = self.shard_of(slot)
        program = self.program_of(slot)
        parts = (program.settings.chronon_us, program.classes, program.strata, self.shards[shard].by)
        said = repr((*parts, program.triggers, program.rules) if program.triggers else parts)
        meaning = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:20]
        return f"{meaning}/{slot - self.starts[shard]:05d}"

    def slots_of(self, code: int, part: Part) -> Integers:
        """The slot of each row of a class that comes in."""
        shard = next(number for number, codes in enumerate(self.codes) if code in codes)
        event_class = received(self.program)[code]
        place = next(p for p, plan in enumerate(self.program.classes) if plan.event_class is event_class)
        columns = self.shards[shard].columns(place)
        start = self.starts[shard]
        if not columns:
            return np.full(len(part), start)
        names = [key_of(attribute.name) for attribute in event_class.attributes]
        return start + buckets_of([part.values[names.index(key_of(name))] for name in columns], self.buckets)


def slots_of(program: Program, buckets: int, plan: EnginePlan | None = None, *, whole_selects: bool = False) -> Slots:
    """The slots of a program; with `whole_selects` SELECTs are not cut by key. Raises `CannotRun`."""
    plan = plan or engine_plan(program)
    shards = shards_of(plan, whole_selects=whole_selects)
    found = sum(buckets if shard.by else 1 for shard in shards)
    if found > SLOTS_MAX:
        raise ValueError(f"there would be {found:,} slots, and at most {SLOTS_MAX:,} are allowed: take fewer buckets")
    codes = tuple(tuple(code for code, place in enumerate(plan.received) if place in shard.places) for shard in shards)
    return Slots(program, shards, buckets, codes)


def split(slots: Slots, came: Arrivals) -> dict[int, Arrivals]:
    """What came by slot; classes are those of the slot's own program. Refusals are left out: they are nobody's."""
    found: dict[int, dict[int, ClassRows]] = {}
    for code, rows in came.rows.items():
        slot_of_row = slots.slots_of(code, rows.part)
        for slot in np.unique(slot_of_row).tolist():
            own = slots.codes[slots.shard_of(slot)].index(code)
            found.setdefault(slot, {})[own] = rows.at(np.flatnonzero(slot_of_row == slot))
    return {slot: Arrivals(dict(sorted(rows.items())), (), came.place) for slot, rows in found.items()}


def parted(came: Arrivals, until_us: int) -> tuple[Arrivals, Arrivals]:
    """What ticks up to a time read, and what waits: the chronon in which it came is not over by then."""

    def some(which: Callable[[Integers], Mask]) -> Arrivals:
        rows = {}
        for code, one in came.rows.items():
            at = np.flatnonzero(which(one.part.det_time))
            if len(at):
                rows[code] = one if len(at) == len(one) else one.at(at)
        return replace(came, rows=rows)

    return some(lambda det_time: det_time < until_us), some(lambda det_time: det_time >= until_us)


Identified = tuple[int, str, Moment, int]
"""A row with an event_id: the code of its class, the id, where it stands, and its slot."""


def identified(slots: Slots, slot: int, came: Arrivals) -> Iterator[Identified]:
    """The rows of a slot that have an event_id."""
    codes = slots.codes[slots.shard_of(slot)]
    for own, rows in came.rows.items():
        if rows.part.event_id is not None:
            moments = zip(rows.part.det_time.tolist(), rows.position.tolist(), strict=True)
            for event_id, moment in zip(rows.part.event_id.to_pylist(), moments, strict=True):
                if event_id is not None:
                    yield codes[own], event_id, moment, slot


def shared_ids(rows: Iterable[Identified]) -> list[list[Moment]]:
    """The rows of a class that have one event_id and lie in different slots, in the order of the history.

    The first of them that is accepted has the others absorbed, and no engine sees all of them.
    """
    rows_of: dict[tuple[int, str], list[tuple[Moment, int]]] = {}
    for code, event_id, moment, slot in rows:
        rows_of.setdefault((code, event_id), []).append((moment, slot))
    several = (sorted(some) for some in rows_of.values() if len({slot for _, slot in some}) > 1)
    return [[moment for moment, _ in some] for some in several]


def to_absorb(shared: Iterable[Sequence[Moment]], versions: Integers, absorbed: Collection[int]) -> int | None:
    """The first row in the history that is no duplicate to its engine, although an earlier version has its event_id.

    Once it is absorbed what comes after it may be different, so one has to look again, until there is none.
    """
    accepted = set(versions.tolist())
    found: list[Moment] = []
    for moments in shared:
        places = [place for place, (_, position) in enumerate(moments) if position in accepted]
        later = moments[places[0] + 1 :] if places else ()
        found += [moment for moment in later if moment[1] not in absorbed][:1]
    return min(found)[1] if found else None


@dataclass(frozen=True, slots=True)
class Known:
    """What the engines of a step are told beside their rows, as far as it is known by then.

    `absorbed` are positions of rows that are known to be duplicates. `failing` says which SELECTs fail when, in some
    slot; None as long as nobody has seen one fail, and then an engine that can tell what it accepts without a look at
    its rows does not look. `parted` is where the last round told something else than it was given.
    """

    absorbed: frozenset[int] = frozenset()
    failing: Failing | None = None
    parted: Point | None = None


def seen_to_fail(program: Program, known: Known, found: Failing) -> Known | None:
    """What is known once all slots have told which SELECTs fail in them; None if it is what was known before."""
    parted = first_difference(program, known.failing or {}, found)
    if parted is None:
        return None
    if known.failing is None:
        return replace(known, failing=found)
    assert known.parted is None or known.parted < parted, "what fails first was right after one round"
    return replace(known, failing=found, parted=parted)


def more_known(
    program: Program, known: Known, found: Failing, shared: Iterable[Sequence[Moment]], versions: Integers
) -> Known | None:
    """What is known after a round in which slots told which SELECTs fail, and which rows are versions; None if no more.

    `shared` are rows of several slots that have one event_id.
    """
    seen = seen_to_fail(program, known, found)
    if seen is not None:
        return seen
    more = to_absorb(shared, versions, known.absorbed)
    return None if more is None else replace(known, absorbed=known.absorbed | {more}, parted=None)


def absorbing(came: Arrivals, positions: Collection[int]) -> Arrivals:
    """The rows, of which those at these positions are known."""
    if not positions:
        return came
    rows = {}
    for code, one in came.rows.items():
        known = np.isin(one.position, list(positions))
        rows[code] = replace(one, known=known if one.known is None else known | one.known)
    return replace(came, rows=rows)


def provisionally(came: Arrivals, after_seq: int = 0) -> tuple[Arrivals, Integers]:
    """The rows with numbers in the order in which they will have their own; and the position of each number's row."""
    position = _joined(rows.position for rows in came.rows.values())
    det_time = _joined(rows.part.det_time for rows in came.rows.values())
    order = np.lexsort((position, det_time))
    seq = np.empty(len(order), np.int64)
    seq[order] = np.arange(after_seq + 1, after_seq + 1 + len(order))
    rows, begin = {}, 0
    for code, one in came.rows.items():
        rows[code] = replace(one, seq=seq[begin : begin + len(one)])
        begin += len(one)
    return replace(came, rows=rows), position[order]


def accepted(ticks: Iterable[Ticked], position: Integers, after_seq: int = 0) -> Integers:
    """The positions of rows that became versions, of engines that read them with provisional numbers."""
    found = [versions.seq for ticked in ticks for versions in ticked.read]
    return np.sort(position[_joined(found) - (after_seq + 1)])


def det_times(came: Arrivals, position: Integers) -> Integers:
    """The det_time of rows by their positions, which are ascending."""
    at = _joined(rows.position for rows in came.rows.values())
    time = _joined(rows.part.det_time for rows in came.rows.values())
    order = np.argsort(at)
    return time[order][np.searchsorted(at[order], position)]


Numbers = Mapping[int, tuple[Integers, Integers]]
"""By slot the positions of versions, ascending, with the det_time of each, or its number."""


def numbers_of(versions: Numbers, after_seq: int) -> dict[int, tuple[Integers, Integers]]:
    """The numbers of versions over all slots, by det_time and position; given are their det_times."""
    position = _joined(positions for positions, _ in versions.values())
    det_time = _joined(times for _, times in versions.values())
    seq = np.empty(len(position), np.int64)
    seq[np.lexsort((position, det_time))] = np.arange(after_seq + 1, after_seq + 1 + len(position))
    found, begin = {}, 0
    for slot, (positions, _) in versions.items():
        found[slot] = (positions, seq[begin : begin + len(positions)])
        begin += len(positions)
    return found


def numbered(came: Arrivals, position: Integers, seq: Integers) -> Arrivals:
    """The rows with the numbers of those that are versions, given by position; a row that is none has the number 0."""
    rows = {}
    for code, one in came.rows.items():
        found = np.zeros(len(one), np.int64)
        if len(position):
            at = np.minimum(np.searchsorted(position, one.position), len(position) - 1)
            found = np.where(position[at] == one.position, seq[at], 0)
        rows[code] = replace(one, seq=found)
    return replace(came, rows=rows)


def _joined(arrays: Iterable[Integers]) -> Integers:
    return np.concatenate([np.zeros(0, np.int64), *arrays])
