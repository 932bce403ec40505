"""Corrections: of rows made by hand against the definition, and of a MATCH whose history is corrected.

Applying a correction equals detecting afresh, whatever version came late, went or changed, from any saved state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from augury.algebra.expression import (
    Anything,
    Apply,
    Choice,
    MatchOperator,
    MatchPlan,
    Primitive,
    Some,
    Variable,
)
from augury.event import Attribute, ClassKind, EventClass
from augury.history.merge import merge
from augury.kernels.batch import ASSERT, NO_SEQ, Occurrences, joined
from augury.kernels.match import detector_of, initial_state, step
from augury.kernels.match.saved import loaded, saved
from augury.kernels.reference import Event
from augury.kernels.revision import applied, corrections, current
from augury.types import DOUBLE, INT
from tests.match.columns import CLASSES, batch, found_class
from tests.match.corrected import Account, Careless, Cut, Row, check_corrections, identity_of, said_of, stretched
from tests.match.generate import SECOND, Wanted, history, plan
from tests.match.test_kernel import UNSUPPORTED, random_case

# ---- rows made by hand ---------------------------------------------------------------------------

KEYED = EventClass("T", ClassKind.COMPLEX, False, (Attribute("k", INT), Attribute("d", DOUBLE)), ("k",), None)
UNKEYED = replace(KEYED, key=())


def rows(*of: tuple[int, Sequence[int], int | None, float | None], event_class: EventClass = KEYED) -> Occurrences:
    """Occurrences as first said, a second after their `seq`: `seq`, constituents, and the attributes k and d."""
    seq = np.array([row[0] for row in of], np.int64)
    values = pa.table({"k": pa.array([row[2] for row in of], pa.int32()), "d": pa.array([row[3] for row in of], "f8")})
    lists = pa.array([list(row[1]) for row in of], pa.list_(pa.int64()))
    return Occurrences.first(event_class, seq, seq * SECOND, seq * SECOND, values, lists)


def signs(found: Occurrences) -> list[tuple[Any, ...]]:
    """The sign, `seq`, constituents, values and revision of each row."""
    return [(kind, row[0], row[4], *row[3], revision) for row, kind, revision in said_of(found)]


def test_what_is_gone_is_withdrawn_and_what_is_new_is_said_first() -> None:
    said = rows((3, [1, 3], 1, 0.5), (5, [2, 5], 1, 0.5), (7, [1, 7], 2, 0.5))
    found = rows((5, [3, 5], 1, 0.5), (6, [6], 9, None), (7, [1, 7], 2, 0.5))
    corrected = corrections(said, found)
    assert signs(corrected) == [
        ("-", 3, (1, 3), 1, 0.5, 1),
        ("-", 5, (2, 5), 1, 0.5, 1),
        ("+", 5, (3, 5), 1, 0.5, 0),
        ("+", 6, (6,), 9, None, 0),
    ]
    assert signs(applied(said, corrected)) == [("+", *row[1:]) for row in signs(found)]


def test_what_differs_is_said_again_and_not_withdrawn() -> None:
    said, found = rows((3, [1, 3], 1, 0.5)), rows((3, [1, 3], 1, 2.5))
    assert signs(corrections(said, found)) == [("+", 3, (1, 3), 1, 2.5, 1)]
    later = replace(said, occ_time=said.occ_time + 1)
    assert signs(corrections(said, later)) == [("+", 3, (1, 3), 1, 0.5, 1)]
    assert applied(said, corrections(said, later)).occ_time.tolist() == [3 * SECOND + 1]


def test_another_key_is_another_occurrence() -> None:
    corrected = corrections(rows((3, [1, 3], 1, 0.5)), rows((3, [1, 3], 2, 0.5)))
    assert signs(corrected) == [("-", 3, (1, 3), 1, 0.5, 1), ("+", 3, (1, 3), 2, 0.5, 0)]
    unkeyed = rows((3, [1, 3], 1, 0.5), event_class=UNKEYED), rows((3, [1, 3], 2, 0.5), event_class=UNKEYED)
    assert signs(corrections(*unkeyed)) == [("+", 3, (1, 3), 2, 0.5, 1)]


def test_revisions_count_on_through_withdrawals() -> None:
    log, nothing = rows((3, [1, 3], 1, 0.5)), rows()
    for revision, found in enumerate((nothing, rows((3, [1, 3], 1, 0.5)), rows((3, [1, 3], 1, 7.0)), nothing), 1):
        corrected = corrections(log, found)
        assert corrected.revision.tolist() == [revision]
        log = joined([log, corrected])
        assert signs(current(log)) == ([("+", 3, (1, 3), 1, found.values["d"][0].as_py(), revision)] if found else [])
        assert not len(corrections(log, found))


def test_null_and_nan_are_values_that_do_not_change() -> None:
    said = rows((1, [1], None, None), (2, [2], 1, float("nan")))
    assert not len(corrections(said, said))
    assert [row[:4] for row in signs(corrections(said, rows((2, [2], 1, None))))] == [
        ("-", 1, (1,), None),
        ("+", 2, (2,), 1),
    ]


def test_several_of_one_identity_are_corrected_together() -> None:
    said = rows((3, [3], 1, 0.5), (3, [3], 1, 1.5), (4, [4], 1, 0.5))
    found = rows((3, [3], 1, 0.5), (3, [3], 1, 2.5), (4, [4], 1, 0.5))
    corrected = corrections(said, found)
    assert signs(corrected) == [
        ("-", 3, (3,), 1, 1.5, 1),
        ("+", 3, (3,), 1, 0.5, 1),
        ("+", 3, (3,), 1, 2.5, 1),
    ]
    assert [row[1:5] for row in signs(applied(said, corrected))] == [row[1:5] for row in signs(found)]
    assert not len(corrections(joined([said, corrected]), found))


def test_two_that_are_alike_in_everything_are_two() -> None:
    one, two, three = (rows(*[(3, [3], 1, 0.5)] * count) for count in (1, 2, 3))
    assert not len(corrections(two, two))
    assert [row[0] for row in signs(corrections(two, one))] == ["-", "+"]
    assert [row[0] for row in signs(corrections(three, one))] == ["-", "-", "+"]
    for said, found in ((two, one), (one, two), (three, two), (two, three)):
        assert len(applied(said, corrections(said, found))) == len(found)


def test_timers_are_told_apart_by_the_time_at_which_they_are_due() -> None:
    def due(*seconds: int) -> Occurrences:
        times = np.array(seconds, np.int64) * SECOND
        return replace(rows(*[(NO_SEQ, [1], 1, 0.5)] * len(seconds)), occ_time=times, det_time=times)

    corrected = corrections(due(2, 4, 6), due(2, 4, 8))
    assert [(row[0], row[-1]) for row in signs(corrected)] == [("-", 1), ("+", 0)]
    assert corrected.det_time.tolist() == [6 * SECOND, 8 * SECOND]


def test_counts_are_those_of_the_detection_that_corrects() -> None:
    said, found = replace(rows((1, [1], 1, 0.5)), errors=3, dropped=1), replace(rows(), errors=2, dropped=5)
    corrected = corrections(said, found)
    assert (corrected.errors, corrected.dropped) == (2, 5)
    log = joined([said, corrected])
    assert (log.errors, log.dropped) == (5, 6)


def test_a_later_class_reads_what_stands() -> None:
    versions = batch([Event(i, "A", {}, i, i) for i in range(1, 6)])
    said = rows((3, [1, 3], 1, 0.5), (4, [4], 1, 0.5))
    corrected = corrections(said, rows((4, [4], 1, 2.5)))
    merged = merge(versions, [applied(said, corrected)])
    assert merged.seq.tolist() == [1, 2, 3, 4, 4, 5]
    assert merged.tables[-1]["d"].to_pylist() == [2.5]
    assert merge(versions, [corrected]).kind.sum() == 1, "a withdrawal stays one, and kernels leave it out"


def by_definition(log: list[tuple[Row, str, int]], found: list[Row], of: EventClass) -> Counter[tuple[Row, str, int]]:
    """The corrections, identity by identity."""
    wanted: Counter[tuple[Row, str, int]] = Counter()
    everything = [(row, identity_of(row, of)) for row in [*(row for row, _, _ in log), *found]]
    for identity in {identity for _, identity in everything}:
        own = [one for one in log if identity_of(one[0], of) == identity]
        last = max((revision for _, _, revision in own), default=-1)
        stood = Counter(row for row, kind, revision in own if revision == last and kind == "+")
        now = Counter(row for row in found if identity_of(row, of) == identity)
        if stood == now:
            continue
        wanted.update((row, "+", last + 1) for row in now.elements())
        if not stood.total() == now.total() == 1:
            wanted.update((row, "-", last + 1) for row in (stood - now).elements())
    return wanted


def some_rows(random: Random, event_class: EventClass) -> Occurrences:
    """Few values, so that many rows are alike."""
    picked = [
        (seq, random.choice(([seq], [1, seq])), random.choice((1, 2, None)), random.choice((0.5, None)))
        for seq in sorted(random.choices(range(1, 5), k=random.randrange(9)))
    ]
    return rows(*picked, event_class=event_class)


@pytest.mark.parametrize("event_class", [KEYED, UNKEYED], ids=["keyed", "unkeyed"])
def test_random_rows_are_corrected_as_the_definition_says(event_class: EventClass) -> None:
    for seed in range(150):
        random = Random(seed)
        log = current(some_rows(random, event_class))
        for _ in range(4):
            found = some_rows(random, event_class)
            corrected = corrections(log, found)
            plain = [row for row, _, _ in said_of(found)]
            assert Counter(said_of(corrected)) == by_definition(said_of(log), plain, event_class), seed
            log = joined([log, corrected])
            assert Counter(row for row, _, _ in said_of(current(log))) == Counter(plain), seed


# ---- a history that is corrected -----------------------------------------------------------------


def account_of(seed: int, kind: type[Account] = Account) -> tuple[Account, bytes]:
    """A MATCH with random clauses, detected over a random history."""
    match, _, _ = random_case(seed, Wanted(depth=3, attributes=seed % 4 > 0))
    return account_for(seed, match, history(Random(seed), 3 + seed % 13), kind)


def account_for(
    seed: int, match: MatchPlan, events: Sequence[Event], kind: type[Account] = Account
) -> tuple[Account, bytes]:
    """A MATCH, detected over a history; its first attribute is the key for every second seed."""
    lifespan_us = None if seed % 3 else 4 * SECOND
    classes = tuple(replace(c, lifespan_us=lifespan_us) for c in CLASSES)
    detector = detector_of(match)
    into = found_class(match)
    into = replace(into, key=tuple(a.name for a in into.attributes[: seed % 2]))
    begin = saved(initial_state(detector, classes), detector, classes)

    def go(state: bytes, part: Sequence[Event], until_us: int) -> tuple[bytes, Occurrences]:
        before = loaded(state, detector, classes)
        after, found = step(detector, before, batch(part, classes), into, SECOND, until_us=until_us)
        return saved(after, detector, classes), found

    until_us = events[-1].det_time + SECOND
    return kind(go, Random(seed), stretched(events), until_us, [Cut(0, 0, -1, begin)]), begin


X = Variable("X", INT)
K_OF_X = Apply(MatchOperator.OR, (Primitive("K", (X, Anything())), Primitive("K", (Anything(), X))))
EITHER = plan(Some((X,), Apply(MatchOperator.PRIOR, (K_OF_X, Primitive("K")))), Choice.ALL)
"""An earlier K gives X its k and its v: two events with the same constituents."""


@pytest.mark.parametrize("start", range(0, 600, 150))
def test_applying_a_correction_equals_detecting_afresh(start: int) -> None:
    compared, corrected, changed = 0, 0, 0
    for seed in range(start, start + 150):
        try:
            account, begin = account_of(seed)
            if not len(account.said):
                continue
            rows, differ = check_corrections(account, begin, Random(seed))
        except UNSUPPORTED:
            continue
        compared += 1
        corrected += rows > 0
        changed += differ > 0
    assert compared > 50
    assert corrected > compared // 2, "most corrections change something"
    assert changed > 5, "some change what is said of an occurrence that stands"


def test_a_state_from_after_the_change_does_not_do() -> None:
    """The law can fail: what the state already knows of the old history is not corrected."""
    missed = 0
    for seed in range(40):
        try:
            account, begin = account_of(seed, Careless)
            check_corrections(account, begin, Random(seed))
        except UNSUPPORTED:
            continue
        except AssertionError:
            missed += 1
    assert missed > 5


def test_several_with_one_identity_are_corrected_from_a_state_too() -> None:
    several = 0
    for seed in range(30):
        random = Random(seed)
        values = [{"k": random.choice((1, 2)), "v": random.choice((1, 2, None))} for _ in range(6)]
        events = [Event(i, "K", of, i * SECOND, i * SECOND) for i, of in enumerate(values, 1)]
        account, begin = account_for(2 * seed, EITHER, events)
        identities = Counter(identity_of(row, account.said.event_class) for row, _, _ in said_of(account.said))
        several += max(identities.values()) > 1
        check_corrections(account, begin, random)
    assert several > 25


def test_kernels_say_everything_for_the_first_time() -> None:
    account, _ = next(found for seed in range(50) if len((found := account_of(seed))[0].said) > 3)
    assert account.said.kind.dtype == np.uint8
    assert account.said.revision.dtype == np.int64
    assert set(account.said.kind.tolist()) == {ASSERT}
    assert not account.said.revision.any()
