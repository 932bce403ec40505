"""Random programs: they compile, the reference comes to an end, triggers fire; and laws of all that it says of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from augury.algebra.rule import InOrder, Policy, Returned, RuleCall, SideBySide, Structure
from augury.kernels.reference.bitemporal import run
from augury.kernels.reference.triggers import Firing, Outcome, Posted, Refusal, Triggered
from tests.triggers.generate import Generated, calls_in, generate

SEEDS = range(45)


@cache
def ran(seed: int) -> tuple[Generated, Triggered]:
    made = generate(seed)
    return made, made.run()


def depth(structure: Structure) -> int:
    match structure:
        case RuleCall():
            return 0
        case InOrder(steps=parts) | SideBySide(branches=parts):
            return 1 + max(map(depth, parts))


def posts(firing: Firing) -> list[Posted]:
    return [deed for call in firing.calls for deed in call.deeds if isinstance(deed, Posted)]


def test_a_seed_gives_one_case() -> None:
    one, other = generate(7), generate(7)
    assert (one.text, one.raws, one.until, one.turns) == (other.text, other.raws, other.until, other.turns)
    assert one.text != generate(8).text


def test_programs_have_everything() -> None:
    triggers = [trigger for seed in SEEDS for trigger in ran(seed)[0].program.triggers]
    composites = [trigger.composite for trigger in triggers if trigger.composite is not None]
    assert len({composite.context for composite in composites}) == 5
    assert {(bool(trigger.events), trigger.composite is not None) for trigger in triggers} == {
        (True, True),
        (True, False),
        (False, True),
    }
    assert {depth(trigger.structure) for trigger in triggers} == {0, 1, 2, 3}
    assert {trigger.policy for trigger in triggers} == set(Policy)


def test_triggers_fire_in_a_good_share_of_cases() -> None:
    found = [firing for seed in SEEDS for firing in ran(seed)[1].firings]
    assert sum(bool(ran(seed)[1].firings) for seed in SEEDS) >= len(SEEDS) / 2
    assert sum(any(map(posts, ran(seed)[1].firings)) for seed in SEEDS) >= len(SEEDS) / 4
    outcomes = Counter(call.outcome for firing in found for call in firing.calls)
    assert outcomes.keys() == set(Outcome)
    refused = Counter(one.refused for firing in found for one in posts(firing))
    assert {None, Refusal.DUPLICATE, Refusal.IMMUTABLE, Refusal.NO_KEY, Refusal.TOO_DEEP} <= refused.keys()
    assert any(firing.event_class is None for firing in found), "the clock never triggers"
    assert any(call.failed for firing in found for call in firing.calls)
    assert any(firing.returned is not None for firing in found)


def test_rules_take_what_earlier_ones_gave_back() -> None:
    taken = Counter(
        value is not None
        for seed in SEEDS
        for made, found in [ran(seed)]
        for firing in found.firings
        for trigger in made.program.triggers
        # What replaced a trigger while it ran is another one, under a name that may be the same.
        if trigger.name == firing.trigger and not made.turns
        for written, call in zip(calls_in(trigger.structure), firing.calls, strict=True)
        if call.outcome in (Outcome.HELD, Outcome.NOT_HELD)
        for argument, value in zip(written.arguments, call.arguments, strict=True)
        if isinstance(argument, Returned)
    )
    assert taken[True] >= 20
    assert taken[False] >= 20


@pytest.mark.parametrize("seed", SEEDS[:30])
def test_what_was_told_stays_true_when_more_is_known(seed: int) -> None:
    made, whole = ran(seed)
    ticks = [tick.tick for tick in whole.run.ticks if tick.read]
    for tick in ticks[: len(ticks) // 2 + 1][-1:]:
        early = tuple(raw for raw in made.raws if (raw.det_time or 0) < tick)
        part = replace(made, raws=early, until=tick).run()
        assert list(map(untold, part.firings)) == [untold(one) for one in whole.firings if one.now <= tick], made.text


def untold(firing: Firing) -> Firing:
    """A firing without what becomes of its posts, which may be read by the next tick only."""
    calls = (
        replace(
            call,
            deeds=tuple(
                replace(deed, seq=None, refused=None) if isinstance(deed, Posted) else deed for deed in call.deeds
            ),
        )
        for call in firing.calls
    )
    return replace(firing, calls=tuple(calls))


def test_what_is_posted_is_read_and_nothing_else_changes() -> None:
    for seed in SEEDS:
        made, found = ran(seed)
        versions = {version.seq: version for tick in found.run.ticks for version in tick.read}
        assert list(versions) == list(range(1, len(versions) + 1))
        read = [one for firing in found.firings for one in posts(firing) if one.seq is not None]
        for one in read:
            version = versions[one.seq]
            assert (version.event_class, version.values) == (one.event_class, one.values)
            assert version.occ_time == version.det_time == one.det_time
        if not any(map(posts, found.firings)):
            assert found.run == run(made.program, made.selects, made.raws, made.until)


def test_firings_stand_in_the_order_of_what_happens() -> None:
    for seed in SEEDS:
        _, found = ran(seed)
        times = [firing.det_time for firing in found.firings]
        assert times == sorted(times)
        for firing in found.firings:
            assert list(firing.constituents) == sorted(set(firing.constituents))
            assert firing.constituents
            made = [one for one in posts(firing) if one.seq is not None]
            assert [one.seq for one in made] == sorted(one.seq for one in made if one.seq is not None)
            assert all(firing.seq is None or one.seq is None or one.seq > firing.seq for one in made)
