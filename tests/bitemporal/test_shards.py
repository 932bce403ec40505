"""What of a program can run apart, and that engines which see some of the events each do together what one does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from augury.api import compile
from augury.engine.ledger import Ledger, lines, renumbered
from augury.engine.plan import engine_plan
from augury.engine.sharded import slots_of
from augury.engine.shards import Shard, shards_of
from augury.history.buckets import buckets_of
from tests.bitemporal.generate import Generated, generate, generate_mixed
from tests.bitemporal.sharded import in_one, in_pieces

CLASSES = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Login (card INT, atm INT) ID () LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Draw (card INT, atm INT, amount INT) ID () LIFESPAN (1d);
"""


def shards(text: str) -> tuple[Shard, ...]:
    return shards_of(engine_plan(compile(CLASSES + text)))


def test_classes_that_nothing_joins_run_apart() -> None:
    assert [shard.places for shard in shards("")] == [(0,), (1,)]


@pytest.mark.parametrize(
    ("derivation", "by"),
    [
        ("MATCH prior(Login(card, _), Draw(card, _, _))", ("card",)),
        ("MATCH prior(Login, Draw) PARTITION BY card RETURN Login.card AS card", ("card",)),
        ("MATCH Login(card, _)", ("card",)),
        ("COMPOSITE Login(card, _) > Draw(card, _, _)", ("card",)),
        ("COMPOSITE Login > Draw PARTITION BY card RETURN Draw.card AS card", ("card",)),
        ("SELECT l.card FROM Login l JOIN Draw d ON l.card = d.card OCCURRING AT MAX(l.occTime)", ("card",)),
    ],
)
def test_what_falls_apart_by_a_value_does_so_with_the_class_it_makes(derivation: str, by: tuple[str, ...]) -> None:
    derivation = derivation.replace("OCCURRING AT MAX(l.occTime)", "OCCURRING AT l.occTime")
    found = shards(f"CREATE COMPLEX EVENT CLASS Found (card INT) ID (card) LIFESPAN (1d) AS {derivation};")
    joined = next(shard for shard in found if 2 in shard.places)
    assert all(columns == by for _, columns in joined.by)
    assert joined.by


@pytest.mark.parametrize(
    ("derivation", "reason"),
    [
        ("MATCH prior(Login, Draw)", "no variable joins its events, and there is no PARTITION BY"),
        ("MATCH sequence(Login(card, _), Draw(card, _, _))", "it counts the events between those it is made of"),
        ("MATCH prior(Login(c, _), Draw(c, _, _)) RETURN Draw.amount AS card", "does not carry on"),
        ("SELECT 1 AS card FROM Login OCCURRING AT Login.occTime", ""),
    ],
)
def test_what_does_not_fall_apart_says_why(derivation: str, reason: str) -> None:
    *_, last = shards(f"CREATE COMPLEX EVENT CLASS Found (card INT) ID (card) LIFESPAN (1d) AS {derivation};")
    assert not last.by
    assert 2 in last.places
    assert last.reason
    assert reason in last.reason


def test_a_key_that_is_torn_keeps_a_class_in_one_piece() -> None:
    text = """CREATE MUTABLE SUBSCRIBED EVENT CLASS Stock (shop INT, item INT) ID (item) LIFESPAN (1d);
    CREATE COMPLEX EVENT CLASS Twice (shop INT) ID (shop) LIFESPAN (1d) AS MATCH prior(Stock(shop, _), Stock(shop, _));
    """
    *_, last = shards(text)
    assert not last.by
    assert "is not in the key of `Stock`" in last.reason


def test_a_clock_class_keeps_all_together() -> None:
    (only,) = shards("CREATE CLOCK EVENT CLASS Tick EVERY 5m;")
    assert only.places == (0, 1, 2)
    assert not only.by


OTHER = "CREATE MUTABLE SUBSCRIBED EVENT CLASS Other (k INT) ID (k) LIFESPAN (1d);"


