"""SELECTs that fail for values of one slot: engines of slots do together what one engine does, which keeps all rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from augury.api import compile
from augury.engine.failing import Failing, Failures, first_difference, united
from augury.engine.ledger import failures, lines
from augury.engine.sharded import Known, more_known, seen_to_fail, slots_of
from augury.engine.ticked import Phase
from augury.history.buckets import buckets_of
from augury.kernels.reference.bitemporal import Raw
from tests.bitemporal.generate import SECOND, Generated
from tests.bitemporal.generate_failing import generate_failing
from tests.bitemporal.local import local
from tests.bitemporal.sharded import in_one, in_pieces, in_steps
from tests.bitemporal.test_reference import reference
from tests.bitemporal.test_shards import same
from tests.bitemporal.told import difference

CLASSES = """
SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, v INT) ID (k) LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Part (k INT, v INT) ID (k) LIFESPAN (1d)
  AS SELECT k, CAST(CASE WHEN v = 0 THEN 'bad' ELSE '1' END AS INT) * v AS v FROM A OCCURRING AT A.occTime
  ON ANNOUNCEMENT DO told(new.k), ON CANCELLATION OR REVOCATION DO gone(new.k);
"""
SUMS = """
SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (n INT, k INT, v INT) ID (n, k) LIFESPAN (30s);
CREATE COMPLEX EVENT CLASS Share (k INT, v INT) ID (k) LIFESPAN (1d)
  AS SELECT k, CAST(CASE WHEN SUM(v) = 0 THEN 'bad' ELSE '1' END AS INT) AS v FROM A GROUP BY k
  OCCURRING AT MAX(A.occTime);
