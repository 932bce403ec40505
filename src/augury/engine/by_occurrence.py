"""ORDER BY OCCURRENCE (LANGUAGE.md section 6): what a unit remembers for it, and what it says at each version.

In: versions in the order in which they were accepted, and how far the clock goes. Out: what is asserted and withdrawn
at each of them. The kernel runs over the corrected history, where the place of a version stands for its `seq` and its
occ_time for its det_time. Versions that come at the end go into the kernel together. At any other the kernel's state
saved before the place of the change is loaded, and the history is gone through from there; `engine.standing` has what
held before. docs/bitemporal.md has the readings.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from augury.engine.corrected import FIRST_PLACE, Where, placed
from augury.engine.occurrence_state import LONG_AGO, TOO_OLD, OccurrenceState, Saved, has_timers, tells_values
from augury.engine.plan import EnginePlan
from augury.engine.standing import Before, Said, Stands, identities, lists_sorted, rows_said, stands_of
from augury.engine.tables import nothing_of
from augury.engine.unit_kernels import Detecting, begun, by_occurrence, kernel_bytes, next_due, read_kernel, stepped
from augury.kernels.batch import NO_SEQ, Batch, Integers, Occurrences, joined
from augury.kernels.bitemporal import NEVER
from augury.kernels.order import least_first

_ROWS_AT_ONCE: Final = 2048
"""Rows between two states that are saved, where saving one is cheap."""
_BYTES_A_ROW: Final = 64
"""A state of so many bytes costs about as much to save as one more row costs to go through again."""
_SAVED_MAX: Final = 24


@dataclass(frozen=True, slots=True)
class Coming:
    """Rows of the classes of a history in the order in which they are accepted; a row each in all columns.

    `seq` is what the versions have that they belong to, `order` what they are ordered by at their time; rows of one
    version and what it completed have the same number `of`. `keys` are None for events that never change.
    """

    batch: Batch
    code: Integers
    row: Integers
    seq: Integers
    order: Integers
    occ_time: Integers
    det_time: Integers
    gone: npt.NDArray[np.bool_]
    of: Integers
    keys: list[Any]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.code)


def go(plan: EnginePlan, unit: Detecting, state: OccurrenceState, coming: Coming, upto: int) -> dict[int, Said]:
    """Take versions, let the clock go on up to a time, and say what changed, by place of the class."""
    going = _Going(plan, unit, state)
    going.take(coming)
    going.tick(upto)
    return going.all_said()


@dataclass(slots=True)
class _Going:
    """A unit at work on the versions of a step; `said` is what it has said so far."""

    plan: EnginePlan
    unit: Detecting
    state: OccurrenceState
    said: dict[int, list[Said]] = field(default_factory=dict)
    timed: bool = field(init=False)
    errors: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look whether the clock matters."""
        self.timed = has_timers(self.unit)

    # ---- in order of acceptance ------------------------------------------------------------------

    def take(self, coming: Coming) -> None:
        if not len(coming):
            return
        starts = np.flatnonzero(np.diff(coming.of, prepend=coming.of[0] - 1))
        ends = np.append(starts[1:], len(coming))
        plain = self._plain(coming)
        follows = np.ones(len(coming), np.bool_)
        follows[1:] = _follow(coming)
        stops = np.flatnonzero(~(plain & follows))
        group = 0
        while group < len(starts):
            begin = int(starts[group])
            end = self._run_end(coming, plain, stops, begin)
            last = int(np.searchsorted(ends, end, side="right"))
            if last > group:
                for first in range(begin, int(ends[last - 1]), _ROWS_AT_ONCE):
                    self._append(coming, first, min(first + _ROWS_AT_ONCE, int(ends[last - 1])))
                group = last
            else:
                self._correct(coming, begin, int(ends[group]))
                group += 1

    def _plain(self, coming: Coming) -> npt.NDArray[np.bool_]:
        """Which rows put a new event into the history, and may be taken together with others if they are in order."""
        plain = ~coming.gone & ~self._expired(coming)
        if self.timed:
            plain &= coming.occ_time == coming.det_time
        met: set[Hashable] = set()
        known = self.state.history.at
        for row, key in enumerate(coming.keys):
            if key is not None:
                at = (int(coming.code[row]), key)
                if at in known or at in met:
                    plain[row] = False
                met.add(at)
        return plain

    def _expired(self, coming: Coming) -> npt.NDArray[np.bool_]:
        """Which rows are of events that are past their lifespan when they come."""
        lifespans = [one.lifespan_us for one in self.state.history.classes]
        ends = np.array([NEVER // 2 if one is None else one for one in lifespans])[coming.code]
        expired: npt.NDArray[np.bool_] = coming.occ_time + ends < coming.det_time
        return expired

    def _run_end(self, coming: Coming, plain: npt.NDArray[np.bool_], stops: Integers, begin: int) -> int:
        """Up to where rows come in order at the end of the history, from a row on."""
        state, occ = self.state, int(coming.occ_time[begin])
        last = state.history.last()
        allowing = by_occurrence(self.unit)
        if not plain[begin] or occ < state.ahead or (allowing is not None and occ < state.greatest):
            return begin
        if (
            last is not None
            and (occ, int(coming.order[begin]), state.history.next_rank(int(coming.code[begin]))) <= last
        ):
            return begin
        at = int(np.searchsorted(stops, begin, side="right"))
        return int(stops[at]) if at < len(stops) else len(coming)

    # ---- at the end of the history ---------------------------------------------------------------

    def _append(self, coming: Coming, begin: int, end: int) -> None:
        """Take rows that come in order at the end of the history, all at once."""
        state, some = self.state, slice(begin, end)
        first = self._put(coming, begin, end)
        code, row, occ = coming.code[some], coming.row[some], coming.occ_time[some]
        times = (occ, coming.det_time[some]) if state.history.asks_detected else (occ,)
        batch = placed(state.history.classes, code, row, times, first, coming.batch.tables, coming.batch.constituents)
        state.clock = max(state.clock, int(coming.det_time[end - 1]))
        state.greatest = max(state.greatest, int(occ[-1]))
        for place, found in self._stepped(batch, int(occ[-1])).items():
            self._count(place, found)
            self._say_each(place, found, first, coming, begin)
        self._save(state.history.end)

    def _count(self, place: int, found: Occurrences) -> None:
        if found.errors:
            self.errors[place] = self.errors.get(place, 0) + found.errors

    def _put(self, coming: Coming, begin: int, end: int) -> int:
        """Put rows at the end of the history; gives the place of the first."""
        history = self.state.history
        code, occ, order = (column[begin:end] for column in (coming.code, coming.occ_time, coming.order))
        numbers, rank = np.zeros(end - begin, np.int64), np.zeros(end - begin, np.int64)
        for one in np.unique(code).tolist():
            of = np.flatnonzero(code == one)
            numbers[of] = self._shelved(coming, one, coming.row[begin:end][of])
            if history.shelves[one].is_complex:
                rank[of] = [history.rank(one) for _ in range(len(of))]
        first = history.append(occ, order, rank, code, numbers, coming.det_time[begin:end])
        keys = coming.keys[begin:end]
        if any(key is not None for key in keys):
            wheres = zip(occ.tolist(), order.tolist(), rank.tolist(), strict=True)
            rows = zip(code.tolist(), keys, wheres, strict=True)
            history.at.update(((of, key), where) for of, key, where in rows if key is not None)
        return first

    def _shelved(self, coming: Coming, code: int, rows: Integers) -> Integers:
        batch = coming.batch
        first = self.state.history.shelves[code].add(batch.tables[code], batch.constituents[code], rows)
        return np.arange(first, first + len(rows))

    def _say_each(self, place: int, found: Occurrences, first: int, coming: Coming, begin: int) -> None:
        """Say occurrences that rows bring about one after the other, the last of each event at each version."""
        if not len(found):
            return
        row = np.where(found.seq == NO_SEQ, 0, np.abs(found.seq) - FIRST_PLACE - first + begin)
        timed = found.seq == NO_SEQ
        seq = np.where(timed, NO_SEQ, coming.seq[row])
        det_time = np.where(timed, found.det_time, coming.det_time[row])
        new = self._stands(place, found)
        standing, last = self.state.standing, dict[Hashable, tuple[int, Stands | None]]()
        for number, (one, *at) in enumerate(zip(new, seq.tolist(), det_time.tolist(), strict=True)):
            name = (*at, one.identity)
            last[name] = number, last[name][1] if name in last else standing.current(one.identity)
            standing.add(one)
        said = [number for number, old in last.values() if old is None or old.told != new[number].told]
        rows = np.array(sorted(said), np.int64)
        if len(rows):
            told = replace(found, seq=seq, det_time=det_time)
            order = np.array([new[row].order for row in rows.tolist()], np.int64)
            self._tell(place, Said(told if len(rows) == len(told) else told.at(rows), order))

    # ---- anywhere else ---------------------------------------------------------------------------

    def _correct(self, coming: Coming, begin: int, end: int) -> None:
        """Take a version, and what it completed, wherever its rows belong."""
        seq, det_time = int(coming.seq[end - 1]), int(coming.det_time[begin])
        self.tick(det_time)
        first, before = self.state.history.end, Before()
        greatest = self.state.greatest
        changed = [place for row in range(begin, end) for place in self._changed(coming, row, greatest)]
        if not changed:
            return
        place, state = min(changed), self.state
        last = state.history.last_occ
        at = place - state.history.base
        appended = place >= first and int(state.history.occ_time[at]) >= state.ahead
        if not appended:
            place = self._restore(place, before)
        self._again(place, before, counts=appended)
        self._fire(max(state.clock, LONG_AGO if last is None else last), before)
        self._say(before, seq, det_time)

    def _changed(self, coming: Coming, row: int, greatest: int) -> Iterator[int]:
        """Change the history as a row says; the places at which that was. `greatest` is the newest occ_time before."""
        history, code, key = self.state.history, int(coming.code[row]), coming.keys[row]
        name = (code, key)
        old = None if key is None else history.at.get(name)
        occ = None if coming.gone[row] else int(coming.occ_time[row])
        if self._is_too_old(coming, row, occ, old, greatest):
            if occ is None:
                # It stays as it was, and a later version with its key is another event.
                history.at.pop(name, None)
            return
        if old is not None:
            del history.at[name]
            if old[2] != TOO_OLD:
                yield history.remove(old)
        if occ is not None:
            where = (occ, int(coming.order[row]), history.rank(code))
            number = int(self._shelved(coming, code, coming.row[row : row + 1])[0])
            yield history.insert(where, code, number, int(coming.det_time[row]))
            if key is not None:
                history.at[name] = where
            self.state.greatest = max(self.state.greatest, occ)

    def _is_too_old(self, coming: Coming, row: int, occ: int | None, old: Where | None, greatest: int) -> bool:
        """Whether a version, or the one whose place it takes, is older than what is allowed for, or expired."""
        lifespan = self.state.history.classes[int(coming.code[row])].lifespan_us
        if occ is not None and lifespan is not None and occ + lifespan < int(coming.det_time[row]):
            return True
        order = by_occurrence(self.unit)
        assert order is not None
        if order.allowing_us is None:
            return False
        times = [*([] if occ is None else [occ]), *([] if old is None else [old[0]])]
        return bool(times) and min(times) < greatest - order.allowing_us

    def _restore(self, place: int, before: Before) -> int:
        """Go back to the last state that was saved before a place; gives where that is."""
        state = self.state
        while state.saved[-1].end > place:
            state.saved.pop()
        saved = state.saved[-1]
        state.standing.fall(saved.found, before)
        state.kernel = (
            begun(self.plan, self.unit) if saved.content is None else read_kernel(self.plan, self.unit, saved.content)
        )
        state.ahead = LONG_AGO
        return saved.end

    def _again(self, begin: int, before: Before, *, counts: bool) -> None:
        """Go through the history from a place to its end."""
        history = self.state.history
        while begin < history.end:
            end = min(begin + _ROWS_AT_ONCE, history.end)
            batch = history.batch(begin, end)
            for place, found in self._stepped(batch, int(batch.occ_time[-1])).items():
                if counts:
                    self._count(place, found)
                self.state.standing.push(self._stands(place, found), before)
            begin = end
            self._save(end)

    # ---- the clock -------------------------------------------------------------------------------

    def tick(self, until: int) -> None:
        """Let the clock go on up to a time, and say what timers bring, each at its time."""
        state = self.state
        while self.timed and (due := next_due(state.kernel)) <= until:
            before = Before()
            self._fire(due, before)
            self._say(before, NO_SEQ, due)
        state.clock = max(state.clock, until)

    def _fire(self, until: int, before: Before) -> None:
        """Let timers fire that are due by a time."""
        state = self.state
        if not self.timed or next_due(state.kernel) > until:
            return
        self._save(state.history.end, whatever=True)
        for place, found in self._stepped(state.history.batch(state.history.end, state.history.end), until).items():
            state.standing.push(self._stands(place, found), before)

    # ---- kernels ---------------------------------------------------------------------------------

    def _stepped(self, batch: Batch, until: int) -> dict[int, Occurrences]:
        """Let the kernel read rows and go on up to a time; what it finds is made of versions by their `seq`."""
        state = self.state
        state.kernel, found = stepped(self.plan, self.unit, state.kernel, batch, until)
        state.ahead = max(state.ahead, until)
        return {place: self._by_seq(one) for place, one in found.items()}

    def _by_seq(self, found: Occurrences) -> Occurrences:
        """Occurrences made of versions by their `seq`; those at one place by when what they are made of happened."""
        if not len(found):
            return found
        numbers = found.constituents.flatten().to_numpy(zero_copy_only=False).copy()
        here = numbers >= FIRST_PLACE
        numbers[here] = self.state.history.seqs(numbers[here])
        found = replace(found, constituents=lists_sorted(found.constituents, numbers))
        same = (np.diff(found.seq) == 0) & (np.diff(found.det_time) == 0)
        if not self.unit.reads or not same.any():
            return found  # kernels order them by place, so by when they happened
        happened = self.state.happened
        lists = [sorted((happened[seq], seq) for seq in own) for own in found.constituents.to_pylist()]
        columns = [column.to_pylist() for column in found.values.columns]
        place = np.concatenate([[0], np.cumsum(~same)]).tolist()
        rows = sorted(
            range(len(found)), key=lambda row: (place[row], lists[row], [least_first(of[row]) for of in columns])
        )
        return found.at(np.array(rows, np.int64))

    def _stands(self, place: int, found: Occurrences) -> list[Stands]:
        names = identities(found.event_class, tells_values(self.unit.detector.plan), found)
        order = np.where(found.seq == NO_SEQ, 0, self.state.history.seqs(np.maximum(np.abs(found.seq), self._first())))
        return stands_of(place, names, found, order)

    def _first(self) -> int:
        """A place that is there, for what has none."""
        return FIRST_PLACE + self.state.history.base

    def _save(self, end: int, *, whatever: bool = False) -> None:
        """Save the kernel's state after so many versions, if the last one lies too far back; none that is ahead."""
        state, history = self.state, self.state.history
        before = state.saved[-1]
        enough = max(_ROWS_AT_ONCE, len(before.content or b"") // _BYTES_A_ROW)
        if end <= before.end or (end - before.end < enough and not whatever):
            return
        if state.ahead > int(history.occ_time[end - 1 - history.base]):
            return
        content = kernel_bytes(self.plan, self.unit, state.kernel)
        state.saved.append(Saved(end, state.standing.count, content))
        if len(state.saved) > _SAVED_MAX:
            state.saved = _thinned(state.saved, end)

    # ---- telling ---------------------------------------------------------------------------------

    def _say(self, before: Before, seq: int, det_time: int) -> None:
        for place, rows in rows_said(self.state.standing.differences(before), seq, det_time).items():
            self._tell(place, rows)

    def _tell(self, place: int, said: Said) -> None:
        self.said.setdefault(place, []).append(Said(replace(said.rows, errors=0), said.order))

    def all_said(self) -> dict[int, Said]:
        """What was said, and how often a test was in error over versions that were read for the first time."""
        found = {
            place: Said(joined([one.rows for one in parts]), np.concatenate([one.order for one in parts]))
            for place, parts in self.said.items()
        }
        for place, errors in self.errors.items():
            none = Said(nothing_of(self.plan.classes[place].event_class), np.zeros(0, np.int64))
            said = found.get(place, none)
            found[place] = Said(replace(said.rows, errors=errors), said.order)
        return found


def _follow(coming: Coming) -> npt.NDArray[np.bool_]:
    """Of each row but the first whether it comes after the one before it in the order of the history."""
    later = np.zeros(len(coming) - 1, np.bool_)
    same = np.ones(len(coming) - 1, np.bool_)
    for column in (coming.occ_time, coming.order, coming.code):
        steps = np.diff(column)
        later |= same & (steps > 0)
        same &= steps == 0
    return later | same


def _thinned(saved: Sequence[Saved], end: int) -> list[Saved]:
    """Fewer states, the farther they lie back."""
    kept: dict[int, Saved] = {}
    for one in saved:
        kept[(end - one.end).bit_length() if one.end > saved[0].end else -1] = one
    return sorted(kept.values(), key=lambda one: one.end)