def test_what_triggers_have_to_do_with_stays_together_and_the_rest_falls_apart() -> None:
    text = f"""{OTHER} RULE Tell (c INT) ACTION tell(c);
    TRIGGER Drawn (c INT, atm INT, amount INT) TRIGGEREVENT Draw RULESTRUC Tell(c);
    TRIGGER Both () TRIGGEREVENT Draw COMPOSITEEVENT Login > Draw RULESTRUC Tell(Login.card);"""
    apart, together = shards(text)
    assert apart.places == (2,)
    assert apart.by
    assert together.places == (0, 1)
    assert together.reason == "trigger `Drawn` sees the versions of its classes in one order"
    program = compile(CLASSES + text)
    slots = slots_of(program, 2)
    assert [len(slots.program_of(slot).triggers) for slot in range(3)] == [0, 0, 2]
    assert slots.program_of(2).rules == program.rules
    changed = slots_of(compile(CLASSES + text.replace("tell(c)", "told(c)")), 2)
    assert [slots.name_of(slot) == changed.name_of(slot) for slot in range(3)] == [True, True, False]


def test_where_a_rule_posts_all_is_one_piece() -> None:
    text = f"""{OTHER} RULE Note (c INT) ACTION POST Login(c, 0);
    TRIGGER Drawn (c INT, atm INT, amount INT) TRIGGEREVENT Draw RULESTRUC Note(c);"""
    (only,) = shards(text)
    assert only.places == (0, 1, 2)
    assert only.reason == "trigger `Drawn` posts events, which are numbered among those of all classes"


def test_equal_values_have_one_bucket_whatever_their_type() -> None:
    small, large = pa.array([1, 2, None, -7], pa.int32()), pa.array([1, 2, None, -7], pa.int64())
    assert buckets_of([small], 64).tolist() == buckets_of([large], 64).tolist()
    texts = pa.array(["x", "", None, "ü"])
    assert buckets_of([texts], 64).tolist() == buckets_of([pa.concat_arrays([texts[1:], texts])[3:]], 64).tolist()
    assert len({*buckets_of([pa.array([0.0, -0.0])], 1 << 30).tolist()}) == 1


def test_buckets_stay_what_they_are() -> None:
    """A store is laid out by them."""
    assert buckets_of([pa.array([1, 2, 3])], 1000).tolist() == [957, 752, 946]
    assert buckets_of([pa.array(["a", "b", ""])], 1000).tolist() == [300, 198, 366]


def same(g: Generated, seed: int) -> int:
    """Compare, and give the number of slots."""
    one = in_one(g.program, g.raws, g.until)
    slots, other = in_pieces(g.program, g.raws, g.until, buckets=3)
    assert list(lines(g.program, one)) == list(lines(g.program, other)), seed
    for plan in g.program.classes:
        name = plan.event_class.name
        assert (name in one.versions) == (name in other.versions), seed
        if name in one.versions:
            mine, theirs = (renumbered(plan.event_class, ledger.versions[name]) for ledger in (one, other))
            assert mine.equals(theirs), (seed, name)
    assert refused(one) == refused(other), seed
    assert left(one) == left(other), seed
    return len(slots)


def refused(ledger: Ledger) -> list[tuple[str, ...]]:
    rows = ledger.rejected.to_pylist()
    # What is refused by itself is no engine's.
    return sorted((row["place"], row["reason"]) for row in rows if "neither" not in row["reason"])


def left(ledger: Ledger) -> list[str]:
    tables = ledger.archive.items()
    return sorted(str((name, {**row, "number": 0, "event_number": 0})) for name, t in tables for row in t.to_pylist())


@pytest.mark.parametrize("block", range(2))
def test_engines_of_slots_do_together_what_one_does(block: int) -> None:
    several = [same(generate(seed), seed) > 1 for seed in range(block * 30, block * 30 + 30)]
    assert sum(several) > 20


@pytest.mark.parametrize("block", range(2))
def test_so_they_do_with_all_kinds_of_classes(block: int) -> None:
    several = [same(generate_mixed(seed), seed) > 1 for seed in range(block * 40, block * 40 + 40)]
    assert any(several)


def test_slots_of_a_program_are_buckets_of_shards() -> None:
    slots = slots_of(compile(CLASSES), 4)
    assert len(slots) == 8
    assert [slots.shard_of(slot) for slot in range(8)] == [0] * 4 + [1] * 4