"""
BAD = 0


def at(seconds: int) -> int:
    return 1_700_000_000 * SECOND + seconds * SECOND


def a(seconds: int, *values: int | None, is_there: bool = True, occurs: int | None = None) -> Raw:
    occ_time = at(seconds if occurs is None else occurs) if is_there else None
    return Raw("A", values, occ_time, at(seconds))


def generated(text: str, *raws: Raw, until: int = 200) -> Generated:
    return Generated(text, compile(text), {}, raws, at(until))


def compared(g: Generated) -> list[tuple[str, int, int]]:
    """What slots do, in three buckets, in which keys 1, 2 and 3 lie apart: change and key of events, by the second.

    It is what one engine does, and the reference.
    """
    assert same(g, 0) >= 3
    assert not difference(reference(g.program, g.raws, g.until), local(g.program, g.raws, g.until))
    told = [json.loads(line) for line in lines(g.program, in_one(g.program, g.raws, g.until))]
    events = [one for one in told if "change" in one]
    return [(one["change"], one["k"], _second(one["det_time"])) for one in events]


def _second(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp()) - 1_700_000_000


def test_keys_of_these_tests_lie_apart() -> None:
    assert len({*buckets_of([pa.array([1, 2, 3])], 3).tolist()}) == 3, "take other keys"


def test_rows_of_all_keys_wait_for_the_one_that_fails() -> None:
    """Also those of slots to which nothing comes at the tick at which it can be evaluated again."""
    gone = a(13, 1, None, is_there=False)
    found = compared(generated(CLASSES, a(1, 1, 5), a(11, 2, BAD), a(12, 3, 6), gone, a(61, 2, 3)))
    assert found == [("announce", 1, 10), ("withdraw", 1, 70), ("announce", 2, 70), ("announce", 3, 70)]


def test_what_waits_may_come_to_nothing() -> None:
    gone = a(31, 1, None, is_there=False)
    found = compared(generated(CLASSES, a(11, 2, BAD), a(12, 1, 6), gone, a(61, 2, 3)))
    assert found == [("announce", 2, 70)]


def test_one_slot_fails_after_the_other() -> None:
    rows = [a(1, 3, 4), a(11, 1, BAD), a(21, 2, BAD), a(22, 3, 5), a(41, 1, 1), a(71, 2, 2), a(72, 3, 6)]
    found = compared(generated(CLASSES, *rows))
    assert found == [("announce", 3, 10), ("announce", 1, 80), ("announce", 2, 80), ("change", 3, 80)]


def test_what_fails_after_a_purge_is_news_for_all() -> None:
    """What the purge at 30 did to the rows of 2 would be no news, were there not a sum of 1 that fails after it."""
    rows = [a(1, 1, 1, 5, occurs=-2), a(2, 1, 2, 2, occurs=-1), a(3, 2, 1, 0, occurs=90), a(4, 2, 2, 4, occurs=-1)]
    found = compared(generated(SUMS, *rows, a(61, 2, 3, 7, occurs=90)))
    assert found == [("announce", 1, 10), ("announce", 2, 10), ("withdraw", 1, 140), ("withdraw", 2, 140)]


def test_what_is_built_on_a_class_that_fails_misses_what_it_keeps() -> None:
    text = f"""{CLASSES}
    CREATE COMPLEX EVENT CLASS Next (k INT, v INT) ID (k) LIFESPAN (1d)
      AS SELECT k, CAST(CASE WHEN v = 6 THEN 'six' ELSE '1' END AS INT) AS v FROM Part OCCURRING AT Part.occTime;
    CREATE COMPLEX EVENT CLASS Both (k INT, v INT) ID (k) LIFESPAN (1d)
      AS MATCH prior(Part(k, _), Part(k, v));
    """
    # By itself `Next` would fail for 1 at 30; but `Part` fails for 2, and keeps that from it until 50.
    rows = [a(1, 1, 5), a(2, 3, 4), a(21, 1, 6), a(22, 2, BAD), a(31, 3, 8), a(41, 2, 3), a(61, 1, 5), a(71, 3, 5)]
    g = generated(text, *rows)
    found = compared(g)
    failed = failures(in_one(g.program, g.raws, g.until))
    assert [(tick // SECOND - 1_700_000_000, name) for tick, name, _ in failed] == [
        *((tick, "Part") for tick in (30, 40)),
        *((tick, "Next") for tick in (50, 60)),
    ]
    assert ("announce", 2, 50) in found


@pytest.mark.parametrize("block", range(2))
def test_random_programs(block: int) -> None:
    failed = 0
    for seed in range(block * 15, block * 15 + 15):
        g = generate_failing(seed)
        found = local(g.program, g.raws, g.until)
        assert not difference(reference(g.program, g.raws, g.until), found), seed
        failed += same(g, seed) > 1 and any(tick.failed for tick in found.ticks)
    assert failed >= 5


@pytest.mark.parametrize("cut", range(10, 100, 10))
def test_a_step_may_end_while_a_select_fails(cut: int) -> None:
    """A slot that waits for another goes on with the next step, and not before."""
    rows = [a(1, 3, 4), a(11, 1, BAD), a(21, 2, 5), a(22, 3, 5), a(61, 1, 1), a(71, 2, 2), a(72, 3, 6)]
    g = generated(CLASSES, *rows)
    one = in_one(g.program, g.raws, g.until)
    other = in_steps(g.program, g.raws, g.until, 3, at(cut))
    assert _unnumbered(lines(g.program, one)) == _unnumbered(lines(g.program, other))


def _unnumbered(told: Iterable[str]) -> list[str]:
    """Lines without the numbers of versions."""
    return [str({**json.loads(line), "seq": 0, "constituents": []}) for line in told]


def test_a_failure_is_reported_once_a_tick() -> None:
    g = generated(CLASSES, a(11, 2, BAD), a(12, 1, BAD), a(13, 3, 6), a(41, 2, 3), a(42, 1, 3))
    one = in_one(g.program, g.raws, g.until)
    _, other = in_pieces(g.program, g.raws, g.until, buckets=3)
    assert [(tick, name) for tick, name, _ in failures(one)] == [(tick, name) for tick, name, _ in failures(other)]
    assert len(failures(one)) == 3


# ---- what is told, and when there is no more of it ---------------------------------------------------------------

PROGRAM = compile(CLASSES)
DERIVED, PURGED = ("part", Phase.DERIVE), ("part", Phase.PURGE)


def noted(*ticks: int, phase: Phase = Phase.DERIVE) -> Failing:
    told = Failures(10, {})
    for tick in ticks:
        told.note("Part", phase, tick)
    return told.found()


def test_ticks_that_follow_each_other_are_a_stretch() -> None:
    assert noted(10, 20, 30, 50) == {DERIVED: ((10, 40), (50, 60))}
    assert united([noted(10, 50), noted(20, 30), noted(30, phase=Phase.PURGE)]) == {
        DERIVED: ((10, 40), (50, 60)),
        PURGED: ((30, 40),),
    }


def test_where_a_select_fails_the_end_is_known() -> None:
    given = Failures(10, noted(20, 30, 50))
    assert [given.until("PART", Phase.DERIVE, tick) for tick in range(10, 70, 10)] == [0, 40, 40, 0, 60, 0]
    assert given.until("Part", Phase.PURGE, 20) == given.until("Other", Phase.DERIVE, 20) == 0


def test_the_first_difference() -> None:
    rank = [name for layer in PROGRAM.strata for name in layer].index("Part")
    assert first_difference(PROGRAM, noted(10, 20), noted(10, 20)) is None
    assert first_difference(PROGRAM, noted(10, 20), noted(10, 20, 30)) == (30, 0, rank)
    assert first_difference(PROGRAM, noted(10, 20, 50), noted(10, 20, 40)) == (40, 0, rank)
    assert first_difference(PROGRAM, {}, noted(20, phase=Phase.PURGE)) == (20, 1, rank)
    both = {**noted(30), **noted(20, phase=Phase.PURGE)}
    assert first_difference(PROGRAM, both, noted(30)) == (20, 1, rank)


def test_where_nothing_fails_one_round_is_enough() -> None:
    assert more_known(PROGRAM, Known(), {}, [], np.zeros(0, np.int64)) is None


def test_rounds_go_on_until_what_fails_is_what_was_given() -> None:
    first = seen_to_fail(PROGRAM, Known(), noted(30))
    assert first == Known(failing=noted(30))
    second = seen_to_fail(PROGRAM, first, noted(30, 40))
    assert second is not None
    assert seen_to_fail(PROGRAM, second, noted(30, 40)) is None
    with pytest.raises(AssertionError, match="after one round"):
        seen_to_fail(PROGRAM, second, noted(30))


def test_a_row_that_is_absorbed_lets_all_begin_anew() -> None:
    known = replace(Known(failing=noted(30)), parted=(90, 0, 0))
    more = more_known(PROGRAM, known, noted(30), [[(5, 1), (6, 2)]], np.array([1, 2]))
    assert more == Known(frozenset({2}), noted(30))


def test_only_slots_of_one_shard_share_selects() -> None:
    text = CLASSES + "CREATE MUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID (k) LIFESPAN (1d);"
    assert [slots_of(compile(text), 2).shares_selects(slot) for slot in range(4)] == [True, True, False, False]
    assert not any(slots_of(compile(text), 1).shares_selects(slot) for slot in range(2))
