"""What judges histories with posts in them agrees with the reference, and notices what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from augury.kernels.firing import Posted
from augury.kernels.reference.bitemporal import Raw
from augury.kernels.reference.triggers import Triggered
from tests.triggers.claimed import Claim, judged
from tests.triggers.generate import Generated, generate


def posted_in(found: Triggered) -> list[Posted]:
    return [deed for one in found.firings for call in one.calls for deed in call.deeds if isinstance(deed, Posted)]


def claims_of(made: Generated, found: Triggered) -> list[Claim]:
    """What was read, but for the clock's own events, which come by themselves."""
    posts = {one.seq for one in posted_in(found)}
    clocks = {plan.event_class.name for plan in made.program.classes} - {raw.event_class for raw in made.raws}
    return [
        Claim(Raw(one.event_class, one.values, one.occ_time, one.det_time, one.event_id), one.seq in posts)
        for tick in found.run.ticks
        for one in tick.read
        if one.seq in posts or one.event_class not in clocks
    ]


SEEDS = (5, 10, 35, 46, 49, 50, 69, 76, 84, 107, 113, 116)
"""Of cases in which rules post; most of others have posts that are refused or left for later."""


def cases() -> Iterator[tuple[Generated, Triggered, list[Claim]]]:
    """Cases in which rules post, and nothing that they post is refused or left for later."""
    for seed in SEEDS:
        made = generate(seed, turns=False)
        found = made.run()
        posts = posted_in(found)
        if posts and all(one.seq is not None for one in posts):
            yield made, found, claims_of(made, found)


def test_a_true_claim_is_what_the_reference_says() -> None:
    count = 0
    for made, found, claims in cases():
        claimed = judged(made.program, claims, made.until, made.functions, made.depth_max)
        assert claimed.firings == found.firings, made.text
        assert [one.published for one in claimed.run.ticks] == [one.published for one in found.run.ticks], made.text
        count += 1
    assert count > 3


def test_a_false_claim_is_noticed() -> None:
    seen: Counter[str] = Counter()
    for made, _, claims in cases():
        at = next(number for number, claim in enumerate(claims) if claim.is_posted)
        post = claims[at]
        outside = next((n for n, claim in enumerate(claims) if n > at and not claim.is_posted), None)
        wrong = {
            "missing": claims[:at] + claims[at + 1 :],
            "twice": [*claims[: at + 1], post, *claims[at + 1 :]],
            "other": [
                *claims[:at],
                replace(post, raw=replace(post.raw, values=(99, *post.raw.values[1:]))),
                *claims[at + 1 :],
            ],
        }
        if outside is not None and claims[outside].raw.det_time == post.raw.det_time:
            wrong["late"] = [*claims[:at], *claims[at + 1 : outside + 1], post, *claims[outside + 1 :]]
        for what, told in wrong.items():
            with pytest.raises(AssertionError):
                judged(made.program, told, made.until, made.functions, made.depth_max)
            seen[what] += 1
    assert min(seen["missing"], seen["late"]) > 0, seen
